//! Metrics of the data: keyspace, memory, heap, persistence.

use std::sync::atomic::Ordering::Relaxed;

use engine::Engine;
use engine::host::{AofFacts, DiskFacts, Facts, JournalFacts, Persistence, RdbFacts, SyncTimes};
use keyspace::Db;

use super::super::replication_facts::why_no_writes;
use super::page::{Kind, Page, seconds};

pub(super) fn keyspace(page: &mut Page, engine: &Engine) {
    let keyspace = engine.keyspace();
    let counts: Vec<(String, (u64, u64))> = Db::all()
        .map(|db| (db.number(), keyspace.count(db)))
        .filter(|(number, (keys, _))| *number == 0 || *keys > 0)
        .map(|(number, counts)| (format!("db{number}"), counts))
        .collect();
    page.family("perdura_db_keys", Kind::Gauge, "Keys by database.");
    for (db, (keys, _)) in &counts {
        page.sample("perdura_db_keys", &[("db", db)], keys);
    }
    page.family("perdura_db_keys_expiring", Kind::Gauge, "Keys with an expiry time by database.");
    for (db, (_, expiring)) in &counts {
        page.sample("perdura_db_keys_expiring", &[("db", db)], expiring);
    }
    let stats = keyspace.stats();
    page.counter("perdura_keyspace_hits_total", "Reads that found their key.", stats.hits);
    page.counter("perdura_keyspace_misses_total", "Reads that did not.", stats.misses);
    let help = "Keys deleted since their time had come.";
    page.counter("perdura_expired_keys_total", help, stats.expired);
    let help = "Fields of hashes deleted since their time had come.";
    page.counter("perdura_expired_fields_total", help, stats.expired_fields);
    page.counter("perdura_evicted_keys_total", "Keys deleted by maxmemory.", stats.evicted);
}

pub(super) fn memory(page: &mut Page, engine: &Engine, facts: &Facts) {
    let heap = engine.keyspace().heap();
    let used = heap.used();
    page.gauge("perdura_memory_used_bytes", "Bytes of allocated blocks.", used);
    let help = "Bytes outside of them that count toward maxmemory.";
    page.gauge("perdura_memory_other_bytes", help, engine.keyspace().other_memory());
    let peak = facts.peak_memory.max(used + engine.keyspace().other_memory());
    page.gauge("perdura_memory_used_peak_bytes", "The most that both together were.", peak);
    page.gauge("perdura_memory_max_bytes", "maxmemory; 0 for none.", facts.max_memory);
    let scripts = engine.scripts().interpreters().total();
    let functions = engine.libraries().interpreters().total();
    let name = "perdura_memory_scripts_bytes";
    page.gauge(name, "Memory of interpreters.", scripts + functions);
}

pub(super) fn heap(page: &mut Page, engine: &Engine, facts: &Facts) {
    let (heap, of_pool) = (engine.keyspace().heap(), &facts.persistence);
    let (used, taken) = (heap.used(), of_pool.pool_space);
    page.gauge("perdura_heap_limit_bytes", "Bytes that blocks can take.", heap.limit());
    page.gauge("perdura_heap_size_bytes", "Size of the pool, or of the heap.", of_pool.pool_size);
    page.gauge("perdura_heap_space_bytes", "Bytes of it that take space.", taken);
    let most = heap.largest_size();
    page.gauge("perdura_heap_largest_size_bytes", "The size to which it may grow.", most);
    let ratio = taken as f64 / used.max(1) as f64;
    page.gauge("perdura_heap_fragmentation_ratio", "Space per allocated byte.", ratio);
    let spans = heap.spans();
    let name = "perdura_heap_spans";
    page.family(name, Kind::Gauge, "Spans of 64 KiB, and those that no shard has.");
    page.sample(name, &[("state", "all")], spans.all);
    page.sample(name, &[("state", "free")], spans.free);
    page.counter("perdura_heap_fences_total", "Store fences of commands.", of_pool.fences);
    page.counter("perdura_heap_lines_flushed_total", "Cache lines flushed.", of_pool.lines);
    let help = "Bytes stored past the cache.";
    page.counter("perdura_heap_streamed_bytes_total", help, of_pool.streamed);
    let moved = facts.defragmented;
    page.counter("perdura_heap_defragmented_blocks_total", "Blocks moved to save space.", moved);
    let longest = engine.keyspace().longest_lock_hold_ns() as f64 / 1e9;
    let help = "The longest that background work held the lock of a shard.";
    page.gauge("perdura_lock_hold_max_seconds", help, longest);
}

pub(super) fn read_cache(page: &mut Page, engine: &Engine) {
    let cache = engine.keyspace().heap().read_cache_stats();
    page.gauge("perdura_read_cache_limit_bytes", "The limit read-cache.", cache.size);
    page.gauge("perdura_read_cache_bytes", "Bytes that the read cache takes.", cache.bytes);
    page.gauge("perdura_read_cache_entries", "Copies in the read cache.", cache.entries);
    page.counter("perdura_read_cache_hits_total", "Reads that found a copy.", cache.hits);
    page.counter("perdura_read_cache_misses_total", "Reads that did not.", cache.misses);
    let evicted = cache.evictions;
    page.counter("perdura_read_cache_evictions_total", "Copies evicted for others.", evicted);
}

pub(super) fn persistence(page: &mut Page, engine: &Engine, facts: &Persistence) {
    let name = "perdura_persistence_info";
    page.family(name, Kind::Gauge, "The durability in force: what an acknowledged write survives.");
    let labels = [
        ("backend", &*facts.backend),
        ("domain", &*facts.domain),
        ("emulated", if facts.emulated { "yes" } else { "no" }),
        ("survives", &*facts.survives),
        ("durability", &*facts.durability),
    ];
    page.sample(name, &labels, 1);
    let stopped = engine.keyspace().heap().is_poisoned() || !engine.durability().takes_writes();
    page.flag("perdura_writes_stopped", "1 after a failed durable step: no more writes.", stopped);
    let refused = why_no_writes(engine).is_some();
    page.flag("perdura_writes_refused", "1 while writes are refused for another reason.", refused);
    let help = "Commands refused since the store was full.";
    page.counter("perdura_full_refused_commands_total", help, engine.refusals().refused());
    if let Some(us) = facts.unsynced_us {
        let help = "Age of the oldest write that is not synced: what a power loss would take.";
        page.gauge("perdura_unsynced_age_seconds", help, seconds(us));
    }
}

pub(super) fn recovery(page: &mut Page, facts: &Persistence) {
    page.flag("perdura_recovery_clean", "1 if the pool had been closed cleanly.", facts.clean);
    let help = "Time from opening the store to being ready.";
    page.gauge("perdura_recovery_seconds", help, seconds(facts.recovery_us));
    let records = facts.recovery_records;
    page.gauge("perdura_recovery_records", "Log records that the start accepted.", records);
    page.gauge("perdura_recovery_words", "Words that the start restored.", facts.recovery_words);
}

pub(super) fn damage(page: &mut Page, engine: &Engine, facts: &Persistence) {
    let (keyspace, scrub) = (engine.keyspace(), facts.scrub);
    let errors = keyspace.heap().region().media_errors();
    page.gauge("perdura_media_errors", "Media errors of the pool.", errors);
    let keys = keyspace.damaged_keys();
    page.gauge("perdura_damaged_keys", "Keys that are answered with MEDIAERR.", keys);
    let stopped = keyspace.stopped().is_some();
    page.flag("perdura_media_stopped", "1 if a media error stopped the store.", stopped);
    page.flag("perdura_scrub_running", "1 while a pass of the scrub goes on.", scrub.running);
    let share = scrub.percent as f64 / 100.0;
    page.gauge("perdura_scrub_progress_ratio", "How far that pass is.", share);
    page.counter("perdura_scrub_passes_total", "Passes of the scrub.", scrub.passes);
    let last = scrub.last_pass_ms as f64 / 1000.0;
    page.gauge("perdura_scrub_last_pass_seconds", "How long the last pass took.", last);
    page.counter("perdura_scrub_keys_total", "Keys that the scrub verified.", scrub.keys);
    page.counter("perdura_scrub_bytes_total", "Bytes that the scrub verified.", scrub.bytes);
    page.counter("perdura_scrub_found_total", "Damaged keys that the scrub found.", scrub.found);
}

pub(super) fn snapshot(page: &mut Page, engine: &Engine) {
    let stats = engine.keyspace().heap().snapshot_stats();
    page.flag("perdura_snapshot_in_progress", "1 while there is a snapshot.", stats.is_taken);
    page.gauge("perdura_snapshot_held_bytes", "Freed blocks that it holds.", stats.held);
    page.gauge("perdura_snapshot_overlay_bytes", "Old values that it keeps.", stats.overlay);
    page.gauge("perdura_snapshot_limit_bytes", "The most that both may be.", stats.limit);
    page.counter("perdura_snapshots_given_up_total", "Snapshots given up.", stats.given_up);
}

pub(super) fn rdb(page: &mut Page, engine: &Engine, rdb: &RdbFacts) {
    let last_save = engine.admin().last_save_s.load(Relaxed);
    let changes = rdb.changes;
    page.gauge("perdura_rdb_changes_since_last_save", "Changes that no dump has.", changes);
    page.flag("perdura_rdb_bgsave_in_progress", "1 while a dump is written.", rdb.saving);
    let name = "perdura_rdb_last_save_timestamp_seconds";
    page.gauge(name, "When the last dump was complete.", last_save);
    page.flag("perdura_rdb_last_bgsave_status", "0 if the last dump failed.", !rdb.failed);
    let name = "perdura_rdb_last_bgsave_duration_seconds";
    page.gauge(name, "How long the last dump took; -1 for none.", or_minus_one(rdb.last_s));
    let name = "perdura_rdb_current_bgsave_duration_seconds";
    page.gauge(name, "Time since the current one began; -1 for none.", or_minus_one(rdb.current_s));
    page.counter("perdura_rdb_saves_total", "Dumps that were written.", rdb.saves);
    let help = "When a dump was last complete, in a file or sent to a client; 0 for none.";
    page.gauge("perdura_backup_last_timestamp_seconds", help, rdb.last_copy_s);
}

pub(super) fn disks(page: &mut Page, disks: &[DiskFacts]) {
    let name = "perdura_filesystem_avail_bytes";
    page.family(name, Kind::Gauge, "Bytes that can still be written.");
    for disk in disks {
        page.sample(name, &[("of", disk.of)], disk.avail);
    }
    let name = "perdura_filesystem_size_bytes";
    page.family(name, Kind::Gauge, "Bytes of the file system.");
    for disk in disks {
        page.sample(name, &[("of", disk.of)], disk.size);
    }
}

/// The shortest time of a sync that has a bucket: 2^4 microseconds.
const SHORTEST: usize = 4;

/// A histogram whose bounds are powers of two of a microsecond.
fn sync_times(page: &mut Page, name: &str, help: &str, times: &SyncTimes) {
    page.family(name, Kind::Histogram, help);
    let [bucket, sum, count] = ["bucket", "sum", "count"].map(|end| format!("{name}_{end}"));
    let mut within = 0;
    let (last, counts) = (times.counts.len() - 1, &times.counts);
    for (n, more) in counts.iter().enumerate().take(last) {
        within += more;
        if n >= SHORTEST {
            let bound = seconds(1 << n).to_string();
            page.sample(&bucket, &[("le", &bound)], within);
        }
    }
    let all = within + counts[last];
    page.sample(&bucket, &[("le", "+Inf")], all);
    page.sample(&sum, &[], times.nanos as f64 / 1e9);
    page.sample(&count, &[], all);
}

fn or_minus_one(seconds: Option<u64>) -> i64 {
    seconds.map_or(-1, |seconds| seconds as i64)
}

pub(super) fn journal(page: &mut Page, journal: &JournalFacts) {
    let works = journal.failure.is_empty();
    page.flag("perdura_journal_status", "0 if it failed, or its file is gone.", works);
    page.gauge("perdura_journal_size_bytes", "Size of the journal's ring.", journal.size);
    let help = "Bytes in the ring that are not applied to the pool: its fill.";
    page.gauge("perdura_journal_unapplied_bytes", help, journal.used);
    let help = "Bytes of fenced lines that are not synced: what a power loss would take.";
    page.gauge("perdura_journal_unsynced_bytes", help, journal.unsynced);
    let fenced = journal.fenced;
    page.counter("perdura_journal_fenced_bytes_total", "Bytes of fenced lines.", fenced);
    let written = journal.written;
    page.counter("perdura_journal_written_bytes_total", "Bytes written to the ring.", written);
    let applied = journal.applied;
    page.counter("perdura_journal_applied_bytes_total", "Bytes written to the pool.", applied);
    page.counter("perdura_journal_batches_total", "Batches written.", journal.batches);
    page.counter("perdura_journal_syncs_total", "Syncs of batches.", journal.syncs);
    let time = seconds(journal.syncs_us);
    page.counter("perdura_journal_sync_seconds_total", "Time in these syncs.", time);
    let name = "perdura_journal_sync_duration_seconds";
    sync_times(page, name, "Time of one sync of the journal.", &journal.sync_times);
    let waits = journal.full_waits;
    page.counter("perdura_journal_full_waits_total", "Writers that found it full.", waits);
    let batches = journal.recovered_batches;
    page.gauge("perdura_journal_recovered_batches", "Batches that the start read.", batches);
    let bytes = journal.recovered_bytes;
    page.gauge("perdura_journal_recovered_bytes", "Bytes of their lines.", bytes);
    let time = seconds(journal.recovery_us);
    page.gauge("perdura_journal_recovery_seconds", "Time that this took.", time);
}

pub(super) fn aof(page: &mut Page, aof: &AofFacts) {
    page.flag("perdura_aof_enabled", "1 if the append-only file is on.", aof.enabled);
    page.flag("perdura_aof_rewrite_in_progress", "1 during a rewrite.", aof.rewriting);
    let name = "perdura_aof_last_rewrite_duration_seconds";
    page.gauge(
        name,
        "How long the last rewrite took; -1 for none.",
        or_minus_one(aof.last_rewrite_s),
    );
    page.flag("perdura_aof_last_bgrewrite_status", "0 if the last rewrite failed.", aof.rewrite_ok);
    page.flag("perdura_aof_last_write_status", "0 while writes or syncs fail.", aof.write_ok);
    page.counter("perdura_aof_rewrites_total", "Rewrites.", aof.rewrites);
    page.gauge("perdura_aof_current_size_bytes", "Bytes of all its files.", aof.size);
    page.gauge("perdura_aof_base_size_bytes", "Bytes after the last rewrite.", aof.base_size);
    page.gauge("perdura_aof_buffer_bytes", "Bytes that are not written yet.", aof.buffered);
    page.counter("perdura_aof_syncs_total", "Syncs.", aof.syncs);
    let name = "perdura_aof_sync_duration_seconds";
    sync_times(page, name, "Time of one sync of the append-only file.", &aof.sync_times);
}
