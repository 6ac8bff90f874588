//! A transaction's messages to clients in addition to its reply: after its commit, in order, once.
//!
//! A transaction may be run again, or fail, after its commands were executed. So a command inside
//! one sends nothing by itself: it leaves a [`Delivery`] with the transaction's [`Effects`], which
//! drop it if a command or the whole transaction is rolled back, and which the engine delivers when
//! the commit is done and the locks are still held. A command outside a transaction has nothing to
//! wait for, and delivers at once.

use crate::engine::Engine;
use crate::execute::call::Call;
use crate::log::{Delivery, Effects};
use crate::notify::events::{EventClass, KeyEvent};
use crate::observe::monitors;
use crate::session::Session;

impl Call<'_> {
    /// Delivers after the commit of the transaction that this call is a part of, or at once if
    /// there is none.
    pub fn deliver(&mut self, delivery: Delivery) {
        if self.is_inner() {
            self.effects.deliver(delivery);
        } else {
            self.engine.deliver(Some(self.session), delivery, self.reply_after);
        }
    }
}

impl Engine {
    /// Delivers the messages of a committed transaction, which showed or changed data up to `own`
    /// in the log. Its locks are held.
    #[inline]
    pub(crate) fn deliver_all(
        &self,
        session: Option<&mut Session>,
        effects: &mut Effects,
        own: u64,
    ) {
        if effects.has_deliveries() {
            self.deliver_each(session, effects, own);
        }
    }

    /// Keeps the changes of function libraries that a step of a longer transaction made.
    pub fn keep_libraries(effects: &mut Effects) {
        for delivery in effects.take_deliveries() {
            if let Delivery::Libraries(change) = delivery {
                change.keep();
            }
        }
    }

    #[cold]
    fn deliver_each(&self, mut session: Option<&mut Session>, effects: &mut Effects, own: u64) {
        let ends_monitors = effects.has_dropped_lines();
        if effects.has_dropped_events() {
            self.report_dropped_events();
        }
        for delivery in effects.take_deliveries() {
            self.deliver(session.as_deref_mut(), delivery, own);
        }
        if ends_monitors {
            monitors::end_monitors(self);
        }
    }

    /// Logs that a transaction had more keyspace events than are published.
    #[cold]
    pub(crate) fn report_dropped_events(&self) {
        if let Some(host) = self.host() {
            host.log("events of keys were dropped: one transaction had more than 64 MiB of them");
        }
    }

    fn deliver(&self, session: Option<&mut Session>, delivery: Delivery, own: u64) {
        match (delivery, session) {
            (Delivery::KeyEvent(event), _) => self.publish_event(&event, own),
            (Delivery::Monitored(line), _) => monitors::send_to_monitors(self, &line, own),
            (Delivery::Libraries(change), _) => change.keep(),
            (Delivery::Message { receivers, text }, Some(session)) => {
                self.hub().send(
                    &receivers,
                    &text,
                    &session.client,
                    self.durability().sent_after(own),
                );
            }
            (Delivery::Own(bytes), Some(session)) => session.client.post(&bytes, 0),
            (Delivery::Streamed(command), session) => {
                let end = self.replication().append_free(&command);
                if let (Some(session), Some(end)) = (session, end) {
                    session.replicated_to = end;
                }
            }
            (Delivery::ToNodes(message), _) => {
                if let Ok(node) = self.cluster().node() {
                    node.publish(message);
                }
            }
            // Notified with the changes.
            (Delivery::Flushed(_), _) => {}
            // The store's own work comes from no client.
            (Delivery::Message { .. } | Delivery::Own(_), None) => {}
        }
    }

    fn publish_event(&self, event: &KeyEvent, own: u64) {
        let (classes, after) = (self.config().events(), self.durability().sent_after(own));
        if classes.has(EventClass::Keyspace) {
            self.hub().publish(&event.keyspace_channel(), event.name.as_bytes(), after);
        }
        if classes.has(EventClass::Keyevent) {
            self.hub().publish(event.keyevent_channel().as_bytes(), &event.key, after);
        }
    }
}
