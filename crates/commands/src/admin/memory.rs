//! MEMORY: how much memory the data takes, and returning what it no longer takes. A key's usage is
//! its entry and value in the heap, slots and headers included, as the keyspace counts it.

use std::sync::atomic::Ordering::Relaxed;

use engine::call::{Call, Run};
use engine::failure::{Done, SYNTAX};
use engine::spec::*;
use keyspace::{Db, Txn};

use super::help;
use super::replication_facts::ReplicaMemory;

pub(crate) const MEMORY: CommandSpec = CommandSpec {
    name: "memory",
    summary: "A container for memory diagnostics commands",
    complexity: "Depends on subcommand.",
    since: "4.0.0",
    group: Group::Server,
    arity: -2,
    subs: &[
        &MEMORY_DOCTOR,
        &MEMORY_HELP,
        &MEMORY_MALLOC_STATS,
        &MEMORY_PURGE,
        &MEMORY_STATS,
        &MEMORY_USAGE,
    ],
    ..CommandSpec::EMPTY
};

const MEMORY_DOCTOR: CommandSpec = CommandSpec {
    name: "doctor",
    summary: "Outputs memory problems report",
    complexity: "O(1)",
    since: "4.0.0",
    group: Group::Server,
    arity: 2,
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    run: Run::Session(memory_doctor),
    ..CommandSpec::EMPTY
};

const MEMORY_HELP: CommandSpec = CommandSpec {
    name: "help",
    summary: "Show helpful text about the different subcommands",
    complexity: "O(1)",
    since: "4.0.0",
    group: Group::Server,
    arity: 2,
    flags: LOADING | STALE,
    run: Run::Session(memory_help),
    ..CommandSpec::EMPTY
};

const MEMORY_MALLOC_STATS: CommandSpec = CommandSpec {
    name: "malloc-stats",
    summary: "Show allocator internal stats",
    complexity: "Depends on how much memory is allocated, could be slow",
    since: "4.0.0",
    group: Group::Server,
    arity: 2,
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    run: Run::Session(memory_malloc_stats),
    ..CommandSpec::EMPTY
};

const MEMORY_PURGE: CommandSpec = CommandSpec {
    name: "purge",
    summary: "Ask the allocator to release memory",
    complexity: "Depends on how much memory is allocated, could be slow",
    since: "4.0.0",
    group: Group::Server,
    arity: 2,
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    traits: TAKES_LONG | OWN_THREAD,
    run: Run::Session(memory_purge),
    ..CommandSpec::EMPTY
};

const MEMORY_STATS: CommandSpec = CommandSpec {
    name: "stats",
    summary: "Show memory usage details",
    complexity: "O(1)",
    since: "4.0.0",
    group: Group::Server,
    arity: 2,
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    run: Run::All(memory_stats),
    ..CommandSpec::EMPTY
};

const MEMORY_USAGE: CommandSpec = CommandSpec {
    name: "usage",
    summary: "Estimate the memory usage of a key",
    complexity: "O(N) where N is the number of samples.",
    since: "4.0.0",
    group: Group::Server,
    arity: -3,
    flags: READONLY,
    keys: &[KeySpec::one(2, KEY_RO)],
    args: &[key("key", 0), integer("count").token("SAMPLES").optional()],
    run: Run::Keys(memory_usage),
    ..CommandSpec::EMPTY
};

fn memory_usage(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    match call.args.len() {
        3 => {}
        5 if call.is(3, "samples") => {
            if call.int(4)? < 0 {
                return Err(SYNTAX.into());
            }
        }
        _ => return Err(SYNTAX.into()),
    }
    let key = call.key(0);
    match txn.peek(call.db(), &key) {
        Some(entry) => call.out.integer(txn.properties(&entry).memory() as i64),
        None => call.out.null(),
    }
    Ok(())
}

fn memory_stats(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let engine = call.engine;
    let facts = engine.host().map(|host| host.facts()).unwrap_or_default();
    let (data, other) = (engine.keyspace().heap().used(), engine.keyspace().other_memory());
    let used = data + other;
    let peak = facts.peak_memory.max(used);
    let keys: u64 = Db::all().map(|db| txn.database(db).count()).sum();
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let pool = facts.persistence.pool_space;
    let count = |n: u64| Figure::Count(n as i64);
    let (clients, replicas) = (engine.clients(), ReplicaMemory::of(engine));
    let rows: Vec<(&str, Figure)> = vec![
        ("peak.allocated", count(peak)),
        ("total.allocated", count(used)),
        ("startup.allocated", count(engine.admin().startup_memory.load(Relaxed))),
        ("replication.backlog", count(replicas.backlog)),
        ("clients.slaves", count(replicas.clients)),
        (
            "clients.normal",
            count(clients.memory().saturating_sub(clients.memory_of_replicas()) as u64),
        ),
        ("cluster.links", count(engine.cluster().link_memory())),
        ("aof.buffer", count(facts.persistence.aof.as_ref().map_or(0, |aof| aof.buffered))),
        ("lua.caches", count(engine.scripts().size().1 as u64)),
        ("functions.caches", count(engine.libraries().bytes() as u64)),
        ("overhead.total", count(other)),
        ("keys.count", count(keys)),
        ("keys.bytes-per-key", count(data.checked_div(keys).unwrap_or(0))),
        ("dataset.bytes", count(data)),
        ("dataset.percentage", Figure::Ratio(share(data.max(1), used) * 100.0)),
        ("peak.percentage", Figure::Ratio(share(used, peak) * 100.0)),
        ("allocator.allocated", count(data)),
        ("allocator.active", count(pool)),
        ("allocator.resident", count(facts.rss)),
        ("allocator-fragmentation.ratio", Figure::Ratio(share(pool, data))),
        ("allocator-fragmentation.bytes", count(pool.saturating_sub(data))),
        ("allocator-rss.ratio", Figure::Ratio(share(facts.rss, pool))),
        ("allocator-rss.bytes", Figure::Count(facts.rss as i64 - pool as i64)),
        ("rss-overhead.ratio", Figure::Ratio(1.0)),
        ("rss-overhead.bytes", count(0)),
        ("fragmentation", Figure::Ratio(share(facts.rss, used))),
        ("fragmentation.bytes", Figure::Count(facts.rss as i64 - used as i64)),
    ];
    call.out.map(rows.len());
    for (name, figure) in rows {
        call.out.bulk(name);
        match figure {
            Figure::Count(n) => call.out.integer(n),
            Figure::Ratio(r) => call.out.double(r),
        }
    }
    Ok(())
}

enum Figure {
    Count(i64),
    Ratio(f64),
}

fn memory_doctor(call: &mut Call<'_>) -> Done {
    const LITTLE: u64 = 5 << 20;
    let heap = call.engine.keyspace().heap();
    let report = match heap.used() {
        used if used < LITTLE => {
            "Hi Sam, this instance is empty or is using very little memory, my issues detector can't be used in these conditions. Please, leave for your mission on Earth and fill it with some data. The new Sam and I will be back to our programming as soon as I finished rebooting.\n"
        }
        used if used > heap.limit() / 10 * 9 => {
            "Sam, I detected a few issues in this Redis instance memory implants:\n\n * Nearly full: more than nine tenths of the limit of the heap are in use. Writes will be refused when it is full, unless a maxmemory-policy makes room. Raise --pool-size, or maxmemory with a policy.\n\nI'm here to keep you safe, Sam. I want to help you.\n"
        }
        _ => {
            "Hi Sam, I can't find any memory issue in your instance. I can only account for what occurs on this base.\n"
        }
    };
    call.out.verbatim(*b"txt", report);
    Ok(())
}

fn memory_malloc_stats(call: &mut Call<'_>) -> Done {
    let heap = call.engine.keyspace().heap();
    let text = format!(
        "heap: {} bytes used of {} at most, in {} shards\n",
        heap.used(),
        heap.limit(),
        heap.shards()
    );
    call.out.verbatim(*b"txt", text);
    Ok(())
}

/// Leaves the purge to another thread: it may take long, and a transaction holds shards.
fn memory_purge(call: &mut Call<'_>) -> Done {
    call.engine.keyspace().heap().ask_purge();
    call.out.ok();
    Ok(())
}

fn memory_help(call: &mut Call<'_>) -> Done {
    help(
        call,
        &[
            "DOCTOR",
            "    Return memory problems reports.",
            "MALLOC-STATS",
            "    Return internal statistics report from the memory allocator.",
            "PURGE",
            "    Attempt to purge dirty pages for reclamation by the allocator.",
            "STATS",
            "    Return information about the memory usage of the server.",
            "USAGE <key> [SAMPLES <count>]",
            "    Return memory in bytes used by <key> and its value. Nested values are",
            "    sampled up to <count> times (default: 5, 0 means sample all).",
        ],
    )
}
