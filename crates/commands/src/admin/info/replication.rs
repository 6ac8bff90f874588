//! The section about replication: the role, the replicas, the stream.

use std::sync::atomic::Ordering::Relaxed;

use ::replication::{Id, Stage};
use engine::replication::{LinkState, Primary};

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
    for (number, replica) in replicas.iter().enumerate() {
        let text = format!(
            "ip={},port={},state={},offset={},lag={}",
            replica.host,
            replica.port,
            replica.stage().name(),
            replica.acknowledged(),
            match replica.stage() {
                Stage::Online => replica.lag_s(now),
                _ => 0,
            }
        );
        page.line(&format!("slave{number}"), text);
    }
    page.line("replies_waiting_for_replicas", replication.unconfirmed());
    page.line("master_failover_state", "no-failover");
    let stream = replication.stream();
    let position = stream.position();
    page.line("master_replid", position.id);
    page.line("master_replid2", position.second.map_or(Id::NONE, |(id, _)| id));
    page.line("master_repl_offset", position.end);
    // The number of the first byte that the second history does not have.
    let second = position.second.map_or(-1, |(_, end)| (end as i64).saturating_add(1));
    page.line("second_repl_offset", second);
    page.line("repl_backlog_active", u8::from(stream.is_on()));
    page.line("repl_backlog_size", stream.backlog());
    let first = if stream.is_on() { position.end - position.kept + 1 } else { 0 };
    page.line("repl_backlog_first_byte_offset", first);
    page.line("repl_backlog_histlen", position.kept);
}

/// Writes what only a replica has.
fn of_replica(page: &mut Page<'_, '_>, primary: &Primary) {
    let engine = page.call.engine;
    let (replication, facts) = (engine.replication(), engine.replication().facts());
    let now = engine.clock().unix_ms();
    let seconds_since = |ms: u64| match ms {
        0 => -1,
        ms => (now.saturating_sub(ms) / 1000) as i64,
    };
    let (is_up, end) = (replication.is_linked(), replication.stream().end());
    let is_syncing = replication.link_state() == LinkState::Sync;
    page.line("master_host", &primary.host);
    page.line("master_port", primary.port);
    page.line("master_link_status", if is_up { "up" } else { "down" });
    let heard = seconds_since(facts.heard_ms.load(Relaxed));
    page.line("master_last_io_seconds_ago", if is_up { heard } else { -1 });
    page.line("master_sync_in_progress", u8::from(is_syncing));
    // Without a history it has nothing that Sentinel could want to keep.
    let has_history = replication.stream().is_on();
    let read_to = facts.read_to.load(Relaxed).max(end);
    page.line("slave_read_repl_offset", if has_history { read_to } else { 1 });
    page.line("slave_repl_offset", if has_history { end } else { 1 });
    if is_syncing {
        let (loaded, total) = (facts.dump_loaded.load(Relaxed), facts.dump_total.load(Relaxed));
        page.line("master_sync_total_bytes", total);
        page.line("master_sync_read_bytes", loaded);
        page.line("master_sync_left_bytes", total.saturating_sub(loaded));
        let percent = loaded as f64 * 100.0 / total.max(1) as f64;
        page.line("master_sync_perc", format!("{percent:.2}"));
        page.line("master_sync_last_io_seconds_ago", heard);
    }
    if !is_up {
        page.line("master_link_down_since_seconds", seconds_since(facts.lost_ms.load(Relaxed)));
    }
    let value = |name: &str| -> Vec<u8> {
        let found = engine.host().map(|host| host.config_matching(&[name.as_bytes()]));
        found.and_then(|mut found| found.pop()).map(|(_, value)| value).unwrap_or_default()
    };
    let is_yes = |name: &str| u8::from(value(name) == b"yes");
    page.line("slave_priority", String::from_utf8_lossy(&value("replica-priority")));
    page.line("slave_read_only", is_yes("replica-read-only"));
    page.line("replica_announced", is_yes("replica-announced"));
}
