//! Dumps that are passed on instead of written to a file (SYNC, PSYNC).
//!
//! A dump counts as a running save, as in Redis, so that there is one snapshot at a time, and waits
//! for one that was begun before. Only its time is recorded, like that of a backup: a start could
//! not load it.
//!
//! Receivers wait in a queue, and one thread makes a dump for all of those that can take the same
//! one. A receiver that is a replica waits for others as in Redis (`repl-diskless-sync-delay`,
//! `repl-diskless-sync-max-replicas`) if its dump is sent while it is made. Whoever comes after the
//! moment that a dump shows gets the next one: it would lack the stream since then.
//!
//! A receiver that is slow holds nobody up: see [`share`].

mod rest;
mod share;

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use commands::admin::{DumpForm, PassDump, SentDump};
use commands::{SaveError, SaveOptions};

use self::rest::Rest;
use self::share::{Receiver, Share};
use super::{BUSY_WAIT, Busy, Saver, State};
use crate::dump::key_delay::KeyDelay;
use crate::net::spool;
use crate::process::machine;
use crate::threads::contained::contained;

/// Maximum of receivers that are served, or wait.
const MOST: usize = 16;
/// Bytes that are passed on at once.
pub const PIECE: usize = 64 << 10;
/// The pause while a receiver has enough for the moment.
const FULL_WAIT: Duration = Duration::from_millis(1);
/// How often the receiver of a dump that is being made in a file is told that it is.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// How often the thread looks whether a receiver has waited long enough for others.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How many keys are written between two looks whether somebody still wants the dump.
const SELDOM: u64 = 16;

/// A receiver whose dump was not begun.
pub(super) struct Waiting {
    dump: SentDump,
    pass: PassDump,
    since: Duration,
}

impl Saver {
    /// Adds a receiver to those that wait for a dump.
    pub(crate) fn send(self: &Arc<Saver>, dump: SentDump, pass: PassDump) -> Result<(), Busy> {
        let mut state = self.state();
        if self.stopping.load(Relaxed) || self.receivers.load(Relaxed) >= MOST {
            return Err(Busy);
        }
        if !state.is_sending {
            state.senders.retain(|sender| !sender.is_finished());
            let this = Arc::clone(self);
            let run = move || {
                while let Some(form) = this.wait_for_receivers() {
                    this.send_next(form);
                }
            };
            let thread = std::thread::Builder::new().name("rdb-send".to_owned()).spawn(run);
            state.senders.push(thread.map_err(|error| {
                tracing::warn!("Can't send a dump: {error}");
                Busy
            })?);
            state.is_sending = true;
        }
        self.receivers.fetch_add(1, Relaxed);
        state.waiting.push(Waiting { dump, pass, since: self.now() });
        Ok(())
    }

    /// Waits until a dump is to be made, and returns which; none if nobody waits any more.
    fn wait_for_receivers(&self) -> Option<DumpForm> {
        loop {
            let mut state = self.state();
            let stops = self.stopping.load(Relaxed);
            self.forget_waiting(&mut state, |waiting| stops || waiting.pass.is_gone());
            if state.waiting.is_empty() {
                state.is_sending = false;
                return None;
            }
            if let Some(form) = self.due(&state.waiting) {
                return Some(form);
            }
            drop(state);
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns the form of the dump for which a receiver has waited long enough.
    fn due(&self, all: &[Waiting]) -> Option<DumpForm> {
        let values = self.shared.config.values();
        let delay = Duration::from_secs(values.repl_diskless_sync_delay.unsigned_abs());
        let most = usize::try_from(values.repl_diskless_sync_max_replicas).unwrap_or(0);
        let is_due = |waiting: &&Waiting| {
            let form = waiting.dump.form;
            let replicas = || all.iter().filter(|other| other.dump.form == form).count();
            !form.waits_for_others()
                || self.now().saturating_sub(waiting.since) >= delay
                || most > 0 && replicas() >= most
        };
        all.iter().find(is_due).map(|waiting| waiting.dump.form)
    }

    /// Takes the receivers that wait for a dump of this form.
    fn take_waiting(&self, form: DumpForm) -> Vec<Receiver> {
        let mut state = self.state();
        self.forget_waiting(&mut state, |waiting| waiting.pass.is_gone());
        let taken = state.waiting.extract_if(.., |waiting| waiting.dump.form == form);
        taken.map(|waiting| Receiver::new(waiting.dump, waiting.pass)).collect()
    }

    fn forget_waiting(
        &self,
        state: &mut MutexGuard<'_, State>,
        is_over: impl Fn(&Waiting) -> bool,
    ) {
        let before = state.waiting.len();
        state.waiting.retain(|waiting| !is_over(waiting));
        self.receivers.fetch_sub(before - state.waiting.len(), Relaxed);
    }

    /// Returns true if somebody waits for the next dump.
    fn has_waiting(&self) -> bool {
        !self.state().waiting.is_empty()
    }

    /// Waits until no other save is under way, and makes a dump for those that wait for it.
    fn send_next(self: &Arc<Saver>, form: DumpForm) {
        while self.begin_sending().is_err() {
            if self.may_go_on().is_err() {
                return;
            }
            std::thread::sleep(BUSY_WAIT);
        }
        let share = Share::new(self);
        let made = contained("sending a dump", || match form.is_marked {
            true => self.send_marked(form, &share),
            false => self.send_sized(form, &share),
        });
        let keys = self.keys.load(Relaxed);
        self.state().began = None;
        self.fixed.notify_all();
        match made.unwrap_or_else(|| Err(io::Error::other("a panic").into())) {
            Ok(()) => share.finish(keys),
            Err(error) => share.fail(&error),
        }
    }

    /// Sends a dump while it is made: its length is not known, so that a mark ends it.
    fn send_marked(&self, form: DumpForm, share: &Share<'_>) -> Result<(), SaveError> {
        let mark = machine::run_id()?;
        let head = format!("$EOF:{mark}\r\n");
        // At once: the first key may take long. The shards are locked, so that nothing waits.
        self.save_to(form, share, share, &|| !share.is_forsaken(), || share.cut(&head))?;
        share.set_tail(mark);
        Ok(())
    }

    /// Makes a dump in a file, and sends that, with its length before it.
    fn send_sized(&self, form: DumpForm, share: &Share<'_>) -> Result<(), SaveError> {
        let rest = Rest::begin(self.shared.config.values().dir.to_text().as_ref())?;
        let lives = || share.keep_alive() && !share.is_forsaken();
        self.save_to(form, share, &rest, &lives, || share.cut_later())?;
        let head = format!("${}\r\n", rest.len());
        share.set_aside_all(rest, &head);
        Ok(())
    }

    /// Writes a dump for those that wait for it; `lives` says, once in a while, whether somebody
    /// still wants it.
    fn save_to(
        &self,
        form: DumpForm,
        share: &Share<'_>,
        mut to: impl Write + Send,
        lives: &(dyn Fn() -> bool + Sync),
        mut at_cut: impl FnMut(),
    ) -> Result<(), SaveError> {
        let values = self.shared.config.values();
        let folder = values.dir.to_text();
        let delay = KeyDelay::new(&values);
        let looks = AtomicU64::new(0);
        let lives = || !looks.fetch_add(1, Relaxed).is_multiple_of(SELDOM) || lives();
        let go_on = |keys| {
            self.keys.store(keys, Relaxed);
            delay.wait(keys, || self.shared.config.values(), || !self.is_ending() && lives())
        };
        let stream = || share.stream();
        let options = SaveOptions {
            stream: &stream,
            compresses: values.rdbcompression,
            // The receiver is to know that it has all of it as it was.
            has_checksum: true,
            is_base: false,
            is_for_valkey: form.is_for_valkey,
            is_background: true,
            backend: self.shared.store.backend_name(),
            spool: &|| spool::make(folder.as_ref()),
            go_on: &go_on,
        };
        loop {
            share.add(self.take_waiting(form));
            if share.is_forsaken() {
                return Err(SaveError::GivenUp);
            }
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
