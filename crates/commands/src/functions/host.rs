//! The host of a library that is being loaded: it may write log lines, and run for half a second.

use engine::Engine;
use script::{Continue, LogLevel, Reply};

/// The time that a library may take to load, in nanoseconds; as in Redis.
const LOAD_TIMEOUT_NS: u64 = 500_000_000;

/// The host of a library that is being loaded.
pub(super) struct LoadHost<'e> {
    engine: &'e Engine,
    deadline_ns: Option<u64>,
}

impl<'e> LoadHost<'e> {
    /// Makes a host for a library that a client loads.
    pub(super) fn new(engine: &'e Engine) -> LoadHost<'e> {
        LoadHost { engine, deadline_ns: Some(engine.clock().unix_ns() + LOAD_TIMEOUT_NS) }
    }

    /// Makes a host for a library that was loaded before: its time is not limited.
    pub(super) fn again(engine: &'e Engine) -> LoadHost<'e> {
        LoadHost { engine, deadline_ns: None }
    }
}

impl script::Host for LoadHost<'_> {
    fn call(&mut self, _: &[&[u8]], _: bool, reply: &mut Vec<u8>) -> bool {
        Reply::error("ERR no command can be called while a library is loaded").append_to(reply);
        false
    }

    fn log(&mut self, level: LogLevel, message: &[u8]) {
        if level >= LogLevel::Notice
            && let Some(host) = self.engine.host()
        {
            host.log(&String::from_utf8_lossy(message));
        }
    }

    fn acl_check(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }

    fn set_replication(&mut self, _: u8) {}

    fn poll(&mut self) -> Continue {
        match self.deadline_ns {
            Some(deadline) if self.engine.clock().unix_ns() > deadline => Continue::Kill,
            _ => Continue::Yes,
        }
    }
}
