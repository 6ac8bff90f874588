//! The part of a session that other threads see: the registry used by CLIENT LIST, KILL and
//! maxclients.
//!
//! A [`Client`] is the shared part of a session: its owner writes to it with relaxed atomics on
//! every command, and others read it at any time. It knows no socket; to close a connection, set
//! its kill flag and call its waker.

mod memory;
mod operation;
mod tracking;
mod waiter;

use std::collections::BTreeMap;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::AcqRel,
    Ordering::Relaxed,
};
use std::sync::{Arc, Mutex, PoisonError};

use ::cluster::topology::route::Connection;

use crate::session::users::{Account, DEFAULT};

pub use operation::{BlockedOperation, Serving};
pub use tracking::{Tracking, TrackingOptions};
pub use waiter::{BlockedCommand, Ending, Served, Waiter};

/// Facts about a connection that never change.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// The client's number, if it got one when it arrived ([`Clients::reserve`]); 0 for none yet.
    pub id: u64,
    /// The client's address, `ip:port` or a socket's path with `:0`.
    pub addr: String,
    /// The server's address.
    pub laddr: String,
    /// File descriptor, for CLIENT LIST only; -1 for none.
    pub fd: i64,
    /// Whether it came from this machine (`protected-mode`, commands for local clients only).
    pub local: bool,
    /// Whether it speaks TLS, and is to do so with other nodes of a cluster.
    pub is_tls: bool,
}

impl Peer {
    /// Returns what decides how nodes of a cluster are named to it.
    pub fn connection(&self) -> Connection {
        let is_ipv6 = self.addr.starts_with('[') && !self.addr.starts_with("[::ffff:");
        Connection { is_tls: self.is_tls, is_ipv6 }
    }
}

/// The shared part of a session.
#[derive(Default)]
pub struct Client {
    /// Never used twice.
    pub id: u64,
    /// Its addresses.
    pub peer: Peer,
    /// When it connected, unix ms.
    pub since_ms: u64,
    /// When its last command began, unix ms.
    pub seen_ms: AtomicU64,
    /// CLIENT SETNAME.
    pub name: Mutex<Vec<u8>>,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: Mutex<Vec<u8>>,
    /// CLIENT SETINFO LIB-VER.
    pub lib_version: Mutex<Vec<u8>>,
    /// The user it is authenticated as.
    pub user: Mutex<Option<Arc<Account>>>,
    /// Selected database.
    pub db: AtomicU32,
    /// 2 or 3.
    pub protocol: AtomicU8,
    /// Commands queued by MULTI, or -1.
    pub queued: AtomicI64,
    /// Watched keys.
    pub watched: AtomicUsize,
    /// Number of the last command in the table, or `usize::MAX`.
    pub last_command: AtomicUsize,
    /// MONITOR.
    pub monitor: AtomicBool,
    /// Whether it is a replica.
    pub is_replica: AtomicBool,
    /// Whether it is the connection to the primary of this server.
    pub is_primary: AtomicBool,
    /// CLIENT NO-EVICT.
    pub no_evict: AtomicBool,
    /// CLIENT NO-TOUCH.
    pub no_touch: AtomicBool,
    /// CLIENT CAPA REDIRECT.
    pub redirects: AtomicBool,
    /// Bytes received and not yet executed.
    pub query_buffer: AtomicUsize,
    /// Spare space of the query buffer.
    pub query_buffer_free: AtomicUsize,
    /// Bytes of the words of a command that waits, or of one that shows its own client (CLIENT
    /// LIST).
    pub argv_mem: AtomicUsize,
    /// Bytes of queued commands.
    pub multi_mem: AtomicUsize,
    /// Bytes of replies not yet sent.
    pub output: AtomicUsize,
    /// Bytes of memory that the buffer of replies takes.
    pub reply_buffer: AtomicUsize,
    /// Bytes that others have left for it ([`Client::post`]).
    pub push_bytes: AtomicUsize,
    /// Whether its buffers are to be released when it is next found idle.
    pub release: AtomicBool,
    /// Whether it waits: for a key, for a pause of clients to end, or for a script that runs long.
    pub blocked: AtomicBool,
    /// Channels, patterns and shard channels that it listens to.
    pub subscriptions: [AtomicUsize; 3],
    /// Prefixes of keys that it tracks (CLIENT TRACKING).
    pub prefixes: AtomicUsize,
    /// Whether the connection is to be closed.
    pub killed: AtomicBool,
    /// Whether shard channels were taken from it ([`crate::notify::hub::Hub::reconcile`]).
    pub(crate) lost_channels: AtomicBool,
    /// Whether the inbox holds something.
    pub has_pushes: AtomicBool,
    /// How it tracks keys (CLIENT TRACKING).
    pub tracking: Tracking,
    /// What it waits for, while it is blocked.
    pub(crate) waiter: Mutex<Option<Arc<Waiter>>>,
    /// Bytes of it that are part of [`Clients::large_memory`].
    counted: AtomicUsize,
    inbox: Mutex<Inbox>,
    waker: Mutex<Option<Waker>>,
}

/// Pushes that others left for a client, and how far the log must be settled before they are sent.
#[derive(Default)]
struct Inbox {
    bytes: Vec<u8>,
    after: u64,
}

/// Bytes that a session takes, roughly.
pub(crate) const SESSION_BYTES: usize = 320;

/// Bytes that a connection without buffers takes, roughly.
const BASE: usize = size_of::<Client>() + SESSION_BYTES + 1024;

/// Bytes for each key that it watches, channel that it listens to and prefix that it tracks,
/// roughly.
const LISTED: usize = 100;

/// Wakes the thread that serves a connection, so that it looks at the kill flag.
pub type Waker = Box<dyn Fn() + Send>;

impl Client {
    /// Sets the function that wakes its connection.
    pub fn set_waker(&self, waker: Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }

    /// Calls the waker.
    pub fn wake(&self) {
        if let Some(wake) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            wake();
        }
    }

    /// Leaves bytes that the connection sends in addition to its replies (MONITOR), and wakes it.
    /// They are sent when the log is settled up to the offset `after`, since they may tell of what
    /// it holds. A client that is to be closed gets nothing more.
    pub fn post(&self, bytes: &[u8], after: u64) {
        if self.killed.load(Relaxed) {
            return;
        }
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        inbox.bytes.extend_from_slice(bytes);
        inbox.after = inbox.after.max(after);
        self.push_bytes.store(inbox.bytes.len(), Relaxed);
        drop(inbox);
        if !self.has_pushes.swap(true, AcqRel) {
            self.wake();
        }
    }

    /// Moves the pushes into `out`. Returns the offset up to which the log must be settled before
    /// they are sent; 0 for none.
    #[must_use]
    pub fn take_pushes(&self, out: &mut Vec<u8>) -> u64 {
        if !self.has_pushes.swap(false, AcqRel) {
            return 0;
        }
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let Inbox { bytes, after } = std::mem::take(&mut *inbox);
        out.extend_from_slice(&bytes);
        self.push_bytes.store(0, Relaxed);
        after
    }

    /// Returns the bytes of memory that it takes: CLIENT LIST's `tot-mem`.
    pub fn memory(&self) -> usize {
        let query = self.query_buffer.load(Relaxed) + self.query_buffer_free.load(Relaxed);
        let arguments = self.argv_mem.load(Relaxed) + self.multi_mem.load(Relaxed);
        let replies = self.reply_buffer.load(Relaxed).max(self.output.load(Relaxed));
        let listed = self.watched.load(Relaxed)
            + self.prefixes.load(Relaxed)
            + self.subscriptions.iter().map(|count| count.load(Relaxed)).sum::<usize>();
        BASE + query + arguments + replies + self.push_bytes.load(Relaxed) + listed * LISTED
    }

    /// Returns true if it listens to anything.
    pub fn is_subscribed(&self) -> bool {
        self.subscriptions.iter().any(|count| count.load(Relaxed) > 0)
    }

    /// Returns the name of its user.
    pub fn user_name(&self) -> Vec<u8> {
        let user = self.user.lock().unwrap_or_else(PoisonError::into_inner);
        user.as_ref().map_or(DEFAULT, |user| user.name()).to_vec()
    }

    /// Asks for the connection to be closed.
    pub fn kill(&self) {
        self.killed.store(true, Relaxed);
        self.wake();
    }
}

/// All sessions of an engine, by id.
#[derive(Default)]
pub struct Clients {
    next: AtomicU64,
    evicted: AtomicU64,
    large: AtomicI64,
    /// Whether `large` counts toward `maxmemory`.
    are_data: AtomicBool,
    all: Mutex<BTreeMap<u64, Arc<Client>>>,
}

impl Clients {
    pub(crate) fn enter(&self, peer: Peer, now_ms: u64) -> Arc<Client> {
        let client = Arc::new(Client {
            id: if peer.id > 0 { peer.id } else { self.reserve() },
            peer,
            since_ms: now_ms,
            seen_ms: AtomicU64::new(now_ms),
            protocol: AtomicU8::new(2),
            queued: AtomicI64::new(-1),
            last_command: AtomicUsize::new(usize::MAX),
            ..Client::default()
        });
        self.map().insert(client.id, Arc::clone(&client));
        client
    }

    /// Reserves the number of a client that arrives, so that the list is in the order of arrival.
    pub fn reserve(&self) -> u64 {
        self.next.fetch_add(1, Relaxed) + 1
    }

    pub(crate) fn leave(&self, id: u64) {
        self.map().remove(&id);
    }

    /// Returns the client of this id.
    pub fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.map().get(&id).cloned()
    }

    /// Returns all clients, by id.
    pub fn list(&self) -> Vec<Arc<Client>> {
        self.map().values().cloned().collect()
    }

    /// Returns the bytes of memory that all clients take.
    pub fn memory(&self) -> usize {
        self.map().values().map(|client| client.memory()).sum()
    }

    /// Returns the bytes of memory that those take which are replicas.
    pub fn memory_of_replicas(&self) -> usize {
        let map = self.map();
        let replicas = map.values().filter(|client| client.is_replica.load(Relaxed));
        replicas.map(|client| client.memory()).sum()
    }

    /// Returns how many were closed because all took more memory than `maxmemory-clients`.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    /// Marks a client as closed because all take too much memory, and counts it. Returns false if
    /// it had been closed before: several threads may find the same one.
    pub fn mark_evicted(&self, client: &Client) -> bool {
        let is_first = !client.killed.swap(true, Relaxed);
        if is_first {
            self.evicted.fetch_add(1, Relaxed);
        }
        is_first
    }

    /// Zeroes the count: CONFIG RESETSTAT.
    pub fn reset_evicted(&self) {
        self.evicted.store(0, Relaxed);
    }

    /// Closes the clients that take most memory until the others take at most `limit` bytes.
    /// Clients with CLIENT NO-EVICT are neither counted nor closed, as in Redis. Returns the closed
    /// ones.
    pub fn evict(&self, limit: usize) -> Vec<Arc<Client>> {
        let mut all: Vec<(usize, Arc<Client>)> = self
            .list()
            .into_iter()
            .filter(|client| !client.is_primary.load(Relaxed))
            .filter(|client| !client.no_evict.load(Relaxed) && !client.killed.load(Relaxed))
            .map(|client| (client.memory(), client))
            .collect();
        let mut total: usize = all.iter().map(|(memory, _)| memory).sum();
        if total <= limit {
            return Vec::new();
        }
        all.sort_unstable_by_key(|(memory, client)| (*memory, client.id));
        let mut evicted = Vec::new();
        while total > limit
            && let Some((memory, client)) = all.pop()
        {
            total -= memory;
            if self.mark_evicted(&client) {
                evicted.push(Arc::clone(&client));
            }
            client.wake();
        }
        evicted
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.map().len()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn map(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_clients_are_evicted_first_and_those_that_asked_not_to_be_are_not() {
        let clients = Clients::default();
        let client = |output: usize| {
            let client = clients.enter(Peer::default(), 0);
            client.output.store(output, Relaxed);
            client
        };
        let [small, largest, kept, large] = [1000, 3 << 20, 9 << 20, 2 << 20].map(client);
        kept.no_evict.store(true, Relaxed);
        assert!(clients.memory() > 14 << 20);
        assert!(clients.evict(6 << 20).is_empty(), "5 MiB are below the limit");
        let ids = |evicted: Vec<Arc<Client>>| evicted.iter().map(|c| c.id).collect::<Vec<_>>();
        assert_eq!(ids(clients.evict(4 << 20)), [largest.id]);
        assert_eq!(ids(clients.evict(1 << 20)), [large.id]);
        assert!(!clients.mark_evicted(&large), "its own thread finds it too");
        assert_eq!(clients.evicted(), 2);
        let killed = [&small, &largest, &kept, &large].map(|c| c.killed.load(Relaxed));
        assert_eq!(killed, [false, true, false, true]);
    }
}
