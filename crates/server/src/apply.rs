//! Making directives real: at the start, and when CONFIG SET changes them.

use std::path::Path;
use std::sync::Arc;

use commands::{Engine, EventClasses};
use keyspace::{Eviction, Limits, Policy};

use crate::append_only::fsync;
use crate::client_memory;
use crate::config::table::SAVE_POINTS;
use crate::config::{Refusal, Values};
use crate::pool_journal::policy;
use crate::shared::Shared;
use crate::store::{Backend, Report};
use crate::{listen, machine, tls};

/// Files that the server itself keeps open, in addition to its clients' sockets.
const OWN_FILES: u64 = 32;

/// Why `read-cache` is refused or ignored where it could do nothing.
pub(crate) const NO_READ_CACHE: &str =
    "a read cache is DRAM in front of persistent memory, and here all data is in DRAM";

/// Sets directives to what the store makes of them, and names those that have no effect with it.
pub(crate) fn fit_to_store(values: &mut Values, report: &Report) {
    let backend = report.backend;
    if backend == Backend::Aof {
        let _ = values.set(b"appendonly", &[b"yes"]);
    } else if backend == Backend::Pmem && values.yes("appendonly") {
        tracing::warn!(
            "appendonly has no effect with the {} backend: its pool is durable by itself",
            report.backend_name()
        );
        let _ = values.set(b"appendonly", &[b"no"]);
    }
    if backend == Backend::Volatile && !values.given("save") {
        // What is in memory only has the save points that Redis gives it.
        let points: Vec<&[u8]> = SAVE_POINTS.split(' ').map(str::as_bytes).collect();
        let _ = values.set(b"save", &points);
    }
    if report.is_in_dram() && values.size("read-cache") > 0 {
        tracing::warn!("read-cache has no effect: {}", NO_READ_CACHE);
        let _ = values.set(b"read-cache", &[b"0"]);
    }
    if values.yes("preload") && report.domain != pmem::Domain::Journal {
        tracing::warn!("preload has no effect: it reads a pool that has a journal");
    }
}

/// Applies everything that is stored where it is used, at the start.
pub(crate) fn all(shared: &Shared, values: &Values) {
    shared.limits.load(values);
    // A pool is in a file.
    shared.engine.clients().set_counted_as_data(shared.store.backend != Backend::Pmem);
    engine(&shared.engine, values);
    if values.get("oom-score-adj") != b"no" {
        let _ = oom_score(shared, values);
    }
    if !shared.store.is_in_dram() {
        shared.engine.keyspace().heap().set_read_cache(values.size("read-cache"));
    }
}

fn engine(engine: &Engine, values: &Values) {
    engine
        .permissions()
        .set_new_users_use_all_channels(values.get("acl-pubsub-default") == b"allchannels");
    engine.permissions().set_acl_log_max_len(values.size("acllog-max-len") as usize);
    engine.config().set_proto_max_bulk_len(values.size("proto-max-bulk-len"));
    let number = |name| values.size(name) as usize;
    engine.config().set_hash_limits(Limits {
        entries: number("hash-max-listpack-entries"),
        value: number("hash-max-listpack-value"),
    });
    engine.config().set_sorted_set_limits(Limits {
        entries: number("zset-max-listpack-entries"),
        value: number("zset-max-listpack-value"),
    });
    let entries = number("set-max-intset-entries");
    engine.config().set_set_limits(Limits { entries, value: 0 });
    engine.config().set_list_node(values.int("list-max-listpack-size") as i32);
    let entries = number("stream-node-max-entries");
    engine.config().set_stream_node(number("stream-node-max-bytes"), entries);
    // There are no replicas: a server that has to have some before it writes does not write.
    let wants_replicas =
        values.int("min-replicas-to-write") > 0 && values.int("min-replicas-max-lag") > 0;
    engine.config().set_lacks_replicas(wants_replicas);
    engine.config().set_databases(values.size("databases") as usize);
    engine.config().set_hll_sparse_max_bytes(values.size("hll-sparse-max-bytes") as usize);
    engine.config().set_busy_reply_threshold(values.size("busy-reply-threshold"));
    engine.config().set_busy_reply_all(values.yes("busy-reply-all"));
    engine.config().set_redis_version(&values.text("redis-version"));
    engine.config().set_script_kill_rollback(values.yes("script-kill-rollback"));
    engine.set_events(EventClasses::parse(values.get("notify-keyspace-events")));
    engine.config().set_tracking_table_max_keys(number("tracking-table-max-keys"));
    engine.tracking_clients().limit_cached_keys();
    engine.keyspace().set_eviction(eviction(values), engine.clock().unix_ms());
    engine.keyspace().heap().set_snapshot_limit(snapshot_limit(engine, values));
    let admin = engine.admin();
    admin.slow_log.set_slower_than(values.int("slowlog-log-slower-than"));
    admin.slow_log.set_max_len(values.size("slowlog-max-len") as usize);
    admin.large_requests.set_slower_than(values.int("commandlog-request-larger-than"));
    admin.large_requests.set_max_len(values.size("commandlog-large-request-max-len") as usize);
    admin.large_replies.set_slower_than(values.int("commandlog-reply-larger-than"));
    admin.large_replies.set_max_len(values.size("commandlog-large-reply-max-len") as usize);
    admin.latency.set_threshold_ms(values.size("latency-monitor-threshold"));
    let tracking = values.yes("latency-tracking");
    admin.tracking.store(tracking, std::sync::atomic::Ordering::Relaxed);
}

/// Returns what a snapshot may hold: 0 means a half of the heap's limit, or of the machine's memory
/// if that is less.
fn snapshot_limit(engine: &Engine, values: &Values) -> u64 {
    match values.size("snapshot-memory-limit") {
        0 => match (engine.keyspace().heap().limit(), machine::memory()) {
            (limit, 0) => limit / 2,
            (limit, memory) => limit.min(memory) / 2,
        },
        bytes => bytes,
    }
}

fn eviction(values: &Values) -> Eviction {
    let small = |name| u32::try_from(values.size(name)).unwrap_or(u32::MAX);
    Eviction {
        maxmemory: values.size("maxmemory"),
        policy: match values.get("maxmemory-policy") {
            b"volatile-lru" => Policy::VolatileLru,
            b"volatile-lfu" => Policy::VolatileLfu,
            b"volatile-random" => Policy::VolatileRandom,
            b"volatile-ttl" => Policy::VolatileTtl,
            b"allkeys-lru" => Policy::AllkeysLru,
            b"allkeys-lfu" => Policy::AllkeysLfu,
            b"allkeys-random" => Policy::AllkeysRandom,
            _ => Policy::NoEviction,
        },
        samples: small("maxmemory-samples"),
        lfu_log_factor: small("lfu-log-factor"),
        lfu_decay_time: small("lfu-decay-time"),
    }
}

/// Makes space for the sockets of `maxclients`; says how many clients there can be.
fn files(wanted: u64) -> u64 {
    machine::want_open_files(wanted.saturating_add(OWN_FILES)).saturating_sub(OWN_FILES).min(wanted)
}

/// Lowers `maxclients` to what the limit of open files is enough for; that limit, where no client
/// could connect.
pub(crate) fn fit_to_open_files(values: &mut Values) -> Result<(), u64> {
    let wanted = values.size("maxclients");
    let possible = files(wanted);
    if possible == 0 {
        return Err(machine::open_files());
    }
    if possible < wanted {
        tracing::warn!(
            "The limit of open files is enough for {possible} clients: maxclients is set to that"
        );
        let _ = values.set(b"maxclients", &[possible.to_string().as_bytes()]);
    }
    Ok(())
}

/// Makes a change of the named directives real.
pub(crate) fn change(
    shared: &Arc<Shared>,
    before: &Values,
    after: &Values,
    names: &[&'static str],
) -> Result<(), Refusal> {
    for name in names {
        one(shared, before, after, name)
            .map_err(|why| Refusal::Value { name: (*name).to_owned(), why })?;
    }
    all(shared, after);
    client_memory::evict(shared);
    if names.contains(&"maxmemory") {
        shared.limits.evict.store(true, std::sync::atomic::Ordering::Relaxed);
    }
    Ok(())
}

/// Lets the pool become this large, or no larger than that.
fn resize_pool(shared: &Shared, wanted: u64) -> Result<(), String> {
    let heap = shared.engine.keyspace().heap();
    if !heap.is_durable() || heap.region().is_device() {
        return Err("the data is in no file that could grow".into());
    }
    let (before, reserved) = (heap.largest_size(), heap.region().reserved());
    if wanted > reserved {
        return Err(format!(
            "a pool that was opened with {before} bytes can become {reserved} bytes large without a restart"
        ));
    }
    if wanted < heap.size() {
        return Err(format!("the pool takes {} bytes already", heap.size()));
    }
    let now = heap.set_largest_size(wanted);
    tracing::info!("The pool may grow to {now} bytes; it was {before}");
    Ok(())
}

fn one(shared: &Arc<Shared>, _: &Values, after: &Values, name: &str) -> Result<(), String> {
    match name {
        "port" | "bind" => listen::replace(shared, after).map_err(|error| {
            tracing::warn!("{error}");
            match name {
                "port" => "Unable to listen on this port. Check server logs.".into(),
                _ => "Failed to bind to specified addresses.".into(),
            }
        }),
        "tls-port" => {
            configure_tls(shared, after)?;
            listen::replace(shared, after).map_err(|error| {
                tracing::warn!("{error}");
                "Unable to listen on this port. Check server logs.".into()
            })
        }
        name if name.starts_with("tls-") => configure_tls(shared, after),
        "maxclients" => {
            let wanted = after.size("maxclients");
            let possible = files(wanted);
            if possible < wanted {
                return Err(format!(
                    "The operating system is not able to handle the specified number of clients, try with {possible}"
                ));
            }
            Ok(())
        }
        "pool-size" => resize_pool(shared, after.size("pool-size")),
        "dir" => {
            let dir = after.text("dir");
            let is_there = std::fs::read_dir(&dir);
            is_there.map_err(|error| crate::text::os_error(&error))?;
            shared.data_dir.move_to(Path::new(&dir), shared.log.get().is_some())?;
            std::env::set_current_dir(dir).map_err(|error| crate::text::os_error(&error))
        }
        "loglevel" => {
            crate::log::set_level(&after.text("loglevel"));
            Ok(())
        }
        "appendfsync" => match shared.log.get() {
            Some(log) => log.set_fsync(fsync(after)).map_err(|failure| failure.to_string()),
            None => match &shared.journal {
                Some(journal) => journal.set_policy(policy(after)),
                None => Ok(()),
            },
        },
        "aof-timestamp-enabled" => {
            if let Some(log) = shared.log.get() {
                log.set_timestamps(after.yes(name));
            }
            Ok(())
        }
        "read-cache" if shared.store.is_in_dram() && after.size("read-cache") > 0 => {
            Err(String::from(NO_READ_CACHE))
        }
        "appendonly" => append_only(shared, after.yes("appendonly")),
        "oom-score-adj" | "oom-score-adj-values" => oom_score(shared, after),
        _ => Ok(()),
    }
}

fn oom_score(shared: &Shared, values: &Values) -> Result<(), String> {
    shared.oom_score.apply(values).map_err(|error| {
        tracing::warn!("Unable to write oom_score_adj: {}", crate::text::os_error(&error));
        String::from("Failed to set current oom_score_adj. Check server logs.")
    })
}

/// Reads certificates and keys again, if they are needed.
fn configure_tls(shared: &Shared, values: &Values) -> Result<(), String> {
    if !tls::is_wanted(values) {
        return Ok(());
    }
    shared.tls.configure(values).map_err(|error| {
        tracing::warn!("{error}");
        String::from("Unable to update TLS configuration. Check server logs.")
    })
}

/// Refuses a log for a pool. For data in memory it can be switched on and off.
fn append_only(shared: &Shared, yes: bool) -> Result<(), String> {
    match (shared.store.backend, yes) {
        (Backend::Aof | Backend::Volatile, _) | (Backend::Pmem, false) => Ok(()),
        (Backend::Pmem, true) => Err("a pool is durable by itself and has no append only file; \
                                      start with --backend aof for a store that has one"
            .into()),
    }
}
