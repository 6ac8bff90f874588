//! Clients in MONITOR mode: each executed command becomes a line for them.
//!
//! A line is made once and put into the inbox of each monitoring client, whose connection sends it.
//! Lines of different threads are in the order in which they were put there.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use keyspace::Db;

use crate::engine::Engine;
use crate::execute::call::Call;
use crate::session::Session;
use crate::session::client::Client;

/// Returns the line of MONITOR for an executed command.
pub(super) fn line(call: &Call<'_>) -> Vec<u8> {
    let addr = match call.is_from_script() {
        true => "lua",
        false => &call.session.client.peer.addr,
    };
    text(call.now_ns, call.session.db, addr, &call.redacted_args())
}

fn text(now_ns: u64, db: Db, addr: &str, words: &[&[u8]]) -> Vec<u8> {
    let mut line = Vec::with_capacity(128);
    let (db, micros) = (db.number(), now_ns / 1000);
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    line.extend_from_slice(format!("+{seconds}.{fraction:06} [{db} {addr}]").as_bytes());
    for word in words {
        line.push(b' ');
        resp::quoted(&mut line, word);
    }
    line.extend_from_slice(b"\r\n");
    line
}

/// Posts a line to all clients in MONITOR mode, for a command that showed or changed data up to
/// `own` in the log.
pub(crate) fn send_to_monitors(engine: &Engine, line: &[u8], own: u64) {
    let after = engine.durability().sent_after(own);
    engine.admin().monitors.clients().iter().for_each(|client| client.post(line, after));
}

/// Shows a refused EXEC to clients in MONITOR mode: Redis shows no other refused command.
#[cold]
pub(crate) fn show_refused_exec(engine: &Engine, session: &Session, args: &[&[u8]]) {
    if engine.monitors() > 0 {
        let addr = &session.client.peer.addr;
        let line = text(engine.clock().unix_ns(), session.db, addr, args);
        send_to_monitors(engine, &line, 0);
    }
}

/// Closes all clients in MONITOR mode, after a transaction that had more lines for them than may
/// wait for a client: their output would have a gap.
#[cold]
pub(crate) fn end_monitors(engine: &Engine) {
    let clients = engine.admin().monitors.clients().clone();
    if let Some(host) = engine.host() {
        let count = clients.len();
        host.log(&format!("{count} clients in MONITOR closed: one transaction had too many lines"));
    }
    clients.iter().for_each(|client| client.kill());
}

impl Engine {
    /// Adds the client to the list of those in MONITOR mode, or removes it.
    pub fn set_monitor(&self, client: &Arc<Client>, yes: bool) {
        let mut clients = self.admin().monitors.clients();
        if client.monitor.swap(yes, Relaxed) == yes {
            return;
        }
        if yes {
            clients.push(Arc::clone(client));
            self.add_monitors(1);
        } else {
            clients.retain(|c| c.id != client.id);
            self.add_monitors(-1);
        }
    }
}
