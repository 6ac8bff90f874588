//! Executes what a replica receives from its primary.
//!
//! It is executed as a log is replayed: nothing expires, and no limit counts, since a command must
//! find what it found at the primary. What it changes is seen by the clients of the replica as any
//! change is. Commands are passed on to the replica's own stream as they came, under the locks of
//! their commit, so that the stream's end says what the data has. A transaction is passed on as a
//! whole. A command that fails here did not fail at the primary, so that the data would differ from
//! then on: the link ends.

use engine::Engine;
use engine::execute::OneByOne;
use engine::execute::request::Request;
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
    /// This server has another primary meanwhile, or none; or a write of its own came between.
    #[error("the history is not that of the primary any more")]
    Unfollowed,
    /// The data is not what it is at the primary, or the command is not known here.
    #[error("== CRITICAL == '{command}' of the primary fails: {text}")]
    Failed {
        /// The command.
        command: String,
        /// The error.
        text: String,
    },
}

/// A command of the stream.
#[derive(Clone, Copy)]
pub struct ReceivedCommand<'a> {
    /// Its words, never none.
    pub words: &'a [&'a [u8]],
    /// The bytes as they came.
    pub bytes: &'a [u8],
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

    /// Executes commands in order. After an error those before the one that failed are executed and
    /// passed on.
    pub fn apply(&mut self, commands: &[ReceivedCommand<'_>]) -> Result<(), ApplyError> {
        let mut batch = self.engine.batch_of(true);
        for ReceivedCommand { words, bytes } in commands {
            if let Some(received) = &mut self.session.received {
                received.push(bytes);
            }
            batch.push(words);
        }
        batch.prefetch(&self.session);
        let (mut at, mut alone) = (0, 0);
        while at < commands.len() {
            if alone == 0 && self.engine.joins_commands() {
                self.out.clear();
                match self.engine.execute_run(&mut self.session, &batch, at, &mut self.out) {
                    Ok(run) => {
                        at += run.requests;
                        continue;
                    }
                    Err(OneByOne(requests)) => alone = requests,
                }
            }
            self.cover();
            self.execute(batch.get(at))?;
            self.pass_on_unless_queued()?;
            at += 1;
            alone = alone.saturating_sub(1);
        }
        Ok(())
    }

    /// Passes on bytes that are not executed.
    pub fn pass_on(&mut self, bytes: &[u8]) -> Result<(), ApplyError> {
        if let Some(received) = &mut self.session.received {
            received.push(bytes);
        }
        self.cover();
        self.pass_on_unless_queued()
    }

    fn cover(&mut self) {
        if let Some(received) = &mut self.session.received {
            received.cover(1);
        }
    }

    /// Passes on what no commit has passed on, since it changed nothing. A transaction that is
    /// still being queued is passed on with its EXEC.
    fn pass_on_unless_queued(&mut self) -> Result<(), ApplyError> {
        let is_passed = self.session.in_multi() || self.engine.pass_on(&mut self.session);
        if is_passed { Ok(()) } else { Err(ApplyError::Unfollowed) }
    }

    fn execute(&mut self, request: Request<'_>) -> Result<(), ApplyError> {
        self.out.clear();
        let _ = self.engine.perform(&mut self.session, request, &mut self.out);
        match self.out.as_bytes().strip_prefix(b"-") {
            Some(text) => Err(failed(request.args(), text)),
            None => Ok(()),
        }
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
