//! A dump that is passed on instead of written to a file (SYNC, PSYNC).
//!
//! It counts as a running save, as in Redis, so that there is one snapshot at a time, and waits for
//! one that was begun before. Only its time is recorded, like that of a backup: a start could not
//! load it.
//!
//! A receiver may be slow for hours. When the dump has waited for it for `repl-timeout` in all, the
//! rest is written to an unnamed file in `dir`. The snapshot is read to its end then, other saves
//! may begin, and the file is sent as slowly as it is taken. If the file cannot be written, the
//! dump goes on without it.

use std::io::{self, Read, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use commands::admin::{PassDump, Passed, SentDump};
use commands::{SaveError, SaveOptions, Spool, StreamPoint};

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
        let slot = Slot(self);
        let sent = contained("sending a dump", || self.send_begun(slot, dump, pass));
        sent.unwrap_or_else(|| Err(io::Error::other("a panic").into()))
    }

    fn send_begun(
        &self,
        slot: Slot<'_>,
        mut dump: SentDump,
        pass: PassDump,
    ) -> Result<u64, SaveError> {
        let receiver = Receiver {
            saver: self,
            pass: Arc::new(Mutex::new(pass)),
            head: Arc::default(),
            waited: Duration::ZERO,
            rest: Rest::None,
        };
        let keys = if dump.is_marked {
            self.send_marked(slot, &mut dump, receiver)
        } else {
            self.send_sized(slot, &mut dump, receiver)
        }?;
        self.note_copy();
        Ok(keys)
    }

    /// Sends a dump while it is made: its length is not known, so that a mark ends it.
    fn send_marked(
        &self,
        slot: Slot<'_>,
        dump: &mut SentDump,
        mut to: Receiver<'_>,
    ) -> Result<u64, SaveError> {
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
        let keys = slot.end();
        to.pass_rest()?;
        to.write_all(mark.as_bytes())?;
        to.end()?;
        Ok(keys)
    }

    /// Makes a dump in a file, and sends that, with its length before it.
    fn send_sized(
        &self,
        slot: Slot<'_>,
        dump: &mut SentDump,
        mut to: Receiver<'_>,
    ) -> Result<u64, SaveError> {
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
        let keys = slot.end();
        let len = file.stream_position()?;
        file.rewind()?;
        to.pass_rest()?;
        to.write_all(&first)?;
        write!(to, "${len}\r\n")?;
        io::copy(&mut file, &mut to)?;
        to.end()?;
        Ok(keys)
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

/// The one running save, which this dump is until it is dropped.
struct Slot<'s>(&'s Saver);

impl Slot<'_> {
    /// Lets other saves begin, since the snapshot is read. Returns the number of its keys.
    fn end(self) -> u64 {
        self.0.keys.load(Relaxed)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.state().began = None;
    }
}

/// What is written of a dump while its receiver is slow.
enum Rest {
    /// Nothing: the receiver was not that slow yet.
    None,
    /// A file with this many bytes.
    In(Box<dyn Spool>, u64),
    /// Nothing: all is passed on directly.
    Never,
}

/// The receiver of the dump, as a file.
struct Receiver<'s> {
    saver: &'s Saver,
    pass: Arc<Mutex<PassDump>>,
    /// Bytes that come before all others, once they are known.
    head: Arc<Mutex<Vec<u8>>>,
    /// How long the dump has waited for the receiver.
    waited: Duration,
    rest: Rest,
}

impl Receiver<'_> {
    /// Says that the dump is complete.
    fn end(&mut self) -> Result<(), SaveError> {
        self.pass_on(Vec::new()).map_err(SaveError::from)
    }

    /// Passes a piece on, as soon as the receiver takes it, or adds it to the rest.
    fn pass_on(&mut self, mut piece: Vec<u8>) -> io::Result<()> {
        loop {
            if matches!(self.rest, Rest::In(..)) {
                return self.set_aside(piece);
            }
            match (self.pass.lock().unwrap_or_else(PoisonError::into_inner))(piece) {
                Passed::Yes => return Ok(()),
                Passed::Later(same) => piece = same,
                Passed::Gone => return Err(io::ErrorKind::BrokenPipe.into()),
            }
            self.saver.may_go_on().map_err(io::Error::other)?;
            std::thread::sleep(FULL_WAIT);
            self.waited += FULL_WAIT;
            self.look_at_patience();
        }
    }

    /// Begins the rest if the dump has waited for too long.
    fn look_at_patience(&mut self) {
        let values = self.saver.shared.config.values();
        let patience = Duration::from_secs(u64::try_from(values.repl_timeout).unwrap_or(60));
        if self.waited >= patience && matches!(self.rest, Rest::None) {
            tracing::info!("The receiver of a dump is slow: the rest is kept in a file for it");
            self.rest = match spool::make(values.dir.to_text().as_ref()) {
                Ok(file) => Rest::In(file, 0),
                Err(_) => Rest::Never,
            };
        }
    }

    fn set_aside(&mut self, piece: Vec<u8>) -> io::Result<()> {
        let Rest::In(file, len) = &mut self.rest else { return self.pass_on(piece) };
        if let Err(error) = file.write_all(&piece) {
            tracing::warn!("The rest of a dump cannot be kept in a file: {error}");
            self.pass_rest()?;
            return self.pass_on(piece);
        }
        *len += piece.len() as u64;
        Ok(())
    }

    /// Passes on what was set aside. From here on nothing is.
    fn pass_rest(&mut self) -> io::Result<()> {
        let Rest::In(mut file, len) = std::mem::replace(&mut self.rest, Rest::Never) else {
            return Ok(());
        };
        file.rewind()?;
        io::copy(&mut io::BufReader::with_capacity(PIECE, file.take(len)), self)?;
        Ok(())
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
