//! Sections about the data: memory, persistence, keyspace.

use engine::host::{AofFacts, JournalFacts, LoadingFacts, RdbFacts};
use keyspace::Db;

use super::{Page, human};
use crate::admin::replication_facts::ReplicaMemory;
use std::sync::atomic::Ordering::Relaxed;

/// Writes the memory of all threads' interpreters, and the numbers of scripts and functions.
fn scripts(page: &mut Page<'_, '_>) {
    let engine = page.call.engine;
    let (scripts, libraries) = (engine.scripts(), engine.libraries());
    let (of_scripts, of_functions) =
        (scripts.interpreters().total(), libraries.interpreters().total());
    let (count, script_bytes) = scripts.size();
    page.line("used_memory_lua", of_scripts);
    page.line("used_memory_vm_eval", of_scripts);
    page.line("used_memory_lua_human", human(of_scripts as u64));
    page.line("used_memory_scripts_eval", script_bytes);
    page.line("number_of_cached_scripts", count);
    page.line("number_of_functions", libraries.functions());
    page.line("number_of_libraries", engine.keyspace().libraries());
    page.line("used_memory_vm_functions", of_functions);
    page.line("used_memory_vm_total", of_scripts + of_functions);
    page.line("used_memory_vm_total_human", human((of_scripts + of_functions) as u64));
    page.line("used_memory_functions", libraries.bytes());
    page.bytes("used_memory_scripts", (script_bytes + libraries.bytes()) as u64);
}

/// The minimum of both numbers in a fragmentation ratio: the memory that a process takes at its
/// start, and the spans that every shard has of each size, are not fragmentation.
const BASE: u64 = 64 << 20;

/// Returns the ratio of memory taken to memory used. Both are at least [`BASE`], so that a nearly
/// empty store shows 1.
fn ratio(taken: u64, used: u64) -> String {
    format!("{:.2}", taken.max(BASE) as f64 / used.max(BASE) as f64)
}

pub(super) fn memory(page: &mut Page<'_, '_>) {
    let facts = page.facts.clone();
    let heap = page.call.engine.keyspace().heap();
    let (data, limit) = (heap.used(), heap.limit());
    // Memory of the process and of large client buffers, if the data is in the same memory.
    let other = page.call.engine.keyspace().other_memory();
    let startup = page.call.engine.admin().startup_memory.load(Relaxed);
    let used = data + other;
    // Spans that belong to no shard are not fragmented. After a start some of them are unknown.
    let active = facts.persistence.pool_space.saturating_sub(heap.free_space()).max(data);
    let peak = facts.peak_memory.max(used);
    let percent = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    page.bytes("used_memory", used);
    page.bytes("used_memory_rss", facts.rss);
    page.bytes("used_memory_peak", peak);
    page.line("used_memory_peak_perc", format!("{:.2}%", percent(used, peak)));
    page.line("used_memory_overhead", other);
    page.line("used_memory_startup", startup);
    page.line("used_memory_dataset", data);
    page.line("used_memory_dataset_perc", format!("{:.2}%", percent(data.max(1), used)));
    page.line("allocator_allocated", data);
    page.line("allocator_active", active);
    page.line("allocator_resident", facts.rss);
    page.bytes("total_system_memory", facts.system_memory);
    scripts(page);
    // Exporters compare `used_memory` with it. A pool has a limit of its own.
    let has_pool = heap.is_durable() && facts.max_memory == 0;
    page.bytes("maxmemory", if has_pool { limit } else { facts.max_memory });
    page.line("maxmemory_policy", &facts.policy);
    page.bytes("heap_limit", limit);
    let rss = facts.rss;
    page.line("allocator_frag_ratio", ratio(active, data));
    page.line("allocator_frag_bytes", active.saturating_sub(data));
    page.line("allocator_rss_ratio", ratio(rss, active));
    page.line("allocator_rss_bytes", rss as i64 - active as i64);
    page.line("rss_overhead_ratio", "1.00");
    page.line("rss_overhead_bytes", 0);
    // The pages of a pool belong to its file: how many are resident says nothing about
    // fragmentation.
    let (taken, used) = if heap.is_durable() { (active, data) } else { (rss, used) };
    page.line("mem_fragmentation_ratio", ratio(taken, used));
    page.line("mem_fragmentation_bytes", taken as i64 - used as i64);
    let replicas = ReplicaMemory::of(page.call.engine);
    page.line("mem_not_counted_for_evict", 0);
    page.line("mem_replication_backlog", replicas.backlog);
    page.line("mem_total_replication_buffers", replicas.stream);
    page.line("mem_clients_slaves", replicas.clients);
    page.line("mem_cluster_links", page.call.engine.cluster().link_memory());
    let clients = page.call.engine.clients();
    page.line("mem_clients_normal", clients.memory().saturating_sub(clients.memory_of_replicas()));
    page.line("mem_aof_buffer", facts.persistence.aof.as_ref().map_or(0, |aof| aof.buffered));
    page.line("mem_allocator", "perdura");
    page.flag("active_defrag_running", facts.defragmenting);
    let keyspace = page.call.engine.keyspace();
    let stats = keyspace.stats();
    // Blocks that an earlier process left to be freed were not counted.
    let is_anything_left = (0..keyspace.shards()).any(|shard| keyspace.has_garbage(shard));
    let pending = stats.lazy_free_pending.max(u64::from(is_anything_left));
    page.line("lazyfree_pending_objects", pending);
    page.line("lazyfreed_objects", stats.lazily_freed);
}

pub(super) fn persistence(page: &mut Page<'_, '_>) {
    let facts = page.facts.persistence.clone();
    let engine = page.call.engine;
    let heap = engine.keyspace().heap();
    page.flag("loading", engine.config().loading());
    if let Some(loading) = facts.loading.filter(|_| engine.config().loading()) {
        progress(page, loading);
    }
    page.line("async_loading", 0);
    page.line("backend", &facts.backend);
    page.line("domain", &facts.domain);
    page.flag("emulated", facts.emulated);
    page.line("emulated_media", if facts.media.is_empty() { "no" } else { &facts.media });
    let volatile = &facts.volatile_medium;
    page.line("volatile_medium", if volatile.is_empty() { "no" } else { volatile });
    page.line("durability", &facts.durability);
    page.flag("writes_stopped", heap.is_poisoned());
    let refusals = engine.refusals();
    let ago = refusals.last_refused_s(engine.clock().unix_ms());
    page.line("full_refused_commands", refusals.refused());
    page.line("full_last_refused_sec", ago.map_or(-1, |seconds| seconds as i64));
    page.line("writes_refused", engine.full_store().why_no_writes().unwrap_or_default());
    page.line("pool", &facts.pool);
    page.line("pool_size", facts.pool_size);
    page.line("pool_space", facts.pool_space);
    page.line("pool_given_back", heap.given_back());
    page.flag("pool_gives_back", heap.gives_space_back());
    page.line("pool_used", heap.used());
    page.line("pool_limit", heap.largest_size());
    page.line("pool_shards", heap.shards());
    page.line("pool_damaged", heap.damaged());
    let kept = engine.keyspace().position().kept_offset();
    page.line("pool_stream_offset", kept.map_or(-1, |offset| offset as i64));
    snapshot(page);
    damage(page);
    page.flag("recovery_clean", facts.clean);
    page.line("recovery_usec", facts.recovery_us);
    page.line("recovery_records", facts.recovery_records);
    page.line("recovery_words", facts.recovery_words);
    if let Some(facts) = &facts.journal {
        journal(page, facts);
    }
    page.line("fences", facts.fences);
    page.line("lines_flushed", facts.lines);
    page.line("bytes_streamed", facts.streamed);
    page.line("longest_lock_hold_usec", engine.keyspace().longest_lock_hold_ns() / 1000);
    copied(page, &facts.rdb);
    rdb(page, &facts.rdb);
    aof(page, &facts.aof.unwrap_or_else(idle));
    page.line("module_fork_in_progress", 0);
    page.line("module_fork_last_cow_size", 0);
}

fn journal(page: &mut Page<'_, '_>, journal: &JournalFacts) {
    let per_byte = |bytes: u64, of: u64| format!("{:.2}", bytes as f64 / of.max(1) as f64);
    // The bytes recovered at the start are applied too.
    let to_apply = journal.fenced + journal.recovered_bytes;
    page.line("journal_status", if journal.failure.is_empty() { "ok" } else { "err" });
    page.line("journal_failure", &journal.failure);
    page.line("journal_medium", journal.medium);
    page.line("journal_size", journal.size);
    page.line("journal_unapplied_bytes", journal.used);
    page.line("journal_unsynced_bytes", journal.unsynced);
    page.line("journal_unsynced_age_usec", journal.unsynced_us);
    page.line("journal_fenced_bytes", journal.fenced);
    page.line("journal_written_bytes", journal.written);
    page.line("journal_applied_bytes", journal.applied);
    page.line("journal_written_per_fenced", per_byte(journal.written, journal.fenced));
    page.line("journal_applied_per_fenced", per_byte(journal.applied, to_apply));
    page.line("journal_batches", journal.batches);
    page.line("journal_syncs", journal.syncs);
    page.line("journal_sync_usec", journal.sync_us);
    page.line("journal_full_waits", journal.full_waits);
    page.line("journal_recovered_batches", journal.recovered_batches);
    page.line("journal_recovered_bytes", journal.recovered_bytes);
    page.line("journal_recovery_usec", journal.recovery_us);
}

/// Writes the memory that a snapshot holds, under Redis's names for the pages that a child process
/// no longer shares.
fn copied(page: &mut Page<'_, '_>, rdb: &RdbFacts) {
    let stats = page.call.engine.keyspace().heap().snapshot_stats();
    let (peak, size) = match stats.is_taken {
        true => (stats.peak, stats.held + stats.overlay),
        false => (0, 0),
    };
    page.line("current_cow_peak", peak);
    page.line("current_cow_size", size);
    page.line("current_cow_size_age", 0);
    let share = rdb.keys as f64 * 100.0 / rdb.total.max(1) as f64;
    page.line("current_fork_perc", format!("{share:.2}"));
}

/// Writes the state of the snapshot of a rewrite or a dump.
fn snapshot(page: &mut Page<'_, '_>) {
    let stats = page.call.engine.keyspace().heap().snapshot_stats();
    page.flag("snapshot_in_progress", stats.is_taken);
    page.line("snapshot_held_bytes", stats.held);
    page.line("snapshot_overlay_bytes", stats.overlay);
    page.line("snapshot_memory_peak", stats.peak);
    page.line("snapshot_memory_limit", stats.limit);
    page.line("snapshots_given_up", stats.given_up);
}

fn rdb(page: &mut Page<'_, '_>, rdb: &RdbFacts) {
    let seconds = |s: Option<u64>| s.map_or(-1, |s| s as i64);
    let last_save_s = page.call.engine.admin().last_save_s.load(Relaxed);
    page.line("current_save_keys_processed", rdb.keys);
    page.line("current_save_keys_total", rdb.total);
    page.line("rdb_changes_since_last_save", rdb.changes);
    page.flag("rdb_bgsave_in_progress", rdb.saving);
    page.line("rdb_last_save_time", last_save_s);
    page.line("rdb_last_bgsave_status", if rdb.failed { "err" } else { "ok" });
    page.line("rdb_last_bgsave_time_sec", seconds(rdb.last_s));
    page.line("rdb_current_bgsave_time_sec", seconds(rdb.current_s));
    page.line("rdb_saves", rdb.saves);
    page.line("rdb_last_cow_size", rdb.held);
    page.line("rdb_last_load_keys_expired", rdb.expired);
    page.line("rdb_last_load_keys_loaded", rdb.loaded);
}

/// Writes the progress of loading, in Redis's fields.
fn progress(page: &mut Page<'_, '_>, loading: LoadingFacts) {
    let LoadingFacts { started_s, total, loaded, elapsed_s } = loading;
    let share = loaded as f64 / total.max(1) as f64;
    let eta = match loaded {
        0 => 1,
        loaded => elapsed_s * total.saturating_sub(loaded) / loaded,
    };
    page.line("loading_start_time", started_s);
    page.line("loading_total_bytes", total);
    page.line("loading_loaded_bytes", loaded);
    page.line("loading_loaded_perc", format!("{:.2}", share * 100.0));
    page.line("loading_eta_seconds", eta);
}

fn damage(page: &mut Page<'_, '_>) {
    let keyspace = page.call.engine.keyspace();
    let scrub = page.facts.persistence.scrub;
    page.line("media_errors", keyspace.heap().region().media_errors());
    page.line("damaged_keys", keyspace.damaged_keys());
    page.line("media_stopped", keyspace.stopped().unwrap_or_default());
    page.line("scrub_rate", scrub.rate);
    page.flag("scrub_running", scrub.running);
    page.line("scrub_progress_perc", scrub.percent);
    page.line("scrub_passes", scrub.passes);
    page.line("scrub_last_pass_msec", scrub.last_pass_ms);
    page.line("scrub_keys", scrub.keys);
    page.line("scrub_bytes", scrub.bytes);
    page.line("scrub_found", scrub.found);
}

fn idle() -> AofFacts {
    AofFacts { rewrite_ok: true, write_ok: true, ..AofFacts::default() }
}

fn aof(page: &mut Page<'_, '_>, aof: &AofFacts) {
    let seconds = |s: Option<u64>| s.map_or(-1, |s| s as i64);
    let status = |ok: bool| if ok { "ok" } else { "err" };
    page.flag("aof_enabled", aof.enabled);
    page.flag("aof_rewrite_in_progress", aof.rewriting);
    page.flag("aof_rewrite_scheduled", aof.rewrite_scheduled);
    page.line("aof_last_rewrite_time_sec", seconds(aof.last_rewrite_s));
    page.line("aof_current_rewrite_time_sec", seconds(aof.current_rewrite_s));
    page.line("aof_last_bgrewrite_status", status(aof.rewrite_ok));
    page.line("aof_rewrites", aof.rewrites);
    page.line("aof_rewrites_consecutive_failures", aof.rewrite_failures);
    page.line("aof_last_write_status", status(aof.write_ok));
    page.line("aof_last_cow_size", 0);
    if aof.enabled {
        page.line("aof_current_size", aof.size);
        page.line("aof_base_size", aof.base_size);
        page.line("aof_pending_rewrite", 0);
        page.line("aof_buffer_length", aof.buffered);
        page.line("aof_pending_bio_fsync", 0);
        page.line("aof_delayed_fsync", 0);
        page.line("aof_syncs", aof.syncs);
    }
}

pub(super) fn keyspace(page: &mut Page<'_, '_>) {
    for db in Db::all() {
        let (keys, expires) =
            (page.txn.database(db).count(), page.txn.database(db).count_expiring());
        if keys > 0 {
            let ttl = page.txn.database(db).mean_ttl();
            let mut value = format!("keys={keys},expires={expires},avg_ttl={ttl}");
            let hashes = page.txn.database(db).count_with_times();
            if hashes > 0 {
                value += &format!(",subexpiry={hashes}");
            }
            page.line(&format!("db{}", db.number()), value);
        }
    }
}
