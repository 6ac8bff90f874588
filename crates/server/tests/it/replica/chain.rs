//! Replicas of replicas: what a replica has received it passes on byte by byte, so that all of a
//! chain have the same history.

use testkit::{Client, Launch, Server};

use super::writes::{wait_for_bytes, while_writing};
use super::{check_equal, count_in_log, digest, info, quiet, redis, start_replica, volatile};
use super::{wait_for_link, wait_until};

/// Checks that the last of a chain has all.
#[track_caller]
fn check_chain(primary: &mut Client, chain: &[&Server]) {
    for server in chain {
        check_equal(primary, &mut server.client());
    }
    let ids = chain.iter().map(|server| info(&mut server.client(), "master_replid"));
    let first = info(primary, "master_replid");
    assert!(ids.into_iter().all(|id| id == first), "all have one history");
}

fn check(first: Launch, second: Launch, third: Launch) {
    let primary = first.start();
    let mut client = primary.client();
    client.check("SET before 1", "OK");
    let middle = start_replica(second, &primary);
    // The next replica gets a dump while the stream has another database selected.
    client.check("SELECT 7", "OK");
    client.check("SET seven 1", "OK");
    check_equal(&mut client, &mut middle.client());
    let last = start_replica(third, &middle);
    client.check("SET seven 2", "OK");
    client.check("INCR seven", "(integer) 3");
    check_chain(&mut client, &[&middle, &last]);
    let mut reader = last.client();
    reader.check("SELECT 7", "OK");
    reader.check("GET seven", "\"3\"");
    while_writing(&primary, || {
        wait_for_bytes(&mut client, 200_000);
        // A link in the middle is cut: the last one does not notice, or continues.
        client.check("CLIENT KILL TYPE replica", "(integer) 1");
        wait_for_bytes(&mut client, 50_000);
        wait_for_link(&mut middle.client());
        middle.client().check("CLIENT KILL TYPE replica", "(integer) 1");
        wait_for_bytes(&mut client, 50_000);
    });
    client.check("SET after 1", "OK");
    check_chain(&mut client, &[&middle, &last]);
    for server in [&middle, &last] {
        assert_eq!(count_in_log(server, "Full resync from master"), 1, "{}", server.log());
        assert!(count_in_log(server, "Successful partial resync") >= 1, "{}", server.log());
    }
}

#[test]
fn redis_then_perdura_then_redis() {
    check(redis(), volatile(), redis());
}

#[test]
fn perdura_then_perdura_then_perdura() {
    check(volatile(), volatile(), volatile());
}

#[test]
fn perdura_then_redis_then_perdura() {
    check(volatile(), redis(), volatile());
}

#[test]
fn a_chain_on_all_backends() {
    let journal = quiet(Launch::perdura_journal("everysec")).args(["--journal-size", "16mb"]);
    check(quiet(Launch::perdura_aof("everysec")), journal, quiet(Launch::perdura_pmem()));
}

#[test]
fn a_full_synchronization_in_the_middle_reaches_the_last() {
    let (first, second) = (volatile().start(), redis().start());
    first.client().check("MSET a 1 b 1", "OK");
    second.client().check("MSET b 2 c 2", "OK");
    let middle = start_replica(volatile(), &first);
    let last = start_replica(volatile(), &middle);
    check_chain(&mut first.client(), &[&middle, &last]);
    super::follow(&mut middle.client(), second.port());
    wait_until("the last one has other data", || {
        digest(&mut second.client()) == digest(&mut last.client())
    });
    second.client().check("SET d 2", "OK");
    check_chain(&mut second.client(), &[&middle, &last]);
    last.client().check("EXISTS a", "(integer) 0");
}

#[test]
fn a_replica_whose_link_is_down_serves_no_replicas() {
    let middle = volatile().start();
    let closed = testkit::free_port();
    middle.client().check("SET own 1", "OK");
    super::follow(&mut middle.client(), closed);
    middle
        .client()
        .check("PSYNC ? -1", "(error) NOMASTERLINK Can't SYNC while not connected with my master");
    let last = volatile().start();
    super::follow(&mut last.client(), middle.port());
    super::wait_for_log(&last, "cannot serve replicas now: NOMASTERLINK");
    // When it has one the other comes by itself.
    middle.client().check("REPLICAOF NO ONE", "OK");
    wait_for_link(&mut last.client());
    check_equal(&mut middle.client(), &mut last.client());
}

#[test]
fn a_replica_ahead_of_the_middle_is_to_ask_again() {
    let primary = volatile().start();
    primary.client().check("SET before 1", "OK");
    let middle = start_replica(volatile(), &primary);
    let mut client = middle.client();
    let id = info(&mut client, "master_replid");
    let ahead = format!("PSYNC {id} 100000");
    let behind = "(error) NOMASTERLINK Can't SYNC while my master still has to send what you have";
    client.check(&ahead, behind);
    client.check(&ahead, behind);
    // As a primary it gets nothing from anybody.
    client.check("REPLICAOF NO ONE", "OK");
    let mut other = middle.client();
    assert!(other.run(&ahead).text().starts_with("FULLRESYNC "));
}
