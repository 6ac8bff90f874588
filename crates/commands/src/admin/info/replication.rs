//! The section about replication: the role, the replicas, the stream.

use ::replication::{Id, Stage};

use super::Page;

/// Writes the section.
pub(super) fn replication(page: &mut Page<'_, '_>) {
    let replication = page.call.engine.replication();
    let now = page.call.engine.clock().unix_ms();
    page.line("role", if replication.is_replica() { "slave" } else { "master" });
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
    page.line("master_failover_state", "no-failover");
    let stream = replication.stream();
    let position = stream.position();
    page.line("master_replid", position.id);
    page.line("master_replid2", position.second.map_or(Id::NONE, |(id, _)| id));
    page.line("master_repl_offset", position.end);
    // The number of the first byte that the second history does not have.
    page.line("second_repl_offset", position.second.map_or(-1, |(_, end)| end as i64 + 1));
    page.line("repl_backlog_active", u8::from(stream.is_on()));
    page.line("repl_backlog_size", stream.backlog());
    let first = if stream.is_on() { position.end - position.kept + 1 } else { 0 };
    page.line("repl_backlog_first_byte_offset", first);
    page.line("repl_backlog_histlen", position.kept);
}
