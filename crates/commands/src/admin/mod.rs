//! Administration: commands that report on the server, and that control it.
//!
//! Commands here get facts from the engine, and from the [`Host`] what only a process knows
//! (sockets, files, configuration). Their state between commands is in [`State`].

mod client;
mod client_7_2;
mod client_acknowledge;
mod client_caching;
mod client_filter;
mod client_tracking;
mod client_tracking_info;
mod client_valkey;
mod commandlog;
mod config;
mod graph;
mod info;
mod kill;
mod latency;
mod memory;
mod metrics;
mod module;
mod monitor;
mod replication_facts;
mod server;
mod slowlog;

pub use config::SECRET_DIRECTIVES;
pub use engine::session::describe::describe;
pub use metrics::metrics;
pub use replication_facts::why_no_writes;

pub use engine::host::{
    AofFacts, DiskFacts, DumpForm, Facts, Host, JournalFacts, LoadingFacts, PassDump, Passed,
    Persistence, RdbFacts, SaveLocked, ScrubFacts, SentDump, SyncTimes, TakesDump, Wire,
};
pub use engine::observe::state::{Latency, SlowLog, State};

use engine::call::Call;
use engine::failure::Done;
use engine::spec::CommandSpec;

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[
    &info::INFO,
    &config::CONFIG,
    &client::CLIENT,
    &commandlog::COMMANDLOG,
    &slowlog::SLOWLOG,
    &latency::LATENCY,
    &memory::MEMORY,
    &module::MODULE,
    &monitor::MONITOR,
    &server::SHUTDOWN,
    &server::LOLWUT,
    &server::SAVE,
    &server::BGSAVE,
    &server::BGREWRITEAOF,
    &server::LASTSAVE,
];

/// Calls the host, if there is one.
pub(crate) fn with_host(call: &Call<'_>, what: impl FnOnce(&dyn Host)) {
    if let Some(host) = call.engine.host() {
        what(host);
    }
}

/// The reply of a HELP subcommand: `lines` between the usual first and last ones.
pub(crate) fn help(call: &mut Call<'_>, lines: &[&str]) -> Done {
    let name = call.command.parent.unwrap_or(call.command.spec).name.to_uppercase();
    call.out.array(lines.len() + 3);
    call.out.simple(format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().for_each(|line| call.out.simple(line));
    call.out.simple("HELP");
    call.out.simple("    Prints this help.");
    Ok(())
}

/// Returns the state that an on/off word asks for.
fn on_off(call: &Call<'_>, at: usize) -> Option<bool> {
    match () {
        () if call.is(at, "on") => Some(true),
        () if call.is(at, "off") => Some(false),
        () => None,
    }
}
