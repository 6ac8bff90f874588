//! Tables, ratios and raw figures.

use super::systems::System;
use crate::server::Failure;
use crate::stats::{Summary, ratio};
use std::fs::File;
use std::io::Write;
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

/// Returns the ratio of two systems in figures that are theirs by position: median, lowest,
/// highest.
pub(super) fn ratio_of(systems: &[&System], values: &[Vec<f64>], pair: Pair) -> Option<Summary> {
    let at = |name| systems.iter().position(|system| system.name == name);
    ratio(&values[at(pair.0)?], &values[at(pair.1)?])
}

/// Returns a ratio with its range.
pub(super) fn shown(ratio: Option<Summary>) -> String {
    ratio.map_or("-".into(), |Summary { median, lowest, highest, .. }| {
        format!("{median:.2}x ({lowest:.2} to {highest:.2})")
    })
}

/// Prints the ratios of those pairs of which both were measured.
pub(super) fn ratios(what: &str, pairs: &[Pair], systems: &[&System], values: &[Vec<f64>]) {
    for pair in pairs {
        if let Some(found) = ratio_of(systems, values, *pair) {
            println!("- {what}, {} to {}: {}", pair.0, pair.1, shown(Some(found)));
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
        let file = made().map_err(Failure::of(path.display()))?;
        let mut raw = Raw { file, path };
        raw.add(head.iter().map(|name| (*name).to_owned()).collect())?;
        Ok(raw)
    }

    /// Writes one more line.
    pub(super) fn add(&mut self, cells: Vec<String>) -> Result<(), Failure> {
        let line = cells.join("\t") + "\n";
        self.file.write_all(line.as_bytes()).map_err(Failure::of(self.path.display()))
    }

    /// Prints the end of a measurement.
    pub(super) fn finish(self) {
        println!("\nraw figures: {}", self.path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::super::systems::named;
    use super::*;

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
