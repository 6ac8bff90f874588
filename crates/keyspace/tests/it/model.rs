//! Random operations, which are committed, rolled back or dropped, have the same effect on a
//! keyspace as on a map.

use std::collections::BTreeMap;

use crate::common::ops::{DBS, KEYS, Model, Op, Text, Value, When, apply};
use crate::common::{self, NOW, db, volatile};
use keyspace::{
    Content, Defragmentation, Encoding, Eviction, Keyspace, Policy, Snapshot, SnapshotWalk, Txn,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// A transaction with these operations, and how it ends; or another event.
#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<Op>),
    /// The last operation is rolled back.
    RollbackLast(Vec<Op>),
    Drop(Vec<Op>),
    Later(u64),
    Expire,
    Reclaim,
    Defragment,
    Evict(u64),
    /// A snapshot is taken, read for this many steps after the first operations are committed, and
    /// dropped. Another one is taken, and read after the other operations are committed.
    Snapshots(usize, Vec<Op>, Vec<Op>),
}

fn text() -> impl Strategy<Value = Text> {
    prop_oneof![
        4 => any::<i64>().prop_map(Text::Int),
        6 => (any::<u8>(), 0..100usize).prop_map(|(b, n)| Text::Bytes(b, n)),
        2 => (any::<u8>(), 4000..4200usize).prop_map(|(b, n)| Text::Bytes(b, n)),
        2 => (any::<u8>(), prop_oneof![250..260usize, 1000..1010usize, 9000..9004usize])
            .prop_map(|(b, n)| Text::Bytes(b, n)),
        1 => (any::<u8>(), 60_000..200_000usize).prop_map(|(b, n)| Text::Bytes(b, n)),
        3 => (any::<u8>(), bound()).prop_map(|(b, n)| Text::Bytes(b, n)),
    ]
}

/// Returns the lengths at which a string is stored in another way, and one byte less or more:
/// "embstr", in its entry, filled without the lock, in one block, in two.
fn bound() -> impl Strategy<Value = usize> {
    let bounds = [0usize, 1, 44, 256, 4 << 10, 32 << 10, (64 << 10) - 8, 64 << 10, 128 << 10];
    (prop::sample::select(bounds.to_vec()), 0..3usize)
        .prop_map(|(at, more)| (at + more).saturating_sub(1))
}

fn op() -> impl Strategy<Value = Op> {
    let at = || (0..DBS, 0..KEYS.len());
    let when = prop_oneof![Just(When::Clear), Just(When::Keep), (0..50u64).prop_map(When::In)];
    prop_oneof![
        8 => (at(), text(), when).prop_map(|((d, k), v, w)| Op::Set(d, k, v, w)),
        4 => (at(), text()).prop_map(|((d, k), v)| Op::Append(d, k, v)),
        2 => (at(), prop_oneof![0..9000usize, bound()], text())
            .prop_map(|((d, k), o, v)| Op::SetRange(d, k, o, v)),
        3 => at().prop_map(|(d, k)| Op::Delete(d, k)),
        3 => (at(), prop::option::of(0..50u64)).prop_map(|((d, k), e)| Op::SetExpiry(d, k, e)),
        3 => (at(), at()).prop_map(|(a, b)| Op::Rename(a, b)),
        3 => (at(), at()).prop_map(|(a, b)| Op::Copy(a, b)),
        1 => (0..DBS).prop_map(Op::Flush),
        1 => (0..DBS, 0..DBS).prop_map(|(a, b)| Op::Swap(a, b)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => vec(op(), 1..5).prop_map(Step::Commit),
        2 => vec(op(), 1..5).prop_map(Step::RollbackLast),
        1 => vec(op(), 1..5).prop_map(Step::Drop),
        2 => (1..30u64).prop_map(Step::Later),
        1 => Just(Step::Expire),
        1 => Just(Step::Reclaim),
        1 => Just(Step::Defragment),
        1 => any::<u64>().prop_map(Step::Evict),
        1 => (0..4usize, vec(op(), 1..5), vec(op(), 1..5))
            .prop_map(|(read, first, second)| Step::Snapshots(read, first, second)),
    ]
}

/// Compares what a transaction sees, in a walk and in lookups, with the model.
fn compare(txn: &mut Txn<'_>, model: &mut Model) {
    let mut visited = BTreeMap::new();
    for d in 0..DBS {
        txn.database(db(d)).for_each(&mut |key, entry| {
            let value = txn.string(entry).and_then(|value| value.to_vec()).expect("a string");
            let known = KEYS.iter().find(|k| k.as_bytes() == key).expect("a key of ours");
            let again =
                visited.insert((d, *known), (value, txn.properties(entry).expiry().unwrap_or(0)));
            assert!(again.is_none(), "{known:.20} twice");
        });
    }
    let live = model.live();
    let wrong =
        visited.keys().chain(live.keys()).find(|place| visited.get(place) != live.get(place));
    if let Some(place) = wrong {
        let describe = |value: Option<&Value>| value.map(|(bytes, expiry)| (bytes.len(), *expiry));
        let (name, found, expected) = (
            &place.1[..place.1.len().min(20)],
            describe(visited.get(place)),
            describe(live.get(place)),
        );
        panic!("{name} in database {}: (bytes, expiry) {found:?}, not {expected:?}", place.0);
    }
    for ((d, name), (value, _)) in model.live() {
        let key = txn.key(name.as_bytes());
        let entry = txn.find(db(*d), &key).expect("a key that a walk meets");
        let read = txn.strings().read(&entry).and_then(|value| value.to_vec()).expect("a string");
        assert!(read == *value, "{name:.20} as a reply has it");
        let found = txn.string(&entry).expect("a string");
        assert_eq!(
            (found.len(), found.to_vec().map(|all| all.len())),
            (value.len(), Ok(value.len()))
        );
        assert_eq!(txn.properties(&entry).encoding() == Encoding::Int, found.as_int().is_some());
    }
    for (d, name) in (0..DBS).flat_map(|d| KEYS.map(|name| (d, name))) {
        let key = txn.key(name.as_bytes());
        assert_eq!(txn.find(db(d), &key).is_some(), model.live().contains_key(&(d, name)));
    }
}

/// Evicts a key or two, and removes them from the model.
fn evict(ks: &Keyspace, seed: u64, model: &mut Model) {
    let before = ks.eviction();
    let maxmemory = (ks.heap().used() / 2).max(1);
    ks.set_eviction(Eviction { maxmemory, policy: Policy::AllkeysRandom, ..before }, NOW);
    if let Some(txn) = ks.evict_step(2, model.now, seed).expect("a commit") {
        for change in txn.changes() {
            model.keys.retain(|(d, name), _| db(*d) != change.db || name.as_bytes() != change.key);
        }
    }
    ks.set_eviction(before, NOW);
}

/// Checks that the snapshot yields what there was at its cut, apart from expired keys, which may
/// have been deleted.
fn check_snapshot(
    walk: &mut SnapshotWalk<Snapshot>,
    expected: &BTreeMap<(usize, &'static str), Value>,
    now: u64,
) {
    let (mut found, mut items) = (BTreeMap::new(), Vec::new());
    while common::goes_on() && walk.next(&mut items).expect("it is held") {
        for item in items.drain(..) {
            let known = KEYS.iter().find(|k| k.as_bytes() == item.key).expect("a key of ours");
            let Content::String(value) = item.value else { panic!("a string") };
            found.insert((item.db.number(), *known), (value, item.expiry.unwrap_or(0)));
        }
    }
    let live = |(_, (_, expiry)): &(&_, &Value)| *expiry == 0 || *expiry > now;
    assert!(found.iter().filter(live).eq(expected.iter().filter(live)), "a snapshot");
}

/// Commits the operations, and compares the keyspace with the model.
fn commit(ks: &Keyspace, ops: &[Op], model: &mut Model) {
    let mut txn = ks.begin_all(model.now);
    for op in ops {
        apply(&mut txn, op).expect("free memory");
        model.apply(op);
    }
    txn.commit().expect("a commit");
    drop(txn);
    compare(&mut ks.begin_all(model.now), model);
}

fn run(ks: &Keyspace, steps: &[Step]) {
    let mut model = Model { now: NOW, ..Model::default() };
    for step in steps {
        match step {
            Step::Later(ms) => model.now += ms,
            Step::Expire => {
                for shard in 0..ks.shards() {
                    ks.expire_step(shard, 20, model.now).expect("a commit");
                }
            }
            Step::Reclaim => {
                for shard in 0..ks.shards() {
                    ks.reclaim_step(shard, 3).expect("a commit");
                }
            }
            Step::Defragment => {
                for shard in 0..ks.shards() {
                    let mut at = Some(Defragmentation::default());
                    while common::goes_on()
                        && let Some(from) = at
                    {
                        at = ks.defragment_step(shard, from, 20).expect("a commit");
                    }
                }
            }
            Step::Evict(seed) => evict(ks, *seed, &mut model),
            Step::Snapshots(read, first, second) => {
                let mut given_up = ks.snapshot(|| ()).expect("a snapshot").0.walk();
                commit(ks, first, &mut model);
                let mut items = Vec::new();
                let _ = (0..*read).take_while(|_| given_up.next(&mut items) == Ok(true)).count();
                drop(given_up);
                let keys = model.keys.clone();
                let mut walk = ks.snapshot(|| ()).expect("a snapshot").0.walk();
                commit(ks, second, &mut model);
                check_snapshot(&mut walk, &keys, model.now);
            }
            Step::Commit(ops) => {
                let mut txn = ks.begin_all(model.now);
                for op in ops {
                    apply(&mut txn, op).expect("free memory");
                    model.apply(op);
                    compare(&mut txn, &mut model);
                }
                txn.commit().expect("a commit");
            }
            Step::RollbackLast(ops) => {
                let mut txn = ks.begin_all(model.now);
                for (i, op) in ops.iter().enumerate() {
                    let savepoint = txn.savepoint();
                    apply(&mut txn, op).expect("free memory");
                    if i + 1 < ops.len() {
                        model.apply(op);
                    } else {
                        txn.rollback_to(savepoint);
                    }
                    compare(&mut txn, &mut model);
                }
                txn.commit().expect("a commit");
            }
            Step::Drop(ops) => {
                let mut txn = ks.begin_all(model.now);
                ops.iter().for_each(|op| apply(&mut txn, op).expect("free memory"));
            }
        }
        compare(&mut ks.begin_all(model.now), &mut model);
    }
    ks.check().expect("an intact keyspace");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_keyspace_does_what_a_map_does(steps in vec(step(), 1..30)) {
        run(&volatile(3, 64 << 20), &steps);
    }

    /// Each shard keeps only a few copies, and many are evicted.
    #[test]
    fn so_does_one_with_a_small_read_cache(steps in vec(step(), 1..30)) {
        let ks = volatile(3, 64 << 20);
        ks.heap().set_read_cache(3 * 40_000);
        run(&ks, &steps);
    }

    #[test]
    fn so_does_one_with_a_read_cache(steps in vec(step(), 1..30)) {
        let ks = volatile(2, 64 << 20);
        ks.heap().set_read_cache(8 << 20);
        run(&ks, &steps);
    }
}
