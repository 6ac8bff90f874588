//! Deleting the keys of slots that another node has by now. A thread does it, since it takes long
//! and waits for locks.
//!
//! A slot may come back meanwhile, with other keys. So each deletion looks again, while the slot's
//! shard is locked, whether the slot is this node's.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use ::cluster::SlotSet;
use commands::Session;
use resp::{Protocol, Writer};

use crate::host::Server;
use crate::threads::contained::contained;

/// The time between two looks whether the data is loaded.
const LOADS: Duration = Duration::from_millis(100);

/// Starts the thread. It ends when nobody can send to it any more.
pub(super) fn start(server: &Arc<Server>) -> std::io::Result<Sender<SlotSet>> {
    let (sender, slots) = channel();
    let server = Arc::clone(server);
    std::thread::Builder::new().name("cluster-slots".into()).spawn(move || run(&server, &slots))?;
    Ok(sender)
}

fn run(server: &Server, received: &Receiver<SlotSet>) {
    while let Ok(mut slots) = received.recv() {
        for more in received.try_iter() {
            more.iter().for_each(|slot| slots.add(slot));
        }
        // What is deleted before it is loaded comes back.
        while server.shared.engine.config().loading() && !server.shared.shutdown.is_asked() {
            std::thread::sleep(LOADS);
        }
        contained("deleting keys of slots", || drop_slots(server, &slots));
    }
}

fn drop_slots(server: &Server, slots: &SlotSet) {
    let engine = &server.shared.engine;
    let mut session = engine.connect_to_drop_slots();
    let shards = engine.keyspace().shards();
    for shard in 0..shards {
        if !slots.iter().any(|slot| usize::from(slot) % shards == shard) {
            continue;
        }
        let keys = engine.keys_of_slots(shard, slots);
        for key in &keys {
            if server.shared.shutdown.is_asked() {
                return;
            }
            delete(server, &mut session, key);
        }
    }
}

fn delete(server: &Server, session: &mut Session, key: &[u8]) {
    let mut out = Writer::new(Protocol::Resp2);
    let _ = server.shared.engine.execute(session, &[b"DEL", key], &mut out);
    if out.as_bytes().starts_with(b"-") {
        let why = String::from_utf8_lossy(out.as_bytes()).into_owned();
        tracing::warn!("A key of a slot that another node had is not deleted: {why}");
    }
}
