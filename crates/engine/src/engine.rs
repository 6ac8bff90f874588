//! The engine: everything that sessions share.
//!
//! It owns the command table, the settings and counters of commands and the registry of sessions,
//! and borrows the keyspace, the command log and the server (`Host`) that it runs in. All of it is
//! shared by all threads; the only locks on the path of a command are those of its shards.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use keyspace::{Compaction, Keyspace};

use crate::clock::Clock;
use crate::config::Config;
use crate::host::Host;
use crate::log::{CommandLog, Effects};
use crate::notify::events::{EventClass, EventClasses};
use crate::notify::hub::Hub;
use crate::notify::tracker::Tracker;
use crate::observe::state::State;
use crate::observe::stats::{Full, Stats};
use crate::scripts::cache::ScriptCache;
use crate::scripts::libraries::Libraries;
use crate::scripts::running::RunningScripts;
use crate::session::Session;
use crate::session::client::Clients;
use crate::session::users::Users;
use crate::table::Table;
use crate::wait::waiting::{Deferred, Waiting};

/// What an engine is made of.
pub struct EngineParts {
    /// The data.
    pub keyspace: Arc<Keyspace>,
    /// Where effects are logged, if anywhere.
    pub log: Option<Arc<dyn CommandLog>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Threads that will execute commands, and load a dump together.
    pub threads: usize,
    /// Seeds the random numbers of all sessions.
    pub seed: u64,
    /// The commands.
    pub table: Table,
}

/// Work of the engine for another thread.
pub type Job = Box<dyn FnOnce(&Engine) + Send>;

/// Which thread runs a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    /// One of its own: the job may never end.
    Own,
    /// One of a few that run such jobs one after the other.
    Shared,
}

/// Numbers engines, since what threads keep for one is not for another.
static ENGINES: AtomicU64 = AtomicU64::new(0);

/// Executes commands. Send + Sync: wrap it in an `Arc`.
pub struct Engine {
    id: u64,
    keyspace: Arc<Keyspace>,
    log: OnceLock<Log>,
    pub(crate) clock: Arc<dyn Clock>,
    table: Table,
    config: Config,
    threads: usize,
    stats: Stats,
    clients: Clients,
    users: Users,
    host: OnceLock<Arc<dyn Host>>,
    admin: State,
    monitors: AtomicUsize,
    waiting: Waiting,
    deferred: Deferred,
    hub: Hub,
    tracker: Tracker,
    full: Full,
    /// Where making space of sparsely used spans goes on.
    pub(crate) compaction: Mutex<Compaction>,
    /// Runs a job on another thread; false if there is none to be had.
    spawn: OnceLock<Box<dyn Fn(Thread, Job) -> bool + Send + Sync>>,
    scripts: ScriptCache,
    libraries: Arc<Libraries>,
    running_scripts: RunningScripts,
    /// When the log told last of HTTP that was refused, in seconds of unix time.
    pub(crate) last_http_warning: AtomicU64,
    /// When the log told last of a payload that RESTORE refused, in seconds of unix time.
    pub last_bad_payload: AtomicU64,
    seed: u64,
    /// Per shard, where its last change ends in the log: what a reply that saw it must wait for.
    pub(crate) log_ends: Box<[AtomicU64]>,
}

/// The command log, and what it says of itself for good.
struct Log {
    log: Arc<dyn CommandLog>,
    takes_commands: bool,
}

impl Log {
    fn of(log: Arc<dyn CommandLog>) -> Log {
        Log { takes_commands: log.takes_commands(), log }
    }
}

impl Engine {
    /// Returns an engine of these parts.
    pub fn new(parts: impl Into<EngineParts>) -> Engine {
        let EngineParts { keyspace, log: given, clock, threads, seed, table } = parts.into();
        let stats = Stats::new(table.len(), threads);
        let now_ms = clock.unix_ms();
        let admin = State::new(table.len(), threads, now_ms, seed);
        let users = Users::new(table.len());
        let log_ends = (0..keyspace.shards()).map(|_| AtomicU64::new(0)).collect();
        let waiting = Waiting::new(keyspace.shards());
        let tracker = Tracker::new(keyspace.shards());
        let log = OnceLock::new();
        if let Some(given) = given {
            let _ = log.set(Log::of(given));
        }
        Engine {
            id: ENGINES.fetch_add(1, Relaxed),
            keyspace,
            log,
            clock,
            table,
            config: Config::default(),
            threads,
            stats,
            clients: Clients::default(),
            users,
            host: OnceLock::new(),
            admin,
            monitors: AtomicUsize::new(0),
            waiting,
            deferred: Deferred::default(),
            hub: Hub::default(),
            tracker,
            full: Full::default(),
            compaction: Mutex::default(),
            spawn: OnceLock::new(),
            scripts: ScriptCache::default(),
            libraries: Arc::default(),
            running_scripts: RunningScripts::default(),
            last_http_warning: AtomicU64::new(0),
            last_bad_payload: AtomicU64::new(0),
            seed,
            log_ends,
        }
    }

    /// Returns how many threads execute commands, or load a dump.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the data.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Returns the data, to be held longer than the engine.
    pub fn keyspace_arc(&self) -> &Arc<Keyspace> {
        &self.keyspace
    }

    /// Returns the command log.
    pub fn log(&self) -> Option<&dyn CommandLog> {
        self.log.get().map(|log| &*log.log)
    }

    /// Returns true if effects of commands are logged.
    #[inline]
    pub(crate) fn logs_commands(&self) -> bool {
        self.log.get().is_some_and(|log| log.takes_commands)
    }

    /// Sets `notify-keyspace-events`.
    pub fn set_events(&self, classes: EventClasses) {
        let has = |class| classes.has(class);
        self.keyspace().list_events(has(EventClass::New), has(EventClass::Miss));
        self.config().set_events(classes);
    }

    /// Effects that reuse `buffer`, with commands for the log if it has any.
    #[inline]
    pub(crate) fn new_effects(&self, buffer: Vec<u8>, logged: bool) -> Effects {
        Effects::new(buffer, logged, self.config().events())
    }

    /// Starts logging, once: after the log was replayed. `false` if there was a log already.
    pub fn set_log(&self, log: Arc<dyn CommandLog>) -> bool {
        self.log.set(Log::of(log)).is_ok()
    }

    /// Returns all commands.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Settings of commands.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Returns what seeds the random numbers of sessions.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns all sessions.
    pub fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Returns who may do what.
    #[inline]
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// Returns the time.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Returns the server that it runs in, if any.
    pub fn host(&self) -> Option<&dyn Host> {
        self.host.get().map(|host| &**host)
    }

    /// Returns what administration keeps: slow log, latency, monitors, pauses.
    pub fn admin(&self) -> &State {
        &self.admin
    }

    /// Enters an event of LATENCY, if it took as long as `latency-monitor-threshold`.
    pub fn observe_latency(&self, event: &str, took: Duration) {
        let now_s = self.clock.unix_ms() / 1000;
        self.admin.latency.observe(event, took.as_millis() as u64, now_s);
    }

    /// Returns blocked clients.
    pub(crate) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Returns who listens to what.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Returns who is told of which changed keys.
    pub fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// Returns what was refused because the store was full.
    pub fn full(&self) -> &Full {
        &self.full
    }

    /// Returns a number that no other engine of the process has.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the texts of scripts.
    pub fn scripts(&self) -> &ScriptCache {
        &self.scripts
    }

    /// Returns function libraries.
    pub fn libraries(&self) -> &Arc<Libraries> {
        &self.libraries
    }

    /// Returns how often a script was rolled back and run again, since it needed a shard that
    /// somebody had locked.
    pub fn script_reruns(&self) -> u64 {
        self.scripts.reruns()
    }

    /// Returns the scripts that run long.
    pub fn running_scripts(&self) -> &RunningScripts {
        &self.running_scripts
    }

    /// Returns true if a script that runs long has locked this shard: whoever waits for it may wait
    /// as long.
    pub fn is_locked_by_script(&self, shard: usize) -> bool {
        !self.running_scripts.is_empty() && self.running_scripts.holder(&[shard]).is_some()
    }

    /// Ends all scripts that run long, and undoes what they wrote: the server is shutting down.
    pub fn kill_scripts(&self) {
        self.running_scripts.kill_all();
    }

    /// Ends the scripts that run long now, and undoes what they wrote.
    pub fn end_running_scripts(&self) {
        self.running_scripts.kill_running();
    }

    /// Keys whose blocked clients could not be served.
    pub(crate) fn deferred(&self) -> &Deferred {
        &self.deferred
    }

    /// Says how to run a job on another thread, once. The function returns false if there is no
    /// thread to be had. Without it what takes long stays where it is.
    pub fn set_spawn(&self, spawn: impl Fn(Thread, Job) -> bool + Send + Sync + 'static) -> bool {
        self.spawn.set(Box::new(spawn)).is_ok()
    }

    /// Runs a job on another thread. Returns false if there is none to be had.
    pub fn spawn(&self, thread: Thread, job: Job) -> bool {
        self.spawn.get().is_some_and(|spawn| spawn(thread, job))
    }

    /// Names the server that it runs in, once.
    pub fn set_host(&self, host: Arc<dyn Host>) -> bool {
        self.host.set(host).is_ok()
    }

    /// Returns how many connections are in MONITOR mode.
    pub fn monitors(&self) -> usize {
        self.monitors.load(Relaxed)
    }

    /// Counts connections that enter (1) or leave (-1) MONITOR mode.
    pub fn add_monitors(&self, by: isize) {
        self.monitors.fetch_add(by as usize, Relaxed);
    }

    /// Drops all watches of the session. None of its shards may be locked by this thread.
    pub fn unwatch(&self, session: &mut Session) {
        if session.watches.is_empty() {
            return;
        }
        for watch in session.watches.drain(..) {
            self.keyspace.unwatch(watch);
        }
        // Others may still hold the old flag and set it late.
        session.touched = Arc::default();
        session.client.watched.store(0, Relaxed);
    }
}
