//! The section about replication: the role, the replicas, the stream.

use ::replication::Id;
use engine::replication::Primary;

use super::super::replication_facts::{Link, MinReplicas, directive, lag_s};
use super::Page;

/// Writes the section.
pub(super) fn replication(page: &mut Page<'_, '_>) {
    let replication = page.call.engine.replication();
    let now = page.call.engine.clock().unix_ms();
    page.line("role", if replication.is_replica() { "slave" } else { "master" });
    if let Some(primary) = replication.primary() {
        of_replica(page, &primary);
    }
    let replication = page.call.engine.replication();
    let replicas = replication.replicas().all();
    page.line("connected_slaves", replicas.len());
    if let Some(MinReplicas { good, .. }) = MinReplicas::of(page.call.engine) {
        page.line("min_slaves_good_slaves", good);
    }
    for (number, replica) in replicas.iter().enumerate() {
        let text = format!(
            "ip={},port={},state={},offset={},lag={}",
            replica.host,
            replica.port,
            replica.state(),
            replica.acknowledged(),
            lag_s(replica, now)
        );
        page.line(&format!("slave{number}"), text);
    }
    if replication.quorum().replicas > 0 || replication.unconfirmed() > 0 {
        page.line("replies_waiting_for_replicas", replication.unconfirmed());
    }
    page.line("master_failover_state", replication.failover().stage().name());
    let stream = replication.stream();
    let position = stream.position();
    page.line("master_replid", position.id);
    page.line("master_replid2", position.second.map_or(Id::NONE, |(id, _)| id));
    page.line("master_repl_offset", position.end);
    // The number of the first byte that the second history does not have.
    let second = position.second.map_or(-1, |(_, end)| (end as i64).saturating_add(1));
    page.line("second_repl_offset", second);
    if let Some((id, end)) = stream.third() {
        page.line("master_replid3", id);
        page.line("third_repl_offset", (end as i64).saturating_add(1));
    }
    page.line("repl_backlog_active", u8::from(stream.is_on()));
    page.line("repl_backlog_size", stream.backlog());
    let first = if stream.is_on() { position.end - position.kept + 1 } else { 0 };
    page.line("repl_backlog_first_byte_offset", first);
    page.line("repl_backlog_histlen", position.kept);
}

/// Writes what only a replica has.
fn of_replica(page: &mut Page<'_, '_>, primary: &Primary) {
    let engine = page.call.engine;
    let link = Link::of(engine);
    let or_minus_one = |seconds: Option<u64>| seconds.map_or(-1, |seconds| seconds as i64);
    page.line("master_host", &primary.host);
    page.line("master_port", primary.port);
    page.line("master_link_status", if link.is_up { "up" } else { "down" });
    let heard = or_minus_one(link.heard_s);
    page.line("master_last_io_seconds_ago", if link.is_up { heard } else { -1 });
    page.line("master_sync_in_progress", u8::from(link.is_syncing));
    // Without a history it has nothing that Sentinel could want to keep.
    page.line("slave_read_repl_offset", link.executed.map_or(1, |_| link.arrived));
    page.line("slave_repl_offset", link.executed.unwrap_or(1));
    if link.is_syncing {
        let (loaded, total) = (link.dump_loaded, link.dump_total);
        page.line("master_sync_total_bytes", total);
        page.line("master_sync_read_bytes", loaded);
        page.line("master_sync_left_bytes", total.saturating_sub(loaded));
        let percent = loaded as f64 * 100.0 / total.max(1) as f64;
        page.line("master_sync_perc", format!("{percent:.2}"));
        page.line("master_sync_last_io_seconds_ago", heard);
    }
    if !link.is_up {
        page.line("master_link_down_since_seconds", or_minus_one(link.lost_s));
    }
    let value = |name: &str| directive(engine, name);
    let is_yes = |name: &str| u8::from(value(name) == b"yes");
    page.line("slave_priority", String::from_utf8_lossy(&value("replica-priority")));
    page.line("slave_read_only", is_yes("replica-read-only"));
    page.line("replica_announced", is_yes("replica-announced"));
}
