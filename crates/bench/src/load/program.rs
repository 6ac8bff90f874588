//! `perdura-bench load`: runs a load, prints its table and writes its file.

use super::options::Options;
use super::outcome::{Class, Ended, Kind, Outcome, per_second};
use super::{Error, run};
use crate::Verdict;
use crate::table::Table;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The contents of the JSON file.
#[derive(Debug, Serialize)]
struct Report<'a> {
    /// The version of the program.
    version: &'static str,
    command_line: Vec<String>,
    #[serde(flatten)]
    outcome: &'a Outcome,
}

/// Runs the load that the options describe, until it ends or `cancel` is set, and reports on it.
pub fn execute(options: &Options, cancel: &AtomicBool) -> Verdict {
    // The file is created before the run, so that an error shows up before anything is measured.
    let made = options.json_out_file.as_deref().map_or(Ok(()), |path| {
        let unwritten = |error| Error::Options(format!("{}: {error}", path.display()));
        File::create(path).map(drop).map_err(unwritten)
    });
    match made.and_then(|()| run(options, cancel)) {
        Ok(outcome) if report(options, &outcome) && outcome.is_whole() => Verdict::Done,
        Ok(_) => Verdict::Partly,
        Err(error) => {
            eprintln!("error: {error}");
            let refused = matches!(error, Error::Options(_));
            if refused { Verdict::Refused } else { Verdict::Partly }
        }
    }
}

/// Writes and prints what was measured. Returns false if any of that fails. The file is written
/// first: a reader of the table may close the pipe early.
fn report(options: &Options, outcome: &Outcome) -> bool {
    let mut whole = true;
    if let Some(path) = &options.json_out_file
        && let Err(error) = write_json(path, outcome)
    {
        eprintln!("error: {} cannot be written: {error}", path.display());
        whole = false;
    }
    let (threads, clients) = (options.threads, options.clients);
    let text = format!(
        "{threads} threads, {clients} connections each, {:.3} seconds\n\n{}",
        outcome.seconds,
        table(options, outcome).markdown()
    );
    let mut out = io::stdout();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        eprintln!("error: the table cannot be printed: {error}");
        whole = false;
    }
    remarks(outcome).iter().for_each(|line| eprintln!("{line}"));
    whole
}

fn write_json(path: &Path, outcome: &Outcome) -> io::Result<()> {
    let words = std::env::args_os();
    let command_line = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let report = Report { version: env!("CARGO_PKG_VERSION"), command_line, outcome };
    let text = serde_json::to_string_pretty(&report)?;
    std::fs::write(path, text + "\n")
}

/// Returns a table of the figures of each class, and of all together.
fn table(options: &Options, outcome: &Outcome) -> Table {
    let percentiles = &options.print_percentiles;
    let mut head = ["", "a second", "hits", "misses", "mean ms"].map(str::to_owned).to_vec();
    head.extend(percentiles.iter().map(|percent| format!("p{percent} ms")));
    head.push("KiB/s".into());
    let mut table = Table::new(head);
    for class in outcome.classes.iter().chain([&outcome.totals]) {
        let Class { operations, hits, misses, latency, histogram, .. } = class;
        let reads = class.kind == Kind::Read || class.name == "Totals";
        let rate = |number| format!("{:.2}", per_second(number, outcome.seconds));
        let found = |number| if reads { rate(number) } else { String::new() };
        let ms = |micros: f64| {
            if *operations > 0 { format!("{:.4}", micros / 1e3) } else { String::new() }
        };
        let mut row = vec![class.name.clone(), rate(*operations), found(*hits), found(*misses)];
        row.push(ms(latency.mean));
        row.extend(percentiles.iter().map(|percent| ms(histogram.percentile(*percent))));
        row.push(rate((class.sent + class.received) / 1024));
        table.add(row);
    }
    table
}

/// Returns lines on errors, missing replies, and a generator at its limit; none if all went well.
fn remarks(outcome: &Outcome) -> Vec<String> {
    let errors = outcome.errors.iter();
    let mut lines: Vec<_> =
        errors.map(|(error, count)| format!("error: {count} replies were: {error}")).collect();
    if outcome.unanswered.count() > 0 {
        lines.push(format!("error: {} requests had no reply", outcome.unanswered.count()));
    }
    match &outcome.ended {
        Ended::Done => {}
        Ended::Cancelled => {
            lines.push(format!("the run was cancelled after {:.1} s", outcome.seconds));
        }
        Ended::Failed(why) => {
            lines.push(format!("error: the run broke off after {:.1} s: {why}", outcome.seconds));
        }
    }
    if outcome.unsent > 0 {
        let what = "requests were due and not sent: the rate was not reached";
        lines.push(format!("warning: {} {what}", outcome.unsent));
    }
    if outcome.generator.saturated {
        lines.push(format!(
            "warning: generator saturated: one of its threads used {:.0} % of the CPU time that it could have; the \
             figures are its own limit more than the server's. Take more --threads, or fewer systems on this machine",
            outcome.generator.busiest * 100.0
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Generator;
    use std::collections::BTreeMap;
    use std::time::Duration;

    #[test]
    fn a_run_of_no_time_has_no_rates() {
        let mut get = Class::new("GET", Kind::Read);
        get.count(1, 1, Duration::from_micros(500));
        let outcome = Outcome { classes: vec![get], ..Outcome::default() };
        let text = table(&Options::default(), &outcome).markdown();
        let row: Vec<&str> = text.lines().nth(2).expect("a row").split_whitespace().collect();
        assert_eq!(row[1..7].join(" "), "GET | 0.00 | 0.00 |", "{text}");
        assert!(remarks(&outcome).is_empty());
    }

    #[test]
    fn faults_are_named() {
        let mut outcome = Outcome {
            errors: BTreeMap::from([("OOM no room".into(), 7)]),
            unsent: 3,
            ended: Ended::Failed("it went away".into()),
            generator: Generator { busiest: 0.97, saturated: true, ..Generator::default() },
            ..Outcome::default()
        };
        outcome.unanswered.record(Duration::from_secs(1));
        let remarks = remarks(&outcome).join("\n");
        for part in
            ["7 replies were: OOM no room", "1 requests", "3 requests", "it went away", "97 %"]
        {
            assert!(remarks.contains(part), "{part} in {remarks}");
        }
    }
}
