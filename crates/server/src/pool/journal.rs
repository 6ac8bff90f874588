//! The journal of the pool, which replies wait for if the pool is on an ordinary disk.
//!
//! When a command's locks are released, its commit has put its lines at the end of the journal.
//! Only the reply waits until they are as safe as `appendfsync` demands: synced (`always`), or in
//! the kernel (`everysec`, `no`). The engine asks for positions through [`ReplyLog`]. Two threads
//! of the journal sync once a second, and make checkpoints.
//!
//! Invariant: data acknowledged under one policy is as safe as the policy that was set meanwhile
//! demands.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use commands::ReplyLog;
use commands::admin::{JournalFacts, SyncTimes};
use keyspace::Keyspace;
use pmem::{ChargedClient, FilePlace, JournalFile, JournalThread, Kept, Region, SyncPolicy};

use crate::config::Values;
use crate::config::choice::AppendFsync;

/// The policies, by number.
const POLICIES: [SyncPolicy; 3] = [SyncPolicy::Always, SyncPolicy::EverySecond, SyncPolicy::No];

/// Returns the policy that says when replies leave, from the configuration.
pub(crate) fn policy(values: &Values) -> SyncPolicy {
    match values.appendfsync {
        AppendFsync::Always => SyncPolicy::Always,
        AppendFsync::No => SyncPolicy::No,
        AppendFsync::EverySec => SyncPolicy::EverySecond,
    }
}

/// The pause between two looks whether a late sync has ended, or the journal has space.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A sync that took this long is slower than another thread is to be woken for the next one.
const SLOW: Duration = Duration::from_millis(2);

/// The pause between two looks whether those that have written must still wait.
const LONG_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What a run of commands may put into the journal: some sixteen of a few KiB each.
const RUN: u64 = 128 << 10;

/// The journal of a running server.
pub(crate) struct PoolJournal {
    keyspace: Arc<Keyspace>,
    /// The pool's file.
    pool: PathBuf,
    policy: AtomicU8,
    thread: Mutex<Option<JournalThread>>,
    /// Whether the failure was logged.
    reported: AtomicBool,
    /// How long writers had waited for space at the last call, in nanoseconds.
    full_wait_ns: AtomicU64,
    /// How long the last acknowledgement took, in nanoseconds.
    last_wait_ns: AtomicU64,
    /// What runs of commands on all threads may put into the journal.
    runs: u64,
    /// Whether syncs that are slow are made by other threads than those that serve clients.
    moves_syncs: AtomicBool,
}

fn region_of(keyspace: &Keyspace) -> &Region {
    keyspace.heap().region()
}

impl PoolJournal {
    /// Starts the background work of the pool's journal, into which this many threads write; none
    /// if it has no journal.
    pub(crate) fn start(
        keyspace: &Arc<Keyspace>,
        pool: Option<PathBuf>,
        policy: SyncPolicy,
        threads: usize,
    ) -> std::io::Result<Option<Arc<PoolJournal>>> {
        if keyspace.heap().region().journal_counts().is_none() {
            return Ok(None);
        }
        let thread = JournalThread::start(Arc::clone(keyspace), region_of, policy.sync_every())?;
        Ok(Some(Arc::new(PoolJournal {
            keyspace: Arc::clone(keyspace),
            pool: pool.unwrap_or_default(),
            policy: AtomicU8::new(policy as u8),
            thread: Mutex::new(Some(thread)),
            reported: AtomicBool::new(false),
            full_wait_ns: AtomicU64::new(0),
            last_wait_ns: AtomicU64::new(0),
            runs: threads as u64 * RUN,
            moves_syncs: AtomicBool::new(false),
        })))
    }

    fn region(&self) -> &Region {
        region_of(&self.keyspace)
    }

    fn policy(&self) -> SyncPolicy {
        POLICIES[usize::from(self.policy.load(Ordering::SeqCst)) % POLICIES.len()]
    }

    /// Returns true if replies wait for a sync.
    pub(crate) fn syncs_always(&self) -> bool {
        self.policy() == SyncPolicy::Always
    }

    /// Changes when replies leave. Data acknowledged before becomes as safe as later data.
    pub(crate) fn set_policy(&self, policy: SyncPolicy) -> Result<(), String> {
        self.policy.store(policy as u8, Ordering::SeqCst);
        if let Some(thread) = &*self.thread.lock().unwrap_or_else(PoisonError::into_inner) {
            thread.sync_every(policy.sync_every());
        }
        let region = self.region();
        let done = region.acknowledge(region.appended(), policy);
        done.map_err(|error| error.to_string())
    }

    /// Returns true when replies that depend on the journal up to a position may leave, false if
    /// they never may.
    pub(crate) fn acknowledge(&self, position: u64) -> bool {
        let policy = self.policy();
        let mut done = self.region().acknowledge(position, policy);
        let now = self.policy();
        if done.is_ok() && now != policy {
            done = self.region().acknowledge(position, now);
        }
        if done.is_err() {
            self.report_failure();
        }
        done.is_ok()
    }

    /// Logs that the journal has failed, once.
    pub(crate) fn report_failure(&self) {
        if let Some(why) = self.region().journal_failure()
            && !self.reported.swap(true, Ordering::Relaxed)
        {
            let kept = self.kept();
            tracing::error!(
                "The pool's journal has failed, and no more writes are taken: {why}. {kept}"
            );
        }
    }

    /// Returns, after a failure of the journal, which acknowledged data is safe, and what to do.
    fn kept(&self) -> &'static str {
        let region = self.region();
        let is_whole =
            |file: JournalFile| file.place == FilePlace::There && file.cut_short.is_none();
        let are_there = region.file_place(&self.pool) == FilePlace::There
            && region.cut_short().is_none()
            && region.journal_file().is_none_or(is_whole);
        match region.kept_by_journal() {
            Some(Kept::All) if are_there => {
                "What was acknowledged is safe; free the cause and start again"
            }
            Some(Kept::Synced) if are_there && self.syncs_always() => {
                "What was acknowledged is safe; free the cause and start again"
            }
            Some(Kept::Synced) if are_there => {
                "What was acknowledged and not synced yet may not be on the disk: the newest \
                 writes; free the cause and start again"
            }
            _ => {
                "What was acknowledged may be in memory alone: write it to a file now (SAVE), \
                 before the server ends"
            }
        }
    }

    /// Returns the age of the oldest write that is not synced.
    pub(crate) fn unsynced_age(&self) -> Duration {
        Duration::from_nanos(self.region().journal_counts().unwrap_or_default().unsynced_ns)
    }

    /// Returns how long writers waited for space in the journal since the last call, if any did.
    pub(crate) fn take_full_wait(&self) -> Option<Duration> {
        let all = self.region().journal_counts().unwrap_or_default().full_wait_ns;
        let before = self.full_wait_ns.fetch_max(all, Ordering::Relaxed);
        let since = all.saturating_sub(before);
        (since > 0).then(|| Duration::from_nanos(since))
    }

    /// As [`PoolJournal::acknowledge`], but a sync that is late, or is expected to be slow, does
    /// not hold the thread: it serves others meanwhile.
    pub(crate) async fn settle(self: &Arc<PoolJournal>, position: u64) -> bool {
        let region = self.region();
        // The journal's own thread syncs, and is at it.
        while self.policy() == SyncPolicy::EverySecond
            && region.is_sync_late()
            && region.synced() < position
        {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        if !self.syncs_always() || !self.is_slow() {
            return self.acknowledge_and_time(position);
        }
        let journal = Arc::clone(self);
        let sync = move || journal.acknowledge_and_time(position);
        tokio::task::spawn_blocking(sync).await.unwrap_or(false)
    }

    fn acknowledge_and_time(&self, position: u64) -> bool {
        let begin = Instant::now();
        let done = self.acknowledge(position);
        // A slow one is remembered for some more.
        let remembered = self.last_wait_ns.load(Ordering::Relaxed) / 2;
        let took = (begin.elapsed().as_nanos() as u64).max(remembered);
        self.last_wait_ns.store(took, Ordering::Relaxed);
        done
    }

    fn is_slow(&self) -> bool {
        let last = Duration::from_nanos(self.last_wait_ns.load(Ordering::Relaxed));
        // A checkpoint writes to the same disk, in general.
        let is_slow = last >= SLOW || self.region().is_half_full();
        is_slow && self.moves_syncs.load(Ordering::Relaxed)
    }

    /// Lets other threads make syncs that are slow.
    pub(crate) fn move_slow_syncs(&self) {
        self.moves_syncs.store(true, Ordering::Relaxed);
    }

    /// Returns when a client that has just fenced this many bytes may go on, unless that is now, so
    /// that the journal does not become full: then a fence would hold the worker, with all clients
    /// that it serves.
    pub(crate) fn charge(&self, bytes: u64, client: &mut ChargedClient) -> Option<Instant> {
        let delay = self.region().charge(bytes, client);
        (!delay.is_zero()).then(|| Instant::now() + delay)
    }

    /// Waits until then, or until the journal has space.
    pub(crate) async fn wait_for_turn(&self, turn: Instant) {
        while Instant::now() < turn && self.region().is_half_full() {
            let until = turn.min(Instant::now() + LONG_POLL_INTERVAL);
            tokio::time::sleep_until(until.into()).await;
        }
    }

    /// Returns when a write may begin.
    pub(crate) async fn wait_for_space(&self) {
        while self.region().is_nearly_full() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Ends the background work. Closing the pool applies the rest.
    pub(crate) fn stop(&self) {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Returns the figures for INFO.
    pub(crate) fn facts(&self) -> JournalFacts {
        let region = self.region();
        let counts = region.journal_counts().unwrap_or_default();
        // The synced position is read first: it never passes the appended one.
        let synced = region.synced();
        JournalFacts {
            failure: region.journal_failure().unwrap_or_default().to_owned(),
            medium: if counts.is_mapped { "pmem" } else { "file" },
            size: counts.capacity,
            used: counts.used,
            unsynced: region.appended() - synced,
            unsynced_us: counts.unsynced_ns / 1000,
            fenced: region.appended(),
            written: counts.bytes_written,
            applied: counts.bytes_applied,
            batches: counts.batches,
            syncs: counts.batch_syncs,
            sync_us: counts.batch_sync_ns / 1000 / counts.batch_syncs.max(1),
            syncs_us: counts.batch_sync_ns / 1000,
            sync_times: SyncTimes { nanos: counts.batch_sync_ns, counts: counts.batch_sync_times },
            full_waits: counts.full_waits,
            recovered_batches: counts.recovered_batches,
            recovered_bytes: counts.recovered_bytes,
            recovery_us: counts.recovery_ns / 1000,
        }
    }
}

impl ReplyLog for PoolJournal {
    fn name(&self) -> &'static str {
        "journal"
    }

    fn end(&self) -> u64 {
        self.region().appended()
    }

    fn is_synchronous(&self) -> bool {
        self.syncs_always()
    }

    fn failure(&self) -> Option<String> {
        self.region().journal_failure().map(str::to_owned)
    }

    fn is_on(&self) -> bool {
        true
    }

    fn is_synced(&self, offset: u64) -> bool {
        self.region().synced() >= offset
    }

    fn is_nearly_full(&self) -> bool {
        self.region().is_nearly_full()
    }

    fn lacks_space_for_runs(&self) -> bool {
        self.region().lacks_space_for(self.runs)
    }

    fn write_to(&self, offset: u64) -> bool {
        self.region().write_up_to(offset).is_ok()
    }

    fn sync_to(&self, offset: u64) -> bool {
        self.region().sync_up_to(offset).is_ok()
    }
}
