//! Administration: what the server answers about itself, and how it is steered.
//!
//! Commands here ask the engine for what it knows and the [`Host`] for what only a process knows
//! (sockets, files, configuration). What they keep between commands is in [`State`].

mod client;
mod client_7_2;
mod client_filter;
mod client_valkey;
mod clients;
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
mod pause;
mod replica;
mod server;
mod slowlog;
mod sync;

pub use clients::describe;
pub use metrics::metrics;
pub(crate) use monitor::{end_monitors, send_to_monitors, show_refused_exec};

pub use crate::admin_state::{Latency, SlowLog, State};
pub use crate::host::{
    AofFacts, DiskFacts, Facts, Host, JournalFacts, LoadingFacts, PassDump, Passed, Persistence,
    RdbFacts, SaveLocked, ScrubFacts, SyncTimes, Wire,
};

use std::sync::atomic::Ordering::Relaxed;

use crate::admin_state::SlowBlock;
use crate::call::Call;
use crate::engine::Engine;
use crate::failure::Done;
use crate::spec::{CommandSpec, FAST, SKIP_SLOWLOG};

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
    &server::ROLE,
    &server::SAVE,
    &server::BGSAVE,
    &server::BGREWRITEAOF,
    &server::LASTSAVE,
    &sync::SYNC,
    &sync::REPLCONF,
    &replica::REPLICAOF,
    &replica::SLAVEOF,
];

/// Counts one or several executions of a command: how long each took, in nanoseconds.
#[inline]
pub(crate) fn count(engine: &Engine, stripe: usize, command: usize, calls: u64, nanos: u64) {
    let state = engine.admin();
    if state.tracking.load(Relaxed) {
        state.histograms.add(stripe, command, calls, nanos);
    }
}

/// Returns true if an execution that took so long is to be observed.
#[inline]
pub(crate) fn is_slow(engine: &Engine, nanos: u64) -> bool {
    engine.admin().slow_log.is_slow(nanos) || engine.admin().latency.is_on()
}

/// Records a slow execution, with its time in nanoseconds: slow log and latency.
#[cold]
pub(crate) fn observe(call: &Call<'_>, nanos: u64) {
    let state = call.engine.admin();
    let spec = call.command.spec;
    if !spec.has(SKIP_SLOWLOG) && state.slow_log.is_slow(nanos) {
        let client = (!call.is_from_script()).then_some(&*call.session.client);
        let unix_s = call.now_ms() / 1000;
        state.slow_log.enter(client, &redacted(call), unix_s, nanos / 1000);
    }
    if state.latency.is_on() {
        let event = if spec.has(FAST) { "fast-command" } else { "command" };
        state.latency.observe(event, nanos / 1_000_000, call.now_ms() / 1000);
    }
}

/// Returns what the slow log will have of a command that blocks.
#[cold]
pub(crate) fn slow_block(call: &Call<'_>, nanos: u64) -> Option<Box<SlowBlock>> {
    let is_logged = call.engine.admin().slow_log.is_slow(nanos);
    is_logged.then(|| Box::new(SlowBlock::new(&redacted(call), nanos)))
}

/// The most bytes that the frame of a request has for each argument, and for all.
const FRAME: usize = 24;

/// Returns true if the request or the reply of an execution may be logged for its size.
#[inline]
pub(crate) fn is_large(call: &Call<'_>) -> bool {
    let state = call.engine.admin();
    let given: usize = call.args.iter().map(|arg| arg.len() + FRAME).sum();
    state.large_requests.is_large(given + FRAME) || state.large_replies.is_large(call.reply_len())
}

/// Returns true if commands are logged for sizes that those of a run have.
#[inline]
pub(crate) fn logs_small(engine: &Engine, request: usize, reply: usize) -> bool {
    let state = engine.admin();
    state.large_requests.is_large(request) || state.large_replies.is_large(reply)
}

/// Records the size of a request or reply that is large.
#[cold]
pub(crate) fn observe_sizes(call: &Call<'_>) {
    let state = call.engine.admin();
    if call.command.spec.has(SKIP_SLOWLOG) {
        return;
    }
    let words = call.args.iter().map(|arg| arg.len() + decimal_len(arg.len()) + 5);
    let request = decimal_len(call.args.len()) + 3 + words.sum::<usize>();
    let client = (!call.is_from_script()).then_some(&*call.session.client);
    let unix_s = call.now_ms() / 1000;
    for (log, bytes) in [(&state.large_requests, request), (&state.large_replies, call.reply_len())]
    {
        if log.is_large(bytes) {
            log.enter(client, &redacted(call), unix_s, bytes as u64);
        }
    }
}

fn decimal_len(number: usize) -> usize {
    number.checked_ilog10().map_or(1, |digits| digits as usize + 1)
}

/// Tells the server something, if there is one.
pub(crate) fn with_host(call: &Call<'_>, what: impl FnOnce(&dyn Host)) {
    if let Some(host) = call.engine.host() {
        what(host);
    }
}

/// Sends the execution to who monitors; called after every one while somebody does.
pub(crate) fn monitor(call: &mut Call<'_>) {
    if call.is_inner() {
        // None is made where none is kept any more.
        if !call.effects.has_dropped_lines() {
            let line = monitor::line(call);
            call.effects.deliver_line(line);
        }
    } else {
        monitor::send_to_monitors(call.engine, &monitor::line(call), call.durable_at);
    }
}

/// Called before a script runs: those who monitor see the command that called it before the
/// commands that it calls.
pub(crate) fn monitor_script(call: &mut Call<'_>) {
    // It may run again: when a shard is unlocked, or on another thread.
    let was_shown = call.session.script_shown && !call.is_inner();
    if call.engine.monitors() > 0 && !call.session.replay && !was_shown {
        monitor(call);
        call.session.script_shown |= !call.is_inner();
    }
}

/// Directives whose values are not shown, neither here nor to those who monitor.
const SECRET_DIRECTIVES: [&str; 5] =
    ["requirepass", "masterauth", "masteruser", "tls-key-file-pass", "tls-client-key-file-pass"];

/// Returns the request's words without what must not be shown.
fn redacted<'a>(call: &Call<'a>) -> Vec<&'a [u8]> {
    const REDACTED: &[u8] = b"(redacted)";
    let mut words = call.args.to_vec();
    let is = |word: &[u8], text: &str| word.eq_ignore_ascii_case(text.as_bytes());
    let name = call.command.first_word();
    if name == "auth" {
        words[1..].fill(REDACTED);
    } else if name == "hello" {
        if let Some(at) = words.iter().position(|word| is(word, "auth")) {
            words.iter_mut().skip(at + 1).take(2).for_each(|word| *word = REDACTED);
        }
    } else if name == "migrate" {
        // A key may have any name: what follows KEYS is no option.
        let end = words.iter().position(|word| is(word, "keys")).unwrap_or(words.len());
        for (word, count) in [("auth", 1), ("auth2", 2)] {
            if let Some(at) = words[..end].iter().skip(6).position(|option| is(option, word)) {
                words.iter_mut().skip(at + 7).take(count).for_each(|word| *word = REDACTED);
            }
        }
    } else if name == "acl" && words.get(1).is_some_and(|word| is(word, "setuser")) {
        words[2..].fill(REDACTED);
    } else if name == "config" && words.get(1).is_some_and(|word| is(word, "set")) {
        for pair in words[2..].chunks_exact_mut(2) {
            if SECRET_DIRECTIVES.iter().any(|name| is(pair[0], name)) {
                pair[1] = REDACTED;
            }
        }
    }
    words
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

/// Returns the state that a yes/no word asks for.
fn on_off(call: &Call<'_>, at: usize) -> Option<bool> {
    match () {
        () if call.is(at, "on") => Some(true),
        () if call.is(at, "off") => Some(false),
        () => None,
    }
}
