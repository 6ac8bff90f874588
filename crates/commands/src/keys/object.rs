//! TYPE and OBJECT: the type, encoding and usage of a key's value.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;
use keyspace::{Entry, Txn};

use crate::help::reply_help;
use crate::names::{encoding_name, type_name};

pub(crate) const TYPE: CommandSpec = CommandSpec {
    name: "type",
    summary: "Determine the type stored at key",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Generic,
    arity: 2,
    flags: READONLY | FAST,
    acl: ACL_KEYSPACE,
    keys: &[KeySpec::one(1, KEY_RO)],
    args: &[key("key", 0)],
    run: Run::Keys(type_key),
    ..CommandSpec::EMPTY
};

fn type_key(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let name = txn
        .look(call.db(), &call.key(0))
        .map(|entry| type_name(txn.properties(&entry).value_type()));
    call.out.simple(name.unwrap_or("none"));
    Ok(())
}

pub(crate) const OBJECT: CommandSpec = CommandSpec {
    name: "object",
    summary: "A container for object introspection commands",
    complexity: "Depends on subcommand.",
    since: "2.2.3",
    group: Group::Generic,
    arity: -2,
    subs: &[&OBJECT_ENCODING, &OBJECT_FREQ, &OBJECT_HELP, &OBJECT_IDLETIME, &OBJECT_REFCOUNT],
    ..CommandSpec::EMPTY
};

pub(crate) const OBJECT_ENCODING: CommandSpec = CommandSpec {
    name: "encoding",
    summary: "Inspect the internal encoding of a Redis object",
    complexity: "O(1)",
    since: "2.2.3",
    group: Group::Generic,
    arity: 3,
    flags: READONLY,
    acl: ACL_KEYSPACE,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(2, KEY_RO)],
    args: &[key("key", 0)],
    run: Run::Keys(object_encoding),
    ..CommandSpec::EMPTY
};

pub(crate) const OBJECT_FREQ: CommandSpec = CommandSpec {
    name: "freq",
    summary: "Get the logarithmic access frequency counter of a Redis object",
    complexity: "O(1)",
    since: "4.0.0",
    group: Group::Generic,
    arity: 3,
    flags: READONLY,
    acl: ACL_KEYSPACE,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(2, KEY_RO)],
    args: &[key("key", 0)],
    run: Run::Keys(object_freq),
    ..CommandSpec::EMPTY
};

pub(crate) const OBJECT_HELP: CommandSpec = CommandSpec {
    name: "help",
    summary: "Show helpful text about the different subcommands",
    complexity: "O(1)",
    since: "6.2.0",
    group: Group::Generic,
    arity: 2,
    flags: LOADING | STALE,
    acl: ACL_KEYSPACE,
    run: Run::Session(object_help),
    ..CommandSpec::EMPTY
};

pub(crate) const OBJECT_IDLETIME: CommandSpec = CommandSpec {
    name: "idletime",
    summary: "Get the time since a Redis object was last accessed",
    complexity: "O(1)",
    since: "2.2.3",
    group: Group::Generic,
    arity: 3,
    flags: READONLY,
    acl: ACL_KEYSPACE,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(2, KEY_RO)],
    args: &[key("key", 0)],
    run: Run::Keys(object_idletime),
    ..CommandSpec::EMPTY
};

pub(crate) const OBJECT_REFCOUNT: CommandSpec = CommandSpec {
    name: "refcount",
    summary: "Get the number of references to the value of the key",
    complexity: "O(1)",
    since: "2.2.3",
    group: Group::Generic,
    arity: 3,
    flags: READONLY,
    acl: ACL_KEYSPACE,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(2, KEY_RO)],
    args: &[key("key", 0)],
    run: Run::Keys(object_refcount),
    ..CommandSpec::EMPTY
};

fn object_help(call: &mut Call<'_>) -> Done {
    reply_help(
        call,
        &[
            "ENCODING <key>",
            "    Return the kind of internal representation used in order to store the value",
            "    associated with a <key>.",
            "FREQ <key>",
            "    Return the access frequency index of the <key>. The returned integer is",
            "    proportional to the logarithm of the recent access frequency of the key.",
            "IDLETIME <key>",
            "    Return the idle time of the <key>, that is the approximated number of",
            "    seconds elapsed since the last access to the key.",
            "REFCOUNT <key>",
            "    Return the number of references of the value associated with the specified",
            "    <key>.",
        ],
    );
    Ok(())
}

/// Replies about a key that exists, or with a null.
fn about(
    call: &mut Call<'_>,
    txn: &Txn<'_>,
    reply: impl FnOnce(&mut Call<'_>, &Entry) -> Done,
) -> Done {
    match txn.peek(call.db(), &call.key(0)) {
        Some(entry) => reply(call, &entry),
        None => {
            call.out.null();
            Ok(())
        }
    }
}

fn object_encoding(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    about(call, txn, |call, entry| {
        call.out.bulk(encoding_name(txn.properties(entry).encoding()));
        Ok(())
    })
}

/// Redis shares the objects of small integers, and does not count their references, unless each has
/// to record when it was used.
fn object_refcount(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    const SHARED_INTEGERS: std::ops::Range<i64> = 0..10_000;
    about(call, txn, |call, entry| {
        let integer = txn.string(entry).ok().and_then(|value| value.as_int());
        let eviction = call.engine.keyspace().eviction();
        let shares = eviction.maxmemory == 0 || !eviction.policy.is_by_access();
        let shared = shares && integer.is_some_and(|n| SHARED_INTEGERS.contains(&n));
        call.out.integer(if shared { i64::from(i32::MAX) } else { 1 });
        Ok(())
    })
}

fn object_idletime(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    about(call, txn, |call, entry| {
        if call.engine.keyspace().eviction().policy.is_lfu() {
            return Err("ERR An LFU maxmemory policy is selected, idle time not tracked. Please \
                        note that when switching between policies at runtime LRU and LFU data \
                        will take some time to adjust."
                .into());
        }
        call.out.integer((txn.properties(entry).idle_ms() / 1000) as i64);
        Ok(())
    })
}

fn object_freq(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    about(call, txn, |call, entry| {
        if !call.engine.keyspace().eviction().policy.is_lfu() {
            return Err("ERR An LFU maxmemory policy is not selected, access frequency not \
                        tracked. Please note that when switching between policies at runtime \
                        LRU and LFU data will take some time to adjust."
                .into());
        }
        call.out.integer(i64::from(txn.properties(entry).frequency()));
        Ok(())
    })
}
