//! Sections about the process: server, clients, stats, CPU, commands, errors, latency.

use engine::line_text::in_field;
use engine::notify::receivers::Kind;
use engine::session::users::Reason;

use super::Page;
use std::sync::atomic::Ordering::Relaxed;

pub(super) fn server(page: &mut Page<'_, '_>) {
    let facts = page.facts.clone();
    let now_us = page.call.now_ns / 1000;
    let uptime = page.call.now_ms().saturating_sub(facts.started_ms) / 1000;
    page.line("redis_version", page.call.engine.config().redis_version());
    page.line("redis_git_sha1", "00000000");
    page.line("redis_git_dirty", 0);
    page.line("redis_build_id", "0");
    let is_node = page.call.engine.cluster().is_on();
    page.line("redis_mode", if is_node { "cluster" } else { "standalone" });
    page.line("server_name", "perdura");
    page.line("perdura_version", &facts.version);
    page.line("os", &facts.os);
    page.line("arch_bits", usize::BITS);
    page.line("monotonic_clock", "POSIX clock_gettime");
    page.line("multiplexing_api", "epoll");
    page.line("process_id", facts.process_id);
    page.line(
        "process_supervised",
        if facts.supervised.is_empty() { "no" } else { &facts.supervised },
    );
    page.line("run_id", &facts.run_id);
    page.line("tcp_port", facts.tcp_port);
    page.line("server_time_usec", now_us);
    page.line("uptime_in_seconds", uptime);
    page.line("uptime_in_days", uptime / 86_400);
    page.line("hz", facts.hz);
    page.line("configured_hz", facts.hz);
    page.line("lru_clock", (now_us / 1_000_000) & 0xff_ffff);
    page.line("executable", &facts.executable);
    page.line("config_file", &facts.config_file);
    page.line("io_threads_active", 0);
    page.line("threads", facts.threads);
    if let Some(ms) = facts.shutdown_in_ms {
        page.line("shutdown_in_milliseconds", ms);
    }
}

pub(super) fn clients(page: &mut Page<'_, '_>) {
    let clients = page.call.engine.clients().list();
    let most = |pick: fn(&engine::session::client::Client) -> usize| {
        clients.iter().map(|client| pick(client)).max().unwrap_or(0)
    };
    let replicas = clients.iter().filter(|client| client.is_replica.load(Relaxed)).count();
    page.line("connected_clients", clients.len() - replicas);
    let links = page.call.engine.cluster().node().map_or(0, |node| node.unsent().len());
    page.line("cluster_connections", links);
    page.line("maxclients", page.facts.max_clients);
    page.line("client_recent_max_input_buffer", most(|c| c.query_buffer.load(Relaxed)));
    page.line("client_recent_max_output_buffer", most(|c| c.output.load(Relaxed)));
    let blocked = clients.iter().filter(|client| client.blocked.load(Relaxed)).count();
    page.line("blocked_clients", blocked);
    page.line("tracking_clients", page.call.engine.tracker().clients());
    page.line("clients_in_timeout_table", 0);
}

fn read_cache(page: &mut Page<'_, '_>) {
    let cache = page.call.engine.keyspace().heap().read_cache_stats();
    page.line("read_cache_size", cache.size);
    page.line("read_cache_longest_value", cache.longest);
    page.line("read_cache_bytes", cache.bytes);
    page.line("read_cache_entries", cache.entries);
    page.line("read_cache_hits", cache.hits);
    page.line("read_cache_misses", cache.misses);
    page.line("read_cache_evictions", cache.evictions);
}

pub(super) fn stats(page: &mut Page<'_, '_>) {
    let facts = page.facts.clone();
    let engine = page.call.engine;
    let keyspace = engine.keyspace().stats();
    let kbps = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    page.line("total_connections_received", facts.connections);
    page.line("total_commands_processed", engine.stats().total_calls());
    page.line("instantaneous_ops_per_sec", facts.ops_per_sec);
    page.line("total_net_input_bytes", facts.net_in);
    page.line("total_net_output_bytes", facts.net_out);
    page.line("total_net_repl_input_bytes", 0);
    page.line("total_net_repl_output_bytes", 0);
    page.line("instantaneous_input_kbps", kbps(facts.in_per_sec));
    page.line("instantaneous_output_kbps", kbps(facts.out_per_sec));
    page.line("instantaneous_input_repl_kbps", "0.00");
    page.line("instantaneous_output_repl_kbps", "0.00");
    page.line("rejected_connections", facts.rejected);
    let begun = &engine.replication().replicas().begun;
    page.line("sync_full", begun.full.load(Relaxed));
    page.line("sync_partial_ok", begun.partial.load(Relaxed));
    page.line("sync_partial_err", begun.refused.load(Relaxed));
    page.line("expired_subkeys", keyspace.expired_fields);
    page.line("expired_keys", keyspace.expired);
    page.line("expired_stale_perc", "0.00");
    page.line("expired_time_cap_reached_count", 0);
    page.line("expire_cycle_cpu_milliseconds", 0);
    page.line("evicted_keys", keyspace.evicted);
    page.line("script_reruns", engine.script_reruns());
    page.line("evicted_clients", engine.clients().evicted());
    page.line("total_eviction_exceeded_time", 0);
    page.line("current_eviction_exceeded_time", 0);
    page.line("keyspace_hits", keyspace.hits);
    page.line("keyspace_misses", keyspace.misses);
    read_cache(page);
    let hub = page.call.engine.hub();
    page.line("pubsub_channels", hub.count(Kind::Channel));
    page.line("pubsub_patterns", hub.count(Kind::Pattern));
    page.line("pubsubshard_channels", hub.count(Kind::Shard));
    for name in [
        "latest_fork_usec",
        "total_forks",
        "migrate_cached_sockets",
        "slave_expires_tracked_keys",
        "active_defrag_misses",
        "active_defrag_key_hits",
        "active_defrag_key_misses",
        "total_active_defrag_time",
        "current_active_defrag_time",
        "unexpected_error_replies",
    ] {
        page.line(name, 0);
    }
    let tracker = page.call.engine.tracker();
    let (keys, copies) = tracker.keys_and_copies();
    page.line("tracking_total_keys", keys);
    page.line("tracking_total_items", copies);
    page.line("tracking_total_prefixes", tracker.prefixes());
    page.line("active_defrag_hits", facts.defragmented);
    page.line("total_error_replies", engine.stats().error_replies());
    page.line("dump_payload_sanitizations", 0);
    page.line("total_reads_processed", facts.reads);
    page.line("total_writes_processed", facts.writes);
    page.line("io_threaded_reads_processed", 0);
    page.line("io_threaded_writes_processed", 0);
    page.line("reply_buffer_shrinks", 0);
    page.line("reply_buffer_expands", 0);
    denied(page);
}

/// Writes how often users were denied something, by reason.
fn denied(page: &mut Page<'_, '_>) {
    let users = page.call.engine.users();
    for (name, reason) in [
        ("acl_access_denied_auth", Reason::Auth),
        ("acl_access_denied_cmd", Reason::Command),
        ("acl_access_denied_key", Reason::Key),
        ("acl_access_denied_channel", Reason::Channel),
    ] {
        page.line(name, users.denied(reason));
    }
}

pub(super) fn cpu(page: &mut Page<'_, '_>) {
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let (sys, user) = (page.facts.cpu_sys_us, page.facts.cpu_user_us);
    page.line("used_cpu_sys", seconds(sys));
    page.line("used_cpu_user", seconds(user));
    page.line("used_cpu_sys_children", seconds(0));
    page.line("used_cpu_user_children", seconds(0));
}

pub(super) fn commandstats(page: &mut Page<'_, '_>) {
    let engine = page.call.engine;
    for command in engine.table().all() {
        let stats = engine.stats().command(command.id);
        if stats.calls + stats.rejected + stats.failed == 0 {
            continue;
        }
        let micros = stats.nanos / 1000;
        let value = format!(
            "calls={},usec={micros},usec_per_call={:.2},rejected_calls={},failed_calls={}",
            stats.calls,
            if stats.calls == 0 { 0.0 } else { micros as f64 / stats.calls as f64 },
            stats.rejected,
            stats.failed
        );
        page.line(&format!("cmdstat_{}", in_field(command.full_name().as_bytes())), value);
    }
}

pub(super) fn errorstats(page: &mut Page<'_, '_>) {
    for (code, count) in page.call.engine.stats().errors() {
        page.line(&format!("errorstat_{}", in_field(&code)), format!("count={count}"));
    }
}

pub(super) fn latencystats(page: &mut Page<'_, '_>) {
    let engine = page.call.engine;
    if !engine.admin().tracking.load(Relaxed) {
        return;
    }
    for command in engine.table().all() {
        let Some(counts) = engine.admin().histograms.of(command.id) else { continue };
        let values: Vec<String> = page
            .facts
            .percentiles
            .iter()
            .map(|p| format!("p{p}={:.3}", counts.percentile(*p) as f64 / 1000.0))
            .collect();
        let name = format!("latency_percentiles_usec_{}", command.full_name());
        page.line(&name, values.join(","));
    }
}
