//! GETEX: reads a string, and changes its expiry time.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::Txn;

use super::expiry::{Unit, expire_at};
use super::reply_string;

pub(crate) const GETEX: CommandSpec = CommandSpec {
    name: "getex",
    summary: "Get the value of a key and optionally set its expiration",
    complexity: "O(1)",
    since: "6.2.0",
    group: Group::String,
    arity: -2,
    flags: WRITE | FAST,
    acl: ACL_STRING,
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
    ],
    run: Run::Keys(getex),
    ..CommandSpec::EMPTY
};

#[derive(Clone, Copy)]
enum Change<'a> {
    None,
    Persist,
    Expire(Unit, &'a [u8]),
}

fn getex(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let change = parse(&call.args[2..])?;
    let (db, key) = (call.db(), call.key(0));
    if !reply_string(call, txn, &key)? {
        return Ok(());
    }
    match change {
        Change::None => {}
        Change::Persist => {
            let entry = txn.peek(db, &key);
            if entry.is_some_and(|entry| txn.properties(&entry).expiry().is_some()) {
                txn.keys().set_expiry(db, &key, None)?;
                call.wrote_as(&[b"PERSIST", key.bytes()]);
                call.notify(EventClass::Generic, "persist", &key);
            }
        }
        Change::Expire(unit, text) => {
            let at = expire_at(call, text, unit)?;
            if unit.is_absolute() && at <= txn.now() {
                txn.keys().delete(db, &key)?;
                call.wrote_as(&[b"DEL", key.bytes()]);
                call.notify(EventClass::Generic, "del", &key);
            } else {
                txn.keys().set_expiry(db, &key, Some(at))?;
                let mut digits = itoa::Buffer::new();
                call.wrote_as(&[b"PEXPIREAT", key.bytes(), digits.format(at).as_bytes()]);
                call.notify(EventClass::Generic, "expire", &key);
            }
        }
    }
    Ok(())
}

fn parse<'a>(mut rest: &[&'a [u8]]) -> Result<Change<'a>, Failure> {
    let mut change = Change::None;
    while let Some((word, mut more)) = rest.split_first() {
        change = match (change, Unit::named(word)) {
            (Change::None | Change::Persist, None) if word.eq_ignore_ascii_case(b"PERSIST") => {
                Change::Persist
            }
            (Change::None, Some(unit)) => {
                let (value, rest) = more.split_first().ok_or_else(|| Failure::from(SYNTAX))?;
                more = rest;
                Change::Expire(unit, value)
            }
            (Change::Expire(before, _), Some(unit)) if before == unit => {
                let (value, rest) = more.split_first().ok_or_else(|| Failure::from(SYNTAX))?;
                more = rest;
                Change::Expire(unit, value)
            }
            _ => return Err(SYNTAX.into()),
        };
        rest = more;
    }
    Ok(change)
}
