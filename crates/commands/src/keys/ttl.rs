//! TTL, PTTL, EXPIRETIME, PEXPIRETIME, PERSIST: show or remove the expiry time of a key.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::Txn;

pub(crate) const TTL: CommandSpec = CommandSpec {
    name: "ttl",
    summary: "Get the time to live for a key in seconds",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Generic,
    arity: 2,
    flags: READONLY | FAST,
    acl: ACL_KEYSPACE,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    history: &[("2.8.0", "Added the -2 reply.")],
    args: &[key("key", 0)],
    run: Run::Keys(ttl),
    ..CommandSpec::EMPTY
};

pub(crate) const PTTL: CommandSpec = CommandSpec {
    name: "pttl",
    summary: "Get the time to live for a key in milliseconds",
    complexity: "O(1)",
    since: "2.6.0",
    group: Group::Generic,
    arity: 2,
    flags: READONLY | FAST,
    acl: ACL_KEYSPACE,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    history: &[("2.8.0", "Added the -2 reply.")],
    args: &[key("key", 0)],
    run: Run::Keys(pttl),
    ..CommandSpec::EMPTY
};

pub(crate) const EXPIRETIME: CommandSpec = CommandSpec {
    name: "expiretime",
    summary: "Get the expiration Unix timestamp for a key",
    complexity: "O(1)",
    since: "7.0.0",
    group: Group::Generic,
    arity: 2,
    flags: READONLY | FAST,
    acl: ACL_KEYSPACE,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0)],
    run: Run::Keys(expiretime),
    ..CommandSpec::EMPTY
};

pub(crate) const PEXPIRETIME: CommandSpec = CommandSpec {
    name: "pexpiretime",
    summary: "Get the expiration Unix timestamp for a key in milliseconds",
    complexity: "O(1)",
    since: "7.0.0",
    group: Group::Generic,
    arity: 2,
    flags: READONLY | FAST,
    acl: ACL_KEYSPACE,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0)],
    run: Run::Keys(pexpiretime),
    ..CommandSpec::EMPTY
};

fn ttl(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let now = txn.now();
    reply_expiry(call, txn, |at| seconds(at.saturating_sub(now)))
}

fn pttl(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let now = txn.now();
    reply_expiry(call, txn, |at| at.saturating_sub(now))
}

fn expiretime(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    reply_expiry(call, txn, seconds)
}

fn pexpiretime(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    reply_expiry(call, txn, |at| at)
}

fn seconds(millis: u64) -> u64 {
    millis.saturating_add(500) / 1000
}

fn reply_expiry(call: &mut Call<'_>, txn: &mut Txn<'_>, say: impl Fn(u64) -> u64) -> Done {
    const NO_KEY: i64 = -2;
    const NO_EXPIRY: i64 = -1;
    let reply = match txn.look(call.db(), &call.key(0)) {
        None => NO_KEY,
        Some(entry) => txn.properties(&entry).expiry().map_or(NO_EXPIRY, |at| say(at) as i64),
    };
    call.out.integer(reply);
    Ok(())
}

pub(crate) const PERSIST: CommandSpec = CommandSpec {
    name: "persist",
    summary: "Remove the expiration from a key",
    complexity: "O(1)",
    since: "2.2.0",
    group: Group::Generic,
    arity: 2,
    flags: WRITE | FAST,
    acl: ACL_KEYSPACE,
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE)],
    args: &[key("key", 0)],
    run: Run::Keys(persist),
    ..CommandSpec::EMPTY
};

fn persist(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (db, key) = (call.db(), call.key(0));
    let expires =
        txn.find_mut(db, &key)?.is_some_and(|entry| txn.properties(&entry).expiry().is_some());
    if expires {
        txn.keys().set_expiry(db, &key, None)?;
        call.wrote();
        call.notify(EventClass::Generic, "persist", &key);
    }
    call.out.integer(i64::from(expires));
    Ok(())
}
