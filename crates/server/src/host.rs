//! The server as administrative commands see it: configuration, counters, the append-only file.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aof::Aof;
use commands::Primary;
use commands::admin::{DiskFacts, Facts, Host, PassDump, Persistence, SaveLocked, SentDump, Wire};
use commands::{Failure, LOADING_DATA};

use crate::apply;
use crate::config::choice::{AppendFsync, Permission};
use crate::config::row::{Effect, Row};
use crate::config::{Refusal, Values, rewrite};
use crate::dump::save::{self, Saver};
use crate::durability::append_only::{self, AppendOnly};
use crate::net::meter::{self, Totals};
use crate::pool::other_stores;
use crate::pool::store::Backend;
use crate::pool::watch;
use crate::process::disks;
use crate::process::machine;
use crate::process::shutdown::Request;
use crate::replication::primary_target::PrimaryTarget;
use crate::shared::Shared;
use crate::users;

/// The interface through which commands reach the server.
pub(crate) struct Server {
    pub(crate) shared: Arc<Shared>,
    pub(crate) append_only: OnceLock<Arc<AppendOnly>>,
    /// The primary to follow.
    pub(crate) target: PrimaryTarget,
    pub(crate) saver: Arc<Saver>,
}

/// The error when a dump is being written already.
const SAVING: &str = "ERR Background save already in progress";
/// The error when too many dumps are being sent.
const SENDING: &str = "ERR as many dumps as are possible at once are being sent: try again later";
/// Redis's answer when a dump could not be written; the log has the reason.
const NOT_SAVED: &str = "ERR";
/// The error of a dump while the log is rewritten.
const REWRITING: &str = "ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to schedule a BGSAVE whenever possible.";

fn failure(refusal: Refusal) -> Failure {
    Failure::text(match refusal {
        Refusal::Unknown(name) => {
            format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'")
        }
        Refusal::Value { name, why } => {
            format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
        }
    })
}

impl Host for Server {
    fn config_matching(&self, patterns: &[&[u8]]) -> Vec<(String, Vec<u8>)> {
        self.shared.config.matching(patterns)
    }

    fn config_set(&self, pairs: &[(&[u8], &[u8])], local: bool) -> Result<(), Failure> {
        let loading = self.shared.engine.config().loading();
        if loading && pairs.iter().any(|(name, _)| waits_for_loading(name)) {
            return Err(LOADING_DATA.into());
        }
        let protected = is_permitted(self.shared.config.values().enable_protected_configs, local);
        let change = |after: &Values, rows: &[&'static Row]| {
            let has = |effect| rows.iter().any(|row| row.effect == effect);
            apply::change(&self.shared, after, rows)?;
            if has(Effect::SwitchLog) {
                self.switch_log(after)?;
            }
            if has(Effect::SetPassword) {
                self.shared.engine.permissions().set_default_password(&after.requirepass);
            }
            Ok(())
        };
        self.shared.config.set(pairs, protected, change).map_err(failure)?;
        self.saver.refuse_writes_after_failure();
        Ok(())
    }

    fn config_rewrite(&self, all: bool) -> Result<(), Failure> {
        let config = &self.shared.config;
        let Some(file) = config.file() else {
            return Err("ERR The server is running without a config file".into());
        };
        let values = config.values();
        // Users of a file of their own have no lines here.
        let users = if values.aclfile.is_empty() {
            commands::user_lines_with(&self.shared.engine, &values.requirepass)
        } else {
            Vec::new()
        };
        match rewrite::rewrite(file, &values, &users, all) {
            Ok(()) => {
                tracing::info!("CONFIG REWRITE executed with success.");
                Ok(())
            }
            Err(error) => {
                let why = crate::process::text::os_error(&error);
                tracing::warn!("CONFIG REWRITE failed: {why}");
                Err(Failure::text(format!("ERR Rewriting config file: {why}")))
            }
        }
    }

    fn allows_debug(&self, local: bool) -> bool {
        is_permitted(self.shared.config.values().enable_debug_command, local)
    }

    fn reset_stats(&self) {
        meter::reset(&self.shared.meters);
        self.shared.engine.clients().reset_evicted();
        self.shared.accepted.store(0, Relaxed);
        self.shared.rejected.store(0, Relaxed);
        self.shared.peak.store(0, Relaxed);
    }

    fn facts(&self) -> Facts {
        let shared = &*self.shared;
        let values = shared.config.values();
        let totals = Totals::of(&shared.meters);
        let [ops, input, output] = shared.rates.per_second();
        let (sys, user) = machine::cpu();
        let path = |path: Option<std::path::PathBuf>| {
            path.map(|p| p.display().to_string()).unwrap_or_default()
        };
        Facts {
            version: env!("CARGO_PKG_VERSION").into(),
            os: machine::os(),
            shutdown_in_ms: shared
                .shutdown
                .until_ms()
                .map(|until| until.saturating_sub(shared.engine.clock().unix_ms())),
            run_id: shared.run_id.clone(),
            process_id: std::process::id(),
            tcp_port: first_port(&values),
            executable: path(std::env::current_exe().ok()),
            config_file: path(shared.config.file().cloned()),
            started_ms: shared.started_ms,
            supervised: shared.supervisor.name().into(),
            hz: values.hz,
            threads: shared.meters.len(),
            max_clients: shared.limits.max_clients.load(Relaxed),
            connections: shared.accepted.load(Relaxed),
            rejected: shared.rejected.load(Relaxed),
            net_in: totals.bytes_in,
            net_out: totals.bytes_out,
            reads: totals.reads,
            writes: totals.writes,
            ops_per_sec: ops,
            in_per_sec: input,
            out_per_sec: output,
            rss: machine::resident(),
            system_memory: machine::memory(),
            cpu_sys_us: sys.as_micros() as u64,
            cpu_user_us: user.as_micros() as u64,
            peak_memory: shared.peak.load(Relaxed),
            defragmented: totals.moved + shared.engine.memory_limits().compacted(),
            defragmenting: shared.limits.defragment.load(Relaxed),
            max_memory: values.maxmemory,
            policy: values.maxmemory_policy.name().into(),
            percentiles: values.latency_tracking_info_percentiles.clone(),
            persistence: self.persistence(&totals, values.appendfsync),
        }
    }

    fn disks(&self) -> Vec<DiskFacts> {
        disks::disks(&self.shared.config.values(), self.shared.store.pool.as_deref())
    }

    fn rewrite_log(&self, schedules: bool) -> Result<String, Failure> {
        // A restart has nothing to read, rewritten or not, so the request is fulfilled already.
        if self.shared.store.backend == Backend::Pmem {
            let text = "The pool is durable by itself: there is no append only file to rewrite";
            return Ok(text.into());
        }
        let append_only = self.append_only_or_off(&self.shared.config.values(), "rewrite")?;
        if schedules || self.saver.is_busy() {
            append_only.schedule();
            return Ok("Background append only file rewriting scheduled".into());
        }
        match append_only.rewrite() {
            Ok(()) => Ok("Background append only file rewriting started".into()),
            Err(_) => Err("ERR Background append only file rewriting already in progress".into()),
        }
    }

    fn save(&self) -> Result<(), Failure> {
        written(self.saver.save())
    }

    fn save_locked(&self, write: &mut SaveLocked<'_>) -> Result<(), Failure> {
        written(self.saver.save_locked(write))
    }

    fn open_dump(&self) -> Result<Option<Box<dyn BufRead>>, Failure> {
        if self.shared.store.backend != Backend::Volatile {
            return Ok(None);
        }
        let path = other_stores::dump(&self.shared.config.values());
        match File::open(&path) {
            Ok(file) => Ok(Some(Box::new(BufReader::with_capacity(1 << 20, file)))),
            Err(error) => Err(Failure::text(format!(
                "ERR Error trying to load the RDB dump ({}): {}, check server logs.",
                path.display(),
                crate::process::text::os_error(&error)
            ))),
        }
    }

    fn save_in_background(&self, schedule: bool) -> Result<String, Failure> {
        if self.saver.is_busy() {
            return Err(SAVING.into());
        }
        if self.append_only.get().is_some_and(|append_only| append_only.is_rewriting()) {
            if !schedule {
                return Err(REWRITING.into());
            }
            self.saver.schedule();
            return Ok("Background saving scheduled".into());
        }
        self.saver.save_in_background().map_err(|_| SAVING)?;
        Ok("Background saving started".into())
    }

    fn wait_for_snapshot(&self) {
        self.saver.wait_for_snapshot();
    }

    fn wait_for_save_of_flush(&self) {
        self.saver.wait_for_save_of_flush();
    }

    fn end_save(&self) {
        if !self.shared.engine.config().loading() {
            self.saver.end_for_flush();
        }
    }

    fn dial(&self, host: &str, port: u16, timeout: Duration) -> io::Result<Box<dyn Wire>> {
        let is_encrypted = self.shared.config.values().tls_cluster;
        self.connect(host, port, is_encrypted, (timeout, timeout)).map(|connected| connected.wire)
    }

    fn follow(&self, primary: Option<Primary>) -> Result<(), Failure> {
        self.target
            .follow(&self.shared, primary)
            .map_err(|error| Failure::text(format!("ERR {error}")))
    }

    fn send_dump(&self, dump: SentDump, pass: PassDump) -> Result<(), Failure> {
        self.saver.send(dump, pass).map_err(|_| SENDING.into())
    }

    fn prepare_shutdown(&self, save: bool, nosave: bool, force: bool) -> Result<(), Failure> {
        self.save_before_end(Request { save, nosave, force, ..Request::default() })
    }

    fn begin_shutdown(&self, client: u64, save: bool, nosave: bool, force: bool) {
        let request = Request { save, nosave, force, ..Request::default() };
        self.shared.shutdown.begin(client, request);
    }

    fn abort_shutdown(&self) -> bool {
        self.shared.shutdown.abort()
    }

    fn open_log(&self) -> Result<Option<aof::Loader>, Failure> {
        if self.shared.store.backend == Backend::Pmem {
            return Ok(None);
        }
        let append_only = self.append_only_or_off(&self.shared.config.values(), "load")?;
        append_only.open().map(Some).map_err(|error| Failure::text(format!("ERR {error}")))
    }

    fn acl_file(&self) -> Option<String> {
        Some(self.shared.config.values().aclfile.to_text()).filter(|name| !name.is_empty())
    }

    fn read_acl_file(&self) -> io::Result<Vec<u8>> {
        let text = users::read_file(&self.shared.config.values());
        text.map_err(|error| io::Error::other(crate::process::text::os_error(&error)))
    }

    fn write_acl_file(&self, text: &[u8]) -> io::Result<()> {
        rewrite::overwrite(&users::file(&self.shared.config.values()), text)
    }

    fn fill_random(&self, bytes: &mut [u8]) -> io::Result<()> {
        machine::fill_random(bytes)
    }

    fn set_active_expire(&self, yes: bool) {
        self.shared.active_expire.store(yes, Relaxed);
    }

    fn set_cron(&self, yes: bool) {
        self.shared.cron.store(yes, Relaxed);
    }

    fn log(&self, line: &str) {
        tracing::warn!("{line}");
    }

    fn sleep(&self, time: Duration) {
        self.target.hold_up(|| self.shared.engine.clock().sleep(time));
    }
}

/// Returns the port for INFO: that of plain connections, if there is one.
fn first_port(values: &Values) -> u16 {
    match values.port {
        0 => values.tls_port,
        port => port,
    }
}

/// Returns true if a directive cannot be changed while data is loaded, since it says where from.
fn waits_for_loading(name: &[u8]) -> bool {
    Row::find(name).is_some_and(|row| matches!(row.effect, Effect::SwitchLog | Effect::ChangeDir))
}

/// Returns true if a client may do what such a directive restricts; `local`: it is on this machine.
fn is_permitted(permission: Permission, local: bool) -> bool {
    match permission {
        Permission::Yes => true,
        Permission::Local => local,
        Permission::No => false,
    }
}

fn written(saved: Result<bool, save::Busy>) -> Result<(), Failure> {
    match saved {
        Ok(true) => Ok(()),
        Ok(false) => Err(NOT_SAVED.into()),
        Err(save::Busy) => Err(SAVING.into()),
    }
}

/// A connection to another server.
pub(crate) struct Connected {
    pub(crate) wire: Box<dyn Wire>,
    /// The socket below, to end the connection from elsewhere.
    pub(crate) socket: TcpStream,
    /// The other's address.
    pub(crate) peer: SocketAddr,
    /// This server's.
    pub(crate) local: Option<SocketAddr>,
}

impl Server {
    /// Connects to another server. Connecting and writing take at most the first time, one read at
    /// most the second.
    pub(crate) fn connect(
        &self,
        host: &str,
        port: u16,
        is_encrypted: bool,
        timeouts: (Duration, Duration),
    ) -> io::Result<Connected> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeouts.0) {
                Ok(stream) => {
                    stream.set_write_timeout(Some(timeouts.0))?;
                    stream.set_read_timeout(Some(timeouts.0))?;
                    stream.set_nodelay(true)?;
                    let socket = stream.try_clone()?;
                    let mut wire: Box<dyn Wire> =
                        match self.shared.tls.client().filter(|_| is_encrypted) {
                            Some(client) => client.connect(stream, address.ip())?,
                            None => Box::new(stream),
                        };
                    // A handshake takes longer than one read.
                    wire.flush()?;
                    socket.set_read_timeout(Some(timeouts.1))?;
                    let local = socket.local_addr().ok();
                    return Ok(Connected { wire, socket, peer: address, local });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Writes the data that would be lost with the process: the last dump, if one is wanted, and
    /// the data of a pool whose file was removed. The server ends only if that succeeds, or with
    /// FORCE.
    pub(crate) fn save_before_end(&self, request: Request) -> Result<(), Failure> {
        self.save_last_dump(request)?;
        match watch::rescue(&self.shared) {
            Ok(()) => Ok(()),
            Err(why) if request.force => {
                tracing::warn!("The pool's data is not written, but FORCE was asked for: {why}");
                Ok(())
            }
            Err(why) => {
                tracing::warn!("The pool's data cannot be written, can't exit: {why}");
                Err("ERR Errors trying to SHUTDOWN. Check logs.".into())
            }
        }
    }

    fn save_last_dump(&self, request: Request) -> Result<(), Failure> {
        let by_itself = save::has_points(&self.shared.config.values());
        let wants = (request.save || by_itself) && !request.nosave;
        if !wants || self.shared.engine.config().loading() {
            return Ok(());
        }
        self.saver.stop();
        tracing::info!("Saving the final RDB snapshot before exiting.");
        match self.saver.save() {
            Ok(true) => Ok(()),
            _ if request.force => {
                tracing::warn!("Error trying to save the DB, but FORCE was asked for: exiting");
                Ok(())
            }
            _ => {
                tracing::warn!("Error trying to save the DB, can't exit.");
                Err("ERR Errors trying to SHUTDOWN. Check logs.".into())
            }
        }
    }

    /// Switches the log on or off where CONFIG SET changed that.
    fn switch_log(&self, after: &Values) -> Result<(), Refusal> {
        let on = after.appendonly;
        let has_none = self.append_only.get().is_none() && !self.is_logged();
        let is_pool = self.shared.store.backend == Backend::Pmem;
        if is_pool || has_none && !on {
            return Ok(());
        }
        let refused = |why: String| Refusal::Value { name: "appendonly".into(), why };
        if self.append_only.get().is_none() && self.is_logged() {
            return Err(refused("the append only file is being loaded".into()));
        }
        let append_only = self.append_only_or_off(after, "switch on");
        let append_only = append_only
            .map_err(|failure| refused(String::from_utf8_lossy(failure.as_bytes()).into_owned()))?;
        if on && self.shared.log.get().is_none() {
            // The log may have been made under another policy.
            let fsync = append_only::fsync(after);
            append_only.log().set_fsync(fsync).map_err(|failure| refused(failure.to_string()))?;
            append_only.log().set_timestamps(after.aof_timestamp_enabled);
            self.shared.attach_log(append_only.log());
            append_only.note_attached();
        }
        append_only.switch(on).map_err(|failure| refused(failure.to_string()))
    }

    /// Returns the log. In-memory data without one gets a log that is switched off, so that nothing
    /// is appended to it.
    fn append_only_or_off(
        &self,
        values: &Values,
        wanted_to: &str,
    ) -> Result<&Arc<AppendOnly>, Failure> {
        if self.append_only.get().is_none()
            && self.shared.store.backend == Backend::Volatile
            && !self.shared.engine.config().loading()
        {
            let options = append_only::options(values);
            let log = Aof::open_off(options.clone())
                .map_err(|error| Failure::text(format!("ERR {error}")))?;
            let (engine, of_values) = (Arc::clone(&self.shared.engine), Arc::clone(&self.shared));
            let values = move || of_values.config.values();
            let _ = self.append_only.set(AppendOnly::new(Arc::new(log), engine, options, values));
        }
        self.append_only.get().ok_or_else(|| self.lacks_log(wanted_to))
    }

    fn lacks_log(&self, wanted_to: &str) -> Failure {
        let backend = self.shared.store.backend_name();
        Failure::text(format!("ERR the {backend} backend has no append only file to {wanted_to}"))
    }

    fn persistence(&self, totals: &Totals, fsync: AppendFsync) -> Persistence {
        let store = &self.shared.store;
        Persistence {
            backend: store.backend_name().into(),
            // For data in memory the domain says nothing about what its append-only file survives.
            domain: store.pool.as_ref().map_or("none".into(), |_| store.domain.to_string()),
            emulated: store.emulated,
            media: store.media.as_ref().map_or("no", |media| media.name).into(),
            volatile_medium: store.volatile.clone().unwrap_or_default(),
            durability: match self.append_only.get() {
                Some(append_only) if !append_only.is_off() => store.durability_of_log(fsync),
                Some(_) if store.backend == Backend::Aof => {
                    "nothing that was written since the append only file was switched off survives the end of the process"
                }
                _ => store.durability(fsync),
            }
            .into(),
            survives: match self.append_only.get() {
                Some(append_only) if append_only.is_off() => "nothing",
                Some(_) => store.survives_of_log(fsync),
                None => store.survives(fsync),
            }
            .into(),
            pool: store.pool.as_ref().map(|p| p.display().to_string()).unwrap_or_default(),
            pool_size: self.shared.engine.keyspace().heap().size(),
            pool_space: self.shared.engine.keyspace().heap().space_taken(),
            recovery_us: store.recovery_us,
            recovery_records: store.recovery.records,
            recovery_words: store.recovery.words,
            clean: store.recovery.clean,
            fences: totals.fences,
            lines: totals.lines,
            streamed: totals.streamed,
            unsynced_us: self.shared.unsynced_age().map(|age| age.as_micros() as u64),
            scrub: self.shared.scrub.facts(
                self.shared.engine.keyspace().shards(),
                self.shared.limits.scrub_rate.load(Relaxed),
            ),
            rdb: self.saver.facts(),
            journal: self
                .shared
                .journal
                .as_ref()
                .map(|journal| self.shared.pool_files.add_to(journal.facts())),
            aof: self.append_only.get().map(|append_only| append_only.facts()),
            loading: self.shared.loading.facts(self.shared.engine.clock().unix_ms()),
        }
    }

    /// Returns true if the data should have an append-only file.
    pub(crate) fn is_logged(&self) -> bool {
        self.shared.store.backend == Backend::Aof
    }

    /// Returns true if there is data to load before clients are served.
    pub(crate) fn has_to_load(&self) -> bool {
        let has_dump = || other_stores::has_dump(&self.shared.config.values());
        self.is_logged() || self.shared.store.backend == Backend::Volatile && has_dump()
    }
}
