//! SPOP: removes members picked at random.
//!
//! The removal is logged as the SREM of the picked members, or the DEL of the key, since a replay
//! would pick others.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{Members, Text, Txn, Type};

use crate::collections::random::{Picked, pick_different};

/// The number of members in one logged SREM.
const AT_ONCE: usize = 1024;

pub(crate) const SPOP: CommandSpec = CommandSpec {
    name: "spop",
    summary: "Remove and return one or multiple random members from a set",
    complexity: "Without the count argument O(1), otherwise O(N) where N is the value of the passed count.",
    since: "1.0.0",
    group: Group::Set,
    arity: -2,
    flags: WRITE | FAST,
    acl: ACL_SET,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_DELETE)],
    history: &[("3.2.0", "Added the `count` argument.")],
    args: &[key("key", 0), integer("count").since("3.2.0").optional()],
    weigh: Some(weights::reads_count),
    run: Run::Keys(spop),
    ..CommandSpec::EMPTY
};

fn spop(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    match call.args.len() {
        2 => pop_one(call, txn),
        3 => pop_many(call, txn),
        _ => Err(SYNTAX.into()),
    }
}

fn pop_one(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let picked = match set_to_change(call, txn)? {
        Some(set) => set.random(|| call.session.random.u64(..))?,
        None => None,
    };
    let Some(member) = picked.map(|(member, _)| Text::as_ref(&member).to_vec()) else {
        call.out.null();
        return Ok(());
    };
    take(call, txn, &[&member])?;
    call.out.bulk(member);
    Ok(())
}

fn pop_many(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let count = count(call)?;
    let (picked, all) = match set_to_change(call, txn)? {
        Some(set) => {
            (pick_different(&set, count.unsigned_abs(), &mut call.session.random)?, set.len())
        }
        None => (Picked::new(), 0),
    };
    let members: Vec<&[u8]> = picked.iter().map(|(member, _)| member.as_slice()).collect();
    if members.len() as u64 == all && all > 0 {
        // As in Redis, popping all members counts as a read.
        txn.find(call.db(), &call.key(0));
        txn.keys().delete(call.db(), &call.key(0))?;
        call.wrote_as(&[b"DEL", call.args[1]]);
        call.notify_taken(EventClass::Set, txn, "spop", &call.key(0));
    } else if !members.is_empty() {
        take(call, txn, &members)?;
    }
    call.out.set(members.len());
    members.iter().for_each(|member| call.out.bulk(member));
    Ok(())
}

/// Returns the set at the command's key; an expired one is deleted first, as for any write.
fn set_to_change<'t>(
    call: &Call<'_>,
    txn: &'t mut Txn<'_>,
) -> Result<Option<Members<'t>>, Failure> {
    match txn.find_mut(call.db(), &call.key(0))? {
        Some(entry) => Ok(Some(txn.members(&entry, Type::Set)?)),
        None => Ok(None),
    }
}

fn count(call: &Call<'_>) -> Result<i64, Failure> {
    let out_of_range = "ERR value is out of range, must be positive";
    match resp::number::parse_i64(call.args[2]) {
        Some(count) if count >= 0 => Ok(count),
        _ => Err(out_of_range.into()),
    }
}

fn take(call: &mut Call<'_>, txn: &mut Txn<'_>, members: &[&[u8]]) -> Done {
    let key = call.key(0);
    let (_, gone) = txn.sets().remove(call.db(), &key, members.iter().copied())?;
    call.notify_taken(EventClass::Set, txn, "spop", &key);
    if gone {
        call.wrote_as(&[b"DEL", key.bytes()]);
        return Ok(());
    }
    for some in members.chunks(AT_ONCE) {
        call.wrote_as(&[&[b"SREM", key.bytes()], some].concat());
    }
    Ok(())
}
