//! CLUSTER FAILOVER: a replica takes the place of a primary that works, without losing a write.
//!
//! The replica asks its primary to refuse writes. The primary does, and says so with its offset in
//! every PING. When the replica has that offset it asks for votes, which it gets though the primary
//! works. If this takes too long both go on as before.

use super::{Effect, Machine, Moment};
use crate::id::Id;
use crate::message::{Body, Header};
use crate::topology::LinkId;

/// For how many times the limit of the failover a primary refuses writes.
const PAUSE: u64 = 2;

/// A manual failover.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manual {
    /// When it is given up; none if there is none.
    pub(super) ends: Option<u64>,
    /// On the primary: the replica that is to replace it.
    pub(super) replica: Option<Id>,
    /// On the replica: the offset at which the primary refused writes.
    offset: Option<u64>,
    /// On the replica: whether it may ask for votes.
    pub(super) can_start: bool,
}

impl Machine {
    /// Ends a manual failover, done or not.
    pub(super) fn end_manual(&mut self) {
        if self.manual.replica.is_some() {
            self.out.push(Effect::Resume);
        }
        self.manual = Manual::default();
    }

    /// Begins a manual failover on the replica.
    pub(super) fn begin_manual(&mut self, is_forced: bool, moment: &mut Moment<'_>) {
        self.end_manual();
        let ends = moment.now().saturating_add(self.settings.manual_failover_timeout);
        self.manual.ends = Some(ends);
        if is_forced {
            self.start_manual();
        } else if let Some(primary) = self.topology.me().primary {
            self.send_to(primary, Body::StartFailover, moment);
        }
    }

    fn start_manual(&mut self) {
        // One that was under way, or timed out, must not delay this one.
        self.election = super::election::Election::default();
        self.manual.can_start = true;
        self.todo.election = true;
    }

    /// Refuses writes, for a replica that asked for it.
    pub(super) fn pause_for(&mut self, replica: Id, link: LinkId, moment: &mut Moment<'_>) {
        let me = self.topology.my_id();
        let is_mine = self.topology.node(replica).is_some_and(|node| node.primary == Some(me));
        if !is_mine {
            return;
        }
        self.end_manual();
        let timeout = self.settings.manual_failover_timeout;
        self.manual.ends = Some(moment.now().saturating_add(timeout));
        self.manual.replica = Some(replica);
        let until = moment.now().saturating_add(timeout.saturating_mul(PAUSE));
        self.out.push(Effect::Pause { until });
        self.send_gossip(link, Body::Ping, moment);
    }

    /// Notes the offset at which the primary refuses writes.
    pub(super) fn learn_pause(&mut self, sender: Id, header: &Header) {
        let me = self.topology.me();
        let is_mine = me.is_replica() && me.primary == Some(sender);
        if self.manual.ends.is_some() && is_mine && header.is_paused {
            self.manual.offset.get_or_insert(header.offset);
        }
    }

    /// Goes on with a manual failover, or gives it up.
    pub(super) fn continue_manual(&mut self, moment: &Moment<'_>) {
        if self.manual.ends.is_some_and(|ends| ends < moment.now()) {
            self.end_manual();
        }
        // The primary may add what changes no data.
        let is_there =
            moment.is_synced && self.manual.offset.is_some_and(|offset| offset <= moment.offset);
        if self.topology.me().is_replica() && is_there && !self.manual.can_start {
            self.start_manual();
        }
    }
}
