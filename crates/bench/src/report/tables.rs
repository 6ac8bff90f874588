//! The tables of a report that do not belong to a chart: ratios, machine, systems, loads, what is
//! missing.

use super::chart::label;
use super::findings::{Finding, Verdict};
use super::ranges::{with_range, written};
use crate::results::summary::Metric;
use crate::results::{
    DeviceRow, DeviceStudy, Machine, Pattern, Recovery, Results, System, Workload, WorkloadKind,
};
use crate::table::{Table, cells};
use crate::units::{Unit, digits};

/// The minimum number of operations for a percentile with five nines.
const FIVE_NINES: u64 = 100_000;

/// Returns the most important ratios, including those that were not measured.
pub(crate) fn key_ratios(results: &Results) -> Table {
    let mut table = Table::new(["ratio", "here (lowest to highest; rounds)"]);
    for row in results.key_ratios() {
        table.add(vec![row.what, row.found.map_or("not measured".into(), |found| written(&found))]);
    }
    table
}

/// Returns the title of a system, marked if it is emulated.
pub(crate) fn name(results: &Results, system: usize) -> String {
    results.systems.get(system).map_or_else(String::new, |s| label(&s.title, s.emulated.is_some()))
}

/// Returns the comparisons with one outcome, the clearest first.
pub(crate) fn outcome<'a>(
    results: &Results,
    findings: impl IntoIterator<Item = &'a Finding>,
    verdict: Verdict,
) -> Table {
    let of_it = findings.into_iter().filter(|finding| finding.verdict() == verdict);
    let mut found: Vec<&Finding> = of_it.collect();
    let clearness = |f: &&Finding| -f.ratio.median.ln().abs();
    found.sort_by(|a, b| clearness(a).total_cmp(&clearness(b)));
    let mut table = Table::new(["load and figure", "Perdura", "against", "ratio, better above 1×"]);
    for f in found {
        table.add(vec![f.what.clone(), name(results, f.ours), name(results, f.theirs), f.figure()]);
    }
    table
}

/// Returns a description of the machine and the programs.
pub(crate) fn machine(m: &Machine) -> Table {
    let kind = if m.virtual_machine { "virtual machine" } else { "machine" };
    let mut table = Table::new(["", ""]);
    table.add(cells!["processor", format!("{}, {} cores ({kind})", m.cpu, m.cores)]);
    table.add(cells!["memory", Unit::Bytes.show(m.memory as f64)]);
    table.add(cells!["system", format!("{}, {}", m.distribution, m.kernel)]);
    table.add(cells!["load before", digits(m.load_before)]);
    table.add(cells!["began", m.began]);
    if m.seconds > 0.0 {
        table.add(cells!["took", Unit::Seconds.show(m.seconds)]);
    }
    table.add(cells!["commit", m.commit.as_deref().unwrap_or("unknown")]);
    table.add(cells!["command line", format!("`{}`", m.command_line.join(" "))]);
    for place in &m.places {
        let dax = if place.dax { ", DAX" } else { "" };
        let (path, system, device) = (&place.path, &place.file_system, &place.device);
        let text = format!("{path}: {system} on {device}{dax}, {}", place.medium);
        table.add(cells![format!("medium “{}”", place.id), text]);
    }
    m.versions.iter().for_each(|version| table.add(cells![version.program, version.text]));
    table
}

/// Returns the systems with their durability and command lines.
pub(crate) fn systems(results: &Results) -> Table {
    let head =
        ["system", "durable when the reply leaves", "medium", "domain", "emulated", "command"];
    let mut table = Table::new(head);
    for System { title, durability, place, domain, emulated, command, .. } in &results.systems {
        let emulated = emulated.as_ref().map_or("no".into(), |what| format!("EMULATED: {what}"));
        let domain = domain.as_deref().unwrap_or("–");
        let command = format!("`{}`", command.join(" "));
        table.add(cells![title, durability, place, domain, emulated, command]);
    }
    table
}

/// Returns the parameters of the loads.
pub(crate) fn workloads(results: &Results) -> Table {
    let head =
        "load, writes, value, keys, keys are chosen, clients, generator threads, pipeline, rounds";
    let mut table = Table::new(head.split(", "));
    for workload in &results.workloads {
        let Workload { id, keys, distribution, clients, threads, pipeline, .. } = workload;
        let writes = format!("{} %", workload.writes_percent);
        let value = Unit::Bytes.show(workload.value_bytes as f64);
        let rounds = super::contents::rounds(results, Some(id));
        let mut row = cells![id, writes, value, keys, distribution];
        row.extend(cells![clients, threads, pipeline, rounds]);
        table.add(row);
    }
    table
}

/// Returns the loads of a kind by system: rate, CPU time and bytes written to disk per operation,
/// up to the end of all deferred work.
pub(crate) fn commands(results: &Results, kind: WorkloadKind) -> Table {
    let head = ["load", "system", "a second", "CPU time of an operation", "bytes for the disk"];
    let mut table = Table::new(head);
    for workload in results.workloads.iter().filter(|workload| workload.kind == kind) {
        for (n, system) in results.systems.iter().enumerate() {
            let of = |metric| results.summary(&workload.id, &system.id, metric);
            let (Some(rate), Some(cpu)) = (of(Metric::Rate), of(Metric::ServerCpu)) else {
                continue;
            };
            let written = results.written(&workload.id, &system.id);
            let written = written.map_or("–".into(), |found| with_range(Unit::Bytes, &found));
            let rate = with_range(Unit::Rate, &rate);
            let cpu = with_range(Unit::Seconds, &cpu.times(1e-6));
            table.add(vec![workload.title.clone(), name(results, n), rate, cpu, written]);
        }
    }
    table
}

/// Returns the bytes of memory per key that each system reports. Loads that used the same data in
/// the same servers share one row.
pub(crate) fn memory(results: &Results) -> Table {
    let mut table = Table::new(["the data of", "system", "bytes of a key or element"]);
    let mut before = Vec::new();
    for workload in &results.workloads {
        let of = |(n, system): (usize, &System)| {
            let found = results.memory(workload, &system.id)?;
            Some([name(results, n), with_range(Unit::Bytes, &found)])
        };
        let rows: Vec<_> = results.systems.iter().enumerate().filter_map(of).collect();
        if rows != before {
            let data = format!("{}, {} keys", workload.title, workload.keys);
            for [system, bytes] in &rows {
                table.add(cells![data, system, bytes]);
            }
        }
        before = rows;
    }
    table
}

/// Returns every run, for servers that are kept from round to round.
pub(crate) fn rounds(results: &Results) -> Table {
    let head = ["load", "system", "round", "a second", "p99.9", "slowest", "memory", "files"];
    let mut table = Table::new(head);
    let time = |us: f64| Unit::Seconds.show(us * 1e-6);
    let bytes = |bytes: Option<u64>| bytes.map_or("–".into(), |b| Unit::Bytes.show(b as f64));
    for run in &results.runs {
        let mut row = cells![run.workload, run.system, run.round + 1, Unit::Rate.show(run.rate())];
        row.extend([time(run.latency.p999), time(run.latency.max)]);
        row.extend([bytes(run.used_bytes), bytes(run.stored_bytes)]);
        table.add(row);
    }
    table
}

/// Returns what each system recovered after each kill.
pub(crate) fn recovery(results: &Results) -> Table {
    let title = |id: &str| {
        let at = results.systems.iter().position(|system| system.id == id);
        at.map_or_else(|| id.to_owned(), |at| name(results, at))
    };
    let seconds = |value: Option<f64>| value.map_or("–".into(), |s| Unit::Seconds.show(s));
    let head = "system, data, files, first answer, full rate, acknowledged, checked, lost, wrong";
    let mut table = Table::new(head.split(", "));
    for row in &results.recovery {
        let Recovery { acknowledged, keys_checked, keys_lost, keys_wrong, .. } = row;
        let mut line = cells![title(&row.system)];
        line.extend([row.target_bytes, row.stored_bytes].map(|b| Unit::Bytes.show(b as f64)));
        line.extend([seconds(row.first_get_seconds), seconds(row.full_rate_seconds)]);
        line.extend(cells![acknowledged, keys_checked, keys_lost, keys_wrong]);
        table.add(line);
    }
    table
}

/// Returns what is missing, and why.
pub(crate) fn skipped(results: &Results) -> Table {
    let mut table = Table::new(["what", "why"]);
    results.skipped.iter().for_each(|skipped| table.add(cells![skipped.what, skipped.why]));
    for study in &results.device {
        let mut reasons: Vec<(&str, &str, usize)> = Vec::new();
        for row in &study.rows {
            let Some(why) = row.skipped.as_deref() else { continue };
            let known = reasons.iter_mut().find(|known| (known.0, known.1) == (&row.method, why));
            match known {
                Some((.., count)) => *count += 1,
                None => reasons.push((&row.method, why, 1)),
            }
        }
        for (method, why, count) in reasons {
            table.add(cells![format!("{}: {method}, {count} rows", study.dir), why]);
        }
    }
    table
}

/// Returns every row of a device study.
pub(crate) fn device(study: &DeviceStudy) -> Table {
    let head = "method, pattern, block, threads, bandwidth, IOPS, mean, p99, p99.999, durable";
    let mut table = Table::new(head.split(", "));
    let time = |ns: f64| Unit::Seconds.show(ns * 1e-9);
    for row in &study.rows {
        let block = if row.block == 0 { "–".into() } else { Unit::Bytes.show(row.block as f64) };
        let mut line = cells![row.method, pattern(row), block, row.threads];
        match &row.skipped {
            Some(why) => line.push(format!("skipped: {why}")),
            None => {
                let [mean, low, high] = [row.bytes_per_second, row.low, row.high]
                    .map(|rate| Unit::BytesPerSecond.show(rate));
                line.push(format!("{mean} ({low} to {high})"));
                line.extend([
                    Unit::Rate.show(row.iops),
                    time(row.mean_ns),
                    time(row.p99_ns as f64),
                ]);
                line.push(match row.ops >= FIVE_NINES {
                    true => time(row.p99_999_ns as f64),
                    false => format!("≤{}", time(row.max_ns as f64)),
                });
                let durable = match (row.durable, row.emulated) {
                    (true, _) => "yes",
                    (false, true) => "emulated",
                    (false, false) => "no",
                };
                line.push(durable.into());
            }
        }
        table.add(line);
    }
    table
}

/// Returns sentences about the cost of single steps on a medium.
pub(crate) fn costs(study: &DeviceStudy) -> Vec<String> {
    let Some(costs) = &study.costs else { return Vec::new() };
    let mut lines = vec![format!(
        "One fence with nothing to wait for takes {:.1} ns, one flush of a line {:.1} ns.",
        costs.fence_ns, costs.flush_ns
    )];
    lines.push(match costs.clock_ns {
        Some(clock) => format!(
            "Mean: the time of all threads by the operations, with no clock between them. Percentiles: of operations that were \
             timed one by one, less the {clock:.0} ns that reading the clock takes; such an operation overlaps no other, so the mean \
             may lie below them."
        ),
        None => "Mean and percentiles: of operations that were timed one by one, with what reading the clock takes.".into(),
    });
    for rows in costs.appends.chunk_by(|a, b| a.method == b.method) {
        let time = |ns: f64| Unit::Seconds.show(ns * 1e-9);
        let each = rows.iter().map(|row| format!("{}: {}", row.batch, time(row.ns_per_record)));
        lines.push(format!(
            "A log append of 64 bytes by {}, by records to a fence: {}.",
            rows[0].method,
            each.collect::<Vec<_>>().join(", ")
        ));
    }
    lines
}

/// Returns fio's name for the pattern of a row.
fn pattern(row: &DeviceRow) -> String {
    let random = match row.pattern {
        Pattern::Composite => return "composite".into(),
        Pattern::Random => "rand",
        Pattern::Sequential => "",
    };
    match row.reads_percent {
        100 => format!("{random}read"),
        0 => format!("{random}write"),
        reads => format!("{random}rw{reads}"),
    }
}
