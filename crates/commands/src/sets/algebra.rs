//! SINTER, SUNION, SDIFF: the intersection, union and difference of several sets; shown, counted,
//! or stored.
//!
//! An intersection reads the smallest set and looks its members up in the others. A difference has
//! two methods, as in Redis: look up each member of the first set in the others, or remove the
//! members of all others from the first; it uses the one that visits fewer members. So does a union
//! that is shown; one that is stored leaves it to the set that it fills. All keys are locked at
//! once, so that the answer shows one moment.

use std::collections::HashSet;

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{Key, Members, Txn, Type};

use super::add;
use crate::collections::gathered::{Gathered, in_pieces};

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

/// Parses the arguments of SINTERCARD, and returns its limit.
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
    let members = gather(call, txn, &call.keys[1..])?;
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

/// Returns the sets at these keys, in order; `None` for a missing key.
fn sets<'t>(
    call: &Call<'_>,
    txn: &'t mut Txn<'_>,
    keys: &[Key<'_>],
) -> Result<Vec<Option<Members<'t>>>, Failure> {
    if call.command.spec.has(WRITE) {
        // An expired set is deleted first, so that a replay, for which nothing expires, reads the
        // same.
        for key in keys {
            txn.find_mut(call.db(), key)?;
        }
    }
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let entry = txn.find(call.db(), key);
        // A wrong type ends the search: the keys after it are not looked up.
        entry.as_ref().map(|entry| txn.members(entry, Type::Set)).transpose()?;
        found.push(entry);
    }
    let txn: &'t Txn<'_> = txn;
    let read = found.iter().map(|entry| match entry {
        Some(entry) => txn.members(entry, Type::Set).map(Some).map_err(Failure::from),
        None => Ok(None),
    });
    read.collect()
}

/// Adds the members that each of the other sets has (or that none has) to `kept`.
fn filter(
    members: &Gathered,
    others: &[&Members<'_>],
    wanted: bool,
    kept: &mut Gathered,
) -> Result<(), Failure> {
    let mut left: Vec<&[u8]> = members.iter().collect();
    let mut next = Vec::new();
    for other in others {
        next.clear();
        other.contains_each(&left, |at, found| {
            if found == wanted {
                next.push(left[at]);
            }
        })?;
        std::mem::swap(&mut left, &mut next);
    }
    left.into_iter().for_each(|member| kept.push(member));
    Ok(())
}

/// Returns the members of all sets, at most this many.
fn intersect(
    call: &Call<'_>,
    txn: &mut Txn<'_>,
    keys: &[Key<'_>],
    most: usize,
) -> Result<Gathered, Failure> {
    let sets = sets(call, txn, keys)?;
    let mut common = Gathered::default();
    let Some(mut sets) = sets.into_iter().collect::<Option<Vec<_>>>() else {
        return Ok(common);
    };
    sets.sort_by_key(Members::len);
    let Some((smallest, others)) = sets.split_first() else { return Ok(common) };
    let others: Vec<&Members<'_>> = others.iter().collect();
    in_pieces(smallest, |members| {
        filter(members, &others, true, &mut common)?;
        Ok(common.len() < most)
    })?;
    common.truncate(most);
    Ok(common)
}

/// Returns the members of any set; with several sets, some may be there more than once.
fn gather(call: &Call<'_>, txn: &mut Txn<'_>, keys: &[Key<'_>]) -> Result<Gathered, Failure> {
    let mut all = Gathered::default();
    for set in sets(call, txn, keys)?.into_iter().flatten() {
        all.add_all(&set)?;
    }
    Ok(all)
}

/// Returns the members of any set, each once. If few lookups suffice, adds the members of each set
/// that no earlier set has; otherwise collects all in a hash table.
fn unite(call: &Call<'_>, txn: &mut Txn<'_>, keys: &[Key<'_>]) -> Result<Gathered, Failure> {
    let sets: Vec<Members<'_>> = sets(call, txn, keys)?.into_iter().flatten().collect();
    let all: u64 = sets.iter().map(Members::len).sum();
    let asking: u64 = sets.iter().zip(0..).map(|(set, before)| set.len() * before).sum();
    let mut members = Gathered::default();
    if asking <= all {
        for (number, set) in sets.iter().enumerate() {
            let before: Vec<&Members<'_>> = sets[..number].iter().collect();
            in_pieces(set, |some| filter(some, &before, false, &mut members).map(|()| true))?;
        }
    } else {
        let mut gathered = Gathered::default();
        sets.iter().try_for_each(|set| gathered.add_all(set))?;
        let mut seen = HashSet::with_capacity(gathered.len());
        let new = gathered.iter().filter(|member| seen.insert(*member));
        new.for_each(|member| members.push(member));
    }
    Ok(in_order(call, members))
}

/// Returns the members of the first set that no other has.
fn subtract(call: &Call<'_>, txn: &mut Txn<'_>, keys: &[Key<'_>]) -> Result<Gathered, Failure> {
    let sets = sets(call, txn, keys)?;
    let mut left = Gathered::default();
    let Some((Some(first), others)) = sets.split_first() else { return Ok(left) };
    let others: Vec<&Members<'_>> = others.iter().flatten().collect();
    let asking = first.len().saturating_mul(others.len() as u64) / 2;
    let taking = others.iter().map(|set| set.len()).sum::<u64>().saturating_add(first.len());
    if asking > taking {
        let mut taken = Gathered::default();
        others.iter().try_for_each(|other| taken.add_all(other))?;
        let taken: HashSet<&[u8]> = taken.iter().collect();
        first.visit(|member, _| {
            if !taken.contains(member) {
                left.push(member);
            }
        })?;
    } else {
        in_pieces(first, |members| {
            filter(members, &others, false, &mut left)?;
            Ok(true)
        })?;
    }
    Ok(in_order(call, left))
}

/// Sorts the members if all are integers and would fit a set of integers, as Redis shows such a
/// set.
fn in_order(call: &Call<'_>, members: Gathered) -> Gathered {
    if members.len() > call.engine.config().set_limits().entries {
        return members;
    }
    let mut all: Vec<_> = members.iter().map(|m| (resp::number::parse_i64(m), m)).collect();
    all.sort_unstable();
    let mut ordered = Gathered::default();
    all.into_iter().for_each(|(_, member)| ordered.push(member));
    ordered
}

fn reply(call: &mut Call<'_>, members: &Gathered) -> Done {
    call.out.set(members.len());
    members.iter().for_each(|member| call.out.bulk(member));
    Ok(())
}

/// Replaces the value of the first key with these members.
fn store(call: &mut Call<'_>, txn: &mut Txn<'_>, members: &Gathered) -> Done {
    let key = call.key(0);
    let was_there = match members.is_empty() {
        true => txn.keys().delete(call.db(), &key)?,
        false => txn.keys().delete_to_overwrite(call.db(), &key)?,
    };
    let stored = if members.is_empty() { 0 } else { add(call, txn, &key, members.iter())? };
    if was_there || stored > 0 {
        call.wrote();
        let name = call.command.spec.name;
        call.notify_stored(EventClass::Set, name, &key, stored == 0);
    }
    call.out.integer(stored as i64);
    Ok(())
}
