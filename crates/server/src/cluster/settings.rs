//! What the directives say of a node.

use ::cluster::Policy;
use ::cluster::machine::Settings;
use ::cluster::message::Text;
use ::cluster::topology::route::Endpoint;
use ::cluster::topology::{Announced, NodePorts};

use crate::config::Values;
use crate::config::choice::EndpointType;

/// The distance of the bus's port from that for clients.
const BUS_PORT_OFFSET: u16 = 10_000;

/// Returns the port on which other nodes reach this one.
pub(super) fn bus_port(values: &Values) -> u16 {
    let port = if values.port == 0 { values.tls_port } else { values.port };
    match values.cluster_port {
        0 => port.saturating_add(BUS_PORT_OFFSET),
        port => port,
    }
}

/// Returns a text that nodes tell each other; empty if it cannot be told.
fn text(bytes: &[u8]) -> Text {
    Text::parse(bytes).unwrap_or_default()
}

/// Returns the machine's settings, with the port on which the bus is listened on.
pub(super) fn of_machine(values: &Values, bus_port: u16) -> Settings {
    let or = |announced: u16, own: u16| if announced == 0 { own } else { announced };
    Settings {
        node_timeout: values.cluster_node_timeout,
        replica_validity_factor: values.cluster_replica_validity_factor,
        replica_ping_period: u64::try_from(values.repl_ping_replica_period).unwrap_or(0) * 1000,
        migration_barrier: values.cluster_migration_barrier,
        allows_replica_migration: values.cluster_allow_replica_migration,
        requires_full_coverage: values.cluster_require_full_coverage,
        replica_no_failover: values.cluster_replica_no_failover,
        is_tls: values.tls_cluster,
        announce_ip: text(&values.cluster_announce_ip),
        ports: NodePorts {
            tcp: or(values.cluster_announce_port, values.port),
            tls: or(values.cluster_announce_tls_port, values.tls_port),
            bus: or(values.cluster_announce_bus_port, bus_port),
        },
        announced: Announced {
            host_name: text(&values.cluster_announce_hostname),
            node_name: text(&values.cluster_announce_human_nodename),
            client_ipv4: text(&values.cluster_announce_client_ipv4),
            client_ipv6: text(&values.cluster_announce_client_ipv6),
            client_port: values.cluster_announce_client_port,
            client_tls_port: values.cluster_announce_client_tls_port,
            zone: text(&values.availability_zone),
        },
        forgotten_for: values.cluster_blacklist_ttl * 1000,
        manual_failover_timeout: values.cluster_manual_failover_timeout,
        ..Settings::default()
    }
}

/// Returns what an administrator decides of the replies to clients.
pub(super) fn policy(values: &Values) -> Policy {
    Policy {
        allows_reads: values.cluster_allow_reads_when_down,
        allows_pubsub: values.cluster_allow_pubsubshard_when_down,
        endpoint: match values.cluster_preferred_endpoint_type {
            EndpointType::Ip => Endpoint::Ip,
            EndpointType::HostName => Endpoint::HostName,
            EndpointType::Unknown => Endpoint::Unknown,
        },
    }
}
