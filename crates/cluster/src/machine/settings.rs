//! What an administrator decides of a node's part in a cluster.

use crate::message::Text;
use crate::topology::{Announced, NodePorts};

/// The settings of a node. Times are in milliseconds.
#[derive(Clone, Debug)]
pub struct Settings {
    /// After how long without an answer a node is taken for unreachable (`cluster-node-timeout`).
    pub node_timeout: u64,
    /// How many times the timeout a replica's data may be old if it is to become the primary; 0 for
    /// any age (`cluster-replica-validity-factor`).
    pub replica_validity_factor: u64,
    /// How often a primary sends PING to its replicas (`repl-ping-replica-period`).
    pub replica_ping_period: u64,
    /// How many replicas a primary must keep when another one migrates
    /// (`cluster-migration-barrier`).
    pub migration_barrier: usize,
    /// Whether this node may follow another primary by itself (`cluster-allow-replica-migration`).
    pub allows_replica_migration: bool,
    /// Whether the cluster is down if a slot is not served (`cluster-require-full-coverage`).
    pub requires_full_coverage: bool,
    /// Whether this node, as a replica, does not become a primary by itself
    /// (`cluster-replica-no-failover`).
    pub replica_no_failover: bool,
    /// For how long a manual failover is tried (`cluster-manual-failover-timeout`).
    pub manual_failover_timeout: u64,
    /// For how long a node that was forgotten is not added again (`cluster-blacklist-ttl`).
    pub forgotten_for: u64,
    /// How many replicas have what a client was told to be written (`repl-acknowledge`); 0 if
    /// clients do not wait. An election then only goes to a replica that has all of it.
    pub acknowledging_replicas: usize,
    /// Whether the bus has TLS (`tls-cluster`).
    pub is_tls: bool,
    /// The address that this node announces; empty if others find it out.
    pub announce_ip: Text,
    /// The ports that this node announces.
    pub ports: NodePorts,
    /// The description of this node that others get.
    pub announced: Announced,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            node_timeout: 15_000,
            replica_validity_factor: 10,
            replica_ping_period: 10_000,
            migration_barrier: 1,
            allows_replica_migration: true,
            requires_full_coverage: true,
            replica_no_failover: false,
            manual_failover_timeout: 5_000,
            forgotten_for: 60_000,
            acknowledging_replicas: 0,
            is_tls: false,
            announce_ip: Text::default(),
            ports: NodePorts::default(),
            announced: Announced::default(),
        }
    }
}
