//! The charts of a comparison, made from its results.
//!
//! A system has the same colour and shape in every chart: those of its index in the list of
//! systems.

use super::chart::{Chart, Point, Series, Steps};
use crate::results::summary::Metric;
use crate::results::{Latency, Recovery, Results, Run, Workload, WorkloadKind};
use crate::stats::Summary;
use crate::units::{Unit, amount};

/// A percentile: its name, and how to read it.
type Percentile = (&'static str, fn(&Latency) -> f64);

const PERCENTILES: [Percentile; 6] = [
    ("p50", |l| l.p50),
    ("p90", |l| l.p90),
    ("p99", |l| l.p99),
    ("p99.9", |l| l.p999),
    ("p99.99", |l| l.p9999),
    ("p99.999", |l| l.p99999),
];

/// Returns all charts of servers for which there are figures.
pub(crate) fn charts(results: &Results) -> Vec<Chart> {
    let mut charts: Vec<Chart> =
        BY_WRITES.into_iter().map(|chart| by_writes(results, chart)).collect();
    let mut of_one_client = of_kind(results, WorkloadKind::Latency);
    of_one_client.sort_by_key(|workload| std::cmp::Reverse(workload.writes_percent));
    charts.extend(of_one_client.iter().map(|workload| percentiles(results, workload)));
    let text = "From exec to the first GET that is answered with its value, after kill -9 under load (a system that came \
                back empty has no point)";
    charts.push(by_size(results, "recovery", "Recovery time", text, |row| row.first_get_seconds));
    let text = "From exec until the rate from before the kill is reached again, to 90 %";
    let title = "Time to full throughput";
    charts.push(by_size(results, "full-rate", title, text, |row| row.full_rate_seconds));
    for (kind, id, title) in [
        (WorkloadKind::Small, "small", "Small values"),
        (WorkloadKind::Ycsb, "ycsb", "YCSB mixes"),
        (WorkloadKind::Types, "types", "Data types"),
    ] {
        charts.push(side_by_side(results, kind, id, title));
    }
    charts.into_iter().map(Chart::drawable).filter(|chart| !chart.is_empty()).collect()
}

fn of_kind(results: &Results, kind: WorkloadKind) -> Vec<&Workload> {
    results.workloads.iter().filter(|workload| workload.kind == kind).collect()
}

/// Returns a series for each system, with the points that it has.
fn by_system(
    results: &Results,
    places: &[(f64, String)],
    figure: impl Fn(&str, usize) -> Option<Summary>,
) -> Vec<Series> {
    let series = |(style, system): (usize, &crate::results::System)| {
        let point = |(n, (x, _)): (usize, &(f64, String))| {
            let found = figure(&system.id, n)?;
            let (low, high, rounds) = (found.lowest, found.highest, Some(found.count));
            Some(Point { x: *x, y: found.median, low, high, rounds })
        };
        Series {
            name: system.title.clone(),
            style,
            emulated: system.emulated.is_some(),
            points: places.iter().enumerate().filter_map(point).collect(),
        }
    };
    results.systems.iter().enumerate().map(series).collect()
}

/// Returns the parameters of a kind of load as a text for a caption.
fn parameters(results: &Results, kind: WorkloadKind) -> String {
    of_kind(results, kind).first().map_or_else(String::new, |w| {
        format!(
            "Values of {}, {} client{}, pipeline {}.",
            Unit::Bytes.show(w.value_bytes as f64),
            w.clients,
            if w.clients == 1 { "" } else { "s" },
            w.pipeline
        )
    })
}

/// A chart of a figure over the share of writes.
struct ByWrites {
    id: &'static str,
    title: &'static str,
    /// The description; the parameters of the load are appended.
    description: &'static str,
    kind: WorkloadKind,
    y_title: &'static str,
    unit: Unit,
    log: bool,
    /// Returns the figure of a workload and a system.
    figure: fn(&Results, &str, &str) -> Option<Summary>,
}

const BY_WRITES: [ByWrites; 4] = [
    ByWrites {
        id: "throughput",
        title: "Throughput by share of writes",
        description: "Operations per second of each system; higher is better. Medians of all rounds, whiskers from the \
                      lowest to the highest.",
        kind: WorkloadKind::Throughput,
        y_title: "operations per second",
        unit: Unit::Rate,
        log: false,
        figure: |results, workload, system| results.summary(workload, system, Metric::Rate),
    },
    ByWrites {
        id: "cpu",
        title: "CPU time of the server by share of writes",
        description: "User and system time of the server for each operation of the same runs; lower is better. It tells \
                      more than the rate where the generator is the slower side.",
        kind: WorkloadKind::Throughput,
        y_title: "CPU time per operation",
        unit: Unit::Seconds,
        log: false,
        figure: |results, workload, system| {
            Some(results.summary(workload, system, Metric::ServerCpu)?.times(1e-6))
        },
    },
    ByWrites {
        id: "written",
        title: "Bytes written to the disk by share of writes",
        description: "Bytes in whole pages that the kernel was given for the disk, for each operation of the same runs; \
                      lower is better. A journal's part has what it writes to the pool until nothing is left.",
        kind: WorkloadKind::Throughput,
        y_title: "bytes per operation",
        unit: Unit::Bytes,
        log: false,
        figure: Results::written,
    },
    ByWrites {
        id: "latency",
        title: "Latency by share of writes",
        description: "Mean time to the reply for one client that waits for each; lower is better.",
        kind: WorkloadKind::Latency,
        y_title: "mean latency",
        unit: Unit::Seconds,
        log: true,
        figure: |results, workload, system| {
            Some(results.summary(workload, system, Metric::Mean)?.times(1e-6))
        },
    },
];

fn by_writes(results: &Results, chart: ByWrites) -> Chart {
    let ByWrites { id, title, description, kind, y_title, unit, log, figure } = chart;
    let mut workloads = of_kind(results, kind);
    workloads.sort_by_key(|workload| workload.writes_percent);
    let place = |w: &&Workload| (f64::from(w.writes_percent), format!("{} %", w.writes_percent));
    let places: Vec<_> = workloads.iter().map(place).collect();
    let series = by_system(results, &places, |system, n| figure(results, &workloads[n].id, system));
    Chart {
        id: id.into(),
        title: title.into(),
        description: format!("{description} {}", parameters(results, kind)),
        x: Steps { title: "share of writes".into(), places, log: false, ordered: true },
        y_title: y_title.into(),
        unit,
        log,
        series,
    }
}

fn percentiles(results: &Results, workload: &Workload) -> Chart {
    let numbered = PERCENTILES.iter().enumerate();
    let places: Vec<_> = numbered.map(|(n, (name, _))| (n as f64, (*name).to_owned())).collect();
    let series = by_system(results, &places, |system, n| {
        let of = |run: &Run| PERCENTILES[n].1(&run.latency) * 1e-6;
        Summary::of(&results.runs_of(&workload.id, system).map(of).collect::<Vec<_>>())
    });
    Chart {
        id: format!("percentiles-{}", workload.writes_percent),
        title: format!("Latency percentiles with {} % writes", workload.writes_percent),
        description: "One client that waits for each reply; lower is better. The right end is what one request in a \
                      hundred thousand waits, and is as good as the number of requests: short runs have few so slow."
            .into(),
        x: Steps { title: "share of requests that are faster".into(), places, log: false, ordered: true },
        y_title: "latency".into(),
        unit: Unit::Seconds,
        log: true,
        series,
    }
}

/// Returns a chart of a duration over the size of the data.
fn by_size(
    results: &Results,
    id: &str,
    title: &str,
    description: &str,
    figure: impl Fn(&Recovery) -> Option<f64>,
) -> Chart {
    let sizes = results.recovered_sizes();
    let places: Vec<_> = sizes.iter().map(|size| (*size as f64, amount(*size))).collect();
    let series =
        by_system(results, &places, |system, n| results.restarts(system, sizes[n], &figure));
    Chart {
        id: id.into(),
        title: format!("{title} by size of the data"),
        description: format!("{description}; lower is better."),
        x: Steps { title: "keys and values".into(), places, log: true, ordered: true },
        y_title: title.to_lowercase(),
        unit: Unit::Seconds,
        log: true,
        series,
    }
}

fn side_by_side(results: &Results, kind: WorkloadKind, id: &str, title: &str) -> Chart {
    let workloads = of_kind(results, kind);
    let place = |(n, w): (usize, &&Workload)| (n as f64, w.id.clone());
    let places: Vec<_> = workloads.iter().enumerate().map(place).collect();
    let series = by_system(results, &places, |system, n| {
        results.summary(&workloads[n].id, system, Metric::Rate)
    });
    Chart {
        id: id.into(),
        title: format!("{title}: throughput"),
        description: format!(
            "Operations per second; higher is better. {}",
            parameters(results, kind)
        ),
        x: Steps { title: "load".into(), places, log: false, ordered: false },
        y_title: "operations per second".into(),
        unit: Unit::Rate,
        log: false,
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    #[test]
    fn a_comparison_has_its_charts_and_nothing_has_none() {
        let ids: Vec<String> = charts(&sample()).into_iter().map(|chart| chart.id).collect();
        for expect in ["throughput", "cpu", "latency", "percentiles-100", "recovery", "full-rate"] {
            assert!(ids.iter().any(|id| id == expect), "{expect}: {ids:?}");
        }
        assert!(charts(&Results::default()).is_empty());
    }

    #[test]
    fn a_system_has_one_colour_and_its_label_everywhere() {
        let sample = sample();
        for chart in charts(&sample) {
            for series in chart.series {
                let system = &sample.systems[series.style];
                assert_eq!(
                    (series.name.as_str(), series.emulated),
                    (system.title.as_str(), system.emulated.is_some())
                );
            }
        }
    }

    #[test]
    fn a_server_that_lost_its_data_has_no_point() {
        let recovery = charts(&sample()).into_iter().find(|chart| chart.id == "recovery");
        let recovery = recovery.expect("a chart");
        assert!(recovery.series.iter().all(|series| series.name != "Perdura volatile"));
    }
}
