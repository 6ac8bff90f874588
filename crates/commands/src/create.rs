//! A new engine, with the commands of all groups. Nothing but this names all groups.

use crate::acl::UserSet;
use crate::engine::{Engine, EngineOptions};
use crate::table::{RenameError, Table};
use crate::{
    acl, admin, bitmaps, blocking, cluster, connection, debug, functions, geo, hashes, hyperloglog,
    introspection, keys, lists, pubsub, scripting, sets, sort, sorted_sets, streams, strings,
    transactions,
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
        blocking::COMMANDS,
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

impl Engine {
    /// Returns an engine of these parts.
    pub fn new(mut options: EngineOptions) -> Engine {
        let table = options.table.take().unwrap_or_else(table);
        Engine::of(options, table)
    }
}

impl Table {
    /// Returns all commands with the names that `rename-command` lines give them, each the old name
    /// and the new one. Where one is wrong, its number and what is wrong with it.
    pub fn renamed(lines: &[(&[u8], &[u8])]) -> Result<Table, (usize, RenameError)> {
        let mut table = table();
        for (at, (from, to)) in lines.iter().enumerate() {
            table.rename(from, to).map_err(|error| (at, error))?;
        }
        Ok(table)
    }
}

impl UserSet {
    /// Reads the ACL file of this name, which has this text. `all_channels` says that new users may
    /// use all channels (`acl-pubsub-default`). All that is wrong is named, with its line.
    pub fn read_file(name: &str, text: &[u8], all_channels: bool) -> Result<UserSet, String> {
        UserSet::of_file(&table(), all_channels, (name, text))
    }

    /// Reads the `user` lines of a configuration, each a name and rules. Where one is wrong, its
    /// number and what is wrong with it.
    pub fn read_lines(
        lines: &[Vec<&[u8]>],
        all_channels: bool,
    ) -> Result<UserSet, (usize, String)> {
        UserSet::of_lines(&table(), all_channels, lines)
    }
}
