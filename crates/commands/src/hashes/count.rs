//! HINCRBY, HINCRBYFLOAT: fields as numbers.
//!
//! A field keeps its TTL. HINCRBYFLOAT is logged as the HSET of its result, since another machine
//! might round differently, or as an HSETEX if the field has a TTL.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, NOT_FLOAT};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{FieldTime, Txn, Type};
use resp::number::{LongDouble, parse_i64};

pub(crate) const HINCRBY: CommandSpec = CommandSpec {
    name: "hincrby",
    summary: "Increment the integer value of a hash field by the given number",
    complexity: "O(1)",
    since: "2.0.0",
    group: Group::Hash,
    arity: 4,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_HASH,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_UPDATE)],
    args: &[key("key", 0), string("field"), integer("increment")],
    members: Some(Members::one(2)),
    run: Run::Keys(hincrby),
    ..CommandSpec::EMPTY
};

fn hincrby(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let by = call.int(3)?;
    let old = read(call, txn, 0, |text| {
        parse_i64(text).ok_or_else(|| "ERR hash value is not an integer".into())
    })?;
    let new = old.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
    store(call, txn, itoa::Buffer::new().format(new).as_bytes())?;
    call.wrote();
    call.notify(EventClass::Hash, "hincrby", &call.key(0));
    call.out.integer(new);
    Ok(())
}

pub(crate) const HINCRBYFLOAT: CommandSpec = CommandSpec {
    name: "hincrbyfloat",
    summary: "Increment the float value of a hash field by the given amount",
    complexity: "O(1)",
    since: "2.6.0",
    group: Group::Hash,
    arity: 4,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_HASH,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_UPDATE)],
    args: &[key("key", 0), string("field"), double("increment")],
    members: Some(Members::one(2)),
    run: Run::Keys(hincrbyfloat),
    ..CommandSpec::EMPTY
};

fn hincrbyfloat(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let by = LongDouble::parse(call.args[3]).ok_or(NOT_FLOAT)?;
    if !by.is_finite() {
        return Err("ERR value is NaN or Infinity".into());
    }
    let zero = LongDouble::parse(b"0").ok_or(NOT_FLOAT)?;
    let old = read(call, txn, zero, |text| {
        LongDouble::parse(text).ok_or_else(|| "ERR hash value is not a float".into())
    })?;
    let new = old
        .checked_add(by)
        .filter(LongDouble::is_finite)
        .ok_or("ERR increment would produce NaN or Infinity")?;
    let mut text = Vec::with_capacity(32);
    new.write(&mut text);
    let (key, field) = (call.args[1], call.args[2]);
    if store(call, txn, &text)? {
        call.wrote_as(&[b"HSETEX", key, b"KEEPTTL", b"FIELDS", b"1", field, &text]);
    } else {
        call.wrote_as(&[b"HSET", key, field, &text]);
    }
    call.notify(EventClass::Hash, "hincrbyfloat", &call.key(0));
    call.out.bulk(text);
    Ok(())
}

/// Returns the number in the field of the request, if there is one.
fn read<T>(
    call: &Call<'_>,
    txn: &mut Txn<'_>,
    absent: T,
    parse: impl FnOnce(&[u8]) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let Some(entry) = txn.find_mut(call.db(), &call.key(0))? else { return Ok(absent) };
    match txn.members(&entry, Type::Hash)?.get(call.args[2])? {
        Some(value) => parse(value.as_ref()),
        None => Ok(absent),
    }
}

/// Stores the result. Returns true if the field has a TTL, which it keeps.
fn store(call: &Call<'_>, txn: &mut Txn<'_>, text: &[u8]) -> Result<bool, Failure> {
    let limits = call.engine.config().hash_limits();
    let pair = [(call.args[2], text)];
    txn.hashes().put_with_time(call.db(), &call.key(0), pair, FieldTime::Keep, limits)?;
    let Some(entry) = txn.peek(call.db(), &call.key(0)) else { return Ok(false) };
    if !txn.properties(&entry).has_field_ttls() {
        return Ok(false);
    }
    Ok(txn.members(&entry, Type::Hash)?.time(call.args[2])?.flatten().is_some())
}
