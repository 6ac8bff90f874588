//! Periodic work: expiry and freeing on the workers, the rest on a thread of its own.
//!
//! Each worker looks after the shards whose number is its own modulo the number of workers, in
//! steps that hold a lock for a bounded number of items, and lets its connections run between the
//! steps. Work that may block (growing the pool, the append-only file) is done by the housekeeping
//! thread.
//!
//! Each step is contained: a panic in one ends that step, not the task, so that expiry and freeing
//! go on in the other shards and, at the next round, in this one.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use commands::Evicted;
use keyspace::Defragmentation;

use crate::durability::append_only_watch;
use crate::net::client_memory;
use crate::net::meter::{Totals, add};
use crate::pool::watch;
use crate::replication::replicas::ReplicaCare;
use crate::shared::Shared;
use crate::threads::worker::Worker;

/// Items that one step looks at, times `active-expire-effort`.
const ITEMS: usize = 20;
/// Blocks that one step frees.
const BLOCKS: usize = 64;
/// Entries that one step of the defragmenter looks at.
const ENTRIES: usize = 64;
/// The least that an entry takes, roughly.
const ENTRY_BYTES: u64 = 64;
/// How long a pass of the defragmenter over all entries of a shard takes.
const PASS_SECONDS: u64 = 600;
/// How long the housekeeping thread compacts sparsely used spans, in each of its periods.
const COMPACTION: Duration = Duration::from_millis(50);
/// How much of a worker's time expiry may take when much is due, in percent.
const SHARE: u32 = 25;
/// The delay before clients are served whose shards others had locked.
const RETRY: Duration = Duration::from_millis(1);
/// The period of the housekeeping thread.
const HOUSEKEEPING: Duration = Duration::from_millis(100);
/// How often clients are searched for idle ones.
const IDLE_CLIENTS: Duration = Duration::from_secs(1);
/// How long unused free space is kept.
const REST: Duration = Duration::from_secs(10);
/// The number of departed clients whose memory is worth a walk through all that the allocator
/// keeps.
const MANY_CLIENTS: u64 = 1000;
/// How long space is given back before the thread's other work.
const GIVE_BACK: Duration = Duration::from_millis(50);
/// How often the pool's file is checked to be in its place.
const POOL_FILE: Duration = Duration::from_secs(1);

/// Runs a step of background work. A panic in it is logged, and the step counts as one that did
/// nothing: its changes are rolled back or its shard is poisoned, as after a panic of a command.
pub(crate) fn contained<R>(what: &str, step: impl FnOnce() -> R) -> Option<R> {
    let done = catch_unwind(AssertUnwindSafe(step));
    if done.is_err() {
        tracing::error!("Background work ({what}) panicked; it is tried again later");
    }
    done.ok()
}

/// The periodic work of a worker.
pub(crate) async fn periodic(worker: Arc<Worker>) {
    let mut passes: BTreeMap<usize, Defragmentation> = BTreeMap::new();
    loop {
        let hz = worker.shared.limits.hz.load(Relaxed).max(1);
        let period = Duration::from_micros(1_000_000 / hz);
        tokio::time::sleep(period).await;
        worker.meter().publish();
        if !worker.shared.cron.load(Relaxed) || worker.shared.engine.config().loading() {
            continue;
        }
        if lacks_space(&worker) {
            continue;
        }
        contained("blocked clients", || {
            worker.shared.engine.blocked_clients().retry_deferred(worker.number)
        });
        contained("flushed scripts", || commands::free_flushed_scripts(&worker.shared.engine));
        let until = Instant::now() + period * SHARE / 100;
        evict(&worker, until).await;
        let (step, shards) = (worker.shared.meters.len(), worker.shared.engine.keyspace().shards());
        for shard in (worker.number..shards).step_by(step) {
            expire(&worker, shard, until).await;
            reclaim(&worker, shard).await;
            if worker.shared.limits.defragment.load(Relaxed) {
                defragment(&worker, shard, passes.entry(shard).or_default(), until).await;
            }
        }
    }
}

/// Serves blocked clients as soon as others have unlocked the shards needed for that.
pub(crate) async fn serve_locked(worker: Arc<Worker>) {
    loop {
        worker.is_to_serve_soon().await;
        while worker.shared.engine.blocked_clients().must_retry_locked() {
            tokio::time::sleep(RETRY).await;
            if lacks_space(&worker) {
                continue;
            }
            contained("blocked clients", || {
                worker.shared.engine.blocked_clients().retry_locked(worker.number)
            });
        }
    }
}

/// Returns true while the journal has little space: a write might hold the worker.
fn lacks_space(worker: &Worker) -> bool {
    worker.shared.engine.durability().is_nearly_full()
}

/// Deletes expired keys, as long as many are found and time is left.
async fn expire(worker: &Worker, shard: usize, until: Instant) {
    let shared = &worker.shared;
    if !shared.active_expire.load(Relaxed) || !shared.engine.may_delete_unasked() {
        return;
    }
    let effort = shared.limits.expire_effort.load(Relaxed).max(1) as usize;
    let mut took = Duration::ZERO;
    loop {
        let began = Instant::now();
        let step = contained("expiry", || shared.engine.expire_step(shard, ITEMS * effort));
        took += began.elapsed();
        if step != Some(true) || Instant::now() > until {
            break;
        }
        tokio::task::yield_now().await;
    }
    shared.engine.observe_latency("expire-cycle", took);
}

/// Evicts keys until the data is within a lowered limit, as long as time is left.
async fn evict(worker: &Worker, until: Instant) {
    let shared = &worker.shared;
    if !shared.engine.may_delete_unasked() || !shared.limits.evict.swap(false, Relaxed) {
        return;
    }
    let mut took = Duration::ZERO;
    loop {
        let began = Instant::now();
        let step = contained("eviction", || shared.engine.evict_some());
        took += began.elapsed();
        match step {
            Some(Evicted::Nothing) | None => break,
            Some(Evicted::Some)
                if Instant::now() <= until && shared.engine.may_delete_unasked() => {}
            // The rest is left for the next round: more keys, those that others have locked, or
            // those for which the log has no space.
            _ => {
                shared.limits.evict.store(true, Relaxed);
                break;
            }
        }
        tokio::task::yield_now().await;
    }
    shared.engine.observe_latency("eviction-cycle", took);
}

/// Frees the garbage that deletes left.
async fn reclaim(worker: &Worker, shard: usize) {
    let keyspace = worker.shared.engine.keyspace();
    while keyspace.has_garbage(shard) && !lacks_space(worker) {
        match contained("freeing", || keyspace.reclaim_step(shard, BLOCKS)) {
            Some(Ok(progress)) if progress.more => tokio::task::yield_now().await,
            _ => return,
        }
    }
}

/// Moves some entries out of sparse spans, as long as time is left, and starts again after a pass
/// over the shard. A pass takes ten minutes.
async fn defragment(worker: &Worker, shard: usize, pass: &mut Defragmentation, until: Instant) {
    let keyspace = worker.shared.engine.keyspace();
    let hz = worker.shared.limits.hz.load(Relaxed).max(1);
    let entries = keyspace.heap().used() / keyspace.shards() as u64 / ENTRY_BYTES;
    let steps = entries / (ENTRIES as u64 * hz * PASS_SECONDS) + 1;
    for _ in 0..steps {
        let step = || keyspace.defragment_step(shard, *pass, ENTRIES).ok().flatten();
        let next = contained("defragmentation", step).flatten().unwrap_or_default();
        add(&worker.meter().moved, next.moved.saturating_sub(pass.moved));
        *pass = next;
        if next == Defragmentation::default() || Instant::now() > until || lacks_space(worker) {
            break;
        }
        tokio::task::yield_now().await;
    }
}

/// Runs the housekeeping thread, until the server ends.
pub(crate) fn run(shared: &Arc<Shared>, tick: impl Fn()) {
    let mut rounds = Rounds::new(shared.engine.clock().monotonic());
    while !shared.shutdown.is_asked() {
        std::thread::sleep(HOUSEKEEPING);
        rounds.next(shared, &tick);
    }
}

/// The rounds of the thread, with the times of its less frequent work.
pub(crate) struct Rounds {
    idle_checked: Duration,
    pool_checked: Duration,
    space: Space,
    leftovers: Leftovers,
    replicas: ReplicaCare,
}

impl Rounds {
    pub(crate) fn new(now: Duration) -> Rounds {
        let (space, leftovers) = (Space::new(now), Leftovers::default());
        let replicas = ReplicaCare::default();
        Rounds { idle_checked: now, pool_checked: now, space, leftovers, replicas }
    }

    pub(crate) fn next(&mut self, shared: &Arc<Shared>, tick: impl Fn()) {
        let now = shared.engine.clock().monotonic();
        shared.supervisor.record_round(now);
        let keyspace = shared.engine.keyspace();
        let heap = keyspace.heap();
        shared.peak.fetch_max(heap.used() + keyspace.other_memory(), Relaxed);
        shared.unsynced_age();
        let totals = Totals::of(&shared.meters);
        let counters = [shared.engine.stats().total_calls(), totals.bytes_in, totals.bytes_out];
        shared.rates.sample(counters, now);
        if now.saturating_sub(self.pool_checked) >= POOL_FILE {
            self.pool_checked = now;
            watch::look_at(shared);
            append_only_watch::look_at(shared);
            if let Some(journal) = &shared.journal {
                journal.report_failure();
            }
        }
        if !shared.cron.load(Relaxed) {
            return;
        }
        contained("replicas", || self.replicas.tend(shared, now));
        contained("growth of the pool", || {
            while heap.grow_ahead() {
                tracing::debug!("The pool grew to {} bytes", heap.size());
            }
        });
        if !shared.engine.durability().is_nearly_full() {
            contained("compaction", || compact(shared));
            contained("free space of the pool", || self.space.tend(shared, now));
        }
        contained("the append-only file", &tick);
        contained("memory of clients", || client_memory::evict(shared));
        if now.saturating_sub(self.idle_checked) >= IDLE_CLIENTS {
            self.idle_checked = now;
            contained("silent clients", || {
                let released = idle_clients(shared);
                let here = shared.engine.clients().len() as u64;
                let gone = shared.accepted.load(Relaxed).saturating_sub(here);
                self.leftovers.tend(gone, released, now);
            });
        }
    }
}

/// Compacts sparsely used spans, in steps, for writers that would find no space.
fn compact(shared: &Shared) {
    let until = Instant::now() + COMPACTION;
    let always = shared.limits.defragment.load(Relaxed);
    while shared.engine.memory_limits().compact_ahead(always)
        && Instant::now() < until
        && !shared.shutdown.is_asked()
    {}
}

/// Gives unused free space of the pool back.
struct Space {
    rested: Duration,
    warned: bool,
    /// Whether a purge is running.
    purges: bool,
}

impl Space {
    fn new(now: Duration) -> Space {
        Space { rested: now, warned: false, purges: false }
    }

    fn tend(&mut self, shared: &Shared, now: Duration) {
        let keyspace = shared.engine.keyspace();
        let heap = keyspace.heap();
        if now.saturating_sub(self.rested) >= REST {
            self.rested = now;
            heap.rest();
        }
        let before = heap.given_back();
        let until = Instant::now() + GIVE_BACK;
        while {
            self.purges |= heap.is_purging();
            keyspace.give_back_step()
        } && Instant::now() < until
            && !shared.shutdown.is_asked()
        {}
        if self.purges && !heap.is_purging() {
            self.purges = false;
            heap::trim_allocator();
        }
        let given = heap.given_back().saturating_sub(before);
        if given > 0 {
            tracing::debug!("Gave {given} bytes of free space in the pool back");
        }
        let may = !heap.region().is_device() && shared.journal.is_none();
        if !self.warned && may && !heap.gives_space_back() {
            self.warned = true;
            tracing::info!("The pool's file system makes no holes in files: free space is kept");
        }
    }
}

/// The memory of departed clients, which the allocator keeps for the next ones.
#[derive(Default)]
struct Leftovers {
    /// Clients that had left when memory was last given back.
    disconnected: u64,
    /// Clients that had left at the last look.
    looked_at: u64,
    /// Looks at which more clients were still leaving.
    put_off: u32,
    /// Buffers that idle clients have released since.
    buffers: u64,
    /// Idle clients that had not released their buffers at the last look.
    released: u64,
    /// When memory was last given back.
    at: Option<Duration>,
    /// Whether memory of clients that left meanwhile, or soon after, is still to be given back,
    /// even if it is little.
    is_followed: bool,
}

impl Leftovers {
    /// Gives memory back to the kernel when many clients have left, or many idle ones have released
    /// their buffers, and no more are doing so. If clients leave all the time, it is put off at
    /// most ten times.
    fn tend(&mut self, disconnected: u64, released: u64, now: Duration) {
        // Some may never release theirs, such as a client that does not read.
        let more = released.saturating_sub(self.released);
        self.released = released;
        self.buffers += more;
        let count = disconnected.saturating_sub(self.disconnected) + self.buffers;
        let many = count >= MANY_CLIENTS;
        let is_due = many || self.is_followed && count > 0;
        // Clients that have just left are followed by the rest: a trim now would miss the memory of
        // those.
        let is_going_on = more > 0 || disconnected > self.looked_at;
        self.looked_at = disconnected;
        if !is_due || self.at.is_some_and(|at| now.saturating_sub(at) < REST) {
            return;
        }
        if is_going_on && self.put_off < 10 {
            self.put_off += 1;
            return;
        }
        heap::trim_allocator();
        *self = Leftovers {
            disconnected,
            looked_at: disconnected,
            released,
            at: Some(now),
            is_followed: many,
            ..Self::default()
        };
    }
}

/// Wakes idle clients, which give their buffers back, and those that do not read, whose replies may
/// have been over their limit for too long; closes those that were idle too long. Returns how many
/// buffers are given back.
fn idle_clients(shared: &Shared) -> u64 {
    const SILENT_MS: u64 = 2000;
    let mut released = 0;
    let timeout = shared.limits.timeout_s.load(Relaxed) * 1000;
    let now = shared.engine.clock().unix_ms();
    let all = shared.engine.clients().list();
    for client in all.iter().filter(|client| !client.is_primary.load(Relaxed)) {
        let silent = now.saturating_sub(client.seen_ms.load(Relaxed));
        let waits =
            client.monitor.load(Relaxed) || client.blocked.load(Relaxed) || client.is_subscribed();
        if timeout > 0 && silent > timeout && !waits {
            tracing::debug!("Closing idle client");
            client.kill();
            continue;
        }
        // The buffer of a request that is still arriving stays.
        let is_arriving = client.query_buffer.load(Relaxed) > 0;
        let input = if is_arriving { 0 } else { client.query_buffer_free.load(Relaxed) };
        let has_buffers = input + client.reply_buffer.load(Relaxed) > 0;
        let is_idle = silent > SILENT_MS && has_buffers;
        client.release.store(is_idle, Relaxed);
        released += u64::from(is_idle);
        if is_idle || client.output.load(Relaxed) > 0 {
            client.wake();
        }
    }
    released
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::resume_unwind;

    #[test]
    fn a_panic_in_background_work_ends_one_step_and_no_other() {
        let mut done = Vec::new();
        for round in 0..3 {
            for shard in 0..3 {
                let step = || match (round, shard) {
                    (1, 1) => resume_unwind(Box::new("a bug")),
                    _ => (round, shard),
                };
                done.extend(contained("a test", step));
            }
        }
        let all = (0..3).flat_map(|round| (0..3).map(move |shard| (round, shard)));
        assert!(done.into_iter().eq(all.filter(|at| *at != (1, 1))));
    }

    /// Looks twice at departed clients, long after memory was last given back.
    fn look(leftovers: &mut Leftovers, disconnected: u64) {
        let now = leftovers.at.unwrap_or_default() + REST;
        leftovers.tend(disconnected, 0, now);
        leftovers.tend(disconnected, 0, now);
    }

    #[test]
    fn what_goes_after_many_clients_is_given_back_once_more() {
        let mut leftovers = Leftovers::default();
        for (disconnected, given_back) in [(999, 0), (1500, 1500), (1510, 1510), (1520, 1510)] {
            look(&mut leftovers, disconnected);
            assert_eq!(leftovers.disconnected, given_back, "{disconnected} have gone");
        }
    }
}
