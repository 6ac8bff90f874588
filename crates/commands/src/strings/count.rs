//! INCR, DECR, INCRBY, DECRBY, INCRBYFLOAT: strings as numbers.
//!
//! INCRBYFLOAT computes with 80-bit numbers as Redis does, and is logged as the SET of its result,
//! since another machine might round differently.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, NOT_FLOAT, NOT_INTEGER};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{Expire, Key, Str, Txn};
use resp::number::{LongDouble, parse_i64};

pub(crate) const INCR: CommandSpec = CommandSpec {
    name: "incr",
    summary: "Increment the integer value of a key by one",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::String,
    arity: 2,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_UPDATE)],
    args: &[key("key", 0)],
    run: Run::Keys(incr),
    ..CommandSpec::EMPTY
};

fn incr(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    add(call, txn, 1)
}

pub(crate) const DECR: CommandSpec = CommandSpec {
    name: "decr",
    summary: "Decrement the integer value of a key by one",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::String,
    arity: 2,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_UPDATE)],
    args: &[key("key", 0)],
    run: Run::Keys(decr),
    ..CommandSpec::EMPTY
};

fn decr(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    add(call, txn, -1)
}

pub(crate) const INCRBY: CommandSpec = CommandSpec {
    name: "incrby",
    summary: "Increment the integer value of a key by the given amount",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::String,
    arity: 3,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_UPDATE)],
    args: &[key("key", 0), integer("increment")],
    run: Run::Keys(incrby),
    ..CommandSpec::EMPTY
};

fn incrby(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let by = call.int(2)?;
    add(call, txn, by)
}

pub(crate) const DECRBY: CommandSpec = CommandSpec {
    name: "decrby",
    summary: "Decrement the integer value of a key by the given number",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::String,
    arity: 3,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_UPDATE)],
    args: &[key("key", 0), integer("decrement")],
    run: Run::Keys(decrby),
    ..CommandSpec::EMPTY
};

fn decrby(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let by = call.int(2)?.checked_neg().ok_or("ERR decrement would overflow")?;
    add(call, txn, by)
}

/// The maximum number of characters in a number.
const LONGEST_NUMBER: usize = 20;

fn add(call: &mut Call<'_>, txn: &mut Txn<'_>, by: i64) -> Done {
    let (db, key) = (call.db(), call.key(0));
    let old = match txn.find_mut(db, &key)? {
        Some(entry) => read_integer(&txn.string(&entry)?)?,
        None => 0,
    };
    let new = old.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
    txn.strings().set_int(db, &key, new, Expire::Keep)?;
    call.wrote();
    call.notify(EventClass::String, "incrby", &key);
    call.out.integer(new);
    Ok(())
}

fn read_integer(value: &Str<'_>) -> Result<i64, Failure> {
    if let Some(integer) = value.as_int() {
        return Ok(integer);
    }
    if value.len() > LONGEST_NUMBER {
        return Err(NOT_INTEGER.into());
    }
    parse_i64(&value.to_vec()?).ok_or_else(|| NOT_INTEGER.into())
}

pub(crate) const INCRBYFLOAT: CommandSpec = CommandSpec {
    name: "incrbyfloat",
    summary: "Increment the float value of a key by the given amount",
    complexity: "O(1)",
    since: "2.6.0",
    group: Group::String,
    arity: 3,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_UPDATE)],
    args: &[key("key", 0), double("increment")],
    run: Run::Keys(incrbyfloat),
    ..CommandSpec::EMPTY
};

fn incrbyfloat(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (db, key) = (call.db(), call.key(0));
    let old = match txn.find_mut(db, &key)? {
        Some(entry) => float(&txn.string(&entry)?.to_vec()?)?,
        None => float(b"0")?,
    };
    let by = float(call.args[2])?;
    let new = old
        .checked_add(by)
        .filter(LongDouble::is_finite)
        .ok_or("ERR increment would produce NaN or Infinity")?;
    let mut text = Vec::with_capacity(32);
    new.write(&mut text);
    store(call, txn, &key, &text)
}

fn store(call: &mut Call<'_>, txn: &mut Txn<'_>, key: &Key<'_>, text: &[u8]) -> Done {
    txn.strings().set_raw(call.db(), key, text, Expire::Keep)?;
    call.wrote_as(&[b"SET", key.bytes(), text, b"KEEPTTL"]);
    call.notify(EventClass::String, "incrbyfloat", key);
    call.out.bulk(text);
    Ok(())
}

fn float(text: &[u8]) -> Result<LongDouble, Failure> {
    LongDouble::parse(text).ok_or_else(|| NOT_FLOAT.into())
}
