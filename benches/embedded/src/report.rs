//! The report: one table for each class of promises and size of values, ratios compared with
//! Perdura, kills, and where another store is ahead. As Markdown for people, as JSON for programs.

use std::fmt::Write;

use serde::Serialize;

use crate::cell::{Figure, THREADS, Workload};
use crate::results::Results;
use crate::statistics::Summary;
use crate::systems::{Class, Survives, System};

/// A summary of one cell.
#[derive(Clone, Serialize)]
struct Cell {
    workload: Workload,
    threads: usize,
    rate: Summary,
    cpu_us: Summary,
    /// To Perdura's first variant in the class: the median of the rounds' ratios.
    ratio: Option<Summary>,
}

/// All cells of one system and size of values.
#[derive(Clone, Serialize)]
struct Line {
    id: String,
    #[serde(skip)]
    system: System,
    bytes: usize,
    cells: Vec<Cell>,
}

/// What the kills of one system say.
#[derive(Serialize)]
struct Reopened {
    system: String,
    first_answer_ms: Summary,
    acknowledged: u64,
    lost: u64,
}

/// Everything, as JSON.
#[derive(Serialize)]
pub struct Report {
    machine: Vec<String>,
    rates: Vec<Line>,
    kills: Vec<Reopened>,
    problems: Vec<String>,
    #[serde(skip)]
    systems: Vec<System>,
}

/// A class with a size of values, the variant that ratios refer to, and the lines.
struct Table<'a> {
    class: Class,
    len: usize,
    base: &'static str,
    lines: Vec<&'a Line>,
}

impl Line {
    /// Returns a cell; none where the store cannot do that.
    fn cell(&self, workload: Workload, threads: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| (cell.workload, cell.threads) == (workload, threads))
    }
}

fn cells() -> impl Iterator<Item = (Workload, usize)> {
    Workload::ALL.into_iter().flat_map(|workload| THREADS.map(|threads| (workload, threads)))
}

/// Returns the samples of one cell by round.
fn samples<'a>(
    results: &'a Results,
    system: &System,
    len: usize,
    cell: (Workload, usize),
    value: impl Fn(&Figure) -> f64 + 'a,
) -> impl Iterator<Item = (usize, f64)> + 'a {
    let id = system.id();
    let rows = results.rows.iter().filter(move |row| row.system == id && row.len == len);
    let rows = rows.filter(move |row| (row.figure.workload, row.figure.threads) == cell);
    rows.map(move |row| (row.round, value(&row.figure)))
}

fn line(results: &Results, system: &System, base: Option<&System>, len: usize) -> Option<Line> {
    let summary = |cell: (Workload, usize)| {
        let rates: Vec<_> = samples(results, system, len, cell, |f| f.rate).collect();
        let base: Vec<_> = base
            .map(|base| samples(results, base, len, cell, |f| f.rate).collect())
            .unwrap_or_default();
        let ratio = |(round, rate): &(usize, f64)| {
            base.iter().find(|(other, _)| other == round).map(|(_, base)| rate / base)
        };
        Some(Cell {
            workload: cell.0,
            threads: cell.1,
            rate: Summary::of(rates.iter().map(|(_, rate)| *rate))?,
            cpu_us: Summary::of(
                samples(results, system, len, cell, |f| f.cpu).map(|(_, cpu)| cpu),
            )?,
            ratio: Summary::of(rates.iter().filter_map(ratio)),
        })
    };
    let cells: Vec<Cell> = cells().filter_map(summary).collect();
    let (id, system) = (system.id(), *system);
    (!cells.is_empty()).then_some(Line { id, system, bytes: len, cells })
}

impl Report {
    /// Summarises what was measured.
    pub fn new(
        results: &Results,
        systems: &[System],
        sizes: &[usize],
        machine: Vec<String>,
    ) -> Report {
        let base = |class| systems.iter().find(|s| s.class == class && s.is_ours());
        let rates = sizes.iter().flat_map(|len| {
            systems.iter().filter_map(|system| line(results, system, base(system.class), *len))
        });
        let kills = systems.iter().filter_map(|system| reopened(results, system));
        Report {
            machine,
            rates: rates.collect(),
            kills: kills.collect(),
            problems: results.problems.clone(),
            systems: systems.to_vec(),
        }
    }

    /// Systems that lost what their setting says survives a kill.
    pub fn broken_promises(&self) -> Vec<String> {
        let survives = |id: &str| {
            let system = self.systems.iter().find(|system| system.id() == id);
            system.is_some_and(|system| system.survives != Survives::Nothing)
        };
        let broken = self.kills.iter().filter(|kill| kill.lost > 0 && survives(&kill.system));
        broken.map(|kill| kill.system.clone()).collect()
    }

    fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.rates.iter().map(|line| line.bytes).collect();
        sizes.dedup();
        sizes
    }

    fn tables(&self) -> Vec<Table<'_>> {
        let mut tables = Vec::new();
        for class in Class::all() {
            let ours = self.systems.iter().find(|s| s.class == class && s.is_ours());
            for len in self.sizes() {
                let is_here = |line: &&Line| line.system.class == class && line.bytes == len;
                let lines: Vec<_> = self.rates.iter().filter(is_here).collect();
                let base = ours.map_or("", |system| system.name);
                if !lines.is_empty() {
                    tables.push(Table { class, len, base, lines });
                }
            }
        }
        tables
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let mut text = self.machine.iter().fold(String::new(), |text, line| text + line + "  \n");
        text.push_str(&self.settings());
        text.push_str(&self.ahead());
        text.push_str(&self.reopening());
        for table in self.tables() {
            text.push_str(&table.markdown());
        }
        text.push_str(&self.cpu());
        if !self.problems.is_empty() {
            text.push_str("\n#### Not measured\n\n");
            self.problems.iter().for_each(|problem| text.push_str(&format!("- {problem}\n")));
        }
        text
    }

    fn settings(&self) -> String {
        let mut text = "\n#### What was asked of each store\n\n".to_owned();
        text.push_str(
            "| store | setting | an acknowledged write survives |\n| --- | --- | --- |\n",
        );
        let mut seen = Vec::new();
        for system in &self.systems {
            if !seen.contains(&(system.name, system.setting)) {
                seen.push((system.name, system.setting));
                let survives = system.survives.words();
                let _ = writeln!(text, "| {} | {} | {survives} |", system.name, system.setting);
            }
        }
        text
    }

    fn ahead(&self) -> String {
        let mut text = "\n#### Where another store is ahead\n\n".to_owned();
        for table in self.tables() {
            let mut places = Vec::new();
            for (workload, threads) in cells() {
                let lead = |line: &&Line| {
                    let ratio = line.cell(workload, threads)?.ratio?.median;
                    (ratio > 1.0 && !line.system.is_ours())
                        .then(|| format!("{} {ratio:.2}x", line.system.name))
                };
                let leads: Vec<String> = table.lines.iter().filter_map(lead).collect();
                if !leads.is_empty() {
                    places.push(format!("{} {threads}: {}", workload.title(), leads.join(", ")));
                }
            }
            let places = if places.is_empty() { "nowhere".to_owned() } else { places.join("; ") };
            let _ = writeln!(text, "- {}, {} bytes: {places}", table.class.title(), table.len);
        }
        text
    }

    fn reopening(&self) -> String {
        if self.kills.is_empty() {
            return String::new();
        }
        let mut text = "\n#### After kill -9 under load\n\n".to_owned();
        text.push_str("| store | open to first answer, ms | spread % | acknowledged | lost |\n");
        text.push_str("| --- | ---: | ---: | ---: | ---: |\n");
        for Reopened { system, first_answer_ms, acknowledged, lost } in &self.kills {
            let Summary { median, spread } = first_answer_ms;
            let _ = writeln!(
                text,
                "| {system} | {median:.1} | {spread:.0} | {acknowledged} | {lost} |"
            );
        }
        text
    }

    fn cpu(&self) -> String {
        let mut text = String::new();
        for len in self.sizes() {
            let _ = writeln!(
                text,
                "\n#### CPU time per operation, one thread: values of {len} bytes\n"
            );
            text.push_str(
                "Microseconds of the whole process, the store's own threads included.\n\n|",
            );
            let titles = Workload::ALL.map(Workload::title);
            let _ = writeln!(text, " store | {} |", titles.join(" | "));
            text.push_str("| --- |");
            text.push_str(&" ---: |".repeat(titles.len()));
            text.push('\n');
            for line in self.rates.iter().filter(|line| line.bytes == len) {
                let _ = write!(text, "| {} |", line.id);
                for workload in Workload::ALL {
                    let _ = match line.cell(workload, 1) {
                        Some(cell) => write!(text, " {:.2} |", cell.cpu_us.median),
                        None => write!(text, " - |"),
                    };
                }
                text.push('\n');
            }
        }
        text
    }
}

impl Table<'_> {
    fn markdown(&self) -> String {
        let mut text = format!("\n#### {}: values of {} bytes\n\n", self.class.title(), self.len);
        let _ = writeln!(
            text,
            "Thousand operations per second, in brackets the spread in percent, and the ratio to {}.\n",
            self.base
        );
        text.push_str("| store |");
        for (workload, threads) in cells() {
            let plural = if threads == 1 { "thread" } else { "threads" };
            let _ = write!(text, " {}, {threads} {plural} |", workload.title());
        }
        text.push_str("\n| --- |");
        text.push_str(&" ---: |".repeat(cells().count()));
        text.push('\n');
        for line in &self.lines {
            let _ = write!(text, "| {} |", line.system.name);
            for (workload, threads) in cells() {
                let Some(cell) = line.cell(workload, threads) else {
                    text.push_str(" - |");
                    continue;
                };
                let Summary { median, spread } = cell.rate;
                let _ = write!(text, " {} ({spread:.0})", thousands(median));
                if let Some(ratio) = cell.ratio {
                    let _ = write!(text, " {:.2}x", ratio.median);
                }
                text.push_str(" |");
            }
            text.push('\n');
        }
        text
    }
}

fn thousands(rate: f64) -> String {
    let thousands = rate / 1e3;
    let digits = if thousands >= 100.0 {
        0
    } else if thousands >= 10.0 {
        1
    } else {
        2
    };
    format!("{thousands:.digits$}")
}

fn reopened(results: &Results, system: &System) -> Option<Reopened> {
    let id = system.id();
    let found: Vec<_> = results.kills.iter().filter(|kill| kill.system == id).collect();
    Some(Reopened {
        first_answer_ms: Summary::of(found.iter().map(|kill| kill.found.first_answer))?,
        acknowledged: found.iter().map(|kill| kill.found.acknowledged).sum(),
        lost: found.iter().map(|kill| kill.found.lost).sum(),
        system: id,
    })
}
