//! SMEMBERS and other commands that show the content of a set.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;
use keyspace::Txn;

use super::set;

pub(crate) const SMEMBERS: CommandSpec = CommandSpec {
    name: "smembers",
    summary: "Get all the members in a set",
    complexity: "O(N) where N is the set cardinality.",
    since: "1.0.0",
    group: Group::Set,
    arity: 2,
    flags: READONLY,
    traits: BOUNDED,
    acl: ACL_SET,
    tips: &["nondeterministic_output_order"],
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0)],
    weigh: Some(weights::reads_all),
    run: Run::Keys(smembers),
    ..CommandSpec::EMPTY
};

fn smembers(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let start = call.out.deferred();
    let mut count = 0;
    if let Some(set) = set(call, txn)? {
        set.visit(|member, _| {
            call.out.bulk(member);
            count += 1;
        })?;
    }
    call.out.finish_set(start, count);
    Ok(())
}

pub(crate) const SISMEMBER: CommandSpec = CommandSpec {
    name: "sismember",
    summary: "Determine if a given value is a member of a set",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Set,
    arity: 3,
    flags: READONLY | FAST,
    acl: ACL_SET,
    keys: &[KeySpec::one(1, KEY_RO)],
    args: &[key("key", 0), string("member")],
    members: Some(Members::one(2)),
    run: Run::Keys(sismember),
    ..CommandSpec::EMPTY
};

fn sismember(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let found = match set(call, txn)? {
        Some(set) => set.contains(call.args[2])?,
        None => false,
    };
    call.out.integer(i64::from(found));
    Ok(())
}

pub(crate) const SMISMEMBER: CommandSpec = CommandSpec {
    name: "smismember",
    summary: "Returns the membership associated with the given elements for a set",
    complexity: "O(N) where N is the number of elements being checked for membership",
    since: "6.2.0",
    group: Group::Set,
    arity: -3,
    flags: READONLY | FAST,
    acl: ACL_SET,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0), string("member").multiple()],
    members: Some(Members::from(2, 1)),
    run: Run::Keys(smismember),
    ..CommandSpec::EMPTY
};

fn smismember(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let set = set(call, txn)?;
    call.out.array(call.args.len() - 2);
    for member in &call.args[2..] {
        let found = match &set {
            Some(set) => set.contains(member)?,
            None => false,
        };
        call.out.integer(i64::from(found));
    }
    Ok(())
}

pub(crate) const SCARD: CommandSpec = CommandSpec {
    name: "scard",
    summary: "Get the number of members in a set",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Set,
    arity: 2,
    flags: READONLY | FAST,
    acl: ACL_SET,
    keys: &[KeySpec::one(1, KEY_RO)],
    args: &[key("key", 0)],
    run: Run::Keys(scard),
    ..CommandSpec::EMPTY
};

fn scard(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let len = set(call, txn)?.map_or(0, |set| set.len());
    call.out.integer(len as i64);
    Ok(())
}
