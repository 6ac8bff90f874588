//! What the node decides of this server's data: whom it replicates, and which keys are not its own
//! any more. A thread does it, one after the other, since it waits for locks.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use ::cluster::message::Message;
use ::cluster::{LinkId, SlotSet};
use commands::{Hold, Primary, Session};
use keyspace::{Db, slot};
use resp::{Protocol, Writer};

use super::node::Order;
use crate::host::Server;
use crate::threads::contained::contained;

/// Keys that are deleted by one command.
const AT_ONCE: usize = 100;

/// A change of the role, or of the data that follows from one.
pub(super) enum Role {
    /// Replicate a primary; nobody if this server is one.
    Follow(Option<Primary>),
    /// Delete all keys.
    Flush,
    /// Delete the keys of slots.
    DropSlots(SlotSet),
    /// Pause writes, and give the node this message, by which a replica asks for it, when those
    /// that had begun have ended: the node then says up to where the stream goes.
    Pause(LinkId, Box<Message>),
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
        contained("a change of this node's role", || take(server, role));
    }
}

fn take(server: &Server, role: Role) {
    match role {
        Role::Follow(primary) => {
            if let Err(error) = server.target.follow(&server.shared, primary) {
                tracing::error!("The node's role cannot be changed: {error}");
            }
        }
        Role::Flush => {
            let mut session = server.shared.engine.connect_itself();
            execute(server, &mut session, &[b"FLUSHALL"]);
        }
        Role::DropSlots(slots) => drop_slots(server, &slots),
        Role::Pause(link, message) => {
            server.shared.engine.hold_writes(Hold::Cluster);
            server.shared.engine.end_running_writes();
            if let Some(node) = server.shared.cluster.get() {
                node.order(Order::Paused(link, message));
            }
        }
    }
}

fn drop_slots(server: &Server, slots: &SlotSet) {
    let engine = &server.shared.engine;
    let mut session = engine.connect_itself();
    for shard in 0..engine.keyspace().shards() {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let txn = engine.keyspace().begin_one(shard, engine.clock().unix_ms());
        txn.database(Db::default()).for_each(&mut |key, _| {
            if slots.has(slot(key)) {
                keys.push(key.to_vec());
            }
        });
        drop(txn);
        for some in keys.chunks(AT_ONCE) {
            let mut words: Vec<&[u8]> = vec![b"DEL"];
            words.extend(some.iter().map(Vec::as_slice));
            execute(server, &mut session, &words);
        }
    }
}

fn execute(server: &Server, session: &mut Session, words: &[&[u8]]) {
    let mut out = Writer::new(Protocol::Resp2);
    let _ = server.shared.engine.execute(session, words, &mut out);
    if out.as_bytes().starts_with(b"-") {
        let why = String::from_utf8_lossy(out.as_bytes()).into_owned();
        tracing::warn!("Keys of slots that are not this node's cannot be deleted: {why}");
    }
}
