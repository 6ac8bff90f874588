//! What administration needs of the server that the engine runs in.
//!
//! Commands know no sockets, files or processes. What INFO, CONFIG and their like must ask or tell
//! the outside goes through this trait; without a host (in the embedded library) they answer what
//! the engine itself knows.

use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

use crate::failure::Failure;
use crate::save_options::{SaveError, SaveOptions};

/// Writes a dump of data that the caller has locked.
pub type SaveLocked<'s> = dyn FnMut(&mut dyn Write, &SaveOptions<'_>) -> Result<(), SaveError> + 's;

/// A connection to another server.
pub trait Wire: Read + Write + Send {}

impl<T: Read + Write + Send> Wire for T {}

/// What became of a piece of a dump that was to be passed on.
#[derive(Debug)]
pub enum Passed {
    /// It is on its way.
    Yes,
    /// The receiver has enough for the moment: here it is back, to be tried again.
    Later(Vec<u8>),
    /// Nobody takes it any more.
    Gone,
}

/// Passes a piece of a dump on to whoever sends it; never waits.
pub type PassDump = Box<dyn FnMut(Vec<u8>) -> Passed + Send>;

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

    /// Zeroes the counters of [`Host::facts`] that are counted since the start.
    fn reset_stats(&self);

    /// Numbers and names for INFO.
    fn facts(&self) -> Facts;

    /// Returns the space that is left where files are written. May wait for a disk that hangs.
    fn disks(&self) -> Vec<DiskFacts> {
        Vec::new()
    }

    /// Starts a rewrite of the command log, or has it started soon if it is to be scheduled; says
    /// what it did in the reply's words.
    fn rewrite_log(&self, schedules: bool) -> Result<String, Failure>;

    /// Writes a dump, and waits for it.
    fn save(&self) -> Result<(), Failure>;

    /// Writes a dump of data that is locked, by the given function.
    fn save_locked(&self, write: &mut SaveLocked<'_>) -> Result<(), Failure>;

    /// Opens the dump to be read, where it is what a start would load.
    fn open_dump(&self) -> Result<Option<Box<dyn BufRead>>, Failure>;

    /// Starts to write a dump; with `schedule` later, where it cannot be now. Says what it did in
    /// the reply's words.
    fn save_in_background(&self, schedule: bool) -> Result<String, Failure>;

    /// Waits until the data of the dump that was started is fixed, so that nothing that is written
    /// from now on is in it. Not for long: where something holds that up, it is given up.
    fn wait_for_snapshot(&self) {}

    /// Waits for the end of a save that a FLUSHALL began, but not for long.
    fn wait_for_save_of_flush(&self) {}

    /// All keys are about to be deleted: a save that is under way is of no use.
    fn end_save(&self) {}

    /// Connects to another server; nothing is waited for longer than `timeout`, each time.
    fn dial(&self, _host: &str, _port: u16, _timeout: Duration) -> io::Result<Box<dyn Wire>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Starts to pass on a dump of the data, as it is at some moment from now on: `$EOF:` and a
    /// mark of 40 bytes, the dump, the mark again. Where it fails, the mark does not come.
    fn send_dump(&self, _pass: PassDump) -> Result<(), Failure> {
        Err("ERR there is no server that sends dumps".into())
    }

    /// Does what can fail before the server ends: a last dump, where one is wanted (`save` or
    /// `nosave`, or else where there are save points). With `force` no failure counts.
    fn prepare_shutdown(&self, save: bool, nosave: bool, force: bool) -> Result<(), Failure>;

    /// Opens the command log, all of it synced, to be read once more; nothing where the data needs
    /// none. The caller holds all shards.
    fn open_log(&self) -> Result<Option<aof::Loader>, Failure>;

    /// Returns the name of the file of `aclfile`, as it was given; nothing if there is none.
    fn acl_file(&self) -> Option<String> {
        None
    }

    /// Returns what that file holds.
    fn read_acl_file(&self) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Puts this in the place of what that file holds: all of it or nothing.
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
    /// Who supervises the process: `systemd` or `no`.
    pub supervised: String,
    /// Rounds of periodic work per second.
    pub hz: u64,
    /// Threads that serve connections.
    pub threads: usize,
    /// Most clients at once.
    pub max_clients: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections refused because of `maxclients`.
    pub rejected: u64,
    /// Bytes read.
    pub net_in: u64,
    /// Bytes written.
    pub net_out: u64,
    /// Reads that brought something.
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
    /// Most memory that the data ever took, in bytes.
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

/// How data persists, and how that went.
#[derive(Clone, Debug, Default)]
pub struct Persistence {
    /// `pmem`, `journal`, `aof` or `volatile`.
    pub backend: String,
    /// The persistence domain of the pool; `none` where there is no pool.
    pub domain: String,
    /// Whether the domain is only emulated.
    pub emulated: bool,
    /// The slower medium that is emulated; `no` for none.
    pub media: String,
    /// Medium of the files, if it loses its content with power; empty otherwise.
    pub volatile_medium: String,
    /// What is survived and what not, in one sentence.
    pub durability: String,
    /// The worst that every acknowledged write survives: `power loss`, `process crash`, or else
    /// `nothing` (what was not saved is lost with the process).
    pub survives: String,
    /// The pool's file, empty for none.
    pub pool: String,
    /// Bytes of the pool's file, or of memory taken for the heap.
    pub pool_size: u64,
    /// Bytes of it that take space: without what was given back.
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
    /// How old the oldest write is that a power loss would take, in microseconds; none where that
    /// is not bounded by a sync.
    pub unsynced_us: Option<u64>,
    /// The scrub.
    pub scrub: ScrubFacts,
    /// The dump.
    pub rdb: RdbFacts,
    /// The append-only file, if there is one.
    pub aof: Option<AofFacts>,
    /// The journal of the pool, if it has one.
    pub journal: Option<JournalFacts>,
    /// What is being loaded, while it is.
    pub loading: Option<LoadingFacts>,
}

/// The journal of a pool on an ordinary disk.
#[derive(Clone, Debug, Default)]
pub struct JournalFacts {
    /// Why it failed; empty if it did not.
    pub failure: String,
    /// What its file is on: `file`, or `pmem` where a fence makes it durable.
    pub medium: &'static str,
    /// Bytes of its ring.
    pub size: u64,
    /// Bytes of that which are not applied to the pool yet.
    pub used: u64,
    /// Microseconds since the oldest write that is not synced; 0 if all are.
    pub unsynced_us: u64,
    /// Bytes of fenced lines that are not synced yet,
    pub unsynced: u64,
    /// ... and of all since the start.
    pub fenced: u64,
    /// Bytes written to the journal since the start,
    pub written: u64,
    /// ... and to the pool's file.
    pub applied: u64,
    /// Batches written.
    pub batches: u64,
    /// Syncs of batches, and how long one took on average, in microseconds.
    pub syncs: u64,
    /// See `syncs`.
    pub sync_us: u64,
    /// Microseconds that all of them took.
    pub syncs_us: u64,
    /// How long they took.
    pub sync_times: SyncTimes,
    /// How often a writer waited since the ring was full.
    pub full_waits: u64,
    /// Batches that the start read.
    pub recovered_batches: u64,
    /// Bytes of their lines.
    pub recovered_bytes: u64,
    /// Microseconds that this took.
    pub recovery_us: u64,
}

/// What is read at the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadingFacts {
    /// When that began, in unix seconds.
    pub started_s: u64,
    /// Bytes of it.
    pub total: u64,
    /// Bytes that were read.
    pub loaded: u64,
    /// Seconds that it took so far.
    pub elapsed_s: u64,
}

/// The dumps.
#[derive(Clone, Copy, Debug, Default)]
pub struct RdbFacts {
    /// Changes that no dump has.
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
    /// Keys of the current one that were written.
    pub keys: u64,
    /// Keys that it will have.
    pub total: u64,
    /// Bytes that the snapshot of the last one held at most.
    pub held: u64,
    /// Keys that were loaded from the dump at the start.
    pub loaded: u64,
    /// Keys of it that had expired.
    pub expired: u64,
    /// When a dump was last complete, in a file or sent to a client, in unix seconds; 0 for none
    /// since the start.
    pub last_copy_s: u64,
}

/// The thread that looks for damage.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScrubFacts {
    /// Bytes a second; 0 when it rests.
    pub rate: u64,
    /// A pass is going on.
    pub running: bool,
    /// How far that is.
    pub percent: u64,
    /// Passes since the start.
    pub passes: u64,
    /// How long the last one took.
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
    /// How long they took.
    pub sync_times: SyncTimes,
}

/// How long syncs took since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncTimes {
    /// Nanoseconds of all.
    pub nanos: u64,
    /// How many took up to 2^n microseconds, and longer than 2^(n-1); the last has all longer ones.
    pub counts: [u64; 24],
}

/// A file system to which files are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskFacts {
    /// What is there: `dir`, `pool` or `journal`.
    pub of: &'static str,
    /// Bytes that can still be written.
    pub avail: u64,
    /// Bytes of all.
    pub size: u64,
}
