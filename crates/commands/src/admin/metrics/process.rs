//! Metrics of the process: server, clients, commands, errors.

use std::sync::atomic::Ordering::Relaxed;

use engine::Engine;
use engine::host::Facts;
use engine::notify::receivers;
use engine::observe::stats::CommandStats;
use engine::session::users::Reason;

use super::page::{Kind, Page, seconds};

/// Upper bounds of the latencies' buckets, in nanoseconds, and as Prometheus writes them.
const BOUNDS: [(u64, &str); 22] = [
    (1_000, "0.000001"),
    (2_500, "0.0000025"),
    (5_000, "0.000005"),
    (10_000, "0.00001"),
    (25_000, "0.000025"),
    (50_000, "0.00005"),
    (100_000, "0.0001"),
    (250_000, "0.00025"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_500_000, "0.0025"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (25_000_000, "0.025"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (250_000_000, "0.25"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1"),
    (2_500_000_000, "2.5"),
    (5_000_000_000, "5"),
    (10_000_000_000, "10"),
];

pub(super) fn server(page: &mut Page, engine: &Engine, facts: &Facts) {
    let name = "perdura_build_info";
    page.family(name, Kind::Gauge, "The versions of the server and of the Redis that it follows.");
    page.sample(
        name,
        &[("version", &facts.version), ("redis_version", &engine.config().redis_version())],
        1,
    );
    let started = facts.started_ms as f64 / 1000.0;
    page.gauge("process_start_time_seconds", "When the process started, in Unix time.", started);
    let cpu = seconds(facts.cpu_sys_us + facts.cpu_user_us);
    page.counter("process_cpu_seconds_total", "CPU time of all threads.", cpu);
    page.gauge(
        "process_resident_memory_bytes",
        "Resident memory, the pool's pages too.",
        facts.rss,
    );
    page.gauge("perdura_threads", "Threads that serve connections.", facts.threads);
    let loading = engine.config().loading();
    page.flag("perdura_loading", "1 while data is loaded at the start.", loading);
    if let Some(progress) = facts.persistence.loading.filter(|_| loading) {
        page.gauge("perdura_loading_size_bytes", "Bytes that the start loads.", progress.total);
        page.gauge("perdura_loading_loaded_bytes", "Bytes of them so far.", progress.loaded);
    }
    page.counter("perdura_net_input_bytes_total", "Bytes read from clients.", facts.net_in);
    page.counter("perdura_net_output_bytes_total", "Bytes written to clients.", facts.net_out);
    page.counter("perdura_reads_processed_total", "Reads from sockets.", facts.reads);
    page.counter("perdura_writes_processed_total", "Writes to sockets.", facts.writes);
    page.gauge("perdura_script_cached", "Scripts that are cached.", engine.scripts().size().0);
    page.gauge("perdura_functions", "Functions of all libraries.", engine.libraries().functions());
}

pub(super) fn clients(page: &mut Page, engine: &Engine, facts: &Facts) {
    let clients = engine.clients().list();
    let blocked = clients.iter().filter(|client| client.blocked.load(Relaxed)).count();
    page.gauge("perdura_connected_clients", "Clients that are connected.", clients.len());
    page.gauge("perdura_blocked_clients", "Clients that wait in a blocking command.", blocked);
    page.gauge("perdura_max_clients", "The limit maxclients.", facts.max_clients);
    let tracking = engine.tracker().clients();
    page.gauge("perdura_tracking_clients", "Clients with client-side caching.", tracking);
    page.gauge("perdura_memory_clients_bytes", "Buffers of clients.", engine.clients().memory());
    let accepted = facts.connections;
    page.counter("perdura_connections_received_total", "Connections that came.", accepted);
    let help = "Connections refused: maxclients or protected mode.";
    page.counter("perdura_rejected_connections_total", help, facts.rejected);
    let evicted = engine.clients().evicted();
    page.counter("perdura_evicted_clients_total", "Clients closed by maxmemory-clients.", evicted);
    let hub = engine.hub();
    let name = "perdura_pubsub_channels";
    page.family(name, Kind::Gauge, "Channels and patterns with subscribers.");
    for (kind, of) in [
        ("channel", receivers::Kind::Channel),
        ("pattern", receivers::Kind::Pattern),
        ("shard", receivers::Kind::Shard),
    ] {
        page.sample(name, &[("kind", kind)], hub.count(of));
    }
}

/// A column of a command's statistics: name, help, value.
type Column = (&'static str, &'static str, fn(&CommandStats) -> f64);

pub(super) fn commands(page: &mut Page, engine: &Engine) {
    let used: Vec<(String, CommandStats)> = engine
        .table()
        .all()
        .iter()
        .map(|command| (command.full_name(), engine.stats().command(command.id)))
        .filter(|(_, stats)| stats.calls + stats.rejected + stats.failed > 0)
        .collect();
    let columns: [Column; 4] = [
        ("perdura_commands_total", "Executions by command.", |stats| stats.calls as f64),
        ("perdura_commands_duration_seconds_total", "Time in executions.", |stats| {
            stats.nanos as f64 / 1e9
        }),
        ("perdura_commands_failed_calls_total", "Executions that ended with an error.", |stats| {
            stats.failed as f64
        }),
        ("perdura_commands_rejected_calls_total", "Requests refused before execution.", |stats| {
            stats.rejected as f64
        }),
    ];
    for (name, help, value) in columns {
        page.family(name, Kind::Counter, help);
        for (command, stats) in &used {
            page.sample(name, &[("cmd", command)], value(stats));
        }
    }
}

/// Histograms by command, where `latency-tracking` is on. A bucket may have executions of up to
/// 1.6 % more than its bound, and the sum is as exact.
pub(super) fn latencies(page: &mut Page, engine: &Engine) {
    if !engine.admin().tracking.load(Relaxed) {
        return;
    }
    let name = "perdura_commands_latency_seconds";
    page.family(name, Kind::Histogram, "Time of one execution by command (latency-tracking).");
    let [bucket, sum, count] = ["bucket", "sum", "count"].map(|end| format!("{name}_{end}"));
    for command in engine.table().all() {
        let Some(counts) = engine.admin().histograms.of(command.id) else { continue };
        let cmd = &*command.full_name();
        let within = counts.within(BOUNDS.map(|(bound, _)| bound));
        for ((_, bound), number) in BOUNDS.iter().zip(within) {
            page.sample(&bucket, &[("cmd", cmd), ("le", bound)], number);
        }
        page.sample(&bucket, &[("cmd", cmd), ("le", "+Inf")], counts.total);
        page.sample(&sum, &[("cmd", cmd)], counts.sum_ns() / 1e9);
        page.sample(&count, &[("cmd", cmd)], counts.total);
    }
}

pub(super) fn errors(page: &mut Page, engine: &Engine) {
    let name = "perdura_errors_total";
    page.family(name, Kind::Counter, "Error replies by the first word of their text.");
    for (code, count) in engine.stats().errors() {
        page.sample(name, &[("err", &String::from_utf8_lossy(&code))], count);
    }
    let name = "perdura_acl_access_denied_total";
    page.family(name, Kind::Counter, "What users were denied, by what it was.");
    for (of, reason) in [
        ("auth", Reason::Auth),
        ("command", Reason::Command),
        ("key", Reason::Key),
        ("channel", Reason::Channel),
    ] {
        page.sample(name, &[("of", of)], engine.users().denied(reason));
    }
}
