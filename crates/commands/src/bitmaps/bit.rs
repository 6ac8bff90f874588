//! GETBIT and SETBIT: one bit.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::Txn;

use super::bit_offset;

pub(crate) const GETBIT: CommandSpec = CommandSpec {
    name: "getbit",
    summary: "Returns the bit value at offset in the string value stored at key",
    complexity: "O(1)",
    since: "2.2.0",
    group: Group::Bitmap,
    arity: 3,
    flags: READONLY | FAST,
    acl: ACL_BITMAP,
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[key("key", 0), integer("offset")],
    run: Run::Keys(getbit),
    ..CommandSpec::EMPTY
};

fn getbit(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let offset = bit_offset(call, 2, None)?;
    let bit = match txn.find(call.db(), &call.key(0)) {
        Some(entry) => txn.string(&entry)?.bit(offset)?,
        None => false,
    };
    call.out.integer(i64::from(bit));
    Ok(())
}

pub(crate) const SETBIT: CommandSpec = CommandSpec {
    name: "setbit",
    summary: "Sets or clears the bit at offset in the string value stored at key",
    complexity: "O(1)",
    since: "2.2.0",
    group: Group::Bitmap,
    arity: 4,
    flags: WRITE | DENYOOM,
    acl: ACL_BITMAP,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_UPDATE)],
    args: &[key("key", 0), integer("offset"), integer("value")],
    run: Run::Keys(setbit),
    ..CommandSpec::EMPTY
};

fn setbit(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let offset = bit_offset(call, 2, None)?;
    let on = match resp::number::parse_i64(call.args[3]) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err("ERR bit is not an integer or out of range".into()),
    };
    let (was, wrote) = txn.bitmaps().set(call.db(), &call.key(0), offset, on)?;
    if wrote {
        call.wrote();
        call.notify(EventClass::String, "setbit", &call.key(0));
    }
    call.out.integer(i64::from(was));
    Ok(())
}
