//! SYNC: a dump over the connection, as redis-cli and backups ask for it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use testkit::{Client, Launch};

use crate::save::{check_rdb, digest, populate, populate_large};

#[test]
fn redis_cli_gets_a_dump_that_redis_loads() {
    for launch in [Launch::perdura_pmem(), Launch::perdura_volatile()] {
        let server = launch.start();
        let mut client = server.client();
        populate(&mut client);
        populate_large(&mut client);
        let folder = testkit::Medium::Disk.scratch();
        let file = folder.path().join("dump.rdb");
        let mut command = Command::new("redis-cli");
        let port = server.port().to_string();
        let said = command.args(["-p", &port, "--rdb"]).arg(&file).output().expect("redis-cli");
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.status.success(), "{text}");
        check_rdb(&file);
        // The two programs compute digests differently.
        let (redis, original) = (Launch::redis().start_in(folder), Launch::redis().start());
        populate(&mut original.client());
        populate_large(&mut original.client());
        assert_eq!(digest(&mut redis.client()), digest(&mut original.client()));
        // It does not count as a save.
        assert_eq!(client.info("persistence")["rdb_bgsave_in_progress"], "0");
        assert_eq!(client.info("persistence")["rdb_saves"], "0");
    }
}

/// Sends these lines, and reads this many bytes.
fn begin(port: u16, lines: &str, read: usize) -> (TcpStream, Vec<u8>) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    stream.write_all(lines.as_bytes()).expect("it is sent");
    let mut bytes = vec![0; read];
    stream.read_exact(&mut bytes).expect("an answer");
    (stream, bytes)
}

const ASK: &str = "REPLCONF capa eof rdb-only 1\r\nSYNC\r\n";

#[test]
fn the_dump_follows_what_was_sent_before_and_ends_with_its_mark() {
    let server = Launch::perdura_volatile().start();
    server.client().check("SET key value", "OK");
    let (mut stream, head) = begin(server.port(), &format!("PING\r\n{ASK}PING\r\n"), 59);
    let head = String::from_utf8(head).expect("text");
    let mark = head.strip_prefix("+PONG\r\n+OK\r\n$EOF:").expect(&head).trim_end().to_owned();
    assert_eq!(mark.len(), 40);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the server ends it");
    assert!(rest.starts_with(b"REDIS0010"), "{rest:?}");
    assert!(rest.ends_with(mark.as_bytes()), "{rest:?}");
    server.client().check("PING", "PONG");
}

#[test]
fn a_client_that_takes_nothing_holds_up_neither_others_nor_the_end() {
    let mut server = Launch::perdura_volatile().start();
    let mut client = server.client();
    client.check("CONFIG SET rdbcompression no", "OK");
    for i in 0..40 {
        let value = format!("{i}").repeat(1 << 20);
        assert!(client.call(&["SET", &format!("key:{i}"), &value]).is_ok());
    }
    // More than the sockets hold, so that the server has to wait for them.
    let stalled: Vec<_> = (0..16).map(|_| begin(server.port(), ASK, 5)).collect();
    let are_here =
        |client: &mut Client| client.run("CLIENT LIST").text().matches("cmd=sync").count() == 16;
    assert!((0..100_000).any(|_| are_here(&mut client)), "sixteen wait for a dump");
    while client.info("persistence")["rdb_bgsave_in_progress"] != "1" {}
    client.check("BGSAVE", "(error) ERR Background save already in progress");
    client.check("SET other x", "OK");
    client.check("GET other", "\"x\"");
    let (_, last) = begin(server.port(), ASK, 10);
    assert_eq!(last, b"+OK\r\n-ERR ");
    assert!(server.terminate().success());
    assert!(server.log().contains("Sending a dump to a client failed"), "{}", server.log());
    drop(stalled);
}

#[test]
fn a_client_that_goes_away_ends_its_dump() {
    let server = Launch::perdura_volatile().start();
    let mut client = server.client();
    client.check("CONFIG SET rdb-key-save-delay 50000 rdbcompression no", "OK");
    for i in 0..1000 {
        assert!(client.call(&["SET", &format!("key:{i}"), &"x".repeat(10_000)]).is_ok());
    }
    let (stream, _) = begin(server.port(), ASK, 10);
    while client.info("persistence")["rdb_bgsave_in_progress"] != "1" {}
    let id = client.run("CLIENT LIST").text();
    let id = id.lines().find(|line| line.contains("cmd=sync")).expect(&id);
    let id = id.split(' ').next().and_then(|id| id.strip_prefix("id=")).expect("an id");
    client.check(&format!("CLIENT KILL ID {id}"), "(integer) 1");
    client.check("CONFIG SET rdb-key-save-delay 0", "OK");
    while client.info("persistence")["rdb_bgsave_in_progress"] != "0" {}
    drop(stream);
}

#[test]
fn a_dump_that_has_begun_is_sent_to_its_end_unless_its_user_is_deleted() {
    let server = Launch::perdura_volatile().start();
    let mut client = server.client();
    client.check("CONFIG SET rdbcompression no", "OK");
    // More than the sockets hold, some 37 MB here, so that the server waits for the reader.
    for i in 0..32 {
        client.check(&format!("SETRANGE key:{i} 4000000 x"), "(integer) 4000001");
    }
    let take = |change: &str| {
        let mut admin = server.client();
        admin.check("ACL SETUSER u on nopass ~* &* +@all", "OK");
        let ask = format!("AUTH u x\r\n{ASK}");
        let (mut stream, head) = begin(server.port(), &ask, 57);
        let head = String::from_utf8(head).expect("text");
        let mark = head.strip_prefix("+OK\r\n+OK\r\n$EOF:").expect(&head).trim_end().to_owned();
        assert_eq!(mark.len(), 40);
        assert_eq!(admin.info("persistence")["rdb_bgsave_in_progress"], "1", "still under way");
        assert!(!admin.run(change).is_error(), "{change}");
        let mut rest = Vec::new();
        // The connection of a deleted user may be reset.
        let _ = stream.read_to_end(&mut rest);
        rest.ends_with(mark.as_bytes()) && rest.len() > 128_000_000
    };
    assert!(take("ACL SETUSER u resetkeys -@all"), "a dump is of one moment, and of one right");
    assert!(take("ACL SETUSER u off"));
    assert!(!take("ACL DELUSER u"));
    while client.info("persistence")["rdb_bgsave_in_progress"] != "0" {}
}

/// Pairs of keys that a writer updates in rounds, setting each pair to the number of the round.
const PAIRS: usize = 300;

/// Returns the values of all pairs. They are of one moment if the values of each pair are equal,
/// and each is that of the pair before it or, once, of the previous round.
#[track_caller]
fn check_pairs(client: &mut Client) -> Vec<u64> {
    let number = |client: &mut Client, key: &str| -> u64 {
        client.run(&format!("GET {key}")).text().parse().expect("a number")
    };
    let pair = |i: usize| {
        let (a, b) = (number(client, &format!("a:{i}")), number(client, &format!("b:{i}")));
        assert_eq!(a, b, "pair {i}");
        a
    };
    let values: Vec<u64> = (0..PAIRS).map(pair).collect();
    let is_moment = values.is_sorted_by(|one, next| one >= next);
    assert!(is_moment && values[0] - values[PAIRS - 1] <= 1, "{values:?}");
    values
}

#[test]
fn a_dump_that_is_sent_while_the_log_is_rewritten_is_whole_and_of_one_moment() {
    let mut server = Launch::perdura_aof("everysec").args(["--save", ""]).start();
    let mut client = server.client();
    let write = |client: &mut Client, i: usize, round: u64| {
        client.check(&format!("MSET a:{i} {round} b:{i} {round}"), "OK");
    };
    (0..PAIRS).for_each(|i| write(&mut client, i, 0));
    client.check("CONFIG SET rdb-key-save-delay 10000000", "OK");
    client.check("BGREWRITEAOF", "Background append only file rewriting started");
    while client.info("persistence")["aof_rewrite_in_progress"] != "1" {}
    let (mut stream, head) = begin(server.port(), ASK, 52);
    let head = String::from_utf8(head).expect("text");
    let mark = head.strip_prefix("+OK\r\n$EOF:").expect(&head).trim_end().to_owned();
    let info = client.info("persistence");
    let both = ["aof_rewrite_in_progress", "rdb_bgsave_in_progress"].map(|name| info[name].clone());
    assert_eq!(both, ["1", "1"], "they overlap");
    // Both take about a second from now on.
    client.check("CONFIG SET rdb-key-save-delay 2000", "OK");
    let reader = std::thread::spawn(move || {
        let mut dump = Vec::new();
        stream.read_to_end(&mut dump).expect("the server ends it");
        dump
    });
    let mut round = 0;
    while !reader.is_finished() {
        round += 1;
        (0..PAIRS).for_each(|i| write(&mut client, i, round));
    }
    assert!(round > 1, "the writer goes on meanwhile");
    let dump = reader.join().expect("it reads");
    let dump = dump.strip_suffix(mark.as_bytes()).expect("the mark ends it");
    let folder = testkit::Medium::Disk.scratch();
    std::fs::write(folder.path().join("dump.rdb"), dump).expect("written");
    check_rdb(&folder.path().join("dump.rdb"));
    let redis = Launch::redis().start_in(folder);
    redis.client().check("DBSIZE", &format!("(integer) {}", 2 * PAIRS));
    assert!(check_pairs(&mut redis.client())[0] < round, "of a moment before the end");
    // The log is complete too.
    client.check("CONFIG SET rdb-key-save-delay 0", "OK");
    while client.info("persistence")["aof_rewrite_in_progress"] != "0" {}
    assert_eq!(client.info("persistence")["aof_last_bgrewrite_status"], "ok");
    server.kill();
    server.start_again();
    assert_eq!(check_pairs(&mut server.client()), [round; PAIRS]);
}
