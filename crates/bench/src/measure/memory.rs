//! Memory per key: what the server counts itself, less what it counts when empty, and what the
//! process and its pool take of the machine.

use super::Measurement;
use super::bench::{Bench, fill, used_memory};
use super::common::{Common, Numbers, numbers};
use super::print::Raw;
use super::systems::System;
use crate::server::Failure;
use crate::table::{Table, cells};

/// Bytes of a value.
const VALUE: usize = 32;

/// Bytes of heap, and of the machine, per key of 16 bytes with a value of 32.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// Numbers of keys, separated by commas.
    #[arg(long, value_name = "NUMBERS", default_value = "1000000,10000000", value_parser = numbers)]
    keys: Numbers,
}

impl Measurement for Options {
    const SYSTEMS: &[&str] = &["perdura volatile", "perdura pmem process", "redis none"];

    fn common(&self) -> &Common {
        &self.common
    }

    fn measure(&self, bench: &Bench<'_>, systems: &[&'static System]) -> Result<(), Failure> {
        let head = ["system", "keys", "used_per_key", "machine_per_key"];
        let mut raw = self.common.raw("memory", &head)?;
        let mut counts = self.keys.0.clone();
        counts.sort_unstable();
        let of_count = |n| [format!("{n} keys: heap"), "of the machine".into()];
        let head = cells![""].into_iter().chain(counts.iter().flat_map(of_count));
        let mut table = Table::new(head);
        for system in systems {
            table.add(of(bench, system, &counts, &mut raw)?);
        }
        println!("\n## Bytes per key of 16 bytes with a value of {VALUE}\n");
        println!("{}", table.markdown());
        raw.finish();
        Ok(())
    }
}

/// Returns one system with growing numbers of keys: its row.
fn of(
    bench: &Bench<'_>,
    system: &System,
    counts: &[u64],
    raw: &mut Raw,
) -> Result<Vec<String>, Failure> {
    let server = bench.start(system, &[], &[])?;
    // Of the process what no file holds, and the files in its directory, a pool's among them.
    let of_the_machine = || server.anonymous() + server.stored();
    let (empty, before) = (used_memory(&server)?, of_the_machine());
    let (mut row, mut filled) = (cells![system.name], 0);
    for keys in counts {
        eprintln!("{}, {keys} keys", system.name);
        fill(&server, filled, keys - filled, VALUE)?;
        filled = *keys;
        let each = |now: u64, before: u64| now.saturating_sub(before) as f64 / *keys as f64;
        let used = each(used_memory(&server)?, empty);
        let whole = each(of_the_machine(), before);
        raw.add(cells![system.name, keys, format!("{used:.2}"), format!("{whole:.2}")])?;
        row.extend([format!("{used:.1}"), format!("{whole:.1}")]);
        bench.go_on()?;
    }
    Ok(row)
}
