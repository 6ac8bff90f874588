//! SADD, SREM.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::Txn;

use super::add;

pub(crate) const SADD: CommandSpec = CommandSpec {
    name: "sadd",
    summary: "Add one or more members to a set",
    complexity: "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
    since: "1.0.0",
    group: Group::Set,
    arity: -3,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_SET,
    keys: &[KeySpec::one(1, KEY_RW | KEY_INSERT)],
    history: &[("2.4.0", "Accepts multiple `member` arguments.")],
    args: &[key("key", 0), string("member").multiple()],
    members: Some(Members::from(2, 1)),
    run: Run::Keys(sadd),
    ..CommandSpec::EMPTY
};

fn sadd(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let new = add(call, txn, &call.key(0), call.args[2..].iter().copied())?;
    if new > 0 {
        call.wrote();
        call.notify(EventClass::Set, "sadd", &call.key(0));
    }
    call.out.integer(new as i64);
    Ok(())
}

pub(crate) const SREM: CommandSpec = CommandSpec {
    name: "srem",
    summary: "Remove one or more members from a set",
    complexity: "O(N) where N is the number of members to be removed.",
    since: "1.0.0",
    group: Group::Set,
    arity: -3,
    flags: WRITE | FAST,
    acl: ACL_SET,
    keys: &[KeySpec::one(1, KEY_RW | KEY_DELETE)],
    history: &[("2.4.0", "Accepts multiple `member` arguments.")],
    args: &[key("key", 0), string("member").multiple()],
    members: Some(Members::from(2, 1)),
    run: Run::Keys(srem),
    ..CommandSpec::EMPTY
};

fn srem(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let members = call.args[2..].iter().copied();
    let (removed, _) = txn.sets().remove(call.db(), &call.key(0), members)?;
    if removed > 0 {
        call.wrote();
        call.notify_taken(EventClass::Set, txn, "srem", &call.key(0));
    }
    call.out.integer(removed as i64);
    Ok(())
}
