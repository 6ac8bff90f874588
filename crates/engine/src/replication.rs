//! Replication as the engine sees it: the stream to which commits append their effects, the
//! replicas that receive it, and this server's role.
//!
//! Effects are appended after the commit and before its shards are unlocked, so that two commits
//! that depend on each other are in the stream in their order. A replica may receive the stream
//! only as far as a restart after the failures that the store survives would have it too: its
//! sender notes the end of the stream, then the end of the log, and waits for that as a reply does.

mod failover;
mod follow;
mod handover;
mod quorum;
mod waits;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use ::replication::{Id, Replicas, Stream};

use self::quorum::Quorums;
pub use self::quorum::{Confirmation, Quorum};
use crate::session::client::Waiter;

pub use handover::{Failover, FailoverPlan, FailoverStage, FailoverStep, Primary};

/// Bytes of the stream that are kept before `repl-backlog-size` is known.
const BACKLOG: u64 = 1 << 20;

/// The error of clients that wait when this server becomes a replica.
pub(crate) const ROLE_CHANGED: &[u8] =
    b"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";

/// The stream, the replicas, and the role.
pub struct Replication {
    stream: Arc<Stream>,
    replicas: Arc<Replicas>,
    is_replica: AtomicBool,
    /// Counts how often the role has changed.
    roles: AtomicU64,
    primary: RwLock<Option<Primary>>,
    link: AtomicU8,
    /// `replica-serve-stale-data`.
    serves_stale_data: AtomicBool,
    hides_stale_data: AtomicBool,
    facts: LinkFacts,
    failover: Failover,
    /// Whether this replica's data is not what its primary has at the stream's end.
    is_diverged: AtomicBool,
    /// Whether anything but its primary has changed this replica's data.
    has_own_changes: AtomicBool,
    /// The stream's end after the last REPLCONF GETACK.
    asked_at: AtomicU64,
    waits: Mutex<Vec<Wait>>,
    quorums: Quorums,
    /// Held while a command of the primary is committed, and while a history gets another name: a
    /// commit that has begun is in the stream before a promotion.
    history: Mutex<()>,
}

/// How far a replica's link to its primary is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LinkState {
    /// It is to connect.
    Connect,
    /// It connects.
    Connecting,
    /// It waits for an answer.
    Handshake,
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
            LinkState::Handshake => "handshake",
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

/// The state of replicas for which a client waits.
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
    /// When the link was lost, unix ms; 0 while there is one.
    pub lost_ms: AtomicU64,
    /// Bytes of the dump that were loaded,
    pub dump_loaded: AtomicU64,
    /// ... of so many; 0 if that is not known.
    pub dump_total: AtomicU64,
    /// The offset up to which the stream has arrived.
    pub read_to: AtomicU64,
    /// Whether this server's data is of another history than its primary's, as that has said.
    pub needs_dump: AtomicBool,
    /// Whether this server, as a replica, has nothing of its primary's data, or half of it.
    pub lacks_data: AtomicBool,
}

impl LinkFacts {
    /// Notes that the primary was heard.
    pub fn heard(&self, now_ms: u64) {
        self.heard_ms.store(now_ms, Relaxed);
    }

    /// Notes that the link was lost, if that is not known.
    pub fn lost(&self, now_ms: u64) {
        let _ = self.lost_ms.compare_exchange(0, now_ms, Relaxed, Relaxed);
    }

    /// Notes that the stream arrives from `offset` on, or that this server needs no link any more.
    pub fn linked(&self, offset: u64) {
        self.lost_ms.store(0, Relaxed);
        self.needs_dump.store(false, Relaxed);
        self.lacks_data.store(false, Relaxed);
        self.read_to.store(offset, Relaxed);
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
            roles: AtomicU64::new(0),
            primary: RwLock::default(),
            link: AtomicU8::new(LinkState::Connect as u8),
            serves_stale_data: AtomicBool::new(true),
            hides_stale_data: AtomicBool::new(false),
            facts: LinkFacts::default(),
            failover: Failover::default(),
            is_diverged: AtomicBool::new(false),
            has_own_changes: AtomicBool::new(false),
            asked_at: AtomicU64::new(0),
            waits: Mutex::default(),
            quorums: Quorums::default(),
            history: Mutex::default(),
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

    /// Returns the failover from this server to a replica.
    pub fn failover(&self) -> &Failover {
        &self.failover
    }

    /// Notes whether this replica's data is not what its primary has at the stream's end: it needs
    /// all data.
    pub fn set_diverged(&self, yes: bool) {
        self.is_diverged.store(yes, Relaxed);
    }

    /// Returns true if this replica's data is not what its primary has at the stream's end.
    pub fn is_diverged(&self) -> bool {
        self.is_diverged.load(Relaxed)
    }

    /// Notes whether anything but its primary has changed this replica's data since it got all.
    pub fn set_own_changes(&self, yes: bool) {
        self.has_own_changes.store(yes, Relaxed);
    }

    /// Returns true if this is a replica, and anything but a primary has changed its data since it
    /// got all.
    pub fn has_own_changes(&self) -> bool {
        self.is_replica() && self.has_own_changes.load(Relaxed)
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
        if self.is_replica.load(Relaxed) != primary.is_some() {
            self.stream.set_received(primary.is_some());
            // Another history may end before that offset.
            self.asked_at.store(0, Relaxed);
            self.roles.fetch_add(1, SeqCst);
            self.is_replica.store(primary.is_some(), SeqCst);
        }
        *present = primary;
        self.set_link_state(LinkState::Connect);
    }

    /// Returns how far the link to the primary is.
    pub fn link_state(&self) -> LinkState {
        match self.link.load(Relaxed) {
            0 => LinkState::Connect,
            1 => LinkState::Connecting,
            2 => LinkState::Handshake,
            3 => LinkState::Sync,
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

    /// Returns how often the role has changed: a client's write that was admitted before a change
    /// is refused at its commit if this server is a read-only replica then.
    #[inline]
    pub fn roles(&self) -> u64 {
        self.roles.load(Relaxed)
    }

    /// Returns true if commits append their effects to the stream. A replica passes on what it
    /// receives instead.
    #[inline]
    pub fn takes_effects(&self) -> bool {
        self.stream.is_on() && !self.is_replica()
    }

    /// Appends commands that change no data, if there is a stream. Returns the offset after them.
    pub fn append_free(&self, commands: &[u8]) -> Option<u64> {
        self.takes_effects().then(|| self.stream.append_free(commands))
    }

    /// Asks the replicas how far they are, unless they were asked after `offset`.
    fn ask(&self, offset: u64) {
        if self.takes_effects() && self.asked_at.load(Relaxed) <= offset {
            let end = self.stream.append_free(::replication::GET_ACK);
            self.asked_at.store(end, Relaxed);
        }
    }

    /// Lets the commit of a command of the primary end before the history changes, or the other way
    /// round. No shard may be locked while this is held that was not locked before.
    pub fn hold_history(&self) -> MutexGuard<'_, ()> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waits(&self) -> MutexGuard<'_, Vec<Wait>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
