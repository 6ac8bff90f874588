//! Periodic work: expiry and freeing on the workers, the rest on a thread of its own.
//!
//! Each worker looks after the shards whose number is its own modulo the number of workers, in steps that
//! hold a lock for a bounded number of items, and lets its connections run between the steps. What may
//! block (growing the pool, the append-only file) is done by the housekeeping thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use keyspace::Defragmentation;

use crate::meter::{Totals, add};
use crate::shared::Shared;
use crate::worker::Worker;

/// Items that one step looks at, times `active-expire-effort`.
const ITEMS: usize = 20;
/// Blocks that one step frees.
const BLOCKS: usize = 64;
/// Entries that one step of the defragmenter looks at.
const ENTRIES: usize = 64;
/// How much of a worker's time expiry may take when much is due, in percent.
const SHARE: u32 = 25;
/// How often the housekeeping thread looks.
const HOUSEKEEPING: Duration = Duration::from_millis(100);
/// How often clients are looked through for those that were silent too long.
const IDLE_CLIENTS: Duration = Duration::from_secs(1);

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
        worker.shared.engine.serve_missed(worker.number);
        let until = Instant::now() + period * SHARE / 100;
        let (step, shards) = (worker.shared.meters.len(), worker.shared.engine.keyspace().shards());
        for shard in (worker.number..shards).step_by(step) {
            expire(&worker, shard, until).await;
            reclaim(&worker, shard).await;
            if worker.shared.limits.defragment.load(Relaxed) {
                defragment(&worker, shard, passes.entry(shard).or_default());
            }
        }
    }
}

/// Deletes keys whose time has come, as long as many are found and time is left.
async fn expire(worker: &Worker, shard: usize, until: Instant) {
    let shared = &worker.shared;
    if !shared.active_expire.load(Relaxed) {
        return;
    }
    let effort = shared.limits.expire_effort.load(Relaxed).max(1) as usize;
    loop {
        let now = shared.engine.clock().unix_ms();
        let more = match shared.engine.keyspace().expire_step(shard, ITEMS * effort, now) {
            Ok((mut txn, progress)) => {
                shared.engine.log_changes(&mut txn);
                progress.more
            }
            Err(_) => false,
        };
        if !more || Instant::now() > until {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Frees what deletes left behind.
async fn reclaim(worker: &Worker, shard: usize) {
    let keyspace = worker.shared.engine.keyspace();
    while keyspace.has_garbage(shard) {
        match keyspace.reclaim_step(shard, BLOCKS) {
            Ok(progress) if progress.more => tokio::task::yield_now().await,
            _ => return,
        }
    }
}

/// Moves some entries out of sparse spans, and begins again after a pass over the shard.
fn defragment(worker: &Worker, shard: usize, pass: &mut Defragmentation) {
    let keyspace = worker.shared.engine.keyspace();
    let next = keyspace.defragment_step(shard, *pass, ENTRIES).ok().flatten().unwrap_or_default();
    add(&worker.meter().moved, next.moved.saturating_sub(pass.moved));
    *pass = next;
}

/// The housekeeping thread, until the server ends.
pub(crate) fn housekeeping(shared: &Arc<Shared>, tick: impl Fn()) {
    let mut idle_checked = Instant::now();
    while !shared.shutdown.is_asked() {
        std::thread::sleep(HOUSEKEEPING);
        let heap = shared.engine.keyspace().heap();
        shared.peak.fetch_max(heap.used(), Relaxed);
        let totals = Totals::of(&shared.meters);
        shared.rates.sample([
            shared.engine.stats().total_calls(),
            totals.bytes_in,
            totals.bytes_out,
        ]);
        if !shared.cron.load(Relaxed) {
            continue;
        }
        while heap.grow_ahead() {
            tracing::debug!("The pool grew to {} bytes", heap.size());
        }
        tick();
        if idle_checked.elapsed() >= IDLE_CLIENTS {
            idle_checked = Instant::now();
            idle_clients(shared);
        }
    }
}

/// Wakes silent clients, which give large buffers back, and those that do not read, whose replies may be over their
/// limit for too long; ends those that were silent too long.
fn idle_clients(shared: &Shared) {
    const LARGE: usize = 32 * 1024;
    let timeout = shared.limits.timeout_s.load(Relaxed) * 1000;
    let now = shared.engine.clock().unix_ms();
    for client in shared.engine.clients().list() {
        let silent = now.saturating_sub(client.seen_ms.load(Relaxed));
        let waits =
            client.monitor.load(Relaxed) || client.blocked.load(Relaxed) || client.is_subscribed();
        if timeout > 0 && silent > timeout && !waits {
            tracing::debug!("Closing idle client");
            client.kill();
        } else if client.output.load(Relaxed) > 0
            || (silent > 2000 && client.query_buffer_free.load(Relaxed) > LARGE)
        {
            client.wake();
        }
    }
}
