//! What must never happen, whatever the network does.

use std::collections::BTreeMap;

use cluster::message::{Body, Message};
use cluster::{Id, SlotSet, Topology};

/// What was seen so far.
#[derive(Default)]
pub(crate) struct Watch {
    /// The slots that each node claimed as its own under each epoch.
    claims: BTreeMap<u64, BTreeMap<Id, SlotSet>>,
    /// For whom each node voted in each epoch.
    votes: BTreeMap<(Id, u64), usize>,
    /// The end of what clients of each shard were told to be written.
    acknowledged: BTreeMap<Id, u64>,
    /// What happened that must not.
    pub(crate) violations: Vec<String>,
}

impl Watch {
    /// Returns how many votes there were, and under how many epochs nodes had slots.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.votes.len(), self.claims.len())
    }

    /// Two nodes must not own a slot in one epoch.
    pub(crate) fn see_claims(&mut self, topology: &Topology) {
        let me = topology.me();
        if !topology.is_voter(me) {
            return;
        }
        let slots = topology.slots_of(me.id);
        let claims = self.claims.entry(me.config_epoch).or_default();
        if claims.get(&me.id) == Some(slots) {
            return;
        }
        for (other, claimed) in claims.iter().filter(|(other, _)| **other != me.id) {
            if let Some(slot) = slots.iter().find(|slot| claimed.has(*slot)) {
                let epoch = me.config_epoch;
                let text = format!("{} and {other} own slot {slot} in epoch {epoch}", me.id);
                self.violations.push(text);
            }
        }
        claims.insert(me.id, slots.clone());
    }

    /// A node must not vote for two others in one epoch.
    pub(crate) fn see_message(&mut self, bytes: &[u8], to: usize) {
        if bytes[12..14] != [0, 6] {
            return;
        }
        let Ok(Message::Full(header, Body::Vote)) = Message::decode(bytes) else { return };
        let vote = (header.sender, header.current_epoch);
        if let Some(before) = self.votes.insert(vote, to)
            && before != to
        {
            let text = format!("{} voted for {before} and {to} in epoch {}", vote.0, vote.1);
            self.violations.push(text);
        }
    }

    pub(crate) fn see_acknowledged(&mut self, shard: Id, offset: u64) {
        let end = self.acknowledged.entry(shard).or_default();
        *end = offset.max(*end);
    }

    /// A replica that becomes the primary must have what clients were told to be written.
    pub(crate) fn see_new_primary(&mut self, shard: Id, offset: u64) {
        let end = self.acknowledged.get(&shard).copied().unwrap_or(0);
        if offset < end {
            self.violations.push(format!("{shard}: writes from {offset} to {end} are lost"));
        }
    }
}
