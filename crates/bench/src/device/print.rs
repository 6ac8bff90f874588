//! A study as tables for a terminal.

use crate::results::{DeviceCosts, DeviceRow, DeviceStudy, Pattern};
use std::fmt::{self, Display, Write};

/// Fewer operations than this say nothing about five nines.
const FIVE_NINES: u64 = 100_000;

/// Shows a study.
pub(crate) struct Tables<'a>(pub(crate) &'a DeviceStudy);

impl Display for Tables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let study = self.0;
        writeln!(f, "{}: {}", study.dir, study.medium)?;
        writeln!(f, "  domain {}, lines written back by {}", study.domain, study.write_back)?;
        writeln!(f, "  {}", study.note)?;
        writeln!(
            f,
            "  a file of {}, {} s for each row; bandwidth with its spread over the slices of a row",
            size(study.size),
            study.seconds
        )?;
        if let Some(costs) = &study.costs {
            show_costs(f, costs)?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "{:22} {:>9} {:>6} {:>3} {:>10} {:>7} {:>10} {:>9} {:>9} {:>9}  durable",
            "method",
            "pattern",
            "block",
            "thr",
            "MB/s",
            "spread",
            "IOPS",
            "mean us",
            "p99 us",
            "p99.999"
        )?;
        study.rows.iter().try_for_each(|row| show_row(f, row))
    }
}

fn show_costs(f: &mut fmt::Formatter<'_>, costs: &DeviceCosts) -> fmt::Result {
    writeln!(
        f,
        "  one fence {:.1} ns, one flush of a line {:.1} ns",
        costs.fence_ns, costs.flush_ns
    )?;
    if let Some(clock) = costs.clock_ns {
        writeln!(
            f,
            "  mean: time of the threads by operations, untimed; percentiles: of operations timed one by one, less the \
             {clock:.0} ns of reading the clock"
        )?;
    }
    for rows in costs.appends.chunk_by(|a, b| a.method == b.method) {
        let mut line = String::new();
        for row in rows {
            write!(line, "  {:>2}: {}", row.batch, nanoseconds(row.ns_per_record))?;
        }
        writeln!(f, "  a log append of 64 B, {:22} records to a fence: {line}", rows[0].method)?;
    }
    Ok(())
}

fn show_row(f: &mut fmt::Formatter<'_>, row: &DeviceRow) -> fmt::Result {
    let what =
        format!("{:22} {:>9} {:>6} {:>3}", row.method, pattern(row), size(row.block), row.threads);
    if let Some(why) = &row.skipped {
        return writeln!(f, "{what}   skipped: {why}");
    }
    let spread = match row.bytes_per_second > 0.0 {
        true => (row.high - row.low) / row.bytes_per_second * 100.0,
        false => 0.0,
    };
    let five_nines = match row.ops >= FIVE_NINES {
        true => format!("{:.2}", row.p99_999_ns as f64 / 1e3),
        false => format!("<{:.0}", row.max_ns as f64 / 1e3),
    };
    let durable = match (row.durable, row.emulated) {
        (true, _) => "yes",
        (false, true) => "emulated",
        (false, false) => "no",
    };
    writeln!(
        f,
        "{what} {:>10.1} {spread:>6.0}% {:>10.0} {:>9.2} {:>9.2} {five_nines:>9}  {durable}",
        row.bytes_per_second / 1e6,
        row.iops,
        row.mean_ns / 1e3,
        row.p99_ns as f64 / 1e3,
    )
}

/// As fio names it.
pub(crate) fn pattern(row: &DeviceRow) -> String {
    let random = match row.pattern {
        Pattern::Composite => return "composite".into(),
        Pattern::Random => "rand",
        Pattern::Sequential => "",
    };
    match row.reads_percent {
        100 => format!("{random}read"),
        0 => format!("{random}write"),
        reads => format!("{random}rw{reads}"),
    }
}

/// Returns a number of bytes, with the largest binary unit that leaves no rest.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0 => "-".into(),
        n if n.is_multiple_of(1 << 30) => format!("{}G", n >> 30),
        n if n.is_multiple_of(1 << 20) => format!("{}M", n >> 20),
        n if n.is_multiple_of(1 << 10) => format!("{}k", n >> 10),
        n => format!("{n}"),
    }
}

fn nanoseconds(value: f64) -> String {
    if value < 10_000.0 { format!("{value:.0} ns") } else { format!("{:.0} us", value / 1e3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let check = |bytes, expect: &str| assert_eq!(size(bytes), expect);
        check(512, "512");
        check(8192, "8k");
        check(256 << 20, "256M");
        check(3 << 30, "3G");
        check(0, "-");
    }
}
