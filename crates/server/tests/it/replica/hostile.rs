//! Primaries that send garbage: the log says what was wrong, little memory is taken, old data is
//! kept until a dump is there, and the next primary that is in order is followed.

use testkit::{Client, Launch, Server};

use super::fake::{Fake, ID, MARK, commands, dump, header, marked_header};
use super::{check_equal, follow, info, quiet, redis, volatile};
use super::{wait_for_link, wait_for_log, wait_for_reply, wait_until};

/// Returns the memory of a process, in MiB.
fn memory(server: &Server) -> u64 {
    let path = format!("/proc/{}/status", server.pid());
    let text = std::fs::read_to_string(path).expect("a process");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a maximum");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") >> 10
}

/// Starts a server with data, which follows a fake.
fn start(launch: Launch) -> (Server, Client, Fake) {
    let server = launch.start();
    let mut client = server.client();
    client.check("SET own 1", "OK");
    let fake = Fake::listen();
    follow(&mut client, fake.port());
    (server, client, fake)
}

/// Lets the server follow the fake once more, without the pause after a failure.
#[track_caller]
fn again(client: &mut Client, fake: &Fake) {
    wait_for_reply(client, "REPLICAOF NO ONE", "OK");
    follow(client, fake.port());
}

/// Follows a primary that is in order.
#[track_caller]
fn check_recovers(client: &mut Client) {
    let primary = redis().start();
    let mut other = primary.client();
    other.check("SET theirs 1", "OK");
    follow(client, primary.port());
    wait_for_link(client);
    check_equal(&mut other, client);
    client.check("EXISTS own", "(integer) 0");
}

#[test]
fn old_data_is_kept_while_there_is_no_dump() {
    let (server, mut client, fake) = start(volatile());
    let answers = [
        ("+FULLRESYNC\r\n".to_owned(), "answer to PSYNC is none that a primary gives: FULLRESYNC"),
        (format!("+FULLRESYNC {ID} -5\r\n"), "none that a primary gives: FULLRESYNC"),
        (format!("+FULLRESYNC {ID} 99999999999999999999\r\n"), "none that a primary gives: FULL"),
        ("+FULLRESYNC xyz 5\r\n".to_owned(), "none that a primary gives: FULLRESYNC xyz 5"),
        (format!("+CONTINUE {ID}\r\n"), "none that a primary gives: CONTINUE"),
        (format!("+FULLRESYNC {ID} 5\r\n$-7\r\n"), "the primary sent no dump, but: $-7"),
        (format!("+FULLRESYNC {ID} 5\r\n$99999999999999999999\r\n"), "sent no dump, but: $999"),
        (format!("+FULLRESYNC {ID} 5\r\n$EOF:short\r\n"), "the primary sent no dump, but: $EOF"),
        (format!("+FULLRESYNC {ID} 5\r\n-ERR no disk\r\n"), "sends no dump: ERR no disk"),
        (format!("+FULLRESYNC {ID} 5\r\n{}", "x".repeat(4096)), "no end in its first KiB"),
        (format!("+FULLRESYNC {ID} 5\r\n\n\n\n"), "end of file"),
    ];
    for (answer, line) in answers {
        let (mut peer, asked) = fake.accept_psync();
        assert_eq!(asked, ["PSYNC", "?", "-1"]);
        peer.send(answer.as_bytes());
        if line == "end of file" {
            drop(peer);
        } else {
            peer.wait_for_end();
        }
        wait_for_log(&server, line);
        client.check("GET own", "\"1\"");
    }
    assert!(!server.log().contains("Flushing old data"), "{}", server.log());
    check_recovers(&mut client);
}

#[test]
fn a_dump_that_ends_anywhere_leaves_nothing() {
    let lines =
        ["SET a 1", "RPUSH l a b c", "HSET h f v", "SELECT 2", "ZADD z 1 a", "XADD x 1-1 f v"];
    let whole = dump(&lines);
    let aof = quiet(Launch::perdura_aof("everysec"));
    for launch in [volatile(), aof, quiet(Launch::perdura_pmem())] {
        let launch = launch.args(["--repl-diskless-load", "flush-before-load"]);
        let (server, mut client, fake) = start(launch);
        for (number, cut) in (0..whole.len()).step_by(23).chain([whole.len() - 1]).enumerate() {
            let (mut peer, _) = fake.accept_psync();
            match number % 2 {
                0 => peer.send(&header(5, whole.len())),
                _ => peer.send(&marked_header(5)),
            }
            peer.send(&whole[..cut]);
            drop(peer);
            let ends = || server.log().matches(" ended: ").count() > number;
            wait_until("the end is not noticed", ends);
            wait_for_reply(&mut client, "DBSIZE", "(integer) 0");
            client.check("PING", "PONG");
            if cut + 1 < whole.len() {
                again(&mut client, &fake);
            }
        }
        let (mut peer, asked) = fake.accept_psync();
        assert_eq!(asked, ["PSYNC", "?", "-1"], "it has no history after half a dump");
        peer.send(&header(70, whole.len()));
        peer.send(&whole);
        peer.wait_for_acknowledgement(70);
        client.check("DBSIZE", "(integer) 3");
        peer.send_commands(&["SELECT 0", "SET b 2"]);
        wait_for_reply(&mut client, "GET b", "\"2\"");
        drop(peer);
        check_recovers(&mut client);
    }
}

/// The data was dropped before the checksum at the end was compared.
#[test]
fn a_corrupt_dump_costs_nothing_where_the_data_stays_until_it_is_there() {
    let whole = dump(&["SET a 1", "RPUSH l a b c", "HSET h f v"]);
    for launch in [volatile(), quiet(Launch::perdura_aof("everysec"))] {
        let (server, mut client, fake) = start(launch);
        for (number, place) in places_of_damage(&whole).into_iter().enumerate() {
            let mut bytes = whole.clone();
            bytes[place] ^= 0x55;
            let (mut peer, asked) = fake.accept_psync();
            assert_eq!(asked, ["PSYNC", "?", "-1"]);
            match number % 2 {
                0 => peer.send(&header(5, bytes.len())),
                _ => {
                    peer.send(&marked_header(5));
                    bytes.extend_from_slice(MARK.as_bytes());
                }
            }
            peer.send(&bytes);
            peer.wait_for_end();
            let is_said = "its dump is damaged, and this server's data stays as it is";
            wait_until("nothing is said", || server.log().matches(is_said).count() > number);
            client.check("GET own", "\"1\"");
            client.check("DBSIZE", "(integer) 1");
            again(&mut client, &fake);
        }
        let mut peer = fake.synchronize(&whole, 5);
        client.check("DBSIZE", "(integer) 3");
        peer.send_commands(&["SELECT 0", "SET b 2"]);
        wait_for_reply(&mut client, "GET b", "\"2\"");
        assert_eq!(server.log().matches("Flushing old data").count(), 1);
    }
}

/// Returns places in the head of a dump, among its keys, at its end and in its checksum.
fn places_of_damage(dump: &[u8]) -> Vec<usize> {
    vec![0, 5, 9, dump.len() / 2, dump.len() - 9, dump.len() - 1]
}

#[test]
fn a_dump_that_is_corrupt_is_refused() {
    let whole = dump(&["SET a 1", "RPUSH l a b c", "HSET h f v"]);
    let drops_first = volatile().args(["--repl-diskless-load", "flush-before-load"]);
    let (server, mut client, fake) = start(drops_first);
    for place in places_of_damage(&whole) {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x55;
        let (mut peer, _) = fake.accept_psync();
        peer.send(&header(5, bytes.len()));
        let _ = peer.try_send(&bytes);
        peer.wait_for_end();
        wait_for_log(&server, "the dump could not be loaded");
        wait_for_reply(&mut client, "DBSIZE", "(integer) 0");
        again(&mut client, &fake);
    }
    // Values that say that they are very long.
    let value = |length: &[u8]| [&whole[..9], b"\0\x01a", length].concat();
    let (mut peer, _) = fake.accept_psync();
    peer.send(&header(5, 1 << 50));
    peer.send(&value(b"\x81\0\0\0\xff\0\0\0\0"));
    peer.wait_for_end();
    wait_for_reply(&mut client, "PING", "PONG");
    again(&mut client, &fake);
    let (mut peer, _) = fake.accept_psync();
    peer.send(&header(5, 1 << 50));
    peer.send(&value(b"\x80\x1e\0\0\0"));
    wait_for_reply(&mut client, "PING", "(error) LOADING Redis is loading the dataset in memory");
    drop(peer);
    let _ = fake.accept_psync();
    assert!(memory(&server) < 400, "{} MiB", memory(&server));
    check_recovers(&mut client);
}

#[test]
fn a_stream_that_is_no_stream_ends_the_link() {
    let whole = dump(&["SET a 1"]);
    let (server, mut client, fake) = start(volatile());
    let streams = [
        ("PING\r\n", "the primary's stream is corrupt: expected '*', got 'P'"),
        ("\u{0}\u{1}\u{2}", "the primary's stream is corrupt: expected '*'"),
        ("*1\r\n+OK\r\n", "the primary's stream is corrupt"),
        ("*-1\r\n", "the primary's stream is corrupt"),
        ("*99999999999\r\n", "the primary's stream is corrupt"),
        ("*1\r\n$99999999999\r\n", "has more than"),
        ("*1\r\n$-1\r\n", "the primary's stream is corrupt"),
        ("*1\r\n$3\r\nabcdef\r\n", "the primary's stream is corrupt"),
    ];
    for (stream, line) in streams {
        let before = server.log().matches(line).count();
        let mut peer = fake.synchronize(&whole, 100);
        peer.send_commands(&["SELECT 0", "SET before 1"]);
        wait_for_reply(&mut client, "GET before", "\"1\"");
        let offset = info(&mut client, "slave_repl_offset");
        peer.send(stream.as_bytes());
        peer.wait_for_end();
        wait_until(&format!("no line {line:?} for {stream:?}"), || {
            server.log().matches(line).count() > before
        });
        // What was in order before stays.
        client.check("GET before", "\"1\"");
        assert_eq!(info(&mut client, "slave_repl_offset"), offset);
        if stream != streams[streams.len() - 1].0 {
            again(&mut client, &fake);
        }
    }
    // Its place in the stream is not to be trusted.
    let (_, asked) = fake.accept_psync();
    assert_eq!(asked, ["PSYNC", "?", "-1"]);
    check_recovers(&mut client);
}

#[test]
fn a_command_that_never_ends_takes_as_much_memory_as_has_arrived() {
    let whole = dump(&["SET a 1"]);
    let (server, mut client, fake) = start(volatile());
    let mut peer = fake.synchronize(&whole, 100);
    let begun = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$500000000\r\nabc";
    peer.send(begun);
    wait_until("it does not arrive", || {
        let read = info(&mut client, "slave_read_repl_offset").parse::<u64>().expect("an offset");
        read == 100 + begun.len() as u64
    });
    assert!(memory(&server) < 300, "{} MiB", memory(&server));
    peer.wait_for_acknowledgement(100);
    drop(peer);
    let (_, asked) = fake.accept_psync();
    assert_eq!(asked, ["PSYNC", ID, "101"]);
    check_recovers(&mut client);
}

#[test]
fn a_transaction_without_an_end_has_no_effect() {
    let whole = dump(&["SET a 1"]);
    let (_server, mut client, fake) = start(volatile());
    let mut peer = fake.synchronize(&whole, 100);
    peer.send_commands(&["SELECT 0", "SET before 1"]);
    wait_for_reply(&mut client, "GET before", "\"1\"");
    let before = commands(&["SELECT 0", "SET before 1"]).len() as u64 + 100;
    peer.send_commands(&["MULTI", "SET a 2", "SET b 2"]);
    // It acknowledges nothing of it while it is open.
    peer.wait_for_acknowledgement(before);
    peer.wait_for_acknowledgement(before);
    drop(peer);
    let (mut peer, asked) = fake.accept_psync();
    assert_eq!(asked, ["PSYNC", ID, &(before + 1).to_string()]);
    client.check("MGET a b", "[\"1\", (nil)]");
    peer.send(format!("+CONTINUE {ID}\r\n").as_bytes());
    peer.send_commands(&["MULTI", "SET a 3", "SET b 3", "EXEC", "SET c 3"]);
    wait_for_reply(&mut client, "MGET a b c", "[\"3\", \"3\", \"3\"]");
    drop(peer);
    check_recovers(&mut client);
}

#[test]
fn a_command_that_fails_here_makes_all_data_be_asked_for() {
    let whole = dump(&["SET a 1"]);
    let (server, mut client, fake) = start(volatile());
    let failing = ["LPUSH a x", "NOSUCHCOMMAND a", "SET a", "EXEC", "GET"];
    for line in failing {
        let mut peer = fake.synchronize(&whole, 100);
        peer.send_commands(&["SELECT 0", line]);
        peer.wait_for_end();
        let name = line.split(' ').next().expect("a name");
        wait_for_log(&server, &format!("'{name}' of the primary fails: "));
        client.check("GET a", "\"1\"");
        if line != failing[failing.len() - 1] {
            again(&mut client, &fake);
        }
    }
    let (mut peer, asked) = fake.accept_psync();
    assert_eq!(asked, ["PSYNC", "?", "-1"]);
    // In a transaction too: nothing of it stays.
    peer.send(&header(100, whole.len()));
    peer.send(&whole);
    peer.send_commands(&["SELECT 0", "MULTI", "SET b 1", "LPUSH a x", "SET c 1", "EXEC"]);
    peer.wait_for_end();
    wait_for_log(&server, "'EXEC' of the primary fails: ");
    let (_, asked) = fake.accept_psync();
    assert_eq!(asked, ["PSYNC", "?", "-1"]);
    check_recovers(&mut client);
}

#[test]
fn a_primary_that_says_continue_under_another_id_is_followed_under_it() {
    let whole = dump(&["SET a 1"]);
    let (_server, mut client, fake) = start(volatile());
    let mut peer = fake.synchronize(&whole, 100);
    peer.send_commands(&["SELECT 3", "SET a 2"]);
    let end = 100 + commands(&["SELECT 3", "SET a 2"]).len() as u64;
    peer.wait_for_acknowledgement(end);
    drop(peer);
    let (mut peer, asked) = fake.accept_psync();
    assert_eq!(asked, ["PSYNC", ID, &(end + 1).to_string()]);
    let other = "f".repeat(40);
    peer.send(format!("+CONTINUE {other}\r\n").as_bytes());
    // Database 3 is still selected.
    peer.send_commands(&["SET b 2"]);
    client.check("SELECT 3", "OK");
    wait_for_reply(&mut client, "MGET a b", "[\"2\", \"2\"]");
    assert_eq!(info(&mut client, "master_replid"), other);
    assert_eq!(info(&mut client, "master_replid2"), ID);
    assert_eq!(info(&mut client, "second_repl_offset"), (end + 1).to_string());
    client.check("SELECT 0", "OK");
    drop(peer);
    check_recovers(&mut client);
}
