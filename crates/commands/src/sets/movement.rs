//! SMOVE.

use engine::call::{Call, Run};
use engine::failure::{Done, WRONG_TYPE};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{Txn, Type};

use super::add;

pub(crate) const SMOVE: CommandSpec = CommandSpec {
    name: "smove",
    summary: "Move a member from one set to another",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Set,
    arity: 4,
    flags: WRITE | FAST,
    acl: ACL_SET,
    keys: &[
        KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_DELETE),
        KeySpec::one(2, KEY_RW | KEY_INSERT),
    ],
    args: &[key("source", 0), key("destination", 1), string("member")],
    run: Run::Keys(smove),
    ..CommandSpec::EMPTY
};

fn smove(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (db, from, to, member) = (call.db(), call.key(0), call.key(1), call.args[3]);
    let found = match txn.find_mut(db, &from)? {
        Some(entry) => {
            let contains = txn.members(&entry, Type::Set)?.contains(member)?;
            if let Some(target) = txn.find_mut(db, &to)?
                && txn.properties(&target).value_type() != Type::Set
            {
                return Err(WRONG_TYPE.into());
            }
            contains
        }
        None => false,
    };
    if found && from.bytes() != to.bytes() {
        txn.sets().remove(db, &from, [member])?;
        call.notify_taken(EventClass::Set, txn, "srem", &from);
        if add(call, txn, &to, [member])? > 0 {
            call.notify(EventClass::Set, "sadd", &to);
        }
        call.wrote();
    }
    call.out.integer(i64::from(found));
    Ok(())
}
