//! Random operations, committed, rolled back or dropped, do to a keyspace what they do to a map.

mod common;

use std::collections::BTreeMap;

use common::{NOW, db, volatile};
use keyspace::{Encoding, Expire, Keyspace, Txn};
use proptest::collection::vec;
use proptest::prelude::*;

const KEYS: [&str; 8] = ["a", "b", "c", "{a}1", "{a}2", "{b}1", "longer key", ""];
const DBS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum When {
    Clear,
    Keep,
    In(u64),
}

#[derive(Clone, Debug)]
enum Op {
    Set(usize, usize, Text, When),
    Append(usize, usize, Text),
    SetRange(usize, usize, usize, Text),
    Delete(usize, usize),
    SetExpiry(usize, usize, Option<u64>),
    Rename((usize, usize), (usize, usize)),
    Copy((usize, usize), (usize, usize)),
    Flush(usize),
    Swap(usize, usize),
}

/// A value: an integer, or `len` bytes.
#[derive(Clone, Debug)]
enum Text {
    Int(i64),
    Bytes(u8, usize),
}

impl Text {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Text::Int(int) => int.to_string().into_bytes(),
            Text::Bytes(byte, len) => (0..*len).map(|i| byte.wrapping_add(i as u8)).collect(),
        }
    }
}

/// How the transaction with these operations ends, and what follows.
#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<Op>),
    /// The last operation is rolled back.
    RollbackLast(Vec<Op>),
    Drop(Vec<Op>),
    Later(u64),
    Expire,
    Reclaim,
}

fn text() -> impl Strategy<Value = Text> {
    prop_oneof![
        4 => any::<i64>().prop_map(Text::Int),
        6 => (any::<u8>(), 0..100usize).prop_map(|(b, n)| Text::Bytes(b, n)),
        2 => (any::<u8>(), 4000..4200usize).prop_map(|(b, n)| Text::Bytes(b, n)),
        1 => (any::<u8>(), 60_000..200_000usize).prop_map(|(b, n)| Text::Bytes(b, n)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let at = || (0..DBS, 0..KEYS.len());
    let when = prop_oneof![Just(When::Clear), Just(When::Keep), (0..50u64).prop_map(When::In)];
    prop_oneof![
        8 => (at(), text(), when).prop_map(|((d, k), v, w)| Op::Set(d, k, v, w)),
        4 => (at(), text()).prop_map(|((d, k), v)| Op::Append(d, k, v)),
        2 => (at(), 0..9000usize, text()).prop_map(|((d, k), o, v)| Op::SetRange(d, k, o, v)),
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
    ]
}

type Value = (Vec<u8>, u64);

/// Value and expiry time of each key that is not expired.
#[derive(Clone, Debug, Default)]
struct Model {
    keys: BTreeMap<(usize, &'static str), Value>,
    now: u64,
}

impl Model {
    fn live(&mut self) -> &mut BTreeMap<(usize, &'static str), Value> {
        let now = self.now;
        self.keys.retain(|_, (_, expiry)| *expiry == 0 || *expiry > now);
        &mut self.keys
    }

    fn apply(&mut self, op: &Op) {
        let now = self.now;
        let keys = self.live();
        match op {
            Op::Set(d, k, text, when) => {
                let at = (*d, KEYS[*k]);
                let old = keys.get(&at).map_or(0, |value| value.1);
                let expiry = match when {
                    When::Clear => 0,
                    When::Keep => old,
                    When::In(ms) => now + ms,
                };
                keys.insert(at, (text.bytes(), expiry));
            }
            Op::Append(d, k, text) => {
                keys.entry((*d, KEYS[*k])).or_default().0.extend(text.bytes());
            }
            Op::SetRange(_, _, _, text) if text.bytes().is_empty() => {}
            Op::SetRange(d, k, at, text) => {
                let value = &mut keys.entry((*d, KEYS[*k])).or_default().0;
                let bytes = text.bytes();
                value.resize(value.len().max(at + bytes.len()), 0);
                value[*at..at + bytes.len()].copy_from_slice(&bytes);
            }
            Op::Delete(d, k) => {
                keys.remove(&(*d, KEYS[*k]));
            }
            Op::SetExpiry(d, k, at) => {
                if let Some(value) = keys.get_mut(&(*d, KEYS[*k])) {
                    value.1 = at.map_or(0, |ms| now + ms);
                }
            }
            Op::Rename(a, b) => {
                if let Some(value) = keys.remove(&(a.0, KEYS[a.1])) {
                    keys.insert((b.0, KEYS[b.1]), value);
                }
            }
            Op::Copy(a, b) => {
                if let Some(value) = keys.get(&(a.0, KEYS[a.1])).cloned() {
                    keys.insert((b.0, KEYS[b.1]), value);
                }
            }
            Op::Flush(d) => keys.retain(|(of, _), _| of != d),
            Op::Swap(a, b) => {
                let swapped = std::mem::take(keys).into_iter().map(|((d, key), value)| {
                    let d = if d == *a {
                        *b
                    } else if d == *b {
                        *a
                    } else {
                        d
                    };
                    ((d, key), value)
                });
                *keys = swapped.collect();
            }
        }
    }
}

fn apply(txn: &mut Txn<'_>, op: &Op) {
    let key = |k: &usize| txn.key(KEYS[*k].as_bytes());
    match op {
        Op::Set(d, k, text, when) => {
            let expire = match when {
                When::Clear => Expire::Clear,
                When::Keep => Expire::Keep,
                When::In(ms) => Expire::At(txn.now() + ms),
            };
            let key = key(k);
            txn.set(db(*d), &key, &text.bytes(), expire).expect("room");
        }
        Op::Append(d, k, text) => {
            let key = key(k);
            txn.append(db(*d), &key, &text.bytes()).expect("room");
        }
        Op::SetRange(d, k, at, text) => {
            let key = key(k);
            txn.set_range(db(*d), &key, *at, &text.bytes()).expect("room");
        }
        Op::Delete(d, k) => {
            let key = key(k);
            txn.delete(db(*d), &key).expect("room");
        }
        Op::SetExpiry(d, k, at) => {
            let (key, at) = (key(k), at.map(|ms| txn.now() + ms));
            txn.set_expiry(db(*d), &key, at).expect("room");
        }
        Op::Rename(a, b) => {
            let (from, to) = (key(&a.1), key(&b.1));
            txn.rename((db(a.0), &from), (db(b.0), &to)).expect("room");
        }
        Op::Copy(a, b) => {
            let (from, to) = (key(&a.1), key(&b.1));
            txn.copy((db(a.0), &from), (db(b.0), &to)).expect("room");
        }
        Op::Flush(d) => {
            txn.flush(db(*d)).expect("room");
        }
        Op::Swap(a, b) => txn.swap(db(*a), db(*b)).expect("room"),
    }
}

fn compare(ks: &Keyspace, model: &mut Model) {
    let now = model.now;
    let mut txn = ks.begin_all(now);
    let mut met = BTreeMap::new();
    for d in 0..DBS {
        txn.for_each(db(d), &mut |key, entry| {
            let value = txn.string(entry).expect("a string").to_vec();
            let known = KEYS.iter().find(|k| k.as_bytes() == key).expect("a key of ours");
            let again = met.insert((d, *known), (value, txn.expiry(entry).unwrap_or(0)));
            assert!(again.is_none(), "{known} twice");
        });
    }
    assert_eq!(&met, model.live());
    for ((d, name), (value, _)) in model.live() {
        let key = txn.key(name.as_bytes());
        let entry = txn.find(db(*d), &key).expect("a key that a walk meets");
        let found = txn.string(&entry).expect("a string");
        assert_eq!((found.len(), found.to_vec().len()), (value.len(), value.len()));
        assert_eq!(txn.encoding(&entry) == Encoding::Int, found.as_int().is_some());
    }
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
            Step::Commit(ops) => {
                let mut txn = ks.begin_all(model.now);
                for op in ops {
                    apply(&mut txn, op);
                    model.apply(op);
                }
                txn.commit().expect("a commit");
            }
            Step::RollbackLast(ops) => {
                let mut txn = ks.begin_all(model.now);
                for (i, op) in ops.iter().enumerate() {
                    let savepoint = txn.savepoint();
                    apply(&mut txn, op);
                    if i + 1 < ops.len() {
                        model.apply(op);
                    } else {
                        txn.rollback_to(savepoint);
                    }
                }
                txn.commit().expect("a commit");
            }
            Step::Drop(ops) => {
                let mut txn = ks.begin_all(model.now);
                ops.iter().for_each(|op| apply(&mut txn, op));
            }
        }
        compare(ks, &mut model);
    }
    ks.check().expect("an intact keyspace");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_keyspace_does_what_a_map_does(steps in vec(step(), 1..30)) {
        run(&volatile(3, 64 << 20), &steps);
    }
}
