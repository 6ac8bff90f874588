//! The periodic work of the workers: expiry, eviction, freeing, defragmentation.
//!
//! Each worker looks after the shards whose number is its own modulo the number of workers, in
//! steps that hold a lock for a bounded number of items, and lets its connections run between the
//! steps. Work that may block is done by the [housekeeping thread](super::housekeeping).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use commands::Evicted;
use keyspace::Defragmentation;

use crate::net::meter::add;
use crate::threads::contained::contained;
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
/// How much of a worker's time expiry may take when much is due, in percent.
const SHARE: u32 = 25;
/// The delay before clients are served whose shards others had locked.
const RETRY: Duration = Duration::from_millis(1);

/// The periodic work of a worker.
pub(crate) async fn run(worker: Arc<Worker>) {
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
        let step = contained("eviction", || shared.engine.evict_if_over_limit());
        took += began.elapsed();
        match step {
            Some(Evicted::NoCandidate) | None => break,
            Some(Evicted::Keys)
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
