//! Records of each execution: latencies, the slow log, large requests and replies, and lines for
//! clients in MONITOR mode.

use std::sync::atomic::Ordering::Relaxed;

use super::monitors;
use crate::engine::Engine;
use crate::execute::call::Call;
use crate::observe::state::SlowBlock;
use crate::table::spec::{FAST, SKIP_SLOWLOG};

/// Counts one or several executions of a command: how long each took, in nanoseconds.
#[inline]
pub fn count(engine: &Engine, thread: usize, command: usize, calls: u64, nanos: u64) {
    let state = engine.admin();
    if state.tracking.load(Relaxed) {
        state.histograms.add(thread, command, calls, nanos);
    }
}

/// Returns true if an execution that took this long is to be observed.
#[inline]
pub fn is_slow(engine: &Engine, nanos: u64) -> bool {
    engine.admin().slow_log.is_slow(nanos) || engine.admin().latency.is_on()
}

/// Records a slow execution, with its time in nanoseconds: slow log and latency.
#[cold]
pub fn observe(call: &Call<'_>, nanos: u64) {
    let state = call.engine.admin();
    let spec = call.command.spec;
    if !spec.has(SKIP_SLOWLOG) && state.slow_log.is_slow(nanos) {
        let client = (!call.is_from_script()).then_some(&*call.session.client);
        let unix_s = call.now_ms() / 1000;
        state.slow_log.enter(client, &call.redacted_args(), unix_s, nanos / 1000);
    }
    if state.latency.is_on() {
        let event = if spec.has(FAST) { "fast-command" } else { "command" };
        state.latency.observe(event, nanos / 1_000_000, call.now_ms() / 1000);
    }
}

/// Returns the slow log's entry for a command that blocks.
#[cold]
pub(crate) fn slow_block(call: &Call<'_>, nanos: u64) -> Option<Box<SlowBlock>> {
    let is_logged = call.engine.admin().slow_log.is_slow(nanos);
    is_logged.then(|| Box::new(SlowBlock::new(&call.redacted_args(), nanos)))
}

/// Maximum number of bytes that the frame of a request has for each argument, and for all.
const FRAME: usize = 24;

/// Returns true if the request or the reply of an execution may be logged for its size.
#[inline]
pub(crate) fn is_large(call: &Call<'_>) -> bool {
    let state = call.engine.admin();
    let given: usize = call.args.iter().map(|arg| arg.len() + FRAME).sum();
    state.large_requests.is_large(given + FRAME) || state.large_replies.is_large(call.reply_len())
}

/// Returns true if requests or replies as small as those of a run are logged for their size.
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
            log.enter(client, &call.redacted_args(), unix_s, bytes as u64);
        }
    }
}

fn decimal_len(number: usize) -> usize {
    number.checked_ilog10().map_or(1, |digits| digits as usize + 1)
}

/// Sends the execution to clients in MONITOR mode; called after each execution while there are any.
pub(crate) fn monitor(call: &mut Call<'_>) {
    if call.is_inner() {
        // Lines are not made when they are no longer kept.
        if !call.effects.has_dropped_lines() {
            let line = monitors::line(call);
            call.effects.deliver_line(line);
        }
    } else {
        monitors::send_to_monitors(call.engine, &monitors::line(call), call.reply_after);
    }
}

/// Called before a script runs: MONITOR shows the command that called it before the commands that
/// it calls.
pub(crate) fn monitor_script(call: &mut Call<'_>) {
    // It may run again: when a shard is unlocked, or on another thread.
    let was_shown = call.session.script_shown && !call.is_inner();
    if call.engine.monitors() > 0 && !call.session.replay && !was_shown {
        monitor(call);
        call.session.script_shown |= !call.is_inner();
    }
}
