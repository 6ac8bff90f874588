//! SET with all its options, and its older relatives SETNX, SETEX, PSETEX.
//!
//! Every form is logged as a plain SET: the conditions were met, and an expiry time is logged as an
//! absolute time.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{Expire, Txn};

use super::condition::Comparison;
use super::expiry::{Unit, expire_at};
use super::reply_string;

pub(crate) const SET: CommandSpec = CommandSpec {
    name: "set",
    summary: "Set the string value of a key",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::String,
    arity: -3,
    flags: WRITE | DENYOOM,
    traits: REPLACES,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_UPDATE | KEY_VARIABLE)
        .notes("RW and ACCESS due to the optional `GET` argument")],
    key_flags: Some(set_key_flags),
    history: &[
        ("2.6.12", "Added the `EX`, `PX`, `NX` and `XX` options."),
        ("6.0.0", "Added the `KEEPTTL` option."),
        ("6.2.0", "Added the `GET`, `EXAT` and `PXAT` option."),
        ("7.0.0", "Allowed the `NX` and `GET` options to be used together."),
        ("8.4.0", "Added 'IFEQ', 'IFNE', 'IFDEQ', 'IFDNE' options."),
    ],
    args: &[
        key("key", 0),
        string("value"),
        oneof(
            "condition",
            &[
                token("nx", "NX"),
                token("xx", "XX"),
                string("ifeq-value").token("IFEQ").since("8.4.0"),
                string("ifne-value").token("IFNE").since("8.4.0"),
                string("ifdeq-digest").token("IFDEQ").since("8.4.0"),
                string("ifdne-digest").token("IFDNE").since("8.4.0"),
            ],
        )
        .since("2.6.12")
        .optional(),
        token("get", "GET").since("6.2.0").optional(),
        oneof(
            "expiration",
            &[
                integer("seconds").token("EX").since("2.6.12"),
                integer("milliseconds").token("PX").since("2.6.12"),
                unix_time("unix-time-seconds").token("EXAT").since("6.2.0"),
                unix_time("unix-time-milliseconds").token("PXAT").since("6.2.0"),
                token("keepttl", "KEEPTTL").since("6.0.0"),
            ],
        )
        .optional(),
    ],
    value: Some(2),
    run: Run::Keys(set),
    ..CommandSpec::EMPTY
};

fn set_key_flags(args: &[&[u8]]) -> u16 {
    let reads = |arg: &&[u8]| arg.eq_ignore_ascii_case(b"GET") || Comparison::named(arg).is_some();
    if args.iter().skip(3).any(reads) {
        KEY_RW | KEY_ACCESS | KEY_UPDATE
    } else {
        KEY_OW | KEY_UPDATE
    }
}

#[derive(Clone, Copy, Default)]
struct Options<'a> {
    only_new: bool,
    only_old: bool,
    compares: Option<(Comparison, &'a [u8])>,
    get: bool,
    keep: bool,
    expiry: Option<(Unit, &'a [u8])>,
}

fn set(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    if call.args.len() == 3 {
        call.set_value(txn, 2, Expire::Clear)?;
        call.wrote();
        call.notify(EventClass::String, "set", &call.key(0));
        call.out.ok();
        return Ok(());
    }
    let options = parse(&call.args[3..])?;
    set_with(call, txn, options)
}

fn parse<'a>(mut rest: &[&'a [u8]]) -> Result<Options<'a>, Failure> {
    let mut options = Options::default();
    while let Some((word, mut more)) = rest.split_first() {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("NX") && !options.only_old && options.compares.is_none() {
            options.only_new = true;
        } else if is("XX") && !options.only_new && options.compares.is_none() {
            options.only_old = true;
        } else if let Some(comparison) = Comparison::named(word) {
            let (value, rest) = more.split_first().ok_or_else(|| Failure::from(SYNTAX))?;
            if options.only_new || options.only_old || options.compares.is_some() {
                return Err(SYNTAX.into());
            }
            options.compares = Some((comparison, value));
            more = rest;
        } else if is("GET") {
            options.get = true;
        } else if is("KEEPTTL") && options.expiry.is_none() {
            options.keep = true;
        } else {
            let unit = Unit::named(word).ok_or_else(|| Failure::from(SYNTAX))?;
            let (value, rest) = more.split_first().ok_or_else(|| Failure::from(SYNTAX))?;
            let other = options.expiry.is_some_and(|(before, _)| before != unit);
            if other || options.keep {
                return Err(SYNTAX.into());
            }
            options.expiry = Some((unit, value));
            more = rest;
        }
        rest = more;
    }
    Ok(options)
}

fn set_with(call: &mut Call<'_>, txn: &mut Txn<'_>, options: Options<'_>) -> Done {
    let at = match options.expiry {
        Some((unit, text)) => Some(expire_at(call, text, unit)?),
        None => None,
    };
    if options.get {
        reply_string(call, txn, &call.key(0))?;
    }
    if !condition_holds(call, txn, &options)? {
        if !options.get {
            call.out.null();
        }
        return Ok(());
    }
    store(call, txn, 2, at, options.keep)?;
    if !options.get {
        call.out.ok();
    }
    Ok(())
}

/// Returns true if the key meets the condition.
fn condition_holds(
    call: &Call<'_>,
    txn: &mut Txn<'_>,
    options: &Options<'_>,
) -> Result<bool, Failure> {
    if options.only_new || options.only_old {
        return Ok(txn.find_mut(call.db(), &call.key(0))?.is_some() == options.only_old);
    }
    let Some((comparison, operand)) = options.compares else { return Ok(true) };
    match txn.find_mut(call.db(), &call.key(0))? {
        Some(entry) => comparison.holds(&txn.strings().read(&entry)?, operand),
        None => Ok(comparison.holds_without_key()),
    }
}

/// Stores the argument at `value`, and logs a SET without conditions.
fn store(
    call: &mut Call<'_>,
    txn: &mut Txn<'_>,
    value: usize,
    at: Option<u64>,
    keep: bool,
) -> Done {
    let expire = match at {
        Some(at) => Expire::At(at),
        None if keep => Expire::Keep,
        None => Expire::Clear,
    };
    call.set_value(txn, value, expire)?;
    let (key, value) = (call.key(0), call.args[value]);
    let mut digits = itoa::Buffer::new();
    match at {
        Some(at) => {
            call.wrote_as(&[b"SET", key.bytes(), value, b"PXAT", digits.format(at).as_bytes()]);
        }
        None if keep => call.wrote_as(&[b"SET", key.bytes(), value, b"KEEPTTL"]),
        None => call.wrote_as(&[b"SET", key.bytes(), value]),
    }
    call.notify(EventClass::String, "set", &key);
    if at.is_some() {
        call.notify(EventClass::Generic, "expire", &key);
    }
    Ok(())
}

pub(crate) const SETNX: CommandSpec = CommandSpec {
    name: "setnx",
    summary: "Set the value of a key, only if the key does not exist",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::String,
    arity: 3,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_OW | KEY_INSERT)],
    args: &[key("key", 0), string("value")],
    value: Some(2),
    run: Run::Keys(setnx),
    ..CommandSpec::EMPTY
};

fn setnx(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let new = txn.find_mut(call.db(), &call.key(0))?.is_none();
    if new {
        store(call, txn, 2, None, false)?;
    }
    call.out.integer(i64::from(new));
    Ok(())
}

pub(crate) const SETEX: CommandSpec = CommandSpec {
    name: "setex",
    summary: "Set the value and expiration of a key",
    complexity: "O(1)",
    since: "2.0.0",
    group: Group::String,
    arity: 4,
    flags: WRITE | DENYOOM,
    traits: REPLACES,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_OW | KEY_UPDATE)],
    args: &[key("key", 0), integer("seconds"), string("value")],
    value: Some(3),
    run: Run::Keys(setex),
    ..CommandSpec::EMPTY
};

pub(crate) const PSETEX: CommandSpec = CommandSpec {
    name: "psetex",
    summary: "Set the value and expiration in milliseconds of a key",
    complexity: "O(1)",
    since: "2.6.0",
    group: Group::String,
    arity: 4,
    flags: WRITE | DENYOOM,
    traits: REPLACES,
    acl: ACL_STRING,
    keys: &[KeySpec::one(1, KEY_OW | KEY_UPDATE)],
    args: &[key("key", 0), integer("milliseconds"), string("value")],
    value: Some(3),
    run: Run::Keys(psetex),
    ..CommandSpec::EMPTY
};

fn setex(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    set_for(call, txn, Unit::Seconds)
}

fn psetex(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    set_for(call, txn, Unit::Millis)
}

fn set_for(call: &mut Call<'_>, txn: &mut Txn<'_>, unit: Unit) -> Done {
    let at = expire_at(call, call.args[2], unit)?;
    store(call, txn, 3, Some(at), false)?;
    call.out.ok();
    Ok(())
}
