//! While a dump is loaded as it arrives: what clients are told, and what happens when it does not
//! end.

use testkit::{Client, Launch, Medium, Server};

use super::fake::{Fake, Peer, dump, header, long_dump, marked_header};
use super::{check_equal, follow, info, quiet, redis, volatile};
use super::{wait_for_link, wait_for_log, wait_for_reply, wait_until};

const LOADING: &str = "(error) LOADING Redis is loading the dataset in memory";

/// Starts a server with data that it drops for a dump, and that follows a fake, which sends half of
/// one.
fn start(launch: Launch, whole: &[u8]) -> (Server, Client, Fake, Peer) {
    let server = launch.args(["--repl-diskless-load", "flush-before-load"]).start();
    let mut client = server.client();
    client.check("MSET own 1 a old", "OK");
    client.check("SELECT 4", "OK");
    client.check("SET own 4", "OK");
    client.check("SELECT 0", "OK");
    let fake = Fake::listen();
    follow(&mut client, fake.port());
    let (mut peer, _) = fake.accept_psync();
    peer.send(&header(500, whole.len()));
    peer.send(&whole[..whole.len() / 2]);
    wait_for_reply(&mut client, "PING", LOADING);
    wait_for_log(&server, "Loading DB in memory");
    (server, client, fake, peer)
}

#[test]
fn commands_on_data_are_refused_and_others_are_answered() {
    let whole = long_dump();
    let (server, mut client, _fake, mut peer) = start(volatile(), &whole);
    for line in ["GET own", "DBSIZE", "EVAL \"return 1\" 0"] {
        client.check(line, LOADING);
    }
    client.check("MULTI", "OK");
    client.check("GET own", LOADING);
    client.check("EXEC", "(error) EXECABORT Transaction discarded because of previous errors.");
    client.check("ECHO x", "\"x\"");
    client.check("CONFIG GET port", &format!("[\"port\", \"{}\"]", server.port()));
    let fields = client.info("replication");
    assert_eq!(fields["master_link_status"], "down");
    assert_eq!(fields["master_sync_in_progress"], "1");
    assert_eq!(fields["master_sync_total_bytes"], whole.len().to_string());
    assert_eq!(client.info("persistence")["loading"], "1");
    assert!(client.run("ROLE").to_string().contains("\"sync\""));
    // A replica of it has to wait.
    let sub = volatile().start();
    follow(&mut sub.client(), server.port());
    wait_for_log(&sub, "LOADING");
    peer.send(&whole[whole.len() / 2..]);
    wait_for_reply(&mut client, "DBSIZE", "(integer) 2000");
    wait_for_link(&mut sub.client());
    sub.client().check("DBSIZE", "(integer) 2000");
    assert_eq!(client.info("persistence")["loading"], "0");
    peer.send_commands(&["SELECT 0", "SET a 1"]);
    wait_for_reply(&mut sub.client(), "GET a", "\"1\"");
}

#[test]
fn a_client_that_waits_for_a_key_stays_while_a_dump_is_loaded() {
    let whole = long_dump();
    let server = volatile().start();
    let fake = Fake::listen();
    follow(&mut server.client(), fake.port());
    let mut peer = fake.synchronize(&whole, 5);
    let mut reader = server.client();
    reader.send(&["XREAD", "BLOCK", "0", "STREAMS", "x", "$"]).expect("sent");
    let mut client = server.client();
    wait_until("it does not wait", || client.info("clients")["blocked_clients"] == "1");
    peer.send(b"junk");
    peer.wait_for_end();
    // The next dump comes while it waits.
    let mut peer = fake.synchronize(&whole, 9000);
    peer.send_commands(&["SELECT 0", "XADD x 1-1 f v"]);
    let reply = reader.receive().expect("a reply").to_string();
    assert_eq!(reply, "[[\"x\", [[\"1-1\", [\"f\", \"v\"]]]]]");
}

#[test]
fn replicaof_no_one_after_half_a_dump_leaves_an_empty_primary() {
    let whole = long_dump();
    let (server, mut client, _fake, peer) = start(volatile(), &whole);
    // As with redis-server: a dump that is being loaded is not given up.
    client.check("REPLICAOF NO ONE", LOADING);
    drop(peer);
    wait_for_reply(&mut client, "REPLICAOF NO ONE", "OK");
    client.check("DBSIZE", "(integer) 0");
    client.check("SET a 1", "OK");
    assert_eq!(info(&mut client, "role"), "master");
    assert!(server.log().contains("MASTER MODE enabled"));
    // Another primary in place of the first.
    let (_server, mut client, _fake, peer) = start(volatile(), &whole);
    let primary = redis().start();
    let mut other = primary.client();
    other.check("SET theirs 1", "OK");
    drop(peer);
    let line = format!("REPLICAOF 127.0.0.1 {}", primary.port());
    wait_for_reply(&mut client, &line, "OK");
    wait_for_link(&mut client);
    check_equal(&mut other, &mut client);
}

#[test]
fn the_end_of_the_server_is_not_held_up() {
    let whole = long_dump();
    let (mut server, _client, _fake, mut peer) = start(volatile(), &whole);
    assert!(server.terminate().success());
    peer.wait_for_end();
}

#[test]
fn a_kill_leaves_no_half_of_the_data() {
    let whole = long_dump();
    let journal = quiet(Launch::perdura_journal("everysec")).args(["--journal-size", "16mb"]);
    let pools = [quiet(Launch::perdura_pmem()).on(Medium::Memory), journal];
    for (launch, is_pool) in pools.into_iter().map(|launch| (launch, true)).chain([
        (quiet(Launch::perdura_aof("always")), false),
        (volatile().args(["--save", "1 1000000"]), false),
    ]) {
        let (mut server, mut client, _fake, peer) = start(launch, &whole);
        // What no reply has waited for may still be on its way to the journal's file.
        wait_until("the journal is not synced", || {
            let info = client.info("persistence");
            info.get("journal_unsynced_bytes").is_none_or(|bytes| bytes == "0")
        });
        server.kill();
        drop(peer);
        server.start_again();
        let mut client = server.client();
        assert_eq!(info(&mut client, "role"), "master");
        // All of the old data, or nothing.
        let size = client.run("DBSIZE").to_string();
        assert!(!is_pool || size == "(integer) 0", "{size}");
        match size.as_str() {
            "(integer) 2" => client.check("MGET own a", "[\"1\", \"old\"]"),
            size => assert_eq!(size, "(integer) 0", "{}", server.log()),
        }
        client.check("SELECT 4", "OK");
        let other = if size == "(integer) 2" { "\"4\"" } else { "(nil)" };
        client.check("GET own", other);
        if is_pool {
            let said = "The server ended while it received a primary's data: that is dropped";
            assert!(server.log().contains(said), "{}", server.log());
        }
        // What is written from now on is kept.
        client.check("SET new 1", "OK");
        client.check("GET new", "\"1\"");
        if is_pool {
            server.crash();
            let mut client = server.client();
            client.check("SELECT 4", "OK");
            client.check("GET new", "\"1\"");
            assert!(!server.log().contains("received a primary's data"), "{}", server.log());
        }
    }
}

#[test]
fn a_dump_with_a_mark_may_contain_most_of_the_mark() {
    let mark = super::fake::MARK;
    let almost = format!("{}{}", &mark[..39], &mark[..39]);
    let whole = dump(&["SET a 1", &format!("SET almost {almost}")]);
    let server = volatile().start();
    let mut client = server.client();
    let fake = Fake::listen();
    follow(&mut client, fake.port());
    let (mut peer, _) = fake.accept_psync();
    peer.send(&marked_header(500));
    for byte in whole.iter().chain(mark.as_bytes()) {
        peer.send(&[*byte]);
    }
    peer.wait_for_acknowledgement(500);
    client.check("GET almost", &format!("\"{almost}\""));
    assert_eq!(info(&mut client, "master_sync_in_progress"), "0");
}
