//! HSETEX: sets fields, and their TTLs.
//!
//! It is logged without its condition, and with an absolute time; as an HDEL if the time has
//! passed.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{FieldChange, FieldTime, Txn, Type};

use super::fields::{count, log_deletion, time, wrong_number};
use crate::strings::Unit;

pub(crate) const HSETEX: CommandSpec = CommandSpec {
    name: "hsetex",
    summary: "Set the value of one or more fields of a given hash key, and optionally set their expiration.",
    complexity: "O(N) where N is the number of fields being set.",
    since: "8.0.0",
    group: Group::Hash,
    arity: -6,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_HASH,
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE)],
    args: &[
        key("key", 0),
        oneof("key-condition", &[token("nx", "NX"), token("xx", "XX")]).since("9.0.0").optional(),
        oneof("condition", &[token("fnx", "FNX"), token("fxx", "FXX")]).optional(),
        oneof(
            "expiration",
            &[
                integer("seconds").token("EX"),
                integer("milliseconds").token("PX"),
                unix_time("unix-time-seconds").token("EXAT"),
                unix_time("unix-time-milliseconds").token("PXAT"),
                token("keepttl", "KEEPTTL"),
            ],
        )
        .optional(),
        block(
            "fields",
            &[integer("numfields"), block("data", &[string("field"), string("value")]).multiple()],
        )
        .token("FIELDS"),
    ],
    run: Run::Keys(hsetex),
    ..CommandSpec::EMPTY
};

/// The arguments of the request.
struct Given<'a> {
    /// All fields must exist (true), or none may (false).
    present: Option<bool>,
    /// The key must exist (true), or must not (false); Valkey 9.
    exists: Option<bool>,
    time: FieldTime,
    pairs: &'a [&'a [u8]],
}

fn hsetex(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let given = parse(call)?;
    let (db, key) = (call.db(), call.key(0));
    if !holds(call, txn, &given)? {
        call.out.integer(0);
        return Ok(());
    }
    match given.time {
        FieldTime::At(at) if at <= txn.now() => {
            let fields = given.pairs.iter().copied().step_by(2);
            let mut gone = Vec::new();
            txn.hashes().change(db, &key, fields, |field, old| {
                if old.is_some() {
                    gone.push(field);
                }
                FieldChange::Delete
            })?;
            if !gone.is_empty() {
                log_deletion(call, &gone);
            }
            // As if the fields had existed for a moment: a new key is deleted again, too.
            call.notify(EventClass::Hash, "hset", &key);
            call.notify_taken(EventClass::Hash, txn, "hdel", &key);
        }
        time => {
            let pairs = given.pairs.chunks_exact(2).map(|pair| (pair[0], pair[1]));
            let limits = call.engine.config().hash_limits();
            txn.hashes().put_with_time(db, &key, pairs, time, limits)?;
            log_setting(call, time, given.pairs);
            call.notify(EventClass::Hash, "hset", &key);
            if matches!(time, FieldTime::At(_)) {
                call.notify(EventClass::Hash, "hexpire", &key);
            }
        }
    }
    call.out.integer(1);
    Ok(())
}

fn log_setting(call: &mut Call<'_>, time: FieldTime, pairs: &[&[u8]]) {
    let mut digits = itoa::Buffer::new();
    let (key, number) = (call.args[1], itoa::Buffer::new().format(pairs.len() / 2).to_owned());
    let mut words: Vec<&[u8]> = vec![b"HSETEX", key];
    match time {
        FieldTime::Clear => {}
        FieldTime::Keep => words.push(b"KEEPTTL"),
        FieldTime::At(at) => words.extend([b"PXAT", digits.format(at).as_bytes()]),
    }
    words.extend([b"FIELDS", number.as_bytes()]);
    words.extend_from_slice(pairs);
    call.wrote_as(&words);
}

/// Returns true if the condition on existing fields and keys holds.
fn holds(call: &Call<'_>, txn: &mut Txn<'_>, given: &Given<'_>) -> Result<bool, Failure> {
    let entry = txn.find_mut(call.db(), &call.key(0))?;
    let hash = match &entry {
        Some(entry) => Some(txn.members(entry, Type::Hash)?),
        None => None,
    };
    if given.exists.is_some_and(|exists| exists != hash.is_some()) {
        return Ok(false);
    }
    let Some(present) = given.present else { return Ok(true) };
    for field in given.pairs.iter().step_by(2) {
        let found = match &hash {
            Some(hash) => hash.contains(field)?,
            None => false,
        };
        if found != present {
            return Ok(false);
        }
    }
    Ok(true)
}

fn parse<'a>(call: &Call<'a>) -> Result<Given<'a>, Failure> {
    let (mut present, mut exists, mut given_time) = (None, None, None);
    let mut at = 2;
    while let Some(word) = call.args.get(at) {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("FIELDS") {
            let pairs = pairs(call, at)?;
            let time = given_time.unwrap_or(FieldTime::Clear);
            return Ok(Given { present, exists, time, pairs });
        }
        let unit = Unit::named(word);
        if (unit.is_some() || is("KEEPTTL")) && given_time.is_some() {
            return Err(
                "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified".into()
            );
        }
        if let Some(unit) = unit {
            at += 1;
            let text = call.args.get(at).ok_or("ERR missing expire time")?;
            given_time = Some(FieldTime::At(time(call, text, unit)?));
        } else if is("KEEPTTL") {
            given_time = Some(FieldTime::Keep);
        } else if is("NX") || is("XX") {
            if exists.is_some() {
                return Err("ERR Only one of NX or XX arguments can be specified".into());
            }
            exists = Some(is("XX"));
        } else if is("FXX") || is("FNX") {
            if present.is_some() {
                return Err("ERR Only one of FXX or FNX arguments can be specified".into());
            }
            present = Some(is("FXX"));
        } else {
            let mut text = b"ERR unknown argument: ".to_vec();
            text.extend_from_slice(word);
            return Err(Failure::text(text));
        }
        at += 1;
    }
    Err(wrong_number(call))
}

/// Returns the field-value pairs of `FIELDS numfields field value ...`, which begins at argument
/// `at`.
fn pairs<'a>(call: &Call<'a>, at: usize) -> Result<&'a [&'a [u8]], Failure> {
    if at + 3 >= call.args.len() {
        return Err(wrong_number(call));
    }
    let number = count(call.args[at + 1]).filter(|&number| number <= i32::MAX as u64);
    let number = number.ok_or("ERR invalid number of fields")?;
    let pairs = &call.args[at + 2..];
    if pairs.len() as u64 != 2 * number {
        return Err(wrong_number(call));
    }
    Ok(pairs)
}
