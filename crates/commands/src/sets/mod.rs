//! Sets: members, each once.

mod algebra;
mod movement;
mod pop;
mod random;
mod read;
mod scan;
mod write;

use engine::call::Call;
use engine::failure::Failure;
use engine::spec::CommandSpec;
use keyspace::{Key, Members, Txn, Type};

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[
    &algebra::SDIFF,
    &algebra::SDIFFSTORE,
    &algebra::SINTER,
    &algebra::SINTERCARD,
    &algebra::SINTERSTORE,
    &algebra::SUNION,
    &algebra::SUNIONSTORE,
    &movement::SMOVE,
    &pop::SPOP,
    &random::SRANDMEMBER,
    &read::SCARD,
    &read::SISMEMBER,
    &read::SMEMBERS,
    &read::SMISMEMBER,
    &scan::SSCAN,
    &write::SADD,
    &write::SREM,
];

/// Returns the set at the command's key, for a command that reads.
fn set<'t>(call: &Call<'_>, txn: &'t mut Txn<'_>) -> Result<Option<Members<'t>>, Failure> {
    match txn.find(call.db(), &call.key(0)) {
        Some(entry) => Ok(Some(txn.members(&entry, Type::Set)?)),
        None => Ok(None),
    }
}

/// Adds members to a set, or creates it. Returns the number of new ones.
fn add<'a>(
    call: &Call<'_>,
    txn: &mut Txn<'_>,
    key: &Key<'_>,
    members: impl IntoIterator<Item = &'a [u8], IntoIter: Clone>,
) -> Result<usize, Failure> {
    let limits = call.engine.config().set_limits();
    Ok(txn.sets().add(call.db(), key, members, limits)?)
}
