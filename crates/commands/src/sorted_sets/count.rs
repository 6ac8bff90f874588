//! ZCARD, ZCOUNT, ZLEXCOUNT.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;
use keyspace::Txn;

use super::bound::{LexRange, ScoreRange};
use super::sorted_set;

pub(crate) const ZCARD: CommandSpec = CommandSpec {
    name: "zcard",
    summary: "Get the number of members in a sorted set",
    complexity: "O(1)",
    since: "1.2.0",
    group: Group::SortedSet,
    arity: 2,
    flags: READONLY | FAST,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RO)],
    args: &[key("key", 0)],
    run: Run::Keys(zcard),
    ..CommandSpec::EMPTY
};

fn zcard(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let len = sorted_set(call, txn)?.map_or(0, |sorted_set| sorted_set.len());
    call.out.integer(len as i64);
    Ok(())
}

pub(crate) const ZCOUNT: CommandSpec = CommandSpec {
    name: "zcount",
    summary: "Count the members in a sorted set with scores within the given values",
    complexity: "O(log(N)) with N being the number of elements in the sorted set.",
    since: "2.0.0",
    group: Group::SortedSet,
    arity: 4,
    flags: READONLY | FAST,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0), double("min"), double("max")],
    run: Run::Keys(zcount),
    ..CommandSpec::EMPTY
};

fn zcount(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let range = ScoreRange::parse(call.args[2], call.args[3])?;
    let ranks = sorted_set(call, txn)?.map_or(Ok(0..0), |sorted_set| range.ranks(&sorted_set))?;
    call.out.integer((ranks.end - ranks.start) as i64);
    Ok(())
}

pub(crate) const ZLEXCOUNT: CommandSpec = CommandSpec {
    name: "zlexcount",
    summary: "Count the number of members in a sorted set between a given lexicographical range",
    complexity: "O(log(N)) with N being the number of elements in the sorted set.",
    since: "2.8.9",
    group: Group::SortedSet,
    arity: 4,
    flags: READONLY | FAST,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0), string("min"), string("max")],
    run: Run::Keys(zlexcount),
    ..CommandSpec::EMPTY
};

fn zlexcount(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let range = LexRange::parse(call.args[2], call.args[3])?;
    let ranks =
        sorted_set(call, txn)?.map_or(Ok(0..0), |sorted_set| range.ranks(&sorted_set, false))?;
    call.out.integer((ranks.end - ranks.start) as i64);
    Ok(())
}
