//! `perdura-bench compare` as a user runs it: complete small comparisons, the effects of its
//! options, and the ways in which a comparison fails.
//!
//! Each test has a directory of its own, so that anything left behind belongs to its own run.

#![forbid(unsafe_code)]

mod faults;
mod full_disk;
mod kit;
mod options;

use kit::Comparison;
use std::fs;

#[test]
fn a_small_comparison_is_whole() {
    let mut comparison = Comparison::new(
        "--systems perdura-pmem,perdura-aof-always,redis-always \
         --workloads throughput-100,latency-30,ycsb-f --seconds 0.2 --recovery 1mb --quick",
    );
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
fn types_scripts_and_strings_are_loads_like_others() {
    let mut comparison = Comparison::new(
        "--systems perdura-volatile,perdura-journal-everysec,redis-off --workloads \
         strings-set-32-16,types,type-zadd,type-zrank,type-lpush,script-get,script-multi \
         --seconds 0.2 --recovery none",
    );
    let text = comparison.check(0);
    let results = comparison.results();
    assert_eq!(results.runs.len(), 7 * 3, "{text}");
    assert!(results.runs.iter().all(|run| run.operations > 0 && run.errors == 0), "{text}");
    for (load, has_data) in [("strings-set-32-16", true), ("type-zrank", true), ("types", false)] {
        for run in results.runs_of(load, "perdura-volatile") {
            assert_eq!(run.data_bytes.is_some_and(|bytes| bytes > 200 * 32), has_data, "{run:?}");
        }
    }
    let page = fs::read_to_string(comparison.out().join("report.html")).expect("the report");
    assert!(page.contains("Memory of a key"), "{text}");
}

#[test]
fn a_server_that_is_kept_shows_what_grows() {
    let arguments = "--systems perdura-volatile --workloads types --same-server --seconds 0.2";
    let mut comparison = Comparison::with_rounds("3", &format!("{arguments} --recovery none"));
    let text = comparison.check(0);
    let used: Vec<_> = comparison.results().runs.iter().map(|run| run.used_bytes).collect();
    assert!(used.len() == 3 && used.iter().all(Option::is_some), "{text}");
    let page = fs::read_to_string(comparison.out().join("report.html")).expect("the report");
    assert!(page.contains("Round by round"), "{text}");
}

#[test]
fn a_large_value_is_recovered_too() {
    for of in ["hash", "sorted-set"] {
        let mut comparison = Comparison::new(&format!(
            "--systems perdura-pmem,perdura-aof-always,redis-always --workloads none --seconds 0.2 \
             --recovery 200kb --recovery-of {of} --recovery-value 24"
        ));
        let text = comparison.check(0);
        for row in &comparison.results().recovery {
            assert!(row.first_get_seconds.is_some() && row.keys == 5120, "{row:?}");
            assert_eq!((row.keys_checked, row.keys_lost, row.keys_wrong), (5120, 0, 0), "{text}");
        }
    }
}

#[test]
fn durable_writes_have_their_rows_of_the_journal_and_its_peers() {
    let mut comparison = Comparison::new(
        "--systems perdura-journal-everysec,perdura-volatile,redis-everysec,other-always \
         --workloads durable --seconds 0.2 --recovery none",
    )
    .peer("other", r#"exec redis-server "$@""#);
    let text = comparison.check(0);
    let results = comparison.results();
    // Three of the four systems keep their writes on a disk.
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
