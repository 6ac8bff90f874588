//! SLOTS and SHARDS: who has which slots, for clients.

use std::ops::RangeInclusive;

use cluster::topology::route::Endpoint;
use cluster::topology::{Node, Topology};
use cluster::{Flags, SLOTS};
use engine::call::Call;
use engine::failure::Done;
use resp::Writer;

use super::check_on;

/// The nodes as they are now, and this node's offset in the replication stream.
struct Present {
    topology: Topology,
    offset: u64,
    endpoint: Endpoint,
    /// Whether the client speaks TLS.
    is_tls: bool,
}

impl Present {
    fn of(call: &Call<'_>) -> Result<Present, engine::Failure> {
        check_on(call)?;
        let endpoint = call.engine.cluster().view().map(|view| view.endpoint()).unwrap_or_default();
        let is_tls = call.session.client.peer.is_tls;
        call.engine.cluster().ask(move |machine, moment| {
            let topology = machine.topology().clone();
            (Present { topology, offset: moment.offset, endpoint, is_tls }, Vec::new())
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
            endpoint => out.bulk(node.endpoint(endpoint)),
        }
    }

    /// Writes a node as SLOTS shows it.
    fn write_node(&self, node: &Node, out: &mut Writer) {
        out.array(4);
        self.write_endpoint(node, out);
        out.integer(i64::from(node.client_port(self.is_tls)));
        out.bulk(node.id.as_bytes());
        let host_name = &node.announced.host_name;
        let mut more = Vec::new();
        if self.endpoint != Endpoint::Ip {
            more.push(("ip", node.ip.as_str()));
        }
        if self.endpoint != Endpoint::HostName && !host_name.is_empty() {
            more.push(("hostname", host_name.as_str()));
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
        let (tcp, tls) = (node.client_port(false), node.client_port(true));
        let ports = usize::from(tcp != 0) + usize::from(tls != 0);
        out.map(6 + ports + usize::from(!host_name.is_empty()));
        out.bulk("id");
        out.bulk(node.id.as_bytes());
        for (name, port) in [("port", tcp), ("tls-port", tls)] {
            if port != 0 {
                out.bulk(name);
                out.integer(i64::from(port));
            }
        }
        out.bulk("ip");
        out.bulk(node.ip.as_str());
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
    let is_shard = |node: &&Node| node.is_primary() && !node.is(Flags::HANDSHAKE);
    let primaries: Vec<&Node> = topology.nodes().filter(is_shard).collect();
    call.out.array(primaries.len());
    for primary in primaries {
        call.out.map(2);
        call.out.bulk("slots");
        let ranges = topology.slots_of(primary.id).ranges();
        call.out.array(2 * ranges.len());
        for range in ranges {
            call.out.integer(i64::from(*range.start()));
            call.out.integer(i64::from(*range.end()));
        }
        call.out.bulk("nodes");
        let replicas: Vec<&Node> = topology.replicas_of(primary.id).collect();
        call.out.array(1 + replicas.len());
        present.describe(primary, call.out);
        replicas.iter().for_each(|replica| present.describe(replica, call.out));
    }
    Ok(())
}
