//! The administration's view of the server that the engine runs in.
//!
//! Commands know no sockets, files or processes. INFO, CONFIG and similar commands reach the
//! outside through this trait; without a host (in the embedded library) they answer from the engine
//! alone.

use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

use crate::failure::Failure;
use crate::replication::Primary;
use crate::save_options::{SaveError, SaveOptions, StreamPoint};

/// Writes a dump of data that the caller has locked.
pub type SaveLocked<'s> = dyn FnMut(&mut dyn Write, &SaveOptions<'_>) -> Result<(), SaveError> + 's;

/// A connection to another server.
pub trait Wire: Read + Write + Send {}

impl<T: Read + Write + Send> Wire for T {}

/// The result of passing on a piece of a dump.
#[derive(Debug)]
pub enum Passed {
    /// It is on its way.
    Yes,
    /// The receiver has enough for the moment: the piece comes back, to be tried again.
    Later(Vec<u8>),
    /// Nobody takes the dump any more.
    Gone,
}

/// The kind of dump that a receiver wants. Receivers of the same form can share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpForm {
    /// Whether it is sent while it is made, with a mark at its end; else it is made in a file, and
    /// sent with its length before it.
    pub is_marked: bool,
    /// Whether the receiver is a replica, which gets the stream after it.
    pub is_for_replica: bool,
    /// Whether it has Valkey's own version of the format.
    pub is_for_valkey: bool,
}

impl DumpForm {
    /// Returns true if the dump does not begin before others may have come that can share it.
    pub fn waits_for_others(self) -> bool {
        self.is_marked && self.is_for_replica
    }
}

/// A dump that is to be sent.
pub struct SentDump {
    /// The kind of the dump.
    pub form: DumpForm,
    /// Runs when the data is fixed, while nothing can change; returns what is to be sent before the
    /// dump.
    pub at_cut: Box<dyn FnMut() -> Vec<u8> + Send>,
    /// Returns, after the cut, the place in the stream ([`SaveOptions::stream`]).
    pub stream: Box<dyn Fn() -> Option<StreamPoint> + Send + Sync>,
}

/// The receiver of a dump.
pub trait TakesDump: Send {
    /// Passes a piece on to it; never waits. An empty piece says that the dump is complete.
    fn pass(&mut self, piece: Vec<u8>) -> Passed;

    /// Returns true if all pieces are on their way, so that it waits for more.
    fn is_idle(&self) -> bool;

    /// Returns true if it takes nothing any more.
    fn is_gone(&self) -> bool;
}

/// The receiver of a dump.
pub type PassDump = Box<dyn TakesDump>;

/// The server, as commands see it.
pub trait Host: Send + Sync {
    /// Directives that match any of the patterns, with their values.
    fn config_matching(&self, patterns: &[&[u8]]) -> Vec<(String, Vec<u8>)>;

    /// Changes directives, all or none. `local`: the client is on this machine.
    fn config_set(&self, pairs: &[(&[u8], &[u8])], local: bool) -> Result<(), Failure>;

    /// Writes the configuration into its file.
    fn config_rewrite(&self, all: bool) -> Result<(), Failure>;

    /// Returns true if DEBUG is allowed (`enable-debug-command`); `local`: to a client on this
    /// machine.
    fn allows_debug(&self, local: bool) -> bool;

    /// Zeroes those counters of [`Host::facts`] that count since the start.
    fn reset_stats(&self);

    /// Returns numbers and names for INFO.
    fn facts(&self) -> Facts;

    /// Returns the free space where files are written. May wait for a disk that hangs.
    fn disks(&self) -> Vec<DiskFacts> {
        Vec::new()
    }

    /// Starts a rewrite of the command log, or schedules one; returns the text of the reply.
    fn rewrite_log(&self, schedules: bool) -> Result<String, Failure>;

    /// Writes a dump, and waits for it.
    fn save(&self) -> Result<(), Failure>;

    /// Writes a dump of data that is locked, by the given function.
    fn save_locked(&self, write: &mut SaveLocked<'_>) -> Result<(), Failure>;

    /// Opens the dump to be read, if a start would load it.
    fn open_dump(&self) -> Result<Option<Box<dyn BufRead>>, Failure>;

    /// Starts to write a dump; with `schedule` later, if it cannot start now. Returns the text of
    /// the reply.
    fn save_in_background(&self, schedule: bool) -> Result<String, Failure>;

    /// Waits until the data of the dump that was started is fixed, so that it contains no later
    /// write. Gives up after a short time.
    fn wait_for_snapshot(&self) {}

    /// Waits for the end of a save that a FLUSHALL began, but not for long.
    fn wait_for_save_of_flush(&self) {}

    /// Ends a running save: all keys are about to be deleted, so it is of no use.
    fn end_save(&self) {}

    /// Connects to another server; no single operation waits longer than `timeout`.
    fn dial(&self, _host: &str, _port: u16, _timeout: Duration) -> io::Result<Box<dyn Wire>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Starts to pass on a dump of the data, as it is at some moment from now on: `$EOF:` and a
    /// mark of 40 bytes, the dump, the mark again; or its length and the dump. Other receivers may
    /// get the same. After a failure the end is missing.
    fn send_dump(&self, _dump: SentDump, _pass: PassDump) -> Result<(), Failure> {
        Err("ERR there is no server that sends dumps".into())
    }

    /// Follows a primary, or nobody (REPLICAOF).
    fn follow(&self, _primary: Option<Primary>) -> Result<(), Failure> {
        Err("ERR there is no server that could be a replica".into())
    }

    /// Takes the steps that can fail before the server ends: a last dump, if one is wanted (by
    /// `save` or `nosave`, or else if there are save points). With `force` failures are ignored.
    fn prepare_shutdown(&self, save: bool, nosave: bool, force: bool) -> Result<(), Failure>;

    /// Begins the end of a server that has replicas, which are to catch up before. The client with
    /// this number is blocked until then.
    fn begin_shutdown(&self, _client: u64, _save: bool, _nosave: bool, _force: bool) {}

    /// Gives up an end that waits for replicas. Returns false if there is none.
    fn abort_shutdown(&self) -> bool {
        false
    }

    /// Opens the command log, all of it synced, to be read once more; returns none if the data
    /// needs no log. The caller holds all shards.
    fn open_log(&self) -> Result<Option<aof::Loader>, Failure>;

    /// Returns the value of `aclfile` as it was given, if it is set.
    fn acl_file(&self) -> Option<String> {
        None
    }

    /// Returns the content of that file.
    fn read_acl_file(&self) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Replaces the content of that file: all of it or nothing.
    fn write_acl_file(&self, _text: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Fills a buffer with random bytes that nobody can guess.
    fn fill_random(&self, _bytes: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Stops or starts the active expiry of keys.
    fn set_active_expire(&self, yes: bool);

    /// Stops or starts all periodic work.
    fn set_cron(&self, yes: bool);

    /// Writes a line into the server's log.
    fn log(&self, line: &str);

    /// Makes the calling thread wait (DEBUG SLEEP).
    fn sleep(&self, time: Duration);
}

/// What the server knows about itself.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Version of the server itself.
    pub version: String,
    /// Operating system and machine.
    pub os: String,
    /// Milliseconds until the server ends, if replicas do not catch up before.
    pub shutdown_in_ms: Option<u64>,
    /// 40 hexadecimal digits, new at every start.
    pub run_id: String,
    /// The process.
    pub process_id: u32,
    /// TCP port, 0 for none.
    pub tcp_port: u16,
    /// Path of the program.
    pub executable: String,
    /// Path of the configuration file, empty for none.
    pub config_file: String,
    /// When the server started, unix ms.
    pub started_ms: u64,
    /// The supervisor of the process: `systemd` or `no`.
    pub supervised: String,
    /// Rounds of periodic work per second.
    pub hz: u64,
    /// Threads that serve connections.
    pub threads: usize,
    /// Maximum number of clients at once.
    pub max_clients: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections refused because of `maxclients`.
    pub rejected: u64,
    /// Bytes read.
    pub net_in: u64,
    /// Bytes written.
    pub net_out: u64,
    /// Reads that returned data.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Commands per second recently.
    pub ops_per_sec: u64,
    /// Bytes read per second recently.
    pub in_per_sec: u64,
    /// Bytes written per second recently.
    pub out_per_sec: u64,
    /// Resident memory of the process, in bytes.
    pub rss: u64,
    /// Memory of the machine, in bytes.
    pub system_memory: u64,
    /// CPU time in the kernel, in microseconds.
    pub cpu_sys_us: u64,
    /// CPU time outside the kernel, in microseconds.
    pub cpu_user_us: u64,
    /// The highest memory use of the data so far, in bytes.
    pub peak_memory: u64,
    /// Blocks that the defragmenter moved.
    pub defragmented: u64,
    /// Whether the defragmenter is on.
    pub defragmenting: bool,
    /// `maxmemory`.
    pub max_memory: u64,
    /// `maxmemory-policy`.
    pub policy: String,
    /// Percentiles that INFO latencystats prints.
    pub percentiles: Vec<f64>,
    /// How data persists.
    pub persistence: Persistence,
}

/// How data persists, and the figures of its persistence.
#[derive(Clone, Debug, Default)]
pub struct Persistence {
    /// `pmem`, `journal`, `aof` or `volatile`.
    pub backend: String,
    /// The persistence domain of the pool; `none` without a pool.
    pub domain: String,
    /// Whether the domain is only emulated.
    pub emulated: bool,
    /// The slower medium that is emulated; `no` for none.
    pub media: String,
    /// Medium of the files, if it loses its content with power; empty otherwise.
    pub volatile_medium: String,
    /// The failures that data survives and those that it does not, in one sentence.
    pub durability: String,
    /// The worst failure that every acknowledged write survives: `power loss`, `process crash`, or
    /// else `nothing` (unsaved data is lost with the process).
    pub survives: String,
    /// The pool's file, empty for none.
    pub pool: String,
    /// Bytes of the pool's file, or of memory taken for the heap.
    pub pool_size: u64,
    /// Bytes of it that take space: without those that were released.
    pub pool_space: u64,
    /// Time from opening the pool to being ready, in microseconds.
    pub recovery_us: u64,
    /// Log records accepted at the start.
    pub recovery_records: u64,
    /// Words stored again at the start.
    pub recovery_words: u64,
    /// The pool had been closed cleanly.
    pub clean: bool,
    /// Fences since the start, over all threads.
    pub fences: u64,
    /// Lines flushed since the start.
    pub lines: u64,
    /// Bytes stored past the cache since the start.
    pub streamed: u64,
    /// The age of the oldest write that a power loss would take, in microseconds; none if no sync
    /// bounds it.
    pub unsynced_us: Option<u64>,
    /// The scrub.
    pub scrub: ScrubFacts,
    /// The dump.
    pub rdb: RdbFacts,
    /// The append-only file, if there is one.
    pub aof: Option<AofFacts>,
    /// The journal of the pool, if it has one.
    pub journal: Option<JournalFacts>,
    /// The data that is being loaded, if any.
    pub loading: Option<LoadingFacts>,
}

/// The journal of a pool on an ordinary disk.
#[derive(Clone, Debug, Default)]
pub struct JournalFacts {
    /// Why it failed; empty if it did not.
    pub failure: String,
    /// The medium of its file: `file`, or `pmem` if a fence makes it durable.
    pub medium: &'static str,
    /// Bytes of its ring.
    pub size: u64,
    /// Bytes of the ring that are not yet applied to the pool.
    pub used: u64,
    /// Microseconds since the oldest write that is not synced; 0 if all are.
    pub unsynced_us: u64,
    /// Bytes of fenced lines that are not yet synced,
    pub unsynced: u64,
    /// ... and of all fenced lines since the start.
    pub fenced: u64,
    /// Bytes written to the journal since the start,
    pub written: u64,
    /// ... and to the pool's file.
    pub applied: u64,
    /// Batches written.
    pub batches: u64,
    /// Syncs of batches.
    pub syncs: u64,
    /// Their average time, in microseconds.
    pub sync_us: u64,
    /// Their total time, in microseconds.
    pub syncs_us: u64,
    /// The distribution of their times.
    pub sync_times: SyncTimes,
    /// How often a writer waited because the ring was full.
    pub full_waits: u64,
    /// Batches that recovery read at the start.
    pub recovered_batches: u64,
    /// Bytes of their lines.
    pub recovered_bytes: u64,
    /// The time that recovery took, in microseconds.
    pub recovery_us: u64,
}

/// The data that is loaded at the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadingFacts {
    /// When loading began, in unix seconds.
    pub started_s: u64,
    /// Bytes in all.
    pub total: u64,
    /// Bytes read so far.
    pub loaded: u64,
    /// Seconds since loading began.
    pub elapsed_s: u64,
}

/// The dumps.
#[derive(Clone, Copy, Debug, Default)]
pub struct RdbFacts {
    /// Changes since the last dump.
    pub changes: u64,
    /// A dump is being written.
    pub saving: bool,
    /// The last one failed.
    pub failed: bool,
    /// Seconds that the last one took.
    pub last_s: Option<u64>,
    /// Seconds since the current one began.
    pub current_s: Option<u64>,
    /// Dumps since the start.
    pub saves: u64,
    /// Keys of the current one that were written so far.
    pub keys: u64,
    /// Keys that it will have in all.
    pub total: u64,
    /// The most bytes that the snapshot of the last one held.
    pub held: u64,
    /// Keys that were loaded from the dump at the start.
    pub loaded: u64,
    /// Keys of it that had expired.
    pub expired: u64,
    /// When the last dump was completed, in a file or sent to a client, in unix seconds; 0 for none
    /// since the start.
    pub last_copy_s: u64,
}

/// The thread that looks for damage.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScrubFacts {
    /// Bytes per second; 0 while it rests.
    pub rate: u64,
    /// A pass is going on.
    pub running: bool,
    /// The progress of the running pass, in percent.
    pub percent: u64,
    /// Passes since the start.
    pub passes: u64,
    /// The time that the last one took.
    pub last_pass_ms: u64,
    /// Keys verified since the start.
    pub keys: u64,
    /// Bytes verified since the start.
    pub bytes: u64,
    /// Damaged keys that it found.
    pub found: u64,
}

/// The append-only file.
#[derive(Clone, Debug, Default)]
pub struct AofFacts {
    /// It is on, or being switched on.
    pub enabled: bool,
    /// A rewrite is going on.
    pub rewriting: bool,
    /// Seconds that the last rewrite took.
    pub last_rewrite_s: Option<u64>,
    /// Seconds since the current rewrite began.
    pub current_rewrite_s: Option<u64>,
    /// The last rewrite went well.
    pub rewrite_ok: bool,
    /// Rewrites since the start.
    pub rewrites: u64,
    /// A rewrite will begin when the dump that is being written is complete.
    pub rewrite_scheduled: bool,
    /// Rewrites in a row that failed.
    pub rewrite_failures: u64,
    /// Writes and syncs go well.
    pub write_ok: bool,
    /// Bytes of all its files.
    pub size: u64,
    /// Bytes after the last rewrite or load.
    pub base_size: u64,
    /// Bytes not yet written.
    pub buffered: u64,
    /// Syncs since the start.
    pub syncs: u64,
    /// The distribution of their times.
    pub sync_times: SyncTimes,
}

/// The times of syncs since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncTimes {
    /// Nanoseconds of all together.
    pub nanos: u64,
    /// Syncs that took up to 2^n microseconds, and longer than 2^(n-1); the last entry has all
    /// longer ones.
    pub counts: [u64; 24],
}

/// A file system to which files are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskFacts {
    /// The directory or file on it: `dir`, `pool` or `journal`.
    pub of: &'static str,
    /// Bytes that can still be written.
    pub avail: u64,
    /// Bytes in all.
    pub size: u64,
}
