//! The few settings that commands themselves obey, changeable while the server runs.
//!
//! [`Settings`] has those of redis.conf, each with Redis's default; the server's table of
//! directives takes the defaults from here and stores all settings when one changes
//! ([`Config::store`]). [`Config`] holds them such that a command reads one without a lock, and
//! what else decides whether a command may run. The other directives of redis.conf are the
//! server's alone.

use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed,
};
use std::sync::{Mutex, PoisonError, RwLock};

use crate::failure::{Failure, NO_REPLICAS, READ_ONLY, SAVE_FAILED};
use crate::notify::events::EventClasses;
use keyspace::{Db, Limits, NodeLimits, StreamLimits};

/// The version of Redis whose behaviour is reproduced, as HELLO and INFO report it unless
/// `redis-version` names another.
pub const REDIS_VERSION: &str = "7.0.15";

macro_rules! settings {
    ($(
        $(#[doc = $doc:literal])*
        $field:ident : $type:ident in $atomic:ident = $default:expr;
    )*) => {
        /// The settings of redis.conf that commands obey.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Settings {
            $($(#[doc = $doc])* pub $field: $type,)*
        }

        impl Settings {
            /// Redis's defaults.
            pub const DEFAULT: Settings = Settings { $($field: $default,)* };
        }

        /// The settings in force.
        #[derive(Debug)]
        struct Stored {
            $($field: $atomic,)*
        }

        impl Stored {
            fn new(settings: Settings) -> Stored {
                Stored { $($field: $atomic::new(settings.$field),)* }
            }

            fn load(&self) -> Settings {
                Settings { $($field: self.$field.load(Relaxed),)* }
            }

            fn store(&self, settings: Settings) {
                $(self.$field.store(settings.$field, Relaxed);)*
            }
        }
    };
}

settings! {
    /// `proto-max-bulk-len`: bytes of the longest string.
    proto_max_bulk_len: u64 in AtomicU64 = 512 << 20;
    /// `databases`: how many there are.
    databases: usize in AtomicUsize = keyspace::DATABASES;
    /// `list-max-listpack-size`: elements of a node, or from -1 to -5 for 4 to 64 KiB.
    list_max_listpack_size: i32 in AtomicI32 = -2;
    /// `set-max-intset-entries`: members of a small set of integers.
    set_max_intset_entries: usize in AtomicUsize = 512;
    /// `hash-max-listpack-entries`: fields of a small hash.
    hash_max_listpack_entries: usize in AtomicUsize = 512;
    /// `hash-max-listpack-value`: bytes of its longest field or value.
    hash_max_listpack_value: usize in AtomicUsize = 64;
    /// `zset-max-listpack-entries`: members of a small sorted set.
    zset_max_listpack_entries: usize in AtomicUsize = 128;
    /// `zset-max-listpack-value`: bytes of its longest member.
    zset_max_listpack_value: usize in AtomicUsize = 64;
    /// `stream-node-max-bytes`: bytes of a node; 0 for as many as it may have.
    stream_node_max_bytes: usize in AtomicUsize = 4096;
    /// `stream-node-max-entries`: entries of a node; 0 for as many as it may have.
    stream_node_max_entries: usize in AtomicUsize = 100;
    /// `hll-sparse-max-bytes`: bytes from which a HyperLogLog is dense.
    hll_sparse_max_bytes: usize in AtomicUsize = 3000;
    /// `busy-reply-threshold`: milliseconds after which a script is slow; 0 for never.
    busy_reply_threshold: u64 in AtomicU64 = 5000;
    /// `busy-reply-all`: whether a slow script lets no command run, or only none that needs its
    /// keys.
    busy_reply_all: bool in AtomicBool = false;
    /// `script-kill-rollback`: whether a script that has written can be killed, and is undone.
    script_kill_rollback: bool in AtomicBool = false;
    /// `tracking-table-max-keys`: keys of which clients are told when they change; 0 for no limit.
    tracking_table_max_keys: usize in AtomicUsize = 1_000_000;
}

/// Settings read by commands.
#[derive(Debug)]
pub struct Config {
    settings: Stored,
    /// `redis-version`.
    redis_version: RwLock<Box<str>>,
    /// `notify-keyspace-events`.
    events: AtomicU32,
    loading: AtomicBool,
    refuses_writes: AtomicBool,
    /// Held while that is computed from the reasons.
    computing: Mutex<()>,
    lacks_replicas: AtomicBool,
    save_failed: AtomicBool,
    /// `replica-read-only`, and whether this server is a replica.
    replicas_are_read_only: AtomicBool,
    is_replica: AtomicBool,
    /// Why no write is taken for now, for the server's own reasons; empty: none.
    writes_refused: RwLock<String>,
    calls_any_from_script: AtomicBool,
    skips_checksums: AtomicBool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            settings: Stored::new(Settings::DEFAULT),
            redis_version: RwLock::new(REDIS_VERSION.into()),
            events: AtomicU32::new(0),
            loading: AtomicBool::new(false),
            refuses_writes: AtomicBool::new(false),
            computing: Mutex::default(),
            lacks_replicas: AtomicBool::new(false),
            save_failed: AtomicBool::new(false),
            replicas_are_read_only: AtomicBool::new(true),
            is_replica: AtomicBool::new(false),
            writes_refused: RwLock::default(),
            calls_any_from_script: AtomicBool::new(false),
            skips_checksums: AtomicBool::new(false),
        }
    }
}

impl Config {
    /// Returns the settings in force.
    pub fn settings(&self) -> Settings {
        self.settings.load()
    }

    /// Stores settings, one after the other.
    pub fn store(&self, settings: Settings) {
        self.settings.store(settings);
    }

    /// Returns the longest string, `proto-max-bulk-len`.
    pub fn proto_max_bulk_len(&self) -> u64 {
        self.settings.proto_max_bulk_len.load(Relaxed)
    }

    /// Returns the database of this number, if there are this many (`databases`).
    pub fn database(&self, number: usize) -> Option<Db> {
        Db::new(number).filter(|_| number < self.databases())
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
        self.settings.databases.load(Relaxed)
    }

    /// Of how many keys clients are told when they change (`tracking-table-max-keys`); 0 for no
    /// limit.
    pub fn tracking_table_max_keys(&self) -> usize {
        self.settings.tracking_table_max_keys.load(Relaxed)
    }

    /// Returns up to which size a hash is small: `hash-max-listpack-entries`,
    /// `hash-max-listpack-value`.
    pub fn hash_limits(&self) -> Limits {
        Limits {
            entries: self.settings.hash_max_listpack_entries.load(Relaxed),
            value: self.settings.hash_max_listpack_value.load(Relaxed),
        }
    }

    /// Up to which size a set of integers is small: `set-max-intset-entries`.
    pub fn set_limits(&self) -> Limits {
        Limits { entries: self.settings.set_max_intset_entries.load(Relaxed), value: 0 }
    }

    /// Returns up to which size a sorted set is small: `zset-max-listpack-entries`,
    /// `zset-max-listpack-value`.
    pub fn sorted_set_limits(&self) -> Limits {
        Limits {
            entries: self.settings.zset_max_listpack_entries.load(Relaxed),
            value: self.settings.zset_max_listpack_value.load(Relaxed),
        }
    }

    /// Bytes from which a HyperLogLog is kept in its dense form, `hll-sparse-max-bytes`.
    pub fn hll_sparse_max_bytes(&self) -> usize {
        self.settings.hll_sparse_max_bytes.load(Relaxed)
    }

    /// Returns after how many nanoseconds of a script others are refused with BUSY.
    pub fn busy_reply_threshold_ns(&self) -> u64 {
        match self.settings.busy_reply_threshold.load(Relaxed) {
            0 => u64::MAX,
            ms => ms.saturating_mul(1_000_000),
        }
    }

    /// Returns true if all commands are refused while a script runs too long, not only those that
    /// need what it has locked.
    pub fn busy_reply_all(&self) -> bool {
        self.settings.busy_reply_all.load(Relaxed)
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
        self.settings.script_kill_rollback.load(Relaxed)
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
        match self.list_node() {
            size @ ..0 => NodeLimits::new(2048 << size.unsigned_abs().min(5), usize::MAX),
            count => NodeLimits::new(8192, count.max(1) as usize),
        }
    }

    /// Returns `list-max-listpack-size` as it was set.
    pub fn list_node(&self) -> i32 {
        self.settings.list_max_listpack_size.load(Relaxed)
    }

    /// Returns how large a node of a stream may become.
    pub fn stream_limits(&self) -> StreamLimits {
        let (bytes, entries) = self.stream_node();
        StreamLimits::new(bytes, entries)
    }

    /// Returns `stream-node-max-bytes` and `stream-node-max-entries` as they were set.
    pub fn stream_node(&self) -> (usize, usize) {
        let settings = &self.settings;
        let bytes = settings.stream_node_max_bytes.load(Relaxed);
        (bytes, settings.stream_node_max_entries.load(Relaxed))
    }

    /// Returns how many entries a trim of whole nodes takes out at most where it is not told.
    pub fn stream_trim_limit(&self) -> u64 {
        match self.settings.stream_node_max_entries.load(Relaxed) as u64 {
            0 => 10_000,
            entries => entries.saturating_mul(100).min(1_000_000),
        }
    }

    /// Returns true if no write is taken for now.
    pub fn refuses_writes(&self) -> bool {
        self.refuses_writes.load(Relaxed)
    }

    /// Returns the error with which writes are refused.
    #[cold]
    pub(crate) fn why_writes_are_refused(&self) -> Failure {
        match self.writes_refused() {
            _ if self.is_read_only_replica() => READ_ONLY.into(),
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

    /// Returns true if writes are refused since this server is a replica.
    #[inline]
    pub fn is_read_only_replica(&self) -> bool {
        self.is_replica.load(Relaxed) && self.replicas_are_read_only.load(Relaxed)
    }

    /// Sets whether this server is a replica.
    pub(crate) fn set_is_replica(&self, yes: bool) {
        self.is_replica.store(yes, Relaxed);
        self.set_refuses_writes(&self.writes_refused());
    }

    /// Sets `replica-read-only`.
    pub fn set_replicas_are_read_only(&self, yes: bool) {
        self.replicas_are_read_only.store(yes, Relaxed);
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
        let _one_at_a_time = self.computing.lock().unwrap_or_else(PoisonError::into_inner);
        let refuses = !why.is_empty()
            || self.lacks_replicas.load(Relaxed)
            || self.save_failed()
            || self.is_read_only_replica();
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
