//! The tables of a report that are not the figures of a chart: ratios, machine, systems, loads,
//! what is missing.

use super::chart::label;
use super::findings::{Finding, Verdict};
use super::ranges::{Row, written};
use super::scale::{Unit, digits};
use super::svg::escape;
use crate::results::{DeviceStudy, Results};

/// Returns a table of cells that are HTML already.
pub(crate) fn table(class: &str, head: &[&str], rows: &[Vec<String>]) -> String {
    let head: String = head.iter().map(|cell| format!("<th scope=\"col\">{cell}</th>")).collect();
    let mut html = format!(
        "<div class=\"scroll\"><table class=\"{class}\"><thead><tr>{head}</tr></thead><tbody>\n"
    );
    for row in rows {
        let cells: String = row.iter().map(|cell| format!("<td>{cell}</td>")).collect();
        html += &format!("<tr>{cells}</tr>\n");
    }
    html + "</tbody></table></div>"
}

/// Returns the ratios that matter most, those that were not measured too.
pub(crate) fn key_ratios(results: &Results) -> String {
    let row = |row: crate::results::summary::KeyRatio| {
        let found = row.found.map_or("not measured".to_owned(), |found| written(&found));
        vec![escape(&row.what), escape(&found)]
    };
    let rows: Vec<_> = results.key_ratios().into_iter().map(row).collect();
    table("left", &["ratio", "here"], &rows)
}

/// Ratios that a picture shows, in figures.
pub(crate) fn ratios(rows: &[Row]) -> String {
    let row = |row: &Row| vec![escape(&row.name), escape(&written(&row.ratio))];
    let rows: Vec<_> = rows.iter().map(row).collect();
    table("left", &["ratio", "here"], &rows)
}

/// Returns the name of a system with what it is not.
pub(crate) fn name(results: &Results, system: usize) -> String {
    results.systems.get(system).map_or_else(String::new, |s| label(&s.title, s.emulated.is_some()))
}

/// Comparisons of one outcome, the clearest first.
pub(crate) fn outcome(results: &Results, findings: &[Finding], verdict: Verdict) -> String {
    let mut found: Vec<&Finding> = findings.iter().filter(|f| f.verdict() == verdict).collect();
    let clearness = |f: &&Finding| -f.ratio.median.ln().abs();
    found.sort_by(|a, b| clearness(a).total_cmp(&clearness(b)));
    if found.is_empty() {
        return "<p>None.</p>".into();
    }
    let row = |f: &&Finding| {
        let mut figure = written(&f.ratio);
        if f.saturated {
            figure += ", generator saturated";
        }
        vec![
            escape(&f.what),
            escape(&name(results, f.ours)),
            escape(&name(results, f.theirs)),
            escape(&figure),
        ]
    };
    let rows: Vec<_> = found.iter().map(row).collect();
    table("left", &["load and figure", "Perdura", "against", "ratio, better above 1×"], &rows)
}

fn code(words: &[String]) -> String {
    format!("<code>{}</code>", escape(&words.join(" ")))
}

/// Returns where it was measured and with what.
pub(crate) fn machine(results: &Results) -> String {
    let m = &results.machine;
    let kind = if m.virtual_machine { "virtual machine" } else { "machine" };
    let mut rows = vec![
        vec!["processor".into(), escape(&format!("{}, {} cores ({kind})", m.cpu, m.cores))],
        vec!["memory".into(), escape(&Unit::Bytes.show(m.memory as f64))],
        vec!["system".into(), escape(&format!("{}, {}", m.distribution, m.kernel))],
        vec!["load before".into(), digits(m.load_before)],
        vec!["began".into(), escape(&m.began)],
        vec!["took".into(), Unit::Seconds.show(m.seconds)],
        vec!["commit".into(), escape(m.commit.as_deref().unwrap_or("unknown"))],
        vec!["command line".into(), code(&m.command_line)],
    ];
    for place in &m.places {
        let dax = if place.dax { ", DAX" } else { "" };
        let text = format!(
            "{}: {} on {}{dax}, {}",
            place.path, place.file_system, place.device, place.medium
        );
        rows.push(vec![escape(&format!("medium “{}”", place.id)), escape(&text)]);
    }
    for version in &m.versions {
        rows.push(vec![escape(&version.program), escape(&version.text)]);
    }
    table("left wrap", &["", ""], &rows)
}

/// Returns the systems with their promises and command lines.
pub(crate) fn systems(results: &Results) -> String {
    let row = |system: &crate::results::System| {
        let domain = system.domain.as_deref().unwrap_or("–");
        let emulated =
            system.emulated.as_ref().map_or("no".into(), |what| format!("EMULATED: {what}"));
        vec![
            escape(&system.title),
            escape(&system.durability.to_string()),
            escape(&system.place),
            escape(domain),
            escape(&emulated),
            code(&system.command),
        ]
    };
    let rows: Vec<_> = results.systems.iter().map(row).collect();
    let head =
        ["system", "durable when the reply leaves", "medium", "domain", "emulated", "command"];
    table("left wrap", &head, &rows)
}

/// Returns the loads.
pub(crate) fn workloads(results: &Results) -> String {
    let row = |w: &crate::results::Workload| {
        vec![
            escape(&w.id),
            format!("{} %", w.writes_percent),
            Unit::Bytes.show(w.value_bytes as f64),
            w.keys.to_string(),
            escape(&w.distribution),
            w.clients.to_string(),
            w.threads.to_string(),
            w.pipeline.to_string(),
            super::page::rounds(results, Some(&w.id)),
        ]
    };
    let rows: Vec<_> = results.workloads.iter().map(row).collect();
    let head = [
        "load",
        "writes",
        "value",
        "keys",
        "keys are chosen",
        "clients",
        "generator threads",
        "pipeline",
        "rounds",
    ];
    table("", &head, &rows)
}

/// Returns what came back after each kill.
pub(crate) fn recovery(results: &Results) -> String {
    let title = |id: &str| {
        let at = results.systems.iter().position(|system| system.id == id);
        at.map_or_else(|| id.to_owned(), |at| name(results, at))
    };
    let seconds =
        |value: Option<f64>| value.map_or("–".into(), |value| Unit::Seconds.show(value));
    let row = |r: &crate::results::Recovery| {
        vec![
            escape(&title(&r.system)),
            Unit::Bytes.show(r.target_bytes as f64),
            Unit::Bytes.show(r.stored_bytes as f64),
            seconds(r.first_get_seconds),
            seconds(r.full_rate_seconds),
            r.acknowledged.to_string(),
            r.keys_checked.to_string(),
            r.keys_lost.to_string(),
            r.keys_wrong.to_string(),
        ]
    };
    let rows: Vec<_> = results.recovery.iter().map(row).collect();
    let head = [
        "system",
        "data",
        "files",
        "first answer",
        "full rate",
        "acknowledged",
        "checked",
        "lost",
        "wrong",
    ];
    table("", &head, &rows)
}

/// Returns a text of several lines as such: the last lines of a log run into each other otherwise.
fn in_lines(text: &str) -> String {
    escape(text).lines().map(str::trim).collect::<Vec<_>>().join("<br>")
}

/// Returns what is not there, and why.
pub(crate) fn skipped(results: &Results) -> String {
    let mut rows: Vec<_> =
        results.skipped.iter().map(|s| vec![escape(&s.what), in_lines(&s.why)]).collect();
    for study in &results.device {
        let mut reasons: Vec<(&str, &str, usize)> = Vec::new();
        for row in &study.rows {
            let Some(why) = row.skipped.as_deref() else { continue };
            match reasons
                .iter_mut()
                .find(|(method, reason, _)| (*method, *reason) == (&row.method, why))
            {
                Some((.., count)) => *count += 1,
                None => reasons.push((&row.method, why, 1)),
            }
        }
        rows.extend(reasons.into_iter().map(|(method, why, count)| {
            vec![escape(&format!("{}: {method}, {count} rows", study.dir)), escape(why)]
        }));
    }
    if rows.is_empty() {
        "<p>Nothing.</p>".into()
    } else {
        table("left wrap", &["what", "why"], &rows)
    }
}

/// Returns every row of a medium.
pub(crate) fn device(study: &DeviceStudy) -> String {
    let us = |ns: f64| Unit::Seconds.show(ns * 1e-9);
    let row = |r: &crate::results::DeviceRow| {
        let block = if r.block == 0 { "–".into() } else { Unit::Bytes.show(r.block as f64) };
        let what =
            [escape(&r.method), crate::device::pattern_name(r), block, r.threads.to_string()];
        let figures = match &r.skipped {
            Some(why) => vec![format!("skipped: {}", escape(why))],
            None => vec![
                format!(
                    "{} ({} to {})",
                    Unit::BytesPerSecond.show(r.bytes_per_second),
                    Unit::BytesPerSecond.show(r.low),
                    Unit::BytesPerSecond.show(r.high)
                ),
                Unit::Rate.show(r.iops),
                us(r.mean_ns),
                us(r.p99_ns as f64),
                us(r.p99_999_ns as f64),
                if r.durable {
                    "yes"
                } else if r.emulated {
                    "emulated"
                } else {
                    "no"
                }
                .into(),
            ],
        };
        [&what[..], &figures].concat()
    };
    let rows: Vec<_> = study.rows.iter().map(row).collect();
    let head = [
        "method",
        "pattern",
        "block",
        "threads",
        "bandwidth",
        "IOPS",
        "mean",
        "p99",
        "p99.999",
        "durable",
    ];
    table("", &head, &rows)
}
