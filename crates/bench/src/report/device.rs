//! The charts of the device study: bandwidth by block size and method, and the cost of an append to
//! a log.

use super::chart::{Chart, Point, Series, Steps};
use crate::results::{AppendCost, DeviceRow, DeviceStudy, Pattern};
use crate::units::Unit;

/// Returns the charts of one medium; `n` distinguishes their names from those of other media.
pub(crate) fn charts(study: &DeviceStudy, n: usize) -> Vec<Chart> {
    let kinds = [
        ("randwrite", "random writes", Pattern::Random, 0),
        ("write", "sequential writes", Pattern::Sequential, 0),
        ("randread", "random reads", Pattern::Random, 100),
        ("randrw65", "65 % reads and 35 % writes at random", Pattern::Random, 65),
    ];
    let threads = study.rows.iter().map(|row| row.threads).min().unwrap_or(1);
    let chart = |(id, what, pattern, reads)| bandwidth(study, n, id, what, pattern, reads, threads);
    let charts = kinds.map(chart).into_iter().chain([appends(study, n)]);
    charts.map(Chart::drawable).filter(|chart| !chart.is_empty()).collect()
}

/// Returns a series for each method, in the order in which they first appear, which determines
/// their colours.
fn series(study: &DeviceStudy, points: impl Fn(&str) -> Vec<Point>) -> Vec<Series> {
    let mut found: Vec<Series> = Vec::new();
    for DeviceRow { method: name, emulated, .. } in &study.rows {
        if !found.iter().any(|series| series.name == *name) {
            let style = found.len();
            let points = points(name);
            found.push(Series { name: name.clone(), style, emulated: *emulated, points });
        }
    }
    found
}

fn bandwidth(
    study: &DeviceStudy,
    n: usize,
    id: &str,
    what: &str,
    pattern: Pattern,
    reads: u32,
    threads: u32,
) -> Chart {
    let fits = |row: &&DeviceRow| {
        row.pattern == pattern
            && row.reads_percent == reads
            && row.threads == threads
            && row.block > 0
    };
    let mut blocks: Vec<u64> = study.rows.iter().filter(fits).map(|row| row.block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    let places: Vec<_> = blocks.iter().map(|b| (*b as f64, Unit::Bytes.show(*b as f64))).collect();
    let points = |method: &str| {
        let rows = study.rows.iter().filter(fits).filter(|row| row.method == method);
        let point = |row: &DeviceRow| Point {
            x: row.block as f64,
            y: row.bytes_per_second,
            low: row.low,
            high: row.high,
            rounds: None,
        };
        rows.filter(|row| row.skipped.is_none()).map(point).collect()
    };
    Chart {
        id: format!("device-{n}-{id}"),
        title: format!("Bandwidth of {what}: {}", study.dir),
        description: format!(
            "{} thread{} on {}; higher is better. Whiskers from the slowest to the fastest slice of the time.",
            threads,
            if threads == 1 { "" } else { "s" },
            study.medium
        ),
        x: Steps { title: "block size".into(), places, log: true, ordered: true },
        y_title: "bandwidth".into(),
        unit: Unit::BytesPerSecond,
        log: true,
        series: series(study, points),
    }
}

fn appends(study: &DeviceStudy, n: usize) -> Chart {
    let costs = study.costs.as_ref().map_or(&[][..], |costs| &costs.appends);
    let mut batches: Vec<u32> = costs.iter().map(|cost| cost.batch).collect();
    batches.sort_unstable();
    batches.dedup();
    let places: Vec<_> =
        batches.iter().map(|batch| (f64::from(*batch), batch.to_string())).collect();
    let points = |method: &str| {
        let point = |cost: &AppendCost| Point {
            x: f64::from(cost.batch),
            y: cost.ns_per_record * 1e-9,
            low: cost.low * 1e-9,
            high: cost.high * 1e-9,
            rounds: None,
        };
        costs.iter().filter(|cost| cost.method == method).map(point).collect()
    };
    Chart {
        id: format!("device-{n}-append"),
        title: format!("Cost of a log append: {}", study.dir),
        description: "Time of each record of 64 bytes, where so many share one fence or sync; lower is better.".into(),
        x: Steps { title: "records to a fence".into(), places, log: true, ordered: true },
        y_title: "time per record".into(),
        unit: Unit::Seconds,
        log: true,
        series: series(study, points),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    #[test]
    fn a_study_has_its_charts_and_skipped_methods_no_line() {
        let sample = sample();
        let charts = charts(&sample.device[0], 0);
        assert!(charts.iter().any(|chart| chart.id == "device-0-randwrite"));
        assert!(charts.iter().any(|chart| chart.id == "device-0-append"));
        for chart in charts {
            assert!(chart.series.iter().all(|series| series.name != "O_DIRECT"), "{}", chart.id);
            assert!(chart.series.iter().all(|series| series.emulated), "{}", chart.id);
        }
        assert!(super::charts(&DeviceStudy::default(), 0).is_empty());
    }
}
