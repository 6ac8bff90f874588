//! A link that was cut: the replica continues at the byte where it was, and nothing is executed in
//! part or twice.

use std::time::Duration;

use testkit::{Client, Launch, Server};

use super::proxy::Proxy;
use super::writes::{wait_for_bytes, while_writing};
use super::{check_equal, count_in_log, follow, info, quiet, redis, start_replica, volatile};
use super::{wait_for_link, wait_for_log, wait_for_reply, wait_until};

const PARTIAL: &str = "Successful partial resynchronization with master.";
const FULL: &str = "Full resync from master";

/// Starts a replica that follows a primary through a proxy.
fn start_behind(launch: Launch, proxy: &Proxy) -> (Server, Client) {
    let server = launch.start();
    let mut client = server.client();
    follow(&mut client, proxy.port());
    wait_for_link(&mut client);
    (server, client)
}

fn end(client: &mut Client) -> u64 {
    info(client, "master_repl_offset").parse().expect("an offset")
}

/// Counts what INFO of redis-server counts: dumps, and links that continued.
#[track_caller]
fn check_counts(client: &mut Client, full: &str, partial: usize) {
    let stats = client.info("stats");
    assert_eq!(stats["sync_full"], full);
    assert_eq!(stats["sync_partial_ok"], partial.to_string());
}

fn check_cuts_under_load(primary: Launch, replica: Launch) {
    let primary = primary.args(["--repl-backlog-size", "64mb"]).start();
    let mut client = primary.client();
    client.check("SET before 1", "OK");
    let proxy = Proxy::to(primary.port());
    let (server, mut reader) = start_behind(replica, &proxy);
    while_writing(&primary, || {
        for (cut, bytes) in [1, 10, 1000, 33_333, 64 << 10].into_iter().enumerate() {
            proxy.cut_after(bytes);
            wait_until("the link is not cut", || proxy.cuts() == cut as u64 + 1);
            wait_for_bytes(&mut client, 10_000);
            let before = count_in_log(&server, PARTIAL);
            proxy.open();
            wait_until("it does not continue", || count_in_log(&server, PARTIAL) > before);
            wait_for_link(&mut reader);
        }
        let before = count_in_log(&server, PARTIAL);
        client.check("CLIENT KILL TYPE replica", "(integer) 1");
        wait_for_bytes(&mut client, 10_000);
        wait_until("the link is not there again", || count_in_log(&server, PARTIAL) > before);
    });
    client.check("SET after 1", "OK");
    check_equal(&mut client, &mut reader);
    let log = server.log();
    assert_eq!(log.matches(FULL).count(), 1, "{log}");
}

/// Lets a client of the replica end the link by these words, and waits until it continues.
#[track_caller]
fn check_kill(server: &Server, reader: &mut Client, line: &str, reply: &str) {
    let before = count_in_log(server, PARTIAL);
    reader.check(line, reply);
    wait_until("the link is not there again", || count_in_log(server, PARTIAL) > before);
    wait_for_link(reader);
}

#[test]
fn a_client_of_the_replica_ends_the_link_and_it_continues() {
    let primary = redis().start();
    primary.client().check("SET there 1", "OK");
    let (server, mut reader) = start_behind(volatile(), &Proxy::to(primary.port()));
    let list = reader.run("CLIENT LIST TYPE master").to_string();
    assert!(list.contains(" flags=M "), "{list}");
    let addr = list.split("addr=").nth(1).and_then(|rest| rest.split(' ').next());
    let addr = addr.unwrap_or_default();
    check_kill(&server, &mut reader, "CLIENT KILL TYPE master", "(integer) 1");
    check_kill(&server, &mut reader, &format!("CLIENT KILL {addr}"), "OK");
    check_equal(&mut primary.client(), &mut reader);
    reader.check("REPLICAOF NO ONE", "OK");
    wait_for_reply(&mut reader, "CLIENT KILL TYPE master", "(integer) 0");
}

#[test]
fn a_replica_that_was_stopped_keeps_its_link() {
    let primary = volatile().start();
    let mut client = primary.client();
    let server = start_replica(volatile(), &primary);
    for number in 0..3 {
        server.pause();
        client.check(&format!("SET k {number}"), "OK");
        std::thread::sleep(Duration::from_millis(300));
        server.resume();
        check_equal(&mut client, &mut server.client());
    }
    assert_eq!(count_in_log(&server, " ended: "), 0);
}

#[test]
fn a_replica_of_redis_continues_after_cuts_at_any_byte() {
    check_cuts_under_load(redis(), volatile());
}

#[test]
fn a_replica_of_perdura_continues_after_cuts_at_any_byte() {
    check_cuts_under_load(volatile(), volatile());
}

#[test]
fn a_replica_with_a_log_continues_after_cuts_at_any_byte() {
    check_cuts_under_load(redis(), quiet(Launch::perdura_aof("everysec")));
}

#[test]
fn a_replica_on_a_pool_with_a_journal_continues_after_cuts_at_any_byte() {
    let journal = || quiet(Launch::perdura_journal("everysec")).args(["--journal-size", "16mb"]);
    check_cuts_under_load(volatile(), journal());
}

#[test]
fn a_transaction_that_was_cut_is_executed_once_and_as_a_whole() {
    let primary = redis().start();
    let mut client = primary.client();
    client.check("MSET n 0 m 0", "OK");
    let proxy = Proxy::to(primary.port());
    let (server, mut reader) = start_behind(volatile(), &proxy);
    let transact = |client: &mut Client, number: usize| {
        client.check("MULTI", "OK");
        for line in ["INCR n", "INCR m", "RPUSH list"] {
            let line =
                if line == "RPUSH list" { format!("{line} {number:05}") } else { line.into() };
            client.check(&line, "QUEUED");
        }
        let reply = client.run("EXEC").to_string();
        let number = number + 1;
        assert_eq!(reply, format!("[(integer) {number}, (integer) {number}, (integer) {number}]"));
    };
    transact(&mut client, 0);
    wait_for_reply(&mut reader, "GET m", "\"1\"");
    // All transactions have the same length.
    let before = end(&mut client);
    transact(&mut client, 1);
    let length = end(&mut client) - before;
    wait_for_reply(&mut reader, "GET m", "\"2\"");
    let cuts = (1..length).step_by(7).chain([length - 1]);
    let mut number = 2;
    for cut in cuts {
        let at = end(&mut reader);
        let seen = proxy.cuts();
        proxy.cut_after(cut);
        transact(&mut client, number);
        wait_until("the link is not cut", || proxy.cuts() > seen);
        wait_until("the cut is not noticed", || info(&mut reader, "master_link_status") == "down");
        assert_eq!(end(&mut reader), at, "cut after {cut} bytes of {length}");
        reader.check("MGET n m", &format!("[\"{number}\", \"{number}\"]"));
        proxy.open();
        number += 1;
        wait_for_reply(&mut reader, "GET m", &format!("\"{number}\""));
        assert_eq!(end(&mut reader), at + length);
    }
    check_equal(&mut client, &mut reader);
    check_counts(&mut client, "1", number - 2);
    assert_eq!(count_in_log(&server, FULL), 1, "{}", server.log());
}

#[test]
fn what_is_no_longer_kept_is_had_by_a_full_synchronization() {
    for launch in [redis(), volatile()] {
        let primary = launch.args(["--repl-backlog-size", "16384"]).start();
        let mut client = primary.client();
        let proxy = Proxy::to(primary.port());
        let (server, mut reader) = start_behind(volatile(), &proxy);
        client.check("SET a 1", "OK");
        check_equal(&mut client, &mut reader);
        proxy.cut();
        // The replica must be gone, since what it lacks is kept for it.
        wait_until("it is still there", || info(&mut client, "connected_slaves") == "0");
        let value = "v".repeat(1000);
        for number in 0..500 {
            assert!(client.call(&["SET", &format!("key:{number}"), &value]).is_ok());
        }
        proxy.open();
        wait_until("no full synchronization", || count_in_log(&server, FULL) == 2);
        check_equal(&mut client, &mut reader);
        assert_eq!(count_in_log(&server, PARTIAL), 0);
    }
}

#[test]
fn a_primary_that_was_restarted_has_another_history() {
    let mut primary = quiet(Launch::perdura_aof("always")).start();
    primary.client().check("SET a 1", "OK");
    let replica = super::start_replica(volatile(), &primary);
    let mut reader = replica.client();
    primary.crash();
    let mut client = primary.client();
    client.check("SET b 2", "OK");
    wait_for_log(&replica, "ended: ");
    wait_for_reply(&mut reader, "GET b", "\"2\"");
    check_equal(&mut client, &mut reader);
    assert_eq!(count_in_log(&replica, PARTIAL), 0, "{}", replica.log());
}
