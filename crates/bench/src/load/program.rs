//! `perdura-bench load`: runs, prints, writes files.

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use super::options::Options;
use super::outcome::{Class, Ended, Kind, Outcome};
use super::types::Requests;
use super::{Error, check, files, run, table};
use crate::Verdict;

/// How long the server is left alone between two runs.
const BETWEEN_RUNS: Duration = Duration::from_secs(1);

/// Does all runs that the options ask for, until one does not come to its end or `cancel` is set,
/// and reports them.
pub fn execute(options: &Options, cancel: &AtomicBool) -> Verdict {
    // A file that cannot be written is found out before the runs, not after them.
    if let Err(error) = check::check(options).and_then(|()| make_files(options)) {
        return refuse(&error);
    }
    let mut runs = Vec::new();
    for number in 0..options.run_count {
        if number > 0 {
            thread::sleep(BETWEEN_RUNS);
        }
        match run(options, cancel) {
            Ok(outcome) => {
                let whole = outcome.ended == Ended::Done;
                runs.push(outcome);
                if !whole {
                    break;
                }
            }
            Err(error) if runs.is_empty() => return refuse(&error),
            Err(error) => {
                eprintln!("error: {error}");
                break;
            }
        }
    }
    let reported = report(options, &runs);
    let whole = runs.iter().all(Outcome::is_whole) && runs.len() == options.run_count;
    if reported && whole { Verdict::Done } else { Verdict::Partly }
}

fn refuse(error: &Error) -> Verdict {
    eprintln!("error: {error}");
    match error {
        Error::Options(_) => Verdict::Refused,
        _ => Verdict::Partly,
    }
}

/// Makes the files that the options name, empty.
fn make_files(options: &Options) -> Result<(), Error> {
    let histogram = options.hdr_file_prefix.as_deref().map(files::first_histogram);
    let all = [&options.json_out_file, &options.out_file, &histogram];
    for path in all.into_iter().flatten() {
        files::write(path, |_| Ok(())).map_err(|error| Error::Options(error.to_string()))?;
    }
    Ok(())
}

/// Writes and prints what was measured: whether all of it. What one file does not take is not lost
/// for the others, and the tables are printed where theirs does not take them. Files come first:
/// whoever reads the tables may stop reading early.
fn report(options: &Options, runs: &[Outcome]) -> bool {
    let mut failures = Vec::new();
    if let Some(prefix) = &options.hdr_file_prefix {
        let written = |(at, run)| files::write_histograms(prefix, at + 1, run).err();
        failures.extend(runs.iter().enumerate().filter_map(written));
    }
    if let Some(path) = &options.json_out_file {
        failures.extend(files::write_json(path, runs).err());
    }
    let text = text(options, runs);
    let written = options.out_file.as_ref().map(|path| {
        let written = files::write(path, |file| file.write_all(text.as_bytes()));
        written.map_err(|error| failures.push(error))
    });
    let mut whole = failures.is_empty();
    if !matches!(written, Some(Ok(()))) {
        let mut out = io::stdout();
        let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        if let Err(error) = printed {
            eprintln!("error: the tables cannot be printed: {error}");
            whole = false;
        }
    }
    failures.iter().for_each(|error| eprintln!("error: {error}"));
    runs.iter().for_each(|outcome| eprint!("{}", table::remarks(outcome)));
    whole
}

fn text(options: &Options, runs: &[Outcome]) -> String {
    let time = match (options.test_time, options.requests) {
        (Some(seconds), None) => format!("{seconds:<9} Seconds"),
        (_, requests) => {
            let requests = requests.unwrap_or(Requests::Each(super::REQUESTS)).to_string();
            format!("{requests:<9} Requests per client")
        }
    };
    let mut text = format!(
        "{:<9} Threads\n{:<9} Connections per thread\n{time}\n",
        options.threads, options.clients
    );
    for (title, outcome) in titled(options, runs) {
        text.push_str(&table::table(options, &outcome, &title));
        if !options.hide_histogram {
            text.push_str(&table::distribution(&outcome));
        }
    }
    text
}

/// Returns what is printed, with memtier_benchmark's titles: of several runs the best, the worst
/// and all together.
fn titled(options: &Options, runs: &[Outcome]) -> Vec<(String, Outcome)> {
    let rate = |outcome: &&Outcome| outcome.totals.per_second;
    let order = |a: &&Outcome, b: &&Outcome| rate(a).total_cmp(&rate(b));
    let (Some(best), Some(worst)) = (runs.iter().max_by(order), runs.iter().min_by(order)) else {
        return Vec::new();
    };
    if runs.len() == 1 {
        return vec![("ALL STATS".into(), best.clone())];
    }
    let mut titled = Vec::new();
    if options.print_all_runs {
        let each = runs.iter().enumerate();
        titled.extend(each.map(|(at, run)| (format!("RUN #{} RESULTS", at + 1), run.clone())));
    }
    titled.push(("BEST RUN RESULTS".into(), best.clone()));
    titled.push(("WORST RUN RESULTS".into(), worst.clone()));
    titled.push((format!("AGGREGATED AVERAGE RESULTS ({} runs)", runs.len()), together(runs)));
    titled
}

/// Returns all runs as one that took as long as all of them.
fn together(runs: &[Outcome]) -> Outcome {
    let mut whole =
        Outcome { seconds: runs.iter().map(|run| run.seconds).sum(), ..Outcome::default() };
    whole.totals = Class::new("Totals", Kind::Other);
    for run in runs {
        whole.totals.add(&run.totals);
        for (at, class) in run.classes.iter().enumerate() {
            if whole.classes.len() == at {
                whole.classes.push(Class::new(&class.name, class.kind));
            }
            whole.classes[at].add(class);
        }
    }
    let seconds = whole.seconds;
    whole.classes.iter_mut().chain([&mut whole.totals]).for_each(|class| class.finish(seconds));
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(operations: u64) -> Outcome {
        let mut totals = Class::new("Totals", Kind::Other);
        totals.operations = operations;
        totals.finish(1.0);
        Outcome { seconds: 1.0, totals, ..Outcome::default() }
    }

    #[test]
    fn several_runs_have_a_best_a_worst_and_a_mean() {
        let runs = [run_of(200), run_of(100), run_of(600)];
        let shown = |options: &Options| {
            let titled = titled(options, &runs).into_iter();
            titled
                .map(|(title, run)| format!("{title}: {}", run.totals.per_second))
                .collect::<Vec<_>>()
        };
        let expected = [
            "BEST RUN RESULTS: 600",
            "WORST RUN RESULTS: 100",
            "AGGREGATED AVERAGE RESULTS (3 runs): 300",
        ];
        assert_eq!(shown(&Options::default()), expected);
        let all = Options { print_all_runs: true, ..Options::default() };
        assert_eq!(shown(&all)[..2], ["RUN #1 RESULTS: 200", "RUN #2 RESULTS: 100"]);
        assert_eq!(titled(&Options::default(), &runs[..1])[0].0, "ALL STATS");
    }
}
