//! redis-benchmark as the generator: one run, and what it says.

use super::bench::Bench;
use crate::server::{Failure, Server};
use std::process::Stdio;

/// A line of its CSV output.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) test: String,
    /// Requests a second.
    pub(super) rate: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) requests: u64,
    pub(super) clients: u64,
    pub(super) pipeline: u64,
    /// Random numbers in keys are below this.
    pub(super) keys: u64,
}

/// Runs it on a core: what it says, and the CPU microseconds of the server per request.
pub(super) fn run(
    bench: &Bench<'_>,
    server: &Server,
    core: usize,
    load: Load,
    what: &[&str],
) -> Result<(Vec<Row>, f64), Failure> {
    let before = server.threads_cpu();
    let mut command = bench.on_core(core, "redis-benchmark");
    for (option, number) in [
        ("-p", u64::from(server.port())),
        ("-n", load.requests),
        ("-c", load.clients),
        ("-P", load.pipeline),
        ("-r", load.keys),
    ] {
        command.arg(option).arg(number.to_string());
    }
    let output = command.arg("--csv").args(what).stdin(Stdio::null()).output();
    let output = output.map_err(Failure::of("redis-benchmark"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let rows = rows(&text);
    if !output.status.success() || rows.is_empty() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::Generator(format!(
            "redis-benchmark {}: {text}{errors}",
            what.join(" ")
        )));
    }
    let cpu = server.threads_cpu().saturating_sub(before).as_secs_f64();
    let each = cpu / load.requests as f64 / rows.len() as f64 * 1e6;
    Ok((rows, each))
}

/// Returns the lines below the head, whose columns are found by name.
fn rows(text: &str) -> Vec<Row> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("\"test\""));
    let Some(head) = lines.next().map(cells) else { return Vec::new() };
    let column = |name: &str| head.iter().position(|found| *found == name);
    let row = |line: &str| {
        let cells = cells(line);
        let number = |name: &str| cells.get(column(name)?)?.parse().ok();
        Some(Row {
            test: (*cells.first()?).to_owned(),
            rate: number("rps")?,
            p50_ms: number("p50_latency_ms")?,
            p99_ms: number("p99_latency_ms")?,
        })
    };
    lines.filter_map(row).collect()
}

/// Returns the quoted cells of a line.
fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('"').split("\",\"").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_lines_are_read_by_the_names_of_columns() {
        let text = "WARNING: no config\n\"test\",\"rps\",\"avg_latency_ms\",\"p50_latency_ms\",\
            \"p99_latency_ms\"\n\"LRANGE_100 (first 100 elements)\",\"5000.00\",\"1.0\",\"0.5\",\"2.25\"\n";
        let expect = Row {
            test: "LRANGE_100 (first 100 elements)".into(),
            rate: 5000.0,
            p50_ms: 0.5,
            p99_ms: 2.25,
        };
        assert_eq!(rows(text), [expect]);
        assert_eq!(rows("Could not connect"), []);
    }
}
