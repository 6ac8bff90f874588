//! SAVE, BGSAVE and save points: dumps of the data, written while clients are served.
//!
//! A dump is written to a temporary file in `dir`, synced, renamed to `dbfilename`, and the
//! directory synced ([`ReplacedFile`]): until then the previous dump stays, whatever fails. BGSAVE
//! has a thread of its own, one at a time; SAVE runs on the thread of its client, and others are
//! served meanwhile. A rewrite of the append-only file also reads a snapshot, so one of the two
//! waits.

pub(crate) mod send;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use commands::admin::{RdbFacts, SaveLocked};
use commands::{SaveError, SaveOptions};
use keyspace::Db;
use pmem::ReplacedFile;

use crate::config::Values;
use crate::dump::key_delay::KeyDelay;
use crate::net::spool;
use crate::pool::other_stores;
use crate::replication::position;
use crate::shared::Shared;
use crate::threads::contained::contained;

/// After a failed save, the next automatic one is tried when more than this has passed.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Bytes after which a dump is synced, so that the last sync does not stall the disk.
const SYNC_EVERY: u64 = 4 << 20;
/// The pause before the next try while another thread reads a snapshot.
const BUSY_WAIT: Duration = Duration::from_millis(10);
/// How long BGSAVE waits for its snapshot, which a long script may delay.
const SNAPSHOT_WAIT: Duration = Duration::from_millis(200);

/// A save is already running.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Busy;

#[derive(Default)]
struct State {
    began: Option<Duration>,
    /// Whether later writes are not in the dump any more.
    is_fixed: bool,
    thread: Option<JoinHandle<()>>,
    /// The threads that pass dumps on to clients.
    senders: Vec<JoinHandle<()>>,
    /// Clients whose dump was not begun.
    waiting: Vec<send::Waiting>,
    /// Whether a thread looks after them.
    is_sending: bool,
    /// Whether BGSAVE SCHEDULE is to begin when nothing else is running.
    scheduled: bool,
    /// Whether the scheduled one is that of a FLUSHALL.
    is_scheduled_by_flush: bool,
    /// Whether the running one is that of a FLUSHALL.
    is_of_flush: bool,
    /// Whether it is one of BGSAVE or a save point.
    is_in_background: bool,
    failed: bool,
    last: Option<Duration>,
    last_tried: Option<Duration>,
    /// The count of changes that the last dump contains.
    saved_changes: u64,
    saves: u64,
    total: u64,
}

/// Writes dumps.
pub(crate) struct Saver {
    shared: Arc<Shared>,
    state: Mutex<State>,
    /// Signals that the running dump is fixed, or ended.
    fixed: Condvar,
    stopping: AtomicBool,
    /// Whether the running background save is to end.
    ending: AtomicBool,
    /// Keys of the dump that is being written.
    keys: AtomicU64,
    /// The most bytes that the snapshot of the last save held.
    held: AtomicU64,
    /// When the last dump was completed, in a file or sent, in unix seconds; 0 for none.
    last_copy_s: AtomicU64,
    /// How many clients get a dump, or wait for one.
    receivers: AtomicUsize,
}

/// Returns the save points: seconds and changes.
fn points(values: &Values) -> Vec<(u64, u64)> {
    let text = values.save.to_text();
    let numbers: Vec<u64> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
    let (pairs, _) = numbers.as_chunks::<2>();
    pairs.iter().map(|[seconds, changes]| (*seconds, *changes)).collect()
}

/// Returns true if save points are configured.
pub(crate) fn has_points(values: &Values) -> bool {
    !values.save.is_empty()
}

impl Saver {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Saver> {
        let (state, fixed) = (Mutex::default(), Condvar::new());
        let (stopping, ending, keys, held, last_copy_s, receivers) = Default::default();
        let save =
            Saver { shared, state, fixed, stopping, ending, keys, held, last_copy_s, receivers };
        Arc::new(save)
    }

    fn now(&self) -> Duration {
        self.shared.engine.clock().monotonic()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a complete dump is in a file, or with a client.
    fn note_copy(&self) {
        self.last_copy_s.store(self.shared.engine.clock().unix_ms() / 1000, Relaxed);
    }

    /// Returns true if a dump is being written.
    pub(crate) fn is_busy(&self) -> bool {
        self.state().began.is_some()
    }

    /// Returns how many changes are in no dump.
    pub(crate) fn changes(&self) -> u64 {
        self.shared.engine.stats().changes().saturating_sub(self.state().saved_changes)
    }

    /// Records that the data in memory was read from a dump, or will be in a log, so that nothing
    /// has changed.
    pub(crate) fn set_unchanged(&self) {
        self.state().saved_changes = self.shared.engine.stats().changes();
    }

    fn begin(&self) -> Result<(), Busy> {
        let mut state = self.begin_sending()?;
        state.last_tried = state.began;
        state.scheduled = false;
        state.is_of_flush = std::mem::take(&mut state.is_scheduled_by_flush);
        Ok(())
    }

    /// Begins a dump that does not count as a save.
    fn begin_sending(&self) -> Result<MutexGuard<'_, State>, Busy> {
        let mut state = self.state();
        if state.began.is_some() {
            return Err(Busy);
        }
        (state.began, state.is_fixed) = (Some(self.now()), false);
        (state.is_in_background, state.is_of_flush) = (false, false);
        self.ending.store(false, Relaxed);
        state.total = Db::all().map(|db| self.shared.engine.keyspace().count(db).0).sum();
        self.keys.store(0, Relaxed);
        Ok(state)
    }

    /// Writes a dump on this thread. Returns false if that failed.
    pub(crate) fn save(&self) -> Result<bool, Busy> {
        self.begin()?;
        Ok(self.run(|options, path, at_cut| self.write(options, path, at_cut)))
    }

    /// Writes a dump by the given function, which passes on the data that it has locked. Returns
    /// false if that failed.
    pub(crate) fn save_locked(&self, write: &mut SaveLocked<'_>) -> Result<bool, Busy> {
        self.begin()?;
        // The caller's own changes may be in no stream yet.
        Ok(self.run(|options, path, (changes, _)| {
            *changes = self.shared.engine.stats().changes();
            replace(path, self.syncs_often(), |file| write(file, options))
        }))
    }

    /// Begins to write a dump on a thread of its own. The caller may hold shards, since the new
    /// thread takes the snapshot.
    pub(crate) fn save_in_background(self: &Arc<Saver>) -> Result<(), Busy> {
        self.begin()?;
        self.state().is_in_background = true;
        let this = Arc::clone(self);
        let run = move || {
            if this.run(|options, path, at_cut| this.write(options, path, at_cut)) {
                tracing::info!("Background saving terminated with success");
            }
        };
        match std::thread::Builder::new().name("rdb-save".to_owned()).spawn(run) {
            Ok(thread) => self.state().thread = Some(thread),
            Err(error) => {
                tracing::warn!("Can't save in background: {error}");
                let mut state = self.state();
                (state.began, state.failed) = (None, true);
                self.refuse_writes(true);
            }
        }
        Ok(())
    }

    /// Waits until the running dump is fixed, but not for long.
    pub(crate) fn wait_for_snapshot(&self) {
        let waits = |state: &mut State| state.began.is_some() && !state.is_fixed;
        let waited = self.fixed.wait_timeout_while(self.state(), SNAPSHOT_WAIT, waits);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Schedules a dump for when nothing else is running.
    pub(crate) fn schedule(&self) {
        self.state().scheduled = true;
    }

    /// Ends a background save, since all keys are deleted. With save points, another one is written
    /// soon: a start must not bring the keys back.
    pub(crate) fn end_for_flush(&self) {
        let mut state = self.state();
        if state.began.is_some() && state.is_in_background {
            self.ending.store(true, Relaxed);
        }
        let has_points = has_points(&self.shared.config.values());
        state.scheduled |= has_points;
        state.is_scheduled_by_flush |= has_points;
    }

    /// Waits for the end of a save that a FLUSHALL began, but not for long. (In Redis the command
    /// itself waits for it.)
    pub(crate) fn wait_for_save_of_flush(&self) {
        let waits = |state: &mut State| state.began.is_some() && state.is_of_flush;
        let waited = self.fixed.wait_timeout_while(self.state(), SNAPSHOT_WAIT, waits);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns the backend that a dump names: data in memory may have got a log.
    fn backend(&self) -> &'static str {
        match self.shared.log.get() {
            Some(log) if log.is_whole() => "aof",
            _ => self.shared.store.backend_name(),
        }
    }

    fn is_ending(&self) -> bool {
        self.stopping.load(Relaxed) || self.ending.load(Relaxed)
    }

    fn syncs_often(&self) -> bool {
        self.shared.config.values().rdb_save_incremental_fsync
    }

    fn write(
        &self,
        options: &SaveOptions<'_>,
        path: &Path,
        (changes, note_place): AtCut<'_>,
    ) -> Result<(), SaveError> {
        let engine = &self.shared.engine;
        replace(path, self.syncs_often(), |file| {
            loop {
                let at_cut = || {
                    *changes = engine.stats().changes();
                    note_place();
                    self.state().is_fixed = true;
                    self.fixed.notify_all();
                };
                match commands::save(engine, &mut *file, options, at_cut) {
                    // A rewrite of the log was quicker: try again until it is done.
                    Err(SaveError::Busy) if (options.go_on)(0) => std::thread::sleep(BUSY_WAIT),
                    done => return done.map(drop),
                }
            }
        })
    }

    /// Runs a save that was begun, and records its result.
    fn run(
        &self,
        write: impl FnOnce(&SaveOptions<'_>, &Path, AtCut<'_>) -> Result<(), SaveError>,
    ) -> bool {
        let values = self.shared.config.values();
        let path = other_stores::dump(&values);
        let folder = values.dir.to_text();
        let delay = KeyDelay::new(&values);
        let go_on = |keys| self.go_on(keys, &delay);
        let place = Mutex::new(None);
        let options = SaveOptions {
            stream: &|| *place.lock().unwrap_or_else(PoisonError::into_inner),
            compresses: values.rdbcompression,
            has_checksum: values.rdbchecksum,
            is_base: false,
            is_for_valkey: false,
            is_background: self.state().is_in_background,
            backend: self.backend(),
            spool: &|| spool::make(Path::new(&folder)),
            go_on: &go_on,
        };
        let mut changes = 0;
        let at_cut = || {
            *place.lock().unwrap_or_else(PoisonError::into_inner) =
                position::point(&self.shared.engine);
        };
        let done = contained("a save", || write(&options, &path, (&mut changes, &at_cut)))
            .unwrap_or_else(|| Err(io::Error::other("a panic").into()));
        match &done {
            Ok(()) => tracing::info!("DB saved on disk"),
            Err(SaveError::GivenUp) => tracing::info!("The save was given up"),
            Err(error) => tracing::warn!("Error saving DB on disk ({}): {error}", path.display()),
        }
        let mut state = self.state();
        let took = state.began.take().map(|began| self.now().saturating_sub(began));
        state.last = took;
        let held = self.shared.engine.keyspace().heap().snapshot_stats().peak;
        self.held.store(held, Relaxed);
        // A save that was given up says nothing about the next: its client gets an error, but
        // writes go on.
        match &done {
            Ok(()) => state.failed = false,
            Err(SaveError::GivenUp) => {}
            Err(_) => state.failed |= state.is_in_background,
        }
        if done.is_ok() {
            state.saved_changes = changes;
            state.saves += 1;
            self.note_copy();
            let now = self.shared.engine.clock().unix_ms();
            self.shared.engine.admin().last_save_s.store(now / 1000, Relaxed);
        }
        // A client that learns of the failure must find that writes are refused.
        self.refuse_writes(state.failed);
        drop(state);
        self.fixed.notify_all();
        done.is_ok()
    }

    /// Counts a key. Returns whether to go on, after the delay that tests configure.
    fn go_on(&self, keys: u64, delay: &KeyDelay) -> bool {
        self.keys.store(keys, Relaxed);
        delay.wait(keys, || self.shared.config.values(), || !self.is_ending())
    }

    /// Refuses writes, or accepts them again (`stop-writes-on-bgsave-error`).
    pub(crate) fn refuse_writes_after_failure(&self) {
        let state = self.state();
        self.refuse_writes(state.failed);
    }

    fn refuse_writes(&self, has_failed: bool) {
        let values = self.shared.config.values();
        let refuses = has_failed && has_points(&values) && values.stop_writes_on_bgsave_error;
        self.shared.engine.config().set_save_failed(refuses);
    }

    /// To be called periodically: begins a save that a save point asks for, or that was scheduled.
    /// `waits` says that another snapshot is being read.
    pub(crate) fn tick(self: &Arc<Saver>, waits: bool) {
        if self.shared.engine.config().loading() {
            return;
        }
        let values = self.shared.config.values();
        let changes = self.changes();
        let now = self.shared.engine.clock().unix_ms() / 1000;
        let since = now.saturating_sub(self.shared.engine.admin().last_save_s.load(Relaxed));
        let scheduled = {
            let state = self.state();
            let is_early = |tried| self.now().saturating_sub(tried) <= RETRY_AFTER;
            if waits
                || state.began.is_some()
                || (state.failed && state.last_tried.is_some_and(is_early))
            {
                return;
            }
            state.scheduled
        };
        let due = points(&values)
            .into_iter()
            .find(|(seconds, least)| changes >= *least && changes > 0 && since > *seconds);
        if let Some((seconds, _)) = due {
            tracing::info!("{changes} changes in {seconds} seconds. Saving...");
        }
        if due.is_some() || scheduled {
            let _ = self.save_in_background();
        }
    }

    /// Returns the figures for INFO.
    pub(crate) fn facts(&self) -> RdbFacts {
        let changes = self.changes();
        let state = self.state();
        RdbFacts {
            changes,
            saving: state.began.is_some(),
            failed: state.failed,
            last_s: state.last.map(|time| time.as_secs()),
            current_s: state.began.map(|began| self.now().saturating_sub(began).as_secs()),
            saves: state.saves,
            keys: state.began.map_or(0, |_| self.keys.load(Relaxed)),
            total: state.began.map_or(0, |_| state.total),
            held: self.held.load(Relaxed),
            loaded: self.shared.loading.keys.load(Relaxed),
            expired: self.shared.loading.expired.load(Relaxed),
            last_copy_s: self.last_copy_s.load(Relaxed),
        }
    }

    /// Gives up the running save, and accepts no more.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Relaxed);
        loop {
            let mut state = self.state();
            let mut threads = std::mem::take(&mut state.senders);
            threads.extend(state.thread.take());
            drop(state);
            if threads.is_empty() {
                break;
            }
            // The last thing that some do is to begin others.
            for thread in threads {
                let _ = thread.join();
            }
        }
        // A client may wait for one on another thread.
        while self.is_busy() {
            std::thread::sleep(BUSY_WAIT);
        }
        self.stopping.store(false, Relaxed);
    }
}

/// What is noted at the moment that a dump shows: how many changes there were, and the place in the
/// stream for replicas.
type AtCut<'c> = (&'c mut u64, &'c dyn Fn());

/// Replaces a file, which stays until the new one is durable.
fn replace(
    path: &Path,
    syncs_often: bool,
    write: impl FnOnce(&mut SyncedFile<'_>) -> Result<(), SaveError>,
) -> Result<(), SaveError> {
    let replaced = ReplacedFile::create(path)?;
    write(&mut SyncedFile { file: replaced.file(), syncs_often, unsynced: 0 })?;
    Ok(replaced.publish()?)
}

/// A file that is synced while it is written.
struct SyncedFile<'f> {
    file: &'f File,
    syncs_often: bool,
    unsynced: u64,
}

impl Write for SyncedFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.unsynced += written as u64;
        if self.syncs_often && self.unsynced >= SYNC_EVERY {
            self.unsynced = 0;
            self.file.sync_data()?;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
