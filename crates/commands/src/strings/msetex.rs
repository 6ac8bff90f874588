//! MSETEX of Redis 8.4 and Valkey 9.1: several keys at once, with one expiry time, on a condition.
//!
//! It is logged as an MSET, or as a SET for each key, which older servers know too.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{Expire, Txn};

use super::expiry::{Unit, expire_at};

pub(crate) const MSETEX: CommandSpec = CommandSpec {
    name: "msetex",
    summary: "Atomically sets multiple string keys with a shared expiration in a single operation.",
    complexity: "O(N) where N is the number of keys to set.",
    since: "8.4.0",
    group: Group::String,
    arity: -4,
    flags: WRITE | DENYOOM,
    acl: ACL_STRING,
    tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
    keys: &[KeySpec::new(
        Begin::Index(1),
        Find::KeyNum { at: 0, first: 1, step: 2 },
        KEY_OW | KEY_UPDATE,
    )],
    args: &[
        integer("numkeys"),
        block("data", &[key("key", 0), string("value")]).multiple(),
        oneof("condition", &[token("nx", "NX"), token("xx", "XX")]).optional(),
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
    ],
    run: Run::Keys(msetex),
    ..CommandSpec::EMPTY
};

/// The options after the pairs.
#[derive(Default)]
struct Options<'a> {
    only_new: bool,
    only_old: bool,
    keep: bool,
    expiry: Option<(Unit, &'a [u8])>,
}

fn msetex(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let count = count(call)?;
    let options = parse(&call.args[2 + 2 * count..])?;
    let at = match options.expiry {
        Some((unit, text)) => Some(expire_at(call, text, unit)?),
        None => None,
    };
    let keys = call.keys;
    if options.only_new || options.only_old {
        for key in keys {
            if txn.find_mut(call.db(), key)?.is_some() == options.only_new {
                call.out.integer(0);
                return Ok(());
            }
        }
    }
    let expire = match at {
        Some(at) => Expire::At(at),
        None if options.keep => Expire::Keep,
        None => Expire::Clear,
    };
    for (n, key) in keys.iter().enumerate() {
        txn.strings().set(call.db(), key, call.args[2 * n + 3], expire)?;
        call.notify(EventClass::String, "set", key);
        if at.is_some() {
            call.notify(EventClass::Generic, "expire", key);
        }
    }
    log(call, &call.args[2..2 + 2 * count], expire);
    call.out.integer(1);
    Ok(())
}

/// Parses the number of pairs.
fn count(call: &Call<'_>) -> Result<usize, Failure> {
    const INVALID: &str = "ERR invalid numkeys value";
    let given = resp::number::parse_i64(call.args[1]).ok_or(INVALID)?;
    let count = i32::try_from(given).ok().filter(|count| *count > 0).ok_or(INVALID)? as usize;
    if count > (call.args.len() - 2) / 2 {
        return Err("ERR wrong number of key-value pairs".into());
    }
    Ok(count)
}

fn parse<'a>(mut rest: &[&'a [u8]]) -> Result<Options<'a>, Failure> {
    let mut options = Options::default();
    while let Some((word, mut more)) = rest.split_first() {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let is_timed = options.keep || options.expiry.is_some();
        if is("NX") && !options.only_old {
            options.only_new = true;
        } else if is("XX") && !options.only_new {
            options.only_old = true;
        } else if is("KEEPTTL") && options.expiry.is_none() {
            options.keep = true;
        } else {
            let unit = Unit::named(word).filter(|_| !is_timed).ok_or(SYNTAX)?;
            let (value, rest) = more.split_first().ok_or(SYNTAX)?;
            options.expiry = Some((unit, value));
            more = rest;
        }
        rest = more;
    }
    Ok(options)
}

fn log(call: &mut Call<'_>, pairs: &[&[u8]], expire: Expire) {
    if !call.effects.enabled() {
        return call.wrote_as(&[]);
    }
    let mut digits = itoa::Buffer::new();
    let time: &[&[u8]] = match expire {
        Expire::Clear => {
            let words: Vec<&[u8]> = [&b"MSET"[..]].iter().chain(pairs).copied().collect();
            return call.wrote_as(&words);
        }
        Expire::Keep => &[b"KEEPTTL"],
        Expire::At(at) => &[b"PXAT", digits.format(at).as_bytes()],
    };
    for pair in pairs.chunks_exact(2) {
        let words: Vec<&[u8]> = [&b"SET"[..]].iter().chain(pair).chain(time).copied().collect();
        call.wrote_as(&words);
    }
}
