//! Sends clients of a cluster to the node that a request belongs to, when it is admitted.

use std::sync::atomic::Ordering::Relaxed;

use ::cluster::topology::route::{Presence, Request as Wanted, Slots};
use keyspace::Key;

use super::place::{presence, refusal, wanted};
use super::queue;
use super::request::Request;
use super::slots::{slots_of, takes_channels};
use crate::engine::Engine;
use crate::failure::Done;
use crate::session::Session;
use crate::table::Command;
use crate::table::spec::{CommandSpec, EXECUTES_QUEUE};

impl Engine {
    /// Refuses a request that belongs to another node.
    pub(crate) fn check_place(
        &self,
        session: &mut Session,
        command: &Command,
        request: &Request<'_>,
    ) -> Done {
        if session.client.lost_channels.load(Relaxed) {
            self.hub().reconcile(&session.client, &mut session.subscriptions);
        }
        let spec = command.spec;
        let queue = session.multi.as_deref().filter(|_| spec.is(EXECUTES_QUEUE));
        let (slots, has_channels) = match queue {
            Some(queue) => (queue.slots, queue.has_channels),
            None => (slots_of(spec, request.args, request.keys), takes_channels(spec)),
        };
        if slots == Slots::None {
            return Ok(());
        }
        let is_queue = queue.is_some();
        let part = session.cluster.get_or_insert_default();
        let Some(view) = part.refresh(self.cluster()) else { return Ok(()) };
        if matches!(slots, Slots::One(slot) if view.serves(slot)) || part.is_exempt {
            return Ok(());
        }
        let is_write = queue::may_write(self, session, command, request.args);
        let keys: &[Key<'_>] = if is_queue { &[] } else { request.keys };
        self.send_elsewhere(session, spec, slots, has_channels, is_write, keys)
    }

    /// Refuses a request that is not plainly for this node. Looks up its keys if its slot is open.
    #[cold]
    fn send_elsewhere(
        &self,
        session: &Session,
        spec: &CommandSpec,
        slots: Slots,
        is_pubsub: bool,
        is_write: bool,
        keys: &[Key<'_>],
    ) -> Done {
        let Some(part) = session.cluster.as_deref() else { return Ok(()) };
        let Some(view) = part.view() else { return Ok(()) };
        let mut failed = None;
        let wanted = Wanted { slots, is_pubsub, ..wanted(part, spec, is_write) };
        let route = view.route(wanted, || {
            // The keys of a queue are looked up when their shards are locked.
            if keys.is_empty() {
                return Presence::default();
            }
            match self.try_lock_keys(Some(keys), self.clock.unix_ms()) {
                Ok(txn) => presence(session, keys, &txn),
                Err(failure) => {
                    failed = Some(failure);
                    Presence::default()
                }
            }
        });
        let refused = refusal(session, view, route);
        failed.map_or(refused, Err)
    }
}
