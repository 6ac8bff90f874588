//! The handle by which commands and the configuration reach the node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};

use ::cluster::machine::Settings;
use ::cluster::message::{Message, Published};
use ::cluster::{LinkId, Policy};
use commands::{NodeStep, Stepped};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::settings;
use super::unsent::Unsent;
use crate::config::Values;

/// Something that the node is to do.
pub(super) enum Order {
    /// Take a step, and say when all that follows from it was done.
    Step(NodeStep, SyncSender<Stepped>),
    /// Take this message, by which a replica asks that writes are paused: they are, or could not
    /// be.
    Paused(LinkId, Box<Message>, bool),
    /// Obey other settings.
    Settings(Box<Settings>, Policy, u64),
}

/// How many bytes of messages that clients have published may wait for the task. Others are
/// dropped.
const PUBLISHED: u64 = 64 << 20;

/// The node, as others see it.
pub(crate) struct ClusterNode {
    orders: UnboundedSender<Order>,
    published: UnboundedSender<Published>,
    pub(super) waiting: Arc<AtomicU64>,
    pub(super) unsent: Arc<Unsent>,
    /// The port of the bus, which stays when that for clients changes.
    bus_port: u16,
}

/// An event that arrives at the task of the bus.
pub(super) struct Arriving {
    pub(super) orders: UnboundedReceiver<Order>,
    /// A message that a client published: it waits while there is anything else to do.
    pub(super) published: UnboundedReceiver<Published>,
}

/// Returns the bytes that a message takes while it waits.
pub(super) fn weight(message: &Published) -> u64 {
    (message.channel.len() + message.message.len()) as u64 + 64
}

impl ClusterNode {
    /// Returns a handle, and where arrives what it is given.
    pub(super) fn new(bus_port: u16) -> (ClusterNode, Arriving) {
        let (orders, ordered) = unbounded_channel();
        let (published, passed_on) = unbounded_channel();
        let (waiting, unsent) = (Arc::default(), Arc::default());
        let node = ClusterNode { orders, published, waiting, unsent, bus_port };
        (node, Arriving { orders: ordered, published: passed_on })
    }

    /// Gives an order to the task.
    pub(super) fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    /// Puts other settings into effect, soon.
    pub(crate) fn set_settings(&self, values: &Values) {
        let settings = Box::new(settings::of_machine(values, self.bus_port));
        let limit = values.cluster_link_sendbuf_limit;
        let _ = self.orders.send(Order::Settings(settings, settings::policy(values), limit));
    }
}

impl commands::ClusterNode for ClusterNode {
    fn step(&self, step: NodeStep) -> Stepped {
        let (done, waits) = sync_channel(1);
        let _ = self.orders.send(Order::Step(step, done));
        waits.recv().unwrap_or(Stepped::Ended)
    }

    fn publish(&self, message: Published) {
        let weight = weight(&message);
        if self.waiting.fetch_add(weight, Relaxed) + weight > PUBLISHED
            || self.published.send(message).is_err()
        {
            self.waiting.fetch_sub(weight, Relaxed);
        }
    }

    fn unsent(&self) -> Vec<(LinkId, u64)> {
        self.unsent.list()
    }

    fn published(&self) -> u64 {
        self.waiting.load(Relaxed)
    }

    fn closed_links(&self) -> u64 {
        self.unsent.closed.load(Relaxed)
    }
}
