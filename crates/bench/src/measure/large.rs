//! Values of a million elements: how fast they are asked and changed, and what they take of memory.

use super::bench::{Bench, stable_memory, used_memory};
use super::print::{Raw, median, ratios};
use super::redis_benchmark::{self, Load};
use super::systems::System;
use super::types::{CLIENTS, Options, PAIRS, Samples};
use crate::server::{Failure, command};
use crate::table::{Table, cells};

/// A member that redis-benchmark chooses at random.
const MEMBER: &str = "m:__rand_int__";

/// A large value.
struct Value {
    name: &'static str,
    /// The command that adds an element.
    add: fn(u64) -> String,
    /// The requests that are timed, by name.
    tests: &'static [(&'static str, &'static [&'static str])],
}

const VALUES: [Value; 5] = [
    Value {
        name: "sorted set",
        add: |n| format!("ZADD big {} m:{n:012}", n * 7919 % 1_000_003),
        tests: &[
            ("ZADD", &["ZADD", "big", "__rand_int__", MEMBER]),
            ("ZRANK", &["ZRANK", "big", MEMBER]),
            ("ZSCORE", &["ZSCORE", "big", MEMBER]),
            (
                "ZRANGE of 10",
                &["ZRANGE", "big", "__rand_int__", "+inf", "BYSCORE", "LIMIT", "0", "10"],
            ),
        ],
    },
    Value {
        name: "hash",
        add: |n| format!("HSET big m:{n:012} value:{n:012}"),
        tests: &[
            ("HSET", &["HSET", "big", MEMBER, "value:__rand_int__"]),
            ("HGET", &["HGET", "big", MEMBER]),
        ],
    },
    Value {
        name: "set",
        add: |n| format!("SADD big m:{n:012}"),
        tests: &[("SISMEMBER", &["SISMEMBER", "big", MEMBER])],
    },
    Value { name: "list", add: |n| format!("RPUSH big value:{n:012}"), tests: &[] },
    Value {
        name: "stream",
        add: |n| format!("XADD big {}-1 field value:{n:012}", n + 1),
        tests: &[],
    },
];

/// Rates at each pipeline, and bytes per element.
pub(super) fn measure(
    options: &Options,
    bench: &Bench<'_>,
    systems: &[&System],
    raw: &mut Raw,
) -> Result<(), Failure> {
    let pipelines = &options.pipelines.0;
    let mut rates = vec![Samples::new(systems.len()); pipelines.len()];
    let mut memory = vec![vec![Vec::new(); systems.len()]; VALUES.len()];
    bench.take_turns(systems, options.rounds, |at, server| {
        let system = systems[at].name;
        for (value, memory) in VALUES.iter().zip(&mut memory) {
            let empty = stable_memory(server, bench)?;
            server.send(options.members, |n| command(&(value.add)(n)))?;
            let used = used_memory(server)?.saturating_sub(empty) as f64 / options.members as f64;
            memory[at].push(used);
            raw.add(cells!["memory", system, value.name, 0, used, 0])?;
            for (pipeline, samples) in pipelines.iter().zip(&mut rates) {
                for (test, what) in value.tests {
                    let (requests, keys) = (options.requests(*pipeline), options.members);
                    let load = Load { requests, clients: CLIENTS, pipeline: *pipeline, keys };
                    let core = bench.client_core;
                    let (rows, cpu) = redis_benchmark::run(bench, server, core, load, what)?;
                    let rate = rows[rows.len() - 1].rate;
                    raw.add(cells!["large", system, test, pipeline, rate, cpu])?;
                    samples.add(test, at, rate, cpu);
                }
            }
            server.ask::<()>("DEL big")?;
            bench.go_on()?;
        }
        Ok(())
    })?;
    for (pipeline, samples) in pipelines.iter().zip(&rates) {
        let requests = options.requests(*pipeline);
        let title = format!(
            "{} elements, pipeline {pipeline}, {CLIENTS} clients, {requests} requests a run",
            options.members
        );
        samples.print(&title, systems);
    }
    print_memory(options.members, systems, &memory);
    Ok(())
}

fn print_memory(members: u64, systems: &[&System], memory: &[Vec<Vec<f64>>]) {
    println!("\n## Bytes of memory per element, {members} elements\n");
    let mut table = Table::new([""].into_iter().chain(VALUES.map(|value| value.name)));
    for (at, system) in systems.iter().enumerate() {
        let bytes = memory.iter().map(|values| format!("{:.1}", median(&values[at])));
        table.add(cells![system.name].into_iter().chain(bytes).collect());
    }
    println!("{}", table.markdown());
    for (value, memory) in VALUES.iter().zip(memory) {
        ratios(&format!("bytes per element of a {}", value.name), &PAIRS, systems, memory);
    }
}
