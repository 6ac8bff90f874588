//! CLUSTER and related commands, as a Redis without cluster mode answers them. Clients and tools
//! ask before they decide how to talk to a server, and understand that error. No cluster state is
//! here.

mod subcommands;

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[&CLUSTER, &ASKING_ONCE, &READ_ONLY, &READ_WRITE];

fn refuse(_: &mut Call<'_>) -> Done {
    Err("ERR This instance has cluster support disabled".into())
}

const CLUSTER: CommandSpec = CommandSpec {
    name: "cluster",
    summary: "A container for cluster commands",
    complexity: "Depends on subcommand.",
    since: "3.0.0",
    group: Group::Cluster,
    arity: -2,
    subs: &[
        &subcommands::CLUSTER_ADDSLOTS,
        &subcommands::CLUSTER_ADDSLOTSRANGE,
        &subcommands::CLUSTER_BUMPEPOCH,
        &subcommands::CLUSTER_COUNT_FAILURE_REPORTS,
        &subcommands::CLUSTER_COUNTKEYSINSLOT,
        &subcommands::CLUSTER_DELSLOTS,
        &subcommands::CLUSTER_DELSLOTSRANGE,
        &subcommands::CLUSTER_FAILOVER,
        &subcommands::CLUSTER_FLUSHSLOTS,
        &subcommands::CLUSTER_FORGET,
        &subcommands::CLUSTER_GETKEYSINSLOT,
        &subcommands::CLUSTER_HELP,
        &subcommands::CLUSTER_INFO,
        &subcommands::CLUSTER_KEYSLOT,
        &subcommands::CLUSTER_LINKS,
        &subcommands::CLUSTER_MEET,
        &subcommands::CLUSTER_MYID,
        &subcommands::CLUSTER_NODES,
        &subcommands::CLUSTER_REPLICAS,
        &subcommands::CLUSTER_REPLICATE,
        &subcommands::CLUSTER_RESET,
        &subcommands::CLUSTER_SAVECONFIG,
        &subcommands::CLUSTER_SET_CONFIG_EPOCH,
        &subcommands::CLUSTER_SETSLOT,
        &subcommands::CLUSTER_SHARDS,
        &subcommands::CLUSTER_SLAVES,
        &subcommands::CLUSTER_SLOTS,
    ],
    ..CommandSpec::EMPTY
};

const ASKING_ONCE: CommandSpec = CommandSpec {
    name: "asking",
    summary: "Sent by cluster clients after an -ASK redirect",
    complexity: "O(1)",
    since: "3.0.0",
    group: Group::Cluster,
    arity: 1,
    flags: FAST,
    acl: ACL_CONNECTION,
    run: Run::Session(refuse),
    ..CommandSpec::EMPTY
};

const READ_ONLY: CommandSpec = CommandSpec {
    name: "readonly",
    summary: "Enables read queries for a connection to a cluster replica node",
    complexity: "O(1)",
    since: "3.0.0",
    group: Group::Cluster,
    arity: 1,
    flags: LOADING | STALE | FAST,
    acl: ACL_CONNECTION,
    run: Run::Session(refuse),
    ..CommandSpec::EMPTY
};

const READ_WRITE: CommandSpec = CommandSpec {
    name: "readwrite",
    summary: "Disables read queries for a connection to a cluster replica node",
    ..READ_ONLY
};
