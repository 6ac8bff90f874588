//! State that all threads of the server share.

use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use aof::Aof;
use commands::{Clock, CommandLog, Engine, Table};
use tokio::sync::watch;

use crate::cluster::node::ClusterNode;
use crate::config::Config;
use crate::config::choice::AppendFsync;
use crate::dump::load_progress::LoadProgress;
use crate::durability::unsynced::Unsynced;
use crate::limits::Limits;
use crate::net::meter::Meter;
use crate::net::ports::Ports;
use crate::net::rates::Rates;
use crate::net::tls::Tls;
use crate::pool::journal::PoolJournal;
use crate::pool::scrub_progress::ScrubProgress;
use crate::pool::seen_files::PoolFiles;
use crate::pool::store::{Report, Store};
use crate::process::data_dir::DataDir;
use crate::process::oom_score::OomScore;
use crate::process::shutdown::Shutdown;
use crate::process::supervisor::Supervisor;

/// The parts of the shared state.
pub(crate) struct Parts {
    pub(crate) store: Store,
    pub(crate) table: Table,
    pub(crate) config: Config,
    pub(crate) tls: Tls,
    pub(crate) supervisor: Supervisor,
    pub(crate) clock: Arc<dyn Clock>,
}

/// What is known of the tries to keep a primary's own place.
#[derive(Default)]
pub(crate) struct PlaceTries {
    /// What was logged last.
    pub(crate) logged: String,
    /// The pause after the last.
    pub(crate) pause: Duration,
}

/// Shared by the main thread, workers and housekeeping.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) config: Config,
    pub(crate) limits: Limits,
    pub(crate) oom_score: OomScore,
    /// One per worker.
    pub(crate) meters: Box<[CachePadded<Meter>]>,
    pub(crate) rates: Rates,
    pub(crate) unsynced: Unsynced,
    pub(crate) scrub: ScrubProgress,
    /// Connections accepted, and those refused because there were too many.
    pub(crate) accepted: AtomicU64,
    pub(crate) rejected: AtomicU64,
    /// The highest memory use of the data, in bytes.
    pub(crate) peak: AtomicU64,
    /// Whether keys expire without being accessed (DEBUG SET-ACTIVE-EXPIRE).
    pub(crate) active_expire: AtomicBool,
    /// Whether periodic work is done (DEBUG PAUSE-CRON).
    pub(crate) cron: AtomicBool,
    pub(crate) shutdown: Shutdown,
    pub(crate) supervisor: Supervisor,
    pub(crate) ports: Ports,
    pub(crate) tls: Tls,
    pub(crate) store: Report,
    pub(crate) data_dir: DataDir,
    pub(crate) loading: LoadProgress,
    /// The journal of the pool, if it has one.
    pub(crate) journal: Option<Arc<PoolJournal>>,
    pub(crate) pool_files: PoolFiles,
    /// Held while the place in the stream for replicas that the pool keeps is begun or ended.
    pub(crate) place: Mutex<PlaceTries>,
    /// The append-only file, once it is open.
    pub(crate) log: OnceLock<Arc<Aof>>,
    /// The node of a cluster that this server is, if it is one.
    pub(crate) cluster: OnceLock<Arc<ClusterNode>>,
    /// Becomes true when the log is open.
    pub(crate) log_opened: watch::Sender<bool>,
    pub(crate) run_id: String,
    pub(crate) started_ms: u64,
}

impl Shared {
    /// Returns the age of the oldest write that a power loss would take; none if writes are not
    /// synced at all.
    pub(crate) fn unsynced_age(&self) -> Option<Duration> {
        let (synced, end) = match (&self.journal, self.log.get()) {
            (Some(journal), _) => return Some(journal.unsynced_age()),
            (None, Some(log)) => (log.durable(), log.end()),
            (None, None) if self.store.survives(AppendFsync::Always) == "power loss" => (0, 0),
            (None, None) => return None,
        };
        Some(self.unsynced.note(synced, end, Instant::now()))
    }

    /// Makes the engine append to a log, and replies wait for it, from now on; to be called once.
    pub(crate) fn attach_log(&self, log: &Arc<Aof>) {
        let _ = self.log.set(Arc::clone(log));
        self.log_opened.send_replace(true);
        self.engine.set_log(Arc::clone(log) as Arc<dyn CommandLog>);
    }
}
