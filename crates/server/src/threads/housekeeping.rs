//! The housekeeping thread: periodic work that may block, such as growing the pool, and rewriting
//! the append-only file.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use heap::RestingLogs;

use crate::durability::append_only_watch;
use crate::net::client_memory;
use crate::net::idle_clients::release_or_close;
use crate::net::meter::Totals;
use crate::pool::free_space::FreeSpace;
use crate::pool::watch;
use crate::process::allocator::DepartedClients;
use crate::replication::replicas::ReplicaCare;
use crate::shared::Shared;
use crate::threads::contained::contained;

/// The period of the thread.
const PERIOD: Duration = Duration::from_millis(100);
/// How often clients are searched for idle ones.
const IDLE_CLIENTS: Duration = Duration::from_secs(1);
/// How often the pool's file is checked to be in its place.
const POOL_FILE: Duration = Duration::from_secs(1);
/// How long the thread compacts sparsely used spans, in each of its periods.
const COMPACTION: Duration = Duration::from_millis(50);

/// Runs the housekeeping thread, until the server ends.
pub(crate) fn run(shared: &Arc<Shared>, tick: impl Fn()) {
    let mut rounds = Rounds::new(shared.engine.clock().monotonic());
    while !shared.shutdown.is_asked() {
        std::thread::sleep(PERIOD);
        rounds.next(shared, &tick);
    }
}

/// The rounds of the thread, with the times of its less frequent work.
pub(crate) struct Rounds {
    idle_checked: Duration,
    pool_checked: Duration,
    resting_logs: RestingLogs,
    free_space: FreeSpace,
    departed: DepartedClients,
    replicas: ReplicaCare,
}

impl Rounds {
    pub(crate) fn new(now: Duration) -> Rounds {
        Rounds {
            idle_checked: now,
            pool_checked: now,
            resting_logs: RestingLogs::default(),
            free_space: FreeSpace::new(now),
            departed: DepartedClients::default(),
            replicas: ReplicaCare::default(),
        }
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
            watch::check(shared);
            append_only_watch::check(shared);
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
        contained("logs of the pool", || self.resting_logs.look(heap));
        if !shared.engine.durability().is_nearly_full() {
            contained("compaction", || compact(shared));
            contained("free space of the pool", || self.free_space.give_back(shared, now));
        }
        contained("the append-only file", &tick);
        contained("memory of clients", || client_memory::evict(shared));
        if now.saturating_sub(self.idle_checked) >= IDLE_CLIENTS {
            self.idle_checked = now;
            contained("silent clients", || {
                let released = release_or_close(shared);
                let here = shared.engine.clients().len() as u64;
                let gone = shared.accepted.load(Relaxed).saturating_sub(here);
                self.departed.give_memory_back(gone, released, now);
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
