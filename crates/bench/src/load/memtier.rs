//! What memtier_benchmark measured, as an [`Outcome`]: from the JSON that it writes and the errors
//! that it prints.
//!
//! Its latencies are whole histograms, in microseconds, so percentiles are exact; only of single
//! seconds it keeps three percentiles and no more. It counts a reply that is an error as an
//! operation and says so on standard error alone: errors are taken from there, and the operations
//! are left as they are, since nothing tells which class they belong to.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::outcome::{Class, Kind, Outcome, Second};
use crate::histogram::{Histogram, Latency};

/// Its histograms count microseconds.
const NANOS_PER_MICRO: u64 = 1000;

/// Its other figures are milliseconds.
const MICROS_PER_MILLI: f64 = 1e3;

/// Reads the text of `--json-out-file`, and what was printed to standard error.
///
/// # Errors
/// What is missing: then this is no such file, or one of several runs.
pub fn outcome(json: &str, printed: &str) -> Result<Outcome, String> {
    let whole: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let stats = whole["ALL STATS"].as_object();
    let stats = stats.ok_or("it has no \"ALL STATS\"")?;
    let runtime = &stats.get("Runtime").ok_or("it has no \"Runtime\"")?;
    let millis = |name: &str| runtime[name].as_f64().ok_or(format!("it has no {name:?}"));
    let seconds = millis("Total duration")? / 1e3;
    let mut outcome = Outcome { seconds, began: millis("Start time")? / 1e3, ..Outcome::default() };
    for (name, measured) in stats {
        match measured.as_object() {
            Some(measured) if name == "Totals" => {
                outcome.totals = class("Totals", Kind::Other, measured, seconds);
            }
            Some(measured) if measured.get("Count").and_then(Value::as_u64) > Some(0) => {
                let name = singular(name);
                let kind = Kind::of(&name, name == "SET");
                outcome.classes.push(class(&name, kind, measured, seconds));
            }
            _ => {}
        }
    }
    // Writes first, whatever the order in the file.
    outcome.classes.sort_by_key(|class| class.kind as u8);
    outcome.errors = errors(printed);
    Ok(outcome)
}

/// `Sets` is the class `SET`.
fn singular(name: &str) -> String {
    name.strip_suffix('s').unwrap_or(name).to_uppercase()
}

fn class(name: &str, kind: Kind, measured: &Map<String, Value>, seconds: f64) -> Class {
    let number = |name: &str| measured.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    let all = |name: &str| (number(name) * seconds).round() as u64;
    let bytes = |name: &str| (number(name) * 1024.0 * seconds).round() as u64;
    let mut class = Class::new(name, kind);
    class.operations = number("Count") as u64;
    (class.hits, class.misses) = (all("Hits/sec"), all("Misses/sec"));
    (class.sent, class.received) = (bytes("KB/sec TX"), bytes("KB/sec RX"));
    let latencies = measured.get("Percentile Latencies");
    let text =
        latencies.map(|latencies| &latencies["Histogram log format"]["Compressed Histogram"]);
    let text = text.and_then(Value::as_str);
    let histogram = text.and_then(|text| Histogram::decode(text, NANOS_PER_MICRO));
    class.histogram = histogram.unwrap_or_default();
    class.finish(seconds);
    // Its histograms have two digits only; these three figures it states apart. Of the totals it
    // states no mean.
    let stated = |name: &str, figure: f64| match number(name) * MICROS_PER_MILLI {
        0.0 => figure,
        stated => stated,
    };
    class.latency.mean = stated("Average Latency", class.latency.mean);
    class.latency.min = stated("Min Latency", class.latency.min);
    class.latency.max = stated("Max Latency", class.latency.max);
    class.series = series(measured.get("Time-Serie").unwrap_or(&Value::Null));
    class
}

fn series(seconds: &Value) -> Vec<Second> {
    let mut series = Vec::new();
    while let Some(second) = seconds.get(series.len().to_string()) {
        let number = |name: &str| second[name].as_u64().unwrap_or(0);
        let micros = |name: &str| second[name].as_f64().unwrap_or(0.0) * MICROS_PER_MILLI;
        series.push(Second {
            operations: number("Count"),
            sent: number("Bytes TX"),
            received: number("Bytes RX"),
            latency: Latency {
                mean: micros("Average Latency"),
                min: micros("Min Latency"),
                p50: micros("p50.00"),
                p99: micros("p99.00"),
                p99_9: micros("p99.90"),
                max: micros("Max Latency"),
                ..Latency::default()
            },
            ..Second::default()
        });
    }
    series
}

/// `server 127.0.0.1:6379 handle error response: -ERR no` in each line that is one.
fn errors(printed: &str) -> BTreeMap<String, u64> {
    let mut errors = BTreeMap::new();
    for line in printed.lines() {
        if let Some((_, text)) = line.split_once("handle error response: ") {
            *errors.entry(text.trim_start_matches('-').trim().to_owned()).or_default() += 1;
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As memtier_benchmark 2 wrote it, shortened.
    const SAMPLE: &str = include_str!("../../tests/sample/memtier.json");

    #[test]
    fn its_figures_are_ours() {
        let outcome = outcome(SAMPLE, "").expect("an outcome");
        assert_eq!(outcome.seconds, 2.003);
        let names: Vec<_> = outcome.classes.iter().map(|class| class.name.as_str()).collect();
        assert_eq!(names, ["SET", "GET"]);
        let get = &outcome.classes[1];
        assert_eq!((get.kind, get.operations), (Kind::Read, get.histogram.count()));
        assert_eq!(get.hits + get.misses, get.operations);
        assert_eq!(get.series.iter().map(|second| second.operations).sum::<u64>(), get.operations);
        let sum: u64 = outcome.classes.iter().map(|class| class.operations).sum();
        assert_eq!(outcome.totals.operations, sum);
        // What it printed itself: operations a second, and percentiles in milliseconds.
        let stats: Value = serde_json::from_str(SAMPLE).expect("JSON");
        let printed = &stats["ALL STATS"]["Gets"];
        let near = |ours: f64, theirs: &Value| {
            let theirs = theirs.as_f64().expect("a number");
            assert!((ours - theirs).abs() <= theirs / 100.0, "{ours} is not {theirs}");
        };
        near(get.per_second, &printed["Ops/sec"]);
        near(get.latency.p50 / 1e3, &printed["Percentile Latencies"]["p50.00"]);
        near(get.latency.p99 / 1e3, &printed["Percentile Latencies"]["p99.00"]);
        near(get.latency.p99_9 / 1e3, &printed["Percentile Latencies"]["p99.90"]);
        near(get.latency.mean / 1e3, &printed["Average Latency"]);
        near(get.kib_per_second(outcome.seconds), &printed["KB/sec"]);
    }

    #[test]
    fn errors_are_read_from_what_it_printed() {
        let printed = "server 127.0.0.1:6379 handle error response: -OOM no room\n[RUN #1] 100%\n\
                       server 127.0.0.1:6379 handle error response: -OOM no room\n";
        let outcome = outcome(SAMPLE, printed).expect("an outcome");
        assert_eq!(outcome.errors, BTreeMap::from([("OOM no room".into(), 2)]));
        assert!(!outcome.is_whole());
    }

    #[test]
    fn another_file_is_refused() {
        for json in ["", "{}", "{\"ALL STATS\": {}}", "[1]"] {
            assert!(outcome(json, "").is_err(), "{json}");
        }
    }
}
