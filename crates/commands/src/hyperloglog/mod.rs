//! HyperLogLogs: approximate numbers of different elements. The keyspace implements them; here are
//! arguments and replies.

mod debug;

use engine::call::{Call, Run};
use engine::failure::{Done, SYNTAX};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::Txn;

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] =
    &[&PFADD, &PFCOUNT, &PFMERGE, &debug::PFDEBUG, &debug::PFSELFTEST];

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
    let limit = call.engine.config().hll_sparse_max_bytes();
    let elements = call.args[2..].iter().copied();
    let changed = txn.hyperloglogs().add(call.db(), &call.key(0), elements, limit)?;
    if changed {
        call.wrote();
        call.notify(EventClass::String, "pfadd", &call.key(0));
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
    // A replica's data is its primary's: an estimate is stored there when it is stored here.
    let may_store = !call.engine.replication().is_replica() || call.session.replay;
    let (count, wrote) = txn.hyperloglogs().count(call.db(), call.keys, may_store)?;
    if wrote {
        call.wrote();
    }
    call.out.integer(count as i64);
    Ok(())
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
    let [target, sources @ ..] = call.keys else { return Err(SYNTAX.into()) };
    let limit = call.engine.config().hll_sparse_max_bytes();
    txn.hyperloglogs().merge(call.db(), target, sources, limit)?;
    call.wrote();
    call.notify(EventClass::String, "pfadd", target);
    call.out.ok();
    Ok(())
}
