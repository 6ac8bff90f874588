//! `perdura-bench compare` as a person runs it: whole small comparisons, what its options lead to,
//! and the ways in which one goes wrong.
//!
//! Each test has a directory of its own, so that what a run leaves can be told from what others
//! leave.

#![forbid(unsafe_code)]

mod faults;
mod full_disk;
mod kit;
mod options;

use kit::Comparison;
use std::fs;
use std::time::{Duration, Instant};

#[test]
fn a_small_comparison_is_whole() {
    let mut comparison = Comparison::new(&[
        "--systems",
        "perdura-pmem,perdura-aof-always,redis-always",
        "--workloads",
        "throughput-100,latency-30,ycsb-f",
        "--seconds",
        "0.2",
        "--recovery",
        "1mb",
        "--quick",
    ]);
    let text = comparison.check(0);
    let results = comparison.results();
    assert_eq!(results.partial, None, "{text}");
    assert_eq!(results.runs.len(), 9, "{text}");
    for run in &results.runs {
        assert!(run.operations > 0 && run.errors == 0, "{run:?}");
        assert!(run.latency.p50 > 0.0 && run.latency.p50 <= run.latency.p99, "{run:?}");
        assert!(run.writes.is_some(), "{run:?}");
    }
    assert_eq!(results.recovery.len(), 3, "{text}");
    for row in &results.recovery {
        assert!(row.first_get_seconds.is_some() && row.rate_before > 0.0, "{row:?}");
        assert!(row.acknowledged > row.keys, "the kill came under load: {row:?}");
        assert_eq!((row.keys_checked, row.keys_lost, row.keys_wrong), (row.keys, 0, 0), "{row:?}");
    }
    let pool = &results.systems[0];
    assert_eq!((pool.domain.as_deref(), pool.emulated.is_some()), (Some("clwb"), true));
    assert!(results.machine.versions.iter().any(|v| v.text.contains("v=")), "{text}");
    assert!(text.contains("write throughput, PMEM to AOF always"), "{text}");
    assert!(comparison.left().is_empty(), "{:?}", comparison.left());
    let page = fs::read_to_string(comparison.out().join("report.html")).expect("the report");
    assert!(page.contains("<svg") && page.contains("Perdura PMEM"), "{text}");
}

#[test]
fn a_limit_of_time_costs_rounds_and_no_system() {
    let limit = ["--workloads", "small-0,latency-100", "--seconds", "0.2", "--time-limit", "25s"];
    let systems = ["--systems", "perdura-volatile,redis-off", "--recovery", "1mb"];
    let mut comparison = Comparison::with_rounds("1000", &[&limit[..], &systems].concat());
    let began = Instant::now();
    let text = comparison.check(0);
    assert!(began.elapsed() < Duration::from_secs(90), "{text}");
    let results = comparison.results();
    let rounds = |workload: &str, system: &str| results.runs_of(workload, system).count();
    let found = rounds("small-0", "perdura-volatile");
    assert!((1..1000).contains(&found), "{text}");
    for workload in ["small-0", "latency-100"] {
        for system in ["perdura-volatile", "redis-off"] {
            assert_eq!(rounds(workload, system), found, "{workload} {system}: {text}");
        }
    }
    assert_eq!(results.recovery.len(), 2, "everything has its turn: {text}");
    let cut = format!("rounds {} to 1000", found + 1);
    assert!(results.skipped.iter().any(|skipped| skipped.what == cut), "{cut}: {text}");
    let page = fs::read_to_string(comparison.out().join("report.html")).expect("the report");
    assert!(page.contains(&format!("<p>{found} of 1000 planned rounds")), "the page says it");
}

#[test]
fn durable_writes_have_their_rows_of_the_journal_and_its_peers() {
    let systems = "perdura-journal-everysec,perdura-volatile,redis-everysec,other-always";
    let mut comparison = Comparison::new(&[
        "--systems",
        systems,
        "--workloads",
        "durable",
        "--seconds",
        "0.2",
        "--recovery",
        "none",
    ])
    .peer("other", r#"exec redis-server "$@""#);
    let text = comparison.check(0);
    let results = comparison.results();
    // Three of the four keep their writes on a disk.
    assert_eq!(results.runs.len(), 7 * 3, "{text}");
    for run in &results.runs {
        assert!(
            run.operations > 0 && run.errors == 0 && run.system != "perdura-volatile",
            "{run:?}"
        );
        assert!(run.written().is_some_and(|bytes| bytes > 0.0), "{run:?}");
    }
    assert_eq!(text.matches("| XADD, 32 bytes, pipeline 16").count(), 3, "{text}");
    let page = fs::read_to_string(comparison.out().join("report.html")).expect("the report");
    assert!(page.contains("<td>HSET, 32 bytes, pipeline 16</td>"), "{text}");
}
