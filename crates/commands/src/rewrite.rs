//! Writes the state of the data as a new base of the command log, while commands are executed.
//!
//! The cut is taken under the locks of all shards: what was logged before it is in the snapshot, what is logged
//! after it is in the next incremental file. Everything else happens beside the server's work, with locks held for a
//! bounded number of keys. This may take long: run it on a thread of its own.

use aof::{Aof, RewriteError, Rewritten};
use keyspace::Item;

use crate::engine::Engine;
use crate::log::CommandLog;

/// Why a log was not rewritten; it goes on as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RewriteLogError {
    /// The log's part of it failed.
    #[error(transparent)]
    Log(#[from] RewriteError),
    /// Something else reads a snapshot.
    #[error("another snapshot of the data is being read")]
    Busy,
}

impl Engine {
    /// Rewrites the log. `go_on` is asked now and then whether to.
    pub fn rewrite_log(
        &self,
        log: &Aof,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Option<Rewritten>, RewriteLogError> {
        let mut rewrite = log.begin_rewrite()?;
        let (mut snapshot, _) =
            self.keyspace().snapshot(|| rewrite.cut()).map_err(|_| RewriteLogError::Busy)?;
        let mut items = Vec::new();
        while snapshot.next(&mut items) {
            if !go_on() {
                return Ok(None);
            }
            for item in &items {
                write(&mut rewrite, item)?;
            }
        }
        drop(snapshot);
        Ok(Some(rewrite.finish()?))
    }
}

fn write(rewrite: &mut aof::Rewrite, item: &Item) -> Result<(), RewriteError> {
    let db = item.db.number() as u32;
    rewrite.write(db, &[b"SET", &item.key, &item.value])?;
    if let Some(at) = item.expiry {
        let at = itoa::Buffer::new().format(at).to_owned();
        rewrite.write(db, &[b"PEXPIREAT", &item.key, at.as_bytes()])?;
    }
    Ok(())
}

impl CommandLog for Aof {
    fn append(&self, first: keyspace::Db, last: keyspace::Db, bytes: &[u8]) -> u64 {
        Aof::append(self, first.number() as u32, last.number() as u32, bytes)
    }

    fn is_synchronous(&self) -> bool {
        self.fsync() == aof::Fsync::Always
    }

    fn failure(&self) -> Option<String> {
        self.status().err().map(|failure| failure.text.clone())
    }
}
