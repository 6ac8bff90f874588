//! Values of a million elements: how fast they are asked and changed, and what they take of memory.

use super::bench::Bench;
use super::print::{Raw, cells, median, ratios, table};
use super::redis_benchmark::{self, Load};
use super::systems::System;
use super::types::{CLIENTS, Options, PAIRS, Samples};
use crate::compare::server::Failure;
use redis::Cmd;

/// A member that redis-benchmark chooses at random.
const MEMBER: &str = "m:__rand_int__";

/// A large value.
struct Value {
    name: &'static str,
    /// The command that adds an element.
    add: fn(u64) -> Cmd,
    /// The requests that are timed, by name.
    tests: &'static [(&'static str, &'static [&'static str])],
}

fn added(command: &str, words: &[&str]) -> Cmd {
    let mut made = redis::cmd(command);
    made.arg("big").arg(words);
    made
}

const VALUES: [Value; 5] = [
    Value {
        name: "sorted set",
        add: |n| added("ZADD", &[&(n * 7919 % 1_000_003).to_string(), &format!("m:{n:012}")]),
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
        add: |n| added("HSET", &[&format!("m:{n:012}"), &format!("value:{n:012}")]),
        tests: &[
            ("HSET", &["HSET", "big", MEMBER, "value:__rand_int__"]),
            ("HGET", &["HGET", "big", MEMBER]),
        ],
    },
    Value {
        name: "set",
        add: |n| added("SADD", &[&format!("m:{n:012}")]),
        tests: &[("SISMEMBER", &["SISMEMBER", "big", MEMBER])],
    },
    Value { name: "list", add: |n| added("RPUSH", &[&format!("value:{n:012}")]), tests: &[] },
    Value {
        name: "stream",
        add: |n| added("XADD", &[&format!("{}-1", n + 1), "field", &format!("value:{n:012}")]),
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
    bench.take_turns(systems, options.rounds, |at, host| {
        let system = systems[at].name;
        for (value, memory) in VALUES.iter().zip(&mut memory) {
            let empty = host.stable_memory(bench)?;
            host.send(options.members, value.add)?;
            let used = host.used_memory()?.saturating_sub(empty) as f64 / options.members as f64;
            memory[at].push(used);
            raw.add(cells!["memory", system, value.name, 0, used, 0])?;
            for (pipeline, samples) in pipelines.iter().zip(&mut rates) {
                for (test, what) in value.tests {
                    let (requests, keys) = (options.requests(*pipeline), options.members);
                    let load = Load { requests, clients: CLIENTS, pipeline: *pipeline, keys };
                    let core = bench.client_core;
                    let (rows, cpu) = redis_benchmark::run(bench, host, core, load, what)?;
                    let rate = rows[rows.len() - 1].rate;
                    raw.add(cells!["large", system, test, pipeline, rate, cpu])?;
                    samples.add(test, at, rate, cpu);
                }
            }
            host.ask::<()>("DEL big")?;
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
    let head: Vec<String> = cells![""].into_iter().chain(VALUES.map(|v| v.name.into())).collect();
    let row = |(at, system): (usize, &&System)| {
        let bytes = memory.iter().map(|values| format!("{:.1}", median(&values[at])));
        cells![system.name].into_iter().chain(bytes).collect()
    };
    let rows: Vec<Vec<String>> = systems.iter().enumerate().map(row).collect();
    println!("{}", table(head, &rows));
    for (value, memory) in VALUES.iter().zip(memory) {
        ratios(&format!("bytes per element of a {}", value.name), &PAIRS, systems, memory);
    }
}
