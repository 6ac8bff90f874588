//! The end of a comparison: the report, the most important ratios, and any lost writes.

use crate::Verdict;
use crate::report::contents::TABLES;
use crate::report::{self, tables};
use crate::results::{Durability, Results, Skipped};
use std::path::Path;

/// Prints a summary, writes the report and returns the verdict. `troubled` says that something
/// requested is missing from the results.
pub(super) fn finish(results: &Results, troubled: bool, out: &Path) -> Verdict {
    println!();
    for line in ratios(results) {
        println!("{line}");
    }
    for (kind, title) in TABLES {
        let table = tables::commands(results, kind);
        if !table.is_empty() {
            println!("\n{title}\n\n{}", table.markdown());
        }
    }
    let mut verdict = if troubled { Verdict::Partly } else { Verdict::Done };
    results.skipped.iter().for_each(|skipped| println!("{}", left_out(skipped)));
    results.warnings.iter().for_each(|warning| println!("warning: {warning}"));
    if let Some(why) = results.machine.busy() {
        println!("warning: {why}");
    }
    for line in complaints(results) {
        println!("{line}");
        verdict = Verdict::Partly;
    }
    println!("\nfigures: {}", out.join("results.json").display());
    match report::write(results, out) {
        Ok(page) => println!("report:  {}", page.display()),
        Err(error) => {
            eprintln!("perdura-bench: the report could not be written: {error}");
            verdict = Verdict::Partly;
        }
    }
    verdict
}

/// Returns what was left out, and the whole reason: the last lines of a log say more than the line
/// that introduces them.
fn left_out(skipped: &Skipped) -> String {
    let mut lines = skipped.why.lines();
    let mut text = format!("left out: {}: {}", skipped.what, lines.next().unwrap_or_default());
    lines.for_each(|line| text.push_str(&format!("\n  {line}")));
    text
}

/// Returns a table of the most important ratios, and a line for each kind of emulated PMEM.
fn ratios(results: &Results) -> Vec<String> {
    let table = tables::key_ratios(results).markdown();
    let mut lines: Vec<String> = table.lines().map(str::to_owned).collect();
    let mut labels: Vec<&str> =
        results.systems.iter().filter_map(|system| system.emulated.as_deref()).collect();
    labels.dedup();
    lines.extend(labels.into_iter().map(|label| format!("PMEM is emulated: {label}")));
    lines
}

/// Returns a line for each problem: lost writes, error replies, partial results.
fn complaints(results: &Results) -> Vec<String> {
    let mut lines = Vec::new();
    for row in &results.recovery {
        let system = results.systems.iter().find(|system| system.id == row.system);
        let durable = system.is_some_and(|system| system.durability == Durability::Always);
        if durable && row.keys_lost + row.keys_wrong > 0 {
            lines.push(format!(
                "LOST: {} acknowledged every write as durable, and of {} keys {} were gone or old and {} wrong",
                row.system, row.keys_checked, row.keys_lost, row.keys_wrong
            ));
        }
    }
    let errors: u64 = results.runs.iter().map(|run| run.errors).sum();
    if errors > 0 {
        lines.push(format!("{errors} replies were errors"));
    }
    if let Some(why) = &results.partial {
        lines.push(format!("The results are partial: {why}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    #[test]
    fn every_ratio_that_matters_has_its_line() {
        let lines = ratios(&sample());
        assert!(lines[2].contains("write throughput, PMEM to AOF always"), "{lines:#?}");
        assert!(lines[2].contains("2.86×"), "{lines:#?}");
        assert!(lines.last().is_some_and(|line| line.contains("power loss is not survived")));
    }

    #[test]
    fn a_lost_write_of_a_durable_system_is_named() {
        let mut results = sample();
        let before = complaints(&results);
        assert!(!before.iter().any(|line| line.starts_with("LOST")), "{before:#?}");
        let row = results.recovery.iter_mut().find(|row| row.system == "redis-always");
        row.expect("it was recovered").keys_lost = 1;
        let after = complaints(&results);
        assert!(after[0].starts_with("LOST: redis-always"), "{after:#?}");
        assert!(after.iter().any(|line| line.contains("partial: interrupted")), "{after:#?}");
    }
}
