//! A table of variants for a document: each system compared with the first, and, where there are
//! read caches, compared with itself without.
//!
//! It is between marks of its own, so that a page that is about one option can have the figures
//! of that option.

use super::docs;
use super::docs::{replace_between, short};
use super::ranges::{with_range, written};
use super::tables::name;
use crate::results::summary::Metric;
use crate::results::{FileError, Results, System, Workload};
use crate::table::{Table, escape_markdown as cell};
use crate::units::Unit;
use std::path::Path;

pub(crate) const BEGIN: &str = "<!-- perdura-bench variants: begin -->";
pub(crate) const END: &str = "<!-- perdura-bench variants: end -->";

/// What the name of a system with a read cache ends with.
const CACHED: &str = "-cache";

/// Renews what is between the marks of a document.
pub(crate) fn write(results: &Results, document: &Path) -> Result<(), FileError> {
    let results = &docs::public(results);
    let text = std::fs::read_to_string(document).map_err(FileError::of(document))?;
    let text = replace_between(&text, (BEGIN, END), &section(results)).ok_or_else(|| {
        let why = format!("expected one line `{BEGIN}` and below it one line `{END}`");
        FileError::of(document)(why)
    })?;
    std::fs::write(document, text).map_err(FileError::of(document))
}

fn section(results: &Results) -> String {
    let Some(first) = results.systems.first() else { return "Nothing was measured.\n".into() };
    let machine = &results.machine;
    let mut text = format!(
        "{}, {} cores, {}, commit {}, `{}`. Median, lowest, highest and number of rounds; ratios are taken round by round.\n\n",
        cell(&machine.cpu),
        machine.cores,
        cell(&machine.kernel),
        machine.commit.as_deref().unwrap_or("unknown"),
        short(&machine.command_line)
    );
    let cached = has_caches(results);
    let title = cell(&first.title);
    let mut head = vec![
        "load".to_owned(),
        "system".into(),
        "operations per second".into(),
        format!("by {title}"),
        "CPU time of an operation".into(),
        format!("by {title}"),
    ];
    if cached {
        head.extend(
            ["rate, by itself without a read cache", "CPU time, by the same"].map(str::to_owned),
        );
    }
    let mut table = Table::new(head);
    for workload in &results.workloads {
        for (n, system) in results.systems.iter().enumerate() {
            if let Some(row) = line(results, workload, n, system) {
                table.add(row);
            }
        }
    }
    text += &table.markdown();
    text
}

fn has_caches(results: &Results) -> bool {
    results.systems.iter().any(|system| system.id.ends_with(CACHED))
}

/// Returns a row; none for a system that did not run.
fn line(results: &Results, workload: &Workload, n: usize, system: &System) -> Option<Vec<String>> {
    let rate = results.summary(&workload.id, &system.id, Metric::Rate)?;
    let cpu = results.summary(&workload.id, &system.id, Metric::ServerCpu)?;
    let by = |other: Option<&str>, metric| {
        let other = other.filter(|other| *other != system.id);
        let ratio = other.and_then(|other| results.ratio(&workload.id, &system.id, other, metric));
        ratio.map_or("–".into(), |ratio| written(&ratio))
    };
    let first = results.systems.first().map(|first| first.id.as_str());
    let saturated = results.is_saturated(&workload.id, &system.id);
    let note = if saturated { ", generator saturated" } else { "" };
    let mut cells = vec![
        workload.title.clone(),
        name(results, n),
        with_range(Unit::Rate, &rate) + note,
        by(first, Metric::Rate),
        with_range(Unit::Seconds, &cpu.times(1e-6)),
        by(first, Metric::ServerCpu),
    ];
    if has_caches(results) {
        let without = system.id.strip_suffix(CACHED);
        cells.extend([by(without, Metric::Rate), by(without, Metric::ServerCpu)]);
    }
    Some(cells)
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn a_cache_is_compared_with_the_same_system_without_one() {
        let mut results = sample();
        let pool = results.systems[0].clone();
        let id = format!("{}{CACHED}", pool.id);
        let runs: Vec<_> = results.runs_of("throughput-0", &pool.id).cloned().collect();
        results.runs.extend(runs.into_iter().map(|mut run| {
            run.system = id.clone();
            run.operations *= 2;
            run
        }));
        results.systems.push(System { id, title: "with a cache".into(), ..pool });
        let text = section(&results);
        let row = text.lines().find(|line| line.contains("with a cache")).expect("its row");
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        // Twice the operations in the same time: twice the rate, half the CPU time of each, in
        // every round.
        let (rate, cpu) = ("2× (2× to 2×; 3)", "0.5× (0.5× to 0.5×; 3)");
        assert_eq!((cells[4], cells[6]), (rate, cpu), "by the first system: {row}");
        assert_eq!((cells[7], cells[8]), (rate, cpu), "by itself without a cache: {row}");
    }

    #[test]
    fn a_document_keeps_what_is_around_the_marks() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("page.md");
        std::fs::write(&path, "# Mine\n").expect("written");
        assert!(write(&sample(), &path).is_err(), "there are no marks");
        std::fs::write(&path, format!("# Mine\n{BEGIN}\nold\n{END}\nmine too\n")).expect("written");
        write(&sample(), &path).expect("written");
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(text.starts_with("# Mine\n") && text.ends_with("mine too\n"), "{text}");
        assert!(text.contains("| load ") && !text.contains("old\n"), "{text}");
    }
}
