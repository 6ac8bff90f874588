//! HSET, HMSET, HSETNX, HDEL.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{Txn, Type};

pub(crate) const HSET: CommandSpec = CommandSpec {
    name: "hset",
    summary: "Set the string value of a hash field",
    complexity: "O(1) for each field/value pair added, so O(N) to add N field/value pairs when the command is called with multiple field/value pairs.",
    since: "2.0.0",
    group: Group::Hash,
    arity: -4,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_HASH,
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE)],
    history: &[("4.0.0", "Accepts multiple `field` and `value` arguments.")],
    args: &[key("key", 0), block("field_value", &[string("field"), string("value")]).multiple()],
    members: Some(Members::from(2, 2)),
    run: Run::Keys(hset),
    ..CommandSpec::EMPTY
};

fn hset(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let new = set_all(call, txn)?;
    call.out.integer(new as i64);
    Ok(())
}

pub(crate) const HMSET: CommandSpec = CommandSpec {
    name: "hmset",
    summary: "Set multiple hash fields to multiple values",
    complexity: "O(N) where N is the number of fields being set.",
    since: "2.0.0",
    group: Group::Hash,
    arity: -4,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_HASH,
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE)],
    deprecated: Some(Deprecated {
        since: "4.0.0",
        instead: "`HSET` with multiple field-value pairs",
    }),
    args: &[key("key", 0), block("field_value", &[string("field"), string("value")]).multiple()],
    members: Some(Members::from(2, 2)),
    run: Run::Keys(hmset),
    ..CommandSpec::EMPTY
};

fn hmset(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    set_all(call, txn)?;
    call.out.ok();
    Ok(())
}

/// Sets the fields of the request, and returns the number of new ones.
fn set_all(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Result<usize, Failure> {
    if call.args.len() % 2 == 1 {
        let name = call.command.spec.name;
        return Err(Failure::text(format!("ERR wrong number of arguments for '{name}' command")));
    }
    let pairs = call.args[2..].chunks_exact(2).map(|pair| (pair[0], pair[1]));
    let limits = call.engine.config().hash_limits();
    let new = txn.hashes().put(call.db(), &call.key(0), pairs, limits)?;
    call.wrote();
    call.notify(EventClass::Hash, "hset", &call.key(0));
    Ok(new)
}

pub(crate) const HSETNX: CommandSpec = CommandSpec {
    name: "hsetnx",
    summary: "Set the value of a hash field, only if the field does not exist",
    complexity: "O(1)",
    since: "2.0.0",
    group: Group::Hash,
    arity: 4,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_HASH,
    keys: &[KeySpec::one(1, KEY_RW | KEY_INSERT)],
    args: &[key("key", 0), string("field"), string("value")],
    members: Some(Members::one(2)),
    run: Run::Keys(hsetnx),
    ..CommandSpec::EMPTY
};

fn hsetnx(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (db, key) = (call.db(), call.key(0));
    let found = match txn.find_mut(db, &key)? {
        Some(entry) => txn.members(&entry, Type::Hash)?.contains(call.args[2])?,
        None => false,
    };
    if !found {
        let pair = [(call.args[2], call.args[3])];
        let limits = call.engine.config().hash_limits();
        txn.hashes().put(db, &key, pair, limits)?;
        call.wrote();
        call.notify(EventClass::Hash, "hset", &key);
    }
    call.out.integer(i64::from(!found));
    Ok(())
}

pub(crate) const HDEL: CommandSpec = CommandSpec {
    name: "hdel",
    summary: "Delete one or more hash fields",
    complexity: "O(N) where N is the number of fields to be removed.",
    since: "2.0.0",
    group: Group::Hash,
    arity: -3,
    flags: WRITE | FAST,
    acl: ACL_HASH,
    keys: &[KeySpec::one(1, KEY_RW | KEY_DELETE)],
    history: &[("2.4.0", "Accepts multiple `field` arguments.")],
    args: &[key("key", 0), string("field").multiple()],
    members: Some(Members::from(2, 1)),
    run: Run::Keys(hdel),
    ..CommandSpec::EMPTY
};

fn hdel(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let fields = call.args[2..].iter().copied();
    let (removed, _) = txn.hashes().remove(call.db(), &call.key(0), fields)?;
    if removed > 0 {
        call.wrote();
        call.notify_taken(EventClass::Hash, txn, "hdel", &call.key(0));
    }
    call.out.integer(removed as i64);
    Ok(())
}
