//! Tables as memtier_benchmark prints them, so that eyes and scripts that know them find their way.

use std::fmt::Write;

use super::options::Options;
use super::outcome::{Class, Ended, Kind, Outcome, per_second};

/// A column's width.
const WIDTH: usize = 16;

/// Returns what one run, or one of several, measured.
pub(crate) fn table(options: &Options, outcome: &Outcome, title: &str) -> String {
    let mut heads = vec!["Ops/sec".to_owned(), "Hits/sec".into(), "Misses/sec".into()];
    heads.push("Avg. Latency".into());
    heads.extend(options.print_percentiles.0.iter().map(|p| format!("p{p} Latency")));
    heads.push("KB/sec".into());
    let name = name_width(outcome);
    let wide = name + heads.len() * WIDTH;
    let mut text = format!("\n{title}\n{}\n{:name$}", "=".repeat(wide), "Type");
    // Writing into a String cannot fail, here and below.
    for head in &heads {
        let _ = write!(text, "{head:>WIDTH$}");
    }
    let _ = write!(text, "\n{}\n", "-".repeat(wide));
    for class in outcome.classes.iter().chain([&outcome.totals]) {
        let _ = writeln!(text, "{}", row(options, outcome, class, name));
    }
    text
}

fn name_width(outcome: &Outcome) -> usize {
    outcome.classes.iter().map(|class| shown(class).len() + 2).max().unwrap_or(0).max(10)
}

/// `SET` is shown as `Sets`.
fn shown(class: &Class) -> String {
    let mut letters = class.name.chars();
    let first: String = letters.next().into_iter().collect();
    let rest = letters.as_str().to_lowercase();
    if class.name == "Totals" { class.name.clone() } else { format!("{first}{rest}s") }
}

fn row(options: &Options, outcome: &Outcome, class: &Class, name: usize) -> String {
    let is_total = class.name == "Totals";
    let reads = class.kind == Kind::Read || is_total;
    let count = |number: u64| {
        if reads { format!("{:.2}", per_second(number, outcome.seconds)) } else { "---".into() }
    };
    let latency = |micros: f64| {
        if class.operations > 0 { format!("{:.5}", micros / 1e3) } else { "---".into() }
    };
    let mut cells =
        vec![format!("{:.2}", class.per_second), count(class.hits), count(class.misses)];
    cells.push(latency(class.latency.mean));
    let percentiles = options.print_percentiles.0.iter();
    cells.extend(percentiles.map(|p| latency(class.histogram.percentile(*p))));
    cells.push(format!("{:.2}", class.kib_per_second(outcome.seconds)));
    let mut text = format!("{:name$}", shown(class));
    for cell in &cells {
        let _ = write!(text, "{cell:>WIDTH$}");
    }
    text
}

/// Returns the distribution of latencies of each class: value and percentage.
pub(crate) fn distribution(outcome: &Outcome) -> String {
    let mut text = format!(
        "\n\nRequest Latency Distribution\n{:10}{:>10}{:>14}\n",
        "Type", "<= msec", "Percent"
    );
    let _ = writeln!(text, "{}", "-".repeat(72));
    for class in &outcome.classes {
        for (micros, percent) in class.histogram.distribution() {
            let _ = writeln!(text, "{:10}{:>10.3}{percent:>14.4}", class.name, micros / 1e3);
        }
        let _ = writeln!(text, "---");
    }
    text
}

/// Returns what must not be overlooked: errors, what is missing, a generator at its limit. Empty
/// where all is well.
pub(crate) fn remarks(outcome: &Outcome) -> String {
    let mut text = String::new();
    for (error, count) in &outcome.errors {
        let _ = writeln!(text, "error: {count} replies were: {error}");
    }
    if outcome.unanswered > 0 {
        let _ = writeln!(text, "error: {} requests had no reply", outcome.unanswered);
    }
    match &outcome.ended {
        Ended::Done => {}
        Ended::Cancelled => {
            let _ = writeln!(text, "the run was cancelled after {:.1} s", outcome.seconds);
        }
        Ended::Failed(why) => {
            let _ =
                writeln!(text, "error: the run broke off after {:.1} s: {why}", outcome.seconds);
        }
    }
    if outcome.unsent > 0 {
        let what = "requests were due and not sent: the rate was not reached";
        let _ = writeln!(text, "warning: {} {what}", outcome.unsent);
    }
    if outcome.generator.saturated {
        let _ = writeln!(
            text,
            "warning: generator saturated: one of its threads used {:.0} % of the CPU time that it could have; the \
             figures are its own limit more than the server's. Take more --threads, or fewer systems on this machine",
            outcome.generator.busiest * 100.0
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Generator;
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn outcome() -> Outcome {
        let mut set = Class::new("SET", Kind::Write);
        let mut get = Class::new("GET", Kind::Read);
        (set.operations, get.operations, get.hits, get.misses) = (10, 20, 15, 5);
        (set.sent, set.received) = (2048, 2048);
        for micros in 1..=10 {
            set.histogram.record(Duration::from_micros(micros * 100));
        }
        let mut totals = Class::new("Totals", Kind::Other);
        for class in [&mut set, &mut get] {
            class.finish(2.0);
            totals.add(class);
        }
        totals.finish(2.0);
        Outcome { seconds: 2.0, classes: vec![set, get], totals, ..Outcome::default() }
    }

    #[test]
    fn a_table_has_memtiers_columns() {
        let table = table(&Options::default(), &outcome(), "ALL STATS");
        let rows: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        let head = "Type Ops/sec Hits/sec Misses/sec Avg. Latency p50 Latency p99 Latency p99.9 Latency KB/sec";
        assert_eq!(rows[3].join(" "), head);
        assert_eq!(rows[5][..4], ["Sets", "5.00", "---", "---"]);
        assert_eq!(rows[5][8], "2.00");
        assert_eq!(rows[6][..4], ["Gets", "10.00", "7.50", "2.50"]);
        assert_eq!(rows[7][..4], ["Totals", "15.00", "7.50", "2.50"]);
        let median: f64 = rows[5][5].parse().expect("a latency");
        assert!((median - 0.5).abs() < 0.001, "{median}");
    }

    #[test]
    fn a_run_of_no_time_has_no_rates() {
        let mut outcome = Outcome { seconds: 0.0, ..outcome() };
        outcome.classes.iter_mut().chain([&mut outcome.totals]).for_each(|class| class.finish(0.0));
        let table = table(&Options::default(), &outcome, "ALL STATS");
        let totals: Vec<&str> = table.lines().last().expect("a row").split_whitespace().collect();
        assert_eq!(totals[..4], ["Totals", "0.00", "0.00", "0.00"]);
        assert_eq!(totals[8], "0.00");
    }

    #[test]
    fn a_run_without_faults_has_no_remarks() {
        assert_eq!(remarks(&outcome()), "");
    }

    #[test]
    fn faults_are_named() {
        let outcome = Outcome {
            errors: BTreeMap::from([("OOM no room".into(), 7)]),
            unanswered: 2,
            unsent: 3,
            ended: Ended::Failed("it went away".into()),
            generator: Generator { busiest: 0.97, saturated: true, ..Generator::default() },
            ..outcome()
        };
        let remarks = remarks(&outcome);
        for part in
            ["7 replies were: OOM no room", "2 requests", "3 requests", "it went away", "97 %"]
        {
            assert!(remarks.contains(part), "{part} in {remarks}");
        }
    }

    #[test]
    fn a_distribution_names_the_class_in_each_line() {
        let text = distribution(&outcome());
        assert!(text.lines().filter(|line| line.starts_with("SET")).count() > 5, "{text}");
    }
}
