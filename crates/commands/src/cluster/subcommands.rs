//! The subcommands of CLUSTER, as `COMMAND DOCS` of Redis 7.0 describes them.

use engine::call::Run;
use engine::spec::*;

use super::{change, keys, shards, show};

/// Common to subcommands that show something of a cluster. The node that they ask may wait for a
/// disk.
const SHOWS: CommandSpec = CommandSpec {
    since: "3.0.0",
    group: Group::Cluster,
    flags: STALE,
    traits: TAKES_LONG,
    ..CommandSpec::EMPTY
};

/// Common to subcommands that change a cluster.
const CHANGES: CommandSpec = CommandSpec { flags: ADMIN | STALE | NO_ASYNC_LOADING, ..SHOWS };

pub(super) const CLUSTER_ADDSLOTS: CommandSpec = CommandSpec {
    name: "addslots",
    summary: "Assign new hash slots to receiving node",
    complexity: "O(N) where N is the total number of hash slot arguments",
    arity: -3,
    args: &[integer("slot").multiple()],
    run: Run::Session(change::add_slots),
    ..CHANGES
};

pub(super) const CLUSTER_ADDSLOTSRANGE: CommandSpec = CommandSpec {
    name: "addslotsrange",
    summary: "Assign new hash slots to receiving node",
    complexity: "O(N) where N is the total number of the slots between the start slot and end slot arguments.",
    since: "7.0.0",
    arity: -4,
    args: &[block("start-slot_end-slot", &[integer("start-slot"), integer("end-slot")]).multiple()],
    run: Run::Session(change::add_ranges),
    ..CHANGES
};

pub(super) const CLUSTER_BUMPEPOCH: CommandSpec = CommandSpec {
    name: "bumpepoch",
    summary: "Advance the cluster config epoch",
    complexity: "O(1)",
    arity: 2,
    tips: &["nondeterministic_output"],
    run: Run::Session(change::bump_epoch),
    ..CHANGES
};

pub(super) const CLUSTER_COUNT_FAILURE_REPORTS: CommandSpec = CommandSpec {
    name: "count-failure-reports",
    summary: "Return the number of failure reports active for a given node",
    complexity: "O(N) where N is the number of failure reports",
    since: "3.0.0",
    group: Group::Cluster,
    arity: 3,
    flags: ADMIN | STALE,
    tips: &["nondeterministic_output"],
    args: &[string("node-id")],
    traits: TAKES_LONG,
    run: Run::Session(show::count_failure_reports),
    ..CommandSpec::EMPTY
};

pub(super) const CLUSTER_COUNTKEYSINSLOT: CommandSpec = CommandSpec {
    name: "countkeysinslot",
    summary: "Return the number of local keys in the specified hash slot",
    complexity: "O(1)",
    arity: 3,
    args: &[integer("slot")],
    run: Run::OwnLocks { run: keys::count_keys, within: keys::count_locked },
    ..SHOWS
};

pub(super) const CLUSTER_DELSLOTS: CommandSpec = CommandSpec {
    name: "delslots",
    summary: "Set hash slots as unbound in receiving node",
    complexity: "O(N) where N is the total number of hash slot arguments",
    arity: -3,
    args: &[integer("slot").multiple()],
    run: Run::Session(change::delete_slots),
    ..CHANGES
};

pub(super) const CLUSTER_DELSLOTSRANGE: CommandSpec = CommandSpec {
    name: "delslotsrange",
    summary: "Set hash slots as unbound in receiving node",
    complexity: "O(N) where N is the total number of the slots between the start slot and end slot arguments.",
    since: "7.0.0",
    arity: -4,
    args: &[block("start-slot_end-slot", &[integer("start-slot"), integer("end-slot")]).multiple()],
    run: Run::Session(change::delete_ranges),
    ..CHANGES
};

pub(super) const CLUSTER_FAILOVER: CommandSpec = CommandSpec {
    name: "failover",
    summary: "Forces a replica to perform a manual failover of its master.",
    complexity: "O(1)",
    arity: -2,
    args: &[oneof("options", &[token("force", "FORCE"), token("takeover", "TAKEOVER")]).optional()],
    run: Run::Session(change::fail_over),
    ..CHANGES
};

pub(super) const CLUSTER_FLUSHSLOTS: CommandSpec = CommandSpec {
    name: "flushslots",
    summary: "Delete a node's own slots information",
    complexity: "O(1)",
    arity: 2,
    run: Run::Session(change::flush_slots),
    ..CHANGES
};

pub(super) const CLUSTER_FORGET: CommandSpec = CommandSpec {
    name: "forget",
    summary: "Remove a node from the nodes table",
    complexity: "O(1)",
    arity: 3,
    args: &[string("node-id")],
    run: Run::Session(change::forget),
    ..CHANGES
};

pub(super) const CLUSTER_GETKEYSINSLOT: CommandSpec = CommandSpec {
    name: "getkeysinslot",
    summary: "Return local key names in the specified hash slot",
    complexity: "O(log(N)) where N is the number of requested keys",
    arity: 4,
    tips: &["nondeterministic_output"],
    args: &[integer("slot"), integer("count")],
    run: Run::OwnLocks { run: keys::get_keys, within: keys::get_locked },
    ..SHOWS
};

pub(super) const CLUSTER_HELP: CommandSpec = CommandSpec {
    name: "help",
    summary: "Show helpful text about the different subcommands",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Cluster,
    arity: 2,
    flags: LOADING | STALE,
    run: Run::Session(show::help),
    ..CommandSpec::EMPTY
};

pub(super) const CLUSTER_INFO: CommandSpec = CommandSpec {
    name: "info",
    summary: "Provides info about Redis Cluster node state",
    complexity: "O(1)",
    arity: 2,
    tips: &["nondeterministic_output"],
    traits: TAKES_LONG | WHILE_LOADING,
    run: Run::Session(show::info),
    ..SHOWS
};

pub(super) const CLUSTER_KEYSLOT: CommandSpec = CommandSpec {
    name: "keyslot",
    summary: "Returns the hash slot of the specified key",
    complexity: "O(N) where N is the number of bytes in the key",
    arity: 3,
    args: &[string("key")],
    traits: 0,
    run: Run::Session(keys::key_slot),
    ..SHOWS
};

pub(super) const CLUSTER_LINKS: CommandSpec = CommandSpec {
    name: "links",
    summary: "Returns a list of all TCP links to and from peer nodes in cluster",
    complexity: "O(N) where N is the total number of Cluster nodes",
    since: "7.0.0",
    arity: 2,
    tips: &["nondeterministic_output"],
    run: Run::Session(show::links),
    ..SHOWS
};

pub(super) const CLUSTER_MEET: CommandSpec = CommandSpec {
    name: "meet",
    summary: "Force a node cluster to handshake with another node",
    complexity: "O(1)",
    arity: -4,
    history: &[("4.0.0", "Added the optional `cluster_bus_port` argument.")],
    args: &[string("ip"), integer("port"), integer("cluster_bus_port").since("4.0.0").optional()],
    run: Run::Session(change::meet),
    ..CHANGES
};

pub(super) const CLUSTER_MYID: CommandSpec = CommandSpec {
    name: "myid",
    summary: "Return the node id",
    complexity: "O(1)",
    arity: 2,
    traits: TAKES_LONG | WHILE_LOADING,
    run: Run::Session(show::my_id),
    ..SHOWS
};

pub(super) const CLUSTER_MYSHARDID: CommandSpec = CommandSpec {
    name: "myshardid",
    summary: "Returns the shard ID of a node.",
    complexity: "O(1)",
    since: "7.2.0",
    arity: 2,
    tips: &["nondeterministic_output"],
    traits: TAKES_LONG | WHILE_LOADING,
    run: Run::Session(show::my_shard_id),
    ..SHOWS
};

pub(super) const CLUSTER_NODES: CommandSpec = CommandSpec {
    name: "nodes",
    summary: "Get Cluster config for the node",
    complexity: "O(N) where N is the total number of Cluster nodes",
    arity: 2,
    tips: &["nondeterministic_output"],
    traits: TAKES_LONG | WHILE_LOADING,
    run: Run::Session(show::nodes),
    ..SHOWS
};

pub(super) const CLUSTER_REPLICAS: CommandSpec = CommandSpec {
    name: "replicas",
    summary: "List replica nodes of the specified master node",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Cluster,
    arity: 3,
    flags: ADMIN | STALE,
    tips: &["nondeterministic_output"],
    args: &[string("node-id")],
    traits: TAKES_LONG,
    run: Run::Session(show::replicas),
    ..CommandSpec::EMPTY
};

pub(super) const CLUSTER_REPLICATE: CommandSpec = CommandSpec {
    name: "replicate",
    summary: "Reconfigure a node as a replica of the specified master node",
    complexity: "O(1)",
    arity: 3,
    args: &[string("node-id")],
    run: Run::Session(change::replicate),
    ..CHANGES
};

pub(super) const CLUSTER_RESET: CommandSpec = CommandSpec {
    name: "reset",
    summary: "Reset a Redis Cluster node",
    complexity: "O(N) where N is the number of known nodes. The command may execute a FLUSHALL as a side effect.",
    since: "3.0.0",
    group: Group::Cluster,
    arity: -2,
    flags: ADMIN | NOSCRIPT | STALE,
    args: &[oneof("hard_soft", &[token("hard", "HARD"), token("soft", "SOFT")]).optional()],
    traits: TAKES_LONG,
    run: Run::Session(change::reset),
    ..CommandSpec::EMPTY
};

pub(super) const CLUSTER_SAVECONFIG: CommandSpec = CommandSpec {
    name: "saveconfig",
    summary: "Forces the node to save cluster state on disk",
    complexity: "O(1)",
    arity: 2,
    run: Run::Session(change::save),
    ..CHANGES
};

pub(super) const CLUSTER_SET_CONFIG_EPOCH: CommandSpec = CommandSpec {
    name: "set-config-epoch",
    summary: "Set the configuration epoch in a new node",
    complexity: "O(1)",
    arity: 3,
    args: &[integer("config-epoch")],
    run: Run::Session(change::set_epoch),
    ..CHANGES
};

pub(super) const CLUSTER_SETSLOT: CommandSpec = CommandSpec {
    name: "setslot",
    summary: "Bind a hash slot to a specific node",
    complexity: "O(1)",
    arity: -4,
    args: &[
        integer("slot"),
        oneof(
            "subcommand",
            &[
                string("node-id").token("IMPORTING"),
                string("node-id").token("MIGRATING"),
                string("node-id").token("NODE"),
                token("stable", "STABLE"),
            ],
        ),
    ],
    run: Run::Session(change::set_slot),
    ..CHANGES
};

pub(super) const CLUSTER_SHARDS: CommandSpec = CommandSpec {
    name: "shards",
    summary: "Get array of cluster slots to node mappings",
    complexity: "O(N) where N is the total number of cluster nodes",
    since: "7.0.0",
    arity: 2,
    tips: &["nondeterministic_output"],
    traits: TAKES_LONG | WHILE_LOADING,
    run: Run::Session(shards::shards),
    ..SHOWS
};

pub(super) const CLUSTER_SLAVES: CommandSpec = CommandSpec {
    name: "slaves",
    summary: "List replica nodes of the specified master node",
    complexity: "O(1)",
    since: "3.0.0",
    group: Group::Cluster,
    arity: 3,
    flags: ADMIN | STALE,
    tips: &["nondeterministic_output"],
    deprecated: Some(Deprecated { since: "5.0.0", instead: "`CLUSTER REPLICAS`" }),
    args: &[string("node-id")],
    traits: TAKES_LONG,
    run: Run::Session(show::replicas),
    ..CommandSpec::EMPTY
};

pub(super) const CLUSTER_SLOTS: CommandSpec = CommandSpec {
    name: "slots",
    summary: "Get array of Cluster slot to node mappings",
    complexity: "O(N) where N is the total number of Cluster nodes",
    arity: 2,
    tips: &["nondeterministic_output"],
    deprecated: Some(Deprecated { since: "7.0.0", instead: "`CLUSTER SHARDS`" }),
    history: &[
        ("4.0.0", "Added node IDs."),
        ("7.0.0", "Added additional networking metadata field."),
    ],
    traits: TAKES_LONG | WHILE_LOADING,
    run: Run::Session(shards::slots),
    ..SHOWS
};
