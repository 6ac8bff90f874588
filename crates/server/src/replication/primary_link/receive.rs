//! What a replica does with one connection to its primary: the handshake, a dump if it needs one,
//! the stream.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use commands::{
    Applier, ApplyError, LinkState, LoadDumpError, LoadOptions, Primary, ReceivedCommand,
};
use pmem::{ChargedClient, Counters};
use replication::commands::{StreamError, StreamReader};
use replication::dump::DumpReader;
use replication::handshake::{Answer, Handshake, HandshakeError};
use replication::{Id, Position};
use resp::{Protocol, Writer};

use super::arrival::{self, ArrivalError};
use super::failover;
use super::wire::{PrimaryWire, is_stopped};
use crate::durability::append_only::AppendOnly;
use crate::host::Server;
use crate::net::meter::appended_since;
use crate::process::machine;
use crate::replication::position;

/// How often the primary is told how far this replica is.
const ACKNOWLEDGE: Duration = Duration::from_secs(1);
/// The same before anything of the stream has come.
const FIRST_ACKNOWLEDGE: Duration = Duration::from_millis(100);
/// Maximum length of a command of the stream: the longest string and some words.
const MAX_COMMAND: usize = (512 << 20) + (1 << 20);
/// Bytes that are read from the connection at once.
const READ: usize = 64 << 10;
/// The pause between two looks whether the journal has space.
const HELD: Duration = Duration::from_millis(5);
/// Commands that are executed at once.
const AT_ONCE: usize = 64;
/// The version of Valkey whose dumps this server reads.
const VALKEY: &[u8] = b"9.1.0";

/// Why a link ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    /// It was to end.
    #[error("it was to end")]
    Stopped,
    #[error("{0}")]
    Io(io::Error),
    #[error("{0}")]
    Handshake(HandshakeError),
    #[error(
        "the failover target has not all data of this server: FAILOVER ABORT makes this one the primary again"
    )]
    WouldLose,
    #[error(
        "the failover target is a primary with data of another history: FAILOVER ABORT makes this one the primary again, if that is not its successor"
    )]
    OtherHistory,
    #[error(transparent)]
    Arrival(ArrivalError),
    #[error("the dump could not be loaded: Internal error in RDB: {0}")]
    Sync(#[from] LoadDumpError),
    #[error("the append only file cannot be switched off, and the data stays as it is: {0}")]
    Log(String),
    #[error("the data could not be replaced: {0}")]
    Replace(String),
    #[error("{0}")]
    Stream(#[from] StreamError),
    #[error("{0}")]
    Apply(#[from] ApplyError),
}

impl LinkError {
    /// Returns true if this server's data, or its place in the stream, may not be what the primary
    /// thinks.
    pub(super) fn needs_all(&self) -> bool {
        match self {
            // A dump that was cut off is not the primary's fault.
            LinkError::Sync(error) => !error.is_cut_off(),
            LinkError::Replace(_) | LinkError::Stream(_) => true,
            LinkError::Apply(error) => !matches!(error, ApplyError::Full { .. }),
            LinkError::Stopped | LinkError::WouldLose | LinkError::OtherHistory => false,
            LinkError::Io(_) | LinkError::Handshake(_) => false,
            LinkError::Arrival(_) | LinkError::Log(_) => false,
        }
    }
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> LinkError {
        if is_stopped(&error) { LinkError::Stopped } else { LinkError::Io(error) }
    }
}

impl From<ArrivalError> for LinkError {
    fn from(error: ArrivalError) -> LinkError {
        match error {
            ArrivalError::Dump(error) => LinkError::from(error),
            error => LinkError::Arrival(error),
        }
    }
}

impl From<HandshakeError> for LinkError {
    fn from(error: HandshakeError) -> LinkError {
        match error {
            HandshakeError::Io(error) => LinkError::from(error),
            error => LinkError::Handshake(error),
        }
    }
}

/// The append-only file, switched off while data is loaded; a drop switches it on, also after a
/// panic. It stays off when the server ends: there is nothing whole to write.
struct LogOff<'s> {
    log: Option<&'s Arc<AppendOnly>>,
    server: &'s Server,
}

impl<'s> LogOff<'s> {
    fn begin(log: Option<&'s Arc<AppendOnly>>, server: &'s Server) -> Result<LogOff<'s>, String> {
        match log.map(|log| log.switch(false)) {
            Some(Err(error)) => Err(error.to_string()),
            _ => Ok(LogOff { log, server }),
        }
    }
}

impl Drop for LogOff<'_> {
    fn drop(&mut self) {
        let Some(log) = self.log.filter(|_| !self.server.shared.shutdown.is_asked()) else {
            return;
        };
        if let Err(error) = log.switch(true) {
            tracing::error!("The append only file cannot be switched on again: {error}");
        }
    }
}

/// The state in which data is loaded; a drop ends it, also after a panic, unless the server ends.
struct Loading<'s>(&'s Server);

impl<'s> Loading<'s> {
    fn begin(server: &'s Server) -> Loading<'s> {
        let shared = &server.shared;
        shared.engine.config().set_loading(true);
        shared.loading.begin(shared.engine.clock().unix_ms());
        Loading(server)
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        if !self.0.shared.shutdown.is_asked() {
            self.0.shared.engine.config().set_loading(false);
        }
    }
}

/// One connection's work.
pub(super) struct Receiver<'s> {
    server: &'s Arc<Server>,
    target: u64,
    /// An offset of the stream, and the end of the log when that was executed: when the log is
    /// durable up to there, the stream is durable up to the offset.
    unsettled: (u64, u64),
    durable: u64,
    /// Offset of the stream up to which the end of this process takes nothing that was executed.
    written: u64,
    acknowledged: Instant,
    /// When the place in the pool was compared with the end of the stream.
    placed: Instant,
    followed_since: Option<Instant>,
    /// The counters of this thread when it last gave way.
    fenced: Counters,
    charged: ChargedClient,
}

impl<'s> Receiver<'s> {
    pub(super) fn new(server: &'s Arc<Server>, target: u64) -> Receiver<'s> {
        Receiver {
            server,
            target,
            unsettled: (0, 0),
            durable: 0,
            written: 0,
            acknowledged: Instant::now(),
            placed: Instant::now(),
            followed_since: None,
            fenced: pmem::counters(),
            charged: ChargedClient::default(),
        }
    }

    /// Connects and follows until the link ends. `resumes`: the primary is asked to continue where
    /// this server is. `drops_first`: the data is dropped before all of a dump is there.
    pub(super) fn follow(
        &mut self,
        primary: &Primary,
        resumes: bool,
        drops_first: bool,
    ) -> Result<(), LinkError> {
        let engine = &self.server.shared.engine;
        let replication = engine.replication();
        tracing::info!("Connecting to MASTER {}:{}", primary.host, primary.port);
        replication.set_link_state(LinkState::Connecting);
        let wire = PrimaryWire::connect(self.server, primary, self.target)?;
        replication.set_link_state(LinkState::Handshake);
        let mut input = BufReader::with_capacity(READ, wire.clone());
        let position = replication.stream().position();
        let resume =
            (resumes && replication.stream().is_on()).then_some((position.id, position.end));
        let asks = self.handshake(resume);
        let start = match failover::handshake(self.server, &wire, &mut input, asks)? {
            Answer::Full { id, offset } => {
                tracing::info!("Full resync from master: {id}:{offset}");
                self.load(&wire, &mut input, id, offset, drops_first)?
            }
            Answer::Continue { id } => {
                tracing::info!("Successful partial resynchronization with master.");
                let stream = replication.stream();
                let continues = || {
                    // A change of this server's own came between.
                    let here = stream.position();
                    if (here.epoch, here.end) != (position.epoch, position.end) {
                        return Err(LinkError::Apply(ApplyError::Unfollowed));
                    }
                    let renamed = id.filter(|id| *id != position.id).map(|id| stream.rename(id));
                    replication.set_link_state(LinkState::Connected);
                    Ok(Position { epoch: renamed.unwrap_or(position.epoch), ..position })
                };
                self.if_followed(continues)??
            }
        };
        let kept = position::keep(&self.server.shared, start.epoch);
        kept.map_err(|error| LinkError::Replace(error.to_string()))?;
        self.followed_since = Some(Instant::now());
        tracing::info!("MASTER <-> REPLICA sync: Finished with success");
        self.execute(wire, input, start)
    }

    /// Returns true if it has followed the primary.
    pub(super) fn has_followed(&self) -> bool {
        self.followed_since.is_some()
    }

    /// Returns true if it has followed the primary for a while.
    pub(super) fn has_lasted(&self) -> bool {
        self.followed_since.is_some_and(|since| since.elapsed() >= ACKNOWLEDGE)
    }

    /// Notes that the link has ended.
    pub(super) fn end(&self) {
        let engine = &self.server.shared.engine;
        let replication = engine.replication();
        let _ = self.if_followed(|| {
            if self.followed_since.is_some() {
                replication.facts().lost(engine.clock().unix_ms());
            }
            replication.set_link_state(LinkState::Connect);
        });
    }

    fn handshake(&self, resume: Option<(Id, u64)>) -> Handshake {
        let values = self.server.shared.config.values();
        let some = |bytes: &[u8]| (!bytes.is_empty()).then(|| bytes.to_vec());
        let port = match u16::try_from(values.replica_announce_port) {
            Ok(port) if port != 0 => port,
            _ if values.tls_replication => values.tls_port,
            _ => values.port,
        };
        Handshake {
            user: some(&values.masteruser),
            password: some(&values.masterauth),
            listening_port: port,
            announce_ip: some(&values.replica_announce_ip),
            version: Some(VALKEY.to_vec()),
            resume,
            failover: false,
        }
    }

    /// Replaces all data by the dump that comes. Returns where the stream continues. The data that
    /// there is stays until all of the dump is there, unless `drops_first`.
    fn load(
        &mut self,
        wire: &PrimaryWire,
        input: &mut BufReader<PrimaryWire>,
        id: Id,
        offset: u64,
        drops_first: bool,
    ) -> Result<Position, LinkError> {
        let shared = &self.server.shared;
        let engine = &shared.engine;
        let replication = engine.replication();
        let failed = |why: String| LinkError::Replace(why);
        replication.set_link_state(LinkState::Sync);
        let is_other = replication.stream().position().id != id || replication.is_diverged();
        // Then its offset could not be compared with those of others.
        self.if_followed(|| replication.facts().needs_dump.store(is_other, Relaxed))?;
        let mut dump = DumpReader::new(input);
        dump.begin().map_err(|error| match error {
            replication::dump::DumpError::Io(error) => LinkError::from(error),
            error => failed(error.to_string()),
        })?;
        let length = dump.total();
        let total = length.unwrap_or(0);
        let facts = replication.facts();
        facts.received(0, total);
        wire.set_sign(Some(b"\n"));
        let values = shared.config.values();
        let file = match !drops_first && arrival::keeps_data(engine, &values) {
            true => {
                let folder = PathBuf::from(values.dir.to_text());
                let report = &mut |bytes| facts.received(bytes, total);
                let file = arrival::receive(&mut dump, length, &folder, report)?;
                Some(arrival::verify(file, engine, wire)?)
            }
            false => None,
        };
        let next = Id::from_random(machine::random()?);
        let log = self.server.append_only.get().filter(|log| log.is_wanted());
        // At once, since a server that is promoted meanwhile acknowledges writes at once.
        let switched = self.if_followed(|| {
            let log_off = LogOff::begin(log, self.server)?;
            // From here on this server has no history that anybody could continue.
            replication.stream().switch_off(next);
            replication.facts().lacks_data.store(true, Relaxed);
            Ok((log_off, Loading::begin(self.server)))
        })?;
        let (log_off, loading) = switched.map_err(LinkError::Log)?;
        let loaded = self.load_all(wire, file, &mut dump, total);
        if loaded.is_err() && !shared.shutdown.is_asked() {
            // Half of the data would be worse than none.
            self.drop_data()?;
            let now = engine.clock().unix_ms();
            engine.keyspace().set_syncing(false, now).map_err(|error| failed(error.to_string()))?;
        }
        let adopted = loaded.and_then(|db| {
            self.if_followed(|| {
                replication.set_link_state(LinkState::Connected);
                replication.replicas().forget();
                replication.set_own_changes(false);
                let position = replication.stream().adopt(id, offset, db);
                replication.facts().lacks_data.store(false, Relaxed);
                position
            })
        });
        drop((loading, log_off));
        adopted
    }

    /// Runs `step` if this server still follows the primary of this link.
    fn if_followed<R>(&self, step: impl FnOnce() -> R) -> Result<R, LinkError> {
        self.server.target.while_current(self.target, step).ok_or(LinkError::Stopped)
    }

    /// Drops what there is, and loads all of the dump: out of a file, or as it comes.
    fn load_all(
        &self,
        wire: &PrimaryWire,
        file: Option<File>,
        dump: &mut DumpReader<&mut BufReader<PrimaryWire>>,
        total: u64,
    ) -> Result<Option<u32>, LinkError> {
        let shared = &self.server.shared;
        let (engine, facts) = (&shared.engine, shared.engine.replication().facts());
        let now = || engine.clock().unix_ms();
        let failed = |error: keyspace::CommitError| LinkError::Replace(error.to_string());
        tracing::info!("MASTER <-> REPLICA sync: Flushing old data");
        engine.keyspace().set_syncing(true, now()).map_err(failed)?;
        self.drop_data()?;
        tracing::info!("MASTER <-> REPLICA sync: Loading DB in memory");
        let mut options = LoadOptions {
            verifies: true,
            keeps_expired: true,
            report: &mut |loaded| {
                shared.loading.show(loaded.bytes, total);
                facts.received(loaded.bytes, total);
            },
        };
        let file = arrival::Reader { file, wire };
        let mut from = BufReader::with_capacity(1 << 20, file.chain(&mut *dump));
        let loaded = commands::load_dump(engine, &mut from, &mut options);
        if loaded.is_err() && !self.server.target.is(self.target) {
            return Err(LinkError::Stopped);
        }
        let loaded = loaded?;
        // The sum at the end is the last of the dump; the mark follows it.
        io::copy(&mut from, &mut io::sink())?;
        drop(from);
        wire.set_sign(None);
        if !dump.is_complete() {
            return Err(LinkError::Io(ErrorKind::UnexpectedEof.into()));
        }
        engine.keyspace().set_syncing(false, now()).map_err(failed)?;
        tracing::info!("Done loading RDB, keys loaded: {}", loaded.keys);
        Ok(loaded.stream_db)
    }

    /// Deletes all keys and all function libraries.
    fn drop_data(&self) -> Result<(), LinkError> {
        let engine = &self.server.shared.engine;
        let mut session = engine.connect_replay();
        let mut out = Writer::new(Protocol::Resp2);
        for words in [&[&b"FLUSHALL"[..]][..], &[b"FUNCTION", b"FLUSH"]] {
            out.clear();
            let _ = engine.execute(&mut session, words, &mut out);
            if let Some(text) = out.as_bytes().strip_prefix(b"-") {
                let text = String::from_utf8_lossy(text).trim_end().to_owned();
                engine.disconnect(&mut session);
                return Err(LinkError::Replace(text));
            }
        }
        engine.disconnect(&mut session);
        Ok(())
    }

    /// Executes the stream from `start` until the link ends.
    fn execute(
        &mut self,
        mut wire: PrimaryWire,
        mut input: BufReader<PrimaryWire>,
        start: Position,
    ) -> Result<(), LinkError> {
        let engine = Arc::clone(&self.server.shared.engine);
        let replication = engine.replication();
        let mut applier = Applier::new(&engine, start.epoch, start.db);
        let (start, epoch) = (start.end, start.epoch);
        replication.facts().linked(start);
        let mut reader = StreamReader::new(start, MAX_COMMAND);
        reader.push(input.buffer());
        input.consume(input.buffer().len());
        // With this the primary also learns that the dump was loaded.
        self.acknowledge(&mut wire, epoch)?;
        let mut bytes = vec![0; READ];
        loop {
            loop {
                self.give_way(&mut wire, epoch)?;
                match execute_some(&mut applier, &mut reader)? {
                    Executed::All => break,
                    Executed::Asked => self.acknowledge(&mut wire, epoch)?,
                    Executed::Some => {}
                }
            }
            replication.facts().read_to(reader.received());
            // After a dump that ends with a mark the primary begins its stream when it has heard of
            // this replica, but not before it has noticed that the dump was sent.
            let is_started = reader.received() > start;
            let pause = if is_started { ACKNOWLEDGE } else { FIRST_ACKNOWLEDGE };
            if self.acknowledged.elapsed() >= pause {
                self.acknowledge(&mut wire, epoch)?;
            }
            match wire.try_read(&mut bytes) {
                Ok(0) => return Err(LinkError::Io(ErrorKind::UnexpectedEof.into())),
                Ok(read) => reader.push(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits, after what was executed so far, until its turn to write has come and the journal has
    /// space. The primary hears of this replica meanwhile.
    fn give_way(&mut self, wire: &mut PrimaryWire, epoch: u64) -> Result<(), LinkError> {
        let (engine, journal) = (&self.server.shared.engine, &self.server.shared.journal);
        let Some(journal) = journal else { return Ok(()) };
        let appended = appended_since(&self.fenced);
        self.fenced = pmem::counters();
        let turn = journal.charge(appended, &mut self.charged).unwrap_or_else(Instant::now);
        loop {
            let now = Instant::now();
            let wait = match engine.durability().is_nearly_full() {
                true => HELD,
                false if now < turn => turn - now,
                false => return Ok(()),
            };
            std::thread::sleep(wait);
            wire.check()?;
            wire.was_not_read();
            if self.acknowledged.elapsed() >= ACKNOWLEDGE {
                self.acknowledge(wire, epoch)?;
            }
        }
    }

    /// Tells the primary what was executed here and survives the end of this process, as a reply to
    /// a client does, and what of it is durable: offsets of its history, which has `epoch` here.
    fn acknowledge(&mut self, wire: &mut PrimaryWire, epoch: u64) -> Result<(), LinkError> {
        self.acknowledged = Instant::now();
        let engine = &self.server.shared.engine;
        let Some(end) = engine.replication().stream().end_in(epoch) else {
            // It follows that primary no more, or a change of its own came between.
            return Err(self.if_followed(|| LinkError::Apply(ApplyError::Unfollowed))?);
        };
        // Otherwise this thread might have to wait, and the primary would hear nothing.
        let has_space = !engine.durability().is_nearly_full();
        if self.placed.elapsed() >= ACKNOWLEDGE && has_space {
            self.placed = Instant::now();
            position::advance(&self.server.shared, epoch);
        }
        let (offset, log_end) = self.unsettled;
        let keeps = match engine.log() {
            None => {
                self.durable = end;
                engine.keyspace().heap().is_durable()
            }
            // Nobody else waits for what a primary has sent.
            Some(log) if log.is_synchronous() && has_space => {
                if log.is_on() && log.sync_to(log.end()) {
                    self.durable = end;
                }
                log.is_on()
            }
            Some(log) => {
                if log.is_on() && log.is_synced(log_end) {
                    self.durable = self.durable.max(offset);
                    self.unsettled = (end, log.end());
                }
                log.is_on()
            }
        };
        // Nobody else waits for the kernel to have that. A log that is off keeps nothing anyway.
        if engine.log().is_none_or(|log| !log.is_on() || has_space && log.write_to(log.end())) {
            self.written = end;
        }
        let mut request = Vec::new();
        let (executed, durable) = (self.written.to_string(), self.durable.to_string());
        let all = [&b"REPLCONF"[..], b"ACK", executed.as_bytes(), b"FACK", durable.as_bytes()];
        commands::encode(&mut request, if keeps { &all } else { &all[..3] });
        wire.write_all(&request)?;
        Ok(wire.flush()?)
    }
}

/// Why executing the stream has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Executed {
    /// All that has arrived is executed.
    All,
    /// There may be more.
    Some,
    /// The primary has asked how far this replica is.
    Asked,
}

/// Executes some of what has arrived, up to the primary's next question how far this replica is.
fn execute_some(
    applier: &mut Applier<'_>,
    reader: &mut StreamReader,
) -> Result<Executed, LinkError> {
    while reader.len() < AT_ONCE && reader.parse()? {}
    let words: Vec<Vec<&[u8]>> = reader.items().map(|item| item.words().collect()).collect();
    let is_special = |words: &Vec<&[u8]>| words.is_empty() || asks_how_far(words);
    let special = words.iter().position(is_special);
    let count = special.unwrap_or(words.len());
    let received = reader.items().zip(&words).take(count);
    let commands: Vec<_> =
        received.map(|(item, words)| ReceivedCommand { words, bytes: item.bytes() }).collect();
    applier.apply(&commands)?;
    if let Some(at) = special {
        applier.pass_on(reader.item(at).bytes())?;
        let asks = !words[at].is_empty();
        reader.release(at + 1);
        return Ok(if asks { Executed::Asked } else { Executed::Some });
    }
    reader.release(count);
    Ok(if count == 0 { Executed::All } else { Executed::Some })
}

/// Returns true for `REPLCONF GETACK *`.
fn asks_how_far(words: &[&[u8]]) -> bool {
    matches!(words, [name, what, _]
        if name.eq_ignore_ascii_case(b"replconf") && what.eq_ignore_ascii_case(b"getack"))
}
