//! Tables, ratios and raw figures.

use super::systems::System;
use crate::compare::server::Failure;
use crate::stats::{Summary, ratio};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

/// A pair of systems that are compared.
pub(super) type Pair = (&'static str, &'static str);

/// Returns the middle of some figures; 0 of none.
pub(super) fn median(values: &[f64]) -> f64 {
    Summary::of(values).map_or(0.0, |summary| summary.median)
}

/// Returns the distance from the lowest to the highest, in percent of the median.
pub(super) fn spread(values: &[f64]) -> f64 {
    Summary::of(values).map_or(0.0, |summary| summary.spread() * 100.0)
}

/// Returns a Markdown table with aligned columns: the first to the left, all others to the right.
pub(super) fn table(head: Vec<String>, rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            let cells = std::iter::once(&head[column]).chain(rows.iter().map(|row| &row[column]));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).enumerate().map(|(n, (cell, width))| match n {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
    };
    let rule = widths.iter().enumerate().map(|(n, width)| match n {
        0 => "-".repeat(*width),
        _ => format!("{}:", "-".repeat(width.saturating_sub(1))),
    });
    let rule = line(&rule.collect::<Vec<_>>());
    rows.iter().fold(line(&head) + &rule, |text, row| text + &line(row))
}

/// Returns the ratio of two systems in figures that are theirs by position: median, lowest,
/// highest.
pub(super) fn ratio_of(systems: &[&System], values: &[Vec<f64>], pair: Pair) -> Option<Summary> {
    let at = |name| systems.iter().position(|system| system.name == name);
    ratio(&values[at(pair.0)?], &values[at(pair.1)?])
}

/// Prints the ratios of those pairs of which both were measured.
pub(super) fn ratios(what: &str, pairs: &[Pair], systems: &[&System], values: &[Vec<f64>]) {
    for pair in pairs {
        if let Some(found) = ratio_of(systems, values, *pair) {
            let Summary { median, lowest, highest, .. } = found;
            println!(
                "- {what}, {} to {}: {median:.2}x ({lowest:.2} to {highest:.2})",
                pair.0, pair.1
            );
        }
    }
}

/// Raw figures, one line each, as tab-separated values.
#[derive(Debug)]
pub(super) struct Raw {
    file: File,
    path: PathBuf,
}

impl Raw {
    pub(super) fn create(path: PathBuf, head: &[&str]) -> Result<Raw, Failure> {
        let made = || {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            File::create(&path)
        };
        let file = made().map_err(|cause| failed(&path, cause))?;
        let mut raw = Raw { file, path };
        raw.add(head.iter().map(|name| (*name).to_owned()).collect())?;
        Ok(raw)
    }

    /// Returns one more line.
    pub(super) fn add(&mut self, cells: Vec<String>) -> Result<(), Failure> {
        let line = cells.join("\t") + "\n";
        self.file.write_all(line.as_bytes()).map_err(|cause| failed(&self.path, cause))
    }

    /// Prints the end of a measurement.
    pub(super) fn finish(self) {
        println!("\nraw figures: {}", self.path.display());
    }
}

fn failed(path: &std::path::Path, cause: io::Error) -> Failure {
    Failure::Start { what: path.display().to_string(), cause }
}

/// Words of a line, whatever they are.
macro_rules! cells {
    ($($cell:expr),* $(,)?) => { vec![$($cell.to_string()),*] };
}
pub(super) use cells;

#[cfg(test)]
mod tests {
    use super::super::systems::named;
    use super::*;

    #[test]
    fn a_table_is_aligned() {
        let text = table(cells!["", "rate"], &[cells!["one", 7], cells!["b", 12345]]);
        assert_eq!(text, "|     |  rate |\n| --- | ----: |\n| one |     7 |\n| b   | 12345 |\n");
    }

    #[test]
    fn a_ratio_is_that_of_neighbours() {
        let systems = ["redis none", "perdura volatile"].map(|name| named(name).expect("known"));
        let values = [vec![1.0, 2.0, 4.0], vec![2.0, 6.0, 4.0]];
        let pair = ("perdura volatile", "redis none");
        let found = ratio_of(&systems, &values, pair).expect("both were measured");
        assert_eq!((found.median, found.lowest, found.highest), (2.0, 1.0, 3.0));
        assert!(ratio_of(&systems, &values, ("perdura aof always", "redis none")).is_none());
    }
}
