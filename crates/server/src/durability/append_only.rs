//! The append-only file in the server: loading it at the start, rewriting it during
//! service.
//!
//! Loading runs on the thread that starts the server, and reports its progress once a second. A
//! rewrite runs on a thread of its own, one at a time, and gives up when the server stops. The log
//! handles its own failures: it refuses later commands until a failed write was repeated with
//! success, or for good. The commit barrier ensures that nothing is acknowledged that is not kept.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aof::{Aof, Fsync, Growth, Loader, OpenError, Options, Progress, Rewritten};
use commands::admin::{AofFacts, SyncTimes};
use commands::{Engine, ReplayError, RewriteLogError, SaveOptions};

use crate::config::Values;
use crate::config::choice::AppendFsync;
use crate::dump::key_delay::KeyDelay;
use crate::net::spool;

/// How often the progress of loading is logged.
pub(crate) const REPORT_EVERY: Duration = Duration::from_secs(1);

/// The warning after a rewrite without a log: Redis leaves such files unread, a start here is
/// refused next to them (`other-stores`).
const LEFT_OFF: &str = "appendonly is off: the append-only file that was written has the data of \
                        this moment and gets no more. Start with --appendonly yes to be served \
                        it; a start with --appendonly no is refused until it is moved to \
                        another directory";

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The data cannot be restored from the log.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The log cannot be opened for appending.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// A rewrite is already running.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// Returns the location and the policy of the log, from the configuration.
pub(crate) fn options(values: &Values) -> Options {
    let mut options = Options::new(values.dir.to_text());
    options.dirname = values.appenddirname.to_text();
    options.filename = values.appendfilename.to_text();
    options.fsync = fsync(values);
    options.load_truncated = values.aof_load_truncated;
    options.timestamps = values.aof_timestamp_enabled;
    options
}

/// Returns when the append-only file is synced.
pub(crate) fn fsync(values: &Values) -> Fsync {
    match values.appendfsync {
        AppendFsync::Always => Fsync::Always,
        AppendFsync::No => Fsync::No,
        AppendFsync::EverySec => Fsync::EverySecond,
    }
}

/// Loads the log into the engine, which must be empty, and opens it for appending. The caller keeps
/// the engine in its loading state until the log is in place: nothing may be executed that is not
/// logged.
pub(crate) fn load(
    options: Options,
    engine: &Engine,
    show: &dyn Fn(Progress),
) -> Result<Aof, StartError> {
    let mut loader = Loader::open(options).map_err(ReplayError::from)?;
    let is_new = loader.is_new();
    let started = Instant::now();
    let mut last = started;
    commands::replay(engine, &mut loader, &mut |progress| {
        show(progress);
        if last.elapsed() >= REPORT_EVERY {
            last = Instant::now();
            report(progress, started.elapsed());
        }
    })?;
    if !is_new {
        let loaded = loader.loaded();
        tracing::info!(
            "DB loaded from append only file: {:.3} seconds, {} commands, {} bytes",
            started.elapsed().as_secs_f64(),
            loaded.commands,
            loaded.bytes
        );
    }
    Ok(loader.into_log()?)
}

fn report(progress: Progress, elapsed: Duration) {
    let share = progress.done as f64 / progress.total.max(1) as f64;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    tracing::info!(
        "Loading the append only file: {:.1} % ({:.1} of {:.1} MiB), {:.0} s so far",
        share * 100.0,
        mib(progress.done),
        mib(progress.total),
        elapsed.as_secs_f64()
    );
}

#[derive(Default)]
struct Job {
    thread: Option<JoinHandle<()>>,
    began: Option<Duration>,
    last: Option<Duration>,
    ended: Option<Duration>,
    /// Whether another rewrite was requested while this one was being given up: it follows at once.
    is_followed: bool,
}

const OFF: &str = "the append only file is not complete yet";

/// The log of a running server.
pub(crate) struct AppendOnly {
    log: Arc<Aof>,
    engine: Arc<Engine>,
    options: Options,
    /// The configuration, as it is when a rewrite begins.
    values: Box<dyn Fn() -> Values + Send + Sync>,
    job: Mutex<Job>,
    stopping: AtomicBool,
    /// Whether the present rewrite is to end because the log was switched off.
    ending: AtomicBool,
    /// Whether the log is to be on: `appendonly`.
    wanted: AtomicBool,
    /// Whether a rewrite is to begin when no dump is being written any more.
    scheduled: AtomicBool,
}

/// The pause before the next try while another thread reads a snapshot, or a script runs.
const BUSY_WAIT: Duration = Duration::from_millis(10);
/// The pause between two attempts to switch the log on.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl AppendOnly {
    pub(crate) fn new(
        log: Arc<Aof>,
        engine: Arc<Engine>,
        options: Options,
        values: impl Fn() -> Values + Send + Sync + 'static,
    ) -> Arc<AppendOnly> {
        let (stopping, ending) = Default::default();
        let (wanted, scheduled) = (AtomicBool::new(!log.is_off()), AtomicBool::new(false));
        let job = Mutex::default();
        let values = Box::new(values);
        Arc::new(AppendOnly {
            log,
            engine,
            options,
            values,
            job,
            stopping,
            ending,
            wanted,
            scheduled,
        })
    }

    /// Opens the log so far to be read once more, or what remains of a log that is switched off.
    /// The caller holds all shards, so that nothing is added.
    pub(crate) fn open(&self) -> Result<Loader, String> {
        if self.job().began.is_some() {
            return Err("the append only file is being rewritten".into());
        }
        if !self.log.is_off() {
            if !self.log.is_whole() {
                return Err(OFF.into());
            }
            self.log.sync_all().map_err(|error| error.to_string())?;
        }
        let options = Options { load_truncated: false, ..self.options.clone() };
        let loader = Loader::open(options).map_err(|error| error.to_string())?;
        if loader.is_new() {
            Err("there is no append only file to load".into())
        } else {
            Ok(loader)
        }
    }

    /// Returns the log itself.
    pub(crate) fn log(&self) -> &Arc<Aof> {
        &self.log
    }

    fn now(&self) -> Duration {
        self.engine.clock().monotonic()
    }

    fn job(&self) -> MutexGuard<'_, Job> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that commands are appended to the log from now on. Commands executed during an earlier
    /// rewrite are in neither file.
    pub(crate) fn note_attached(&self) {
        if self.is_rewriting() {
            self.log.note_skipped();
        }
    }

    /// Switches the log off, or begins to switch it on: it is complete at the end of a rewrite.
    pub(crate) fn switch(self: &Arc<AppendOnly>, on: bool) -> Result<(), aof::Failure> {
        let was_wanted = self.wanted.swap(on, Ordering::Relaxed);
        if !on {
            if was_wanted && self.is_rewriting() {
                tracing::info!("Killing running AOF rewrite: no child, its thread gives it up");
                self.ending.store(true, Ordering::Relaxed);
            }
            tracing::info!(
                "The append only file is switched off: what is written from now on is in memory only"
            );
            return self
                .log
                .switch_off()
                .inspect_err(|_| self.wanted.store(true, Ordering::Relaxed));
        }
        if self.log.is_off() {
            // If a rewrite is running, the next tick begins another one.
            let _ = self.rewrite();
        }
        Ok(())
    }

    /// Returns true if a crash would lose data that is acknowledged now: the log is off, or not yet
    /// complete.
    pub(crate) fn is_off(&self) -> bool {
        !self.log.is_whole()
    }

    /// Returns true if the log is on, or is to be when a rewrite ends.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Returns true if a rewrite is running.
    pub(crate) fn is_rewriting(&self) -> bool {
        self.job().began.is_some()
    }

    /// Schedules a rewrite for when no dump is being written any more.
    pub(crate) fn schedule(&self) {
        self.scheduled.store(true, Ordering::Relaxed);
    }

    /// Begins a rewrite. A log that is off is switched on by it, and off again at its end unless it
    /// is to stay on; the file then has the data of that moment. The caller may hold shards, since
    /// the new thread takes the cut.
    pub(crate) fn rewrite(self: &Arc<AppendOnly>) -> Result<(), Busy> {
        let mut job = self.job();
        if job.began.is_some() {
            if job.is_followed || !self.ending.load(Ordering::Relaxed) {
                return Err(Busy);
            }
            job.is_followed = true;
            return Ok(());
        }
        job.began = Some(self.now());
        self.ending.store(false, Ordering::Relaxed);
        let this = Arc::clone(self);
        let name = "aof-rewrite".to_owned();
        match std::thread::Builder::new().name(name).spawn(move || this.run()) {
            Ok(thread) => job.thread = Some(thread),
            Err(error) => {
                tracing::warn!("Can't rewrite append only file in background: {error}");
                job.began = None;
            }
        }
        Ok(())
    }

    /// Rewrites the log, and again if that was requested while the rewrite was being given up.
    fn run(&self) {
        loop {
            self.run_once();
            let mut job = self.job();
            let now = self.now();
            job.last = job.began.take().map(|began| now.saturating_sub(began));
            job.ended = Some(now);
            if !std::mem::take(&mut job.is_followed) || self.stopping.load(Ordering::Relaxed) {
                return;
            }
            job.began = Some(self.now());
            self.ending.store(false, Ordering::Relaxed);
        }
    }

    fn run_once(&self) {
        tracing::info!("Background append only file rewriting started");
        let revives = self.log.is_off();
        // The base has what was skipped so far.
        let skipped = self.log.skipped();
        let written = self.write_base(revives);
        // A command that had begun before there was a log is in neither file: rewrite again.
        let is_short = revives && self.log.skipped() != skipped;
        if matches!(written, Ok(Some(_))) {
            self.log.cover_skipped(skipped);
        }
        match written {
            Ok(Some(done)) => tracing::info!(
                "Background AOF rewrite finished successfully: base of {} bytes, {} bytes in all",
                done.base,
                done.total
            ),
            Ok(None) => tracing::info!("Background AOF rewrite given up"),
            Err(ref error) => tracing::warn!("Background AOF rewrite failed: {error}"),
        }
        let is_to_be_off = revives && (is_short || !self.wanted.load(Ordering::Relaxed));
        if is_to_be_off {
            let _ = self.log.switch_off();
            if matches!(written, Ok(Some(_))) && !is_short {
                tracing::warn!("{LEFT_OFF}");
            }
        }
    }

    /// Returns true if a rewrite is to go on, after the delay that tests configure.
    fn go_on(&self, delay: &KeyDelay) -> bool {
        let is_ending =
            || self.stopping.load(Ordering::Relaxed) || self.ending.load(Ordering::Relaxed);
        delay.wait(1, &self.values, || !is_ending())
    }

    /// Writes a new base: a dump, unless `aof-use-rdb-preamble no` asks for commands.
    fn write_base(&self, revives: bool) -> Result<Option<Rewritten>, RewriteLogError> {
        let values = (self.values)();
        let delay = KeyDelay::new(&values);
        let go_on = || self.go_on(&delay);
        let is_dump = values.aof_use_rdb_preamble;
        let folder = self.options.dir.join(&self.options.dirname);
        let dump = SaveOptions {
            stream: &|| None,
            compresses: values.rdbcompression,
            has_checksum: values.rdbchecksum,
            is_base: true,
            is_for_valkey: false,
            is_background: true,
            backend: "aof",
            spool: &|| spool::make(&folder),
            go_on: &|_| go_on(),
        };
        let dump = is_dump.then_some(&dump);
        loop {
            match commands::rewrite_log(&self.engine, &self.log, revives, &go_on, dump) {
                Err(RewriteLogError::Busy) if go_on() => std::thread::sleep(BUSY_WAIT),
                done => return done,
            }
        }
    }

    /// To be called periodically, while no dump is being written: begins a rewrite that was
    /// scheduled, or that the log's growth makes due.
    pub(crate) fn tick(self: &Arc<AppendOnly>, growth: Growth) {
        let waits = |ended| self.now().saturating_sub(ended) < RETRY_AFTER;
        let (is_off, is_wanted) = (self.log.is_off(), self.wanted.load(Ordering::Relaxed));
        // The log was switched on, or lacks writes of a command that had begun before there was a
        // log and that waited for its keys until the rewrite was over.
        let is_to_be_whole = is_wanted && (is_off || self.log.has_skipped());
        {
            let job = self.job();
            if job.began.is_some() || is_to_be_whole && job.ended.is_some_and(waits) {
                return;
            }
        }
        if is_to_be_whole || self.scheduled.swap(false, Ordering::Relaxed) {
            let _ = self.rewrite();
            return;
        }
        if is_off {
            return;
        }
        if !is_wanted {
            // A rewrite that only was to leave a file failed to switch the log off at its end.
            let _ = self.log.switch_off();
            return;
        }
        if let Some(percent) = self.log.growth_due(growth) {
            tracing::info!("Starting automatic rewriting of AOF on {percent}% growth");
            let _ = self.rewrite();
        }
    }

    /// Returns the figures for INFO.
    pub(crate) fn facts(&self) -> AofFacts {
        let figures = self.log.figures();
        let job = self.job();
        AofFacts {
            enabled: self.wanted.load(Ordering::Relaxed),
            rewriting: job.began.is_some(),
            last_rewrite_s: job.last.map(|time| time.as_secs()),
            current_rewrite_s: job.began.map(|began| self.now().saturating_sub(began).as_secs()),
            rewrite_ok: figures.last_rewrite_ok,
            rewrites: figures.rewrites,
            rewrite_scheduled: self.scheduled.load(Ordering::Relaxed),
            rewrite_failures: figures.failed_rewrites,
            write_ok: self.log.status().is_ok(),
            size: figures.current_size,
            base_size: figures.base_size,
            buffered: figures.buffered as u64,
            syncs: figures.syncs,
            sync_times: SyncTimes { nanos: figures.sync_ns, counts: figures.sync_times },
        }
    }

    /// Gives up a rewrite and makes everything durable.
    pub(crate) fn stop(&self) -> Result<(), aof::Failure> {
        self.stopping.store(true, Ordering::Relaxed);
        let thread = self.job().thread.take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
        tracing::info!("Calling fsync() on the AOF file.");
        self.log.sync_all()
    }
}
