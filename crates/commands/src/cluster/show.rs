//! The subcommands of CLUSTER that show it in lines and lists. The node is asked, since some of it
//! changes with every message.

use cluster::machine::LinkFacts;
use cluster::topology::Node;
use cluster::{Flags, Id, Machine, Moment};
use engine::call::Call;
use engine::failure::{Done, Failure};
use resp::Writer;

use super::check_on;
use crate::help::reply_help;

/// Replies with a text of the node.
fn text(
    call: &mut Call<'_>,
    text: impl FnOnce(&Machine, &Moment<'_>) -> String + Send + 'static,
) -> Done {
    let text =
        call.engine.cluster().ask(move |machine, moment| (text(machine, moment), Vec::new()))?;
    call.out.verbatim(*b"txt", text);
    Ok(())
}

pub(super) fn info(call: &mut Call<'_>) -> Done {
    let closed = call.engine.cluster().node()?.closed_links();
    text(call, move |machine, _| {
        format!("{}total_cluster_links_buffer_limit_exceeded:{closed}\r\n", machine.info())
    })
}

pub(super) fn nodes(call: &mut Call<'_>) -> Done {
    let client = call.session.client.peer.connection();
    text(call, move |machine, moment| {
        let topology = machine.topology();
        let lines = topology.nodes().map(|node| topology.line(node, moment.clock, client) + "\n");
        lines.collect()
    })
}

pub(super) fn my_id(call: &mut Call<'_>) -> Done {
    let id = call.engine.cluster().ask(|machine, _| (machine.topology().my_id(), Vec::new()))?;
    call.out.bulk(id.as_bytes());
    Ok(())
}

pub(super) fn my_shard_id(call: &mut Call<'_>) -> Done {
    let shard =
        call.engine.cluster().ask(|machine, _| (machine.topology().me().shard, Vec::new()))?;
    call.out.bulk(shard.as_bytes());
    Ok(())
}

fn unknown_node(call: &Call<'_>) -> Failure {
    let id = String::from_utf8_lossy(call.args[2]);
    Failure::text(format!("ERR Unknown node {id}"))
}

/// REPLICAS and SLAVES.
pub(super) fn replicas(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    let id = Id::parse(call.args[2]).ok_or_else(|| unknown_node(call))?;
    let client = call.session.client.peer.connection();
    let found = call.engine.cluster().ask(move |machine, moment| {
        let topology = machine.topology();
        let lines = topology.node(id).map(|node| {
            let line = |replica: &Node| topology.line(replica, moment.clock, client);
            node.is_primary().then(|| topology.replicas_of(id).map(line).collect::<Vec<_>>())
        });
        (lines, Vec::new())
    })?;
    let lines = found.ok_or_else(|| unknown_node(call))?;
    let lines = lines.ok_or("ERR The specified node is not a master")?;
    call.out.array(lines.len());
    lines.iter().for_each(|line| call.out.bulk(line));
    Ok(())
}

pub(super) fn count_failure_reports(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    let id = Id::parse(call.args[2]).ok_or_else(|| unknown_node(call))?;
    let count = call.engine.cluster().ask(move |machine, moment| {
        let is_known = machine.topology().node(id).is_some();
        (is_known.then(|| machine.failure_reports(id, moment.clock)), Vec::new())
    })?;
    let count = count.ok_or_else(|| unknown_node(call))?;
    call.out.integer(count as i64);
    Ok(())
}

pub(super) fn links(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    let links: Vec<LinkFacts> = call.engine.cluster().ask(|machine, _| {
        let is_known = |link: &LinkFacts| {
            let node = machine.topology().node(link.node);
            node.is_some_and(|node| !node.is(Flags::MYSELF))
        };
        let links = machine.links().into_iter().filter(is_known).collect();
        (links, Vec::new())
    })?;
    let unsent = call.engine.cluster().node()?.unsent();
    call.out.array(links.len());
    for link in links {
        let bytes = unsent.iter().find(|(id, _)| *id == link.link).map_or(0, |(_, bytes)| *bytes);
        show_link(call.out, &link, bytes);
    }
    Ok(())
}

fn show_link(out: &mut Writer, link: &LinkFacts, unsent: u64) {
    out.map(6);
    out.bulk("direction");
    out.bulk(if link.is_inbound { "from" } else { "to" });
    out.bulk("node");
    out.bulk(link.node.as_bytes());
    out.bulk("create-time");
    out.integer(link.since as i64);
    out.bulk("events");
    out.bulk(if unsent > 0 { "rw" } else { "r" });
    for name in ["send-buffer-allocated", "send-buffer-used"] {
        out.bulk(name);
        out.integer(unsent as i64);
    }
}

const HELP: &[&str] = &[
    "ADDSLOTS <slot> [<slot> ...]",
    "    Assign slots to current node.",
    "ADDSLOTSRANGE <start slot> <end slot> [<start slot> <end slot> ...]",
    "    Assign slots which are between <start-slot> and <end-slot> to current node.",
    "BUMPEPOCH",
    "    Advance the cluster config epoch.",
    "COUNT-FAILURE-REPORTS <node-id>",
    "    Return number of failure reports for <node-id>.",
    "COUNTKEYSINSLOT <slot>",
    "    Return the number of keys in <slot>.",
    "DELSLOTS <slot> [<slot> ...]",
    "    Delete slots information from current node.",
    "DELSLOTSRANGE <start slot> <end slot> [<start slot> <end slot> ...]",
    "    Delete slots information which are between <start-slot> and <end-slot> from current node.",
    "FAILOVER [FORCE|TAKEOVER]",
    "    Promote current replica node to being a master.",
    "FORGET <node-id>",
    "    Remove a node from the cluster.",
    "GETKEYSINSLOT <slot> <count>",
    "    Return key names stored by current node in a slot.",
    "FLUSHSLOTS",
    "    Delete current node own slots information.",
    "INFO",
    "    Return information about the cluster.",
    "KEYSLOT <key>",
    "    Return the hash slot for <key>.",
    "MEET <ip> <port> [<bus-port>]",
    "    Connect nodes into a working cluster.",
    "MYID",
    "    Return the node id.",
    "MYSHARDID",
    "    Return the node's shard id.",
    "NODES",
    "    Return cluster configuration seen by node. Output format:",
    "    <id> <ip:port> <flags> <master> <pings> <pongs> <epoch> <link> <slot> ...",
    "REPLICATE <node-id>",
    "    Configure current node as replica to <node-id>.",
    "RESET [HARD|SOFT]",
    "    Reset current node (default: soft).",
    "SET-CONFIG-EPOCH <epoch>",
    "    Set config epoch of current node.",
    "SETSLOT <slot> (IMPORTING <node-id>|MIGRATING <node-id>|STABLE|NODE <node-id>)",
    "    Set slot state.",
    "REPLICAS <node-id>",
    "    Return <node-id> replicas.",
    "SAVECONFIG",
    "    Force saving cluster configuration on disk.",
    "SLOTS",
    "    Return information about slots range mappings. Each range is made of:",
    "    start, end, master and replicas IP addresses, ports and ids",
    "SHARDS",
    "    Return information about slot range mappings and the nodes associated with them.",
    "LINKS",
    "    Return information about all network links between this node and its peers.",
    "    Output format is an array where each array element is a map containing attributes of a link",
];

pub(super) fn help(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    reply_help(call, HELP);
    Ok(())
}
