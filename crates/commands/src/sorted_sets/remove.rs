//! ZREM, ZREMRANGEBYRANK, ZREMRANGEBYSCORE, ZREMRANGEBYLEX.

use std::ops::Range;

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{Error, Limits, SortedSetRef, Txn};

use super::bound::{LexRange, ScoreRange};
use super::select::span;

pub(crate) const ZREM: CommandSpec = CommandSpec {
    name: "zrem",
    summary: "Remove one or more members from a sorted set",
    complexity: "O(M*log(N)) with N being the number of elements in the sorted set and M the number of elements to be removed.",
    since: "1.2.0",
    group: Group::SortedSet,
    arity: -3,
    flags: WRITE | FAST,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RW | KEY_DELETE)],
    history: &[("2.4.0", "Accepts multiple elements.")],
    args: &[key("key", 0), string("member").multiple()],
    members: Some(Members::from(2, 1)),
    run: Run::Keys(zrem),
    ..CommandSpec::EMPTY
};

fn zrem(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (db, key, mut removed) = (call.db(), call.key(0), 0);
    let mut edit = txn.sorted_sets().edit(db, &key, Limits::NONE)?;
    for member in &call.args[2..] {
        removed += i64::from(edit.remove(txn, member)?);
    }
    edit.finish(txn, db, &key)?;
    if removed > 0 {
        call.wrote();
        call.notify_taken(EventClass::SortedSet, txn, "zrem", &key);
    }
    call.out.integer(removed);
    Ok(())
}

pub(crate) const ZREMRANGEBYRANK: CommandSpec = CommandSpec {
    name: "zremrangebyrank",
    summary: "Remove all members in a sorted set within the given indexes",
    complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.",
    since: "2.0.0",
    group: Group::SortedSet,
    arity: 4,
    flags: WRITE,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RW | KEY_DELETE)],
    args: &[key("key", 0), integer("start"), integer("stop")],
    weigh: Some(weights::reads_range),
    run: Run::Keys(zremrangebyrank),
    ..CommandSpec::EMPTY
};

fn zremrangebyrank(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (start, stop) = (call.int(2)?, call.int(3)?);
    remove(call, txn, |sorted_set| Ok(span(start, stop, sorted_set.len())))
}

pub(crate) const ZREMRANGEBYSCORE: CommandSpec = CommandSpec {
    name: "zremrangebyscore",
    summary: "Remove all members in a sorted set within the given scores",
    complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.",
    since: "1.2.0",
    group: Group::SortedSet,
    arity: 4,
    flags: WRITE,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RW | KEY_DELETE)],
    args: &[key("key", 0), double("min"), double("max")],
    weigh: Some(weights::reads_bounds),
    run: Run::Keys(zremrangebyscore),
    ..CommandSpec::EMPTY
};

fn zremrangebyscore(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let range = ScoreRange::parse(call.args[2], call.args[3])?;
    remove(call, txn, |sorted_set| range.ranks(sorted_set))
}

pub(crate) const ZREMRANGEBYLEX: CommandSpec = CommandSpec {
    name: "zremrangebylex",
    summary: "Remove all members in a sorted set between the given lexicographical range",
    complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.",
    since: "2.8.9",
    group: Group::SortedSet,
    arity: 4,
    flags: WRITE,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RW | KEY_DELETE)],
    args: &[key("key", 0), string("min"), string("max")],
    weigh: Some(weights::reads_bounds),
    run: Run::Keys(zremrangebylex),
    ..CommandSpec::EMPTY
};

fn zremrangebylex(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let range = LexRange::parse(call.args[2], call.args[3])?;
    remove(call, txn, |sorted_set| range.ranks(sorted_set, false))
}

fn remove(
    call: &mut Call<'_>,
    txn: &mut Txn<'_>,
    ranks: impl FnOnce(&SortedSetRef<'_>) -> Result<Range<u64>, Error>,
) -> Done {
    let (db, key) = (call.db(), call.key(0));
    let range = match txn.find_mut(db, &key)? {
        Some(entry) => ranks(&txn.sorted_set(&entry)?)?,
        None => 0..0,
    };
    call.check_work(weights::STORED * (range.end - range.start))?;
    let mut removed = 0;
    if range.start < range.end {
        let mut edit = txn.sorted_sets().edit(db, &key, Limits::NONE)?;
        removed = edit.remove_range(txn, range.start, range.end - range.start, |_, _| {})?;
        edit.finish(txn, db, &key)?;
        call.wrote();
        call.notify_taken(EventClass::SortedSet, txn, call.command.spec.name, &key);
    }
    call.out.integer(removed as i64);
    Ok(())
}
