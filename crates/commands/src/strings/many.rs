//! MGET, MSET, MSETNX: several keys at once, in one transaction over all their shards.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{Error, Expire, Txn};

use super::reply_part;

pub(crate) const MGET: CommandSpec = CommandSpec {
    name: "mget",
    summary: "Get the values of all the given keys",
    complexity: "O(N) where N is the number of keys to retrieve.",
    since: "1.0.0",
    group: Group::String,
    arity: -2,
    flags: READONLY | FAST,
    acl: ACL_STRING,
    tips: &["request_policy:multi_shard"],
    keys: &[KeySpec::rest(1, 1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0).multiple()],
    run: Run::Keys(mget),
    ..CommandSpec::EMPTY
};

fn mget(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    call.out.array(call.keys.len());
    for key in call.keys {
        match txn.find(call.session.db, key) {
            Some(entry) => match txn.strings().read(&entry) {
                Ok(value) => reply_part(call.out, &value, 0, value.len())?,
                Err(Error::WrongType) => call.out.null(),
                Err(error) => return Err(error.into()),
            },
            None => call.out.null(),
        }
    }
    Ok(())
}

pub(crate) const MSET: CommandSpec = CommandSpec {
    name: "mset",
    summary: "Set multiple keys to multiple values",
    complexity: "O(N) where N is the number of keys to set.",
    since: "1.0.1",
    group: Group::String,
    arity: -3,
    flags: WRITE | DENYOOM,
    traits: REPLACES,
    acl: ACL_STRING,
    tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
    keys: &[KeySpec::rest(1, 2, KEY_OW | KEY_UPDATE)],
    args: &[block("key_value", &[key("key", 0), string("value")]).multiple()],
    run: Run::Keys(mset),
    ..CommandSpec::EMPTY
};

fn mset(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    check_pairs(call)?;
    store_all(call, txn)?;
    call.out.ok();
    Ok(())
}

pub(crate) const MSETNX: CommandSpec = CommandSpec {
    name: "msetnx",
    summary: "Set multiple keys to multiple values, only if none of the keys exist",
    complexity: "O(N) where N is the number of keys to set.",
    since: "1.0.1",
    group: Group::String,
    arity: -3,
    flags: WRITE | DENYOOM,
    acl: ACL_STRING,
    tips: &["request_policy:multi_shard", "response_policy:agg_min"],
    keys: &[KeySpec::rest(1, 2, KEY_OW | KEY_INSERT)],
    args: &[block("key_value", &[key("key", 0), string("value")]).multiple()],
    run: Run::Keys(msetnx),
    ..CommandSpec::EMPTY
};

fn msetnx(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    check_pairs(call)?;
    for key in call.keys {
        if txn.find_mut(call.session.db, key)?.is_some() {
            call.out.integer(0);
            return Ok(());
        }
    }
    store_all(call, txn)?;
    call.out.integer(1);
    Ok(())
}

fn check_pairs(call: &Call<'_>) -> Done {
    if call.args.len() % 2 == 1 {
        return Ok(());
    }
    let name = call.command.spec.name;
    Err(Failure::text(format!("ERR wrong number of arguments for '{name}' command")))
}

fn store_all(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    for (n, key) in call.keys.iter().enumerate() {
        txn.strings().set(call.session.db, key, call.args[2 * n + 2], Expire::Clear)?;
        call.notify(EventClass::String, "set", key);
    }
    call.wrote();
    Ok(())
}
