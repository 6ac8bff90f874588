//! A full synchronization and the stream after it: a replica must have its primary's data, from
//! whichever server, on whichever backend, whatever is written meanwhile.

use fastrand::Rng;
use testkit::{Client, Launch, Medium, Server};

use super::writes::{wait_for_bytes, while_writing};
use super::{check_equal, digest, follow, info, quiet, redis, start_replica, volatile};
use super::{wait_for_link, wait_for_reply, wait_until};
use crate::save::{populate, populate_large};

/// Writes data of all types to several databases, and a library of functions.
fn fill(client: &mut Client) {
    populate(client);
    populate_large(client);
    client.check("SELECT 9", "OK");
    client.check("HSET there a 1 b 2", "(integer) 2");
    client.check("EXPIRE there 1000", "(integer) 1");
    client.check("SELECT 0", "OK");
}

/// Returns what a digest does not show.
fn rest(client: &mut Client) -> Vec<String> {
    let times = ["PEXPIRETIME timed", "PEXPIRETIME hash-table", "TTL text"];
    let others = ["FUNCTION LIST WITHCODE", "FCALL_RO f 0", "XPENDING stream group - + 100 alice"];
    let mut shown: Vec<String> = Vec::new();
    for line in times.into_iter().chain(["XINFO STREAM stream-empty"]) {
        shown.push(client.run(line).to_string());
    }
    for line in others {
        let text = client.run(line).to_string();
        // How long entries are pending is not the same moment's.
        shown.push(text.split("(integer)").next().unwrap_or_default().to_owned());
    }
    shown
}

/// Lets a replica take all of a primary's data, while there are writes, and compares.
fn check(primary: Launch, replica: Launch) -> (Server, Server) {
    let (primary, replica) = (primary.start(), replica.start());
    let (mut client, mut reader) = (primary.client(), replica.client());
    fill(&mut client);
    // Data of its own, of which nothing is to stay.
    reader.check("MSET own 1 text 2", "OK");
    let code = "#!lua name=own\nredis.register_function('own', function() return 1 end)";
    assert_eq!(reader.call(&["FUNCTION", "LOAD", code]).text(), "own");
    follow(&mut reader, primary.port());
    wait_for_link(&mut reader);
    check_equal(&mut client, &mut reader);
    assert_eq!(rest(&mut client), rest(&mut reader));
    reader.check("EXISTS own", "(integer) 0");
    assert_eq!(info(&mut client, "master_replid"), info(&mut reader, "master_replid"));
    while_writing(&primary, || wait_for_bytes(&mut client, 200_000));
    client.check("SET at-the-end x", "OK");
    check_equal(&mut client, &mut reader);
    (primary, replica)
}

/// Lets a replica take a primary's data that changes all the time.
fn check_under_load(primary: Launch, replica: Launch) -> (Server, Server) {
    let (primary, replica) = (primary.start(), replica.start());
    let (mut client, mut reader) = (primary.client(), replica.client());
    populate(&mut client);
    while_writing(&primary, || {
        follow(&mut reader, primary.port());
        wait_for_link(&mut reader);
        wait_for_bytes(&mut client, 300_000);
        // Once more from the beginning, over the data of the first time.
        reader.check("REPLICAOF NO ONE", "OK");
        reader.check("SET own 1", "OK");
        follow(&mut reader, primary.port());
        wait_for_link(&mut reader);
        wait_for_bytes(&mut client, 100_000);
    });
    client.check("SET at-the-end x", "OK");
    check_equal(&mut client, &mut reader);
    reader.check("EXISTS own", "(integer) 0");
    (primary, replica)
}

/// Kills the replica, and starts it alone: it has what it had.
fn check_alone(primary: &Server, mut replica: Server) {
    let (mut client, mut reader) = (primary.client(), replica.client());
    // A reply shows only what is durable.
    reader.check("GET at-the-end", "\"x\"");
    replica.kill();
    replica.start_again();
    let mut reader = replica.client();
    assert_eq!(info(&mut reader, "role"), "master");
    wait_until("other data after a restart", || digest(&mut client) == digest(&mut reader));
    reader.check("SET alone 1", "OK");
}

fn aof(policy: &str) -> Launch {
    quiet(Launch::perdura_aof(policy))
}

fn journal(policy: &str) -> Launch {
    quiet(Launch::perdura_journal(policy)).args(["--journal-size", "16mb"])
}

fn pmem() -> Launch {
    quiet(Launch::perdura_pmem()).on(Medium::Memory)
}

#[test]
fn a_replica_in_memory_has_the_data_of_redis() {
    check(redis(), volatile());
}

#[test]
fn a_replica_in_memory_has_the_data_of_perdura() {
    check(volatile(), volatile());
}

#[test]
fn a_replica_has_the_data_of_redis_that_sends_a_file() {
    check(redis().args(["--repl-diskless-sync", "no"]), volatile());
}

#[test]
fn a_replica_with_a_log_has_the_data_and_keeps_it() {
    let (primary, replica) = check(redis(), aof("always"));
    check_alone(&primary, replica);
    let (primary, replica) = check_under_load(volatile(), aof("always"));
    check_alone(&primary, replica);
}

#[test]
fn a_replica_on_a_pool_with_a_journal_has_the_data_and_keeps_it() {
    let (primary, replica) = check(redis(), journal("always"));
    check_alone(&primary, replica);
    let (primary, replica) = check_under_load(aof("everysec"), journal("always"));
    check_alone(&primary, replica);
}

#[test]
fn a_replica_on_a_pool_has_the_data_and_keeps_it() {
    let (primary, replica) = check(volatile(), pmem());
    check_alone(&primary, replica);
    let (primary, replica) = check_under_load(redis(), pmem());
    check_alone(&primary, replica);
}

#[test]
fn a_replica_says_what_of_the_stream_is_durable() {
    for launch in [aof("always"), aof("everysec"), journal("always"), pmem()] {
        let primary = aof("everysec").start();
        let mut replica = start_replica(launch, &primary);
        let (mut client, mut reader) = (primary.client(), replica.client());
        wait_until("the log is not written again", || {
            reader.info("persistence")["aof_rewrite_in_progress"] == "0"
        });
        for number in 0..20 {
            client.check(&format!("SET key:{number} {number}"), "OK");
        }
        client.check("WAITAOF 1 1 0", "[(integer) 1, (integer) 1]");
        replica.kill();
        replica.start_again();
        replica.client().check("DBSIZE", "(integer) 20");
    }
    // One that keeps nothing does not say so.
    let primary = volatile().start();
    let _replica = start_replica(volatile(), &primary);
    let mut client = primary.client();
    client.check("SET a 1", "OK");
    client.check("WAIT 1 0", "(integer) 1");
    client.check("WAITAOF 0 1 10", "[(integer) 0, (integer) 0]");
}

#[test]
fn what_is_written_in_the_end_arrives_in_each_database() {
    let primary = redis().start();
    let replica = start_replica(volatile(), &primary);
    let (mut client, mut reader) = (primary.client(), replica.client());
    for db in [0, 15, 3, 0] {
        client.check(&format!("SELECT {db}"), "OK");
        client.check(&format!("SET db {db}"), "OK");
        reader.check(&format!("SELECT {db}"), "OK");
        wait_for_reply(&mut reader, "GET db", &format!("\"{db}\""));
    }
    client.check("SWAPDB 0 15", "OK");
    wait_for_reply(&mut reader, "GET db", "\"15\"");
    client.check("FLUSHALL", "OK");
    wait_for_reply(&mut reader, "DBSIZE", "(integer) 0");
    check_offsets_after(&mut client, &mut reader);
}

/// Writes values of many lengths, and compares.
fn check_offsets_after(client: &mut Client, reader: &mut Client) {
    let mut random = Rng::with_seed(7);
    for length in [0, 1, 4095, 65_535, 65_536, 65_537, 1 << 20, 20 << 20] {
        let value = "v".repeat(length);
        let key = format!("length:{}", random.u32(..));
        assert!(client.call(&["SET", &key, &value]).is_ok());
    }
    check_equal(client, reader);
}
