//! GETBIT and SETBIT: one bit.

use keyspace::Txn;

use super::{bit_offset, window, writable};
use crate::call::{Call, Run};
use crate::failure::Done;
use crate::spec::*;

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
    let byte = match txn.find(call.db(), &call.key(0)) {
        Some(entry) => window::<1>(&txn.string(&entry)?, (offset >> 3) as usize)[0],
        None => 0,
    };
    call.out.integer(i64::from(byte & mask(offset) != 0));
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
    let (entry, write) = writable(call, txn, offset)?;
    let at = (offset >> 3) as usize;
    let byte = match &entry {
        Some(entry) => window::<1>(&txn.string(entry)?, at)[0],
        None => 0,
    };
    let was = byte & mask(offset) != 0;
    if write || was != on {
        let byte = if on { byte | mask(offset) } else { byte & !mask(offset) };
        txn.set_range(call.db(), &call.key(0), at, &[byte])?;
        call.wrote();
    }
    call.out.integer(i64::from(was));
    Ok(())
}

/// The bit within its byte.
fn mask(offset: u64) -> u8 {
    0x80 >> (offset & 7)
}
