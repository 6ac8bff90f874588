//! The task that owns the node's machine: it feeds it with messages and time, and does what the
//! machine returns.
//!
//! The node's file is saved, and the view that clients are served by is replaced, before anything
//! is sent that depends on it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use ::cluster::machine::Settings;
use ::cluster::message::{Body, Message, Published, Text};
use ::cluster::{Clock, Effect, LinkId, Machine, Moment, Policy, SlotSet, View};
use commands::{Primary, Stepped};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, channel};
use tokio::time::{MissedTickBehavior, interval};

use super::file::NodeFile;
use super::links::{LinkEvent, Links};
use super::node::{Arriving, ClusterNode, Order, weight};
use super::pulse::Pulse;
use super::roles::{Following, Role};
use crate::process::log;
use crate::shared::Shared;

/// The time between two looks at what is due.
const TICK: Duration = Duration::from_millis(100);
/// Messages that wait for the task.
const WAITING: usize = 64;
/// The time after which a file that could not be saved is saved again.
const TRIES_AGAIN: Duration = Duration::from_secs(1);
/// The least time that a connection to a node may take.
const CONNECTS_WITHIN: Duration = Duration::from_millis(100);

/// The next event for the task.
enum Next {
    Order(Order),
    Event(LinkEvent),
}

/// Waits for either: neither keeps the other waiting.
async fn next(
    orders: &mut UnboundedReceiver<Order>,
    events: &mut Receiver<LinkEvent>,
) -> Option<Next> {
    tokio::select! {
        order = orders.recv() => order.map(Next::Order),
        event = events.recv() => event.map(Next::Event),
    }
}

/// The parts that the task is made of.
pub(super) struct Parts {
    pub(super) machine: Machine,
    pub(super) policy: Policy,
    pub(super) file: NodeFile,
    pub(super) random: fastrand::Rng,
    pub(super) roles: Sender<Role>,
    pub(super) slots: Sender<SlotSet>,
    pub(super) began: Instant,
    pub(super) pulse: Arc<Pulse>,
}

/// The node.
pub(super) struct Bus {
    parts: Parts,
    shared: Arc<Shared>,
    links: Links,
    events: Option<Receiver<LinkEvent>>,
    /// `cluster-link-sendbuf-limit`.
    limit: u64,
    /// Whether this node, as a replica, has had a link to its primary since it was started.
    was_linked: bool,
    /// Whether the view says that the cluster is up.
    is_seen_up: bool,
    /// The slots of this node's shard, by the view.
    shard_slots: SlotSet,
    /// Whether the shard has lost some since shard channels were looked at.
    has_lost_slots: bool,
    /// Whether writes are paused for a replica that is to replace this node.
    is_paused: bool,
    /// Since when they are being paused for one, on the thread of roles.
    pausing: Option<Instant>,
    /// The bytes of what clients have published that wait for this task.
    waiting: Arc<AtomicU64>,
    /// Whether the node's file is to be saved at the next tick.
    is_save_due: bool,
    /// When it was last tried in vain to save it.
    unsaved_since: Option<Instant>,
    /// Whether the node's file could not be saved: the node is at its end.
    has_failed: bool,
}

impl Bus {
    pub(super) fn new(parts: Parts, shared: &Arc<Shared>, node: &ClusterNode, limit: u64) -> Bus {
        let (sender, events) = channel(WAITING);
        Bus {
            parts,
            shared: Arc::clone(shared),
            links: Links::new(sender, Arc::clone(&node.unsent)),
            events: Some(events),
            limit,
            is_seen_up: false,
            was_linked: false,
            is_paused: false,
            pausing: None,
            waiting: Arc::clone(&node.waiting),
            shard_slots: SlotSet::new(),
            has_lost_slots: false,
            has_failed: false,
            is_save_due: false,
            unsaved_since: None,
        }
    }

    /// Runs the node until the server ends.
    pub(super) async fn run(
        mut self,
        mut arriving: Arriving,
        listeners: Vec<std::net::TcpListener>,
    ) {
        let Some(mut events) = self.events.take() else { return };
        for listener in listeners {
            match TcpListener::from_std(listener) {
                Ok(listener) => self.links.listen(listener),
                Err(error) => {
                    log::fatal(&format!("the cluster's bus cannot be listened on: {error}"));
                    return self.shared.shutdown.fail();
                }
            }
        }
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.has_failed && !self.shared.shutdown.is_asked() {
            tokio::select! {
                // What clients publish waits while there is anything else.
                biased;
                _ = tick.tick() => {
                    self.beat();
                    self.step(Machine::tick);
                    self.save_if_due();
                    self.shared.engine.redirect_blocked();
                    if std::mem::take(&mut self.has_lost_slots) {
                        self.shared.engine.drop_shard_channels();
                    }
                }
                Some(next) = next(&mut arriving.orders, &mut events) => match next {
                    Next::Order(order) => self.obey(order),
                    Next::Event(event) => self.take(event),
                },
                Some(published) = arriving.published.recv() => self.publish(&published),
            }
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Step(step, done) => {
                let was_due = std::mem::take(&mut self.is_save_due);
                self.step(step);
                let is_saved = !self.is_save_due || self.save(false);
                self.is_save_due |= was_due;
                if !self.has_failed {
                    let _ = done.send(if is_saved { Stepped::Done } else { Stepped::Unsaved });
                }
            }
            Order::Paused(link, message, have_ended) => self.paused(link, *message, have_ended),
            Order::Settings(settings, policy, limit) => self.set(*settings, policy, limit),
        }
    }

    fn beat(&mut self) {
        let limit = self.parts.machine.settings().node_timeout;
        if self.parts.pulse.beat(self.clock().steady, limit) {
            self.show();
        }
    }

    fn publish(&mut self, published: &Published) {
        self.waiting.fetch_sub(weight(published), Relaxed);
        self.step(|machine, moment| machine.publish(published, moment));
    }

    /// Goes on with a failover for which writes are paused by now. The replica may have given it up
    /// meanwhile, or running writes could not be waited for.
    fn paused(&mut self, link: LinkId, message: Message, have_ended: bool) {
        let limit = self.parts.machine.settings().manual_failover_timeout;
        let limit = Duration::from_millis(limit);
        let is_late = self.pausing.take().is_some_and(|since| since.elapsed() > limit);
        if have_ended && !is_late {
            self.step(|machine, moment| machine.received(link, message, moment));
        }
        if !self.is_paused {
            let _ = self.parts.roles.send(Role::Release);
        }
    }

    /// Lets clients write again, unless writes are being paused for another failover.
    fn resume(&mut self) {
        self.is_paused = false;
        if self.pausing.is_none() {
            let _ = self.parts.roles.send(Role::Release);
        }
    }

    fn set(&mut self, settings: Settings, policy: Policy, limit: u64) {
        self.parts.machine.set_settings(settings);
        (self.parts.policy, self.limit) = (policy, limit);
        // The step ends what the settings began.
        self.step(Machine::tick);
        self.show();
    }

    fn take(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Accepted(stream) => self.accept(stream),
            // The machine may have given it up meanwhile.
            LinkEvent::Connected(link, stream) if self.parts.machine.knows(link) => {
                self.links.open(link, stream);
                self.step(|machine, moment| machine.connected(link, moment));
            }
            LinkEvent::Connected(..) => {}
            LinkEvent::Received(link, message) if self.asks_for_pause(&message) => {
                // One at a time: the replica is told by every PING.
                if self.pausing.is_none() {
                    self.pausing = Some(Instant::now());
                    let _ = self.parts.roles.send(Role::Pause(link, message));
                }
            }
            LinkEvent::Received(link, message) => {
                self.step(|machine, moment| machine.received(link, *message, moment));
            }
            LinkEvent::Closed(link) => self.closed(link),
        }
    }

    /// Returns true if a message is that of a replica of this node that is to replace it.
    fn asks_for_pause(&self, message: &Message) -> bool {
        let Message::Full(header, Body::StartFailover) = message else { return false };
        let topology = self.parts.machine.topology();
        let sender = topology.node(header.sender);
        sender.is_some_and(|node| node.primary == Some(topology.my_id()))
    }

    fn accept(&mut self, stream: TcpStream) {
        let text = |address: std::io::Result<SocketAddr>| {
            let ip = address.ok().map(|address| address.ip().to_canonical().to_string());
            ip.and_then(|ip| Text::parse(ip.as_bytes())).unwrap_or_default()
        };
        let (remote, local) = (text(stream.peer_addr()), text(stream.local_addr()));
        let mut accepted = None;
        self.step(|machine, moment| {
            accepted = Some(machine.accepted(remote, local, moment));
            Vec::new()
        });
        if let Some(link) = accepted {
            self.links.open(link, stream);
        }
    }

    fn closed(&mut self, link: LinkId) {
        self.links.close(link);
        self.step(|machine, moment| machine.closed(link, moment));
    }

    fn clock(&self) -> Clock {
        let steady = self.parts.began.elapsed().as_millis() as u64;
        Clock { steady, wall: self.shared.engine.clock().unix_ms() }
    }

    /// Returns for how long nothing of the primary was heard, in milliseconds. How old the data is
    /// that a start finds is not known.
    fn data_age(&self, now_ms: u64) -> u64 {
        if !self.was_linked {
            return u64::MAX;
        }
        let replication = self.shared.engine.replication();
        let facts = replication.facts();
        let since = if replication.is_linked() { &facts.heard_ms } else { &facts.lost_ms };
        match since.load(Relaxed) {
            0 => u64::MAX,
            since => now_ms.saturating_sub(since),
        }
    }

    fn step(&mut self, step: impl FnOnce(&mut Machine, &mut Moment<'_>) -> Vec<Effect>) {
        let clock = self.clock();
        let engine = &self.shared.engine;
        let replication = engine.replication();
        let lacks_data = replication.is_replica()
            && (replication.facts().lacks_data.load(Relaxed)
                || engine.keyspace().is_syncing()
                || engine.config().loading());
        self.was_linked |= replication.is_linked();
        // Offset 0 says to others that there is no data.
        let least = u64::from(self.was_linked);
        let (offset, data_age) = match lacks_data {
            true => (0, u64::MAX),
            false if replication.is_replica() => {
                (replication.stream().end().max(least), self.data_age(clock.wall))
            }
            // A replica that is to take over waits also for commits that have not ended here.
            false => (replication.stream().appended(), 0),
        };
        let is_synced = replication.is_linked() && !lacks_data;
        let has_data = !lacks_data;
        let Parts { machine, random, .. } = &mut self.parts;
        let mut moment = Moment { clock, offset, data_age, is_synced, has_data, random };
        let effects = step(machine, &mut moment);
        self.perform(effects);
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        let saves = effects.iter().filter_map(|effect| match effect {
            Effect::Save { is_durable } => Some(*is_durable),
            _ => None,
        });
        let is_changed = saves.clone().next().is_some();
        let is_durable = saves.into_iter().any(|is_durable| is_durable);
        self.is_save_due |= is_changed;
        if is_durable && !self.save(true) {
            return;
        }
        if is_changed || self.parts.machine.is_up() != self.is_seen_up {
            self.show();
        }
        let pauses = effects.iter().any(|effect| matches!(effect, Effect::Pause { .. }));
        // One pause after the other: no write comes in between.
        let effects = effects.into_iter().filter(|effect| !pauses || *effect != Effect::Resume);
        effects.for_each(|effect| self.carry_out(effect));
    }

    /// Saves what need not be durable before others hear of it, once for all messages of a tick.
    fn save_if_due(&mut self) {
        let may_try = self.unsaved_since.is_none_or(|since| since.elapsed() >= TRIES_AGAIN);
        if self.is_save_due && may_try {
            self.save(false);
        }
    }

    /// Saves the node's file. Returns false if it cannot be saved: then the node stops if it must
    /// be durable, and tries again soon else.
    fn save(&mut self, is_durable: bool) -> bool {
        let text = self.parts.machine.file(self.clock());
        let saved = self.parts.file.save(&text);
        self.is_save_due = saved.is_err();
        self.unsaved_since = saved.is_err().then(Instant::now);
        let Err(error) = saved else { return true };
        let path = self.parts.file.path().display();
        if !is_durable {
            tracing::warn!("The cluster's file {path} cannot be saved: {error}");
            return false;
        }
        log::fatal(&format!("the cluster's file {path} cannot be saved: {error}"));
        self.has_failed = true;
        self.shared.shutdown.fail();
        false
    }

    /// Replaces the view that clients are served by.
    fn show(&mut self) {
        let is_up = self.parts.machine.is_up();
        if is_up != self.is_seen_up {
            let state = if is_up { "ok" } else { "fail" };
            tracing::info!("Cluster state changed: {state}");
        }
        self.is_seen_up = is_up;
        let view = View::of(&self.parts.machine, self.parts.policy);
        let mut lost = std::mem::replace(&mut self.shard_slots, view.slots_of_my_shard());
        lost.remove_all(&self.shard_slots);
        self.has_lost_slots |= !lost.is_empty();
        self.shared.engine.cluster().set_view(view);
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Save { .. } => {}
            Effect::Connect { link, ip, port } => {
                let timeout = self.parts.machine.settings().node_timeout;
                let timeout = Duration::from_millis(timeout).max(CONNECTS_WITHIN);
                self.links.connect(link, ip.as_str(), port, timeout);
            }
            Effect::Close(link) => self.links.close(link),
            Effect::Send { link, message } => {
                if !self.links.send(link, message, self.limit) {
                    tracing::warn!("A node reads too slowly: its connection is closed");
                    self.links.count_closed();
                    self.closed(link);
                }
            }
            Effect::Follow { ip, port, is_new_history, .. } => {
                if is_new_history {
                    // At once: the data is not that of the primary that the machine follows.
                    let facts = self.shared.engine.replication().facts();
                    facts.lacks_data.store(true, Relaxed);
                }
                let primary = Primary { host: ip.as_str().to_owned(), port };
                let following = Following { primary, is_new_history };
                let _ = self.parts.roles.send(Role::Follow(Some(following)));
            }
            Effect::Lead => {
                let _ = self.parts.roles.send(Role::Follow(None));
            }
            // Only asked for with settings that this server does not use yet.
            Effect::Detach => {}
            // Writes were paused before the machine got the message.
            Effect::Pause { .. } => self.is_paused = true,
            Effect::Resume => self.resume(),
            Effect::DropSlots(slots) => {
                let _ = self.parts.slots.send(slots);
            }
            Effect::Flush => {
                let _ = self.parts.roles.send(Role::Flush);
            }
            Effect::Deliver(published) => self.deliver(&published),
        }
    }

    fn deliver(&self, published: &Published) {
        let engine = &self.shared.engine;
        let (hub, after) = (engine.hub(), engine.durability().sent_after(0));
        let Published { channel, message, is_sharded } = published;
        if *is_sharded {
            hub.publish_shard(channel, message, after);
        } else {
            hub.publish(channel, message, after);
        }
    }
}
