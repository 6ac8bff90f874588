//! HGET and other commands that show the content of a hash.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;
use keyspace::{Text, Txn};

use super::hash;

pub(crate) const HGET: CommandSpec = CommandSpec {
    name: "hget",
    summary: "Get the value of a hash field",
    complexity: "O(1)",
    since: "2.0.0",
    group: Group::Hash,
    arity: 3,
    flags: READONLY | FAST,
    acl: ACL_HASH,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0), string("field")],
    members: Some(Members::one(2)),
    run: Run::Keys(hget),
    ..CommandSpec::EMPTY
};

fn hget(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let value = match hash(call, txn)? {
        Some(hash) => hash.get(call.args[2])?,
        None => None,
    };
    call.out.bulk_or_null(value.as_ref().map(Text::as_ref));
    Ok(())
}

pub(crate) const HMGET: CommandSpec = CommandSpec {
    name: "hmget",
    summary: "Get the values of all the given hash fields",
    complexity: "O(N) where N is the number of fields being requested.",
    since: "2.0.0",
    group: Group::Hash,
    arity: -3,
    flags: READONLY | FAST,
    acl: ACL_HASH,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0), string("field").multiple()],
    members: Some(Members::from(2, 1)),
    run: Run::Keys(hmget),
    ..CommandSpec::EMPTY
};

fn hmget(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let hash = hash(call, txn)?;
    call.out.array(call.args.len() - 2);
    for field in &call.args[2..] {
        let value = match &hash {
            Some(hash) => hash.get(field)?,
            None => None,
        };
        call.out.bulk_or_null(value.as_ref().map(Text::as_ref));
    }
    Ok(())
}

pub(crate) const HEXISTS: CommandSpec = CommandSpec {
    name: "hexists",
    summary: "Determine if a hash field exists",
    complexity: "O(1)",
    since: "2.0.0",
    group: Group::Hash,
    arity: 3,
    flags: READONLY | FAST,
    acl: ACL_HASH,
    keys: &[KeySpec::one(1, KEY_RO)],
    args: &[key("key", 0), string("field")],
    members: Some(Members::one(2)),
    run: Run::Keys(hexists),
    ..CommandSpec::EMPTY
};

fn hexists(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let found = match hash(call, txn)? {
        Some(hash) => hash.contains(call.args[2])?,
        None => false,
    };
    call.out.integer(i64::from(found));
    Ok(())
}

pub(crate) const HLEN: CommandSpec = CommandSpec {
    name: "hlen",
    summary: "Get the number of fields in a hash",
    complexity: "O(1)",
    since: "2.0.0",
    group: Group::Hash,
    arity: 2,
    flags: READONLY | FAST,
    acl: ACL_HASH,
    keys: &[KeySpec::one(1, KEY_RO)],
    args: &[key("key", 0)],
    run: Run::Keys(hlen),
    ..CommandSpec::EMPTY
};

fn hlen(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let len = hash(call, txn)?.map_or(0, |hash| hash.len());
    call.out.integer(len as i64);
    Ok(())
}

pub(crate) const HSTRLEN: CommandSpec = CommandSpec {
    name: "hstrlen",
    summary: "Get the length of the value of a hash field",
    complexity: "O(1)",
    since: "3.2.0",
    group: Group::Hash,
    arity: 3,
    flags: READONLY | FAST,
    acl: ACL_HASH,
    keys: &[KeySpec::one(1, KEY_RO)],
    args: &[key("key", 0), string("field")],
    members: Some(Members::one(2)),
    run: Run::Keys(hstrlen),
    ..CommandSpec::EMPTY
};

fn hstrlen(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let value = match hash(call, txn)? {
        Some(hash) => hash.get(call.args[2])?,
        None => None,
    };
    call.out.integer(value.map_or(0, |value| value.as_ref().len()) as i64);
    Ok(())
}

pub(crate) const HGETALL: CommandSpec = CommandSpec {
    name: "hgetall",
    summary: "Get all the fields and values in a hash",
    complexity: "O(N) where N is the size of the hash.",
    since: "2.0.0",
    group: Group::Hash,
    arity: 2,
    flags: READONLY,
    traits: BOUNDED,
    acl: ACL_HASH,
    tips: &["nondeterministic_output_order"],
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0)],
    weigh: Some(weights::reads_all),
    run: Run::Keys(hgetall),
    ..CommandSpec::EMPTY
};

fn hgetall(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let start = call.out.deferred();
    let mut pairs = 0;
    if let Some(hash) = hash(call, txn)? {
        hash.visit(|field, value| {
            call.out.bulk(field);
            call.out.bulk(value);
            pairs += 1;
        })?;
    }
    call.out.finish_map(start, pairs);
    Ok(())
}

pub(crate) const HKEYS: CommandSpec = CommandSpec {
    name: "hkeys",
    summary: "Get all the fields in a hash",
    complexity: "O(N) where N is the size of the hash.",
    since: "2.0.0",
    group: Group::Hash,
    arity: 2,
    flags: READONLY,
    traits: BOUNDED,
    acl: ACL_HASH,
    tips: &["nondeterministic_output_order"],
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0)],
    weigh: Some(weights::reads_all),
    run: Run::Keys(hkeys),
    ..CommandSpec::EMPTY
};

fn hkeys(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    each(call, txn, |field, _| field)
}

pub(crate) const HVALS: CommandSpec = CommandSpec {
    name: "hvals",
    summary: "Get all the values in a hash",
    complexity: "O(N) where N is the size of the hash.",
    since: "2.0.0",
    group: Group::Hash,
    arity: 2,
    flags: READONLY,
    traits: BOUNDED,
    acl: ACL_HASH,
    tips: &["nondeterministic_output_order"],
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0)],
    weigh: Some(weights::reads_all),
    run: Run::Keys(hvals),
    ..CommandSpec::EMPTY
};

fn hvals(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    each(call, txn, |_, value| value)
}

fn each(
    call: &mut Call<'_>,
    txn: &mut Txn<'_>,
    part: for<'p> fn(&'p [u8], &'p [u8]) -> &'p [u8],
) -> Done {
    let start = call.out.deferred();
    let mut count = 0;
    if let Some(hash) = hash(call, txn)? {
        hash.visit(|field, value| {
            call.out.bulk(part(field, value));
            count += 1;
        })?;
    }
    call.out.finish_array(start, count);
    Ok(())
}
