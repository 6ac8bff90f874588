//! When and how often keys were used, as shown by OBJECT IDLETIME and OBJECT FREQ.

use std::sync::Arc;

use crate::support::{Client, TestClock, volatile};
use commands::{Clock as _, Engine, EngineOptions};
use keyspace::{Eviction, Policy};

/// An engine with a clock that the test sets.
fn engine(clock: &Arc<TestClock>, policy: Policy) -> Arc<Engine> {
    let options =
        EngineOptions { clock: clock.clone(), ..EngineOptions::new(volatile(4, 256 << 20)) };
    let engine = Arc::new(Engine::new(options));
    evict_by(&engine, clock, policy);
    engine
}

fn evict_by(engine: &Engine, clock: &TestClock, policy: Policy) {
    engine.keyspace().set_eviction(Eviction { policy, ..Eviction::default() }, clock.unix_ms());
}

fn number(client: &mut Client, command: &str) -> u64 {
    let reply = client.run(command);
    let number = reply.strip_prefix("(integer) ").and_then(|digits| digits.parse().ok());
    number.unwrap_or_else(|| panic!("{command}: {reply}"))
}

/// Of 100,000 keys, those that `fresh` reports as used after one was read.
fn fresh_after_one_read(policy: Policy, fresh: impl Fn(&mut Client, usize) -> bool) -> Vec<usize> {
    const KEYS: usize = 100_000;
    let clock = TestClock::new(1_000_000_000);
    let mut client = Client::new(&engine(&clock, policy));
    for key in 0..KEYS {
        assert_eq!(client.run(&format!("SET key:{key} v")), "OK");
    }
    clock.advance_ms(50_000);
    for _ in 0..20 {
        client.run("GET key:777");
    }
    (0..KEYS).filter(|key| fresh(&mut client, *key)).collect()
}

fn idle(client: &mut Client, key: &str) -> u64 {
    number(client, &format!("OBJECT IDLETIME {key}"))
}

#[test]
fn a_read_key_is_the_only_fresh_one_of_many() {
    for policy in [Policy::NoEviction, Policy::AllkeysLru, Policy::VolatileRandom] {
        let fresh = |client: &mut Client, key| idle(client, &format!("key:{key}")) < 50;
        assert_eq!(fresh_after_one_read(policy, fresh), [777], "{policy:?}");
    }
}

#[test]
fn a_read_key_is_the_only_frequent_one_of_many() {
    let fresh = |client: &mut Client, key| number(client, &format!("OBJECT FREQ key:{key}")) > 5;
    assert_eq!(fresh_after_one_read(Policy::AllkeysLfu, fresh), [777]);
}

#[test]
fn each_use_of_a_key_ends_its_idle_time() {
    let clock = TestClock::new(1_000_000_000);
    let mut client = Client::new(&engine(&clock, Policy::AllkeysLru));
    client.run("SET string 1");
    for write in
        ["SET string 2", "SET string text", "APPEND string s", "GETSET string 5", "GET string"]
    {
        clock.advance_ms(30_000);
        assert_eq!(idle(&mut client, "string"), 30, "before {write}");
        client.run(write);
        assert_eq!(idle(&mut client, "string"), 0, "after {write}");
    }
}

#[test]
fn idle_times_outlive_a_change_of_the_policy() {
    let clock = TestClock::new(1_000_000_000);
    let engine = engine(&clock, Policy::NoEviction);
    let mut client = Client::new(&engine);
    clock.advance_ms(3_600_000);
    client.run("SET old 1");
    clock.advance_ms(600_000);
    client.run("SET new 1");
    clock.advance_ms(5_000);
    for policy in [Policy::AllkeysLru, Policy::VolatileTtl, Policy::NoEviction] {
        evict_by(&engine, &clock, policy);
        let described = [idle(&mut client, "old"), idle(&mut client, "new")];
        assert_eq!(described, [605, 5], "{policy:?}");
    }
    // LFU keeps its time in minutes.
    evict_by(&engine, &clock, Policy::AllkeysLfu);
    assert_eq!(client.run("OBJECT FREQ old"), "(integer) 0", "decayed, one a minute");
    evict_by(&engine, &clock, Policy::AllkeysLru);
    let described = [idle(&mut client, "old"), idle(&mut client, "new")];
    assert!((540..=660).contains(&described[0]) && described[1] <= 60, "{described:?}");
}
