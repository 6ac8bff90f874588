//! Strings.
//!
//! Values are read piece by piece straight into the reply. A value that is stored as an integer
//! stays one wherever it does in Redis, since OBJECT ENCODING shows it.

mod compare;
mod condition;
mod count;
mod edit;
mod expiry;
mod get;
mod getex;
mod lcs;
mod many;
mod msetex;
mod range;
mod set;

pub(crate) use expiry::Unit;

use keyspace::{Key, Keyspace, Str, Txn};
use resp::Writer;

use engine::call::Call;
use engine::failure::{Done, Failure, TOO_LONG};
use engine::spec::{CommandSpec, WRITE};

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[
    &compare::DELEX,
    &compare::DELIFEQ,
    &compare::DIGEST,
    &count::DECR,
    &count::DECRBY,
    &count::INCR,
    &count::INCRBY,
    &count::INCRBYFLOAT,
    &edit::APPEND,
    &edit::SETRANGE,
    &get::GET,
    &get::GETDEL,
    &get::GETSET,
    &get::STRLEN,
    &getex::GETEX,
    &lcs::LCS,
    &many::MGET,
    &many::MSET,
    &many::MSETNX,
    &msetex::MSETEX,
    &range::GETRANGE,
    &range::SUBSTR,
    &set::PSETEX,
    &set::SET,
    &set::SETEX,
    &set::SETNX,
];

/// Replies with bytes `from..to` of a string. On an error the caller must undo what was written.
fn reply_part(out: &mut Writer, value: &Str<'_>, from: usize, to: usize) -> Done {
    if !out.takes(to - from) {
        return Ok(());
    }
    out.bulk_header(to - from);
    value.pieces(from, to, &mut |piece| out.raw(piece))?;
    out.bulk_end();
    Ok(())
}

/// Replies with the string at a key, or a null. Returns true if there was one.
fn reply_string(call: &mut Call<'_>, txn: &mut Txn<'_>, key: &Key<'_>) -> Result<bool, Failure> {
    let Some(entry) = txn.find(call.db(), key) else {
        call.out.null();
        return Ok(false);
    };
    let value = txn.strings().read(&entry)?;
    // Only a read can be repeated if a media error is found while its bytes are copied.
    let may_pin = call.may_pin && !call.command.spec.has(WRITE);
    if let Some(bytes) = value.as_slice() {
        call.out.bulk(bytes);
    } else if may_pin && value.len() >= Keyspace::LARGE {
        if call.out.takes(value.len()) {
            call.pinned = Some(txn.strings().pin(&entry)?);
        }
    } else {
        reply_part(call.out, &value, 0, value.len())?;
    }
    Ok(true)
}

/// Refuses a string that would become longer than `proto-max-bulk-len`.
fn check_len(call: &Call<'_>, at: usize, more: usize) -> Result<(), Failure> {
    match at.checked_add(more) {
        Some(len) if len as u64 <= call.engine.config().proto_max_bulk_len() => Ok(()),
        _ => Err(TOO_LONG.into()),
    }
}
