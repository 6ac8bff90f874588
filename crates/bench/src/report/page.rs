//! The page: one file that needs nothing else, no script and no network, and says so to the
//! browser.
//!
//! Its order is that of a reader's questions: what came out, can I trust it, where exactly, what
//! was lost, how can I do it again. A chart is in a box of its own that scrolls on a narrow
//! screen; its figures stand below it as a table.

use super::chart::Chart;
use super::findings::{Finding, Kind, Verdict};
use super::ranges::{self, Row};
use super::{device, figures, lines, tables};
use crate::results::{DeviceStudy, Family, Results, WorkloadKind};
use crate::table::{Table, escape};
use std::fmt::Write;

/// The looks of charts, on the page and alone.
pub(crate) const CHART_STYLE: &str = include_str!("style.css");
const PAGE_STYLE: &str = include_str!("page.css");

/// The title of the first picture.
pub(crate) const KEY_RATIOS: &str = "The ratios that matter most";

/// The title of the table of durable writes.
pub(crate) const DURABLE: &str =
    "Writes that a disk keeps, to the end of everything that was deferred";

/// Nothing may be loaded, nothing may run.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Returns the whole page.
pub(crate) fn page(results: &Results, findings: &[Finding]) -> String {
    let mut html = String::new();
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <title>Perdura: persistent memory against append-only files</title>\n\
         <style>\n{CHART_STYLE}{PAGE_STYLE}</style>\n</head>\n<body>\n<main>\n"
    );
    head(&mut html, results);
    in_short(&mut html, results, findings);
    servers(&mut html, results);
    outcomes(&mut html, results, findings);
    media(&mut html, results);
    method(&mut html, results);
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

fn head(html: &mut String, results: &Results) {
    let m = &results.machine;
    html.push_str("<h1>Persistent memory against append-only files</h1>\n");
    let kind = if m.virtual_machine { "virtual machine, " } else { "" };
    let facts = format!("{}, {kind}{} cores, {}, {}", m.cpu, m.cores, m.kernel, m.began);
    let _ = writeln!(html, "<p class=\"sub\">{}</p>", escape(&facts));
    html.push_str(
        "<p class=\"lead\">Perdura keeps its keyspace in a heap on persistent memory, on a disk behind a journal, or in DRAM behind Redis’s \
         append-only file: the same server, three ways to persist, with redis-server beside them. Absolute figures belong \
         to the machine; read the ratios.</p>\n",
    );
    for (title, text) in notices(results) {
        notice(html, &title, &text);
    }
    if results.runs.iter().any(|run| run.saturated) {
        let text = "in some runs the load generator was the slower side. Rates of such runs are too near to each other; \
                    compare the CPU time of the server.";
        notice(html, "Generator saturated", text);
    }
    let errors: u64 = results.runs.iter().map(|run| run.errors).sum();
    if errors > 0 {
        notice(html, "Error replies", &format!("{errors} replies of all runs were errors."));
    }
}

fn notice(html: &mut String, title: &str, text: &str) {
    let _ = writeln!(html, "<p class=\"notice\"><b>{}:</b> {}</p>", escape(title), escape(text));
}

/// Returns what all figures must be read with: a title and a sentence each.
pub(crate) fn notices(results: &Results) -> Vec<(String, String)> {
    let mut notices = Vec::new();
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
    let studies = results.device.iter().filter(|study| study.emulated).map(|study| {
        let note = study.note.trim_start_matches("EMULATED: ").to_owned();
        (format!("Emulated: the device study of {}", study.dir), note)
    });
    notices.into_iter().chain(emulated).chain(studies).collect()
}

/// Returns a table, or a word where it is empty.
fn table(table: &Table, classes: &str) -> String {
    if table.is_empty() { "<p>Nothing.</p>".into() } else { table.html(classes) }
}

/// Writes a picture with its caption and its figures.
fn figure(html: &mut String, chart: &Chart) {
    let (title, text) = (escape(&chart.title), escape(&chart.description));
    let hollow = match chart.series.iter().any(|series| series.emulated) {
        true => " Hollow marks: emulated.",
        false => "",
    };
    let _ = write!(
        html,
        "<figure id=\"{}\">\n<figcaption><b>{title}</b>{text}{hollow}</figcaption>\n<div class=\"scroll\" tabindex=\"0\">{}\
         </div>\n{}\n<details><summary>Figures: median (lowest to highest; number of rounds)</summary>{}</details>\n</figure>\n",
        escape(&chart.id),
        lines::draw(chart),
        chart.legend(),
        chart.table()
    );
}

/// Writes a picture of ratios.
fn ratio_figure(html: &mut String, id: &str, title: &str, text: &str, rows: &[Row]) {
    if let Some(svg) = ranges::draw(id, title, text, rows) {
        let (title, text) = (escape(title), escape(text));
        let _ = write!(
            html,
            "<figure id=\"{id}\">\n<figcaption><b>{title}</b>{text}</figcaption>\n\
             <div class=\"scroll\" tabindex=\"0\">{svg}</div>\n\
             <details><summary>Figures: median (lowest to highest; number of rounds)</summary>{}</details>\n</figure>\n",
            tables::ratios(rows).html("left")
        );
    }
}

/// Returns the ratios that matter most, as rows of a picture.
pub(crate) fn key_rows(results: &Results) -> Vec<Row> {
    let pool = results.systems.iter().find(|system| system.family == Family::PerduraPmem);
    let emulated = pool.is_some_and(|system| system.emulated.is_some());
    let row = |row: crate::results::summary::KeyRatio| {
        Some(Row { name: row.what, style: 0, emulated, ratio: row.found? })
    };
    results.key_ratios().into_iter().filter_map(row).collect()
}

/// Returns the pool against every other system at its heaviest load of writes.
fn heaviest(results: &Results, findings: &[Finding]) -> Vec<Row> {
    let most = |kind: WorkloadKind| {
        let of = results.workloads.iter().filter(|workload| workload.kind == kind);
        of.max_by_key(|workload| workload.writes_percent).map(|workload| workload.title.as_str())
    };
    let loads = [(WorkloadKind::Throughput, Kind::Rate), (WorkloadKind::Latency, Kind::Mean)];
    // Variants of the pool stand in the tables: here nobody could tell their rows apart.
    let pool = results.systems.iter().position(|system| system.family == Family::PerduraPmem);
    let mut rows = Vec::new();
    for (load, kind) in loads {
        let Some(title) = most(load) else { continue };
        let fits =
            |f: &&Finding| Some(f.ours) == pool && f.kind == kind && f.what.starts_with(title);
        for f in findings.iter().filter(fits) {
            let what = if kind == Kind::Rate { "writes per second" } else { "mean write latency" };
            rows.push(Row {
                name: format!("{what}, to {}", results.systems[f.theirs].title),
                style: f.theirs,
                emulated: results.systems[f.ours].emulated.is_some(),
                ratio: f.ratio,
            });
        }
    }
    rows
}

fn in_short(html: &mut String, results: &Results, findings: &[Finding]) {
    if results.systems.is_empty() {
        return;
    }
    html.push_str("<h2>In short</h2>\n");
    let count = |verdict| findings.iter().filter(|f| f.verdict() == verdict).count();
    let _ = writeln!(
        html,
        "<p>Of {} comparisons Perdura has the better figure in <span class=\"won\">{}</span>, the worse one in \
         <a href=\"#lost\" class=\"lost\">{}</a>, and in <span class=\"even\">{}</span> the rounds do not agree or are too few.</p>",
        findings.len(),
        count(Verdict::Won),
        count(Verdict::Lost),
        count(Verdict::Even)
    );
    let text = "Each ratio is taken round by round between runs that stood next to each other in time: the mark is \
                the median, the bar goes from the lowest to the highest.";
    ratio_figure(html, "ratios", KEY_RATIOS, text, &key_rows(results));
    html.push_str(&tables::key_ratios(results).html("left"));
    let text = "Perdura on the heap, with nothing but writes, divided by each other system; for latency the other way round. \
                To the right is better for the heap.";
    ratio_figure(
        html,
        "heaviest",
        "The heap against every other system",
        text,
        &heaviest(results, findings),
    );
}

fn servers(html: &mut String, results: &Results) {
    let is_restart = |chart: &Chart| matches!(chart.id.as_str(), "recovery" | "full-rate");
    let (restarts, loads): (Vec<_>, Vec<_>) =
        figures::charts(results).into_iter().partition(is_restart);
    if !loads.is_empty() {
        html.push_str("<h2>Servers under load</h2>\n");
        loads.iter().for_each(|chart| figure(html, chart));
    }
    let durable = tables::durable(results);
    if !durable.is_empty() {
        let _ = writeln!(html, "<h2>{DURABLE}</h2>\n{}", durable.html(""));
    }
    if !restarts.is_empty() {
        html.push_str("<h2>Recovery</h2>\n");
        restarts.iter().for_each(|chart| figure(html, chart));
        let _ = writeln!(
            html,
            "<details><summary>Every restart, with what came back</summary>{}</details>",
            tables::recovery(results).html("")
        );
    }
}

fn outcomes(html: &mut String, results: &Results, findings: &[Finding]) {
    if findings.is_empty() {
        return;
    }
    html.push_str(
        "<h2 id=\"lost\">Where Perdura is slower</h2>\n<p>Every comparison in which the other side was better in all rounds. The \
         figures without durability belong here too: they are the price of it.</p>\n",
    );
    html.push_str(&table(&tables::outcome(results, findings, Verdict::Lost), "left"));
    html.push_str("<h2>Where Perdura is faster</h2>\n<p>Perdura was better in all rounds.</p>\n");
    html.push_str(&table(&tables::outcome(results, findings, Verdict::Won), "left"));
    html.push_str("<h2>Undecided</h2>\n<p>Rounds disagree, or there was one round only.</p>\n<details><summary>Show</summary>");
    html.push_str(&table(&tables::outcome(results, findings, Verdict::Even), "left"));
    html.push_str("</details>\n");
}

fn media(html: &mut String, results: &Results) {
    for (n, study) in results.device.iter().enumerate() {
        let mark = if study.emulated { " (emulated)" } else { "" };
        let title = format!("What the medium can do: {}{mark}", study.dir);
        let _ = writeln!(html, "<h2>{}</h2>", escape(&title));
        let note = format!(
            "{}, persistence domain {}, lines written back by {}. {}",
            study.medium, study.domain, study.write_back, study.note
        );
        let _ = writeln!(html, "<p>{}.</p>", escape(note.trim_end_matches('.')));
        for sentence in tables::costs(study) {
            let _ = writeln!(html, "<p>{}</p>", escape(&sentence));
        }
        medium_charts(html, study, n);
    }
}

fn medium_charts(html: &mut String, study: &DeviceStudy, n: usize) {
    for chart in device::charts(study, n) {
        figure(html, &chart);
    }
    let _ = writeln!(
        html,
        "<details><summary>Every row: method, pattern, block size, threads</summary>{}</details>",
        tables::device(study).html("")
    );
}

/// Returns how many rounds the systems had with a workload, or with any: the fewest and the most.
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

fn method(html: &mut String, results: &Results) {
    html.push_str("<h2>How it was measured</h2>\n");
    let plan = &results.plan;
    if !results.runs.is_empty() {
        let _ = writeln!(
            html,
            "<p>{} of {} planned rounds, runs of {} s. In every round the systems take turns, in another order; in its turn a \
             system has a fresh server in a fresh directory, which is filled once for all loads with the same data. Load \
             generator: {}. A figure is the median of its rounds, its range goes from the lowest to the highest, and the \
             number behind the range is that of the rounds.</p>",
            rounds(results, None),
            plan.rounds,
            plan.seconds,
            escape(&plan.driver)
        );
    }
    html.push_str("<h3>Machine, media, versions</h3>\n");
    html.push_str(&tables::machine(results).html("left wrap"));
    if !results.systems.is_empty() {
        html.push_str("<h3>Systems</h3>\n");
        html.push_str(&tables::systems(results).html("left wrap"));
        html.push_str("<h3>Loads</h3>\n");
        html.push_str(&tables::workloads(results).html(""));
    }
    html.push_str("<h3>Skipped</h3>\n");
    html.push_str(&table(&tables::skipped(results), "left wrap"));
}
