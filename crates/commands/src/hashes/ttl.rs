//! HTTL, HPTTL, HEXPIRETIME, HPEXPIRETIME, HPERSIST: the field expiration of a hash.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{FieldChange, Txn, Type};

use super::fields::{FIELDS, POSITIVE, fields, log};
use super::hash;

/// Common to the four commands that read.
const READS: CommandSpec = CommandSpec {
    complexity: "O(N) where N is the number of specified fields",
    since: "7.4.0",
    group: Group::Hash,
    arity: -5,
    flags: READONLY | FAST,
    acl: ACL_HASH,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0), FIELDS],
    ..CommandSpec::EMPTY
};

pub(crate) const HTTL: CommandSpec = CommandSpec {
    name: "httl",
    summary: "Returns the TTL in seconds of a hash field.",
    tips: &["nondeterministic_output"],
    run: Run::Keys(|call, txn| reply_field_ttls(call, txn, |at, now| seconds(at - now))),
    ..READS
};

pub(crate) const HPTTL: CommandSpec = CommandSpec {
    name: "hpttl",
    summary: "Returns the TTL in milliseconds of a hash field.",
    tips: &["nondeterministic_output"],
    run: Run::Keys(|call, txn| reply_field_ttls(call, txn, |at, now| at - now)),
    ..READS
};

pub(crate) const HEXPIRETIME: CommandSpec = CommandSpec {
    name: "hexpiretime",
    summary: "Returns the expiration time of a hash field as a Unix timestamp, in seconds.",
    run: Run::Keys(|call, txn| reply_field_ttls(call, txn, |at, _| seconds(at))),
    ..READS
};

pub(crate) const HPEXPIRETIME: CommandSpec = CommandSpec {
    name: "hpexpiretime",
    summary: "Returns the expiration time of a hash field as a Unix timestamp, in msec.",
    run: Run::Keys(|call, txn| reply_field_ttls(call, txn, |at, _| at)),
    ..READS
};

pub(crate) const HPERSIST: CommandSpec = CommandSpec {
    name: "hpersist",
    summary: "Removes the expiration time for each specified field",
    flags: WRITE | FAST,
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE)],
    run: Run::Keys(hpersist),
    ..READS
};

/// The results in the reply: the field is absent, has no TTL, or lost its TTL.
const NO_FIELD: i64 = -2;
const NO_TIME: i64 = -1;
const PERSISTED: i64 = 1;

/// Returns milliseconds as whole seconds, rounded up.
fn seconds(ms: u64) -> u64 {
    ms.div_ceil(1000)
}

fn reply_field_ttls(call: &mut Call<'_>, txn: &mut Txn<'_>, say: fn(u64, u64) -> u64) -> Done {
    let now = txn.now();
    let hash = hash(call, txn)?;
    let fields = fields(call, 2, POSITIVE)?;
    call.out.array(fields.len());
    for field in fields {
        let time = match &hash {
            Some(hash) => hash.time(field)?,
            None => None,
        };
        call.out.integer(match time {
            None => NO_FIELD,
            Some(None) => NO_TIME,
            Some(Some(at)) => say(at, now) as i64,
        });
    }
    Ok(())
}

fn hpersist(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (db, key) = (call.db(), call.key(0));
    if let Some(entry) = txn.find_mut(db, &key)? {
        txn.members(&entry, Type::Hash)?;
    }
    let fields = fields(call, 2, POSITIVE)?;
    let (mut replies, mut changed) = (Vec::with_capacity(fields.len()), Vec::new());
    txn.hashes().change(db, &key, fields.iter().copied(), |field, old| {
        replies.push(match old {
            None => NO_FIELD,
            Some(None) => NO_TIME,
            Some(Some(_)) => {
                changed.push(field);
                PERSISTED
            }
        });
        FieldChange::Time(None)
    })?;
    if !changed.is_empty() {
        log(call, &[b"HPERSIST", key.bytes()], &changed);
        call.notify(EventClass::Hash, "hpersist", &key);
    }
    call.out.array(replies.len());
    replies.into_iter().for_each(|reply| call.out.integer(reply));
    Ok(())
}
