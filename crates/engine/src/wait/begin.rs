//! The beginning of a wait.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use keyspace::{Key, Type};

use crate::execute::call::{Call, Next};
use crate::replication::ROLE_CHANGED;
use crate::session::client::{BlockedCommand, BlockedOperation, Waiter};
use crate::table::spec::WRITE;

impl Call<'_> {
    /// Blocks the client until one of `keys` holds a value of type `what` from which the operation
    /// can be served, or until `until` (unix ms). If blocking is not allowed (in EXEC, without a
    /// connection), it answers at once. The shards of the keys are locked, and serving found
    /// nothing.
    pub fn block(
        &mut self,
        what: Type,
        keys: &[Key<'_>],
        operation: Box<dyn BlockedOperation>,
        until: Option<u64>,
    ) {
        if !self.may_block || !self.session.can_block {
            operation.refuse(self.out);
            return;
        }
        self.show_arguments();
        let command = BlockedCommand::new(self.command.id, self.args);
        let (engine, session) = (self.engine, &mut *self.session);
        let mut seen = HashSet::with_capacity(keys.len());
        let first = keys.iter().map(Key::bytes).filter(|name| seen.insert(*name));
        let names = first.map(Box::from).collect();
        let waiter = Arc::new(Waiter::new(
            engine.waiting().ticket(),
            Arc::clone(&session.client),
            session.db,
            what,
            session.protocol,
            names,
            command,
            operation,
            until,
        ));
        engine.waiting().enter(engine.keyspace(), &waiter);
        session.client.blocked.store(true, Relaxed);
        *session.client.waiter.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Arc::clone(&waiter));
        session.waiter = Some(waiter);
        self.next = Next::Block;
        if self.command.spec.has(WRITE) && engine.config().is_read_only_replica() {
            engine.unblock_by(session.client.id, Some(ROLE_CHANGED));
        }
    }
}
