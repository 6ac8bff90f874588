//! BITOP: combines strings bit by bit. Shorter ones are padded with zeros.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{BitOperation, Txn};

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
    history: &[("8.2.0", "Added `DIFF`, `DIFF1`, `ANDOR`, and `ONE` operations.")],
    args: &[string("operation"), key("destkey", 0), key("key", 1).multiple()],
    weigh: Some(weights::stores_all),
    run: Run::Keys(bitop),
    ..CommandSpec::EMPTY
};

/// Returns true if the operation compares the first source key with the others.
fn compares_first(operation: BitOperation) -> bool {
    matches!(
        operation,
        BitOperation::Difference | BitOperation::ReverseDifference | BitOperation::AndOr
    )
}

fn bitop(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let operation = operation(call)?;
    let [target, sources @ ..] = call.keys else { return Err(SYNTAX.into()) };
    if operation == BitOperation::Not && sources.len() != 1 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    if compares_first(operation) && sources.len() < 2 {
        let name = String::from_utf8_lossy(call.args[1]).to_ascii_uppercase();
        let text = format!("ERR BITOP {name} must be called with at least two source keys.");
        return Err(Failure::text(text));
    }
    let (len, wrote) = txn.bitmaps().combine(call.db(), target, operation, sources)?;
    if wrote {
        log(call, txn, operation)?;
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
        ("DIFF", BitOperation::Difference),
        ("DIFF1", BitOperation::ReverseDifference),
        ("ANDOR", BitOperation::AndOr),
        ("ONE", BitOperation::One),
    ];
    let found = names.iter().find(|(name, _)| call.is(1, name));
    found.map(|(_, operation)| *operation).ok_or_else(|| SYNTAX.into())
}

/// Logs the newer operations as their results, which servers that do not know them can load.
fn log(call: &mut Call<'_>, txn: &mut Txn<'_>, operation: BitOperation) -> Done {
    let is_new = compares_first(operation) || operation == BitOperation::One;
    if !is_new || !call.effects.enabled() {
        call.wrote();
        return Ok(());
    }
    let target = call.key(0);
    match txn.peek(call.db(), &target) {
        Some(entry) => {
            let value = txn.strings().read(&entry)?.to_vec()?;
            call.wrote_as(&[b"SET", target.bytes(), &value]);
        }
        None => call.wrote_as(&[b"DEL", target.bytes()]),
    }
    Ok(())
}
