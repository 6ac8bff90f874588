//! The engine: everything that sessions share.
//!
//! It owns the command table, the settings and counters of commands and the registry of sessions,
//! and borrows the keyspace, the command log and the server (`Host`) that it runs in. All of it is
//! shared by all threads. A command takes the locks of its shards; it takes others only where
//! clients wait or track, or where a log or replicas take its effects.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use ::replication::Id;
use keyspace::{Compaction, Keyspace};

use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::config::Config;
use crate::host::Host;
use crate::log::{CommandLog, Effects, ReplyLog};
use crate::notify::events::{EventClass, EventClasses};
use crate::notify::hub::Hub;
use crate::notify::tracker::Tracker;
use crate::observe::state::State;
use crate::observe::stats::{Refusals, Stats};
use crate::replication::Replication;
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
    /// The log of effects, if there is one.
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

/// Numbers engines, so that a thread does not use for one what it keeps for another.
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
    refusals: Refusals,
    /// How far the compaction of sparsely used spans has come.
    pub(crate) compaction: Mutex<Compaction>,
    /// Runs a job on another thread; returns false if no thread is available.
    spawn: OnceLock<Box<dyn Fn(Thread, Job) -> bool + Send + Sync>>,
    scripts: ScriptCache,
    libraries: Arc<Libraries>,
    running_scripts: RunningScripts,
    replication: Replication,
    cluster: Cluster,
    /// Unix time in seconds of the last log line about refused HTTP.
    pub(crate) last_http_warning: AtomicU64,
    /// Unix time in seconds of the last log line about a payload that RESTORE refused.
    pub last_bad_payload: AtomicU64,
    seed: u64,
    /// The log offset after each shard's last change: a reply that shows the change waits for it.
    pub(crate) log_ends: Box<[AtomicU64]>,
}

fn random_id(random: &mut fastrand::Rng) -> Id {
    Id::from_random(std::array::from_fn(|_| random.u8(..)))
}

/// The log that replies wait for, and the same as a log of commands, if it is one.
struct Log {
    replies: Arc<dyn ReplyLog>,
    commands: Option<Arc<dyn CommandLog>>,
}

impl Log {
    fn of_commands(log: Arc<dyn CommandLog>) -> Log {
        Log { replies: Arc::clone(&log) as Arc<dyn ReplyLog>, commands: Some(log) }
    }
}

impl Engine {
    /// Makes an engine of these parts.
    pub fn new(parts: impl Into<EngineParts>) -> Engine {
        let EngineParts { keyspace, log: given, clock, threads, seed, table } = parts.into();
        let stats = Stats::new(table.len(), threads);
        let now_ms = clock.unix_ms();
        let admin = State::new(table.len(), threads, now_ms);
        let users = Users::new(table.len());
        let log_ends = (0..keyspace.shards()).map(|_| AtomicU64::new(0)).collect();
        let waiting = Waiting::new(keyspace.shards());
        let tracker = Tracker::new(keyspace.shards());
        let log = OnceLock::new();
        if let Some(given) = given {
            let _ = log.set(Log::of_commands(given));
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
            refusals: Refusals::default(),
            compaction: Mutex::default(),
            spawn: OnceLock::new(),
            scripts: ScriptCache::default(),
            libraries: Arc::default(),
            running_scripts: RunningScripts::default(),
            replication: Replication::new(random_id(&mut fastrand::Rng::with_seed(seed))),
            cluster: Cluster::default(),
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

    /// Returns the data, for callers that keep it longer than the engine.
    pub fn keyspace_arc(&self) -> &Arc<Keyspace> {
        &self.keyspace
    }

    /// Returns the log that replies wait for.
    #[inline]
    pub fn log(&self) -> Option<&dyn ReplyLog> {
        self.log.get().map(|log| &*log.replies)
    }

    /// Returns the log that takes the effects of commands.
    #[inline]
    pub fn command_log(&self) -> Option<&dyn CommandLog> {
        self.log.get().and_then(|log| log.commands.as_deref())
    }

    /// Returns true if effects of commands are logged.
    #[inline]
    pub(crate) fn logs_commands(&self) -> bool {
        self.command_log().is_some()
    }

    /// Returns true if the effects of commands are collected: for the log, or for replicas.
    #[inline]
    pub(crate) fn collects_commands(&self) -> bool {
        self.logs_commands() || self.replication().takes_effects()
    }

    /// Sets `notify-keyspace-events`.
    pub fn set_events(&self, classes: EventClasses) {
        let has = |class| classes.has(class);
        self.keyspace().list_events(has(EventClass::New), has(EventClass::Miss));
        self.config().set_events(classes);
    }

    /// Returns effects that reuse `buffer`, with commands for the log if `logged`.
    #[inline]
    pub(crate) fn new_effects(&self, buffer: Vec<u8>, logged: bool) -> Effects {
        let is_streamed = logged && self.replication().takes_effects();
        Effects::new(buffer, logged, is_streamed, self.config().events())
    }

    /// Starts to log commands, once, after the log was replayed. Returns false if there was a log
    /// already.
    pub fn set_log(&self, log: Arc<dyn CommandLog>) -> bool {
        self.log.set(Log::of_commands(log)).is_ok()
    }

    /// Lets replies wait for the journal of the pool, from now on. Returns false if there was a log
    /// already.
    pub fn set_journal(&self, journal: Arc<dyn ReplyLog>) -> bool {
        self.log.set(Log { replies: journal, commands: None }).is_ok()
    }

    /// Returns all commands.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the settings of commands.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Returns the seed of the sessions' random numbers.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns all sessions.
    pub fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Returns the users and their permissions.
    #[inline]
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// Returns the time.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Returns the server that the engine runs in, if any.
    pub fn host(&self) -> Option<&dyn Host> {
        self.host.get().map(|host| &**host)
    }

    /// Returns the state of administration: slow log, latency, monitors, pauses.
    pub fn admin(&self) -> &State {
        &self.admin
    }

    /// Enters an event of LATENCY, if it took as long as `latency-monitor-threshold`.
    pub fn observe_latency(&self, event: &str, took: Duration) {
        let now_s = self.clock.unix_ms() / 1000;
        self.admin.latency.observe(event, took.as_millis() as u64, now_s);
    }

    /// Returns the stream for replicas, the replicas, and this server's role.
    #[inline]
    pub fn replication(&self) -> &Replication {
        &self.replication
    }

    /// Returns the node of a cluster that this server is.
    #[inline]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns the blocked clients.
    pub(crate) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Returns the subscriptions of all sessions.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Returns the keys and prefixes that clients track.
    pub fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// Returns the counts of commands that were refused because the store was full.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
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

    /// Returns how often a script was rolled back and run again, because it needed a shard that
    /// another thread had locked.
    pub fn script_reruns(&self) -> u64 {
        self.scripts.reruns()
    }

    /// Returns the scripts that run long.
    pub fn running_scripts(&self) -> &RunningScripts {
        &self.running_scripts
    }

    /// Returns true if a script that runs long has locked this shard, so that waiting for it may
    /// take as long.
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

    /// Returns the keys whose blocked clients could not be served.
    pub(crate) fn deferred(&self) -> &Deferred {
        &self.deferred
    }

    /// Sets the function that runs a job on another thread, once. It returns false if no thread is
    /// available. Without it, long commands run where they are.
    pub fn set_spawn(&self, spawn: impl Fn(Thread, Job) -> bool + Send + Sync + 'static) -> bool {
        self.spawn.set(Box::new(spawn)).is_ok()
    }

    /// Runs a job on another thread. Returns false if no thread is available.
    pub fn spawn(&self, thread: Thread, job: Job) -> bool {
        self.spawn.get().is_some_and(|spawn| spawn(thread, job))
    }

    /// Sets the server that the engine runs in, once.
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
