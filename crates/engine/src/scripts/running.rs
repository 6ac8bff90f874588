//! Scripts that run long: other threads must know of them, and clients may end them.
//!
//! A short script concerns nobody else. A long one is listed here with the shards that it has
//! locked: a command that needs one of these waits for a while, and is refused with BUSY after
//! `busy-reply-threshold`. SCRIPT KILL and FUNCTION KILL set a flag that the script sees soon.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::failure::Failure;
pub use crate::scripts::long::{LongSince, ScriptKind};

const UNKILLABLE: &str = "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.";
const NOTHING_RUNS: &str = "NOTBUSY No scripts in execution right now.";
const BUSY_SCRIPT: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
const BUSY_FUNCTION: &str =
    "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.";

/// A running script: its name, and the command that called it.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The SHA-1 of the script, or the name of the function.
    pub name: Box<str>,
    /// The arguments of the command, its name included.
    pub command: Vec<Box<[u8]>>,
}

/// A script that runs long.
#[derive(Debug)]
pub struct RunningScript {
    since: LongSince,
    /// The present one; an EXEC may run one after the other.
    program: Mutex<Program>,
    locked: Mutex<Vec<usize>>,
    has_written: AtomicBool,
    is_killed: AtomicBool,
}

impl RunningScript {
    /// Returns a script that was not ended yet.
    pub fn new(since: LongSince) -> RunningScript {
        RunningScript {
            since,
            program: Mutex::default(),
            locked: Mutex::default(),
            has_written: AtomicBool::new(false),
            is_killed: AtomicBool::new(false),
        }
    }

    /// Returns since when it runs.
    pub(crate) fn since(&self) -> LongSince {
        self.since
    }

    /// Sets its name and its command.
    pub fn set_program(&self, name: &str, command: &[&[u8]]) {
        let command = command.iter().map(|arg| Box::from(*arg)).collect();
        *lock(&self.program) = Program { name: name.into(), command };
    }

    /// Returns its name and its command.
    pub fn program(&self) -> Program {
        lock(&self.program).clone()
    }

    /// Returns for how many nanoseconds it has run.
    pub fn runs_for(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.since.started_ns)
    }

    /// Records which shards it has locked.
    pub fn set_locked(&self, shards: impl Iterator<Item = usize>) {
        *lock(&self.locked) = shards.collect();
    }

    /// Records that it has executed a command that writes.
    pub fn set_written(&self) {
        self.has_written.store(true, Relaxed);
    }

    /// Returns true if it is to end.
    pub fn is_killed(&self) -> bool {
        self.is_killed.load(Relaxed)
    }

    /// Returns true if it has run for more than this many nanoseconds.
    pub(crate) fn is_busy(&self, now_ns: u64, threshold_ns: u64) -> bool {
        self.runs_for(now_ns) > threshold_ns
    }

    /// Returns the error of commands that need a shard which it has locked.
    pub fn busy(&self) -> Failure {
        match self.since.kind {
            ScriptKind::Script => BUSY_SCRIPT.into(),
            ScriptKind::Function => BUSY_FUNCTION.into(),
        }
    }
}

/// All scripts that run long.
#[derive(Debug, Default)]
pub struct RunningScripts {
    list: Mutex<Vec<Arc<RunningScript>>>,
    len: AtomicUsize,
    /// The server is shutting down.
    is_ending: AtomicBool,
}

impl RunningScripts {
    /// Returns true if there is none. One load.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len.load(SeqCst) == 0
    }

    /// Adds a script to the list. While the server is shutting down, it ends at once.
    pub fn enter(&self, script: &Arc<RunningScript>) {
        let mut list = lock(&self.list);
        script.is_killed.fetch_or(self.is_ending(), Relaxed);
        list.push(Arc::clone(script));
        self.len.store(list.len(), SeqCst);
    }

    /// Removes a script from the list.
    pub fn leave(&self, script: &Arc<RunningScript>) {
        let mut list = lock(&self.list);
        list.retain(|listed| !Arc::ptr_eq(listed, script));
        self.len.store(list.len(), SeqCst);
    }

    /// Returns a script that has locked one of these shards.
    pub(crate) fn holder(&self, shards: &[usize]) -> Option<Arc<RunningScript>> {
        let holds = |script: &Arc<RunningScript>| {
            lock(&script.locked).iter().any(|locked| shards.contains(locked))
        };
        lock(&self.list).iter().find(|script| holds(script)).cloned()
    }

    /// Returns a script that has run for more than this many nanoseconds.
    pub(crate) fn busy(&self, now_ns: u64, threshold_ns: u64) -> Option<Arc<RunningScript>> {
        lock(&self.list).iter().find(|script| script.is_busy(now_ns, threshold_ns)).cloned()
    }

    /// Returns a script that has locked one of these shards, and has run for more than this many
    /// nanoseconds.
    pub(crate) fn busy_holder(
        &self,
        shards: &[usize],
        now_ns: u64,
        threshold_ns: u64,
    ) -> Option<Arc<RunningScript>> {
        self.holder(shards).filter(|script| script.is_busy(now_ns, threshold_ns))
    }

    /// Returns a script of a kind, the one that was listed first.
    pub fn first(&self, kind: ScriptKind) -> Option<Arc<RunningScript>> {
        lock(&self.list).iter().find(|script| script.since.kind == kind).cloned()
    }

    /// Ends the scripts of a kind. Those that have written are ended only if `rolls_back`, since
    /// their writes are then undone.
    pub fn kill(&self, kind: ScriptKind, rolls_back: bool) -> Result<(), Failure> {
        let list = lock(&self.list);
        let Some(first) = list.first() else { return Err(NOTHING_RUNS.into()) };
        let may_end = |script: &Arc<RunningScript>| rolls_back || !script.has_written.load(Relaxed);
        if list.iter().all(|script| script.since.kind != kind) {
            // That no command may end it is reported before which command would.
            return Err(if may_end(first) { first.busy() } else { UNKILLABLE.into() });
        }
        let mut has_killed = false;
        for script in list.iter().filter(|script| script.since.kind == kind) {
            if may_end(script) {
                script.is_killed.store(true, Relaxed);
                has_killed = true;
            }
        }
        if has_killed { Ok(()) } else { Err(UNKILLABLE.into()) }
    }

    /// Returns true if no script may run long because the server is shutting down.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Relaxed)
    }

    /// Ends all scripts that are listed; their writes are undone.
    pub(crate) fn kill_running(&self) {
        lock(&self.list).iter().for_each(|script| script.is_killed.store(true, Relaxed));
    }

    /// Ends all scripts, also those that begin later; their writes are undone.
    pub(crate) fn kill_all(&self) {
        let list = lock(&self.list);
        self.is_ending.store(true, Relaxed);
        list.iter().for_each(|script| script.is_killed.store(true, Relaxed));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
