//! Lists: sequences, pushed and popped at both ends.

mod edit;
mod pop;
mod position;
mod push;
mod read;
mod relay;

use std::ops::Range;

use engine::call::Call;
use engine::failure::{Failure, SYNTAX};
use engine::spec::CommandSpec;
use keyspace::{ListRef, Side, Txn};

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[
    &edit::LINSERT,
    &edit::LREM,
    &edit::LSET,
    &edit::LTRIM,
    &pop::BLMPOP,
    &pop::BLPOP,
    &pop::BRPOP,
    &pop::LMPOP,
    &pop::LPOP,
    &pop::RPOP,
    &position::LPOS,
    &push::LPUSH,
    &push::LPUSHX,
    &push::RPUSH,
    &push::RPUSHX,
    &read::LINDEX,
    &read::LLEN,
    &read::LRANGE,
    &relay::BLMOVE,
    &relay::BRPOPLPUSH,
    &relay::LMOVE,
    &relay::RPOPLPUSH,
];

/// Returns the list at the command's key, for a command that reads.
fn list<'t>(call: &Call<'_>, txn: &'t mut Txn<'_>) -> Result<Option<ListRef<'t>>, Failure> {
    match txn.find(call.db(), &call.key(0)) {
        Some(entry) => Ok(Some(txn.list(&entry)?)),
        None => Ok(None),
    }
}

/// Parses LEFT or RIGHT.
fn side(word: &[u8]) -> Result<Side, Failure> {
    match word {
        word if word.eq_ignore_ascii_case(b"LEFT") => Ok(Side::Head),
        word if word.eq_ignore_ascii_case(b"RIGHT") => Ok(Side::Tail),
        _ => Err(SYNTAX.into()),
    }
}

/// Converts an index to a position; a negative one counts from the end. `None` if there is no such
/// element.
fn index(index: i64, len: u64) -> Option<u64> {
    let at = if index < 0 { index.checked_add_unsigned(len)? } else { index };
    u64::try_from(at).ok().filter(|&at| at < len)
}

/// Returns the positions from one index to another, both included.
fn span(start: i64, stop: i64, len: u64) -> Range<u64> {
    let place =
        |index: i64| -> i64 { if index < 0 { index.saturating_add_unsigned(len) } else { index } };
    let start = u64::try_from(place(start)).unwrap_or(0).min(len);
    let end = u64::try_from(place(stop).saturating_add(1)).unwrap_or(0).min(len);
    start..end.max(start)
}
