//! What the node decides of this server's role: whom it replicates, and when writes are paused. A
//! thread does it, in order, since it waits for locks.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};

use ::cluster::LinkId;
use ::cluster::message::Message;
use commands::{Hold, Primary};
use resp::{Protocol, Writer};

use super::node::Order;
use crate::host::Server;
use crate::process::log;
use crate::threads::contained::contained;

/// A change of the role.
pub(super) enum Role {
    /// Replicate a primary; nobody if this server is one.
    Follow(Option<Following>),
    /// Delete all keys.
    Flush,
    /// Pause writes, and give the node this message, by which a replica asks for it, when those
    /// that had begun have ended: the node then says up to where the stream goes.
    Pause(LinkId, Box<Message>),
    /// Let clients write again, when all that was sent before was done.
    Release,
}

/// A primary to replicate.
pub(super) struct Following {
    pub(super) primary: Primary,
    /// Whether this server has nothing of its data.
    pub(super) is_new_history: bool,
}

/// Starts the thread. It ends when nobody can send to it any more.
pub(super) fn start(server: &Arc<Server>) -> std::io::Result<Sender<Role>> {
    let (sender, roles) = channel();
    let server = Arc::clone(server);
    std::thread::Builder::new().name("cluster-roles".into()).spawn(move || run(&server, &roles))?;
    Ok(sender)
}

fn run(server: &Server, roles: &Receiver<Role>) {
    for role in roles {
        if server.shared.shutdown.is_asked() {
            return;
        }
        let done = contained("a change of this node's role", || take(server, role));
        if done.is_none() {
            log::fatal("this node's role could not be changed: it cannot go on");
            server.shared.shutdown.fail();
        }
    }
}

fn take(server: &Server, role: Role) {
    let engine = &server.shared.engine;
    match role {
        Role::Follow(following) => {
            if following.as_ref().is_some_and(|following| following.is_new_history) {
                engine.replication().facts().lacks_data.store(true, Relaxed);
            }
            let primary = following.map(|following| following.primary);
            let follows = primary.is_some();
            if let Err(error) = server.target.follow(&server.shared, primary) {
                tracing::error!("The node's role cannot be changed: {error}");
            }
            if follows {
                // Its data ages from now on, until there is a link.
                engine.replication().facts().lost(engine.clock().unix_ms());
            }
        }
        Role::Flush => {
            let mut out = Writer::new(Protocol::Resp2);
            let _ = engine.execute(&mut engine.connect_itself(), &[b"FLUSHALL"], &mut out);
            if out.as_bytes().starts_with(b"-") {
                let why = String::from_utf8_lossy(out.as_bytes()).into_owned();
                tracing::warn!("The keys of a node that was reset are not deleted: {why}");
            }
        }
        Role::Pause(link, message) => {
            engine.hold_writes(Hold::Cluster);
            let have_ended = engine.end_running_writes();
            if let Some(node) = server.shared.cluster.get() {
                node.order(Order::Paused(link, message, have_ended));
            }
        }
        Role::Release => engine.release_writes(Hold::Cluster),
    }
}
