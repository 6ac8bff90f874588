//! Writes the state of the data as a new base of the command log, while commands are executed.
//!
//! The cut is taken under the locks of all shards: what was logged before it is in the snapshot, what is logged
//! after it is in the next incremental file. Everything else happens beside the server's work, with locks held for a
//! bounded number of keys. This may take long: run it on a thread of its own.

use aof::{Aof, RewriteError, Rewritten};
use keyspace::{Content, Item, Type};

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

/// Elements of one command.
const ELEMENTS: usize = 64;

/// The command that adds elements to a value of this type.
fn adds(what: Type) -> &'static [u8] {
    match what {
        Type::Hash => b"HSET",
        Type::Set => b"SADD",
        Type::SortedSet => b"ZADD",
        _ => b"RPUSH",
    }
}

fn write(rewrite: &mut aof::Rewrite, item: &Item) -> Result<(), RewriteError> {
    let db = item.db.number() as u32;
    match &item.value {
        Content::String(value) => rewrite.write(db, &[b"SET", &item.key, value])?,
        Content::Elements(what, elements) => {
            let pairs = matches!(what, Type::Hash | Type::SortedSet);
            let items = if pairs { 2 * ELEMENTS } else { ELEMENTS };
            for some in elements.chunks(items) {
                let words = [adds(*what), item.key.as_slice()].into_iter();
                let words: Vec<&[u8]> = words.chain(some.iter().map(Vec::as_slice)).collect();
                rewrite.write(db, &words)?;
            }
        }
    }
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
