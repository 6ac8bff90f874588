//! A connection's state as commands see it: no socket, only data.
//!
//! A session belongs to one thread at a time and is handed to [`crate::Engine::execute`] with every
//! command; others see its [`Client`]. At its end [`crate::Engine::disconnect`] drops its watches.

pub mod client;
pub mod describe;
pub mod kept_words;
mod lifecycle;
pub(crate) mod moved_call;
pub mod packed_requests;
pub mod permissions;
pub mod replica;
pub mod users;
pub mod walk;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ::cluster::topology::route::Slots;
use keyspace::{Db, ShardWait, Watch};
use resp::Protocol;

use crate::cluster::InCluster;
use crate::notify::hub::Subscriptions;
use crate::notify::tracker::Readers;
use crate::observe::state::SlowBlock;
use crate::replication::Quorum;
use crate::scripts::running::{LongSince, RunningScript};
use crate::session::client::{Client, SESSION_BYTES, Waiter};
use crate::session::moved_call::MovedCall;
use crate::session::packed_requests::PackedRequests;
use crate::session::replica::{AsReplica, Received};
use crate::session::users::Account;
use crate::session::walk::Walk;

/// Whether replies are sent: CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// Every reply.
    #[default]
    On,
    /// None.
    Off,
    /// All but the reply of the command after CLIENT REPLY SKIP, which sets this.
    SkipNext,
    /// The current command's reply is to be dropped.
    Skip,
}

/// The commands that MULTI collects.
#[derive(Default)]
pub struct Queue {
    /// The requests, in their order.
    pub requests: PackedRequests,
    /// Whether a command was refused: EXEC then fails.
    pub is_dirty: bool,
    /// Flags of all queued commands.
    pub(crate) flags: u32,
    /// Flags that not all of them have.
    pub(crate) lacking: u32,
    /// Bytes of their arguments.
    pub bytes: usize,
    /// In a cluster, the slots of their keys,
    pub(crate) slots: Slots,
    /// ... and whether some of these are shard channels.
    pub(crate) has_channels: bool,
}

/// One connection.
pub struct Session {
    /// The part that others see.
    pub client: Arc<Client>,
    /// Selected database.
    pub db: Db,
    /// RESP version of its replies.
    pub protocol: Protocol,
    /// Whether it is authenticated, or needed no password when it began.
    pub authenticated: bool,
    /// Its user, who decides what it may do.
    pub user: Arc<Account>,
    /// The user's count of changes of rules when its last command was checked.
    pub(crate) checked: Cell<u64>,
    /// How often this server's role had changed when its last command was checked.
    pub(crate) role: Cell<u64>,
    /// CLIENT REPLY.
    pub reply: ReplyMode,
    /// The number of its thread: it counts in the statistics of that.
    pub thread: usize,
    /// A session that replays the command log: exempt from checks that concern clients, not logged.
    pub replay: bool,
    /// Commands of this server's primary, if the session executes those: then `replay` is set, too.
    pub received: Option<Box<Received>>,
    /// Random numbers for RANDOMKEY and similar commands, seeded by the engine.
    pub random: fastrand::Rng,
    /// In a batch, when its last command ended, unix ns: the next one begins then, so that the
    /// clock is read once for both.
    pub ended_ns: Option<u64>,
    /// Whether it executes a batch.
    pub in_batch: bool,
    /// The commands that MULTI has collected, between MULTI and EXEC.
    pub multi: Option<Box<Queue>>,
    /// The keys that it watches.
    pub watches: Vec<Watch>,
    /// Set by a transaction that changes a watched key.
    pub touched: Arc<AtomicBool>,
    /// The end of its last write in the command log.
    pub written_to: u64,
    /// The end of its last write in the stream for replicas.
    pub replicated_to: u64,
    /// Whether a command was admitted since the last reply left that shows or changes data.
    pub(crate) shows_data: Cell<bool>,
    /// The replicas that must have what its replies show, if it has said so (CLIENT ACKNOWLEDGE).
    quorum: Option<Quorum>,
    /// The quorum of replies that were written before it was set anew.
    earlier_quorum: Option<Quorum>,
    /// Space for rewritten commands on their way to the command log, reused.
    pub(crate) effects: Vec<u8>,
    /// Whether its commands may block.
    pub can_block: bool,
    /// Whether a command may take several steps, with [`crate::Engine::go_on`] between other
    /// clients' commands.
    pub can_walk: bool,
    /// Whether its thread serves others too, so that it must not wait for a shard
    /// ([`crate::Next::Locked`]).
    pub gives_way: bool,
    /// Its place in the queues for shards, from the first time that its command found one locked
    /// until the command is done.
    pub(crate) shard_wait: Option<ShardWait>,
    /// The bytes that contain the words of its requests, if there are many: another thread may keep
    /// them until it has executed the request.
    pub(crate) lent: Option<Arc<Vec<u8>>>,
    /// Set if its command takes long, found a shard locked on another thread, and is to be tried
    /// again there; with the start of a script, if it runs one.
    pub(crate) moves_again: Option<Option<LongSince>>,
    /// Whether MONITOR has shown its command, a script, which may be tried again.
    pub(crate) script_shown: bool,
    /// The command that is in the middle of its steps.
    pub walk: Option<Box<Walk>>,
    /// Its subscriptions.
    pub subscriptions: Subscriptions,
    /// Whether CLIENT CACHING came before the command that is executed now.
    pub caching: bool,
    /// Keys that the present transaction has read, each with the number of changes before it.
    pub reads_of_changed: Vec<(usize, Box<[u8]>)>,
    /// The readers of keys that the present command has flushed.
    pub(crate) forgotten: Vec<Readers>,
    /// Prefixes of keys that it tracks (CLIENT TRACKING).
    pub prefixes: BTreeSet<Box<[u8]>>,
    /// The call that runs on another thread meanwhile, with the session that this one replaces.
    pub(crate) moved: Option<Arc<MovedCall<Session>>>,
    /// Set while a script of it runs on a thread of its own: this is how others see it.
    pub running_script: Option<Arc<RunningScript>>,
    /// Its blocked command, if that is to be in the slow log.
    pub(crate) slow_block: Option<Box<SlowBlock>>,
    /// What it waits for, while it is blocked.
    pub(crate) waiter: Option<Arc<Waiter>>,
    /// Its place as a replica, and what it said by REPLCONF.
    pub replica: Option<Box<AsReplica>>,
    /// Its part in the cluster, once it had one.
    pub cluster: Option<Box<InCluster>>,
}

const _: () = assert!(size_of::<Session>().abs_diff(SESSION_BYTES) <= 128);

impl Session {
    pub(crate) fn new(
        client: Arc<Client>,
        user: Arc<Account>,
        thread: usize,
        seed: u64,
    ) -> Session {
        Session {
            checked: Cell::new(user.changes()),
            user,
            client,
            role: Cell::new(0),
            db: Db::default(),
            protocol: Protocol::Resp2,
            authenticated: false,
            reply: ReplyMode::On,
            thread,
            slow_block: None,
            replay: false,
            received: None,
            random: fastrand::Rng::with_seed(seed),
            ended_ns: None,
            in_batch: false,
            multi: None,
            watches: Vec::new(),
            touched: Arc::default(),
            written_to: 0,
            replicated_to: 0,
            shows_data: Cell::new(false),
            quorum: None,
            earlier_quorum: None,
            effects: Vec::new(),
            can_block: false,
            can_walk: false,
            gives_way: false,
            shard_wait: None,
            lent: None,
            moves_again: None,
            script_shown: false,
            walk: None,
            subscriptions: Subscriptions::default(),
            caching: false,
            reads_of_changed: Vec::new(),
            forgotten: Vec::new(),
            prefixes: BTreeSet::new(),
            moved: None,
            running_script: None,
            waiter: None,
            replica: None,
            cluster: None,
        }
    }

    /// Returns true if its connection can wait for a reply that another thread makes.
    pub fn can_wait(&self) -> bool {
        self.can_walk && self.can_block
    }

    /// Takes the session, whose call continues on another thread, and leaves one that waits in its
    /// place.
    pub(crate) fn take_for(&mut self, moved: &Arc<MovedCall<Session>>) -> Session {
        let stand_in = Session {
            moved: Some(Arc::clone(moved)),
            db: self.db,
            protocol: self.protocol,
            authenticated: self.authenticated,
            gives_way: self.gives_way,
            shows_data: Cell::new(self.shows_data.get()),
            quorum: self.quorum,
            earlier_quorum: self.earlier_quorum.take(),
            ..Session::new(Arc::clone(&self.client), Arc::clone(&self.user), self.thread, 0)
        };
        let mut taken = std::mem::replace(self, stand_in);
        (taken.can_block, taken.can_walk) = (false, false);
        // It may be a while until the next try.
        taken.shard_wait.iter().for_each(ShardWait::release);
        taken
    }

    /// Restores the session that [`Session::take_for`] took.
    pub(crate) fn give_back(&mut self, taken: Session) {
        let gives_way = self.gives_way;
        *self = taken;
        // Its connection can wait, as it could when the session was taken.
        (self.can_block, self.can_walk, self.gives_way) = (true, true, gives_way);
    }

    /// Notes that a reply was written that may show or change data.
    #[inline]
    pub fn set_shows_data(&mut self) {
        self.shows_data.set(true);
    }

    /// Returns true if a command was admitted that shows or changes data, since
    /// [`Session::replies_have_passed`].
    #[inline]
    pub fn shows_data(&self) -> bool {
        self.shows_data.get()
    }

    /// Notes that all replies that were written may leave, and none is missing.
    #[inline]
    pub fn replies_have_passed(&mut self) {
        self.shows_data.set(false);
        self.earlier_quorum = None;
    }

    /// Sets the replicas that must have what its replies show; none for `usual`, which everybody
    /// has that says nothing. Replies that were written already need the present ones too.
    pub fn set_quorum(&mut self, quorum: Option<Quorum>, usual: Quorum) {
        if self.shows_data() {
            self.earlier_quorum = Some(self.quorum(usual));
        }
        self.quorum = quorum;
    }

    /// Returns the replicas that must have what its replies show, of which others have `usual`.
    pub fn quorum(&self, usual: Quorum) -> Quorum {
        let present = self.quorum.unwrap_or(usual);
        self.earlier_quorum.map_or(present, |earlier| earlier.and(present))
    }

    /// Gives up its place in the queues for shards, before it waits for something else.
    pub fn give_up_shards(&mut self) {
        self.shard_wait = None;
    }

    /// Returns true if its user has limited permissions.
    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        !self.user.is_unlimited()
    }

    /// Returns true if its user's rules have changed since its command was checked.
    #[inline]
    pub(crate) fn has_other_rules(&self) -> bool {
        self.user.changes() != self.checked.get()
    }

    /// Returns its id.
    pub fn id(&self) -> u64 {
        self.client.id
    }

    /// Begins a batch: commands that are executed one after the other, without waiting for anything
    /// between them.
    pub(crate) fn begin_batch(&mut self) {
        self.in_batch = true;
        self.ended_ns = None;
    }

    /// Says that its connection continues commands that take several steps ([`crate::Next::Walk`]).
    pub fn set_can_walk(&mut self) {
        self.can_walk = true;
    }

    /// Says that its thread serves others too, and that its connection tries commands again whose
    /// shards are locked ([`crate::Next::Locked`]).
    pub fn set_gives_way(&mut self) {
        self.gives_way = true;
    }

    /// Lends the bytes that contain the words of the next requests, or reclaims them: a request
    /// that another thread executes keeps them until [`crate::Engine::unblocked`] gives its reply.
    pub fn lend(&mut self, bytes: Option<Arc<Vec<u8>>>) {
        self.lent = bytes;
    }

    /// Returns true if its command waits for shards that others have locked.
    pub fn waits_for_shards(&self) -> bool {
        self.shard_wait.is_some()
    }

    /// Ends the state for one command; CLIENT CACHING stays in force if `keeps_caching`.
    #[inline]
    pub(crate) fn end_command(&mut self, keeps_caching: bool) {
        self.end_wait();
        self.script_shown = false;
        self.caching &= keeps_caching || self.in_multi();
        self.end_asking();
        self.forgotten.clear();
    }

    /// Ends the effect of ASKING, which holds for one command, or for all of a transaction.
    #[inline]
    pub(crate) fn end_asking(&mut self) {
        if self.cluster.is_some() && !self.in_multi() {
            self.cluster.iter_mut().for_each(|part| part.end_command());
        }
    }

    /// Ends the wait for shards of a command that is not to be executed again.
    #[inline]
    pub(crate) fn end_wait(&mut self) {
        if self.shard_wait.is_some() {
            self.shard_wait = None;
        }
        self.moves_again = None;
    }

    /// Returns true if its call runs on another thread.
    pub fn is_away(&self) -> bool {
        self.moved.is_some()
    }

    /// Releases memory that is kept for the next command.
    pub fn shrink(&mut self) {
        self.effects = Vec::new();
    }

    /// Returns true if commands are being queued.
    pub fn in_multi(&self) -> bool {
        self.multi.is_some()
    }

    /// Returns true if it has subscriptions in a protocol that cannot tell messages from replies:
    /// then few commands are allowed.
    #[inline]
    pub fn only_listens(&self) -> bool {
        self.protocol == Protocol::Resp2 && !self.subscriptions.is_empty()
    }

    /// Returns true if a watched key changed.
    pub fn is_touched(&self) -> bool {
        self.touched.load(Relaxed)
    }

    /// Selects a database.
    pub fn select(&mut self, db: Db) {
        self.db = db;
        self.client.db.store(db.number() as u32, Relaxed);
    }

    /// Sets the protocol of its replies.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
        let number = if protocol == Protocol::Resp3 { 3 } else { 2 };
        self.client.protocol.store(number, Relaxed);
    }
}
