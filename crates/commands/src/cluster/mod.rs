//! CLUSTER and related commands. A server that is no node of a cluster refuses them, which tells
//! clients and tools how to talk to it.
//!
//! - `subcommands`: the subcommands of CLUSTER, by name.
//! - `change`: those that change the cluster.
//! - `show`, `shards`: those that show it.
//! - `keys`: those about the keys of a slot.
//! - `session`: ASKING, READONLY, READWRITE.

mod change;
mod keys;
mod session;
mod shards;
mod show;
mod subcommands;

use ::cluster::SLOTS;
use engine::call::Call;
use engine::failure::{Done, Failure};
use engine::spec::*;

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] =
    &[&CLUSTER, &session::ASKING_ONCE, &session::READ_ONLY, &session::READ_WRITE];

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
        &subcommands::CLUSTER_MYSHARDID,
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

/// Refuses a command of a server that is no node.
fn check_on(call: &Call<'_>) -> Done {
    call.engine.cluster().node().map(|_| ())
}

/// Returns an argument as a slot.
fn slot(call: &Call<'_>, at: usize) -> Result<u16, Failure> {
    let slot = call.int(at).ok().and_then(|slot| u16::try_from(slot).ok());
    slot.filter(|slot| *slot < SLOTS).ok_or_else(|| "ERR Invalid or out of range slot".into())
}

/// Returns true if there are keys.
fn has_keys(call: &Call<'_>) -> bool {
    keyspace::Db::all().any(|db| call.engine.keyspace().count(db).0 > 0)
}
