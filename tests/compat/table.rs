//! What came of it: per unit and backend the cases that pass, of those that redis-server passes.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::case::{Case, Outcome};
use crate::suite::Setup;

/// A case that redis-server passes and a backend does not.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) unit: String,
    pub(crate) case: String,
    pub(crate) backend: &'static str,
    pub(crate) detail: String,
}

/// What redis-server passes in a unit and a backend does not.
pub(crate) fn failures(
    unit: &str,
    reference: &[Case],
    backend: &'static str,
    cases: &[Case],
) -> Vec<Failure> {
    let broken = cases.iter().find(|case| case.outcome == Outcome::BrokeOff);
    let failure = |wanted: &Case| {
        let found = cases.iter().find(|case| case.name == wanted.name);
        let detail = match (found, broken) {
            (Some(case), _) if case.passed() => return None,
            (Some(case), _) if case.outcome == Outcome::Hung => "did not end".to_owned(),
            (Some(case), _) => case.detail.clone(),
            (None, Some(broken)) => format!("not run: {}", broken.detail),
            (None, None) => "not run".to_owned(),
        };
        Some(Failure { unit: unit.to_owned(), case: wanted.name.clone(), backend, detail })
    };
    reference.iter().filter(|case| case.passed()).filter_map(failure).collect()
}

struct Row {
    unit: String,
    expected: usize,
    passed: Vec<(&'static str, usize)>,
}

/// All units that were run.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
    failures: Vec<Failure>,
}

impl Table {
    /// Adds a unit: the cases of redis-server, and those of each backend.
    pub(crate) fn add(
        &mut self,
        unit: &str,
        reference: &[Case],
        runs: [(&'static str, Vec<Case>); 2],
    ) {
        let expected = reference.iter().filter(|case| case.passed()).count();
        let mut passed = Vec::new();
        for (backend, cases) in runs {
            let failures = failures(unit, reference, backend, &cases);
            passed.push((backend, expected - failures.len()));
            self.failures.extend(failures);
        }
        self.rows.push(Row { unit: unit.to_owned(), expected, passed });
    }

    pub(crate) fn failures(&self) -> &[Failure] {
        &self.failures
    }

    fn expected(&self) -> usize {
        self.rows.iter().map(|row| row.expected).sum()
    }

    /// Cases that each backend passes.
    fn passed(&self) -> Vec<(&'static str, usize)> {
        let mut sums: Vec<(&'static str, usize)> = Vec::new();
        for &(backend, count) in self.rows.iter().flat_map(|row| &row.passed) {
            match sums.iter_mut().find(|sum| sum.0 == backend) {
                Some(sum) => sum.1 += count,
                None => sums.push((backend, count)),
            }
        }
        sums
    }

    /// The share of the backend that passes least; 1 where nothing was to be passed.
    pub(crate) fn least_share(&self) -> f64 {
        let share = |(_, count): (&str, usize)| count as f64 / self.expected().max(1) as f64;
        if self.expected() == 0 {
            1.0
        } else {
            self.passed().into_iter().map(share).fold(1.0, f64::min)
        }
    }

    /// Writes the failures for whoever works on them.
    pub(crate) fn save(&self, folder: &Path) -> Result<(), Setup> {
        let row = |f: &Failure| format!("{}\t{}\t{}\t{}\n", f.unit, f.case, f.backend, f.detail);
        fs::create_dir_all(folder)?;
        fs::write(folder.join("failures.tsv"), self.failures.iter().map(row).collect::<String>())?;
        Ok(())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<26} {:>8} {:>15} {:>15}",
            "unit", "redis", "pmem (failed)", "aof (failed)"
        )?;
        let line = |name: &str, expected: usize, passed: &[(&str, usize)]| {
            let cell = |&(_, count): &(&str, usize)| format!("{count} ({})", expected - count);
            let cells: Vec<String> = passed.iter().map(cell).collect();
            format!("{name:<26} {expected:>8} {:>15} {:>15}", cells[0], cells[1])
        };
        for row in &self.rows {
            writeln!(f, "{}", line(&row.unit, row.expected, &row.passed))?;
        }
        if !self.rows.is_empty() {
            writeln!(f, "{}", line("all", self.expected(), &self.passed()))?;
        }
        write!(f, "{:.1} % of what redis-server passes", self.least_share() * 100.0)
    }
}
