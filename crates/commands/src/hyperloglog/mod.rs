//! HyperLogLogs: how many different elements were added, about, in 12 KiB at most.
//!
//! They are strings in Redis's own form, sparse and dense, so that GET, SET and the command log carry them between the
//! two.

mod debug;
mod hash;
mod registers;
mod sketch;
mod sparse;

use keyspace::{Expire, Key, Txn};

use crate::call::{Call, Run};
use crate::failure::{Done, Failure};
use crate::spec::*;
use registers::{COUNT, estimate, histogram};
use sketch::Sketch;
use sparse::Corrupted;

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] =
    &[&PFADD, &PFCOUNT, &PFMERGE, &debug::PFDEBUG, &debug::PFSELFTEST];

const NOT_ONE: &str = "WRONGTYPE Key is not a valid HyperLogLog string value.";

impl From<Corrupted> for Failure {
    fn from(_: Corrupted) -> Failure {
        "INVALIDOBJ Corrupted HLL object detected".into()
    }
}

pub(crate) const PFADD: CommandSpec = CommandSpec {
    name: "pfadd",
    summary: "Adds the specified elements to the specified HyperLogLog.",
    complexity: "O(1) to add every element.",
    since: "2.8.9",
    group: Group::Hyperloglog,
    arity: -2,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_HYPERLOGLOG,
    keys: &[KeySpec::one(1, KEY_RW | KEY_INSERT)],
    args: &[key("key", 0), string("element").optional().multiple()],
    run: Run::Keys(pfadd),
    ..CommandSpec::EMPTY
};

fn pfadd(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let key = call.key(0);
    let found = for_change(call, txn, &key)?;
    let mut changed = found.is_none();
    let mut sketch = found.unwrap_or_else(Sketch::empty);
    let limit = call.engine.config().hll_sparse_max_bytes();
    for element in &call.args[2..] {
        let (register, value) = hash::place(element);
        changed |= sketch.raise(register, value, limit)?;
    }
    if changed {
        sketch.forget();
        store(call, txn, &key, &sketch)?;
    }
    call.out.integer(i64::from(changed));
    Ok(())
}

pub(crate) const PFCOUNT: CommandSpec = CommandSpec {
name: "pfcount",
summary: "Return the approximated cardinality of the set(s) observed by the HyperLogLog at key(s).",
complexity: "O(1) with a very small average constant time when called with a single key. O(N) with N being the number of keys, and much bigger constant times, when called with multiple keys.",
since: "2.8.9",
group: Group::Hyperloglog,
arity: -2,
flags: READONLY | MAY_REPLICATE,
acl: ACL_HYPERLOGLOG,
keys: &[KeySpec::rest(1, 1, KEY_RW | KEY_ACCESS).notes("RW because it may change the internal representation of the key, and propagate to replicas")],
args: &[key("key", 0).multiple()],
run: Run::Keys(pfcount),
..CommandSpec::EMPTY
};

fn pfcount(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let count = match call.keys {
        [key] => count_one(call, txn, key)?,
        keys => {
            let mut registers = [0; COUNT];
            for key in keys {
                if let Some(sketch) = look(call, txn, key)? {
                    sketch.raise_all(&mut registers)?;
                }
            }
            estimate(&histogram(&registers))
        }
    };
    call.out.integer(count as i64);
    Ok(())
}

/// The estimate of one, which is remembered in it.
fn count_one(call: &mut Call<'_>, txn: &mut Txn<'_>, key: &Key<'_>) -> Result<u64, Failure> {
    let Some(mut sketch) = look(call, txn, key)? else { return Ok(0) };
    if let Some(count) = sketch.remembered() {
        return Ok(count);
    }
    let count = sketch.count()?;
    store(call, txn, key, &sketch)?;
    Ok(count)
}

pub(crate) const PFMERGE: CommandSpec = CommandSpec {
    name: "pfmerge",
    summary: "Merge N different HyperLogLogs into a single one.",
    complexity: "O(N) to merge N HyperLogLogs, but with high constant times.",
    since: "2.8.9",
    group: Group::Hyperloglog,
    arity: -2,
    flags: WRITE | DENYOOM,
    acl: ACL_HYPERLOGLOG,
    keys: &[
        KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_INSERT),
        KeySpec::rest(2, 1, KEY_RO | KEY_ACCESS),
    ],
    args: &[key("destkey", 0), key("sourcekey", 1).multiple()],
    run: Run::Keys(pfmerge),
    ..CommandSpec::EMPTY
};

fn pfmerge(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let mut registers = [0; COUNT];
    let mut dense = false;
    for key in call.keys {
        // As for a write: one that has expired is deleted first, so that a replay, for which nothing expires, reads the same.
        if let Some(sketch) = for_change(call, txn, key)? {
            dense |= !sketch.is_sparse();
            sketch.raise_all(&mut registers)?;
        }
    }
    let key = call.key(0);
    let mut sketch = for_change(call, txn, &key)?.unwrap_or_else(Sketch::empty);
    if dense && sketch.is_sparse() {
        sketch.make_dense()?;
    }
    let limit = call.engine.config().hll_sparse_max_bytes();
    for (register, &value) in registers.iter().enumerate().filter(|(_, value)| **value > 0) {
        sketch.raise(register, value, limit)?;
    }
    sketch.forget();
    store(call, txn, &key, &sketch)?;
    call.out.ok();
    Ok(())
}

/// The one at a key, for a command that reads.
fn look(call: &Call<'_>, txn: &mut Txn<'_>, key: &Key<'_>) -> Result<Option<Sketch>, Failure> {
    let Some(entry) = txn.find(call.db(), key) else { return Ok(None) };
    let bytes = txn.string(&entry)?.to_vec();
    Sketch::read(bytes).map(Some).ok_or_else(|| NOT_ONE.into())
}

/// The one at a key, for a command that changes it.
fn for_change(
    call: &Call<'_>,
    txn: &mut Txn<'_>,
    key: &Key<'_>,
) -> Result<Option<Sketch>, Failure> {
    let Some(entry) = txn.find_mut(call.db(), key)? else { return Ok(None) };
    let bytes = txn.string(&entry)?.to_vec();
    Sketch::read(bytes).map(Some).ok_or_else(|| NOT_ONE.into())
}

fn store(call: &mut Call<'_>, txn: &mut Txn<'_>, key: &Key<'_>, sketch: &Sketch) -> Done {
    txn.set_built(call.db(), key, sketch.as_bytes(), Expire::Keep)?;
    call.wrote();
    Ok(())
}
