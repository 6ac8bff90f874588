//! Streams: entries in the order of their IDs, and consumer groups.

mod add;
mod groups;
mod id;
mod info;
mod range;
mod read;
mod references;
mod reply;
mod set_id;
mod trim;

use engine::call::Call;
use engine::failure::Failure;
use engine::spec::CommandSpec;
use keyspace::{StreamRef, Txn};

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[
    &groups::XACK,
    &references::XACKDEL,
    &add::XADD,
    &groups::XAUTOCLAIM,
    &groups::XCLAIM,
    &trim::XDEL,
    &references::XDELEX,
    &groups::XGROUP,
    &info::XINFO,
    &range::XLEN,
    &groups::XPENDING,
    &range::XRANGE,
    &read::XREAD,
    &groups::XREADGROUP,
    &range::XREVRANGE,
    &set_id::XSETID,
    &trim::XTRIM,
];

/// Returns the stream at the command's key number `n`, for a command that reads.
fn stream<'t>(
    call: &Call<'_>,
    txn: &'t mut Txn<'_>,
    n: usize,
) -> Result<Option<StreamRef<'t>>, Failure> {
    match txn.find(call.db(), &call.key(n)) {
        Some(entry) => Ok(Some(txn.stream(&entry)?)),
        None => Ok(None),
    }
}

/// Returns the stream at the command's key, for a command that writes: an expired key is deleted.
fn stream_mut<'t>(call: &Call<'_>, txn: &'t mut Txn<'_>) -> Result<Option<StreamRef<'t>>, Failure> {
    match txn.find_mut(call.db(), &call.key(0))? {
        Some(entry) => Ok(Some(txn.stream(&entry)?)),
        None => Ok(None),
    }
}

/// Returns the stream at the command's key, for a command that writes groups or consumers: an
/// expired key is deleted, and a hit or a miss is counted.
fn stream_to_read<'t>(
    call: &Call<'_>,
    txn: &'t mut Txn<'_>,
) -> Result<Option<StreamRef<'t>>, Failure> {
    match txn.find_mut_to_read(call.db(), &call.key(0))? {
        Some(entry) => Ok(Some(txn.stream(&entry)?)),
        None => Ok(None),
    }
}

/// Returns the error of a subcommand with missing arguments.
fn unknown(call: &Call<'_>) -> Failure {
    let container = call.args[0].to_ascii_uppercase();
    let parts: [&[u8]; 5] = [
        b"ERR unknown subcommand or wrong number of arguments for '",
        &call.args[1][..call.args[1].len().min(128)],
        b"'. Try ",
        &container,
        b" HELP.",
    ];
    Failure::text(parts.concat())
}
