//! Measures how long the commands of a script take.
//!
//! Reading the clock takes as long as a quick command. Consecutive quick commands of one name
//! therefore share their time equally, as those of a pipeline do. Each is measured by itself if
//! somebody wants to see every command.

use engine::Engine;
use engine::call::Call;
use engine::execute::Step;
use engine::observe::hooks;
use engine::session::Session;
use engine::table::Command;

/// The maximum number of commands that share their time.
const MOST: u64 = 16;

/// The maximum number of bytes in the arguments of a quick command.
const MOST_BYTES: usize = 4096;

/// Commands of one name that were executed and not yet counted.
#[derive(Default)]
pub(super) struct Times {
    id: usize,
    calls: u64,
    /// When the first began, unix ns, and how long the thread had waited for locks by then.
    since_ns: u64,
    waited_ns: u64,
}

/// Returns true if a command may share its time with others.
#[inline]
pub(super) fn may_share(engine: &Engine, session: &Session, step: &Step<'_>) -> bool {
    let is_short = step.args.iter().map(|word| word.len()).sum::<usize>() <= MOST_BYTES;
    let is_observed = session.replay || engine.monitors() > 0 || hooks::is_slow(engine, 0);
    step.is_quick() && is_short && !is_observed
}

impl Times {
    /// Returns true if the uncounted commands have this name.
    #[inline]
    pub(super) fn is_of(&self, command: &Command) -> bool {
        self.calls > 0 && self.id == command.id
    }

    /// Adds an executed command: the first of its name, which began at `started_ns`, or another
    /// one.
    #[inline]
    pub(super) fn add(&mut self, call: &mut Call<'_>, started_ns: Option<u64>, has_failed: bool) {
        let (engine, id) = (call.engine, call.command.id);
        if let Some(since_ns) = started_ns {
            *self = Times { id, calls: 0, since_ns, waited_ns: call.waited_ns };
        }
        self.calls += 1;
        if has_failed {
            engine.stats().failed(call.session.thread, id);
        }
        if self.calls == MOST
            && let Some(nanos) = self.count(engine, call.session)
            && hooks::is_slow(engine, nanos)
        {
            hooks::observe(call, nanos);
        }
    }

    /// Counts the commands, and returns the time of each, if there are any.
    pub(super) fn count(&mut self, engine: &Engine, session: &mut Session) -> Option<u64> {
        let calls = std::mem::take(&mut self.calls);
        if calls == 0 {
            return None;
        }
        let ended_ns = engine.clock().unix_ns();
        let waited_ns = heap::waited_ns().wrapping_sub(self.waited_ns);
        let nanos = ended_ns.saturating_sub(self.since_ns).saturating_sub(waited_ns) / calls;
        if session.in_batch {
            session.ended_ns = Some(ended_ns);
        }
        engine.stats().called(session.thread, self.id, calls, nanos);
        hooks::count(engine, session.thread, self.id, calls, nanos);
        Some(nanos)
    }
}
