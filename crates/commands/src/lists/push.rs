//! LPUSH, RPUSH, LPUSHX, RPUSHX.

use engine::call::{Call, Run, Words};
use engine::failure::{Done, Failure};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{Side, Txn};

pub(crate) const LPUSH: CommandSpec = CommandSpec {
    name: "lpush",
    summary: "Prepend one or multiple elements to a list",
    complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
    since: "1.0.0",
    group: Group::List,
    arity: -3,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_LIST,
    keys: &[KeySpec::one(1, KEY_RW | KEY_INSERT)],
    history: &[("2.4.0", "Accepts multiple `element` arguments.")],
    args: &[key("key", 0), string("element").multiple()],
    run: Run::Keys(lpush),
    joined: Some(lpush_joined),
    ..CommandSpec::EMPTY
};

fn lpush(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    push(call, txn, Side::Head)
}

pub(crate) const RPUSH: CommandSpec = CommandSpec {
    name: "rpush",
    summary: "Append one or multiple elements to a list",
    complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
    since: "1.0.0",
    group: Group::List,
    arity: -3,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_LIST,
    keys: &[KeySpec::one(1, KEY_RW | KEY_INSERT)],
    history: &[("2.4.0", "Accepts multiple `element` arguments.")],
    args: &[key("key", 0), string("element").multiple()],
    run: Run::Keys(rpush),
    joined: Some(rpush_joined),
    ..CommandSpec::EMPTY
};

fn rpush(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    push(call, txn, Side::Tail)
}

pub(crate) const LPUSHX: CommandSpec = CommandSpec {
    name: "lpushx",
    summary: "Prepend an element to a list, only if the list exists",
    complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
    since: "2.2.0",
    group: Group::List,
    arity: -3,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_LIST,
    keys: &[KeySpec::one(1, KEY_RW | KEY_INSERT)],
    history: &[("4.0.0", "Accepts multiple `element` arguments.")],
    args: &[key("key", 0), string("element").multiple()],
    run: Run::Keys(lpushx),
    joined: Some(lpush_joined),
    ..CommandSpec::EMPTY
};

fn lpushx(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    push_if_there(call, txn, Side::Head)
}

pub(crate) const RPUSHX: CommandSpec = CommandSpec {
    name: "rpushx",
    summary: "Append an element to a list, only if the list exists",
    complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
    since: "2.2.0",
    group: Group::List,
    arity: -3,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_LIST,
    keys: &[KeySpec::one(1, KEY_RW | KEY_INSERT)],
    history: &[("4.0.0", "Accepts multiple `element` arguments.")],
    args: &[key("key", 0), string("element").multiple()],
    run: Run::Keys(rpushx),
    joined: Some(rpush_joined),
    ..CommandSpec::EMPTY
};

fn rpushx(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    push_if_there(call, txn, Side::Tail)
}

fn push_if_there(call: &mut Call<'_>, txn: &mut Txn<'_>, side: Side) -> Done {
    if txn.find_mut(call.db(), &call.key(0))?.is_none() {
        call.out.integer(0);
        return Ok(());
    }
    push(call, txn, side)
}

fn push(call: &mut Call<'_>, txn: &mut Txn<'_>, side: Side) -> Done {
    let limits = call.engine.config().list_limits();
    let elements = call.args[2..].iter().copied();
    let len = txn.lists().push(call.db(), &call.key(0), side, elements, limits)?;
    pushed(call, side, len);
    Ok(())
}

/// Logs a push, and replies with the new length.
fn pushed(call: &mut Call<'_>, side: Side, len: u64) {
    call.wrote();
    let name = if side == Side::Head { "lpush" } else { "rpush" };
    call.notify(EventClass::List, name, &call.key(0));
    call.out.integer(len as i64);
}

fn lpush_joined<'a>(
    call: &mut Call<'a>,
    txn: &mut Txn<'_>,
    requests: &[Words<'a>],
) -> Result<usize, Failure> {
    push_joined(call, txn, requests, Side::Head)
}

fn rpush_joined<'a>(
    call: &mut Call<'a>,
    txn: &mut Txn<'_>,
    requests: &[Words<'a>],
) -> Result<usize, Failure> {
    push_joined(call, txn, requests, Side::Tail)
}

/// Pushes the elements of several requests to a list that exists.
fn push_joined<'a>(
    call: &mut Call<'a>,
    txn: &mut Txn<'_>,
    requests: &[Words<'a>],
    side: Side,
) -> Result<usize, Failure> {
    let (db, key) = (call.db(), call.key(0));
    let Some(entry) = txn.peek(db, &key) else { return Ok(0) };
    let mut len = txn.list(&entry)?.len()?;
    let limits = call.engine.config().list_limits();
    let elements = requests.iter().flat_map(|args| args[2..].iter().copied());
    txn.lists().push(db, &key, side, elements, limits)?;
    for args in requests {
        call.begin_joined(args);
        len += args[2..].len() as u64;
        pushed(call, side, len);
    }
    Ok(requests.len())
}
