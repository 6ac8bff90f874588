//! Runs a history on both servers, in lockstep, message by message.
//!
//! After each step all messages of all connections are compared. redis-server executes one command
//! at a time and has sent all of its messages when it replies to the next: a PING of the
//! administrator is enough to know all messages. Perdura's threads write at their own pace, so each
//! of its connections is read until it has received as many messages as redis-server's. Additional
//! messages are found at this step, or at one of the next.

use super::history::{ADMIN, Act, CONNECTIONS, History, Step};
use super::same::{self, Sent, Who};
use crate::both::Both;
use crate::steps::{Words, words};
use std::cell::Cell;
use std::time::{Duration, Instant};
use testkit::{Client, Reply, Server};

/// The maximum time for a message that the other server has sent.
const PATIENCE: Duration = Duration::from_secs(2);
/// The maximum time for a reply.
const REPLY: Duration = Duration::from_secs(10);
/// More than the lifetime of keys that must expire.
const EXPIRY: Duration = Duration::from_millis(3);
/// The command that polls for a blocked connection, and says nothing about the history.
const POLL: &str = "INFO clients";
/// Stands for the message of a closed connection.
const CLOSED: &str = "the connection has ended";

/// The first difference between two servers.
pub(super) struct Difference {
    pub(super) at: usize,
    pub(super) connection: usize,
    pub(super) ours: String,
    pub(super) theirs: String,
}

struct Connection {
    client: Client,
    /// True if it waits for a reply.
    is_blocked: bool,
    is_closed: bool,
}

/// One of the servers.
struct Side {
    connections: Vec<Connection>,
    who: Who,
}

/// The messages that each connection has received.
type Received = [Vec<Reply>; CONNECTIONS];

/// Runs a history. Returns the first difference.
pub(super) fn run(both: &Both, history: &History) -> Option<Difference> {
    let [ours, theirs] = &both.servers;
    let mut ours = Side::new(ours, &history.setup);
    let mut theirs = Side::new(theirs, &history.setup);
    for (at, step) in history.steps.iter().enumerate() {
        let of = &theirs.connections[step.connection];
        if of.is_blocked || of.is_closed {
            continue;
        }
        let (words, may_block) = match &step.act {
            Act::Call(words) | Act::Expiring(words) => (words, false),
            Act::MayBlock(words) => (words, true),
        };
        let mut wanted = theirs.step(step, words, may_block, None);
        let found = ours.step(step, words, may_block, Some(&wanted));
        if may_have_failed(words, &wanted[step.connection]) {
            for (wanted, found) in wanted.iter_mut().zip(&found) {
                wanted.retain(|message| !is_keymiss(message) || found.contains(message));
            }
        }
        if matches!(step.act, Act::Expiring(_)) {
            std::thread::sleep(EXPIRY);
        }
        for connection in 0..CONNECTIONS {
            let is_reply = connection == step.connection;
            let asked = is_reply.then_some(words);
            let sent = |who, messages| Sent { who, messages };
            let pair = same::differ(
                asked,
                sent(&ours.who, &found[connection]),
                sent(&theirs.who, &wanted[connection]),
            );
            if let Some((ours, theirs)) = pair {
                return Some(Difference { at, connection, ours, theirs });
            }
        }
    }
    None
}

/// Returns true if a command, or one of a script or transaction, may have failed: then it sends no
/// keymiss, as compatibility.md says.
fn may_have_failed(words: &Words, received: &[Reply]) -> bool {
    let name = words[0].to_ascii_uppercase();
    name.starts_with(b"EVAL") || name.starts_with(b"FCALL") || received.iter().any(has_error)
}

fn has_error(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(_)) || reply.items().iter().any(has_error)
}

/// Returns true for the message of an event about a missing key.
fn is_keymiss(message: &Reply) -> bool {
    message.items().iter().any(|item| {
        let text = item.text();
        text == "keymiss" || text.ends_with("__:keymiss")
    })
}

impl Side {
    /// Connects, once no connection of an earlier history is left.
    fn new(server: &Server, setup: &[Words]) -> Side {
        let mut admin = server.client();
        let began = Instant::now();
        let alone = [
            "connected_clients:1\r",
            "blocked_clients:0\r",
            "tracking_clients:0\r",
            "pubsub_patterns:0\r",
            "pubsub_channels:0\r",
        ];
        while began.elapsed() < PATIENCE {
            let text = admin.run("INFO").text();
            if alone.iter().all(|line| text.contains(line)) {
                break;
            }
        }
        admin.pipeline(setup).expect("both servers are there");
        let clients = (1..CONNECTIONS).map(|_| server.client());
        let mut connections: Vec<Connection> = std::iter::once(admin)
            .chain(clients)
            .map(|client| Connection { client, is_blocked: false, is_closed: false })
            .collect();
        let id = |c: &mut Connection| c.client.run("CLIENT ID").int().expect("a number");
        let ids = connections.iter_mut().map(id).collect();
        let ports = connections.iter().filter_map(|c| c.client.port()).collect();
        connections[ADMIN].client.run("CONFIG RESETSTAT");
        let info = connections[ADMIN].client.info("persistence");
        let changes = info.get("rdb_changes_since_last_save").and_then(|n| n.parse().ok());
        let changes = Cell::new(changes.unwrap_or_default());
        Side { connections, who: Who { ids, ports, changes, ..Who::default() } }
    }

    fn step(
        &mut self,
        step: &Step,
        words: &Words,
        may_block: bool,
        wanted: Option<&Received>,
    ) -> Received {
        let mut received = Received::default();
        let words = self.who.with_ids(words);
        self.who.see(&words);
        self.who.has_polled |= may_block;
        let is_gone = self.connections[step.connection].client.send(&words).is_err();
        if may_block && !is_gone {
            self.await_reply_or_block(step.connection);
        }
        match wanted {
            Some(wanted) => {
                let until = Instant::now() + PATIENCE;
                for connection in 0..CONNECTIONS {
                    while received[connection].len() < wanted[connection].len()
                        && self.receive(connection, until, &mut received)
                    {}
                }
            }
            None if self.connections[step.connection].is_blocked => {}
            None => {
                // A client that monitors already gets no reply to MONITOR.
                let patience = if words[0] == b"MONITOR" { EXPIRY } else { REPLY };
                let until = Instant::now() + patience;
                let of = step.connection;
                while received[of].is_empty() && self.receive(of, until, &mut received) {}
            }
        }
        self.fence(step.connection, &mut received);
        for connection in 0..CONNECTIONS {
            while self.receive(connection, Instant::now(), &mut received) {}
        }
        received
    }

    /// Sends a command whose reply comes after everything sent before.
    fn fence(&mut self, by: usize, received: &mut Received) {
        if by == ADMIN {
            while self.receive(ADMIN, Instant::now(), received) {}
        }
        let admin = &mut self.connections[ADMIN].client;
        let reply = admin.run("PING");
        if reply != Reply::Simple("PONG".into()) {
            received[ADMIN].push(reply);
        }
    }

    /// Waits until a connection has a reply, or until the server has one blocked client more.
    fn await_reply_or_block(&mut self, connection: usize) {
        let blocked = self.connections.iter().filter(|c| c.is_blocked).count() + 1;
        let line = format!("blocked_clients:{blocked}\r");
        let began = Instant::now();
        while began.elapsed() < REPLY {
            let client = &mut self.connections[connection].client;
            if client.has_more(Duration::ZERO).unwrap_or(true) {
                return;
            }
            self.who.polls += 1;
            if self.connections[ADMIN].client.run(POLL).text().contains(&line) {
                self.connections[connection].is_blocked = true;
                return;
            }
        }
    }

    /// Receives a message of a connection until this time; false if there is none.
    fn receive(&mut self, of: usize, until: Instant, received: &mut Received) -> bool {
        let connection = &mut self.connections[of];
        if connection.is_closed {
            return false;
        }
        let within = until.saturating_duration_since(Instant::now());
        if let Ok(false) = connection.client.has_more(within) {
            return false;
        }
        match connection.client.receive() {
            Ok(reply) if self.who.is_poll(&reply) => {}
            Ok(reply) => {
                if !matches!(reply, Reply::Push(_)) {
                    connection.is_blocked = false;
                }
                received[of].push(reply);
            }
            Err(_) => {
                connection.is_closed = true;
                received[of].push(Reply::Error(CLOSED.into()));
            }
        }
        true
    }
}

/// The words of the poll, as shown by MONITOR and SLOWLOG.
pub(super) fn poll() -> Words {
    words(POLL)
}
