//! HGETEX, HGETDEL: read fields, and change their TTLs or delete them.
//!
//! HGETEX is logged as an HPEXPIREAT, HPERSIST or HDEL of the changed fields, HGETDEL as an HDEL.

use std::collections::HashSet;

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{FieldChange, Text, Txn, Type};

use super::fields::{FIELDS, POSITIVE, fields, log, log_deletion, time, wrong_number};
use crate::strings::Unit;

pub(crate) const HGETEX: CommandSpec = CommandSpec {
    name: "hgetex",
    summary: "Get the value of one or more fields of a given hash key, and optionally set their expiration.",
    complexity: "O(N) where N is the number of specified fields",
    since: "8.0.0",
    group: Group::Hash,
    arity: -5,
    flags: WRITE | FAST,
    acl: ACL_HASH,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_UPDATE)
        .notes("RW and UPDATE because it changes the TTL")],
    args: &[
        key("key", 0),
        oneof(
            "expiration",
            &[
                integer("seconds").token("EX"),
                integer("milliseconds").token("PX"),
                unix_time("unix-time-seconds").token("EXAT"),
                unix_time("unix-time-milliseconds").token("PXAT"),
                token("persist", "PERSIST"),
            ],
        )
        .optional(),
        FIELDS,
    ],
    run: Run::Keys(hgetex),
    ..CommandSpec::EMPTY
};

pub(crate) const HGETDEL: CommandSpec = CommandSpec {
    name: "hgetdel",
    summary: "Returns the value of a field and deletes it from the hash.",
    complexity: "O(N) where N is the number of specified fields",
    since: "8.0.0",
    group: Group::Hash,
    arity: -5,
    flags: WRITE | FAST,
    acl: ACL_HASH,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_DELETE)],
    args: &[key("key", 0), FIELDS],
    run: Run::Keys(hgetdel),
    ..CommandSpec::EMPTY
};

/// The change to the fields that are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    None,
    Persist,
    Expire(u64),
    Delete,
}

/// Replies with the values of fields, or nulls. If reading deletes a field, its value is shown
/// once.
fn reply(call: &mut Call<'_>, txn: &mut Txn<'_>, fields: &[&[u8]], deletes: bool) -> Done {
    let entry = txn.find_mut(call.db(), &call.key(0))?;
    let hash = match &entry {
        Some(entry) => Some(txn.members(entry, Type::Hash)?),
        None => None,
    };
    let mut read = HashSet::new();
    call.out.array(fields.len());
    for field in fields {
        let value = match &hash {
            Some(hash) if !deletes || read.insert(field) => hash.get(field)?,
            _ => None,
        };
        call.out.bulk_or_null(value.as_ref().map(Text::as_ref));
    }
    Ok(())
}

fn is_hash(call: &Call<'_>, txn: &mut Txn<'_>) -> Done {
    if let Some(entry) = txn.find_mut(call.db(), &call.key(0))? {
        txn.members(&entry, Type::Hash)?;
    }
    Ok(())
}

fn hgetex(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    is_hash(call, txn)?;
    let (change, begin) = parse(call)?;
    let fields = fields(call, begin, POSITIVE)?;
    let change = match change {
        Change::Expire(at) if at <= txn.now() => Change::Delete,
        other => other,
    };
    reply(call, txn, fields, change == Change::Delete)?;
    apply(call, txn, fields, change)
}

fn hgetdel(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    is_hash(call, txn)?;
    let fields = fields(call, 2, POSITIVE)?;
    reply(call, txn, fields, true)?;
    apply(call, txn, fields, Change::Delete)
}

/// Returns the change that HGETEX makes, and the position of its FIELDS.
fn parse(call: &Call<'_>) -> Result<(Change, usize), Failure> {
    if call.is(2, "PERSIST") {
        return Ok((Change::Persist, 3));
    }
    let Some(unit) = Unit::named(call.args[2]) else { return Ok((Change::None, 2)) };
    let text = call.args.get(3).ok_or_else(|| wrong_number(call))?;
    Ok((Change::Expire(time(call, text, unit)?), 4))
}

fn apply(call: &mut Call<'_>, txn: &mut Txn<'_>, fields: &[&[u8]], change: Change) -> Done {
    if change == Change::None {
        return Ok(());
    }
    let (db, key) = (call.db(), call.key(0));
    let mut changed = Vec::new();
    txn.hashes().change(db, &key, fields.iter().copied(), |field, old| {
        let change = match (change, old) {
            (_, None) | (Change::None, _) | (Change::Persist, Some(None)) => FieldChange::Leave,
            (Change::Persist, _) => FieldChange::Time(None),
            (Change::Expire(at), _) => FieldChange::Time(Some(at)),
            (Change::Delete, _) => FieldChange::Delete,
        };
        if change != FieldChange::Leave {
            changed.push(field);
        }
        change
    })?;
    match change {
        _ if changed.is_empty() => {}
        Change::None => {}
        Change::Persist => {
            log(call, &[b"HPERSIST", key.bytes()], &changed);
            call.notify(EventClass::Hash, "hpersist", &key);
        }
        Change::Delete => {
            log_deletion(call, &changed);
            call.notify_taken(EventClass::Hash, txn, "hdel", &key);
        }
        Change::Expire(at) => {
            let text = itoa::Buffer::new().format(at).to_owned();
            log(call, &[b"HPEXPIREAT", key.bytes(), text.as_bytes()], &changed);
            call.notify(EventClass::Hash, "hexpire", &key);
        }
    }
    Ok(())
}
