//! Creates an engine with the commands of all groups. Only this file names all groups.

use std::sync::Arc;

use engine::EngineParts;
use engine::clock::{Clock, SystemClock};
use engine::log::CommandLog;
use engine::table::{RenameError, Table};
use keyspace::Keyspace;

use crate::acl::UserSet;
use crate::{
    acl, admin, bitmaps, cluster, connection, debug, functions, geo, hashes, hyperloglog,
    introspection, keys, lists, pubsub, replication, scripting, sets, sort, sorted_sets, streams,
    strings, transactions,
};

/// Returns all commands.
fn table() -> Table {
    Table::new(&[
        strings::COMMANDS,
        hashes::COMMANDS,
        lists::COMMANDS,
        sorted_sets::COMMANDS,
        geo::COMMANDS,
        streams::COMMANDS,
        sets::COMMANDS,
        replication::COMMANDS,
        bitmaps::COMMANDS,
        hyperloglog::COMMANDS,
        keys::COMMANDS,
        sort::COMMANDS,
        connection::COMMANDS,
        transactions::COMMANDS,
        pubsub::COMMANDS,
        scripting::COMMANDS,
        functions::COMMANDS,
        introspection::COMMANDS,
        admin::COMMANDS,
        cluster::COMMANDS,
        debug::COMMANDS,
        acl::COMMANDS,
    ])
}

/// The parts from which an engine with all commands is made.
pub struct EngineOptions {
    /// The data.
    pub keyspace: Arc<Keyspace>,
    /// The log of effects, if there is one.
    pub log: Option<Arc<dyn CommandLog>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The number of threads that execute commands, and load a dump together.
    pub threads: usize,
    /// Seeds the random numbers of all sessions.
    pub seed: u64,
    /// The command table, if some commands are renamed.
    pub table: Option<Table>,
}

impl EngineOptions {
    /// Returns an engine on `keyspace`, without a log, by the machine's clock.
    pub fn new(keyspace: Arc<Keyspace>) -> EngineOptions {
        let clock = Arc::new(SystemClock);
        EngineOptions { keyspace, log: None, clock, threads: 1, seed: 0, table: None }
    }
}

impl From<EngineOptions> for EngineParts {
    fn from(options: EngineOptions) -> EngineParts {
        let EngineOptions { keyspace, log, clock, threads, seed, table: renamed } = options;
        let table = renamed.unwrap_or_else(table);
        EngineParts { keyspace, log, clock, threads, seed, table }
    }
}

/// Returns all commands, renamed by `rename-command` lines, each an old and a new name. The error
/// is the number of the first wrong line, and what is wrong with it.
pub fn renamed_table(lines: &[(&[u8], &[u8])]) -> Result<Table, (usize, RenameError)> {
    let mut table = table();
    for (at, (from, to)) in lines.iter().enumerate() {
        table.rename(from, to).map_err(|error| (at, error))?;
    }
    Ok(table)
}

/// Reads the text of the ACL file with this name. `all_channels` says that new users may use all
/// channels (`acl-pubsub-default`). The error names all mistakes, with their lines.
pub fn read_users_file(name: &str, text: &[u8], all_channels: bool) -> Result<UserSet, String> {
    UserSet::of_file(&table(), all_channels, name, text)
}

/// Reads the `user` lines of a configuration, each a name and rules. The error is the number of the
/// first wrong line, and what is wrong with it.
pub fn read_user_lines(
    lines: &[Vec<&[u8]>],
    all_channels: bool,
) -> Result<UserSet, (usize, String)> {
    UserSet::of_lines(&table(), all_channels, lines)
}
