//! A dump that is passed on instead of written to a file (SYNC).
//!
//! It counts as a running save, as in Redis, so that there is one snapshot at a time, and waits for
//! one that was begun before. Only its time is recorded, like that of a backup: a start could not
//! load it.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use commands::admin::{PassDump, Passed};
use commands::{SaveError, SaveOptions};

use super::{BUSY_WAIT, Busy, Saver};
use crate::housekeeping::contained;
use crate::key_delay::KeyDelay;
use crate::{machine, spool};

/// Maximum of dumps that are being sent, or wait to be.
const MOST: usize = 4;
/// Bytes that are passed on at once.
pub const PIECE: usize = 64 << 10;
/// The pause while a receiver has enough for the moment.
const FULL_WAIT: Duration = Duration::from_millis(1);

impl Saver {
    /// Begins to pass a dump on, on a thread of its own.
    pub(crate) fn send(self: &Arc<Saver>, pass: PassDump) -> Result<(), Busy> {
        let mut state = self.state();
        state.senders.retain(|sender| !sender.is_finished());
        if state.senders.len() >= MOST {
            return Err(Busy);
        }
        let this = Arc::clone(self);
        let run = move || match this.send_now(pass) {
            Ok(keys) => tracing::info!("A dump of {keys} keys was sent to a client"),
            Err(error) => tracing::warn!("Sending a dump to a client failed: {error}"),
        };
        match std::thread::Builder::new().name("rdb-send".to_owned()).spawn(run) {
            Ok(thread) => state.senders.push(thread),
            Err(error) => {
                tracing::warn!("Can't send a dump: {error}");
                return Err(Busy);
            }
        }
        Ok(())
    }

    /// Waits until no other save is under way, and passes a dump on. Returns the number of its
    /// keys.
    fn send_now(&self, pass: PassDump) -> Result<u64, SaveError> {
        while self.begin_sending().is_err() {
            self.may_go_on()?;
            std::thread::sleep(BUSY_WAIT);
        }
        let sent = contained("sending a dump", || self.send_begun(pass));
        self.state().began = None;
        sent.unwrap_or_else(|| Err(io::Error::other("a panic").into()))
    }

    fn send_begun(&self, pass: PassDump) -> Result<u64, SaveError> {
        let values = self.shared.config.values();
        let folder = values.dir.to_text();
        let delay = KeyDelay::new(&values);
        let go_on = |keys| self.go_on(keys, &delay);
        let options = SaveOptions {
            compresses: values.rdbcompression,
            // The receiver is to know that it has all of it as it was.
            has_checksum: true,
            is_base: false,
            is_background: true,
            backend: self.shared.store.backend_name(),
            spool: &|| spool::make(folder.as_ref()),
            go_on: &go_on,
        };
        let mark = machine::run_id()?;
        let mut receiver = Receiver { saver: self, pass };
        write!(receiver, "$EOF:{mark}\r\n")?;
        loop {
            match commands::save(&self.shared.engine, &mut receiver, &options, || {}) {
                Err(SaveError::Busy) => {
                    self.may_go_on()?;
                    std::thread::sleep(BUSY_WAIT);
                }
                done => break done.map(drop)?,
            }
        }
        receiver.write_all(mark.as_bytes())?;
        self.note_copy();
        Ok(self.keys.load(Relaxed))
    }

    fn may_go_on(&self) -> Result<(), SaveError> {
        if self.stopping.load(Relaxed) { Err(SaveError::GivenUp) } else { Ok(()) }
    }
}

/// The receiver of the dump, as a file.
struct Receiver<'s> {
    saver: &'s Saver,
    pass: PassDump,
}

impl Write for Receiver<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(PIECE);
        let mut piece = bytes[..len].to_vec();
        loop {
            match (self.pass)(piece) {
                Passed::Yes => return Ok(len),
                Passed::Later(same) => piece = same,
                Passed::Gone => return Err(io::ErrorKind::BrokenPipe.into()),
            }
            self.saver.may_go_on().map_err(io::Error::other)?;
            std::thread::sleep(FULL_WAIT);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
