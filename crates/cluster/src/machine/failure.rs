//! When a node is taken for failed.
//!
//! A node that does not answer within the timeout is in PFAIL: this node does not reach it. If most
//! primaries say so within two timeouts, it is in FAIL, and everybody is told. FAIL of a replica,
//! or of a primary without slots, ends when it is reached again; FAIL of a primary with slots ends
//! then too, but only if after two timeouts nobody has taken its slots.

use super::{Effect, Machine, Moment};
use crate::flags::Flags;
use crate::id::Id;
use crate::message::Body;

/// For how many timeouts a report counts.
const REPORT_VALIDITY: u64 = 2;
/// For how many timeouts a primary with slots stays failed at least.
const UNDO_AFTER: u64 = 2;

impl Machine {
    /// Returns the number of valid reports that a node is not reached.
    pub(super) fn reports(&self, id: Id, now: u64) -> usize {
        let validity = self.settings.node_timeout.saturating_mul(REPORT_VALIDITY);
        let Some(node) = self.topology.node(id) else { return 0 };
        node.contact.reports.values().filter(|at| now.saturating_sub(**at) <= validity).count()
    }

    /// Takes a node for failed if enough others do not reach it either.
    pub(super) fn fail_if_agreed(&mut self, id: Id, moment: &Moment<'_>) {
        let Some(node) = self.topology.node(id) else { return };
        if !node.is(Flags::PFAIL) || node.has_failed() {
            return;
        }
        let own = usize::from(self.topology.is_voter(self.topology.me()));
        if self.reports(id, moment.now()) + own >= self.topology.majority() {
            self.fail(id, moment.now());
            self.tell_failure(id, moment);
        }
    }

    /// Tells everybody that a node failed.
    pub(super) fn tell_failure(&mut self, id: Id, moment: &Moment<'_>) {
        let header = self.header(moment);
        self.broadcast(&header, &Body::Fail(id));
    }

    /// Takes a node for failed.
    pub(super) fn fail(&mut self, id: Id, now: u64) {
        let Some(node) = self.topology.node_mut(id) else { return };
        node.flags.add(Flags::FAIL);
        node.flags.remove(Flags::PFAIL);
        node.contact.failed_at = now;
        let me = self.topology.me_mut();
        if me.is_replica() && me.primary == Some(id) {
            me.flags.add(Flags::PRIMARY_FAILED);
            self.todo.election = true;
            if self.settings.acknowledging_replicas > 0 {
                self.out.push(Effect::Detach);
            }
        }
        self.todo.save = true;
        self.todo.update_health = true;
    }

    /// Takes a node that answers for working, if it may be.
    pub(super) fn answered(&mut self, id: Id, now: u64) {
        let undo_after = self.settings.node_timeout.saturating_mul(UNDO_AFTER);
        let Some(node) = self.topology.node(id) else { return };
        let is_voter = self.topology.is_voter(node);
        let is_old = now.saturating_sub(node.contact.failed_at) > undo_after;
        let failed = if is_voter && !is_old { Flags::NONE } else { Flags::FAIL };
        let ends = node.flags.only(failed.with(Flags::PFAIL));
        if ends == Flags::NONE {
            return;
        }
        if let Some(node) = self.topology.node_mut(id) {
            node.flags.remove(ends);
        }
        let me = self.topology.me_mut();
        if ends.has(Flags::FAIL) && me.primary == Some(id) && me.is(Flags::PRIMARY_FAILED) {
            me.flags.remove(Flags::PRIMARY_FAILED);
            if self.settings.acknowledging_replicas > 0 {
                self.replicate(id, false);
            }
        }
        self.todo.save = true;
        self.todo.update_health = true;
    }
}
