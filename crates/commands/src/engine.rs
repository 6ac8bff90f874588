//! The engine: everything that sessions share.
//!
//! It owns the command table, the settings and counters of commands and the registry of sessions,
//! and borrows the keyspace, the command log and the server (`Host`) that it runs in. All of it is
//! shared by all threads; the only locks on the path of a command are those of its shards.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use keyspace::Keyspace;

use crate::admin;
use crate::blocking::{Deferred, Waiting};
use crate::client::{Clients, Peer};
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::hub::Hub;
use crate::log::CommandLog;
use crate::session::Session;
use crate::stats::{Full, Stats};
use crate::table::Table;
use crate::tracking::Tracker;

/// The version of Redis whose behaviour is reproduced, as HELLO and INFO report it.
pub const REDIS_VERSION: &str = "7.0.15";

/// What an engine is made of.
pub struct EngineOptions {
    /// The data.
    pub keyspace: Arc<Keyspace>,
    /// Where effects are logged, if anywhere.
    pub log: Option<Arc<dyn CommandLog>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Threads that will execute commands.
    pub threads: usize,
    /// Seeds the random numbers of all sessions.
    pub seed: u64,
}

impl EngineOptions {
    /// An engine on `keyspace`, without a log, by the machine's clock.
    pub fn new(keyspace: Arc<Keyspace>) -> EngineOptions {
        EngineOptions { keyspace, log: None, clock: Arc::new(SystemClock), threads: 1, seed: 0 }
    }
}

/// Executes commands. Send + Sync: wrap it in an `Arc`.
pub struct Engine {
    keyspace: Arc<Keyspace>,
    log: OnceLock<Arc<dyn CommandLog>>,
    pub(crate) clock: Arc<dyn Clock>,
    table: Table,
    config: Config,
    stats: Stats,
    clients: Clients,
    host: OnceLock<Arc<dyn admin::Host>>,
    admin: admin::State,
    monitors: AtomicUsize,
    waiting: Waiting,
    deferred: Deferred,
    hub: Hub,
    tracker: Tracker,
    full: Full,
    /// When the log told last of HTTP that was refused, in seconds of unix time.
    pub(crate) last_http_warning: AtomicU64,
    seed: u64,
    /// Per shard, where its last change ends in the log: what a reply that saw it must wait for.
    pub(crate) log_ends: Box<[AtomicU64]>,
}

impl Engine {
    /// An engine of these parts, with these commands.
    pub(crate) fn of(options: EngineOptions, table: Table) -> Engine {
        let stats = Stats::new(table.len(), options.threads);
        let now_ms = options.clock.unix_ms();
        let admin = admin::State::new(table.len(), options.threads, now_ms, options.seed);
        let log_ends = (0..options.keyspace.shards()).map(|_| AtomicU64::new(0)).collect();
        let waiting = Waiting::new(options.keyspace.shards());
        let tracker = Tracker::new(options.keyspace.shards());
        let log = OnceLock::new();
        if let Some(given) = options.log {
            let _ = log.set(given);
        }
        Engine {
            keyspace: options.keyspace,
            log,
            clock: options.clock,
            table,
            config: Config::default(),
            stats,
            clients: Clients::default(),
            host: OnceLock::new(),
            admin,
            monitors: AtomicUsize::new(0),
            waiting,
            deferred: Deferred::default(),
            hub: Hub::default(),
            tracker,
            full: Full::default(),
            last_http_warning: AtomicU64::new(0),
            seed: options.seed,
            log_ends,
        }
    }

    /// The data.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// The data, to be held longer than the engine.
    pub fn keyspace_arc(&self) -> &Arc<Keyspace> {
        &self.keyspace
    }

    /// The command log.
    pub fn log(&self) -> Option<&dyn CommandLog> {
        self.log.get().map(|log| &**log)
    }

    /// Starts logging, once: after the log was replayed. `false` if there was a log already.
    pub fn set_log(&self, log: Arc<dyn CommandLog>) -> bool {
        self.log.set(log).is_ok()
    }

    /// All commands.
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

    /// All sessions.
    pub fn clients(&self) -> &Clients {
        &self.clients
    }

    /// The time.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The server that it runs in, if any.
    pub fn host(&self) -> Option<&dyn admin::Host> {
        self.host.get().map(|host| &**host)
    }

    /// What administration keeps: slow log, latency, monitors, pauses.
    pub fn admin(&self) -> &admin::State {
        &self.admin
    }

    /// Blocked clients.
    pub(crate) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Who listens to what.
    pub(crate) fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Who is told of which changed keys.
    pub(crate) fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// What was refused because the store was full.
    pub(crate) fn full(&self) -> &Full {
        &self.full
    }

    /// Keys whose blocked clients could not be served.
    pub(crate) fn deferred(&self) -> &Deferred {
        &self.deferred
    }

    /// Names the server that it runs in, once.
    pub fn set_host(&self, host: Arc<dyn admin::Host>) -> bool {
        self.host.set(host).is_ok()
    }

    /// How many connections are in MONITOR mode.
    pub fn monitors(&self) -> usize {
        self.monitors.load(Relaxed)
    }

    /// Counts connections that enter (1) or leave (-1) MONITOR mode.
    pub fn add_monitors(&self, by: isize) {
        self.monitors.fetch_add(by as usize, Relaxed);
    }

    /// Begins a session; `stripe` is the number of the thread that will serve it.
    pub fn connect(&self, peer: Peer, stripe: usize) -> Session {
        let client = self.clients.enter(peer, self.clock.unix_ms());
        let seed = self.seed ^ client.id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut session = Session::new(client, stripe, seed);
        self.authenticate_default(&mut session);
        session
    }

    /// A session that replays the command log: not registered, not checked, not logged.
    pub fn connect_replay(&self) -> Session {
        let mut session = self.connect(Peer::default(), 0);
        self.clients.leave(session.id());
        session.replay = true;
        session.authenticated = true;
        session
    }

    /// Ends a session: nothing is to be executed in it any more.
    pub fn disconnect(&self, session: &mut Session) {
        self.stop_waiting(session);
        self.end_tracking(session);
        self.hub.leave_all(&session.client, &mut session.subscriptions);
        self.unwatch(session);
        self.clients.leave(session.id());
    }

    /// Makes the session what a new one is: not asked for a password where none is set.
    pub(crate) fn authenticate_default(&self, session: &mut Session) {
        session.authenticated = self.config.requirepass().is_empty();
    }

    /// Drops all watches of the session. None of its shards may be locked by this thread.
    pub(crate) fn unwatch(&self, session: &mut Session) {
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
