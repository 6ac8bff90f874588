//! Replication as the engine sees it: the stream to which commits append their effects, the
//! replicas that receive it, and this server's role.
//!
//! Effects are appended after the commit and before its shards are unlocked, so that two commits
//! that depend on each other are in the stream in their order. A replica may receive the stream only
//! as far as a restart after the failures that the store survives would have it too: its sender
//! notes the end of the stream, then the end of the log, and waits for that as a reply does.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use ::replication::{Id, Replicas, Stream};

use crate::engine::Engine;
use crate::session::Session;
use crate::session::client::{Ending, Waiter};

/// Redis's default for `repl-backlog-size`.
const BACKLOG: u64 = 1 << 20;

/// The stream, the replicas, and the role.
pub struct Replication {
    stream: Arc<Stream>,
    replicas: Arc<Replicas>,
    is_replica: AtomicBool,
    primary: RwLock<Option<Primary>>,
    link: AtomicU8,
    /// `replica-serve-stale-data`.
    serves_stale_data: AtomicBool,
    hides_stale_data: AtomicBool,
    facts: LinkFacts,
    waits: Mutex<Vec<Wait>>,
}

/// The primary that this server follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// How far a replica's link to its primary is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LinkState {
    /// It is to connect.
    Connect,
    /// It connects, or waits for an answer.
    Connecting,
    /// It receives a dump.
    Sync,
    /// It receives the stream.
    Connected,
}

impl LinkState {
    /// Returns its name in ROLE.
    pub fn name(self) -> &'static str {
        match self {
            LinkState::Connect => "connect",
            LinkState::Connecting => "connecting",
            LinkState::Sync => "sync",
            LinkState::Connected => "connected",
        }
    }
}

/// A client that waits until replicas have what it wrote.
struct Wait {
    waiter: Arc<Waiter>,
    wanted: Wanted,
}

/// What a client waits for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The number of replicas.
    pub replicas: usize,
    /// The offset up to which they must have the stream.
    pub offset: u64,
    /// Whether they must have it durably.
    pub durable: bool,
}

impl Wanted {
    /// Returns how many replicas have it.
    pub fn reached(&self, replicas: &Replicas) -> usize {
        match self.durable {
            true => replicas.durable_with(self.offset),
            false => replicas.with(self.offset),
        }
    }
}

/// Figures of a replica's link, for INFO.
#[derive(Debug, Default)]
pub struct LinkFacts {
    /// When the primary was heard last, unix ms.
    pub heard_ms: AtomicU64,
    /// When the link was lost, unix ms; 0 for never.
    pub lost_ms: AtomicU64,
    /// Bytes of the dump that were loaded,
    pub dump_loaded: AtomicU64,
    /// ... of so many; 0 if that is not known.
    pub dump_total: AtomicU64,
    /// The offset up to which the stream has arrived.
    pub read_to: AtomicU64,
}

impl LinkFacts {
    /// Notes that the primary was heard.
    pub fn heard(&self, now_ms: u64) {
        self.heard_ms.store(now_ms, Relaxed);
    }

    /// Notes that the link was lost.
    pub fn lost(&self, now_ms: u64) {
        self.lost_ms.store(now_ms, Relaxed);
    }

    /// Notes how much of the dump was loaded.
    pub fn received(&self, loaded: u64, total: u64) {
        self.dump_loaded.store(loaded, Relaxed);
        self.dump_total.store(total, Relaxed);
    }

    /// Notes the offset up to which the stream has arrived.
    pub fn read_to(&self, offset: u64) {
        self.read_to.store(offset, Relaxed);
    }
}

impl Replication {
    pub(crate) fn new(id: Id) -> Replication {
        Replication {
            stream: Arc::new(Stream::new(id, BACKLOG)),
            replicas: Arc::default(),
            is_replica: AtomicBool::new(false),
            primary: RwLock::default(),
            link: AtomicU8::new(LinkState::Connect as u8),
            serves_stale_data: AtomicBool::new(true),
            hides_stale_data: AtomicBool::new(false),
            facts: LinkFacts::default(),
            waits: Mutex::default(),
        }
    }

    /// Returns the stream.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Returns the replicas that are connected.
    pub fn replicas(&self) -> &Arc<Replicas> {
        &self.replicas
    }

    /// Returns true if this server follows a primary.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Relaxed)
    }

    /// Returns the primary that this server follows.
    pub fn primary(&self) -> Option<Primary> {
        self.primary.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes this server follow a primary, or nobody.
    fn set_primary(&self, primary: Option<Primary>) {
        let mut present = self.primary.write().unwrap_or_else(PoisonError::into_inner);
        self.is_replica.store(primary.is_some(), Relaxed);
        *present = primary;
        self.set_link_state(LinkState::Connect);
    }

    /// Returns how far the link to the primary is.
    pub fn link_state(&self) -> LinkState {
        match self.link.load(Relaxed) {
            0 => LinkState::Connect,
            1 => LinkState::Connecting,
            2 => LinkState::Sync,
            _ => LinkState::Connected,
        }
    }

    /// Notes how far the link to the primary is.
    pub fn set_link_state(&self, state: LinkState) {
        self.link.store(state as u8, Relaxed);
        self.note_stale_data();
    }

    /// Sets `replica-serve-stale-data`.
    pub fn set_serves_stale_data(&self, yes: bool) {
        self.serves_stale_data.store(yes, Relaxed);
        self.note_stale_data();
    }

    fn note_stale_data(&self) {
        let is_stale = self.is_replica() && !self.is_linked();
        self.hides_stale_data.store(is_stale && !self.serves_stale_data.load(Relaxed), Relaxed);
    }

    /// Returns true if commands that read data are refused, since the link to the primary is down.
    #[inline]
    pub fn hides_stale_data(&self) -> bool {
        self.hides_stale_data.load(Relaxed)
    }

    /// Returns the figures of the link to the primary.
    pub fn facts(&self) -> &LinkFacts {
        &self.facts
    }

    /// Returns true if it receives its primary's stream.
    pub fn is_linked(&self) -> bool {
        self.link_state() == LinkState::Connected
    }

    /// Makes commits append their effects to the stream, if this server is a primary.
    pub fn switch_on(&self) {
        if !self.is_replica() && !self.stream.is_on() {
            self.stream.switch_on();
        }
    }

    /// Returns true if commits append their effects to the stream. A replica passes on what it
    /// receives instead.
    #[inline]
    pub fn takes_effects(&self) -> bool {
        self.stream.is_on() && !self.is_replica()
    }

    /// Appends commands that change no data, if there is a stream.
    pub fn append_free(&self, commands: &[u8]) {
        if self.takes_effects() {
            self.stream.append_free(commands);
        }
    }

    fn waits(&self) -> MutexGuard<'_, Vec<Wait>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Passes on to the stream what a session has received from the primary. If this server is no
    /// replica any more, it is a change of its own that is in no stream.
    pub fn pass_on(&self, session: &mut Session) {
        let (stream, db) = (self.replication().stream(), session.db.number() as u32);
        let Some(received) = &mut session.received else { return };
        let epoch = received.epoch;
        let bytes = received.take();
        if !bytes.is_empty() && !stream.append_received(epoch, db, bytes) {
            stream.note_skipped();
        }
    }

    /// Ends the waits of all clients with an error, since this server follows a primary from now
    /// on.
    fn unblock_all(&self) {
        for client in self.clients().list() {
            self.unblock_by(client.id, Some(b"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"));
        }
    }

    /// Makes this server follow a primary, or nobody.
    pub fn follow(&self, primary: Option<Primary>) {
        let follows = primary.is_some();
        let was_replica = self.replication().is_replica();
        self.replication().set_primary(primary);
        self.config().set_is_replica(follows);
        if follows && !was_replica {
            self.unblock_all();
        }
    }

    /// Returns true if the effects of commands are collected: for the log, or for replicas.
    #[inline]
    pub(crate) fn collects_commands(&self) -> bool {
        self.logs_commands() || self.replication().takes_effects()
    }

    /// Lets the wait of a session that was just blocked end when replicas have what it wrote. They
    /// are asked how far they are.
    pub fn wait_for_replicas(&self, session: &Session, wanted: Wanted) {
        let Some(waiter) = &session.waiter else { return };
        let mut waits = self.replication().waits();
        waits.retain(|wait| !wait.waiter.is_over());
        waits.push(Wait { waiter: Arc::clone(waiter), wanted });
        drop(waits);
        self.replication().append_free(::replication::GET_ACK);
        self.end_waits_for_replicas();
    }

    /// Ends the waits of clients whose writes enough replicas have: to be called when one has
    /// acknowledged more.
    pub fn end_waits_for_replicas(&self) {
        let replication = self.replication();
        let mut waits = replication.waits();
        if waits.is_empty() {
            return;
        }
        let now = self.clock().unix_ms();
        waits.retain(|Wait { waiter, wanted }| {
            if wanted.reached(&replication.replicas) < wanted.replicas {
                return !waiter.is_over();
            }
            if waiter.claim_when_unclaimed() {
                self.waiting().leave(self.keyspace(), waiter);
                let reply = waiter.time_out();
                waiter.end(Ending { reply, durable_at: 0, failed: false }, now);
            }
            false
        });
    }
}
