//! The blocks of a report, in the order in which a reader asks: what is the result, can I trust it,
//! where does it hold, where is Perdura slower, how can I reproduce it.

use super::chart::Chart;
use super::document::{Block, Figure};
use super::findings::{Finding, Verdict};
use super::ranges::Row;
use super::{device, figures, tables};
use crate::results::{Family, Results, WorkloadKind};

/// The kinds of load that are shown as tables, with their titles.
pub(crate) const TABLES: [(WorkloadKind, &str); 4] = [
    (WorkloadKind::Durable, "Writes that a disk keeps, to the end of everything that was deferred"),
    (WorkloadKind::Strings, "SET and GET"),
    (WorkloadKind::Type, "Commands on data types"),
    (WorkloadKind::Scripts, "Scripts and transactions"),
];

/// Returns the whole report.
pub(crate) fn contents(results: &Results, findings: &[Finding]) -> Vec<Block> {
    let parts = [
        head(results),
        in_short(results, findings),
        servers(results),
        outcomes(results, findings),
        media(results),
        method(results),
    ];
    parts.into_iter().flatten().collect()
}

fn head(results: &Results) -> Vec<Block> {
    let m = &results.machine;
    let kind = if m.virtual_machine { "virtual machine, " } else { "" };
    let commit = m.commit.as_deref().unwrap_or("unknown");
    let mut blocks = vec![
        Block::heading(1, "Persistent memory against append-only files"),
        Block::Text(format!(
            "{}, {kind}{} cores, {}, {}, commit {commit}",
            m.cpu, m.cores, m.kernel, m.began
        )),
        Block::Text(
            "Perdura keeps its keyspace in a heap on persistent memory, on a disk behind a journal, or in DRAM behind \
             Redis’s append-only file: the same server, three ways to persist, with redis-server beside them. Absolute \
             figures belong to the machine; read the ratios."
                .into(),
        ),
    ];
    blocks.extend(notices(results));
    blocks
}

/// Returns the notices that apply to all figures.
fn notices(results: &Results) -> Vec<Block> {
    let mut notices: Vec<(String, String)> = Vec::new();
    if let Some(why) = &results.partial {
        notices.push(("Partial results".into(), format!("the measurement ended early: {why}")));
    }
    notices.extend(results.machine.busy().map(|why| ("The machine was busy".into(), why)));
    notices.extend(results.warnings.iter().map(|text| ("Warning".into(), text.clone())));
    let mut emulated: Vec<(String, String)> = Vec::new();
    for system in &results.systems {
        let Some(what) = &system.emulated else { continue };
        match emulated.iter_mut().find(|(_, known)| known == what) {
            Some((names, _)) => *names = format!("{names}, {}", system.title),
            None => emulated.push((format!("Emulated: {}", system.title), what.clone())),
        }
    }
    notices.extend(emulated);
    notices.extend(results.device.iter().filter(|study| study.emulated).map(|study| {
        let note = study.note.trim_start_matches("EMULATED: ").to_owned();
        (format!("Emulated: the device study of {}", study.dir), note)
    }));
    if results.runs.iter().any(|run| run.saturated) {
        let text = "in some runs the load generator was the slower side. Rates of such runs are too near to each other; \
                    compare the CPU time of the server.";
        notices.push(("Generator saturated".into(), text.into()));
    }
    let errors: u64 = results.runs.iter().map(|run| run.errors).sum();
    if errors > 0 {
        notices
            .push(("Error replies".into(), format!("{errors} replies of all runs were errors.")));
    }
    notices.into_iter().map(|(title, text)| Block::Notice { title, text }).collect()
}

/// Returns the most important ratios as rows of a picture.
fn key_rows(results: &Results) -> Vec<Row> {
    let pool = results.systems.iter().find(|system| system.family == Family::PerduraPmem);
    let emulated = pool.is_some_and(|system| system.emulated.is_some());
    let row = |row: crate::results::summary::KeyRatio| {
        Some(Row { name: row.what, emulated, ratio: row.found? })
    };
    results.key_ratios().into_iter().filter_map(row).collect()
}

fn in_short(results: &Results, findings: &[Finding]) -> Vec<Block> {
    if results.systems.is_empty() {
        return Vec::new();
    }
    let count = |verdict| findings.iter().filter(|f| f.verdict() == verdict).count();
    let counts = format!(
        "Of {} comparisons Perdura has the better figure in {}, the worse one in {}, and in {} the rounds do not agree or \
         are too few.",
        findings.len(),
        count(Verdict::Won),
        count(Verdict::Lost),
        count(Verdict::Even)
    );
    let text = "Each ratio is taken round by round between runs that stood next to each other in time: the mark is \
                the median, the bar goes from the lowest to the highest.";
    let ratios =
        Figure::of_ratios("ratios", "The ratios that matter most", text, &key_rows(results));
    let mut blocks = vec![Block::heading(2, "In short"), Block::Text(counts)];
    blocks.extend(ratios.map(Block::Figure));
    blocks.push(Block::Table(tables::key_ratios(results), "left"));
    blocks
}

fn servers(results: &Results) -> Vec<Block> {
    let is_restart = |chart: &Chart| matches!(chart.id.as_str(), "recovery" | "full-rate");
    let (restarts, loads): (Vec<_>, Vec<_>) =
        figures::charts(results).into_iter().partition(is_restart);
    let figures = |charts: Vec<Chart>| charts.into_iter().map(|c| Block::Figure(Figure::of(&c)));
    let mut blocks = Vec::new();
    if !loads.is_empty() {
        blocks.push(Block::heading(2, "Servers under load"));
        blocks.extend(figures(loads));
    }
    let mut shown = |title: &str, table: crate::table::Table| {
        if !table.is_empty() {
            blocks.extend([Block::heading(2, title), Block::Table(table, "")]);
        }
    };
    for (kind, title) in TABLES {
        shown(title, tables::commands(results, kind));
    }
    shown("Memory of a key, or of an element", tables::memory(results));
    if results.plan.same_server {
        shown("Round by round, in the same server", tables::rounds(results));
    }
    if !restarts.is_empty() {
        blocks.push(Block::heading(2, "Recovery"));
        blocks.extend(figures(restarts));
        let every = tables::recovery(results);
        blocks.push(Block::Folded("Every restart, with what came back", every));
    }
    blocks
}

fn outcomes(results: &Results, findings: &[Finding]) -> Vec<Block> {
    if findings.is_empty() {
        return Vec::new();
    }
    let of = |verdict| tables::outcome(results, findings, verdict);
    vec![
        Block::heading(2, "Where Perdura is slower"),
        Block::Text(
            "Every comparison in which the other side was better in all rounds. The figures without durability belong \
             here too: they are the price of it."
                .into(),
        ),
        Block::table(of(Verdict::Lost), "left"),
        Block::heading(2, "Where Perdura is faster"),
        Block::Text("Perdura was better in all rounds.".into()),
        Block::table(of(Verdict::Won), "left"),
        Block::heading(2, "Undecided"),
        Block::Folded("Rounds disagree, or there was one round only", of(Verdict::Even)),
    ]
}

fn media(results: &Results) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (n, study) in results.device.iter().enumerate() {
        let mark = if study.emulated { " (emulated)" } else { "" };
        blocks.push(Block::heading(2, &format!("What the medium can do: {}{mark}", study.dir)));
        blocks.push(Block::Text(format!(
            "{}, persistence domain {}, lines written back by {}. {}.",
            study.medium,
            study.domain,
            study.write_back,
            study.note.trim_end_matches('.')
        )));
        blocks.extend(tables::costs(study).into_iter().map(Block::Text));
        blocks.extend(device::charts(study, n).iter().map(|c| Block::Figure(Figure::of(c))));
        let rows = tables::device(study);
        blocks.push(Block::OnPage("Every row: method, pattern, block size, threads", rows));
    }
    blocks
}

/// Returns how many rounds the systems ran of a workload, or of any: the minimum and the maximum.
pub(crate) fn rounds(results: &Results, workload: Option<&str>) -> String {
    let loads = results.workloads.iter().map(|load| load.id.as_str());
    let loads = loads.filter(|id| workload.is_none_or(|wanted| wanted == *id));
    let counts: Vec<usize> = loads
        .flat_map(|load| {
            results.systems.iter().map(move |system| results.runs_of(load, &system.id).count())
        })
        .collect();
    match (counts.iter().min(), counts.iter().max()) {
        (Some(fewest), Some(most)) if fewest == most => most.to_string(),
        (Some(fewest), Some(most)) => format!("{fewest} to {most}"),
        _ => "0".into(),
    }
}

fn method(results: &Results) -> Vec<Block> {
    let plan = &results.plan;
    let mut blocks = vec![Block::heading(2, "How it was measured")];
    if !results.runs.is_empty() {
        blocks.push(Block::Text(format!(
            "{} of {} planned rounds, runs of {} s. In every round the systems take turns, in another order; in its turn a \
             system has a fresh server in a fresh directory, which is filled once for all loads with the same data. Load \
             generator: {}. A figure is the median of its rounds, its range goes from the lowest to the highest, and the \
             number behind the range is that of the rounds.",
            rounds(results, None),
            plan.rounds,
            plan.seconds,
            plan.driver
        )));
    }
    blocks.push(Block::heading(3, "Machine, media, versions"));
    blocks.push(Block::Table(tables::machine(&results.machine), "left wrap"));
    if !results.systems.is_empty() {
        blocks.push(Block::heading(3, "Systems"));
        blocks.push(Block::Table(tables::systems(results), "left wrap"));
        blocks.push(Block::heading(3, "Loads"));
        blocks.push(Block::Table(tables::workloads(results), ""));
    }
    blocks.push(Block::heading(3, "Skipped"));
    blocks.push(Block::table(tables::skipped(results), "left wrap"));
    blocks
}
