//! The begin and the end of sessions.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::cluster::InCluster;
use crate::engine::Engine;
use crate::session::Session;
use crate::session::client::{Client, Peer};
use crate::session::replica::Received;
use crate::session::users::Account;
use crate::wait::stop::stop_waiting;

impl Engine {
    /// Begins a session; `thread` is the number of the thread that will serve it.
    pub fn connect(&self, peer: Peer, thread: usize) -> Session {
        let client = self.clients().enter(peer, self.clock().unix_ms());
        let seed = self.seed() ^ client.id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let user = Arc::clone(self.users().default_user());
        let mut session = Session::new(client, user, thread, seed);
        self.permissions().authenticate_default(&mut session);
        session
    }

    /// Returns a session that replays the command log: not registered, not checked, not logged.
    pub fn connect_replay(&self) -> Session {
        let mut session = self.connect(Peer::default(), 0);
        self.clients().leave(session.id());
        session.replay = true;
        session.user = Arc::new(Account::internal());
        session.authenticated = true;
        session
    }

    /// Returns a session by which the server itself deletes keys: not registered, not checked, but
    /// logged as a client's.
    pub fn connect_itself(&self) -> Session {
        let mut session = self.connect_replay();
        session.replay = false;
        session.cluster = Some(Box::new(InCluster::exempt()));
        session
    }

    /// Returns a session by which the server itself deletes keys of slots that other nodes have. Of
    /// slots that this node has again its commands are refused.
    pub fn connect_to_drop_slots(&self) -> Session {
        let mut session = self.connect_itself();
        session.cluster = Some(Box::new(InCluster::dropping()));
        session
    }

    /// Returns a session that executes what this server receives as a replica, in the history of
    /// `epoch`: not checked, and passed on to the stream as it came.
    pub fn connect_to_primary(&self, epoch: u64) -> Session {
        let mut session = self.connect_replay();
        session.received = Some(Box::new(Received::new(epoch)));
        session
    }

    /// Registers the connection to the primary, which has no session of a client.
    pub fn enter_primary(&self, peer: Peer) -> Arc<Client> {
        let client = self.clients().enter(peer, self.clock().unix_ms());
        client.is_primary.store(true, Relaxed);
        client
    }

    /// Notes that the connection to the primary has ended.
    pub fn leave_primary(&self, client: &Client) {
        self.clients().leave(client.id);
    }

    /// Ends a session, in which nothing may be executed any more.
    pub fn disconnect(&self, session: &mut Session) {
        if let Some(moved) = session.moved.take() {
            // Its call may still run: the thread that executes it then ends its session.
            match moved.abandon() {
                Some(mut taken) => self.disconnect(&mut taken),
                None => {
                    self.clients().leave(session.id());
                    self.client_memory().forget(&session.client);
                }
            }
            return;
        }
        if let Some(entry) = session.replica.take().and_then(|replica| replica.entry) {
            self.replication().replicas().leave(&entry);
        }
        session.end_wait();
        stop_waiting(self, session);
        self.tracking_clients().end(session);
        self.hub().leave_all(&session.client, &mut session.subscriptions);
        self.unwatch(session);
        self.clients().leave(session.id());
        self.client_memory().forget(&session.client);
    }
}
