//! One dump for several receivers.
//!
//! Each piece is passed to all of them, and the next one follows when all have it: a receiver's
//! memory is bounded by what its connection takes ahead. As long as they are equally slow nothing
//! else happens, and the dump is made as fast as it is taken. But when one makes another one wait,
//! or receivers that wait for the next dump, for [`PATIENCE`], or makes any other save wait for
//! `repl-timeout`, the rest of the dump is also written to an unnamed file in `dir`. A receiver
//! that cannot take a piece at once is then set aside: a thread of its own gives it the rest from
//! the front of the file, while the file is written, and after that. So the dump is made as fast as
//! the fastest receiver takes it, and the snapshot and the right to save end with it.
//!
//! If that file cannot be written, the receivers that need it are disconnected, and reconnect. A
//! receiver that takes nothing for `repl-timeout` is disconnected by its connection.

use std::io::{self, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use commands::admin::{PassDump, Passed, SentDump};
use commands::{SaveError, StreamPoint};

use super::rest::{NextPiece, Rest};
use super::{FULL_WAIT, KEEP_ALIVE, PIECE, Saver};

/// How long receivers may wait for a slower one in all.
const PATIENCE: Duration = Duration::from_secs(1);

/// A receiver of the dump.
pub(super) struct Receiver {
    dump: SentDump,
    pass: PassDump,
    /// Bytes that come before all others.
    head: Vec<u8>,
    has_piece: bool,
}

/// The dump and its receivers.
pub(super) struct Share<'s> {
    saver: &'s Arc<Saver>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    receivers: Vec<Receiver>,
    /// How many receivers were there when the dump was fixed.
    begun: usize,
    /// The file with the bytes that receivers which were set aside still get.
    rest: Option<Rest>,
    /// The threads that serve these hold it, too.
    served: Arc<()>,
    /// The bytes that end the dump, for each receiver.
    tail: String,
    never_aside: bool,
    /// How long the dump has waited for receivers,
    waited: Duration,
    /// ... while others waited for it.
    held_up: Duration,
    kept_alive: Option<Instant>,
}

impl Receiver {
    pub(super) fn new(dump: SentDump, pass: PassDump) -> Receiver {
        Receiver { dump, pass, head: Vec::new(), has_piece: false }
    }

    /// Returns the database that is selected where its stream begins.
    fn database(&self) -> Option<u32> {
        (self.dump.stream)().map(|point| point.db)
    }

    /// Passes on a piece, after the head. Returns false if the receiver does not take it now.
    fn offer(&mut self, piece: &[u8]) -> Result<bool, Gone> {
        if !self.head.is_empty() {
            let head = std::mem::take(&mut self.head);
            match self.pass.pass(head) {
                Passed::Yes => {}
                Passed::Later(head) => {
                    self.head = head;
                    return Ok(false);
                }
                Passed::Gone => return Err(Gone),
            }
        }
        match self.pass.pass(piece.to_vec()) {
            Passed::Yes => Ok(true),
            Passed::Later(_) => Ok(false),
            Passed::Gone => Err(Gone),
        }
    }
}

/// The receiver takes nothing any more.
struct Gone;

impl<'s> Share<'s> {
    /// Returns one without receivers.
    pub(super) fn new(saver: &'s Arc<Saver>) -> Share<'s> {
        Share { saver, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds receivers, before the dump is fixed.
    pub(super) fn add(&self, receivers: Vec<Receiver>) {
        self.state().receivers.extend(receivers);
    }

    /// Returns true if nobody wants the dump any more.
    pub(super) fn is_forsaken(&self) -> bool {
        let mut state = self.state();
        self.drop_gone(&mut state);
        state.is_forsaken()
    }

    fn drop_gone(&self, state: &mut State) {
        let before = state.receivers.len();
        state.receivers.retain(|receiver| !receiver.pass.is_gone());
        self.left(before - state.receivers.len());
    }

    fn left(&self, count: usize) {
        self.saver.receivers.fetch_sub(count, Relaxed);
    }

    /// Fixes the dump, and sends what comes before it.
    pub(super) fn cut(&self, head: &str) {
        self.cut_later();
        for receiver in &mut self.state().receivers {
            let mut first = std::mem::take(&mut receiver.head);
            first.extend_from_slice(head.as_bytes());
            if let Passed::Later(first) = receiver.pass.pass(first) {
                receiver.head = first;
            }
        }
    }

    /// Fixes the dump; what comes before it is sent with it. A replica that passes on what it
    /// receives may have received a SELECT between the cuts of two receivers. As a dump names one
    /// database, those that are to begin with another than the first are disconnected, and come
    /// again.
    pub(super) fn cut_later(&self) {
        let mut state = self.state();
        for receiver in &mut state.receivers {
            receiver.head = (receiver.dump.at_cut)();
        }
        let all = state.receivers.len();
        let first = state.receivers.first().and_then(Receiver::database);
        state
            .receivers
            .retain(|receiver| !receiver.dump.form.is_for_replica || receiver.database() == first);
        state.begun = state.receivers.len();
        self.left(all - state.begun);
    }

    /// Returns the place of the dump in the stream: for replicas only the database that is selected
    /// there, which is the same for all receivers.
    pub(super) fn stream(&self) -> Option<StreamPoint> {
        self.state().receivers.first().and_then(|receiver| (receiver.dump.stream)())
    }

    /// Tells receivers each second that their dump is being made. Returns true.
    pub(super) fn keep_alive(&self) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        let last = *state.kept_alive.get_or_insert(now);
        if now.duration_since(last) >= KEEP_ALIVE {
            state.kept_alive = Some(now);
            for receiver in &mut state.receivers {
                receiver.pass.pass(b"\n".to_vec());
            }
        }
        true
    }

    /// Sets what ends the dump.
    pub(super) fn set_tail(&self, tail: String) {
        self.state().tail = tail;
    }

    /// Gives all receivers the dump from a file, after this.
    pub(super) fn set_aside_all(&self, rest: Rest, head: &str) {
        let mut state = self.state();
        for receiver in &mut state.receivers {
            receiver.head.extend_from_slice(head.as_bytes());
        }
        state.rest = Some(rest);
    }

    /// Passes a piece on to all receivers; waits until they take it, or are set aside.
    fn pass_on(&self, piece: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state.receivers.iter_mut().for_each(|receiver| receiver.has_piece = false);
        loop {
            self.offer(&mut state, piece);
            if state.is_forsaken() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if state.receivers.iter().all(|receiver| receiver.has_piece) {
                break;
            }
            if let Some(rest) = state.rest.clone() {
                let slow = state.receivers.extract_if(.., |receiver| !receiver.has_piece);
                for receiver in slow.collect::<Vec<_>>() {
                    self.serve_aside(&state, receiver, Some((rest.clone(), rest.len())));
                }
                break;
            }
            self.saver.may_go_on().map_err(io::Error::other)?;
            std::thread::sleep(FULL_WAIT);
            self.lose_patience(&mut state);
        }
        if let Some(rest) = &state.rest
            && let Err(error) = rest.append(piece)
        {
            tracing::warn!("The rest of a dump cannot be kept in a file: {error}");
            rest.fail();
            (state.rest, state.never_aside) = (None, true);
        }
        Ok(())
    }

    /// Offers a piece to those receivers that do not have it.
    fn offer(&self, state: &mut State, piece: &[u8]) {
        let before = state.receivers.len();
        state.receivers.retain_mut(|receiver| {
            if receiver.has_piece {
                return !receiver.pass.is_gone();
            }
            match receiver.offer(piece) {
                Ok(has_piece) => {
                    receiver.has_piece = has_piece;
                    true
                }
                Err(Gone) => false,
            }
        });
        self.left(before - state.receivers.len());
    }

    /// Notes that the dump has waited, and begins the file if that was too long. If there can be
    /// none, those that are waited for are disconnected.
    fn lose_patience(&self, state: &mut State) {
        state.waited += FULL_WAIT;
        let is_idle = |receiver: &Receiver| receiver.has_piece && receiver.pass.is_idle();
        if state.receivers.iter().any(is_idle) || self.saver.has_waiting() {
            state.held_up += FULL_WAIT;
        }
        let values = self.saver.shared.config.values();
        let timeout = Duration::from_secs(values.repl_timeout.unsigned_abs());
        let is_over = state.held_up >= PATIENCE || state.waited >= timeout;
        if !is_over {
            return;
        }
        if !state.never_aside {
            match Rest::begin(values.dir.to_text().as_ref()) {
                Ok(rest) => {
                    tracing::info!(
                        "A receiver of a dump is slow: the rest is kept in a file for it"
                    );
                    state.rest = Some(rest);
                    return;
                }
                Err(error) => {
                    tracing::warn!("The rest of a dump cannot be kept in a file: {error}");
                    state.never_aside = true;
                }
            }
        }
        let before = state.receivers.len();
        state.receivers.retain(|receiver| receiver.has_piece);
        let slow = before - state.receivers.len();
        tracing::warn!("Disconnecting {slow} slow receivers of a dump, for which others wait");
        self.left(slow);
    }

    /// Gives a receiver the rest, from an offset of a file on, by a thread of its own.
    fn serve_aside(&self, state: &State, receiver: Receiver, rest: Option<(Rest, u64)>) {
        let (served, saver) = (Arc::clone(&state.served), Arc::clone(self.saver));
        let run = move || {
            let sent = serve(&saver, receiver, rest);
            saver.receivers.fetch_sub(1, Relaxed);
            match sent {
                Ok(()) => saver.note_copy(),
                Err(error) => tracing::warn!("Sending a dump to a client failed: {error}"),
            }
            drop(served);
        };
        let thread = std::thread::Builder::new().name("rdb-rest".to_owned()).spawn(run);
        match thread {
            Ok(thread) => self.saver.state().senders.push(thread),
            Err(error) => {
                tracing::warn!("Can't send the rest of a dump: {error}");
                self.left(1);
            }
        }
    }

    /// Ends the dump, which is complete: whoever has not got all of it is served from the file, or
    /// gets the last bytes, when it takes them.
    pub(super) fn finish(&self, keys: u64) {
        let mut state = self.state();
        let state = &mut *state;
        tracing::info!("A dump of {keys} keys was made for {} receivers", state.begun);
        let is_sized = state.tail.is_empty();
        for mut receiver in std::mem::take(&mut state.receivers) {
            let tail = std::mem::take(&mut receiver.head);
            receiver.head = [tail, state.tail.clone().into_bytes()].concat();
            let rest = state.rest.clone().filter(|_| is_sized).map(|rest| (rest, 0));
            if rest.is_none() && matches!(receiver.offer(b""), Ok(true) | Err(Gone)) {
                self.saver.note_copy();
                self.left(1);
                continue;
            }
            self.serve_aside(state, receiver, rest);
        }
        if let Some(rest) = &state.rest {
            let tail = if is_sized { "" } else { state.tail.as_str() };
            match rest.append(tail.as_bytes()) {
                Ok(()) => rest.complete(),
                Err(error) => {
                    tracing::warn!("The rest of a dump cannot be kept in a file: {error}");
                    rest.fail();
                }
            }
        }
    }

    /// Ends the dump, which is not complete: receivers find that their connections end.
    pub(super) fn fail(&self, error: &SaveError) {
        let mut state = self.state();
        match state.begun {
            0 => {}
            _ if state.is_forsaken() => {
                tracing::info!("Sending a dump to a client failed: nobody wants it any more");
            }
            _ => tracing::warn!("Sending a dump to a client failed: {error}"),
        }
        state.rest.iter().for_each(Rest::fail);
        self.left(std::mem::take(&mut state.receivers).len());
    }
}

impl State {
    fn is_forsaken(&self) -> bool {
        self.receivers.is_empty() && Arc::strong_count(&self.served) == 1
    }
}

/// Gives a receiver its head, the rest, and the end.
fn serve(saver: &Saver, mut receiver: Receiver, rest: Option<(Rest, u64)>) -> io::Result<()> {
    let mut pass = |piece: Vec<u8>| {
        let mut piece = piece;
        loop {
            match receiver.pass.pass(piece) {
                Passed::Yes => return Ok(()),
                Passed::Later(same) => piece = same,
                Passed::Gone => return Err(io::Error::from(io::ErrorKind::BrokenPipe)),
            }
            saver.may_go_on().map_err(io::Error::other)?;
            if rest.as_ref().is_some_and(|(rest, _)| rest.has_failed()) {
                return Err(io::Error::other("the rest of it is not complete"));
            }
            std::thread::sleep(FULL_WAIT);
        }
    };
    let head = std::mem::take(&mut receiver.head);
    if !head.is_empty() {
        pass(head)?;
    }
    if let Some((rest, mut at)) = rest.clone() {
        loop {
            match rest.read(at)? {
                NextPiece::Bytes(bytes) => {
                    at += bytes.len() as u64;
                    pass(bytes)?;
                }
                NextPiece::Later if rest.has_failed() => {
                    return Err(io::Error::other("the rest of it is not complete"));
                }
                NextPiece::Later => {
                    saver.may_go_on().map_err(io::Error::other)?;
                    std::thread::sleep(FULL_WAIT);
                }
                NextPiece::End => break,
            }
        }
    }
    pass(Vec::new())
}

impl Write for &Share<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        if !piece.is_empty() {
            self.pass_on(piece)?;
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
