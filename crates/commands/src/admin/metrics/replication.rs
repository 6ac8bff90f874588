//! Metrics of replication: the role, the replicas, the stream, the link to the primary.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ::replication::Replica;
use engine::Engine;
use engine::replication::Primary;

use super::super::replication_facts::{Link, MinReplicas, lag_s};
use super::page::{Kind, Page};

pub(super) fn replication(page: &mut Page, engine: &Engine) {
    let replication = engine.replication();
    let primary = replication.primary();
    let role = if primary.is_some() { "slave" } else { "master" };
    let name = "perdura_instance_info";
    page.family(name, Kind::Gauge, "The role in replication.");
    page.sample(name, &[("role", role)], 1);
    if let Some(primary) = &primary {
        link(page, &Link::of(engine), primary);
    }
    replicas(page, engine);
    stream(page, engine);
    let begun = &replication.replicas().begun;
    let full = begun.full.load(Relaxed);
    page.counter("perdura_replica_resyncs_full_total", "Replicas that got a dump.", full);
    let name = "perdura_replica_partial_resync_accepted_total";
    page.counter(name, "Replicas that continued where they were.", begun.partial.load(Relaxed));
    let name = "perdura_replica_partial_resync_denied_total";
    let help = "Replicas that got a dump though they had asked to continue.";
    page.counter(name, help, begun.refused.load(Relaxed));
}

/// A column of a replica's figures: name, help, value; none if that is not known.
type Column<'a> = (&'static str, &'static str, Box<dyn Fn(&Replica) -> Option<u64> + 'a>);

fn replicas(page: &mut Page, engine: &Engine) {
    let all = engine.replication().replicas().all();
    page.gauge("perdura_connected_slaves", "Replicas that are connected.", all.len());
    if let Some(MinReplicas { needed, good }) = MinReplicas::of(engine) {
        page.gauge("perdura_min_slaves_to_write", "The limit min-replicas-to-write.", needed);
        let help = "Replicas that were heard within min-replicas-max-lag.";
        page.gauge("perdura_min_slaves_good_slaves", help, good);
    }
    // The former connection of a replica that reconnected may still be listed: the last one counts.
    let by_address: BTreeMap<(String, String), Arc<Replica>> = all
        .into_iter()
        .map(|replica| ((replica.host.clone(), replica.port.to_string()), replica))
        .collect();
    let (now, end) = (engine.clock().unix_ms(), engine.replication().stream().end());
    // redis-cli --replica acknowledges nothing but 0.
    let known = |replica: &Replica| Some(replica.acknowledged()).filter(|offset| *offset > 0);
    let columns: [Column<'_>; 3] = [
        (
            "perdura_connected_slave_lag_seconds",
            "Time since a replica was heard.",
            Box::new(|replica| Some(lag_s(replica, now))),
        ),
        (
            "perdura_connected_slave_offset_bytes",
            "The offset up to which a replica has executed the stream.",
            Box::new(known),
        ),
        (
            "perdura_connected_slave_lag_bytes",
            "Bytes of the stream that a replica has not acknowledged.",
            Box::new(move |replica| known(replica).map(|offset| end.saturating_sub(offset))),
        ),
    ];
    for (name, help, value) in columns {
        page.family(name, Kind::Gauge, help);
        for ((host, port), replica) in &by_address {
            let state = replica.state();
            let labels = [("slave_ip", &**host), ("slave_port", port), ("slave_state", state)];
            if let Some(value) = value(replica) {
                page.sample(name, &labels, value);
            }
        }
    }
}

fn stream(page: &mut Page, engine: &Engine) {
    let stream = engine.replication().stream();
    let position = stream.position();
    page.gauge("perdura_master_repl_offset", "The offset of the stream's end.", position.end);
    page.flag("perdura_repl_backlog_is_active", "1 while there is a stream.", stream.is_on());
    let help = "Bytes of the stream that are kept for replicas that come back (repl-backlog-size).";
    page.gauge("perdura_replication_backlog_bytes", help, stream.backlog());
    let help = "Bytes of the stream that are there.";
    page.gauge("perdura_repl_backlog_history_bytes", help, position.kept);
}

fn link(page: &mut Page, link: &Link, primary: &Primary) {
    let name = "perdura_master_link_up";
    page.family(name, Kind::Gauge, "1 while the primary's stream is received.");
    let port = primary.port.to_string();
    let labels = [("master_host", &*primary.host), ("master_port", &port)];
    page.sample(name, &labels, u8::from(link.is_up));
    let or_minus_one = |seconds: Option<u64>| seconds.map_or(-1, |seconds| seconds as i64);
    let help = "Time since the link was lost; 0 while it is up, -1 if there was none.";
    let lost = if link.is_up { 0 } else { or_minus_one(link.lost_s) };
    page.gauge("perdura_master_link_down_since_seconds", help, lost);
    let heard = or_minus_one(link.heard_s.filter(|_| link.is_up || link.is_syncing));
    let help = "Time since the primary was heard; -1 while the link is down.";
    page.gauge("perdura_master_last_io_seconds_ago", help, heard);
    let syncing = link.is_syncing;
    page.flag("perdura_master_sync_in_progress", "1 while a dump is received.", syncing);
    if syncing {
        let help = "Size of the dump; 0 if the primary did not say it.";
        page.gauge("perdura_master_sync_total_bytes", help, link.dump_total);
        page.gauge("perdura_master_sync_read_bytes", "Bytes of it so far.", link.dump_loaded);
    }
    let Some(executed) = link.executed else { return };
    let help = "The offset up to which the primary's stream was executed.";
    page.gauge("perdura_slave_repl_offset", help, executed);
    let behind = link.arrived - executed;
    let help = "Bytes of the primary's stream that have arrived and are not executed.";
    page.gauge("perdura_slave_behind_bytes", help, behind);
}
