//! Which clients there are: the lines of CLIENT LIST, and the filters of CLIENT KILL.

use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use crate::client::Client;
use crate::engine::Engine;

/// One line of CLIENT LIST, without its end.
pub fn describe(engine: &Engine, client: &Client, now_ms: u64) -> String {
    let text = |bytes: &std::sync::Mutex<Vec<u8>>| {
        let bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let since = |ms: u64| now_ms.saturating_sub(ms) / 1000;
    let user = text(&client.user);
    let command = engine.table().all().get(client.last_command.load(Relaxed));
    let output = client.output.load(Relaxed);
    let (query, spare) =
        (client.query_buffer.load(Relaxed), client.query_buffer_free.load(Relaxed));
    let (argv, multi) = (client.argv_mem.load(Relaxed), client.multi_mem.load(Relaxed));
    format!(
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub=0 psub=0 ssub=0 \
         multi={} qbuf={query} qbuf-free={spare} argv-mem={argv} multi-mem={multi} rbs={output} \
         rbp={output} obl={output} oll=0 omem=0 tot-mem={} events={} cmd={} user={} redir=-1 resp={}",
        client.id,
        client.peer.addr,
        client.peer.laddr,
        client.peer.fd,
        text(&client.name),
        since(client.since_ms),
        since(client.seen_ms.load(Relaxed)),
        flags(client),
        client.db.load(Relaxed),
        client.queued.load(Relaxed),
        query + spare + argv + multi + output,
        if output > 0 { "rw" } else { "r" },
        command.map_or_else(|| "NULL".to_owned(), |c| c.full_name()),
        if user.is_empty() { "default" } else { &user },
        client.protocol.load(Relaxed),
    )
}

fn flags(client: &Client) -> String {
    let mut flags = String::new();
    let mut add = |flag, yes| {
        if yes {
            flags.push(flag);
        }
    };
    add('O', client.monitor.load(Relaxed));
    add('x', client.queued.load(Relaxed) >= 0);
    add('A', client.killed.load(Relaxed));
    add('U', client.peer.addr.starts_with('/'));
    add('e', client.no_evict.load(Relaxed));
    if flags.is_empty() { "N".into() } else { flags }
}

/// Kinds of clients that may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Normal,
    Master,
    Replica,
    Pubsub,
}

impl Type {
    pub(super) fn named(word: &[u8]) -> Option<Type> {
        match word.to_ascii_lowercase().as_slice() {
            b"normal" => Some(Type::Normal),
            b"master" => Some(Type::Master),
            b"slave" | b"replica" => Some(Type::Replica),
            b"pubsub" => Some(Type::Pubsub),
            _ => None,
        }
    }
}

/// What CLIENT KILL looks for: all that is given must hold.
#[derive(Default)]
pub(super) struct Filter {
    pub(super) id: Option<u64>,
    pub(super) kind: Option<Type>,
    pub(super) addr: Option<Vec<u8>>,
    pub(super) laddr: Option<Vec<u8>>,
    pub(super) user: Option<Vec<u8>>,
    pub(super) skip: Option<u64>,
}

impl Filter {
    fn admits(&self, client: &Client) -> bool {
        let user = client.user.lock().unwrap_or_else(PoisonError::into_inner);
        let user: &[u8] = if user.is_empty() { b"default" } else { &user };
        self.id.is_none_or(|id| id == client.id)
            && self.skip.is_none_or(|id| id != client.id)
            && self.kind.is_none_or(|kind| kind == Type::Normal)
            && self.addr.as_ref().is_none_or(|addr| addr == client.peer.addr.as_bytes())
            && self.laddr.as_ref().is_none_or(|addr| addr == client.peer.laddr.as_bytes())
            && self.user.as_ref().is_none_or(|name| name == user)
    }

    /// The clients that the filter lets through.
    pub(super) fn find(&self, engine: &Engine) -> Vec<Arc<Client>> {
        let mut found = engine.clients().list();
        found.retain(|client| self.admits(client));
        found
    }
}
