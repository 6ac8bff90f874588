//! A new engine, with the commands of all groups. Nothing but this names all groups.

use crate::engine::{Engine, EngineOptions};
use crate::table::Table;
use crate::{
    admin, bitmaps, blocking, connection, debug, functions, geo, hashes, hyperloglog,
    introspection, keys, lists, pubsub, scripting, sets, sort, sorted_sets, streams, strings,
    transactions,
};

impl Engine {
    /// Returns an engine of these parts.
    pub fn new(options: EngineOptions) -> Engine {
        let table = Table::new(&[
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
            debug::COMMANDS,
        ]);
        Engine::of(options, table)
    }
}
