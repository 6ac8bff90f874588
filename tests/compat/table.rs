//! The results: for each unit and backend the passed cases, of those that redis-server passes.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::BACKENDS;
use crate::case::{Case, Outcome};
use crate::lists::unit_alone;
use crate::suite::Setup;

/// A case that redis-server passes and a backend does not.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) unit: String,
    pub(crate) case: String,
    pub(crate) backend: &'static str,
    pub(crate) detail: String,
}

impl Failure {
    /// Returns true if it is of this unit, in whichever way it was run.
    pub(crate) fn is_of(&self, unit: &str) -> bool {
        unit_alone(&self.unit) == unit
    }
}

/// The cases of a unit that redis-server passes and a backend does not.
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
        runs: Vec<(&'static str, Vec<Case>)>,
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

    /// The number of cases that a backend passes, and the number of those in the units that it ran.
    fn passed(&self, backend: &str) -> (usize, usize) {
        let found = |row: &Row| {
            let run = row.passed.iter().find(|run| run.0 == backend);
            run.map(|(_, count)| (*count, row.expected))
        };
        let both = self.rows.iter().filter_map(found);
        both.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// The lowest share of any backend; 1 if there was nothing to pass.
    pub(crate) fn least_share(&self) -> f64 {
        let share = |backend| match self.passed(backend) {
            (_, 0) => 1.0,
            (count, expected) => count as f64 / expected as f64,
        };
        BACKENDS.into_iter().map(share).fold(1.0, f64::min)
    }

    /// Writes the failures to a file.
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
            "{:<42} {:>8} {:>15} {:>15}",
            "unit", "redis", "pmem (failed)", "aof (failed)"
        )?;
        let line = |name: &str, expected: usize, runs: [Option<(usize, usize)>; 2]| {
            let cell = |run: Option<(usize, usize)>| {
                run.map_or("-".to_owned(), |(count, of)| format!("{count} ({})", of - count))
            };
            let [pmem, aof] = runs.map(cell);
            format!("{name:<42} {expected:>8} {pmem:>15} {aof:>15}")
        };
        for row in &self.rows {
            let run = |backend| {
                let found = row.passed.iter().find(|run| run.0 == backend);
                found.map(|(_, count)| (*count, row.expected))
            };
            writeln!(f, "{}", line(&row.unit, row.expected, BACKENDS.map(run)))?;
        }
        if !self.rows.is_empty() {
            let all = BACKENDS.map(|backend| Some(self.passed(backend)));
            writeln!(f, "{}", line("all", self.expected(), all))?;
        }
        write!(f, "{:.1} % of what redis-server passes", self.least_share() * 100.0)
    }
}
