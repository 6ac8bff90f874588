//! Background steps are bounded, complete their work in the end, and evict in the order that the
//! policies define.

use crate::common::{self, NOW, check, db, get, set, set_until, volatile};
use keyspace::{Event, Eviction, Expire, Keyspace, Policy};

#[test]
fn active_expiry_finds_every_expired_key_in_bounded_steps() {
    let ks = volatile(2, 64 << 20);
    for i in 0..3000 {
        let at = if i % 3 == 0 { NOW + 1000 } else { NOW + 10 };
        set_until(&ks, &format!("key:{i}"), "v", Expire::At(at));
    }
    let mut expired = 0;
    for _ in 0..1000 {
        for shard in 0..ks.shards() {
            let (txn, progress) = ks.expire_step(shard, 20, NOW + 10).expect("a commit");
            assert!(progress.looked_at <= 60, "{progress:?}");
            assert_eq!(txn.changes().count(), progress.done);
            expired += progress.done;
        }
    }
    assert_eq!((expired, ks.count(db(0))), (2000, (1000, 1000)));
    assert_eq!(ks.stats().expired, 2000);
    assert!(ks.longest_lock_hold_ns() > 0);
}

#[test]
fn a_step_of_expiry_is_bounded_in_an_index_that_became_sparse() {
    let ks = volatile(1, 64 << 20);
    for i in 0..20_000 {
        set_until(&ks, &format!("key:{i}"), "v", Expire::At(NOW + 10));
    }
    while common::goes_on() && ks.count(db(0)).0 > 0 {
        let (_, progress) = ks.expire_step(0, 64, NOW + 10).expect("a commit");
        assert!(progress.looked_at <= 192, "{progress:?}");
    }
}

#[test]
fn steps_of_expiry_estimate_the_mean_time_to_live() {
    let ks = volatile(2, 64 << 20);
    let mean = || ks.begin_all(NOW).database(db(0)).mean_ttl();
    assert_eq!(mean(), 0);
    for i in 0..2000 {
        set(&ks, &format!("lasting:{i}"), "v");
        set_until(&ks, &format!("key:{i}"), "v", Expire::At(NOW + 40_000 + i * 20));
    }
    assert_eq!(mean(), 0, "no step has come by");
    let step = |now| (0..2).for_each(|shard| drop(ks.expire_step(shard, 2000, now)));
    step(NOW);
    assert!((59_900..60_000).contains(&mean()), "{}", mean());
    // Each step contributes a fiftieth.
    step(NOW + 20_000);
    assert!((59_400..59_700).contains(&mean()), "{}", mean());
    (0..300).for_each(|_| step(NOW + 20_000));
    assert!((39_900..40_200).contains(&mean()), "{}", mean());
    step(NOW + 100_000);
    assert_eq!((ks.count(db(0)), mean()), ((2000, 0), 0));
}

fn eviction(policy: Policy, maxmemory: u64) -> Eviction {
    Eviction { maxmemory, policy, samples: 10, ..Eviction::default() }
}

/// Evicts until memory is below the limit. Returns the evicted keys.
fn evict(ks: &Keyspace, now: u64) -> Vec<String> {
    let mut gone = Vec::new();
    let mut random = fastrand::Rng::with_seed(3);
    while common::goes_on()
        && let Some(txn) = ks.evict_step(8, now, random.u64(..)).expect("free memory")
    {
        assert!(txn.changes().count() <= 8);
        for change in txn.changes() {
            assert_eq!(change.event, Event::Evicted);
            gone.push(String::from_utf8_lossy(change.key).into_owned());
        }
    }
    gone
}

const KEYS: u64 = 2000;

/// Returns a keyspace in which `key:0` is the least recently and least frequently used key and the
/// first to expire, and in which every second key has an expiry time.
fn aged(policy: Policy) -> Keyspace {
    let ks = volatile(2, 64 << 20);
    ks.set_eviction(eviction(policy, 0), NOW);
    for i in 0..KEYS {
        let at = if i % 2 == 0 { Expire::At(NOW + 1_000_000 + i * 1000) } else { Expire::Clear };
        set_until(&ks, &format!("key:{i}"), "v", at);
    }
    for shard in 0..ks.shards() {
        ks.expire_step(shard, 1, NOW).expect("a commit");
    }
    for i in 0..KEYS {
        for _ in 0..if policy.is_lfu() { i / 8 } else { 1 } {
            get(&ks, NOW + i * 100, 0, &format!("key:{i}"));
        }
    }
    ks
}

/// Evicts about a quarter of the keys by the policy. Returns the mean position of the evicted keys
/// in the order from the oldest (0) to the newest (1).
fn check_policy(policy: Policy) -> f64 {
    let ks = aged(policy);
    let used = ks.heap().used();
    ks.set_eviction(eviction(policy, used - KEYS / 4 * 40), NOW);
    assert!(ks.excess() > 0);
    let gone = evict(&ks, NOW + KEYS * 100);
    assert_eq!(ks.excess(), 0, "{policy:?}");
    assert!(gone.len() as u64 >= KEYS / 5, "{policy:?}: {}", gone.len());
    assert_eq!(ks.stats().evicted, gone.len() as u64);
    let number = |key: &String| key["key:".len()..].parse::<u64>().expect("a number");
    if policy.is_volatile() {
        assert!(gone.iter().all(|key| number(key) % 2 == 0), "{policy:?}");
    }
    gone.iter().map(|key| number(key) as f64).sum::<f64>() / gone.len() as f64 / KEYS as f64
}

#[test]
fn the_policies_evict_what_they_name() {
    for policy in [Policy::AllkeysLru, Policy::AllkeysLfu] {
        let mean = check_policy(policy);
        assert!(mean < 0.3, "{policy:?}: {mean}");
    }
    for policy in [Policy::VolatileLru, Policy::VolatileLfu, Policy::VolatileTtl] {
        let mean = check_policy(policy);
        assert!(mean < 0.42, "{policy:?}: {mean}");
    }
    for policy in [Policy::AllkeysRandom, Policy::VolatileRandom] {
        let mean = check_policy(policy);
        assert!((0.4..0.6).contains(&mean), "{policy:?}: {mean}");
    }
}

#[test]
fn nothing_is_evicted_without_a_policy_or_a_candidate() {
    let ks = volatile(2, 64 << 20);
    set(&ks, "k", "v");
    ks.set_eviction(eviction(Policy::NoEviction, 1), NOW);
    assert!(ks.excess() > 0 && ks.evict_step(8, NOW, 1).expect("free memory").is_none());
    ks.set_eviction(eviction(Policy::VolatileLru, 1), NOW);
    assert!(ks.evict_step(8, NOW, 1).expect("free memory").is_none());
    check(&ks, "k", Some("v"));
}

#[test]
fn what_deletes_left_is_freed_before_anything_is_evicted() {
    let ks = volatile(2, 64 << 20);
    for i in 0..20 {
        set(&ks, &format!("small:{i}"), "v");
    }
    let used = ks.heap().used();
    for i in 0..20 {
        set(&ks, &format!("large:{i}"), &"x".repeat(500_000));
    }
    ks.set_eviction(eviction(Policy::AllkeysRandom, used + 100_000), NOW);
    for i in 0..20 {
        common::write(&ks, &[&format!("large:{i}")], |txn| {
            let name = format!("large:{i}");
            let key = txn.key(name.as_bytes());
            txn.keys().delete(db(0), &key).expect("free memory");
        });
    }
    assert!(ks.excess() > 0);
    assert!(ks.evict_step(8, NOW, 1).expect("free memory").is_none());
    assert_eq!((ks.excess(), ks.count(db(0)).0, ks.stats().evicted), (0, 20, 0));
}

#[test]
fn a_full_heap_answers_full_loses_nothing_and_can_be_emptied() {
    let ks = volatile(2, 1);
    let mut kept = Vec::new();
    let value = "v".repeat(3000);
    for i in 0.. {
        let name = format!("key:{i}");
        let key = ks.key(name.as_bytes());
        let mut txn = ks.begin_one(key.shard(), NOW);
        match txn.strings().set(db(0), &key, value.as_bytes(), Expire::Clear) {
            Ok(()) => {
                txn.commit().expect("a commit");
                kept.push(name);
            }
            Err(error) => {
                assert_eq!(error, keyspace::Error::Full);
                break;
            }
        }
    }
    assert!(kept.len() > 500, "{}", kept.len());
    for name in &kept {
        check(&ks, name, Some(&value));
    }
    for name in &kept {
        let key = ks.key(name.as_bytes());
        let mut txn = ks.begin_one(key.shard(), NOW);
        assert_eq!(txn.keys().delete(db(0), &key), Ok(true));
        txn.commit().expect("a commit");
    }
    set(&ks, "again", &value);
    check(&ks, "again", Some(&value));
}

#[test]
fn idle_time_and_frequency_follow_the_accesses() {
    let ks = volatile(1, 32 << 20);
    set(&ks, "k", "v");
    let key = ks.key(b"k");
    let look = |now: u64| {
        let txn = ks.begin_one(0, now);
        let entry = txn.peek(db(0), &key).expect("the key");
        let properties = txn.properties(&entry);
        (properties.idle_ms(), properties.frequency())
    };
    assert_eq!(look(NOW + 5000).0, 5000);
    get(&ks, NOW + 5000, 0, "k");
    assert_eq!(look(NOW + 5000).0, 0);
    ks.set_eviction(eviction(Policy::AllkeysLfu, 0), NOW);
    for _ in 0..50 {
        get(&ks, NOW, 0, "k");
    }
    assert!(look(NOW).1 > 5, "{}", look(NOW).1);
}
