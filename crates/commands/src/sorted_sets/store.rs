//! ZRANGESTORE, and storing a result as the value of a key.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{Key, Txn};

use super::gathered::GatheredScores;
use super::select::{Form, Selection};
use super::sorted_set_at;

pub(crate) const ZRANGESTORE: CommandSpec = CommandSpec {
    name: "zrangestore",
    summary: "Store a range of members from sorted set into another key",
    complexity: "O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements stored into the destination key.",
    since: "6.2.0",
    group: Group::SortedSet,
    arity: -5,
    flags: WRITE | DENYOOM,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_OW | KEY_UPDATE), KeySpec::one(2, KEY_RO | KEY_ACCESS)],
    args: &[
        key("dst", 0),
        key("src", 1),
        string("min"),
        string("max"),
        oneof("sortby", &[token("byscore", "BYSCORE"), token("bylex", "BYLEX")]).optional(),
        token("rev", "REV").optional(),
        block("offset_count", &[integer("offset"), integer("count")]).token("LIMIT").optional(),
    ],
    weigh: Some(weights::stores_range),
    run: Run::Keys(zrangestore),
    ..CommandSpec::EMPTY
};

fn zrangestore(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let form = Form { key: 2, by: None, backwards: None, stores: true };
    let selection = Selection::parse(call, form)?;
    let source = call.key(1);
    // An expired source is deleted first, so that a replay, for which nothing expires, reads the
    // same.
    txn.find_mut(call.db(), &source)?;
    let mut members = GatheredScores::default();
    if let Some(sorted_set) = sorted_set_at(call, txn, &source)? {
        let (first, count) = selection.ranks(&sorted_set)?;
        call.check_work(weights::STORED * count)?;
        if count > 0 {
            sorted_set.visit(first, selection.backwards, |member, score| {
                members.push(member, score);
                (members.len() as u64) < count
            })?;
        }
    }
    let target = call.key(0);
    store(call, txn, &target, members.iter())?;
    call.out.integer(members.len() as i64);
    Ok(())
}

/// Replaces the value of a key with these members, each of which must be given once.
pub(crate) fn store<'a>(
    call: &mut Call<'_>,
    txn: &mut Txn<'_>,
    key: &Key<'_>,
    members: impl ExactSizeIterator<Item = (&'a [u8], f64)>,
) -> Result<(), Failure> {
    let (db, limits) = (call.db(), call.engine.config().sorted_set_limits());
    let stored = members.len();
    if txn.sorted_sets().replace(db, key, members, limits)? {
        call.wrote();
        let name = match call.command.spec.name {
            "georadius" | "georadiusbymember" => "georadiusstore",
            name => name,
        };
        call.notify_stored(EventClass::SortedSet, name, key, stored == 0);
    }
    Ok(())
}
