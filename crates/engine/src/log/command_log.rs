//! The logs as the engine sees them, and the append-only file as one.

use aof::Aof;
use keyspace::Db;

/// The log that replies wait for: a [`CommandLog`], or the journal of a pool, which has the changes
/// already when a transaction is committed.
pub trait ReplyLog: Send + Sync {
    /// Returns its name in errors.
    fn name(&self) -> &'static str {
        "AOF file"
    }
    /// Returns the offset after all that it has.
    fn end(&self) -> u64;
    /// Returns true if replies, those of reads too, wait until the log is synced (`appendfsync
    /// always`), and not only until the log survives the end of the process.
    fn is_synchronous(&self) -> bool;
    /// Returns why no more writes may be taken, if a write or a sync has failed, in the operating
    /// system's words.
    fn failure(&self) -> Option<String>;
    /// Returns true if a restart finds what it has: not while it is switched off.
    fn is_on(&self) -> bool;
    /// Returns true if it is synced up to `offset`.
    fn is_synced(&self, offset: u64) -> bool;
    /// Returns true while no write should begin: it might hold its thread until the log has space.
    fn is_nearly_full(&self) -> bool {
        false
    }
    /// As [`ReplyLog::is_nearly_full`], for a run of commands on each thread.
    fn lacks_space_for_runs(&self) -> bool {
        false
    }
    /// Writes it up to `offset`, whatever its policy: the end of the process takes nothing of that.
    /// Returns true if that succeeded.
    fn write_to(&self, offset: u64) -> bool {
        self.sync_to(offset)
    }
    /// Syncs it up to `offset`, whatever its policy. Returns true if that succeeded.
    fn sync_to(&self, offset: u64) -> bool;
}

/// A log of the effects of commands, such as the append-only file. Tests use a buffer.
pub trait CommandLog: ReplyLog {
    /// Appends effects whose first needs `first` selected and whose last leaves `last` selected.
    /// Returns the offset at which they end.
    fn append(&self, first: Db, last: Db, bytes: &[u8]) -> u64;
    /// Notes that a commit was not logged: that of a command that had begun before there was a log.
    fn note_skipped(&self) {}
    /// Returns the commands that are to be written again after a failed write, if all that was
    /// written is synced.
    fn unwritten(&self) -> Option<Vec<u8>> {
        None
    }
}

impl ReplyLog for Aof {
    fn end(&self) -> u64 {
        Aof::end(self)
    }

    fn is_synchronous(&self) -> bool {
        self.fsync() == aof::Fsync::Always
    }

    fn failure(&self) -> Option<String> {
        self.status().err().map(|failure| failure.text.clone())
    }

    fn is_on(&self) -> bool {
        self.is_whole()
    }

    fn is_synced(&self, offset: u64) -> bool {
        self.durable() >= offset
    }

    fn write_to(&self, offset: u64) -> bool {
        Aof::write_to(self, offset).is_ok()
    }

    fn sync_to(&self, offset: u64) -> bool {
        Aof::sync_to(self, offset).is_ok()
    }
}

impl CommandLog for Aof {
    fn append(&self, first: Db, last: Db, bytes: &[u8]) -> u64 {
        Aof::append(self, first.number() as u32, last.number() as u32, bytes)
    }

    fn note_skipped(&self) {
        Aof::note_skipped(self);
    }

    fn unwritten(&self) -> Option<Vec<u8>> {
        Aof::unwritten(self)
    }
}
