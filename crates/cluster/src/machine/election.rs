//! How a replica becomes the primary when its own has failed.
//!
//! It waits until the news has spread, and longer the further it is behind other replicas; then
//! asks all primaries for their votes in a new epoch. With a majority of them it takes the slots
//! under that epoch, and says so. Without one it tries again after four timeouts.
//!
//! One rule is Perdura's own. If clients are told that a write is done when so many replicas have
//! it (`repl-acknowledge`), a replica asks for votes only when it has all of that: of `n` replicas
//! of which `k` must acknowledge, any `n - k + 1` have among them one with every acknowledged
//! write. So it waits until so many, itself included, have seen the primary fail, have taken
//! nothing more from it since, and are not ahead. A replica says both in one message: that its
//! primary failed, and its offset. Replicas before Valkey 9.0 do not say it and do not count.
//!
//! The rule counts on replicas that stay in their shard (`cluster-allow-replica-migration no`), and
//! it has a hole: a replica that sees the primary work again replicates it again, though a
//! candidate may have counted on what it said before. To close it, a replica must give such a
//! promise for good, and a primary that works again must get a new epoch from the majority before
//! it is followed.

use std::collections::BTreeSet;

use super::{Machine, Moment};
use crate::flags::Flags;
use crate::id::Id;
use crate::message::{Body, Header};
use crate::topology::Node;

/// The least time for which votes are awaited.
const MIN_WAIT: u64 = 2000;
/// The longest delay for the news to spread.
const MAX_DELAY: u64 = 500;
/// The delay that a replica without data adds.
const EMPTY_DELAY: u64 = 500;

/// The election in which this node is a candidate.
#[derive(Clone, Debug, Default)]
pub(super) struct Election {
    /// When votes are asked for; none if there is no election.
    pub(super) at: Option<u64>,
    /// Whether they were asked for.
    pub(super) is_asked: bool,
    /// Its epoch.
    pub(super) epoch: u64,
    /// The nodes that voted for this one.
    votes: BTreeSet<Id>,
    /// How many replicas of the same primary are ahead.
    rank: u64,
    /// How many other primaries have failed whose replicas go first.
    primary_rank: u64,
}

impl Machine {
    /// Goes on with the election of this node, if there is to be one.
    pub(super) fn try_election(&mut self, moment: &mut Moment<'_>) {
        self.todo.election = false;
        let now = moment.now();
        let is_manual = self.manual.ends.is_some() && self.manual.can_start;
        let me = self.topology.me();
        let Some(primary) = me.primary.filter(|_| me.is_replica()) else { return };
        let has_failed = self.topology.node(primary).is_some_and(|primary| primary.has_failed());
        if !is_manual && (!has_failed || self.settings.replica_no_failover) {
            return;
        }
        // Whoever leads without the data has everybody drop it.
        if !moment.has_data || !is_manual && self.is_data_old(moment) {
            return;
        }
        let wait = self.settings.node_timeout.saturating_mul(2).max(MIN_WAIT);
        let is_over = |at: u64| now.saturating_sub(at) > wait.saturating_mul(2);
        if self.election.at.is_none_or(is_over) {
            self.schedule(primary, moment);
        } else if !self.election.is_asked && self.manual.ends.is_none() {
            self.reschedule(primary, moment);
        }
        let at = self.election.at.unwrap_or(now);
        if now < at || now - at > wait {
            return;
        }
        if !self.election.is_asked {
            if is_manual || self.has_all_acknowledged(primary, moment) {
                self.ask_votes(moment);
            }
        } else if self.election.votes.len() >= self.topology.majority() {
            self.win();
        }
    }

    /// Returns true if this node's data is too old for it to become the primary.
    fn is_data_old(&self, moment: &Moment<'_>) -> bool {
        let factor = self.settings.replica_validity_factor;
        let timeout = self.settings.node_timeout;
        let age = moment.data_age.saturating_sub(timeout);
        let limit =
            timeout.saturating_mul(factor).saturating_add(self.settings.replica_ping_period);
        factor != 0 && age > limit
    }

    fn delay(&self) -> u64 {
        (self.settings.node_timeout / 30).min(MAX_DELAY)
    }

    fn schedule(&mut self, primary: Id, moment: &mut Moment<'_>) {
        let (now, delay) = (moment.now(), self.delay());
        let rank = self.rank(primary, moment.offset);
        let primary_rank = self.primary_rank(now);
        let random = if delay > 0 { moment.random.u64(..delay) } else { 0 };
        let mut at = now + delay + random + rank * delay * 2 + primary_rank * delay;
        if moment.offset == 0 {
            at += EMPTY_DELAY;
        }
        self.election = Election { at: Some(at), rank, primary_rank, ..Election::default() };
        if self.manual.ends.is_some() || self.is_best(primary, moment.offset) {
            self.election.at = Some(now);
        }
        // The other replicas hear of this one's offset.
        self.announce(Some(primary), moment);
    }

    /// Waits longer, or less, if the ranks have changed.
    fn reschedule(&mut self, primary: Id, moment: &Moment<'_>) {
        let (now, delay) = (moment.now(), self.delay());
        let Some(at) = self.election.at else { return };
        let (rank, primary_rank) = (self.rank(primary, moment.offset), self.primary_rank(now));
        let later = rank * delay * 2 + primary_rank * delay;
        let earlier = self.election.rank * delay * 2 + self.election.primary_rank * delay;
        (self.election.rank, self.election.primary_rank) = (rank, primary_rank);
        self.election.at = Some((at + later).saturating_sub(earlier));
        if self.is_best(primary, moment.offset) {
            self.election.at = Some(now.min(at));
        }
    }

    /// Returns how many replicas of the primary have more of its data, or as much and a smaller ID.
    fn rank(&self, primary: Id, offset: u64) -> u64 {
        let me = self.topology.my_id();
        let others = self.topology.replicas_of(primary).filter(|other| other.id != me);
        let others = others.filter(|other| !other.is(Flags::NO_FAILOVER));
        others.filter(|other| (offset, other.id) < (other.offset(), me)).count() as u64
    }

    /// Returns how many primaries have failed of which the replicas go first, so that their
    /// elections do not meet.
    fn primary_rank(&self, now: u64) -> u64 {
        let validity =
            self.settings.node_timeout.saturating_mul(self.settings.replica_validity_factor);
        let shard = self.topology.me().shard;
        let failed = self.topology.nodes().filter(|node| {
            let age = now.saturating_sub(node.contact.failed_at);
            let is_valid = self.settings.replica_validity_factor == 0 || age <= validity;
            let is_voter = node.has_failed() && self.topology.is_voter(node);
            is_voter && is_valid && node.shard < shard
        });
        failed.filter(|node| self.topology.replicas_of(node.id).next().is_some()).count() as u64
    }

    /// Returns true if this node need not wait: all replicas have seen the failure, and none is
    /// ahead.
    fn is_best(&self, primary: Id, offset: u64) -> bool {
        let mut replicas = self.topology.replicas_of(primary);
        let has_seen = replicas.all(|replica| replica.is(Flags::PRIMARY_FAILED));
        let is_first = self.election.rank == 0 && self.election.primary_rank == 0;
        self.manual.ends.is_none() && offset != 0 && is_first && has_seen
    }

    /// Returns true if this node has every write of which clients were told that it is done.
    fn has_all_acknowledged(&self, primary: Id, moment: &Moment<'_>) -> bool {
        let acknowledging = self.settings.acknowledging_replicas;
        let me = self.topology.me();
        if acknowledging == 0 {
            return true;
        }
        let failed_at = self.topology.node(primary).map_or(0, |node| node.contact.failed_at);
        // All of the shard count, also those of which this node has not heard yet whom they follow.
        let is_member = |node: &&Node| node.shard == me.shard && node.id != primary;
        let members = self.topology.nodes().filter(is_member);
        let others = members.clone().filter(|other| other.id != me.id);
        // What one said before this failure may be of an earlier one.
        let has_said = |other: &&Node| {
            let is_detached = other.is(Flags::PRIMARY_FAILED) && other.primary == Some(primary);
            is_detached && other.contact.offset_at >= failed_at
        };
        let behind =
            others.filter(has_said).filter(|other| other.offset() <= moment.offset).count();
        me.is(Flags::PRIMARY_FAILED) && behind + 1 + acknowledging > members.count()
    }

    fn ask_votes(&mut self, moment: &Moment<'_>) {
        self.topology.current_epoch = self.topology.current_epoch.saturating_add(1);
        self.election.epoch = self.topology.current_epoch;
        self.election.is_asked = true;
        self.election.votes.clear();
        // The best replica, too, may have heard of the failure before those who vote.
        let is_best = self.topology.me().primary.is_some_and(|id| self.is_best(id, moment.offset));
        let forces_vote = self.manual.ends.is_some() || is_best;
        let header = Header { forces_vote, ..self.header(moment) };
        self.broadcast(&header, &Body::AskVote);
        self.save_durably();
        self.todo.update_health = true;
    }

    /// Counts a vote for this node.
    pub(super) fn count_vote(&mut self, sender: Id, header: &Header, moment: &mut Moment<'_>) {
        let is_voter = self.topology.node(sender).is_some_and(|node| self.topology.is_voter(node));
        if is_voter && self.election.is_asked && header.current_epoch >= self.election.epoch {
            self.election.votes.insert(sender);
            self.try_election(moment);
        }
    }

    /// Gives up an election that cannot be won: another node has its epoch, or a higher one.
    pub(super) fn epoch_was_taken(&mut self, epoch: u64) {
        if self.election.is_asked && self.election.at.is_some() && epoch >= self.election.epoch {
            self.election = Election::default();
            self.todo.election = true;
        }
    }

    fn win(&mut self) {
        let epoch = self.election.epoch;
        let me = self.topology.me_mut();
        if me.config_epoch < epoch {
            me.config_epoch = epoch;
        }
        self.replace_primary();
    }

    /// Takes the place of the primary, with the epoch that this node has.
    pub(super) fn replace_primary(&mut self) {
        let me = self.topology.my_id();
        let Some(before) = self.topology.me().primary else { return };
        self.lead(me);
        let slots = self.topology.slots_of(before).clone();
        slots.iter().for_each(|slot| self.topology.assign(slot, Some(me)));
        self.save_durably();
        self.todo.update_health = true;
        self.todo.announce = true;
        self.end_manual();
        self.election = Election::default();
    }
}
