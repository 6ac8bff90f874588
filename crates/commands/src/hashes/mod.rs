//! Hashes: fields with values.

mod count;
mod random;
mod read;
mod scan;
mod write;

use keyspace::{Members, Txn, Type};

use crate::call::Call;
use crate::failure::Failure;
use crate::spec::CommandSpec;

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[
    &count::HINCRBY,
    &count::HINCRBYFLOAT,
    &random::HRANDFIELD,
    &read::HEXISTS,
    &read::HGET,
    &read::HGETALL,
    &read::HKEYS,
    &read::HLEN,
    &read::HMGET,
    &read::HSTRLEN,
    &read::HVALS,
    &scan::HSCAN,
    &write::HDEL,
    &write::HMSET,
    &write::HSET,
    &write::HSETNX,
];

/// The hash at the command's key, for a command that reads.
fn hash<'t>(call: &Call<'_>, txn: &'t mut Txn<'_>) -> Result<Option<Members<'t>>, Failure> {
    match txn.find(call.db(), &call.key(0)) {
        Some(entry) => Ok(Some(txn.members(&entry, Type::Hash)?)),
        None => Ok(None),
    }
}
