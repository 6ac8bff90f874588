//! BITOP: strings combined bit by bit. The shorter ones are continued with zeros.

use keyspace::{BitOperation, Txn};

use crate::call::{Call, Run};
use crate::failure::{Done, Failure, SYNTAX};
use crate::notifications::EventClass;
use crate::spec::*;

pub(crate) const BITOP: CommandSpec = CommandSpec {
    name: "bitop",
    summary: "Perform bitwise operations between strings",
    complexity: "O(N)",
    since: "2.6.0",
    group: Group::Bitmap,
    arity: -4,
    flags: WRITE | DENYOOM,
    acl: ACL_BITMAP,
    keys: &[KeySpec::one(2, KEY_OW | KEY_UPDATE), KeySpec::rest(3, 1, KEY_RO | KEY_ACCESS)],
    args: &[string("operation"), key("destkey", 0), key("key", 1).multiple()],
    run: Run::Keys(bitop),
    ..CommandSpec::EMPTY
};

fn bitop(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let operation = operation(call)?;
    let [target, sources @ ..] = call.keys else { return Err(SYNTAX.into()) };
    if operation == BitOperation::Not && sources.len() != 1 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    let (len, wrote) = txn.combine_bits(call.db(), target, operation, sources)?;
    if wrote {
        call.wrote();
        call.notify_stored(EventClass::String, "set", target, len == 0);
    }
    call.out.integer(len as i64);
    Ok(())
}

fn operation(call: &Call<'_>) -> Result<BitOperation, Failure> {
    let names = [
        ("AND", BitOperation::And),
        ("OR", BitOperation::Or),
        ("XOR", BitOperation::Xor),
        ("NOT", BitOperation::Not),
    ];
    let found = names.iter().find(|(name, _)| call.is(1, name));
    found.map(|(_, operation)| *operation).ok_or_else(|| SYNTAX.into())
}
