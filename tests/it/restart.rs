//! A restart costs the same, whatever the pool holds.
//!
//! Time is reported and not asserted, since the machine may be busy. The reason for it is asserted:
//! the work that recovery counts is bounded by the logs and does not grow with the keys.

use std::collections::BTreeMap;
use testkit::{Client, Launch, Server};

const VALUE: usize = 100;

fn key(n: usize) -> String {
    format!("key:{n:09}")
}

fn value(n: usize) -> Vec<u8> {
    n.to_string().into_bytes().into_iter().cycle().take(VALUE).collect()
}

fn fill(client: &mut Client, from: usize, to: usize) {
    for start in (from..to).step_by(1000) {
        let end = to.min(start + 1000);
        let commands: Vec<Vec<Vec<u8>>> =
            (start..end).map(|n| vec![b"SET".to_vec(), key(n).into_bytes(), value(n)]).collect();
        let replies = client.pipeline(&commands).expect("replies");
        assert!(
            replies.iter().all(|reply| reply.is_ok()),
            "{:?}",
            replies.iter().find(|r| !r.is_ok())
        );
    }
}

/// The work of recovery at the last start.
fn recovery(client: &mut Client) -> BTreeMap<String, u64> {
    let work = |name: &str| name == "recovery_records" || name == "recovery_words";
    let fields = client.info("persistence").into_iter().filter(|(name, _)| work(name));
    fields.map(|(name, value)| (name, value.parse().expect("a number"))).collect()
}

fn restart(server: &mut Server, keys: usize) -> BTreeMap<String, u64> {
    server.crash();
    let mut client = server.client();
    let took = server.time_to_first_reply();
    for n in (0..keys).step_by(keys / 1000) {
        assert_eq!(client.call(&["GET", &key(n)]).bytes(), Some(&value(n)[..]), "{}", key(n));
    }
    client.check("DBSIZE", &format!("(integer) {keys}"));
    let work = recovery(&mut client);
    assert_eq!(work.len(), 2, "INFO persistence counts recovery's work");
    println!("{keys} keys: first reply {took:?} after the start, {work:?}");
    work
}

/// The maximum number of words that recovery may have to store: of each shard's log it reads two
/// sections, and one more record. A section is 32 KiB divided by the shards, and at least 2 KiB; a
/// record of this test is no longer than a section. The actual number differs from crash to crash.
fn bound(client: &mut Client) -> u64 {
    let shards: u64 = client.info("persistence")["pool_shards"].parse().expect("a number");
    3 * shards.max(16) * (2 << 10) / 8
}

#[test]
fn recovery_does_not_grow_with_the_keys() {
    let keys = 1_000_000;
    let mut server = Launch::perdura_pmem().start();
    let bound = bound(&mut server.client());
    assert!(bound < keys as u64 / 10, "{bound} words would show nothing");
    fill(&mut server.client(), 0, keys);
    // If the machine is so slow that the pool was at rest when it was killed, try again.
    let crashed = |server: &mut Server| {
        fill(&mut server.client(), 0, 1000);
        restart(server, keys)
    };
    let work =
        (0..10).map(|_| crashed(&mut server)).find(|work| work.values().all(|done| *done > 0));
    for (name, done) in work.expect("something that was left to recover") {
        assert!(done <= bound, "{name} is {done} for {keys} keys, more than {bound}");
    }
    assert_eq!(
        restart(&mut server, keys).values().sum::<u64>(),
        0,
        "a second restart finds nothing to do"
    );
}

#[test]
fn a_clean_end_leaves_nothing_to_recover() {
    let mut server = Launch::perdura_pmem().start();
    fill(&mut server.client(), 0, 10_000);
    assert!(server.terminate().success());
    server.start_again();
    let mut client = server.client();
    client.check("DBSIZE", "(integer) 10000");
    assert_eq!(recovery(&mut client).values().sum::<u64>(), 0);
}
