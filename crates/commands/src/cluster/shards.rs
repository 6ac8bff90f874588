//! SLOTS and SHARDS: who has which slots, for clients.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use cluster::topology::route::{Connection, Endpoint};
use cluster::topology::{Node, Topology};
use cluster::{Flags, Id, SLOTS};
use engine::call::Call;
use engine::failure::Done;
use resp::Writer;

use super::check_on;

/// The nodes as they are now, and this node's offset in the replication stream.
struct Present {
    topology: Topology,
    offset: u64,
    endpoint: Endpoint,
    client: Connection,
}

impl Present {
    fn of(call: &Call<'_>) -> Result<Present, engine::Failure> {
        check_on(call)?;
        let endpoint = call.engine.cluster().view().map(|view| view.endpoint()).unwrap_or_default();
        let client = call.session.client.peer.connection();
        call.engine.cluster().ask(move |machine, moment| {
            let topology = machine.topology().clone();
            (Present { topology, offset: moment.offset, endpoint, client }, Vec::new())
        })
    }

    fn offset_of(&self, node: &Node) -> u64 {
        if node.is(Flags::MYSELF) { self.offset } else { node.offset() }
    }

    /// Returns the replicas that clients may use: those that have data.
    fn usable_replicas(&self, primary: &Node) -> Vec<&Node> {
        let replicas = self.topology.replicas_of(primary.id);
        replicas.filter(|node| !node.has_failed() && self.offset_of(node) != 0).collect()
    }

    /// Returns the ranges of slots with their owners, in the order of slots.
    fn ranges(&self) -> Vec<(RangeInclusive<u16>, &Node)> {
        let mut ranges: Vec<(RangeInclusive<u16>, &Node)> = Vec::new();
        for slot in 0..SLOTS {
            let Some(owner) = self.topology.owner(slot) else { continue };
            match ranges.last_mut() {
                Some((range, node)) if node.id == owner.id && *range.end() + 1 == slot => {
                    *range = *range.start()..=slot;
                }
                _ => ranges.push((slot..=slot, owner)),
            }
        }
        ranges
    }

    fn write_endpoint(&self, node: &Node, out: &mut Writer) {
        match self.endpoint {
            Endpoint::Unknown => out.null(),
            endpoint => out.bulk(node.endpoint(endpoint, self.client)),
        }
    }

    /// Writes a node as SLOTS shows it.
    fn write_node(&self, node: &Node, out: &mut Writer) {
        out.array(4);
        self.write_endpoint(node, out);
        out.integer(i64::from(node.client_port(self.client.is_tls)));
        out.bulk(node.id.as_bytes());
        let host_name = &node.announced.host_name;
        let mut more = Vec::new();
        if self.endpoint != Endpoint::Ip {
            more.push(("ip", node.client_ip(self.client)));
        }
        if self.endpoint != Endpoint::HostName && !host_name.is_empty() {
            more.push(("hostname", host_name.as_str()));
        }
        if !node.announced.zone.is_empty() {
            more.push(("availability-zone", node.announced.zone.as_str()));
        }
        out.map(more.len());
        for (name, value) in more {
            out.bulk(name);
            out.bulk(value);
        }
    }

    /// Writes a node as SHARDS shows it.
    fn describe(&self, node: &Node, out: &mut Writer) {
        let host_name = node.announced.host_name.as_str();
        let zone = node.announced.zone.as_str();
        let (tcp, tls) = (node.client_port(false), node.client_port(true));
        let optional = [tcp != 0, tls != 0, !host_name.is_empty(), !zone.is_empty()];
        out.map(6 + optional.into_iter().filter(|is_there| *is_there).count());
        out.bulk("id");
        out.bulk(node.id.as_bytes());
        for (name, port) in [("port", tcp), ("tls-port", tls)] {
            if port != 0 {
                out.bulk(name);
                out.integer(i64::from(port));
            }
        }
        out.bulk("ip");
        out.bulk(node.client_ip(self.client));
        out.bulk("endpoint");
        self.write_endpoint(node, out);
        if !host_name.is_empty() {
            out.bulk("hostname");
            out.bulk(host_name);
        }
        let offset = self.offset_of(node);
        out.bulk("role");
        out.bulk(if node.is_replica() { "replica" } else { "master" });
        out.bulk("replication-offset");
        out.integer(offset as i64);
        out.bulk("health");
        out.bulk(match node {
            node if node.is(Flags::FAIL.with(Flags::PFAIL)) => "fail",
            node if node.is_replica() && offset == 0 => "loading",
            _ => "online",
        });
        if !zone.is_empty() {
            out.bulk("availability-zone");
            out.bulk(zone);
        }
    }
}

pub(super) fn slots(call: &mut Call<'_>) -> Done {
    let present = Present::of(call)?;
    let ranges = present.ranges();
    call.out.array(ranges.len());
    for (range, owner) in ranges {
        let replicas = present.usable_replicas(owner);
        call.out.array(3 + replicas.len());
        call.out.integer(i64::from(*range.start()));
        call.out.integer(i64::from(*range.end()));
        present.write_node(owner, call.out);
        replicas.iter().for_each(|replica| present.write_node(replica, call.out));
    }
    Ok(())
}

pub(super) fn shards(call: &mut Call<'_>) -> Done {
    let present = Present::of(call)?;
    let topology = &present.topology;
    let mut shards: BTreeMap<Id, Vec<&Node>> = BTreeMap::new();
    for node in topology.nodes().filter(|node| !node.is(Flags::HANDSHAKE)) {
        shards.entry(node.shard).or_default().push(node);
    }
    call.out.array(shards.len());
    for mut nodes in shards.into_values() {
        nodes.sort_by_key(|node| (node.is_replica(), node.id));
        // After a failover the old primary is there, too, until it is known to be a replica.
        let slots = nodes.iter().flat_map(|node| topology.slots_of(node.id).ranges());
        let slots: Vec<RangeInclusive<u16>> = slots.collect();
        call.out.map(2);
        call.out.bulk("slots");
        call.out.array(2 * slots.len());
        for range in slots {
            call.out.integer(i64::from(*range.start()));
            call.out.integer(i64::from(*range.end()));
        }
        call.out.bulk("nodes");
        call.out.array(nodes.len());
        nodes.iter().for_each(|node| present.describe(node, call.out));
    }
    Ok(())
}
