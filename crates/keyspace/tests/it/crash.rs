//! Random transactions on a tiny pool, crashed at every fence and in between: afterwards each
//! transaction is complete or absent, and exactly the reachable blocks are allocated.

use std::collections::BTreeMap;

use crate::common::ops::{DBS, KEYS, Model, Op, Text, Value, When, apply};
use crate::common::{NOW, SEED, db};
use heap::{CreateOptions, Geometry, Heap};
use keyspace::{Compaction, Defragmentation, Expire, Keyspace};
use pmem::Region;
use sim::{Crash, Effort, Subject, explore};

const SHARDS: usize = 2;
const ZONES: usize = 1;
/// The length of a prepared string.
const LARGE: usize = 40_000;

/// The log rings wrap often, and there is little space: spans move between shards, and some
/// transactions are refused.
fn geometry() -> Geometry {
    Geometry { shards: SHARDS, ring_parts: 3, ring_part: 512, zone_spans: 20 }
}

/// The value and the expiry time of each key.
type State = BTreeMap<(usize, &'static str), Value>;

#[derive(Debug)]
enum Plan {
    /// One transaction; with `rolled_back`, its last operation is rolled back.
    Run { ops: Vec<Op>, rolled_back: bool },
    /// A large string that is prepared without the lock.
    Large { key: usize, byte: u8 },
    /// A step of active expiry in a shard.
    Expire(usize),
    /// A step of freeing in a shard.
    Reclaim(usize),
    /// A step of defragmentation in a shard.
    Defragment(usize),
    /// Steps of compaction.
    Compact(usize),
}

struct Subjected;

impl Subject for Subjected {
    type State = State;
    type Plan = Plan;
    type Store = Keyspace;

    fn reserve(&self) -> usize {
        geometry().zone_spans * 65536 * (ZONES + 1) - 1
    }

    fn empty(&self) -> State {
        State::new()
    }

    fn open(&self, region: Region) -> Result<Keyspace, String> {
        let heap = if Heap::is_blank(&region) {
            let options =
                CreateOptions { geometry: geometry(), hash_seed: SEED, ..CreateOptions::default() };
            Heap::create(region, &options).map_err(|error| error.to_string())?
        } else {
            Heap::open(region, [0; 16]).map_err(|error| error.to_string())?.0
        };
        Ok(Keyspace::new(heap, NOW))
    }

    fn read(&self, ks: &mut Keyspace) -> Result<State, String> {
        let mut state = State::new();
        let txn = ks.begin_all(NOW);
        for d in 0..DBS {
            txn.database(db(d)).for_each(&mut |key, entry| {
                let known = KEYS.iter().find(|k| k.as_bytes() == key).unwrap_or(&"a key unknown");
                let value = txn.string(entry).and_then(|value| value.to_vec()).unwrap_or_default();
                state.insert((d, *known), (value, txn.properties(entry).expiry().unwrap_or(0)));
            });
        }
        drop(txn);
        ks.check().map_err(|error| error.to_string())?;
        match ks.heap().damaged() {
            0 => Ok(state),
            damaged => Err(format!("{damaged} damaged references met")),
        }
    }

    fn plan(&self, state: &State, rng: &mut fastrand::Rng) -> (Plan, State) {
        match rng.usize(..13) {
            0 => return (Plan::Expire(rng.usize(..SHARDS)), state.clone()),
            1 => return (Plan::Defragment(rng.usize(..SHARDS)), state.clone()),
            2 => {
                let (key, byte) = (rng.usize(..KEYS.len()), rng.u8(..));
                let value = Text::Bytes(byte, LARGE).bytes();
                let mut after = state.clone();
                after.insert((0, KEYS[key]), (value, 0));
                return (Plan::Large { key, byte }, after);
            }
            3 => return (Plan::Reclaim(rng.usize(..SHARDS)), state.clone()),
            4 => return (Plan::Compact(rng.usize(1..40)), state.clone()),
            _ => {}
        }
        let ops: Vec<Op> = (0..1 + rng.usize(..3)).map(|_| draw(rng)).collect();
        let rolled_back = rng.usize(..5) == 0;
        let kept = ops.len() - usize::from(rolled_back);
        let mut model = Model { keys: state.clone(), now: NOW };
        ops[..kept].iter().for_each(|op| model.apply(op));
        (Plan::Run { ops, rolled_back }, std::mem::take(model.live()))
    }

    fn close(&self, ks: &mut Keyspace) -> Result<(), String> {
        ks.heap().close().map_err(|error| error.to_string())
    }

    fn run(&self, ks: &mut Keyspace, plan: &Plan) -> Result<bool, String> {
        match plan {
            Plan::Large { key, byte } => {
                let (key, value) =
                    (ks.key(KEYS[*key].as_bytes()), Text::Bytes(*byte, LARGE).bytes());
                let Ok(prepared) = ks.prepare(&key, &value) else { return Ok(false) };
                let mut txn = ks.begin_one(key.shard(), NOW);
                if txn.strings().set_prepared(db(0), &key, prepared, Expire::Clear).is_err() {
                    return Ok(false);
                }
                txn.commit().map_err(|error| error.to_string())?;
            }
            Plan::Expire(shard) => {
                ks.expire_step(*shard, 50, NOW).map_err(|error| error.to_string())?;
            }
            Plan::Reclaim(shard) => {
                ks.reclaim_step(*shard, 2).map_err(|error| error.to_string())?;
            }
            Plan::Defragment(shard) => {
                let from = Defragmentation::default();
                ks.defragment_step(*shard, from, 8).map_err(|error| error.to_string())?;
            }
            Plan::Compact(steps) => {
                let mut at = Compaction::default();
                for _ in 0..*steps {
                    ks.compact_step(&mut at).map_err(|error| error.to_string())?;
                }
            }
            Plan::Run { ops, rolled_back } => {
                let mut txn = ks.begin(&shards(ks, ops), NOW);
                for (i, op) in ops.iter().enumerate() {
                    let savepoint = txn.savepoint();
                    let done = apply(&mut txn, op);
                    if *rolled_back && i + 1 == ops.len() {
                        txn.rollback_to(savepoint);
                    } else if done.is_err() {
                        return Ok(false);
                    }
                }
                if txn.commit().is_err() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// Returns the shards that these operations need.
fn shards(ks: &Keyspace, ops: &[Op]) -> Vec<usize> {
    let shard = |key: usize| ks.key(KEYS[key].as_bytes()).shard();
    let of = |op: &Op| match op {
        Op::Set(_, k, ..)
        | Op::Append(_, k, _)
        | Op::SetRange(_, k, ..)
        | Op::Delete(_, k)
        | Op::SetExpiry(_, k, _) => vec![shard(*k)],
        Op::Rename(a, b) | Op::Copy(a, b) => vec![shard(a.1), shard(b.1)],
        Op::Flush(_) | Op::Swap(..) => (0..SHARDS).collect(),
    };
    ops.iter().flat_map(of).collect()
}

fn draw(rng: &mut fastrand::Rng) -> Op {
    let at = |rng: &mut fastrand::Rng| (rng.usize(..2), rng.usize(..KEYS.len()));
    let (d, k) = at(rng);
    let text = match rng.usize(..16) {
        0..5 => Text::Int(rng.i64(..)),
        5..13 => Text::Bytes(rng.u8(..), [5, 30, 60][rng.usize(..3)]),
        13 | 14 => Text::Bytes(rng.u8(..), 5000),
        _ => Text::Bytes(rng.u8(..), 70_000),
    };
    match rng.usize(..16) {
        0..5 => {
            let when = [When::Clear, When::Keep, When::In(rng.u64(..3))];
            Op::Set(d, k, text, when[rng.usize(..3)])
        }
        5..8 => Op::Append(d, k, text),
        8 => Op::SetRange(d, k, rng.usize(..100), text),
        9 | 10 => Op::Delete(d, k),
        11 => Op::SetExpiry(d, k, rng.bool().then(|| rng.u64(..3))),
        12 => Op::Rename((d, k), at(rng)),
        13 => Op::Copy((d, k), at(rng)),
        14 => Op::Swap(0, 1),
        _ => Op::Flush(d),
    }
}

fn check(crash: Crash, seed: u64) {
    let effort = Effort { transactions: 30, images: 6, ..Effort::new(crash, seed) };
    match explore(&Subjected, effort) {
        Ok(counts) => {
            println!("{crash:?} {seed}: {counts:?}");
            assert!(counts.images > 200 && counts.refused < counts.crashes / 4, "{counts:?}");
        }
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn a_crash_leaves_whole_transactions_in_the_strict_model() {
    check(Crash::Strict, 1);
}

#[test]
fn a_crash_leaves_whole_transactions_in_the_x86_model() {
    check(Crash::X86, 2);
}
