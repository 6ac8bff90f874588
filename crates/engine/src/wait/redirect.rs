//! Blocked clients whose keys another node of the cluster has by now.

use std::sync::PoisonError;

use ::cluster::topology::route::{Presence, Request, Slots};
use keyspace::slot;

use crate::engine::Engine;

impl Engine {
    /// Sends blocked clients whose keys are not served here any more to where they are. To be
    /// called regularly.
    pub fn redirect_blocked(&self) {
        if self.waiting().is_empty() {
            return;
        }
        let Some(view) = self.cluster().view() else { return };
        // There are far more clients than keys that some wait for.
        if self.waiting().keys().iter().all(|(_, key)| view.serves(slot(key))) {
            return;
        }
        for client in self.clients().list() {
            let waiter = client.waiter.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let first = waiter.as_ref().and_then(|waiter| waiter.keys.first());
            let Some(slot) = first.map(|key| slot(key)).filter(|slot| !view.serves(*slot)) else {
                continue;
            };
            // A client may wait at a slot that is being moved, and at a replica.
            let (is_asking, is_read_only) = (true, true);
            let slots = Slots::One(slot);
            let request = Request { slots, is_asking, is_read_only, ..Request::default() };
            let route = view.route(request, Presence::default);
            if let Some(text) = route.error(view.endpoint(), client.peer.connection()) {
                self.unblock_by(client.id, Some(text.as_bytes()));
            }
        }
    }
}
