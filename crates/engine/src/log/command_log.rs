//! The command log as the engine sees it, and the append-only file as one.

use aof::Aof;
use keyspace::Db;

/// The log that replies wait for: one of commands, such as the append-only file, or the journal of
/// a pool, which has the changes already when a transaction is committed and takes no commands.
/// Tests use a buffer.
pub trait CommandLog: Send + Sync {
    /// Returns true if it takes the effects of commands. Otherwise the changes of a commit end at
    /// [`CommandLog::end`] after it.
    fn takes_commands(&self) -> bool {
        true
    }
    /// Returns its name in errors.
    fn name(&self) -> &'static str {
        "AOF file"
    }
    /// Appends effects whose first needs `first` selected and whose last leaves `last` selected.
    /// Returns the offset at which they end.
    fn append(&self, first: Db, last: Db, bytes: &[u8]) -> u64;
    /// Notes that a commit was not logged: that of a command that had begun before there was a log.
    fn note_skipped(&self) {}
    /// Returns the offset after all that was appended.
    fn end(&self) -> u64;
    /// Returns true if replies, those of reads too, wait until the log is durable (`appendfsync
    /// always`), and not only until the log survives the end of the process.
    fn is_synchronous(&self) -> bool;
    /// Returns why no more writes may be taken, if a write or a sync has failed, in the operating
    /// system's words.
    fn failure(&self) -> Option<String>;
    /// Returns true if a restart finds what was appended: not while it is switched off.
    fn is_on(&self) -> bool;
    /// Returns true if it is durable up to `offset`.
    fn is_durable(&self, offset: u64) -> bool;
    /// Returns the commands that are to be written again after a failed write, if all that was
    /// written is durable.
    fn unwritten(&self) -> Option<Vec<u8>> {
        None
    }
    /// Returns true while no write should begin: it might hold its thread until the log has space.
    fn is_nearly_full(&self) -> bool {
        false
    }
    /// As [`CommandLog::is_nearly_full`], for a run of commands on each thread.
    fn lacks_space_for_runs(&self) -> bool {
        false
    }
    /// Makes it durable up to `offset`, whatever its policy. Returns true if that succeeded.
    fn sync_to(&self, offset: u64) -> bool;
}

impl CommandLog for Aof {
    fn append(&self, first: Db, last: Db, bytes: &[u8]) -> u64 {
        Aof::append(self, first.number() as u32, last.number() as u32, bytes)
    }

    fn note_skipped(&self) {
        Aof::note_skipped(self);
    }

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

    fn is_durable(&self, offset: u64) -> bool {
        self.durable() >= offset
    }

    fn unwritten(&self) -> Option<Vec<u8>> {
        Aof::unwritten(self)
    }

    fn sync_to(&self, offset: u64) -> bool {
        Aof::sync_to(self, offset).is_ok()
    }
}
