//! SINTER, SUNION, SDIFF: what several sets have in common, together, or apart; shown, counted, or
//! stored.
//!
//! An intersection goes through the smallest set and asks the others. A difference takes Redis's
//! choice of two ways: ask all others for each member of the first, or take the members of all
//! others out of the first; whichever looks at fewer. All keys are locked at once, so that the
//! answer is that of one moment.

use std::collections::HashSet;

use keyspace::{Key, Members, Txn, Type};

use super::add;
use crate::call::{Call, Run};
use crate::failure::{Done, Failure, SYNTAX};
use crate::notifications::EventClass;
use crate::spec::*;

pub(crate) const SINTER: CommandSpec = CommandSpec {
    name: "sinter",
    summary: "Intersect multiple sets",
    complexity: "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.",
    since: "1.0.0",
    group: Group::Set,
    arity: -2,
    flags: READONLY,
    acl: ACL_SET,
    tips: &["nondeterministic_output_order"],
    keys: &[KeySpec::rest(1, 1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0).multiple()],
    weigh: Some(weights::intersects),
    run: Run::Keys(sinter),
    ..CommandSpec::EMPTY
};

fn sinter(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let members = intersect(call, txn, call.keys, usize::MAX)?;
    reply(call, &members)
}

pub(crate) const SINTERSTORE: CommandSpec = CommandSpec {
    name: "sinterstore",
    summary: "Intersect multiple sets and store the resulting set in a key",
    complexity: "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.",
    since: "1.0.0",
    group: Group::Set,
    arity: -3,
    flags: WRITE | DENYOOM,
    acl: ACL_SET,
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE), KeySpec::rest(2, 1, KEY_RO | KEY_ACCESS)],
    args: &[key("destination", 0), key("key", 1).multiple()],
    weigh: Some(weights::intersects_into),
    run: Run::Keys(sinterstore),
    ..CommandSpec::EMPTY
};

fn sinterstore(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let members = intersect(call, txn, &call.keys[1..], usize::MAX)?;
    store(call, txn, &members)
}

pub(crate) const SINTERCARD: CommandSpec = CommandSpec {
    name: "sintercard",
    summary: "Intersect multiple sets and return the cardinality of the result",
    complexity: "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.",
    since: "7.0.0",
    group: Group::Set,
    arity: -3,
    flags: READONLY,
    acl: ACL_SET,
    keys: &[KeySpec::new(
        Begin::Index(1),
        Find::KeyNum { at: 0, first: 1, step: 1 },
        KEY_RO | KEY_ACCESS,
    )],
    args: &[
        integer("numkeys"),
        key("key", 0).multiple(),
        integer("limit").token("LIMIT").optional(),
    ],
    weigh: Some(weights::intersects),
    run: Run::Keys(sintercard),
    ..CommandSpec::EMPTY
};

fn sintercard(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let limit = parse_card(call)?;
    let limit = if limit == 0 { usize::MAX } else { limit };
    let members = intersect(call, txn, call.keys, limit)?;
    call.out.integer(members.len() as i64);
    Ok(())
}

/// Returns the limit of a SINTERCARD whose words make sense.
fn parse_card(call: &Call<'_>) -> Result<usize, Failure> {
    let keys = resp::number::parse_i64(call.args[1]).filter(|keys| *keys >= 1);
    let keys = keys.ok_or("ERR numkeys should be greater than 0")? as usize;
    if keys > call.args.len() - 2 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let (mut at, mut limit) = (2 + keys, 0);
    while at < call.args.len() {
        if !call.is(at, "LIMIT") || at + 1 == call.args.len() {
            return Err(SYNTAX.into());
        }
        let number = resp::number::parse_i64(call.args[at + 1]).filter(|n| *n >= 0);
        limit = number.ok_or("ERR LIMIT can't be negative")? as usize;
        at += 2;
    }
    Ok(limit)
}

pub(crate) const SUNION: CommandSpec = CommandSpec {
    name: "sunion",
    summary: "Add multiple sets",
    complexity: "O(N) where N is the total number of elements in all given sets.",
    since: "1.0.0",
    group: Group::Set,
    arity: -2,
    flags: READONLY,
    acl: ACL_SET,
    tips: &["nondeterministic_output_order"],
    keys: &[KeySpec::rest(1, 1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0).multiple()],
    weigh: Some(weights::reads_all),
    run: Run::Keys(sunion),
    ..CommandSpec::EMPTY
};

fn sunion(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let members = unite(call, txn, call.keys)?;
    reply(call, &members)
}

pub(crate) const SUNIONSTORE: CommandSpec = CommandSpec {
    name: "sunionstore",
    summary: "Add multiple sets and store the resulting set in a key",
    complexity: "O(N) where N is the total number of elements in all given sets.",
    since: "1.0.0",
    group: Group::Set,
    arity: -3,
    flags: WRITE | DENYOOM,
    acl: ACL_SET,
    keys: &[KeySpec::one(1, KEY_OW | KEY_UPDATE), KeySpec::rest(2, 1, KEY_RO | KEY_ACCESS)],
    args: &[key("destination", 0), key("key", 1).multiple()],
    weigh: Some(weights::stores_all),
    run: Run::Keys(sunionstore),
    ..CommandSpec::EMPTY
};

fn sunionstore(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let members = unite(call, txn, &call.keys[1..])?;
    store(call, txn, &members)
}

pub(crate) const SDIFF: CommandSpec = CommandSpec {
    name: "sdiff",
    summary: "Subtract multiple sets",
    complexity: "O(N) where N is the total number of elements in all given sets.",
    since: "1.0.0",
    group: Group::Set,
    arity: -2,
    flags: READONLY,
    acl: ACL_SET,
    tips: &["nondeterministic_output_order"],
    keys: &[KeySpec::rest(1, 1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0).multiple()],
    weigh: Some(weights::reads_all),
    run: Run::Keys(sdiff),
    ..CommandSpec::EMPTY
};

fn sdiff(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let members = subtract(call, txn, call.keys)?;
    reply(call, &members)
}

pub(crate) const SDIFFSTORE: CommandSpec = CommandSpec {
    name: "sdiffstore",
    summary: "Subtract multiple sets and store the resulting set in a key",
    complexity: "O(N) where N is the total number of elements in all given sets.",
    since: "1.0.0",
    group: Group::Set,
    arity: -3,
    flags: WRITE | DENYOOM,
    acl: ACL_SET,
    keys: &[KeySpec::one(1, KEY_OW | KEY_UPDATE), KeySpec::rest(2, 1, KEY_RO | KEY_ACCESS)],
    args: &[key("destination", 0), key("key", 1).multiple()],
    weigh: Some(weights::stores_all),
    run: Run::Keys(sdiffstore),
    ..CommandSpec::EMPTY
};

fn sdiffstore(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let members = subtract(call, txn, &call.keys[1..])?;
    store(call, txn, &members)
}

/// Returns the sets at these keys, in their order; `None` where there is no key.
fn sets<'t>(
    call: &Call<'_>,
    txn: &'t mut Txn<'_>,
    keys: &[Key<'_>],
) -> Result<Vec<Option<Members<'t>>>, Failure> {
    if call.command.spec.has(WRITE) {
        // A set that has expired is deleted first, so that a replay, for which nothing expires,
        // reads the same.
        for key in keys {
            txn.find_mut(call.db(), key)?;
        }
    }
    let found: Vec<_> = keys.iter().map(|key| txn.find(call.db(), key)).collect();
    let txn: &'t Txn<'_> = txn;
    let read = found.iter().map(|entry| match entry {
        Some(entry) => txn.members(entry, Type::Set).map(Some).map_err(Failure::from),
        None => Ok(None),
    });
    read.collect()
}

/// Members of all sets, at most this many.
fn intersect(
    call: &Call<'_>,
    txn: &mut Txn<'_>,
    keys: &[Key<'_>],
    most: usize,
) -> Result<Vec<Vec<u8>>, Failure> {
    let sets = sets(call, txn, keys)?;
    let Some(mut sets) = sets.into_iter().collect::<Option<Vec<_>>>() else {
        return Ok(Vec::new());
    };
    sets.sort_by_key(Members::len);
    let Some((smallest, others)) = sets.split_first() else { return Ok(Vec::new()) };
    let (mut common, mut failed) = (Vec::new(), None);
    smallest.visit(|member, _| {
        if common.len() < most && failed.is_none() {
            let everywhere = others.iter().try_fold(true, |so_far, other| {
                Ok::<bool, Failure>(so_far && other.contains(member)?)
            });
            match everywhere {
                Ok(true) => common.push(member.to_vec()),
                Ok(false) => {}
                Err(error) => failed = Some(error),
            }
        }
    })?;
    failed.map_or(Ok(common), Err)
}

/// Members of any set, each once.
fn unite(call: &Call<'_>, txn: &mut Txn<'_>, keys: &[Key<'_>]) -> Result<Vec<Vec<u8>>, Failure> {
    let mut seen = HashSet::new();
    for set in sets(call, txn, keys)?.into_iter().flatten() {
        set.visit(|member, _| _ = seen.insert(member.to_vec()))?;
    }
    Ok(in_order(seen))
}

/// Members of the first set that no other has.
fn subtract(call: &Call<'_>, txn: &mut Txn<'_>, keys: &[Key<'_>]) -> Result<Vec<Vec<u8>>, Failure> {
    let sets = sets(call, txn, keys)?;
    let Some((Some(first), others)) = sets.split_first() else { return Ok(Vec::new()) };
    let others: Vec<&Members<'_>> = others.iter().flatten().collect();
    let mut left = HashSet::new();
    first.visit(|member, _| _ = left.insert(member.to_vec()))?;
    let asking = first.len().saturating_mul(others.len() as u64) / 2;
    let taking = others.iter().map(|set| set.len()).sum::<u64>().saturating_add(first.len());
    for other in others {
        if left.is_empty() {
            break;
        }
        if asking > taking {
            other.visit(|member, _| _ = left.remove(member))?;
            continue;
        }
        let mut failed = None;
        left.retain(|member| match other.contains(member) {
            Ok(found) => !found,
            Err(error) => {
                failed = Some(error);
                true
            }
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
    }
    Ok(in_order(left))
}

/// Integers in ascending order where all are integers, as a set of them is told.
fn in_order(members: HashSet<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut members: Vec<Vec<u8>> = members.into_iter().collect();
    let number = |member: &Vec<u8>| resp::number::parse_i64(member);
    members.sort_by(|a, b| number(a).cmp(&number(b)).then_with(|| a.cmp(b)));
    members
}

fn reply(call: &mut Call<'_>, members: &[Vec<u8>]) -> Done {
    call.out.set(members.len());
    members.iter().for_each(|member| call.out.bulk(member));
    Ok(())
}

/// Makes the first key hold these members, whatever it held.
fn store(call: &mut Call<'_>, txn: &mut Txn<'_>, members: &[Vec<u8>]) -> Done {
    let key = call.key(0);
    let was_there = txn.delete(call.db(), &key)?;
    if !members.is_empty() {
        add(call, txn, &key, members.iter().map(Vec::as_slice))?;
    }
    if was_there || !members.is_empty() {
        call.wrote();
        let name = call.command.spec.name;
        call.notify_stored(EventClass::Set, name, &key, members.is_empty());
    }
    call.out.integer(members.len() as i64);
    Ok(())
}
