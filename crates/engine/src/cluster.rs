//! The node of a cluster that this server is, as sessions and commands see it.
//!
//! The server owns the node and runs it; here is what others need: the present view of the cluster,
//! which says where a request belongs, and the way to ask the node. A view is replaced as a whole.
//! Each session keeps the one that it used last, so that a command looks at one counter to know
//! that it is still the present one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use ::cluster::message::Published;
use ::cluster::{Effect, LinkId, Machine, Moment, View};

use crate::failure::Failure;

/// A step of the node: what it does, and what is to be done next.
pub type NodeStep = Box<dyn FnOnce(&mut Machine, &mut Moment<'_>) -> Vec<Effect> + Send>;

/// The error of what only a cluster has.
pub const DISABLED: &str = "ERR This instance has cluster support disabled";
/// The error of a change that a restart forgets.
const UNSAVED: &str =
    "ERR the change is in force, but the cluster's file cannot be saved: see the log";
/// The error when the node has ended, or a step of it has failed.
const ENDED: &str = "ERR the server is shutting down";

/// The end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// It was taken, and what follows from it was done.
    Done,
    /// It was taken, but the node's file could not be saved.
    Unsaved,
    /// The node has ended, or could not do it.
    Ended,
}

/// The node, as the server runs it.
pub trait Node: Send + Sync {
    /// Takes a step, and waits until what follows from it was done and the view is that after it.
    fn step(&self, step: NodeStep) -> Stepped;

    /// Sends a message to other nodes, soon.
    fn publish(&self, message: Published);

    /// Returns how many bytes wait to be sent on each link.
    fn unsent(&self) -> Vec<(LinkId, u64)>;

    /// Returns how many bytes of messages that clients have published wait for the links.
    fn published(&self) -> u64;

    /// Returns how many links were closed since too many bytes waited on them.
    fn closed_links(&self) -> u64;
}

/// The node and the view of the cluster, if this server is in one.
#[derive(Default)]
pub struct Cluster {
    is_on: AtomicBool,
    /// Counts the views.
    version: AtomicU64,
    view: RwLock<Option<Arc<View>>>,
    node: OnceLock<Arc<dyn Node>>,
}

impl Cluster {
    /// Returns true if this server is a node of a cluster.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Makes this server a node, once, before any client is served.
    pub fn join(&self, node: Arc<dyn Node>, view: View) {
        self.set_view(view);
        let _ = self.node.set(node);
        self.is_on.store(true, Relaxed);
    }

    /// Replaces the view.
    pub fn set_view(&self, view: View) {
        let mut present = self.view.write().unwrap_or_else(PoisonError::into_inner);
        *present = Some(Arc::new(view));
        self.version.fetch_add(1, std::sync::atomic::Ordering::Release);
    }

    /// Returns the view.
    pub fn view(&self) -> Option<Arc<View>> {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of the view.
    #[inline]
    fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Returns the node.
    pub fn node(&self) -> Result<&dyn Node, Failure> {
        self.node.get().map(|node| &**node).ok_or_else(|| DISABLED.into())
    }

    /// Returns how many bytes wait to be sent to other nodes.
    pub fn link_memory(&self) -> u64 {
        let waits = |node: &dyn Node| {
            let unsent = node.unsent().iter().map(|(_, bytes)| bytes).sum::<u64>();
            node.published() + unsent
        };
        self.node().map_or(0, waits)
    }

    /// Takes a step of the node that has an answer, and waits for it.
    pub fn ask<T: Send + 'static>(
        &self,
        step: impl FnOnce(&mut Machine, &mut Moment<'_>) -> (T, Vec<Effect>) + Send + 'static,
    ) -> Result<T, Failure> {
        let (answer, answered) = sync_channel(1);
        let stepped = self.node()?.step(Box::new(move |machine, moment| {
            let (result, effects) = step(machine, moment);
            let _ = answer.send(result);
            effects
        }));
        match stepped {
            Stepped::Done => answered.try_recv().map_err(|_| ENDED.into()),
            Stepped::Unsaved => Err(UNSAVED.into()),
            Stepped::Ended => Err(ENDED.into()),
        }
    }
}

/// A session's part in the cluster.
#[derive(Debug, Default)]
pub struct InCluster {
    /// The view that it used last, and its number.
    view: Option<Arc<View>>,
    version: u64,
    /// For how many commands more ASKING holds.
    asks: u8,
    /// Whether it reads from a replica (READONLY).
    pub is_read_only: bool,
    /// Whether it is the server's own, which may use every key.
    pub(crate) is_exempt: bool,
    /// Whether it is the server's own, which deletes keys that are not to be here.
    pub(crate) drops: bool,
}

impl InCluster {
    /// Returns the part of a session that may use every key.
    pub(crate) fn exempt() -> InCluster {
        InCluster { is_exempt: true, ..InCluster::default() }
    }

    /// Returns the part of a session that deletes keys that are not to be here, and no others.
    pub(crate) fn dropping() -> InCluster {
        InCluster { drops: true, ..InCluster::exempt() }
    }

    /// Notes that the next command may use a slot that is being imported: ASKING.
    pub fn ask(&mut self) {
        // This one's own end counts.
        self.asks = 2;
    }

    /// Returns true if ASKING came before the command that is executed now.
    pub(crate) fn is_asking(&self) -> bool {
        self.asks > 0
    }

    /// Ends a command.
    pub(crate) fn end_command(&mut self) {
        self.asks = self.asks.saturating_sub(1);
    }

    /// Returns the present view.
    #[inline]
    pub(crate) fn refresh(&mut self, cluster: &Cluster) -> Option<&View> {
        if !self.is_current(cluster) || self.view.is_none() {
            self.version = cluster.version();
            self.view = cluster.view();
        }
        self.view.as_deref()
    }

    /// Returns true if the view that it used last is the present one.
    #[inline]
    pub(crate) fn is_current(&self, cluster: &Cluster) -> bool {
        self.version == cluster.version()
    }

    /// Returns the view that it used last.
    #[inline]
    pub(crate) fn view(&self) -> Option<&View> {
        self.view.as_deref()
    }
}
