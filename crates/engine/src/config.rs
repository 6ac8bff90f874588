//! The few settings that commands themselves obey, changeable while the server runs.
//!
//! Everything else of redis.conf is the server's. Whoever owns a setting there stores its value
//! here when it changes.

use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed,
};
use std::sync::{PoisonError, RwLock};

use crate::failure::{Failure, NO_REPLICAS, SAVE_FAILED};
use crate::notify::events::EventClasses;
use keyspace::{Db, Limits, NodeLimits, StreamLimits};

/// The version of Redis whose behaviour is reproduced, as HELLO and INFO report it unless
/// `redis-version` names another.
pub const REDIS_VERSION: &str = "7.0.15";

/// Settings read by commands.
#[derive(Debug)]
pub struct Config {
    proto_max_bulk_len: AtomicU64,
    loading: AtomicBool,
    refuses_writes: AtomicBool,
    lacks_replicas: AtomicBool,
    save_failed: AtomicBool,
    /// Why no write is taken for now, for the server's own reasons; empty: none.
    writes_refused: RwLock<String>,
    /// `redis-version`.
    redis_version: RwLock<Box<str>>,
    databases: AtomicUsize,
    hll_sparse_max_bytes: AtomicUsize,
    busy_reply_threshold_ms: AtomicU64,
    busy_reply_all: AtomicBool,
    script_kill_rollback: AtomicBool,
    calls_any_from_script: AtomicBool,
    /// `notify-keyspace-events`.
    events: AtomicU32,
    skips_checksums: AtomicBool,
    tracking_table_max_keys: AtomicUsize,
    hash: Threshold,
    set: Threshold,
    sorted_set: Threshold,
    /// `list-max-listpack-size`.
    list_node: AtomicI32,
    /// `stream-node-max-bytes` and `stream-node-max-entries`.
    stream_node: (AtomicUsize, AtomicUsize),
}

/// Up to which size collections of a type are small.
#[derive(Debug)]
struct Threshold {
    entries: AtomicUsize,
    value: AtomicUsize,
}

impl Threshold {
    fn new(limits: Limits) -> Threshold {
        let Limits { entries, value } = limits;
        Threshold { entries: AtomicUsize::new(entries), value: AtomicUsize::new(value) }
    }

    fn get(&self) -> Limits {
        Limits { entries: self.entries.load(Relaxed), value: self.value.load(Relaxed) }
    }

    fn set(&self, limits: Limits) {
        self.entries.store(limits.entries, Relaxed);
        self.value.store(limits.value, Relaxed);
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            proto_max_bulk_len: AtomicU64::new(512 << 20),
            loading: AtomicBool::new(false),
            refuses_writes: AtomicBool::new(false),
            lacks_replicas: AtomicBool::new(false),
            save_failed: AtomicBool::new(false),
            writes_refused: RwLock::default(),
            redis_version: RwLock::new(REDIS_VERSION.into()),
            databases: AtomicUsize::new(keyspace::DATABASES),
            hash: Threshold::new(Limits { entries: 512, value: 64 }),
            set: Threshold::new(Limits { entries: 512, value: 0 }),
            sorted_set: Threshold::new(Limits { entries: 128, value: 64 }),
            hll_sparse_max_bytes: AtomicUsize::new(3000),
            busy_reply_threshold_ms: AtomicU64::new(5000),
            busy_reply_all: AtomicBool::new(false),
            script_kill_rollback: AtomicBool::new(false),
            calls_any_from_script: AtomicBool::new(false),
            events: AtomicU32::new(0),
            skips_checksums: AtomicBool::new(false),
            tracking_table_max_keys: AtomicUsize::new(1_000_000),
            list_node: AtomicI32::new(-2),
            stream_node: (AtomicUsize::new(4096), AtomicUsize::new(100)),
        }
    }
}

impl Config {
    /// Returns the longest string, `proto-max-bulk-len`.
    pub fn proto_max_bulk_len(&self) -> u64 {
        self.proto_max_bulk_len.load(Relaxed)
    }

    /// Sets `proto-max-bulk-len`.
    pub fn set_proto_max_bulk_len(&self, bytes: u64) {
        self.proto_max_bulk_len.store(bytes, Relaxed);
    }

    /// Returns the database of this number, if there are this many (`databases`).
    pub fn database(&self, number: usize) -> Option<Db> {
        Db::new(number).filter(|_| number < self.databases.load(Relaxed))
    }

    /// Returns the version of Redis that is claimed (`redis-version`).
    pub fn redis_version(&self) -> Box<str> {
        self.redis_version.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets `redis-version`, before any script runs: an interpreter keeps what it is made with.
    pub fn set_redis_version(&self, version: &str) {
        *self.redis_version.write().unwrap_or_else(PoisonError::into_inner) = version.into();
    }

    /// Returns how many databases there are (`databases`).
    pub fn databases(&self) -> usize {
        self.databases.load(Relaxed)
    }

    /// Sets `databases`.
    pub fn set_databases(&self, count: usize) {
        self.databases.store(count, Relaxed);
    }

    /// Of how many keys clients are told when they change (`tracking-table-max-keys`); 0 for no
    /// limit.
    pub fn tracking_table_max_keys(&self) -> usize {
        self.tracking_table_max_keys.load(Relaxed)
    }

    /// Sets `tracking-table-max-keys`; [`crate::notify::TrackingClients::limit_cached_keys`] makes
    /// it hold.
    pub fn set_tracking_table_max_keys(&self, keys: usize) {
        self.tracking_table_max_keys.store(keys, Relaxed);
    }

    /// Returns up to which size a hash is small: `hash-max-listpack-entries`,
    /// `hash-max-listpack-value`.
    pub fn hash_limits(&self) -> Limits {
        self.hash.get()
    }

    /// Sets `hash-max-listpack-entries` and `hash-max-listpack-value`.
    pub fn set_hash_limits(&self, limits: Limits) {
        self.hash.set(limits);
    }

    /// Up to which size a set of integers is small: `set-max-intset-entries`.
    pub fn set_limits(&self) -> Limits {
        self.set.get()
    }

    /// Sets `set-max-intset-entries`.
    pub fn set_set_limits(&self, limits: Limits) {
        self.set.set(limits);
    }

    /// Returns up to which size a sorted set is small: `zset-max-listpack-entries`,
    /// `zset-max-listpack-value`.
    pub fn sorted_set_limits(&self) -> Limits {
        self.sorted_set.get()
    }

    /// Sets `zset-max-listpack-entries` and `zset-max-listpack-value`.
    pub fn set_sorted_set_limits(&self, limits: Limits) {
        self.sorted_set.set(limits);
    }

    /// Bytes from which a HyperLogLog is kept in its dense form, `hll-sparse-max-bytes`.
    pub fn hll_sparse_max_bytes(&self) -> usize {
        self.hll_sparse_max_bytes.load(Relaxed)
    }

    /// Sets `hll-sparse-max-bytes`.
    pub fn set_hll_sparse_max_bytes(&self, bytes: usize) {
        self.hll_sparse_max_bytes.store(bytes, Relaxed);
    }

    /// Returns after how many nanoseconds of a script others are refused with BUSY.
    pub fn busy_reply_threshold_ns(&self) -> u64 {
        self.busy_reply_threshold_ms.load(Relaxed).saturating_mul(1_000_000)
    }

    /// Sets `busy-reply-threshold`, in milliseconds; 0 for never, as in Redis.
    pub fn set_busy_reply_threshold(&self, ms: u64) {
        let ms = if ms == 0 { u64::MAX } else { ms };
        self.busy_reply_threshold_ms.store(ms, Relaxed);
    }

    /// Returns true if all commands are refused while a script runs too long, not only those that
    /// need what it has locked.
    pub fn busy_reply_all(&self) -> bool {
        self.busy_reply_all.load(Relaxed)
    }

    /// Sets `busy-reply-all`.
    pub fn set_busy_reply_all(&self, yes: bool) {
        self.busy_reply_all.store(yes, Relaxed);
    }

    /// Returns true if scripts may call commands that are not meant for them (DEBUG
    /// SET-DISABLE-DENY-SCRIPTS).
    pub fn calls_any_from_script(&self) -> bool {
        self.calls_any_from_script.load(Relaxed)
    }

    /// Lets scripts call commands that are not meant for them.
    pub fn set_calls_any_from_script(&self, yes: bool) {
        self.calls_any_from_script.store(yes, Relaxed);
    }

    /// Returns true if a script that has written can be killed, which undoes what it wrote.
    pub fn script_kill_rollback(&self) -> bool {
        self.script_kill_rollback.load(Relaxed)
    }

    /// Sets `script-kill-rollback`.
    pub fn set_script_kill_rollback(&self, yes: bool) {
        self.script_kill_rollback.store(yes, Relaxed);
    }

    /// Returns the events of keys that are published.
    #[inline]
    pub(crate) fn events(&self) -> EventClasses {
        EventClasses::from_bits(self.events.load(Relaxed))
    }

    /// Sets `notify-keyspace-events`.
    pub(crate) fn set_events(&self, classes: EventClasses) {
        self.events.store(classes.bits(), Relaxed);
    }

    /// Returns how large a node of a list may become.
    pub fn list_limits(&self) -> NodeLimits {
        match self.list_node.load(Relaxed) {
            size @ ..0 => NodeLimits::new(2048 << size.unsigned_abs().min(5), usize::MAX),
            count => NodeLimits::new(8192, count.max(1) as usize),
        }
    }

    /// Returns `list-max-listpack-size` as it was set.
    pub fn list_node(&self) -> i32 {
        self.list_node.load(Relaxed)
    }

    /// Sets `list-max-listpack-size`: a number of elements, or from -1 to -5 for 4 to 64 KiB.
    pub fn set_list_node(&self, size: i32) {
        self.list_node.store(size, Relaxed);
    }

    /// Returns how large a node of a stream may become.
    pub fn stream_limits(&self) -> StreamLimits {
        StreamLimits::new(self.stream_node.0.load(Relaxed), self.stream_node.1.load(Relaxed))
    }

    /// Returns `stream-node-max-bytes` and `stream-node-max-entries` as they were set.
    pub fn stream_node(&self) -> (usize, usize) {
        (self.stream_node.0.load(Relaxed), self.stream_node.1.load(Relaxed))
    }

    /// Returns how many entries a trim of whole nodes takes out at most where it is not told.
    pub fn stream_trim_limit(&self) -> u64 {
        match self.stream_node.1.load(Relaxed) as u64 {
            0 => 10_000,
            entries => entries.saturating_mul(100).min(1_000_000),
        }
    }

    /// Sets `stream-node-max-bytes` and `stream-node-max-entries`; 0 is for as many as a node may
    /// have.
    pub fn set_stream_node(&self, bytes: usize, entries: usize) {
        self.stream_node.0.store(bytes, Relaxed);
        self.stream_node.1.store(entries, Relaxed);
    }

    /// Returns true if no write is taken for now.
    pub fn refuses_writes(&self) -> bool {
        self.refuses_writes.load(Relaxed)
    }

    /// Returns the error with which writes are refused.
    #[cold]
    pub(crate) fn why_writes_are_refused(&self) -> Failure {
        match self.writes_refused() {
            _ if self.save_failed() => SAVE_FAILED.into(),
            why if why.is_empty() => NO_REPLICAS.into(),
            why => Failure::text(format!("MISCONF {why}")),
        }
    }

    /// Returns why no write is taken for now, without the word that the error begins with; nothing
    /// if writes are taken.
    pub fn refusal(&self) -> Option<String> {
        let failure = self.refuses_writes().then(|| self.why_writes_are_refused())?;
        let text = String::from_utf8_lossy(failure.as_bytes());
        Some(text.split_once(' ').map_or(&*text, |(_, why)| why).to_owned())
    }

    /// Returns the reason that [`Config::set_writes_refused`] gave, one of those for which writes
    /// are refused; empty if it has none.
    pub fn writes_refused(&self) -> String {
        self.writes_refused.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets whether there are fewer replicas than a write has to reach.
    pub fn set_lacks_replicas(&self, yes: bool) {
        self.lacks_replicas.store(yes, Relaxed);
        self.set_refuses_writes(&self.writes_refused());
    }

    /// Returns true if writes are refused since the last save failed.
    pub(crate) fn save_failed(&self) -> bool {
        self.save_failed.load(Relaxed)
    }

    /// Sets whether writes are refused since the last save failed.
    pub fn set_save_failed(&self, yes: bool) {
        self.save_failed.store(yes, Relaxed);
        self.set_refuses_writes(&self.writes_refused());
    }

    /// Sets why the server refuses writes for now; empty: it has no such reason.
    pub fn set_writes_refused(&self, why: &str) {
        *self.writes_refused.write().unwrap_or_else(PoisonError::into_inner) = why.to_owned();
        self.set_refuses_writes(why);
    }

    fn set_refuses_writes(&self, why: &str) {
        let refuses = !why.is_empty() || self.lacks_replicas.load(Relaxed) || self.save_failed();
        self.refuses_writes.store(refuses, Relaxed);
    }

    /// Returns true if the checksums of dumps and their payloads count for nothing (DEBUG
    /// SET-SKIP-CHECKSUM-VALIDATION).
    pub fn skips_checksums(&self) -> bool {
        self.skips_checksums.load(Relaxed)
    }

    /// Makes them count for nothing, or for something again.
    pub fn set_skips_checksums(&self, yes: bool) {
        self.skips_checksums.store(yes, Relaxed);
    }

    /// Returns true if data is being loaded, so that most commands are refused.
    pub fn loading(&self) -> bool {
        self.loading.load(Relaxed)
    }

    /// Begins or ends loading.
    pub fn set_loading(&self, yes: bool) {
        self.loading.store(yes, Relaxed);
    }
}
