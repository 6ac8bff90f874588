//! LMOVE, RPOPLPUSH: from one list to another, or round one.

use keyspace::{Side, Txn};

use super::side;
use crate::call::{Call, Run};
use crate::failure::Done;
use crate::spec::*;

pub(crate) const LMOVE: CommandSpec = CommandSpec {
    name: "lmove",
    summary: "Pop an element from a list, push it to another list and return it",
    complexity: "O(1)",
    since: "6.2.0",
    group: Group::List,
    arity: 5,
    flags: WRITE | DENYOOM,
    acl: ACL_LIST,
    keys: &[
        KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_DELETE),
        KeySpec::one(2, KEY_RW | KEY_INSERT),
    ],
    args: &[
        key("source", 0),
        key("destination", 1),
        oneof("wherefrom", &[token("left", "LEFT"), token("right", "RIGHT")]),
        oneof("whereto", &[token("left", "LEFT"), token("right", "RIGHT")]),
    ],
    run: Run::Keys(lmove),
    ..CommandSpec::EMPTY
};

fn lmove(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (from, to) = (side(call.args[3])?, side(call.args[4])?);
    relay(call, txn, from, to)
}

pub(crate) const RPOPLPUSH: CommandSpec = CommandSpec {
    name: "rpoplpush",
    summary: "Remove the last element in a list, prepend it to another list and return it",
    complexity: "O(1)",
    since: "1.2.0",
    group: Group::List,
    arity: 3,
    flags: WRITE | DENYOOM,
    acl: ACL_LIST,
    keys: &[
        KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_DELETE),
        KeySpec::one(2, KEY_RW | KEY_INSERT),
    ],
    deprecated: Some(Deprecated {
        since: "6.2.0",
        instead: "`LMOVE` with the `RIGHT` and `LEFT` arguments",
    }),
    args: &[key("source", 0), key("destination", 1)],
    run: Run::Keys(rpoplpush),
    ..CommandSpec::EMPTY
};

fn rpoplpush(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    relay(call, txn, Side::Tail, Side::Head)
}

fn relay(call: &mut Call<'_>, txn: &mut Txn<'_>, from: Side, to: Side) -> Done {
    let (db, source, target) = (call.db(), call.key(0), call.key(1));
    let Some(entry) = txn.find_mut(db, &source)? else {
        call.out.null();
        return Ok(());
    };
    let len = txn.list(&entry)?.len()?;
    if let Some(entry) = txn.find_mut(db, &target)? {
        txn.list(&entry)?;
    }
    let limits = call.engine.config().list_limits();
    let is_round = source.bytes() == target.bytes();
    let mut moved = Vec::new();
    if is_round && len == 1 {
        // The key is not to go in between: its expiry time would go with it.
        if let Some(entry) = txn.find_mut(db, &source)? {
            txn.list(&entry)?.visit(0, Side::Head, |element| {
                moved.extend_from_slice(element);
                false
            })?;
        }
    } else {
        txn.pop(db, &source, from, 1, |element| moved.extend_from_slice(element))?;
        txn.push(db, &target, to, [moved.as_slice()], limits)?;
    }
    call.wrote();
    call.out.bulk(moved);
    Ok(())
}
