//! Executes what a replica receives from its primary.
//!
//! It is executed as a log is replayed: nothing expires, and no limit counts, since a command must
//! find what it found at the primary. What it changes is seen by the clients of the replica as any
//! change is. Commands are passed on to the replica's own stream as they came, under the locks of
//! their commit, so that the stream's end says what the data has. A transaction is passed on as a
//! whole. A command that fails here did not fail at the primary, so that the data would differ from
//! then on: the link ends.

use engine::Engine;
use engine::session::Session;
use keyspace::Db;
use resp::{Protocol, Writer};

/// A command of the primary that cannot be executed here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// There is no memory for the data, or no more can be written. It can be tried again.
    #[error("'{command}' of the primary finds no space: {text}")]
    Full {
        /// The command.
        command: String,
        /// The error.
        text: String,
    },
    /// The data is not what it is at the primary, or the command is not known here.
    #[error("'{command}' of the primary fails: {text}")]
    Failed {
        /// The command.
        command: String,
        /// The error.
        text: String,
    },
}

/// Executes the commands of a primary, in their order.
pub struct Applier<'e> {
    engine: &'e Engine,
    session: Session,
    out: Writer,
}

impl<'e> Applier<'e> {
    /// Begins where the stream of this server ends, in the history of `epoch`, with database `db`
    /// selected.
    pub fn new(engine: &'e Engine, epoch: u64, db: Option<u32>) -> Applier<'e> {
        let mut session = engine.connect_to_primary(epoch);
        let db = db.and_then(|db| Db::new(usize::try_from(db).ok()?));
        session.select(db.unwrap_or_default());
        Applier { engine, session, out: Writer::new(Protocol::Resp2) }
    }

    /// Executes a command, which came as `bytes`. Without words there is nothing to execute.
    pub fn apply(&mut self, words: &[&[u8]], bytes: &[u8]) -> Result<(), ApplyError> {
        if let Some(received) = &mut self.session.received {
            received.bytes.extend_from_slice(bytes);
        }
        if !words.is_empty() {
            self.out.clear();
            let _ = self.engine.execute(&mut self.session, words, &mut self.out);
            if let Some(text) = self.out.as_bytes().strip_prefix(b"-") {
                return Err(failed(words, text));
            }
        }
        if !self.session.in_multi() {
            self.engine.pass_on(&mut self.session);
        }
        Ok(())
    }
}

impl Drop for Applier<'_> {
    fn drop(&mut self) {
        self.engine.disconnect(&mut self.session);
    }
}

fn failed(words: &[&[u8]], text: &[u8]) -> ApplyError {
    let command = words[0].escape_ascii().to_string();
    let text = String::from_utf8_lossy(text).trim_end().to_owned();
    match text.starts_with("OOM") || text.starts_with("MISCONF") {
        true => ApplyError::Full { command, text },
        false => ApplyError::Failed { command, text },
    }
}
