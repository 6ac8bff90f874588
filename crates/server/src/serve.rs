//! The server's life: read the configuration, open the store, serve, end.
//!
//! The main thread reads and opens, then accepts connections and waits for signals. Nothing between
//! the program's start and the first accepted connection grows with the number of keys, except the
//! loading of an append-only file, during which clients are answered that data is being loaded.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use commands::{Clock, Engine, EngineOptions, SystemClock, Table};
use keyspace::{DATABASES, Db};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::apply;
use crate::cli::Arguments;
use crate::cluster::{self, ClusterError, OpenNode};
use crate::config::choice::AppendFsync;
use crate::config::file::{ReadError, Reader, escape};
use crate::config::{self, Config, Values};
use crate::dump::load;
use crate::dump::save::Saver;
use crate::host::Server;
use crate::metrics;
use crate::net::listen::{self, ListenError};
use crate::net::meter::Meter;
use crate::net::tls::{self, Tls, TlsError};
use crate::pool::journal::{self, PoolJournal};
use crate::pool::scrub;
use crate::pool::store::{self, Store, StoreError};
use crate::process::log;
use crate::process::machine;
use crate::process::pid_file;
use crate::process::shutdown::Request;
use crate::process::supervisor::Supervisor;
use crate::replication::position;
use crate::replication::primary_link;
use crate::shared::{Parts, Shared};
use crate::threads::housekeeping;
use crate::threads::jobs;
use crate::threads::workers::Workers;
use crate::users::{self, UsersError};

/// Why the server cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The configuration is wrong.
    #[error("{0}")]
    Config(#[from] ReadError),
    /// The users are wrong.
    #[error("{0}")]
    Users(String),
    /// The data cannot be opened.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// No socket can be opened.
    #[error("{0}")]
    Listen(#[from] ListenError),
    /// A TLS port was requested, and TLS cannot be configured.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// No client could connect.
    #[error(
        "the limit of open files ({0}) leaves none for clients: raise it (ulimit -n, LimitNOFILE=)"
    )]
    Files(u64),
    /// More databases are wanted than there are.
    #[error(
        "databases {0}: a store has {DATABASES} databases, since the format of pools has roots for as many and no more. \
         Set databases to {DATABASES} or less, and keep other data in a server of its own, or under a prefix of its keys"
    )]
    Databases(usize),
    /// This server cannot be a node of a cluster.
    #[error("{0}")]
    Node(#[from] ClusterError),
    /// The rest of a synchronization that was interrupted cannot be dropped.
    #[error("the incomplete data of a primary cannot be dropped: {0}")]
    Incomplete(#[from] keyspace::DropError),
    /// The system refuses something else.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
}

fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> ServeError {
    let what = what.into();
    move |source| ServeError::System { what, source }
}

/// Serves until told to end. Errors that prevent serving go to standard error.
pub fn serve(arguments: &Arguments) -> ExitCode {
    match run(arguments) {
        Ok(code) => code,
        Err(error @ ServeError::Config(_)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        Err(error) => {
            let why = machine::why_denied(&error).unwrap_or_default();
            log::fatal(&format!("{error}{why}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode, ServeError> {
    pmem::ignore_file_size_signal();
    let (mut values, file) = configure(arguments)?;
    let notes = enter_folder(&mut values)?;
    let logfile = values.logfile.to_text();
    log::start(&values).map_err(system(format!("Can't open the log file {logfile}")))?;
    greet(&values, file.is_some(), &notes);
    listen::is_somewhere(&values)?;
    apply::fit_to_open_files(&mut values).map_err(ServeError::Files)?;
    if values.databases > DATABASES {
        return Err(ServeError::Databases(values.databases));
    }
    // Mistakes in them are found before there is a store.
    let tls = Tls::default();
    if tls::is_wanted(&values) {
        tls.configure(&values)?;
    }
    let users = users::read(&values).map_err(|error| match error {
        UsersError::Line(error) => ServeError::Config(error),
        error => ServeError::Users(error.to_string()),
    })?;
    let table = name_commands(&values)?;
    let clock = Arc::new(SystemClock);
    let supervisor = Supervisor::of(&values, clock.monotonic());
    let store = store::open(&values, clock.unix_ms())?;
    let fsync = values.appendfsync;
    let mut place = position::found(&store.keyspace);
    if store.keyspace.drop_incomplete(clock.unix_ms())? {
        place = None;
        tracing::warn!("The server ended while it received a primary's data: that is dropped");
    }
    apply::fit_to_store(&mut values, &store.report);
    describe(&store, fsync);
    let config = Config::new(values, file);
    let shared = build_shared_state(Parts { store, table, config, tls, supervisor, clock })?;
    users::set(&shared, users);
    if let Some(journal) = &shared.journal {
        journal.move_slow_syncs();
        shared.engine.set_journal(Arc::clone(journal) as Arc<dyn commands::ReplyLog>);
    }
    let server = Arc::new(Server {
        saver: Saver::new(Arc::clone(&shared)),
        shared: Arc::clone(&shared),
        append_only: OnceLock::new(),
        target: Default::default(),
    });
    server.target.follow_configured(&shared).map_err(system("No random bytes"))?;
    let node = cluster::open(&shared)?;
    if let Some(primary) = node.as_ref().and_then(OpenNode::primary) {
        let followed = server.target.follow(&shared, Some(primary));
        followed.map_err(system("No random bytes"))?;
    }
    if let Some(place) = place {
        position::recover(&shared, place).map_err(system("No random bytes"))?;
    }
    shared.engine.set_host(Arc::clone(&server) as Arc<dyn commands::admin::Host>);
    jobs::start(&shared);
    if let Some(node) = node {
        node.start(&shared, &server)?;
    }
    serve_until_shutdown(&shared, &server)
}

/// Returns the command table, with the names that the configuration gives.
fn name_commands(values: &Values) -> Result<Table, ReadError> {
    let lines = values.renames.iter().filter_map(|line| match line.words.as_slice() {
        [from, to] => Some((from.as_slice(), to.as_slice())),
        _ => None,
    });
    let lines: Vec<(&[u8], &[u8])> = lines.collect();
    commands::renamed_table(&lines)
        .map_err(|(at, error)| values.renames[at].refused(error.to_string()))
}

/// Returns the configuration of the command line, and the file's absolute path.
fn configure(arguments: &Arguments) -> Result<(Values, Option<std::path::PathBuf>), ServeError> {
    let file = match &arguments.file {
        Some(file) => {
            Some(std::path::absolute(file).map_err(system("Can't find the config file"))?)
        }
        None => None,
    };
    let mut more = String::new();
    if arguments.stdin {
        use std::io::Read;
        let mut bytes = Vec::new();
        std::io::stdin()
            .read_to_end(&mut bytes)
            .map_err(system("Can't read directives from standard input"))?;
        more = escape(&bytes);
        more.push('\n');
    }
    more.push_str(&arguments.lines);
    let (values, notes) = Reader::read(file.as_deref(), &more)?;
    for note in notes {
        eprintln!("{note}");
    }
    Ok((values, file))
}

/// Makes `dir` the working directory, to which all relative paths refer.
fn enter_folder(values: &mut Values) -> Result<Vec<(&'static str, &'static str)>, ServeError> {
    let notes = config::without_effect(values);
    let dir = values.dir.to_text();
    if !dir.is_empty() {
        std::env::set_current_dir(&dir).map_err(system(format!("Can't chdir to '{dir}'")))?;
    }
    let here = std::env::current_dir().map_err(system("Can't tell the working directory"))?;
    // Below a folder that this user cannot search, relative paths work and absolute ones do not.
    if here.canonicalize().is_ok() {
        values.dir = here.as_os_str().as_encoded_bytes().into();
    }
    Ok(notes)
}

fn greet(values: &Values, from_file: bool, notes: &[(&str, &str)]) {
    let version = env!("CARGO_PKG_VERSION");
    let pid = std::process::id();
    tracing::info!(
        "Perdura version={version}, redis={}, bits=64, pid={pid}, just started",
        values.redis_version.to_text()
    );
    if from_file {
        tracing::info!("Configuration loaded");
    }
    for (name, why) in notes {
        tracing::info!("Directive '{name}' is accepted and has no effect: {why}");
    }
    tracing::debug!("threads={}, port={}", threads(values), values.port);
}

fn threads(values: &Values) -> usize {
    match values.threads {
        0 => machine::cores(),
        n => n,
    }
}

/// Logs the line that says where the data is stored, and what of it survives what.
fn describe(store: &Store, fsync: AppendFsync) {
    let report = &store.report;
    if let Some(why) = &report.why {
        tracing::info!("Backend {}: {why}", report.backend_name());
    }
    let keys: u64 = Db::all().map(|db| store.keyspace.count(db).0).sum();
    let ms = report.recovery_us as f64 / 1000.0;
    let pool = report.pool.as_ref().map(|p| format!(" pool={}", p.display())).unwrap_or_default();
    let end = match (&report.pool, report.recovery.clean) {
        (None, _) => "",
        (_, _) if report.is_new => ", a new pool",
        (_, true) => ", closed cleanly",
        (_, false) => ", after a crash",
    };
    let end = format!("{}{end}", replayed(store));
    // Only a pool has a domain: an append-only file survives other failures than the memory before
    // it.
    let domain = report.pool.as_ref().map(|_| format!(" domain={}", report.domain));
    let domain = domain.unwrap_or_default();
    if let Some(media) = &report.media {
        tracing::warn!("Every figure is that of an emulated medium: {}", media.summary);
    }
    if let Some(medium) = &report.volatile {
        tracing::warn!(
            "A file of the store is on {medium}: a loss of power, or a restart of the machine, \
             takes it, and the data with it"
        );
    }
    tracing::info!(
        "backend={}{domain}{}{} durability=\"{}\" keys={keys} recovery={ms:.1}ms ({} records, {} words{end}){pool}",
        report.backend_name(),
        if report.emulated { " (emulated)" } else { "" },
        report
            .media
            .as_ref()
            .map(|media| format!(" media={} (emulated)", media.name))
            .unwrap_or_default(),
        report.durability(fsync),
        report.recovery.records,
        report.recovery.words,
    );
    if report.pool.is_some() {
        let heap = store.keyspace.heap();
        tracing::info!(
            "The pool may grow to {} bytes (pool-size), of which {} are in use; when it is full, writes are refused with OOM or \
             keys evicted (maxmemory-policy). CONFIG SET pool-size raises the limit",
            heap.largest_size(),
            heap.used(),
        );
    }
}

/// Describes what was recovered from the journal at the start.
fn replayed(store: &Store) -> String {
    let counts = store.keyspace.heap().region().journal_counts().unwrap_or_default();
    if counts.recovered_batches == 0 {
        return String::new();
    }
    format!(
        ", {} batches with {} bytes of the journal in {:.1} ms",
        counts.recovered_batches,
        counts.recovered_bytes,
        counts.recovery_ns as f64 / 1e6
    )
}

pub(crate) fn build_shared_state(parts: Parts) -> Result<Arc<Shared>, ServeError> {
    let Parts { store, table, config, tls, supervisor, clock } = parts;
    let values = config.values();
    let threads = threads(&values);
    let seed = machine::random::<8>().map_err(system("No random bytes"))?;
    let mut options = EngineOptions::new(Arc::clone(&store.keyspace));
    options.threads = threads;
    options.seed = u64::from_le_bytes(seed);
    options.table = Some(table);
    let started_ms = clock.unix_ms();
    options.clock = clock;
    let journal = PoolJournal::start(
        &store.keyspace,
        store.report.pool.clone(),
        journal::policy(&values),
        threads,
    );
    let shared = Shared {
        engine: Arc::new(Engine::new(options)),
        limits: Default::default(),
        oom_score: Default::default(),
        meters: (0..threads).map(|_| Meter::default().into()).collect(),
        rates: Default::default(),
        unsynced: Default::default(),
        scrub: Default::default(),
        accepted: AtomicU64::new(0),
        rejected: AtomicU64::new(0),
        peak: AtomicU64::new(0),
        active_expire: AtomicBool::new(true),
        cron: AtomicBool::new(true),
        shutdown: Default::default(),
        supervisor,
        loading: Default::default(),
        ports: Default::default(),
        tls,
        store: store.report,
        data_dir: store.data_dir,
        journal: journal.map_err(system("No threads"))?,
        pool_files: Default::default(),
        place: Default::default(),
        log: OnceLock::new(),
        cluster: OnceLock::new(),
        log_opened: watch::channel(false).0,
        run_id: machine::run_id().map_err(system("No random bytes"))?,
        started_ms,
        config,
    };
    apply::all(&shared, &values);
    Ok(Arc::new(shared))
}

/// Serves from the start of the first thread to the end of the last.
fn serve_until_shutdown(
    shared: &Arc<Shared>,
    server: &Arc<Server>,
) -> Result<ExitCode, ServeError> {
    let values = shared.config.values();
    let loading = server.has_to_load();
    shared.engine.config().set_loading(loading);
    let runtime = Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(system("No runtime"))?;
    let workers = Workers::start(shared).map_err(system("No threads"))?;
    shared.engine.client_memory().count_startup(heap::allocated());
    let started = runtime.block_on(async {
        // Before any client is served, so that a port in use is found in time.
        let sockets = metrics::open(&values)?;
        listen::start(shared, workers.senders(), &values)?;
        pid_file::write(&values.pidfile.to_text());
        // Programs that start servers wait for this line, as for the one that Redis has with its
        // logo: from now on clients are answered, if only that data is being loaded.
        tracing::info!("Server initialized, PID: {}", std::process::id());
        metrics::start(shared, sockets).inspect(|_| position::begin(shared))
    });
    let endpoint = match started {
        Ok(endpoint) => endpoint,
        Err(error) => {
            workers.stop();
            let _ = shared.engine.keyspace().heap().close();
            return Err(error.into());
        }
    };
    let housekeeping = spawn_housekeeping(shared, server, loading).map_err(system("No threads"))?;
    let scrub = spawn_scrub(shared).map_err(system("No threads"))?;
    let link = spawn_link(server).map_err(system("No threads"))?;
    if !loading {
        listen::log_ports(&values);
        shared.supervisor.ready();
    }
    runtime.block_on(wait(shared, server));
    shared.supervisor.stopping();
    drop(runtime);
    workers.stop();
    let loads = loading && shared.engine.config().loading() && !shared.shutdown.has_failed();
    if loads && !housekeeping.is_finished() {
        // Nothing was written yet, and no client waits for the rest of the log.
        tracing::info!("Perdura was still loading, bye bye...");
        return Ok(ExitCode::SUCCESS);
    }
    let went_well = housekeeping.join().unwrap_or(false);
    if link.join().is_err() {
        tracing::warn!("The link to the primary ended by a panic");
    }
    if scrub.join().is_err() {
        tracing::warn!("The scrub ended by a panic");
    }
    let went_well = went_well && !shared.shutdown.has_failed();
    let code = shut_down(shared, server, went_well);
    if let Some(endpoint) = endpoint {
        endpoint.stop();
    }
    Ok(code)
}

/// Starts the thread that loads the log and then does the housekeeping; it returns false if loading
/// failed.
fn spawn_housekeeping(
    shared: &Arc<Shared>,
    server: &Arc<Server>,
    loading: bool,
) -> std::io::Result<JoinHandle<bool>> {
    let (shared, server) = (Arc::clone(shared), Arc::clone(server));
    std::thread::Builder::new().name("housekeeping".into()).spawn(move || {
        if loading && let Err(error) = load::load(&shared, &server) {
            log::fatal(&error.to_string());
            shared.shutdown.fail();
            return false;
        }
        housekeeping::run(&shared, || tick(&shared, &server));
        true
    })
}

fn spawn_link(server: &Arc<Server>) -> std::io::Result<JoinHandle<()>> {
    let server = Arc::clone(server);
    std::thread::Builder::new()
        .name("replica-link".into())
        .spawn(move || primary_link::run(&server))
}

fn spawn_scrub(shared: &Arc<Shared>) -> std::io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    std::thread::Builder::new().name("scrub".into()).spawn(move || scrub::run(&shared))
}

/// Begins a dump or a rewrite of the log that is due.
pub(crate) fn tick(shared: &Shared, server: &Server) {
    let append_only = server.append_only.get();
    server.saver.tick(append_only.is_some_and(|append_only| append_only.is_rewriting()));
    let Some(append_only) = append_only.filter(|_| !server.saver.is_busy()) else { return };
    let values = shared.config.values();
    append_only.tick(aof::Growth {
        percentage: values.auto_aof_rewrite_percentage,
        min_size: values.auto_aof_rewrite_min_size,
    });
}

/// Why the server is to end.
enum Cause {
    Term,
    Int,
    /// A client's SHUTDOWN, which has to wait for replicas.
    Client(Request),
}

impl Cause {
    /// Returns what it is for the log, and how to end.
    fn request(self, shared: &Shared) -> (&'static str, Request) {
        let values = shared.config.values();
        let (signal, flags) = match self {
            Cause::Client(request) => {
                tracing::info!("User requested shutdown...");
                return ("SHUTDOWN", request);
            }
            Cause::Term => ("SIGTERM", &values.shutdown_on_sigterm),
            Cause::Int => ("SIGINT", &values.shutdown_on_sigint),
        };
        tracing::info!("Received {signal} scheduling shutdown...");
        (signal, Request::of(&flags.to_text()))
    }
}

/// Waits for a signal or a command that ends the server.
async fn wait(shared: &Shared, server: &Arc<Server>) {
    let on = |kind| signal(kind).ok();
    let (mut term, mut int) = (on(SignalKind::terminate()), on(SignalKind::interrupt()));
    // Redis ignores a closed terminal.
    let _ignored = on(SignalKind::hangup());
    loop {
        let cause = tokio::select! {
            _ = received(&mut term) => Cause::Term,
            _ = received(&mut int) => Cause::Int,
            request = shared.shutdown.begun() => Cause::Client(request),
            _ = shared.shutdown.asked() => {
                if !shared.shutdown.has_failed() {
                    tracing::info!("User requested shutdown...");
                }
                break;
            }
        };
        let (what, request) = cause.request(shared);
        let of_save = Arc::clone(server);
        let save = tokio::task::spawn_blocking(move || of_save.prepare_end(request));
        let saved = tokio::select! {
            saved = save => saved,
            // SHUTDOWN NOSAVE, while the save waits for an endless script.
            _ = shared.shutdown.asked() => break,
        };
        if matches!(saved, Ok(Ok(()))) {
            shared.shutdown.request(request);
            break;
        }
        server.cancel_shutdown();
        tracing::warn!(
            "{what} received but errors trying to shut down the server, check the logs for more information"
        );
    }
    // No client has a reply of theirs yet, so their writes are undone.
    shared.engine.kill_scripts();
    shared.shutdown.request(Request::default());
}

async fn received(signal: &mut Option<tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Writes a dump once more if data changed after the last one, while the server was about to end.
/// Returns false if that failed.
fn save_last_changes(shared: &Shared, server: &Server) -> bool {
    let request = shared.shutdown.get().unwrap_or_default();
    // Of data that is being received nothing is saved over the last dump.
    let is_whole = !shared.engine.keyspace().is_syncing();
    if is_whole && server.saver.changes() > 0 && server.save_before_end(request).is_err() {
        return false;
    }
    server.saver.stop();
    true
}

/// Makes everything durable and closes the store.
fn shut_down(shared: &Shared, server: &Server, went_well: bool) -> ExitCode {
    let mut code = if went_well { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if let Some(append_only) = server.append_only.get()
        && let Err(failure) = append_only.stop()
    {
        tracing::error!("The append only file could not be synced: {failure}");
        code = ExitCode::FAILURE;
    }
    if !save_last_changes(shared, server) {
        code = ExitCode::FAILURE;
    }
    shared.engine.keyspace().resolve_losses();
    if code == ExitCode::SUCCESS {
        position::leave(shared);
    }
    if let Some(journal) = &shared.journal {
        journal.stop();
    }
    if let Err(why) = crate::pool::watch::close(shared) {
        tracing::error!("The pool could not be closed: {why}");
        code = ExitCode::FAILURE;
    }
    let values = shared.config.values();
    shared.ports.remove_unix();
    pid_file::remove(&values.pidfile.to_text());
    if !shared.shutdown.has_failed() {
        tracing::info!("Perdura is now ready to exit, bye bye...");
    }
    code
}
