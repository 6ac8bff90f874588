//! Putting directives into effect: at the start, and when CONFIG SET changes them.
//!
//! The row of a directive names its [`Effect`]; here is how each is brought about. What can fail
//! comes first ([`attempt`]), so that nothing has changed for clients when a value is refused; the
//! rest stores values where they are used ([`store`]), which the start does too.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use commands::{Engine, EventClasses, Quorum, Settings};
use keyspace::{Eviction, Policy};

use crate::config::choice::{EvictionPolicy, NewUserChannels, OomScoreAdj};
use crate::config::row::{Effect, Row};
use crate::config::special::SAVE_POINTS;
use crate::config::{Refusal, Values};
use crate::durability::append_only::fsync;
use crate::net::client_memory;
use crate::net::listen;
use crate::net::tls;
use crate::pool::journal::policy;
use crate::pool::store::{Backend, Report};
use crate::process::machine;
use crate::replication::replicas;
use crate::shared::Shared;

/// Files that the server itself keeps open, in addition to its clients' sockets.
const OWN_FILES: u64 = 32;

/// Why `read-cache` is refused or ignored where it could do nothing.
pub(crate) const NO_READ_CACHE: &str =
    "a read cache is DRAM in front of persistent memory, and here all data is in DRAM";

/// Sets directives to the values that the store really uses, and names those without effect.
pub(crate) fn fit_to_store(values: &mut Values, report: &Report) {
    let backend = report.backend;
    if backend == Backend::Aof {
        values.appendonly = true;
    } else if backend == Backend::Pmem && values.appendonly {
        tracing::warn!(
            "appendonly has no effect with the {} backend: its pool is durable by itself",
            report.backend_name()
        );
        values.appendonly = false;
    }
    if backend == Backend::Volatile && !values.given.save {
        // What is in memory only has the save points that Redis gives it.
        values.save = SAVE_POINTS.into();
    }
    if report.is_in_dram() && values.read_cache > 0 {
        tracing::warn!("read-cache has no effect: {}", NO_READ_CACHE);
        values.read_cache = 0;
    }
    if values.preload && report.domain != pmem::Domain::Journal {
        tracing::warn!("preload has no effect: it reads a pool that has a journal");
    }
}

/// Puts all values into effect, at the start.
pub(crate) fn all(shared: &Shared, values: &Values) {
    // A pool is in a file.
    shared.engine.clients().set_counted_as_data(shared.store.backend != Backend::Pmem);
    let mut stored: Vec<Effect> = Vec::new();
    for effect in Row::all().map(|row| row.effect) {
        if !stored.contains(&effect) {
            store(effect, shared, values);
            stored.push(effect);
        }
    }
    if values.oom_score_adj != OomScoreAdj::No {
        let _ = oom_score(shared, values);
    }
}

/// Puts a change of some directives into effect.
pub(crate) fn change(
    shared: &Arc<Shared>,
    after: &Values,
    rows: &[&'static Row],
) -> Result<(), Refusal> {
    for row in rows {
        attempt(row.effect, shared, after)
            .map_err(|why| Refusal::Value { name: row.name.to_owned(), why })?;
    }
    for row in rows {
        store(row.effect, shared, after);
    }
    let has = |effect| rows.iter().any(|row| row.effect == effect);
    if has(Effect::LimitMemory) || has(Effect::LimitClientMemory) {
        client_memory::evict(shared);
    }
    if has(Effect::LimitMemory) {
        shared.limits.evict.store(true, Relaxed);
    }
    Ok(())
}

/// Does the part of an effect that can fail, and says why it does.
fn attempt(effect: Effect, shared: &Arc<Shared>, after: &Values) -> Result<(), String> {
    const NO_PORT: &str = "Unable to listen on this port. Check server logs.";
    const NO_ADDRESS: &str = "Failed to bind to specified addresses.";
    match effect {
        Effect::ListenOnPort => listen_again(shared, after, NO_PORT),
        Effect::ListenOnAddresses => listen_again(shared, after, NO_ADDRESS),
        Effect::ListenWithTls => {
            configure_tls(shared, after)?;
            listen_again(shared, after, NO_PORT)
        }
        Effect::ConfigureTls => configure_tls(shared, after),
        Effect::AllowClients => allow_clients(after.maxclients),
        Effect::ResizePool => resize_pool(shared, after.pool_size),
        Effect::ChangeDir => change_dir(shared, &after.dir.to_text()),
        Effect::SetFsync => match (shared.log.get(), &shared.journal) {
            (Some(log), _) => log.set_fsync(fsync(after)).map_err(|failure| failure.to_string()),
            (None, Some(journal)) => journal.set_policy(policy(after)),
            (None, None) => Ok(()),
        },
        Effect::SetReadCache if shared.store.is_in_dram() && after.read_cache > 0 => {
            Err(String::from(NO_READ_CACHE))
        }
        Effect::SwitchLog => may_switch_log(shared, after.appendonly),
        Effect::SetOomScore => oom_score(shared, after),
        Effect::ReadWhenNeeded
        | Effect::LoadLimits
        | Effect::StoreSettings
        | Effect::LimitStrings
        | Effect::SetEviction
        | Effect::LimitMemory
        | Effect::LimitClientMemory
        | Effect::LimitTracking
        | Effect::LimitSnapshots
        | Effect::SetReadCache
        | Effect::SetPassword
        | Effect::SetNewUsers
        | Effect::LimitAclLog
        | Effect::SetTimestamps
        | Effect::RequireReplicas
        | Effect::SetQuorum
        | Effect::SetLogLevel
        | Effect::PublishEvents
        | Effect::SetCommandLogs
        | Effect::SetLatency
        | Effect::SetCluster => Ok(()),
    }
}

/// Stores the values that an effect is about where they are used.
fn store(effect: Effect, shared: &Shared, values: &Values) {
    let engine = &*shared.engine;
    match effect {
        Effect::LoadLimits | Effect::LimitClientMemory | Effect::AllowClients => {
            shared.limits.load(values);
        }
        Effect::StoreSettings => store_settings(engine, values),
        Effect::LimitStrings => {
            shared.limits.load(values);
            store_settings(engine, values);
        }
        Effect::SetEviction => set_eviction(engine, values),
        Effect::LimitMemory => {
            set_eviction(engine, values);
            shared.limits.load(values);
        }
        Effect::LimitTracking => {
            store_settings(engine, values);
            engine.tracking_clients().limit_cached_keys();
        }
        Effect::LimitSnapshots => {
            engine.keyspace().heap().set_snapshot_limit(snapshot_limit(engine, values));
        }
        // Both limits depend on how large the heap may become.
        Effect::ResizePool => {
            set_eviction(engine, values);
            engine.keyspace().heap().set_snapshot_limit(snapshot_limit(engine, values));
        }
        Effect::SetReadCache => {
            if !shared.store.is_in_dram() {
                engine.keyspace().heap().set_read_cache(values.read_cache);
            }
        }
        Effect::SetNewUsers => {
            let all = values.acl_pubsub_default == NewUserChannels::All;
            engine.permissions().set_new_users_use_all_channels(all);
        }
        Effect::LimitAclLog => engine.permissions().set_acl_log_max_len(values.acllog_max_len),
        Effect::SetTimestamps => {
            if let Some(log) = shared.log.get() {
                log.set_timestamps(values.aof_timestamp_enabled);
            }
        }
        Effect::RequireReplicas => {
            replicas::require(shared, values);
            replicas::restrict(shared, values);
        }
        Effect::SetQuorum => {
            let (replicas, durable) = (values.repl_acknowledge, values.repl_acknowledge_durable);
            let quorum = Quorum { replicas, durable };
            engine.replication().set_quorum(quorum, values.repl_acknowledge_timeout);
        }
        Effect::SetLogLevel => crate::process::log::set_level(values.loglevel),
        Effect::PublishEvents => {
            engine.set_events(EventClasses::parse(&values.notify_keyspace_events));
        }
        Effect::SetCommandLogs => set_command_logs(engine, values),
        Effect::SetLatency => {
            let admin = engine.admin();
            admin.latency.set_threshold_ms(values.latency_monitor_threshold);
            admin.tracking.store(values.latency_tracking, Relaxed);
        }
        Effect::SetCluster | Effect::ListenOnPort | Effect::ListenWithTls => {
            if let Some(node) = shared.cluster.get() {
                node.set_settings(values);
            }
        }
        Effect::ReadWhenNeeded
        | Effect::ListenOnAddresses
        | Effect::ConfigureTls
        | Effect::SetPassword
        | Effect::ChangeDir
        | Effect::SwitchLog
        | Effect::SetFsync
        | Effect::SetOomScore => {}
    }
}

fn set_command_logs(engine: &Engine, values: &Values) {
    let admin = engine.admin();
    admin.slow_log.set_slower_than(values.slowlog_log_slower_than);
    admin.slow_log.set_max_len(values.slowlog_max_len);
    admin.large_requests.set_slower_than(values.commandlog_request_larger_than);
    admin.large_requests.set_max_len(values.commandlog_large_request_max_len);
    admin.large_replies.set_slower_than(values.commandlog_reply_larger_than);
    admin.large_replies.set_max_len(values.commandlog_large_reply_max_len);
}

fn store_settings(engine: &Engine, values: &Values) {
    engine.config().store(Settings {
        proto_max_bulk_len: values.proto_max_bulk_len,
        databases: values.databases,
        list_max_listpack_size: values.list_max_listpack_size,
        set_max_intset_entries: values.set_max_intset_entries,
        hash_max_listpack_entries: values.hash_max_listpack_entries,
        hash_max_listpack_value: values.hash_max_listpack_value,
        zset_max_listpack_entries: values.zset_max_listpack_entries,
        zset_max_listpack_value: values.zset_max_listpack_value,
        stream_node_max_bytes: values.stream_node_max_bytes,
        stream_node_max_entries: values.stream_node_max_entries,
        hll_sparse_max_bytes: values.hll_sparse_max_bytes,
        busy_reply_threshold: values.busy_reply_threshold,
        busy_reply_all: values.busy_reply_all,
        script_kill_rollback: values.script_kill_rollback,
        tracking_table_max_keys: values.tracking_table_max_keys,
    });
    engine.config().set_redis_version(&values.redis_version.to_text());
}

/// Returns what a snapshot may hold: 0 means a half of the heap's limit, or of the machine's memory
/// if that is less.
fn snapshot_limit(engine: &Engine, values: &Values) -> u64 {
    match values.snapshot_memory_limit {
        0 => match (engine.keyspace().heap().limit(), machine::memory()) {
            (limit, 0) => limit / 2,
            (limit, memory) => limit.min(memory) / 2,
        },
        bytes => bytes,
    }
}

fn set_eviction(engine: &Engine, values: &Values) {
    let eviction = Eviction {
        maxmemory: values.maxmemory,
        policy: match values.maxmemory_policy {
            EvictionPolicy::VolatileLru => Policy::VolatileLru,
            EvictionPolicy::VolatileLfu => Policy::VolatileLfu,
            EvictionPolicy::VolatileRandom => Policy::VolatileRandom,
            EvictionPolicy::VolatileTtl => Policy::VolatileTtl,
            EvictionPolicy::AllkeysLru => Policy::AllkeysLru,
            EvictionPolicy::AllkeysLfu => Policy::AllkeysLfu,
            EvictionPolicy::AllkeysRandom => Policy::AllkeysRandom,
            EvictionPolicy::NoEviction => Policy::NoEviction,
        },
        samples: values.maxmemory_samples,
        lfu_log_factor: values.lfu_log_factor,
        lfu_decay_time: values.lfu_decay_time,
    };
    engine.keyspace().set_eviction(eviction, engine.clock().unix_ms());
}

/// Makes space for the sockets of `maxclients`; says how many clients there can be.
fn files(wanted: u64) -> u64 {
    machine::want_open_files(wanted.saturating_add(OWN_FILES)).saturating_sub(OWN_FILES).min(wanted)
}

/// Lowers `maxclients` to what the limit of open files is enough for; that limit, where no client
/// could connect.
pub(crate) fn fit_to_open_files(values: &mut Values) -> Result<(), u64> {
    let wanted = values.maxclients;
    let possible = files(wanted);
    if possible == 0 {
        return Err(machine::open_files());
    }
    if possible < wanted {
        tracing::warn!(
            "The limit of open files is enough for {possible} clients: maxclients is set to that"
        );
        values.maxclients = possible;
    }
    Ok(())
}

/// Listens where the values say; `refusal` is what the client is told if that fails.
fn listen_again(shared: &Arc<Shared>, values: &Values, refusal: &str) -> Result<(), String> {
    listen::replace(shared, values).map_err(|error| {
        tracing::warn!("{error}");
        refusal.into()
    })
}

fn allow_clients(wanted: u64) -> Result<(), String> {
    let possible = files(wanted);
    if possible < wanted {
        return Err(format!(
            "The operating system is not able to handle the specified number of clients, try with {possible}"
        ));
    }
    Ok(())
}

fn change_dir(shared: &Shared, dir: &str) -> Result<(), String> {
    let is_there = std::fs::read_dir(dir);
    is_there.map_err(|error| crate::process::text::os_error(&error))?;
    shared.data_dir.move_to(Path::new(dir), shared.log.get().is_some())?;
    std::env::set_current_dir(dir).map_err(|error| crate::process::text::os_error(&error))
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

/// Tells the kernel how likely it is to end this process, which depends on its role.
pub(crate) fn oom_score(shared: &Shared, values: &Values) -> Result<(), String> {
    let is_replica = shared.engine.replication().is_replica();
    shared.oom_score.apply(values, is_replica).map_err(|error| {
        tracing::warn!("Unable to write oom_score_adj: {}", crate::process::text::os_error(&error));
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
fn may_switch_log(shared: &Shared, yes: bool) -> Result<(), String> {
    match (shared.store.backend, yes) {
        (Backend::Aof | Backend::Volatile, _) | (Backend::Pmem, false) => Ok(()),
        (Backend::Pmem, true) => Err("a pool is durable by itself and has no append only file; \
                                      start with --backend aof for a store that has one"
            .into()),
    }
}
