//! Hashes: fields with values, which may have a TTL.

mod count;
mod expire;
mod fields;
mod getex;
mod random;
mod read;
mod scan;
mod setex;
mod ttl;
mod write;

use engine::call::Call;
use engine::failure::Failure;
use engine::spec::CommandSpec;
use keyspace::{Members, Txn, Type};

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[
    &count::HINCRBY,
    &count::HINCRBYFLOAT,
    &expire::HEXPIRE,
    &expire::HEXPIREAT,
    &expire::HPEXPIRE,
    &expire::HPEXPIREAT,
    &getex::HGETDEL,
    &getex::HGETEX,
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
    &setex::HSETEX,
    &ttl::HEXPIRETIME,
    &ttl::HPERSIST,
    &ttl::HPEXPIRETIME,
    &ttl::HPTTL,
    &ttl::HTTL,
    &write::HDEL,
    &write::HMSET,
    &write::HSET,
    &write::HSETNX,
];

/// Returns the hash at the command's key, for a command that reads.
fn hash<'t>(call: &Call<'_>, txn: &'t mut Txn<'_>) -> Result<Option<Members<'t>>, Failure> {
    match txn.find(call.db(), &call.key(0)) {
        Some(entry) => Ok(Some(txn.members(&entry, Type::Hash)?)),
        None => Ok(None),
    }
}
