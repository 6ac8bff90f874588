//! Keys with a time on a replica: an expired one is absent, and is deleted when the primary says
//! so. Nothing is evicted.

use testkit::{Client, Launch};

use super::fake::{Fake, dump};
use super::{check_equal, follow, quiet, redis, start_replica, volatile};
use super::{wait_for_reply, wait_until};

/// Checks that a replica has a key that has expired, but shows it to nobody.
#[track_caller]
fn check_hidden(reader: &mut Client, key: &str) {
    for (line, reply) in [
        ("GET", "(nil)"),
        ("EXISTS", "(integer) 0"),
        ("TYPE", "none"),
        ("TTL", "(integer) -2"),
        ("PTTL", "(integer) -2"),
        ("STRLEN", "(integer) 0"),
        ("DUMP", "(nil)"),
        ("OBJECT ENCODING", "(nil)"),
    ] {
        reader.check(&format!("{line} {key}"), reply);
    }
    assert!(!reader.run("KEYS *").to_string().contains(key));
    let scanned = reader.run("SCAN 0 COUNT 1000").to_string();
    assert!(!scanned.contains(key), "{scanned}");
}

#[test]
fn an_expired_key_is_absent_and_is_deleted_by_the_primary() {
    for primary in [redis(), volatile()] {
        for replica in [volatile(), quiet(Launch::perdura_aof("always"))] {
            let primary = primary.clone().start();
            let mut client = primary.client();
            client.check("DEBUG SET-ACTIVE-EXPIRE 0", "OK");
            let replica = start_replica(replica, &primary);
            let mut reader = replica.client();
            client.check("SET stays 1", "OK");
            client.check("SET k v PX 30", "OK");
            client.check("SET k2 v PX 30", "OK");
            wait_for_reply(&mut reader, "DBSIZE", "(integer) 3");
            wait_for_reply(&mut reader, "EXISTS k k2", "(integer) 0");
            check_hidden(&mut reader, "k");
            reader.check("DBSIZE", "(integer) 3");
            let before = reader.info("stats")["expired_keys"].clone();
            assert_eq!(before, "0");
            // The primary notices it, and says so.
            client.check("GET k", "(nil)");
            wait_for_reply(&mut reader, "DBSIZE", "(integer) 2");
            // A write finds it as it was at the primary.
            client.check("APPEND k2 w", "(integer) 1");
            wait_for_reply(&mut reader, "GET k2", "\"w\"");
            client.check("GET k2", "\"w\"");
            client.check("DEBUG SET-ACTIVE-EXPIRE 1", "OK");
            check_equal(&mut client, &mut reader);
        }
    }
}

#[test]
fn a_key_that_has_expired_is_kept_for_the_stream_and_goes_after_a_promotion() {
    let whole = dump(&["SET other 1"]);
    let server = volatile().start();
    let mut client = server.client();
    let fake = Fake::listen();
    follow(&mut client, fake.port());
    let mut peer = fake.synchronize(&whole, 5);
    // For its primary it lives: it says so by making it permanent, after its time.
    peer.send_commands(&[
        "SELECT 0",
        "SET a 1 PXAT 1",
        "SET b 1 PXAT 1",
        "RPUSH l 1",
        "PEXPIREAT l 1",
    ]);
    wait_for_reply(&mut client, "DBSIZE", "(integer) 4");
    for key in ["a", "b", "l"] {
        check_hidden(&mut client, key);
    }
    peer.send_commands(&["PERSIST a", "RPUSH l 2", "PERSIST l"]);
    wait_for_reply(&mut client, "LRANGE l 0 -1", "[\"1\", \"2\"]");
    client.check("GET a", "\"1\"");
    client.check("DBSIZE", "(integer) 4");
    client.check("REPLICAOF NO ONE", "OK");
    // Now it is its own to expire.
    wait_for_reply(&mut client, "DBSIZE", "(integer) 3");
    client.check("EXISTS b", "(integer) 0");
}

#[test]
fn a_dump_has_keys_that_have_expired_meanwhile() {
    let source = volatile().start();
    let mut client = source.client();
    client.check("DEBUG SET-ACTIVE-EXPIRE 0", "OK");
    client.check("SET other 1", "OK");
    client.check("SET a 1 PX 1000000", "OK");
    // Its time is in the dump, so it can be set back there.
    let time = client.run("PEXPIRETIME a").int().expect("a time");
    let mut whole = super::fake::dump_of(&source);
    let at = whole.windows(8).position(|bytes| bytes == time.to_le_bytes()).expect("the time");
    whole[at..at + 8].copy_from_slice(&1_i64.to_le_bytes());
    // Without a sum.
    let end = whole.len() - 8;
    whole[end..].fill(0);
    let server = volatile().start();
    let mut client = server.client();
    let fake = Fake::listen();
    follow(&mut client, fake.port());
    let mut peer = fake.synchronize(&whole, 5);
    client.check("DBSIZE", "(integer) 2");
    check_hidden(&mut client, "a");
    peer.send_commands(&["SELECT 0", "PERSIST a"]);
    wait_for_reply(&mut client, "GET a", "\"1\"");
}

#[test]
fn a_replica_evicts_nothing() {
    let primary = redis().start();
    let replica = start_replica(volatile().args(["--maxmemory-policy", "allkeys-lru"]), &primary);
    let (mut client, mut reader) = (primary.client(), replica.client());
    let value = "v".repeat(10_000);
    let fill = |client: &mut Client, prefix: &str| {
        for number in 0..500 {
            assert!(client.call(&["SET", &format!("{prefix}:{number}"), &value]).is_ok());
        }
    };
    fill(&mut client, "a");
    check_equal(&mut client, &mut reader);
    reader.check("CONFIG SET maxmemory 3mb", "OK");
    fill(&mut client, "b");
    check_equal(&mut client, &mut reader);
    reader.check("DBSIZE", "(integer) 1000");
    assert_eq!(reader.info("stats")["evicted_keys"], "0");
    reader.check("REPLICAOF NO ONE", "OK");
    reader.check("SET one-more 1", "OK");
    wait_until("as a primary it evicts", || {
        let size = reader.run("DBSIZE").int();
        reader.run("SET one-more 2");
        size < Some(600)
    });
}

#[test]
fn keys_that_the_primary_evicts_go_here_too() {
    let primary = volatile().args(["--maxmemory-policy", "allkeys-lru"]).start();
    let replica = start_replica(volatile(), &primary);
    let (mut client, mut reader) = (primary.client(), replica.client());
    client.check("CONFIG SET maxmemory 20mb", "OK");
    let value = "v".repeat(100_000);
    for number in 0..500 {
        assert!(client.call(&["SET", &format!("a:{number}"), &value]).is_ok());
    }
    assert!(client.info("stats")["evicted_keys"].parse::<u64>().expect("a number") > 100);
    check_equal(&mut client, &mut reader);
}
