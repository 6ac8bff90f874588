//! The handle by which commands and the configuration reach the node.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use ::cluster::machine::Settings;
use ::cluster::message::{Message, Published};
use ::cluster::{LinkId, Policy};
use commands::NodeStep;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::settings;
use super::unsent::Unsent;
use crate::config::Values;

/// Something that the node is to do.
pub(super) enum Order {
    /// Take a step, and say when all that follows from it was done.
    Step(NodeStep, SyncSender<()>),
    /// Tell other nodes what a client has published.
    Publish(Published),
    /// Take this message, by which a replica asks that writes are paused: they are.
    Paused(LinkId, Box<Message>),
    /// Obey other settings.
    Settings(Box<Settings>, Policy, u64),
}

/// The node, as others see it.
pub(crate) struct ClusterNode {
    orders: UnboundedSender<Order>,
    pub(super) unsent: Arc<Unsent>,
}

impl ClusterNode {
    /// Returns a handle, and where its orders arrive.
    pub(super) fn new() -> (ClusterNode, UnboundedReceiver<Order>) {
        let (orders, received) = unbounded_channel();
        (ClusterNode { orders, unsent: Arc::default() }, received)
    }

    /// Gives an order to the task.
    pub(super) fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    /// Puts other settings into effect, soon.
    pub(crate) fn set_settings(&self, values: &Values) {
        let settings = Box::new(settings::of_machine(values));
        let limit = values.cluster_link_sendbuf_limit;
        let _ = self.orders.send(Order::Settings(settings, settings::policy(values), limit));
    }
}

impl commands::ClusterNode for ClusterNode {
    fn step(&self, step: NodeStep) {
        let (done, waits) = sync_channel(1);
        if self.orders.send(Order::Step(step, done)).is_ok() {
            let _ = waits.recv();
        }
    }

    fn publish(&self, message: Published) {
        let _ = self.orders.send(Order::Publish(message));
    }

    fn unsent(&self) -> Vec<(LinkId, u64)> {
        self.unsent.list()
    }
}
