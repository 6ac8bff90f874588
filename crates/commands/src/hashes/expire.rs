//! HEXPIRE, HPEXPIRE, HEXPIREAT, HPEXPIREAT: give fields of a hash a TTL.
//!
//! A time that has passed deletes a field. The command is logged as an HPEXPIREAT or an HDEL of the
//! changed fields.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{FieldChange, Txn, Type};

use super::fields::{FIELDS, fields, log, log_deletion, time};
use crate::strings::Unit;

/// Common to all four commands.
const EXPIRES: CommandSpec = CommandSpec {
    complexity: "O(N) where N is the number of specified fields",
    since: "7.4.0",
    group: Group::Hash,
    arity: -6,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_HASH,
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE)],
    ..CommandSpec::EMPTY
};

const CONDITION: Arg = oneof(
    "condition",
    &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")],
)
.optional();

pub(crate) const HEXPIRE: CommandSpec = CommandSpec {
    name: "hexpire",
    summary: "Set expiry for hash field using relative time to expire (seconds)",
    args: &[key("key", 0), integer("seconds"), CONDITION, FIELDS],
    run: Run::Keys(|call, txn| expire(call, txn, Unit::Seconds)),
    ..EXPIRES
};

pub(crate) const HPEXPIRE: CommandSpec = CommandSpec {
    name: "hpexpire",
    summary: "Set expiry for hash field using relative time to expire (milliseconds)",
    args: &[key("key", 0), integer("milliseconds"), CONDITION, FIELDS],
    run: Run::Keys(|call, txn| expire(call, txn, Unit::Millis)),
    ..EXPIRES
};

pub(crate) const HEXPIREAT: CommandSpec = CommandSpec {
    name: "hexpireat",
    summary: "Set expiry for hash field using an absolute Unix timestamp (seconds)",
    args: &[key("key", 0), unix_time("unix-time-seconds"), CONDITION, FIELDS],
    run: Run::Keys(|call, txn| expire(call, txn, Unit::UnixSeconds)),
    ..EXPIRES
};

pub(crate) const HPEXPIREAT: CommandSpec = CommandSpec {
    name: "hpexpireat",
    summary: "Set expiry for hash field using an absolute Unix timestamp (milliseconds)",
    args: &[key("key", 0), unix_time("unix-time-milliseconds"), CONDITION, FIELDS],
    run: Run::Keys(|call, txn| expire(call, txn, Unit::UnixMillis)),
    ..EXPIRES
};

/// The condition on which a new time replaces the old one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    NoneYet,
    SomeYet,
    Later,
    Sooner,
}

impl Condition {
    fn named(word: &[u8]) -> Condition {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match () {
            () if is("NX") => Condition::NoneYet,
            () if is("XX") => Condition::SomeYet,
            () if is("GT") => Condition::Later,
            () if is("LT") => Condition::Sooner,
            () => Condition::Always,
        }
    }

    /// Returns true if `new` may replace `old`; a field without a time never expires.
    fn holds(self, old: Option<u64>, new: u64) -> bool {
        match self {
            Condition::Always => true,
            Condition::NoneYet => old.is_none(),
            Condition::SomeYet => old.is_some(),
            Condition::Later => old.is_some_and(|old| new > old),
            Condition::Sooner => old.is_none_or(|old| new < old),
        }
    }
}

/// The results for a field in the reply.
const NO_FIELD: i64 = -2;
const CONDITION_FAILED: i64 = 0;
const SET: i64 = 1;
const DELETED: i64 = 2;

fn expire(call: &mut Call<'_>, txn: &mut Txn<'_>, unit: Unit) -> Done {
    let (db, key) = (call.db(), call.key(0));
    if let Some(entry) = txn.find_mut(db, &key)? {
        txn.members(&entry, Type::Hash)?;
    }
    let at = time(call, call.args[2], unit)?;
    let condition = Condition::named(call.args[3]);
    let begin = if condition == Condition::Always { 3 } else { 4 };
    let fields = fields(call, begin, "ERR Parameter `numFields` should be greater than 0")?;
    let is_past = at <= txn.now();
    let (mut replies, mut changed) = (Vec::with_capacity(fields.len()), Vec::new());
    txn.hashes().change(db, &key, fields.iter().copied(), |field, old| {
        let (reply, change) = match old {
            None => (NO_FIELD, FieldChange::Leave),
            Some(old) if !condition.holds(old, at) => (CONDITION_FAILED, FieldChange::Leave),
            Some(_) if is_past => (DELETED, FieldChange::Delete),
            Some(_) => (SET, FieldChange::Time(Some(at))),
        };
        replies.push(reply);
        if change != FieldChange::Leave {
            changed.push(field);
        }
        change
    })?;
    if is_past && !changed.is_empty() {
        log_deletion(call, &changed);
        call.notify_taken(EventClass::Hash, txn, "hdel", &key);
    } else if !changed.is_empty() {
        let text = itoa::Buffer::new().format(at).to_owned();
        log(call, &[b"HPEXPIREAT", key.bytes(), text.as_bytes()], &changed);
        call.notify(EventClass::Hash, "hexpire", &key);
    }
    call.out.array(replies.len());
    replies.into_iter().for_each(|reply| call.out.integer(reply));
    Ok(())
}
