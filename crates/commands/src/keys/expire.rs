//! EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT: give a key a TTL.
//!
//! A time that has passed deletes the key. The command is logged as a PEXPIREAT or a DEL.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, NOT_INTEGER};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::Txn;

use crate::strings::Unit;

pub(crate) const EXPIRE: CommandSpec = CommandSpec {
    name: "expire",
    summary: "Set a key's time to live in seconds",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Generic,
    arity: -3,
    flags: WRITE | FAST,
    acl: ACL_KEYSPACE,
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE)],
    history: &[("7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`.")],
    args: &[
        key("key", 0),
        integer("seconds"),
        oneof(
            "condition",
            &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")],
        )
        .since("7.0.0")
        .optional(),
    ],
    run: Run::Keys(expire),
    ..CommandSpec::EMPTY
};

pub(crate) const PEXPIRE: CommandSpec = CommandSpec {
    name: "pexpire",
    summary: "Set a key's time to live in milliseconds",
    complexity: "O(1)",
    since: "2.6.0",
    group: Group::Generic,
    arity: -3,
    flags: WRITE | FAST,
    acl: ACL_KEYSPACE,
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE)],
    history: &[("7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`.")],
    args: &[
        key("key", 0),
        integer("milliseconds"),
        oneof(
            "condition",
            &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")],
        )
        .since("7.0.0")
        .optional(),
    ],
    run: Run::Keys(pexpire),
    ..CommandSpec::EMPTY
};

pub(crate) const EXPIREAT: CommandSpec = CommandSpec {
    name: "expireat",
    summary: "Set the expiration for a key as a UNIX timestamp",
    complexity: "O(1)",
    since: "1.2.0",
    group: Group::Generic,
    arity: -3,
    flags: WRITE | FAST,
    acl: ACL_KEYSPACE,
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE)],
    history: &[("7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`.")],
    args: &[
        key("key", 0),
        unix_time("unix-time-seconds"),
        oneof(
            "condition",
            &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")],
        )
        .since("7.0.0")
        .optional(),
    ],
    run: Run::Keys(expireat),
    ..CommandSpec::EMPTY
};

pub(crate) const PEXPIREAT: CommandSpec = CommandSpec {
    name: "pexpireat",
    summary: "Set the expiration for a key as a UNIX timestamp specified in milliseconds",
    complexity: "O(1)",
    since: "2.6.0",
    group: Group::Generic,
    arity: -3,
    flags: WRITE | FAST,
    acl: ACL_KEYSPACE,
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE)],
    history: &[("7.0.0", "Added options: `NX`, `XX`, `GT` and `LT`.")],
    args: &[
        key("key", 0),
        unix_time("unix-time-milliseconds"),
        oneof(
            "condition",
            &[token("nx", "NX"), token("xx", "XX"), token("gt", "GT"), token("lt", "LT")],
        )
        .since("7.0.0")
        .optional(),
    ],
    run: Run::Keys(pexpireat),
    ..CommandSpec::EMPTY
};

fn expire(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    expire_generic(call, txn, Unit::Seconds)
}

fn pexpire(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    expire_generic(call, txn, Unit::Millis)
}

fn expireat(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    expire_generic(call, txn, Unit::UnixSeconds)
}

fn pexpireat(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    expire_generic(call, txn, Unit::UnixMillis)
}

/// The conditions on which a new time replaces the old one.
#[derive(Clone, Copy, Default)]
struct Conditions {
    none_yet: bool,
    some_yet: bool,
    later: bool,
    sooner: bool,
}

impl Conditions {
    fn parse(words: &[&[u8]]) -> Result<Conditions, Failure> {
        let mut given = Conditions::default();
        for word in words {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            match () {
                () if is("NX") => given.none_yet = true,
                () if is("XX") => given.some_yet = true,
                () if is("GT") => given.later = true,
                () if is("LT") => given.sooner = true,
                () => {
                    let mut text = b"ERR Unsupported option ".to_vec();
                    text.extend_from_slice(word);
                    return Err(Failure::text(text));
                }
            }
        }
        if given.none_yet && (given.some_yet || given.later || given.sooner) {
            return Err(
                "ERR NX and XX, GT or LT options at the same time are not compatible".into()
            );
        }
        if given.later && given.sooner {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(given)
    }

    /// Returns true if `new` may replace `old`; a key without a time never expires.
    fn hold(self, old: Option<u64>, new: i64) -> bool {
        let old = old.map(|at| at as i64);
        !(self.none_yet && old.is_some()
            || self.some_yet && old.is_none()
            || self.later && old.is_none_or(|old| new <= old)
            || self.sooner && old.is_some_and(|old| new >= old))
    }
}

fn expire_generic(call: &mut Call<'_>, txn: &mut Txn<'_>, unit: Unit) -> Done {
    let conditions = Conditions::parse(&call.args[3..])?;
    let at = expire_at(call, unit)?;
    let (db, key) = (call.db(), call.key(0));
    let found = txn.find_mut(db, &key)?;
    if !found.is_some_and(|entry| conditions.hold(txn.properties(&entry).expiry(), at)) {
        call.out.integer(0);
        return Ok(());
    }
    match u64::try_from(at).ok().filter(|at| *at > txn.now()) {
        Some(at) => {
            txn.keys().set_expiry(db, &key, Some(at))?;
            let mut digits = itoa::Buffer::new();
            call.wrote_as(&[b"PEXPIREAT", key.bytes(), digits.format(at).as_bytes()]);
            call.notify(EventClass::Generic, "expire", &key);
        }
        None => {
            txn.keys().delete(db, &key)?;
            call.wrote_as(&[b"DEL", key.bytes()]);
            call.notify(EventClass::Generic, "del", &key);
        }
    }
    call.out.integer(1);
    Ok(())
}

/// Returns the unix time in milliseconds that is asked for; it may be before 1970.
fn expire_at(call: &Call<'_>, unit: Unit) -> Result<i64, Failure> {
    let invalid = || {
        let name = call.command.spec.name;
        Failure::text(format!("ERR invalid expire time in '{name}' command"))
    };
    let given = resp::number::parse_i64(call.args[2]).ok_or_else(|| Failure::from(NOT_INTEGER))?;
    let millis = match unit {
        Unit::Seconds | Unit::UnixSeconds => given.checked_mul(1000).ok_or_else(invalid)?,
        Unit::Millis | Unit::UnixMillis => given,
    };
    let base = if unit.is_absolute() { 0 } else { call.now_ms() as i64 };
    millis.checked_add(base).ok_or_else(invalid)
}
