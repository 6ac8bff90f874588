//! GET, GETDEL, GETSET, STRLEN.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{Expire, Txn};

use super::reply_string;

pub(crate) const GET: CommandSpec = CommandSpec {
    name: "get",
    summary: "Get the value of a key",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::String,
    arity: 2,
    flags: READONLY | FAST,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0)],
    run: Run::Keys(get),
    ..CommandSpec::EMPTY
};

fn get(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    reply_string(call, txn, &call.key(0))?;
    Ok(())
}

pub(crate) const GETDEL: CommandSpec = CommandSpec {
    name: "getdel",
    summary: "Get the value of a key and delete the key",
    complexity: "O(1)",
    since: "6.2.0",
    group: Group::String,
    arity: 2,
    flags: WRITE | FAST,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_DELETE)],
    args: &[key("key", 0)],
    run: Run::Keys(getdel),
    ..CommandSpec::EMPTY
};

fn getdel(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let key = call.key(0);
    if reply_string(call, txn, &key)? {
        txn.keys().delete(call.db(), &key)?;
        call.wrote_as(&[b"DEL", key.bytes()]);
        call.notify(EventClass::Generic, "del", &key);
    }
    Ok(())
}

pub(crate) const GETSET: CommandSpec = CommandSpec {
    name: "getset",
    summary: "Set the string value of a key and return its old value",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::String,
    arity: 3,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_UPDATE)],
    deprecated: Some(Deprecated { since: "6.2.0", instead: "`SET` with the `!GET` argument" }),
    args: &[key("key", 0), string("value")],
    value: Some(2),
    run: Run::Keys(getset),
    ..CommandSpec::EMPTY
};

fn getset(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let key = call.key(0);
    reply_string(call, txn, &key)?;
    call.set_value(txn, 2, Expire::Clear)?;
    call.wrote_as(&[b"SET", key.bytes(), call.args[2]]);
    call.notify(EventClass::String, "set", &key);
    Ok(())
}

pub(crate) const STRLEN: CommandSpec = CommandSpec {
    name: "strlen",
    summary: "Get the length of the value stored in a key",
    complexity: "O(1)",
    since: "2.2.0",
    group: Group::String,
    arity: 2,
    flags: READONLY | FAST,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_RO)],
    args: &[key("key", 0)],
    run: Run::Keys(strlen),
    ..CommandSpec::EMPTY
};

fn strlen(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let len = match txn.find(call.db(), &call.key(0)) {
        Some(entry) => txn.string(&entry)?.len(),
        None => 0,
    };
    call.out.integer(len as i64);
    Ok(())
}
