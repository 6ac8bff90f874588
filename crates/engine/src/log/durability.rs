//! How far the log must be settled before a reply may leave, and which commands are refused while
//! the log cannot be written.
//!
//! A reply waits until the data that it shows is as safe as acknowledged data. If a write of the
//! log has failed, some commands were executed, refused, and wait in the log's buffer to be written
//! again. Writes are refused meanwhile. With `appendfsync always`, a read that saw none of the keys
//! of those commands saw only synced data, and is answered; any other is refused, as the commands
//! were. With the other policies all reads are answered meanwhile. None of this costs a command
//! anything while the log can be written: the keys are read from the buffer when they are needed.

use std::sync::atomic::Ordering::Relaxed;

use keyspace::Key;
use resp::{Limits, Next, Parser};

use crate::engine::Engine;
use crate::failure::{self, Done, Failure};
use crate::table::Lookup;
use crate::table::spec::LOG_FRAME;

/// How far the data that an engine shows is settled in its log.
#[derive(Clone, Copy)]
pub struct LogDurability<'e> {
    pub(super) engine: &'e Engine,
}

impl Engine {
    /// Returns the durability of the data that it shows.
    #[inline]
    pub fn durability(&self) -> LogDurability<'_> {
        LogDurability { engine: self }
    }
}

impl LogDurability<'_> {
    /// Returns true unless the log has failed.
    pub fn takes_writes(&self) -> bool {
        self.failure().is_none()
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        self.engine
            .log()
            .and_then(|log| log.failure().map(|why| failure::log_failed(log.name(), &why)))
    }

    /// Returns true while the log has little space: a write that begins now might hold its thread,
    /// and those that it serves. A session of the server waits before it.
    #[inline]
    pub fn is_nearly_full(&self) -> bool {
        self.engine.log().is_some_and(|log| log.is_nearly_full())
    }

    /// Returns true while the log has too little space for a run of commands on each thread: they
    /// are executed one by one, each if there is space for it.
    #[inline]
    pub(crate) fn lacks_space_for_runs(&self) -> bool {
        self.engine.log().is_some_and(|log| log.lacks_space_for_runs())
    }

    /// Refuses writes while the command log cannot be written, or while the server takes none.
    pub fn check_writes(&self) -> Done {
        match self.failure() {
            Some(failure) => Err(failure),
            None if self.engine.config().refuses_writes() => {
                Err(self.engine.config().why_writes_are_refused())
            }
            None => Ok(()),
        }
    }

    /// Returns the offset up to which the log must be settled before a reply may leave that shows
    /// these keys as they are, or any key if `keys` is empty. Their shards are locked.
    pub fn logged_until(&self, keys: &[Key<'_>]) -> u64 {
        if self.engine.log().is_none() {
            return 0;
        }
        let last = |shard: usize| self.engine.log_ends[shard].load(Relaxed);
        let newest = match keys {
            [] => (0..self.engine.log_ends.len()).map(last).max(),
            keys => keys.iter().map(Key::shard).map(last).max(),
        };
        newest.unwrap_or(0)
    }

    /// Returns the offset up to which the log must be settled before a message that is sent now may
    /// leave. The message may reveal any write that was executed before it, so that is the end of
    /// the log. A log that has failed takes no more writes, and then only the sender's own write
    /// matters, which ends at `own`: it may have been executed while the log failed.
    pub fn sent_after(&self, own: u64) -> u64 {
        self.engine.log().filter(|log| log.failure().is_none()).map_or(own, |log| log.end())
    }

    /// Returns the offset up to which the log must be settled before a read of `keys` may be
    /// answered that saw the log up to `seen`; an error if nobody knows when it will be. With no
    /// keys the read may have seen any key.
    pub fn check_read(&self, keys: &[Key<'_>], seen: u64) -> Result<u64, Failure> {
        let Some(log) = self.engine.log() else { return Ok(0) };
        if log.is_synced(seen) {
            return Ok(seen);
        }
        let Some(why) = log.failure() else { return Ok(seen) };
        if !log.is_synchronous() {
            return Ok(0);
        }
        let is_known = |bytes: Vec<u8>| !keys.is_empty() && !self.names_any(&bytes, keys);
        let unwritten = self.engine.command_log().and_then(|log| log.unwritten());
        if unwritten.is_some_and(is_known) {
            return Ok(0);
        }
        Err(failure::log_failed(log.name(), &why))
    }

    /// Returns true if one of these commands names one of the keys, in whatever database, or may
    /// concern any.
    fn names_any(&self, commands: &[u8], keys: &[Key<'_>]) -> bool {
        let (mut parser, limits) = (Parser::new(), Limits::default());
        while let Ok(Next::Command) = parser.next(commands, &limits) {}
        parser.commands(commands).any(|command| {
            let args: Vec<&[u8]> = command.arguments().collect();
            let lookup = self.engine.table().find_original(&args);
            if let Lookup::Found(command) = lookup
                && command.spec.is(LOG_FRAME)
            {
                return false;
            }
            let (mut named, mut hit) = (false, false);
            self.engine.keys_of(lookup, &args, |key| {
                named = true;
                hit |= keys.iter().any(|read| read.bytes() == key.bytes());
            });
            hit || !named
        })
    }
}
