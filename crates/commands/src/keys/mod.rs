//! Commands on keys of any type, and on whole databases.

mod databases;
mod delete;
pub(crate) mod dump;
mod expire;
mod list;
pub(crate) mod migrate;
mod object;
mod relocate;
pub(crate) mod scan;
mod ttl;

use engine::spec::CommandSpec;

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[
    &databases::DBSIZE,
    &databases::FLUSHALL,
    &databases::FLUSHDB,
    &databases::SWAPDB,
    &delete::DEL,
    &delete::EXISTS,
    &delete::TOUCH,
    &delete::UNLINK,
    &dump::DUMP,
    &dump::RESTORE,
    &dump::RESTORE_ASKING,
    &expire::EXPIRE,
    &expire::EXPIREAT,
    &expire::PEXPIRE,
    &expire::PEXPIREAT,
    &migrate::MIGRATE,
    &object::OBJECT,
    &object::TYPE,
    &relocate::COPY,
    &relocate::MOVE,
    &relocate::RENAME,
    &relocate::RENAMENX,
    &list::KEYS,
    &scan::RANDOMKEY,
    &scan::SCAN,
    &ttl::EXPIRETIME,
    &ttl::PERSIST,
    &ttl::PEXPIRETIME,
    &ttl::PTTL,
    &ttl::TTL,
];
