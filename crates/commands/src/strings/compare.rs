//! DIGEST and DELEX of Redis 8.4, DELIFEQ of Valkey 9: commands that show or compare the digest or
//! value of a string. A deleted key is logged as a DEL.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::Txn;

use super::condition::{Comparison, digest};

pub(crate) const DIGEST: CommandSpec = CommandSpec {
    name: "digest",
    summary: "Returns the XXH3 hash of a string value.",
    complexity: "O(N) where N is the length of the string value.",
    since: "8.4.0",
    group: Group::String,
    arity: 2,
    flags: READONLY | FAST,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0)],
    run: Run::Keys(get_digest),
    ..CommandSpec::EMPTY
};

fn get_digest(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let Some(entry) = txn.find(call.db(), &call.key(0)) else {
        call.out.null();
        return Ok(());
    };
    let digest = digest(&txn.strings().read(&entry)?)?;
    call.out.bulk(digest);
    Ok(())
}

pub(crate) const DELEX: CommandSpec = CommandSpec {
    name: "delex",
    summary: "Conditionally removes the specified key based on value or digest comparison.",
    complexity: "O(1) for IFEQ/IFNE, O(N) for IFDEQ/IFDNE where N is the length of the string value.",
    since: "8.4.0",
    group: Group::String,
    arity: -2,
    flags: WRITE | FAST,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_RW | KEY_DELETE | KEY_VARIABLE)],
    key_flags: Some(delex_key_flags),
    args: &[
        key("key", 0),
        oneof(
            "condition",
            &[
                string("ifeq-value").token("IFEQ"),
                string("ifne-value").token("IFNE"),
                string("ifdeq-digest").token("IFDEQ"),
                string("ifdne-digest").token("IFDNE"),
            ],
        )
        .optional(),
    ],
    run: Run::Keys(delex),
    ..CommandSpec::EMPTY
};

/// Returns the key's flags: with a condition the reply reveals something of the value.
fn delex_key_flags(args: &[&[u8]]) -> u16 {
    if args.len() > 2 { KEY_RW | KEY_ACCESS | KEY_DELETE } else { KEY_RM | KEY_DELETE }
}

fn delex(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let Some(entry) = txn.find_mut(call.db(), &call.key(0))? else {
        call.out.integer(0);
        return Ok(());
    };
    if call.args.len() == 2 {
        return delete(call, txn);
    }
    let &[_, _, word, operand] = call.args else {
        return Err("ERR wrong number of arguments for 'delex' command".into());
    };
    if txn.properties(&entry).value_type() != keyspace::Type::String {
        return Err("ERR Key should be of string type if conditions are specified".into());
    }
    let comparison = Comparison::named(word)
        .ok_or_else(|| Failure::from("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"))?;
    if comparison.holds(&txn.strings().read(&entry)?, operand)? {
        return delete(call, txn);
    }
    call.out.integer(0);
    Ok(())
}

pub(crate) const DELIFEQ: CommandSpec = CommandSpec {
    name: "delifeq",
    summary: "Delete key if value matches string.",
    complexity: "O(1)",
    since: "9.0.0",
    group: Group::String,
    arity: 3,
    flags: WRITE | FAST,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_RM | KEY_ACCESS | KEY_DELETE)],
    args: &[key("key", 0), string("value")],
    run: Run::Keys(delifeq),
    ..CommandSpec::EMPTY
};

fn delifeq(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    if let Some(entry) = txn.find_mut(call.db(), &call.key(0))?
        && Comparison::Equal.holds(&txn.strings().read(&entry)?, call.args[2])?
    {
        return delete(call, txn);
    }
    call.out.integer(0);
    Ok(())
}

/// Deletes the key, which exists.
fn delete(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let key = call.key(0);
    txn.keys().delete(call.db(), &key)?;
    call.wrote_as(&[b"DEL", key.bytes()]);
    call.notify(EventClass::Generic, "del", &key);
    call.out.integer(1);
    Ok(())
}
