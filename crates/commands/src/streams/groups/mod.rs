//! Consumer groups: each entry is delivered to one consumer of a group, and is pending until that
//! consumer acknowledges it.
//!
//! The commands are not logged as they were given, but by their results: an XCLAIM with time and
//! count for each delivered entry, an XACK for each that is no longer pending, and an XGROUP SETID
//! if the group has read on. So a replay has the same effect at any time, whatever the stream
//! contains then.

mod ack;
mod auto_claim;
mod claim;
mod group;
mod info;
mod log;
mod pending;
mod read;

use keyspace::{StreamGroup, StreamRef, Txn};

pub(super) use ack::XACK;
pub(super) use auto_claim::XAUTOCLAIM;
pub(super) use claim::XCLAIM;
pub(super) use group::XGROUP;
pub(super) use info::{XINFO_CONSUMERS, XINFO_GROUPS, full};
pub(super) use pending::XPENDING;
pub(super) use read::XREADGROUP;

use super::{stream, stream_to_read};
use engine::call::Call;
use engine::failure::Failure;

/// Returns a word as C prints it.
fn printed(word: &[u8]) -> &[u8] {
    word.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Returns the error for a missing key or group; `suffix` ends the text.
fn no_group(key: &[u8], group: &[u8], suffix: &str) -> Failure {
    let parts = [
        b"NOGROUP No such key '",
        printed(key),
        b"' or consumer group '",
        printed(group),
        b"'",
        suffix.as_bytes(),
    ];
    Failure::text(parts.concat())
}

/// Returns the error for a missing group of an existing key.
fn no_group_of(key: &[u8], group: &[u8]) -> Failure {
    let parts: [&[u8]; 5] = [
        b"NOGROUP No such consumer group '",
        printed(group),
        b"' for key name '",
        printed(key),
        b"'",
    ];
    Failure::text(parts.concat())
}

/// Returns the stream at the first key and its group, named by the second argument, for reading; an
/// error if either is missing.
fn group<'t>(
    call: &Call<'_>,
    txn: &'t mut Txn<'_>,
) -> Result<(StreamRef<'t>, StreamGroup), Failure> {
    let found = stream(call, txn, 0)?;
    existing(call, found)
}

/// Returns the same for a command that writes.
fn group_mut<'t>(
    call: &Call<'_>,
    txn: &'t mut Txn<'_>,
) -> Result<(StreamRef<'t>, StreamGroup), Failure> {
    let found = stream_to_read(call, txn)?;
    existing(call, found)
}

fn existing<'t>(
    call: &Call<'_>,
    found: Option<StreamRef<'t>>,
) -> Result<(StreamRef<'t>, StreamGroup), Failure> {
    let (key, name) = (call.args[1], call.args[2]);
    let missing = || no_group(key, name, "");
    let stream = found.ok_or_else(missing)?;
    let group = stream.group(name)?.ok_or_else(missing)?;
    Ok((stream, group))
}

/// Returns the minimum idle time in milliseconds; a negative one counts as 0.
fn min_idle(call: &Call<'_>, error: &'static str) -> Result<u64, Failure> {
    Ok(call.int(4).map_err(|_| error)?.max(0) as u64)
}

/// Returns when a consumer is seen, unix ms; during a replay that is now.
fn seen_ms(call: &Call<'_>) -> u64 {
    if call.session.replay { call.engine.clock().unix_ms() } else { call.now_ms() }
}

/// Returns true if at least this time has passed since a delivery.
fn is_idle(now: u64, delivered: u64, least: u64) -> bool {
    // Redis compares signed numbers: a delivery in the future is not idle.
    least == 0 || now.checked_sub(delivered).is_some_and(|idle| idle >= least)
}
