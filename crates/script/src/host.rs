//! The interface through which a script reaches what is outside of Lua.

use crate::{Interpreter, Invocation};

/// The decision of [`Host::poll`] about the running script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continue {
    /// The script goes on.
    Yes,
    /// The script ends with an error that it cannot catch.
    Kill,
}

/// Levels of `redis.log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// `redis.LOG_DEBUG`
    Debug,
    /// `redis.LOG_VERBOSE`
    Verbose,
    /// `redis.LOG_NOTICE`
    Notice,
    /// `redis.LOG_WARNING`
    Warning,
}

/// The environment of a script: it executes commands and decides whether the script goes on.
pub trait Host {
    /// Executes a command and appends its reply to `reply`, which is empty, as RESP2 or RESP3.
    /// `resp3` says that the script chose the types of RESP3 by `redis.setresp(3)`. Returns true if
    /// the reply is an error that was counted in the statistics already. A host that has the reply
    /// as a value appends it by [`crate::Reply::append_to`].
    fn call(&mut self, arguments: &[&[u8]], resp3: bool, reply: &mut Vec<u8>) -> bool;

    /// Writes a line into the log.
    fn log(&mut self, level: LogLevel, message: &[u8]);

    /// Returns true if the user may execute a command, or `None` if there is no such command.
    fn acl_check(&mut self, arguments: &[&[u8]]) -> Option<bool>;

    /// Selects the targets of later writes: the append-only file (1), replicas (2).
    fn set_replication(&mut self, flags: u8);

    /// Returns the seed of `math.random` in this run, for a script that sets none. `None` means the
    /// numbers of a redis-server that has just been started.
    fn random_seed(&mut self) -> Option<u32> {
        None
    }

    /// Serves others and decides whether to end the script. Called every few thousand instructions.
    fn poll(&mut self) -> Continue;
}

scoped_tls_hkt::scoped_thread_local!(
    /// The host of the script that runs on this thread.
    static mut HOST: for<'a> &'a mut (dyn Host + 'a)
);

/// A run: its interpreter, and the invocation.
pub(crate) struct Started<'a> {
    pub(crate) interpreter: &'a Interpreter,
    pub(crate) invocation: Invocation<'a>,
}

scoped_tls_hkt::scoped_thread_local!(
    /// The run of a script on this thread.
    static STARTED: for<'a> &'a Started<'a>
);

/// Lends `host` to everything that `run` does on this thread.
pub(crate) fn lend<R>(host: &mut dyn Host, started: &Started<'_>, run: impl FnOnce() -> R) -> R {
    HOST.set(host, || STARTED.set(started, run))
}

/// Passes the host of this run to `f`; returns `None` outside of a run, or inside another such
/// call.
pub(crate) fn with<R>(f: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
    HOST.is_set().then(|| HOST.with(f))
}

/// Passes this run to `f`; returns `None` outside of a run.
pub(crate) fn with_started<R>(f: impl FnOnce(&Started<'_>) -> R) -> Option<R> {
    STARTED.is_set().then(|| STARTED.with(f))
}
