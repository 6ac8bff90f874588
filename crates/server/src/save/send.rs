//! A dump that is passed on instead of written to a file (SYNC, PSYNC).
//!
//! It counts as a running save, as in Redis, so that there is one snapshot at a time, and waits for
//! one that was begun before. Only its time is recorded, like that of a backup: a start could not
//! load it.

use std::io::{self, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use commands::admin::{PassDump, Passed, SentDump};
use commands::{SaveError, SaveOptions, StreamPoint};

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
/// How often the receiver of a dump that is being made in a file is told that it is.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

impl Saver {
    /// Begins to pass a dump on, on a thread of its own.
    pub(crate) fn send(self: &Arc<Saver>, dump: SentDump, pass: PassDump) -> Result<(), Busy> {
        let mut state = self.state();
        state.senders.retain(|sender| !sender.is_finished());
        if state.senders.len() >= MOST {
            return Err(Busy);
        }
        let this = Arc::clone(self);
        let run = move || match this.send_now(dump, pass) {
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
    fn send_now(&self, dump: SentDump, pass: PassDump) -> Result<u64, SaveError> {
        while self.begin_sending().is_err() {
            self.may_go_on()?;
            std::thread::sleep(BUSY_WAIT);
        }
        let sent = contained("sending a dump", || self.send_begun(dump, pass));
        self.state().began = None;
        sent.unwrap_or_else(|| Err(io::Error::other("a panic").into()))
    }

    fn send_begun(&self, mut dump: SentDump, pass: PassDump) -> Result<u64, SaveError> {
        let receiver =
            Receiver { saver: self, pass: Arc::new(Mutex::new(pass)), head: Arc::default() };
        if dump.is_marked {
            self.send_marked(&mut dump, receiver)
        } else {
            self.send_sized(&mut dump, receiver)
        }?;
        self.note_copy();
        Ok(self.keys.load(Relaxed))
    }

    /// Sends a dump while it is made: its length is not known, so that a mark ends it.
    fn send_marked(&self, dump: &mut SentDump, mut to: Receiver<'_>) -> Result<(), SaveError> {
        let (mark, head, pass) = (machine::run_id()?, Arc::clone(&to.head), Arc::clone(&to.pass));
        self.save_to(&mut to, &|_| true, &dump.stream, || {
            let mut first = (dump.at_cut)();
            first.extend_from_slice(format!("$EOF:{mark}\r\n").as_bytes());
            // At once: the first key may take long. The shards are locked, so that nothing waits.
            let passed = (pass.lock().unwrap_or_else(PoisonError::into_inner))(first);
            if let Passed::Later(first) = passed {
                *head.lock().unwrap_or_else(PoisonError::into_inner) = first;
            }
        })?;
        to.write_all(mark.as_bytes())?;
        to.end()
    }

    /// Makes a dump in a file, and sends that, with its length before it.
    fn send_sized(&self, dump: &mut SentDump, mut to: Receiver<'_>) -> Result<(), SaveError> {
        let mut file = spool::make(self.shared.config.values().dir.to_text().as_ref())?;
        let mut first = Vec::new();
        let lives = Mutex::new((&mut to, Instant::now()));
        let keep_alive = |_| {
            let mut lives = lives.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = lives.1.elapsed() >= KEEP_ALIVE;
            if is_due {
                lives.1 = Instant::now();
            }
            !is_due || lives.0.write_all(b"\n").is_ok()
        };
        self.save_to(&mut file, &keep_alive, &dump.stream, || first = (dump.at_cut)())?;
        let len = file.stream_position()?;
        file.rewind()?;
        to.write_all(&first)?;
        write!(to, "${len}\r\n")?;
        io::copy(&mut file, &mut to)?;
        to.end()
    }

    /// Writes a dump; `lives` is called after each key, and says whether somebody still wants it.
    fn save_to(
        &self,
        mut to: impl Write + Send,
        lives: &(dyn Fn(u64) -> bool + Sync),
        stream: &(dyn Fn() -> Option<StreamPoint> + Sync),
        mut at_cut: impl FnMut(),
    ) -> Result<(), SaveError> {
        let values = self.shared.config.values();
        let folder = values.dir.to_text();
        let delay = KeyDelay::new(&values);
        let go_on = |keys| self.go_on(keys, &delay) && lives(keys);
        let options = SaveOptions {
            stream,
            compresses: values.rdbcompression,
            // The receiver is to know that it has all of it as it was.
            has_checksum: true,
            is_base: false,
            is_background: true,
            backend: self.shared.store.backend_name(),
            spool: &|| spool::make(folder.as_ref()),
            go_on: &go_on,
        };
        loop {
            match commands::save(&self.shared.engine, &mut to, &options, &mut at_cut) {
                Err(SaveError::Busy) => {
                    self.may_go_on()?;
                    std::thread::sleep(BUSY_WAIT);
                }
                done => return done.map(drop),
            }
        }
    }

    fn may_go_on(&self) -> Result<(), SaveError> {
        if self.stopping.load(Relaxed) { Err(SaveError::GivenUp) } else { Ok(()) }
    }
}

/// The receiver of the dump, as a file.
struct Receiver<'s> {
    saver: &'s Saver,
    pass: Arc<Mutex<PassDump>>,
    /// Bytes that come before all others, once they are known.
    head: Arc<Mutex<Vec<u8>>>,
}

impl Receiver<'_> {
    /// Says that the dump is complete.
    fn end(&mut self) -> Result<(), SaveError> {
        self.pass_on(Vec::new()).map_err(SaveError::from)
    }

    /// Passes a piece on, as soon as the receiver takes it.
    fn pass_on(&mut self, mut piece: Vec<u8>) -> io::Result<()> {
        loop {
            match (self.pass.lock().unwrap_or_else(PoisonError::into_inner))(piece) {
                Passed::Yes => return Ok(()),
                Passed::Later(same) => piece = same,
                Passed::Gone => return Err(io::ErrorKind::BrokenPipe.into()),
            }
            self.saver.may_go_on().map_err(io::Error::other)?;
            std::thread::sleep(FULL_WAIT);
        }
    }
}

impl Write for Receiver<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let len = bytes.len().min(PIECE);
        let head = std::mem::take(&mut *self.head.lock().unwrap_or_else(PoisonError::into_inner));
        self.pass_on([&head, &bytes[..len]].concat())?;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
