//! What is known in advance: the cases that are left out, and the reasons of those that fail.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::case::Case;
use crate::suite::Setup;
use crate::table::Failure;

const LEFT_OUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/compat/left-out.tsv");
/// Before a unit's name, in the list and on the command line: the unit starts its own servers.
pub(crate) const OWN: &str = "own:";
/// The ways to run a unit with servers of both programs: where redis-server's ports are. Before a
/// unit's name they say that it was run so.
pub(crate) const MIXED: [&str; 2] = ["even", "odd"];
/// Instead of a case: a reason for the whole unit.
const EVERY_CASE: &str = "every case";
const REASONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../COMPAT.md");

/// Cases that need a command that does not exist yet: unit, name, command.
#[derive(Default)]
pub(crate) struct LeftOut {
    names: BTreeMap<String, BTreeSet<String>>,
    rows: Vec<String>,
}

impl LeftOut {
    pub(crate) fn read() -> Result<LeftOut, Setup> {
        let mut left_out = LeftOut::default();
        for row in fs::read_to_string(LEFT_OUT)?.lines().filter(|row| !row.starts_with('#')) {
            let mut columns = row.split('\t');
            if let (Some(unit), Some(name)) = (columns.next(), columns.next()) {
                left_out.names.entry(unit.to_owned()).or_default().insert(name.to_owned());
                left_out.rows.push(row.to_owned());
            }
        }
        Ok(left_out)
    }

    /// Forgets the cases of a unit.
    pub(crate) fn forget(&mut self, unit: &str) {
        self.names.remove(unit);
        self.rows.retain(|row| unit_of(row) != unit);
    }

    /// The left-out cases of a unit that starts its own servers: those of the unit, and those whose
    /// rows begin with `own:`, which need a command only there.
    pub(crate) fn of_starter(&self, unit: &str) -> BTreeSet<String> {
        let own = self.of(&format!("{OWN}{unit}"));
        self.of(unit).union(own).cloned().collect()
    }

    /// The left-out cases of a unit.
    pub(crate) fn of(&self, unit: &str) -> &BTreeSet<String> {
        static NONE: BTreeSet<String> = BTreeSet::new();
        self.names.get(unit).unwrap_or(&NONE)
    }

    /// Adds a case in which redis-server was denied a command.
    pub(crate) fn add_if_denied(&mut self, unit: &str, case: &Case) {
        let quoted =
            case.detail.split_once("run the '").and_then(|(_, rest)| rest.split_once('\''));
        if let Some((command, _)) = quoted {
            self.add(unit, &case.name, command);
        }
    }

    /// Adds a case with the command that it needs.
    pub(crate) fn add(&mut self, unit: &str, name: &str, command: &str) {
        // All cases with the same name are left out.
        let name = name.split(" #").next().unwrap_or(name);
        if self.names.entry(unit.to_owned()).or_default().insert(name.to_owned()) {
            self.rows.push(format!("{unit}\t{name}\t{command}"));
        }
    }

    /// Adds a case that fails because of the one before it.
    pub(crate) fn add_like_last(&mut self, unit: &str, name: &str) {
        let last = self.rows.iter().rfind(|row| unit_of(row) == unit);
        let last = last.and_then(|row| row.rsplit('\t').next());
        let command = last.unwrap_or("unknown").to_owned();
        self.add(unit, name, &command);
    }

    /// Leaves out a case that redis-server passes although it lacks something in the case's name: a
    /// setting, or a command that is refused for another reason first.
    pub(crate) fn needs_by_name(&mut self, unit: &str, name: &str) -> bool {
        let needs = match name {
            name if name.starts_with("CLUSTER RESET") => "cluster|reset",
            "COMMAND LIST FILTERBY PATTERN - list all commands/subcommands" => "cluster|help",
            _ => return false,
        };
        self.add(unit, name, needs);
        true
    }

    /// Writes the list, in the order of the units.
    pub(crate) fn write(&self, units: &[&str]) -> Result<(), Setup> {
        let head = "# Cases of Redis's suite that need a command which is not there yet: unit, case, command.\n\
                    # Written by: make compat RENEW=1\n";
        let mut rows = self.rows.clone();
        rows.sort_by_key(|row| {
            let of = unit_of(row);
            let unit = unit_alone(of);
            (units.iter().position(|known| *known == unit), of != unit)
        });
        fs::write(LEFT_OUT, format!("{head}{}\n", rows.join("\n")))?;
        Ok(())
    }
}

/// Returns a unit's name without the way in which it was run.
pub(crate) fn unit_alone(unit: &str) -> &str {
    unit.split_once(':').map_or(unit, |(_, unit)| unit)
}

fn unit_of(row: &str) -> &str {
    row.split('\t').next().unwrap_or_default()
}

/// The table of `COMPAT.md`: unit, case, backends, reason.
pub(crate) struct Reasons {
    rows: BTreeSet<(String, String)>,
}

impl Reasons {
    pub(crate) fn read() -> Result<Reasons, Setup> {
        let text = fs::read_to_string(REASONS)?;
        let rows = text.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let unit = cells.next()?.strip_suffix('`').filter(|unit| unit.contains('/'))?;
            let case = cells.next()?.trim_matches('`').replace("\\|", "|");
            cells.next().filter(|reason| reason.trim().len() > 10)?;
            Some((unit.to_owned(), case))
        });
        Ok(Reasons { rows: rows.collect() })
    }

    /// Returns true if the table has a reason for a failure, or one for all cases of its unit.
    pub(crate) fn explain(&self, failure: &Failure) -> bool {
        let unit = unit_alone(&failure.unit);
        [failure.case.as_str(), EVERY_CASE]
            .iter()
            .any(|case| self.rows.contains(&(unit.to_owned(), (*case).to_owned())))
    }

    /// The rows of some units about single cases.
    pub(crate) fn of_units(&self, units: &[&str]) -> impl Iterator<Item = (&str, &str)> {
        let is_meant =
            |row: &&(String, String)| units.contains(&row.0.as_str()) && row.1 != EVERY_CASE;
        self.rows.iter().filter(is_meant).map(|(unit, case)| (unit.as_str(), case.as_str()))
    }
}
