//! Directives that connections check all the time, copied from the configuration into atomics.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use commands::Client;

use crate::config::Values;
use crate::config::special::OutputLimit;
use crate::config::value::MemoryShare;

/// The limits that connections check.
#[derive(Default)]
pub(crate) struct Limits {
    pub(crate) max_clients: AtomicU64,
    pub(crate) timeout_s: AtomicU64,
    pub(crate) keepalive_s: AtomicU64,
    pub(crate) query_buffer: AtomicU64,
    pub(crate) max_bulk: AtomicU64,
    /// Bytes that all clients may take together; 0 for no limit.
    pub(crate) client_memory: AtomicU64,
    pub(crate) protected: AtomicBool,
    pub(crate) hz: AtomicU64,
    pub(crate) expire_effort: AtomicU64,
    pub(crate) defragment: AtomicBool,
    /// Whether keys are to be evicted although no command needs memory: `maxmemory` was changed.
    pub(crate) evict: AtomicBool,
    /// Bytes that are scrubbed per second, and seconds from the start of a pass to that of the
    /// next.
    pub(crate) scrub_rate: AtomicU64,
    pub(crate) scrub_every_s: AtomicU64,
    /// For subscribed clients, for replicas, and for all others.
    listening: Output,
    replica: Output,
    normal: Output,
}

impl Limits {
    pub(crate) fn load(&self, values: &Values) {
        self.max_clients.store(values.maxclients, Relaxed);
        self.timeout_s.store(values.timeout, Relaxed);
        self.keepalive_s.store(values.tcp_keepalive, Relaxed);
        self.query_buffer.store(values.client_query_buffer_limit, Relaxed);
        self.max_bulk.store(values.proto_max_bulk_len, Relaxed);
        self.client_memory.store(client_memory(values), Relaxed);
        self.protected.store(values.protected_mode, Relaxed);
        self.hz.store(values.hz.clamp(1, 500), Relaxed);
        self.expire_effort.store(values.active_expire_effort.clamp(1, 10), Relaxed);
        self.defragment.store(values.activedefrag, Relaxed);
        self.scrub_rate.store(values.scrub_rate, Relaxed);
        self.scrub_every_s.store(values.scrub_every, Relaxed);
        let [normal, replica, listening] = values.client_output_buffer_limit;
        self.normal.store(normal);
        self.listening.store(listening);
        self.replica.store(replica);
    }

    /// Returns the limit of a client's pending output.
    pub(crate) fn output(&self, client: &Client) -> OutputLimit {
        match () {
            () if client.is_replica.load(Relaxed) => self.replica.get(),
            () if client.is_subscribed() => self.listening.get(),
            () => self.normal.get(),
        }
    }

    /// Returns the limit of what waits for a replica.
    pub(crate) fn replica(&self) -> OutputLimit {
        self.replica.get()
    }
}

/// Returns `maxmemory-clients`: a number of bytes, or a share of `maxmemory` in percent.
fn client_memory(values: &Values) -> u64 {
    match values.maxmemory_clients {
        MemoryShare::Bytes(bytes) => bytes,
        MemoryShare::Percent(percent) => {
            (u128::from(values.maxmemory) * u128::from(percent) / 100) as u64
        }
    }
}

/// A limit that is read while it may change.
#[derive(Default)]
struct Output {
    hard: AtomicU64,
    soft: AtomicU64,
    seconds: AtomicU64,
}

impl Output {
    fn store(&self, limit: OutputLimit) {
        self.hard.store(limit.hard, Relaxed);
        self.soft.store(limit.soft, Relaxed);
        self.seconds.store(limit.seconds, Relaxed);
    }

    fn get(&self) -> OutputLimit {
        OutputLimit {
            hard: self.hard.load(Relaxed),
            soft: self.soft.load(Relaxed),
            seconds: self.seconds.load(Relaxed),
        }
    }
}
