//! What CLUSTER INFO shows.

use std::fmt::Write;

use super::Machine;
use crate::flags::Flags;
use crate::topology::Node;

/// The names of messages, by their types.
const NAMES: [&str; 11] = [
    "ping",
    "pong",
    "meet",
    "fail",
    "publish",
    "auth-req",
    "auth-ack",
    "update",
    "mfstart",
    "module",
    "publishshard",
];

/// How many messages of each type were sent and received.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    sent: [u64; NAMES.len()],
    received: [u64; NAMES.len()],
}

impl Traffic {
    pub(super) fn sent(&mut self, kind: u16) {
        if let Some(count) = self.sent.get_mut(usize::from(kind)) {
            *count += 1;
        }
    }

    pub(super) fn received(&mut self, kind: u16) {
        if let Some(count) = self.received.get_mut(usize::from(kind)) {
            *count += 1;
        }
    }
}

impl Machine {
    /// Returns what CLUSTER INFO shows, in the order of Redis, without what counts bytes.
    pub fn info(&self) -> String {
        let topology = &self.topology;
        let slots = |is_counted: fn(&Node) -> bool| -> usize {
            let nodes = topology.nodes().filter(|node| is_counted(node));
            nodes.map(|node| topology.slot_count(node.id)).sum()
        };
        let nodes = |flag| topology.nodes().filter(|node| node.is(flag)).count();
        let voters = |flag| {
            let nodes = topology.nodes().filter(|node| node.is(flag));
            nodes.filter(|node| topology.is_voter(node)).count()
        };
        let fields: [(&str, u64); 12] = [
            ("slots_assigned", topology.assigned_slots() as u64),
            ("slots_ok", slots(|node| !node.is(Flags::PFAIL.with(Flags::FAIL))) as u64),
            ("slots_pfail", slots(|node| node.is(Flags::PFAIL)) as u64),
            ("slots_fail", slots(Node::has_failed) as u64),
            ("nodes_pfail", nodes(Flags::PFAIL) as u64),
            ("nodes_fail", nodes(Flags::FAIL) as u64),
            ("voting_nodes_pfail", voters(Flags::PFAIL) as u64),
            ("voting_nodes_fail", voters(Flags::FAIL) as u64),
            ("known_nodes", topology.len() as u64),
            ("size", topology.size() as u64),
            ("current_epoch", topology.current_epoch),
            ("my_epoch", topology.epoch_of(topology.me())),
        ];
        let state = if self.health.is_up { "ok" } else { "fail" };
        let mut text = format!("cluster_state:{state}\r\n");
        for (name, value) in fields {
            let _ = write!(text, "cluster_{name}:{value}\r\n");
        }
        for (way, counts) in [("sent", self.traffic.sent), ("received", self.traffic.received)] {
            for (name, count) in NAMES.iter().zip(counts).filter(|(_, count)| *count > 0) {
                let _ = write!(text, "cluster_stats_messages_{name}_{way}:{count}\r\n");
            }
            let sum: u64 = counts.iter().sum();
            let _ = write!(text, "cluster_stats_messages_{way}:{sum}\r\n");
        }
        text
    }
}
