//! REPLICAOF NO ONE, and what others do then: the replicas of the new primary continue, and the old
//! primary becomes its replica without a dump.

use testkit::{Client, Launch, Server};

use super::writes::{wait_for_bytes, while_running, while_writing};
use super::{check_equal, count_in_log, follow, info, quiet, redis, start_replica, volatile};
use super::{wait_for_link, wait_for_reply, wait_until};

const PARTIAL: &str = "Successful partial resynchronization with master.";
const FULL: &str = "Full resync from master";
const NO_ID: &str = "0000000000000000000000000000000000000000";

/// Checks how often all data was received, and that the rest was at least so often. (redis-server
/// cuts links when it executes FLUSHALL while the process that wrote a dump has not ended.)
#[track_caller]
fn check_log(server: &Server, full: usize, partial: usize) {
    let log = server.log();
    assert_eq!(log.matches(FULL).count(), full, "{log}");
    assert!(log.matches(PARTIAL).count() >= partial, "{log}");
}

#[track_caller]
fn check_all(primary: &mut Client, replicas: [&Server; 3]) {
    for server in replicas {
        check_equal(primary, &mut server.client());
    }
}

fn check(first: Launch, second: Launch, others: [Launch; 2]) {
    let old = first.start();
    let mut client = old.client();
    client.check("SET before 1", "OK");
    let new = start_replica(second, &old);
    let others = others.map(|launch| start_replica(launch, &new));
    while_writing(&old, || wait_for_bytes(&mut client, 50_000));
    check_all(&mut client, [&new, &others[0], &others[1]]);
    // Without keys that expire the primary says nothing by itself.
    client.check("FLUSHALL", "OK");
    client.check("SELECT 5", "OK");
    client.check("SET five 1", "OK");
    check_all(&mut client, [&new, &others[0], &others[1]]);
    let (id, end) = (info(&mut client, "master_replid"), info(&mut client, "master_repl_offset"));
    let mut admin = new.client();
    assert_eq!(info(&mut admin, "master_replid2"), NO_ID);
    admin.check("REPLICAOF NO ONE", "OK");
    assert_eq!(info(&mut admin, "role"), "master");
    assert_ne!(info(&mut admin, "master_replid"), id);
    assert_eq!(info(&mut admin, "master_replid2"), id);
    let next = end.parse::<u64>().expect("an offset") + 1;
    assert_eq!(info(&mut admin, "second_repl_offset"), next.to_string());
    // Writes are taken at once; nothing says that the database of before is selected.
    admin.check("SET zero 1", "OK");
    for server in &others {
        wait_for_reply(&mut server.client(), "GET zero", "\"1\"");
        check_equal(&mut admin, &mut server.client());
        check_log(server, 1, 1);
    }
    // The old primary has nothing that the new one lacks.
    follow(&mut client, new.port());
    wait_for_link(&mut client);
    check_equal(&mut admin, &mut client);
    check_log(&old, 0, 1);
    assert_eq!(info(&mut client, "master_replid"), info(&mut admin, "master_replid"));
    while_writing(&new, || wait_for_bytes(&mut admin, 50_000));
    admin.check("SET after 1", "OK");
    check_all(&mut admin, [&old, &others[0], &others[1]]);
}

#[test]
fn a_replica_of_redis_becomes_the_primary() {
    check(redis(), volatile(), [redis(), volatile()]);
}

#[test]
fn a_replica_of_perdura_becomes_the_primary() {
    check(volatile(), volatile(), [redis(), volatile()]);
}

#[test]
fn a_replica_that_is_redis_becomes_the_primary() {
    check(volatile(), redis(), [volatile(), volatile()]);
}

#[test]
fn replicas_with_logs_and_pools_become_primaries() {
    let journal = || quiet(Launch::perdura_journal("everysec")).args(["--journal-size", "16mb"]);
    let aof = || quiet(Launch::perdura_aof("everysec"));
    check(aof(), journal(), [quiet(Launch::perdura_pmem()), aof()]);
    check(journal(), aof(), [journal(), volatile()]);
}

#[test]
fn an_old_primary_that_went_on_gets_all_data() {
    for launch in [redis(), volatile()] {
        let old = launch.start();
        let mut client = old.client();
        client.check("SET before 1", "OK");
        let new = start_replica(volatile(), &old);
        check_equal(&mut client, &mut new.client());
        let mut admin = new.client();
        admin.check("REPLICAOF NO ONE", "OK");
        admin.check("SET here 1", "OK");
        client.check("SET lost 1", "OK");
        follow(&mut client, new.port());
        wait_for_link(&mut client);
        check_equal(&mut admin, &mut client);
        client.check("MGET before here lost", "[\"1\", \"1\", (nil)]");
        check_log(&old, 1, 0);
    }
}

#[test]
fn a_primary_that_is_promoted_while_it_receives_has_a_whole_prefix() {
    let primary = redis().start();
    let mut client = primary.client();
    client.check("MSET n 0 m 0", "OK");
    let replica = start_replica(volatile(), &primary);
    let sub = start_replica(volatile(), &replica);
    let mut admin = replica.client();
    let lines = ["MULTI", "INCR n", "INCR m", "EXEC"];
    let words = lines.map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    let many: Vec<_> = (0..50).flat_map(|_| words.clone()).collect();
    let mut writer = primary.client();
    let write = || {
        writer.pipeline(&many).expect("replies");
    };
    while_running([write], || {
        let number = |client: &mut Client| client.run("GET n").int().unwrap_or(0);
        for _ in 0..5 {
            let seen = number(&mut admin);
            wait_until("nothing arrives", || number(&mut admin) > seen + 100);
            admin.check("REPLICAOF NO ONE", "OK");
            let values = admin.run("MGET n m");
            assert_eq!(values.items()[0], values.items()[1], "transactions are whole");
            admin.check("SET own 1", "OK");
            // Nothing of the old primary comes any more.
            assert_eq!(admin.run("MGET n m"), values);
            check_equal(&mut admin, &mut sub.client());
            follow(&mut admin, primary.port());
            wait_for_link(&mut admin);
            admin.check("EXISTS own", "(integer) 0");
        }
    });
    check_equal(&mut client, &mut admin);
    check_equal(&mut client, &mut sub.client());
}

#[test]
fn a_promotion_while_much_arrives_costs_no_dump() {
    for _ in 0..5 {
        let old = volatile().start();
        old.client().check("SET before 1", "OK");
        let new = start_replica(volatile(), &old);
        let others = [volatile(), volatile(), redis()].map(|launch| start_replica(launch, &new));
        let mut admin = new.client();
        while_writing(&old, || {
            wait_for_bytes(&mut admin, 100_000);
            admin.check("REPLICAOF NO ONE", "OK");
        });
        admin.check("SET own 1", "OK");
        for server in &others {
            check_equal(&mut admin, &mut server.client());
            check_log(server, 1, 1);
        }
    }
}

#[test]
fn replicaof_a_server_that_is_its_own_replica_leaves_both_in_service() {
    let (one, two) = (volatile().start(), volatile().start());
    one.client().check("SET one 1", "OK");
    two.client().check("SET two 1", "OK");
    follow(&mut one.client(), two.port());
    wait_for_link(&mut one.client());
    follow(&mut two.client(), one.port());
    // In a ring nobody has a primary: links that end stay down.
    for server in [&one, &two] {
        wait_for_reply(&mut server.client(), "GET two", "\"1\"");
    }
    two.client().check("REPLICAOF NO ONE", "OK");
    two.client().check("SET two 2", "OK");
    wait_for_reply(&mut one.client(), "GET two", "\"2\"");
    assert_eq!(count_in_log(&two, FULL), 0, "{}", two.log());
}
