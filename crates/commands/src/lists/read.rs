//! LLEN, LINDEX, LRANGE.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;
use keyspace::{Side, Txn};

use super::{list, span};

pub(crate) const LLEN: CommandSpec = CommandSpec {
    name: "llen",
    summary: "Get the length of a list",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::List,
    arity: 2,
    flags: READONLY | FAST,
    acl: ACL_LIST,
    keys: &[KeySpec::one(1, KEY_RO)],
    args: &[key("key", 0)],
    run: Run::Keys(llen),
    ..CommandSpec::EMPTY
};

fn llen(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let len = match list(call, txn)? {
        Some(list) => list.len()?,
        None => 0,
    };
    call.out.integer(len as i64);
    Ok(())
}

pub(crate) const LINDEX: CommandSpec = CommandSpec {
    name: "lindex",
    summary: "Get an element from a list by its index",
    complexity: "O(N) where N is the number of elements to traverse to get to the element at index. This makes asking for the first or the last element of the list O(1).",
    since: "1.0.0",
    group: Group::List,
    arity: 3,
    flags: READONLY,
    acl: ACL_LIST,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0), integer("index")],
    run: Run::Keys(lindex),
    ..CommandSpec::EMPTY
};

fn lindex(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let mut found = false;
    if let Some(list) = list(call, txn)? {
        let index = super::index(call.int(2)?, list.len()?);
        if let Some(index) = index {
            list.visit(index, Side::Head, |element| {
                found = true;
                call.out.bulk(element);
                false
            })?;
        }
    }
    if !found {
        call.out.null();
    }
    Ok(())
}

pub(crate) const LRANGE: CommandSpec = CommandSpec {
    name: "lrange",
    summary: "Get a range of elements from a list",
    complexity: "O(S+N) where S is the distance of start offset from HEAD for small lists, from nearest end (HEAD or TAIL) for large lists; and N is the number of elements in the specified range.",
    since: "1.0.0",
    group: Group::List,
    arity: 4,
    flags: READONLY,
    traits: BOUNDED,
    acl: ACL_LIST,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0), integer("start"), integer("stop")],
    weigh: Some(weights::reads_range),
    run: Run::Keys(lrange),
    ..CommandSpec::EMPTY
};

fn lrange(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (start, stop) = (call.int(2)?, call.int(3)?);
    let Some(list) = list(call, txn)? else {
        call.out.array(0);
        return Ok(());
    };
    let span = span(start, stop, list.len()?);
    let mut left = span.end - span.start;
    call.out.array(left as usize);
    if left > 0 {
        list.visit(span.start, Side::Head, |element| {
            call.out.bulk(element);
            left -= 1;
            left > 0
        })?;
    }
    Ok(())
}
