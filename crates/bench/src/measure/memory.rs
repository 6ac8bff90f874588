//! Memory per key: what the server counts itself, less what it counts when empty, and what the
//! process and its pool take of the machine.

use super::bench::Bench;
use super::common::{Common, Numbers, numbers};
use super::print::{Raw, cells, table};
use super::systems::System;
use crate::Verdict;
use crate::compare::server::Failure;
use std::sync::atomic::AtomicBool;

const DEFAULT: [&str; 3] = ["perdura volatile", "perdura pmem process", "redis none"];

/// Bytes of a value.
const VALUE: usize = 32;

/// Bytes of heap, and of the machine, per key of 16 bytes with a value of 32.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Numbers of keys, separated by commas.
    #[arg(long, value_name = "NUMBERS", default_value = "1000000,10000000", value_parser = numbers)]
    keys: Numbers,
}

/// Measures and prints.
pub fn run(options: &Options, cancel: &AtomicBool) -> Verdict {
    match options.common.chosen(&DEFAULT) {
        Ok(systems) => super::verdict(measure(options, &systems, cancel)),
        Err(error) => {
            eprintln!("perdura-bench: {error}");
            Verdict::Refused
        }
    }
}

fn measure(options: &Options, systems: &[&System], cancel: &AtomicBool) -> Result<(), Failure> {
    let bench = options.common.bench(cancel)?;
    let head = ["system", "keys", "used_per_key", "machine_per_key"];
    let mut raw = options.common.raw("memory", &head)?;
    let mut counts = options.keys.0.clone();
    counts.sort_unstable();
    let mut rows = Vec::new();
    for system in systems {
        rows.push(of(&bench, system, &counts, &mut raw)?);
    }
    let mut head = cells![""];
    head.extend(counts.iter().flat_map(|n| [format!("{n} keys: heap"), "of the machine".into()]));
    println!("\n## Bytes per key of 16 bytes with a value of {VALUE}\n");
    println!("{}", table(head, &rows));
    raw.finish();
    Ok(())
}

/// Returns one system with growing numbers of keys: its row.
fn of(
    bench: &Bench<'_>,
    system: &System,
    counts: &[u64],
    raw: &mut Raw,
) -> Result<Vec<String>, Failure> {
    let host = bench.start(system, &[])?;
    let (empty, before) = (host.used_memory()?, host.resident());
    let (mut row, mut filled) = (cells![system.name], 0);
    for keys in counts {
        eprintln!("{}, {keys} keys", system.name);
        host.fill(filled, keys - filled, VALUE)?;
        filled = *keys;
        let each = |now: u64, before: u64| now.saturating_sub(before) as f64 / *keys as f64;
        let (used, whole) = (each(host.used_memory()?, empty), each(host.resident(), before));
        raw.add(cells![system.name, keys, format!("{used:.2}"), format!("{whole:.2}")])?;
        row.extend([format!("{used:.1}"), format!("{whole:.1}")]);
        bench.go_on()?;
    }
    Ok(row)
}
