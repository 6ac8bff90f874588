//! The directives of a cluster's node: a part of the table, in a file of its own.

/// Gives the rows of a node to a macro, after the rows that it is called with.
macro_rules! with_cluster_rows {
    ($macro:ident! { $($before:tt)* }) => {
        $macro! {
            $($before)*
            "Cluster" {
                /// Makes this server a node of a Redis Cluster.
                cluster_enabled: bool = false => ("cluster-enabled", Bool, Fixed);
                /// The file in which the node keeps what it knows of the cluster. The node writes
                /// it; it is not to be edited.
                cluster_config_file: Bytes = text("nodes.conf") =>
                    ("cluster-config-file", Text, Fixed);
                /// Milliseconds without an answer after which a node is taken for unreachable.
                cluster_node_timeout: u64 = 15_000 =>
                    ("cluster-node-timeout", Int(0, I64), Live).then(SetCluster);
                /// The number of databases of a node. Tools of Valkey 9 ask for it.
                cluster_databases: usize = 1 => ("cluster-databases", Int(1, 1), Live);
                /// The port on which nodes talk to each other; 0 for that of clients plus 10000.
                cluster_port: u16 = 0 => ("cluster-port", Int(0, 65535), Fixed);
                /// The address that this node tells others to use; empty for the one that they see.
                cluster_announce_ip: Bytes = text("") =>
                    ("cluster-announce-ip", Announced, Live).then(SetCluster);
                /// The host name that this node tells others; empty for none.
                cluster_announce_hostname: Bytes = text("") =>
                    ("cluster-announce-hostname", HostName, Live).then(SetCluster);
                /// The name of this node that others show to people; empty for none.
                cluster_announce_human_nodename: Bytes = text("") =>
                    ("cluster-announce-human-nodename", Announced, Live).then(SetCluster);
                /// The IPv4 address that clients are told to use; empty for that of the node.
                cluster_announce_client_ipv4: Bytes = text("") =>
                    ("cluster-announce-client-ipv4", Ipv4, Live).then(SetCluster);
                /// The IPv6 address that clients are told to use; empty for that of the node.
                cluster_announce_client_ipv6: Bytes = text("") =>
                    ("cluster-announce-client-ipv6", Ipv6, Live).then(SetCluster);
                /// The port that clients are told to use; 0 for that of the node.
                cluster_announce_client_port: u16 = 0 =>
                    ("cluster-announce-client-port", Int(0, 65535), Live).then(SetCluster);
                /// The same for clients that speak TLS.
                cluster_announce_client_tls_port: u16 = 0 =>
                    ("cluster-announce-client-tls-port", Int(0, 65535), Live).then(SetCluster);
                /// The availability zone that this node tells others and clients; empty for none.
                availability_zone: Bytes = text("") =>
                    ("availability-zone", Announced, Live).then(SetCluster);
                /// The port for clients that this node tells others to use; 0 for its own.
                cluster_announce_port: u16 = 0 =>
                    ("cluster-announce-port", Int(0, 65535), Live).then(SetCluster);
                /// The same for clients that speak TLS.
                cluster_announce_tls_port: u16 = 0 =>
                    ("cluster-announce-tls-port", Int(0, 65535), Live).then(SetCluster);
                /// The same for nodes.
                cluster_announce_bus_port: u16 = 0 =>
                    ("cluster-announce-bus-port", Int(0, 65535), Live).then(SetCluster);
                /// What clients that are sent to another node are told: its address, its host name,
                /// or nothing but its port.
                cluster_preferred_endpoint_type: EndpointType = EndpointType::Ip =>
                    ("cluster-preferred-endpoint-type", Enum(EndpointType::NAMES), Live)
                        .then(SetCluster);
                /// Whether no request is served while a slot has no owner that can be reached.
                cluster_require_full_coverage: bool = true =>
                    ("cluster-require-full-coverage", Bool, Live).then(SetCluster);
                /// Whether clients may read while the cluster is down.
                cluster_allow_reads_when_down: bool = false =>
                    ("cluster-allow-reads-when-down", Bool, Live).then(SetCluster);
                /// Whether clients may use shard channels while the cluster is down.
                cluster_allow_pubsubshard_when_down: bool = true =>
                    ("cluster-allow-pubsubshard-when-down", Bool, Live).then(SetCluster);
                /// How many replicas a primary keeps when one of them moves to a primary that has
                /// none.
                cluster_migration_barrier: usize = 1 =>
                    ("cluster-migration-barrier", Int(0, I32), Live).then(SetCluster);
                /// Whether this node may become a replica of another primary by itself.
                cluster_allow_replica_migration: bool = true =>
                    ("cluster-allow-replica-migration", Bool, Live).then(SetCluster);
                /// How many times `cluster-node-timeout` a replica may have heard nothing of its
                /// primary if it is to take its place; 0 for any time.
                cluster_replica_validity_factor: u64 = 10 =>
                    ("cluster-replica-validity-factor", Int(0, I32), Live)
                        .alias("cluster-slave-validity-factor").then(SetCluster);
                /// Whether this node, as a replica, never takes the place of its primary by itself.
                cluster_replica_no_failover: bool = false =>
                    ("cluster-replica-no-failover", Bool, Live)
                        .alias("cluster-slave-no-failover").then(SetCluster);
                /// Seconds for which a node that was forgotten is not added again.
                cluster_blacklist_ttl: u64 = 60 =>
                    ("cluster-blacklist-ttl", Int(0, U32), Live).then(SetCluster);
                /// Milliseconds after which a manual failover is given up.
                cluster_manual_failover_timeout: u64 = 5_000 =>
                    ("cluster-manual-failover-timeout", Int(1, I32), Live).then(SetCluster);
                /// Bytes that may wait to be sent to a node before its connection is closed; 0 for
                /// no limit.
                cluster_link_sendbuf_limit: u64 = 0 =>
                    ("cluster-link-sendbuf-limit", Memory(0, U64), Live).then(SetCluster);
            }
        }
    };
}
