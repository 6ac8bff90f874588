//! Results as files: JSON with every figure, and HdrHistogram's own forms, which its tools plot.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError};
use serde::Serialize;

use super::outcome::{Class, Outcome};
use crate::histogram::Histogram;

/// How the name of a log of seconds ends, and that of a table of percentiles.
const LOG: &str = ".hgrm";
const TABLE: &str = ".txt";

/// What the JSON file says.
#[derive(Debug, Serialize)]
struct Report<'a> {
    /// The version of the program.
    version: &'static str,
    /// The command line.
    command_line: Vec<String>,
    runs: &'a [Outcome],
}

/// A file that cannot be written, by its name.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be written: {why}", path.display())]
pub(crate) struct Unwritten {
    path: PathBuf,
    why: io::Error,
}

/// Writes all of a file by `fill`.
pub(crate) fn write(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), Unwritten> {
    let written = File::create(path).and_then(|file| {
        let mut file = BufWriter::new(file);
        fill(&mut file)?;
        file.flush()
    });
    written.map_err(|why| Unwritten { path: path.to_owned(), why })
}

/// Writes all runs as JSON.
pub(crate) fn write_json(path: &Path, runs: &[Outcome]) -> Result<(), Unwritten> {
    let words = std::env::args_os();
    let command_line = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let report = Report { version: env!("CARGO_PKG_VERSION"), command_line, runs };
    write(path, |file| {
        serde_json::to_writer_pretty(&mut *file, &report)?;
        file.write_all(b"\n")
    })
}

/// Returns a file that [`write_histograms`] writes whatever is measured.
pub(crate) fn first_histogram(prefix: &Path) -> PathBuf {
    named(&whole_run(prefix, 1), LOG)
}

fn whole_run(prefix: &Path, run: usize) -> PathBuf {
    named(prefix, &format!("_FULL_RUN_{run}"))
}

/// Writes the histograms of a run under memtier_benchmark's file names: for all requests and for
/// each class a log with one line per second (`.hgrm`), values in nanoseconds, and a table of
/// percentiles (`.txt`), in milliseconds.
pub(crate) fn write_histograms(
    prefix: &Path,
    run: usize,
    outcome: &Outcome,
) -> Result<(), Unwritten> {
    write_class(&whole_run(prefix, run), outcome, &outcome.totals)?;
    for class in outcome.classes.iter().filter(|class| class.operations > 0) {
        let name = format!("_{}_command_run_{run}", class.name);
        write_class(&named(prefix, &name), outcome, class)?;
    }
    Ok(())
}

/// Makes a file's name; the prefix is the beginning of a name, not a folder.
fn named(prefix: &Path, rest: &str) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(rest);
    PathBuf::from(name)
}

fn write_class(stem: &Path, outcome: &Outcome, class: &Class) -> Result<(), Unwritten> {
    write(&named(stem, LOG), |log| write_log(log, outcome.began, class))?;
    write(&named(stem, TABLE), |table| write_table(table, &class.histogram))
}

/// Writes HdrHistogram's log, version 1.3 as its tools call it: each second's histogram.
fn write_log(out: &mut impl Write, began: f64, class: &Class) -> io::Result<()> {
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(began.max(0.0));
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment(&format!("[{}: latencies in nanoseconds]", class.name));
    // The unit in which the log states the highest value of a line: milliseconds.
    builder.with_start_time(start).with_base_time(start).with_max_value_divisor(1e6);
    let mut writer = builder.begin_log_with(out, &mut serializer)?;
    for (at, second) in class.series.iter().enumerate() {
        let (from, length) = (Duration::from_secs(at as u64), Duration::from_secs(1));
        let histogram = second.histogram();
        let written = writer.write_histogram(histogram.inner(), from, length, None);
        written.map_err(|error| match error {
            IntervalLogWriterError::IoError(error) => error,
            other => io::Error::other(format!("{other:?}")),
        })?;
    }
    Ok(())
}

/// Writes HdrHistogram's table of percentiles.
fn write_table(out: &mut impl Write, histogram: &Histogram) -> io::Result<()> {
    let inner = histogram.inner();
    writeln!(
        out,
        "{:>12} {:>14} {:>10} {:>14}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    let mut sum = 0;
    for step in inner.iter_quantiles(5) {
        sum += step.count_since_last_iteration();
        let (millis, quantile) =
            (step.value_iterated_to() as f64 / 1e6, step.quantile_iterated_to());
        write!(out, "{millis:>12.3} {quantile:>2.12} {sum:>10}")?;
        if quantile < 1.0 {
            write!(out, " {:>14.2}", 1.0 / (1.0 - quantile))?;
        }
        writeln!(out)?;
    }
    let mean = inner.mean() / 1e6;
    writeln!(out, "#[Mean    = {mean:>12.3}, StdDeviation   = {:>12.3}]", inner.stdev() / 1e6)?;
    let (max, count) = (inner.max() as f64 / 1e6, inner.len());
    writeln!(out, "#[Max     = {max:>12.3}, Total count    = {count:>12}]")?;
    let (buckets, digits) = (inner.buckets(), inner.sigfig());
    writeln!(out, "#[Buckets = {buckets:>12}, SubBuckets     = {:>12}]", 2 << (digits * 3 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Kind, Second};
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    fn class() -> Class {
        let mut class = Class::new("GET", Kind::Read);
        for second in 0..3_u64 {
            let mut histogram = Histogram::new();
            for micros in 1..=100 {
                histogram.record(Duration::from_micros(micros * (second + 1)));
            }
            class.operations += 100;
            class.histogram.add(&histogram);
            class.series.push(Second {
                operations: 100,
                packed: histogram.pack(),
                ..Second::default()
            });
        }
        class
    }

    #[test]
    fn a_log_has_a_histogram_for_each_second() {
        let mut bytes = Vec::new();
        write_log(&mut bytes, 1000.0, &class()).expect("a log");
        let mut whole = Histogram::new();
        let mut seconds = Vec::new();
        for entry in IntervalLogIterator::new(&bytes) {
            if let LogEntry::Interval(interval) = entry.expect("an entry") {
                seconds.push(interval.start_timestamp().as_secs());
                let text = interval.encoded_histogram();
                whole.add(&Histogram::decode(text, 1).expect("a histogram"));
            }
        }
        assert_eq!(seconds, [0, 1, 2]);
        assert_eq!(whole, class().histogram);
    }

    #[test]
    fn a_table_ends_with_everything() {
        let mut bytes = Vec::new();
        write_table(&mut bytes, &class().histogram).expect("a table");
        let text = String::from_utf8(bytes).expect("text");
        let last = text.lines().rfind(|line| line.starts_with(' ')).expect("a row");
        let words: Vec<_> = last.split_whitespace().collect();
        assert_eq!(words, ["0.300", "1.000000000000", "300"], "{text}");
    }

    #[test]
    fn files_have_memtiers_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut totals = class();
        totals.name = "Totals".into();
        let outcome = Outcome { classes: vec![class()], totals, ..Outcome::default() };
        write_histograms(&folder.path().join("run"), 2, &outcome).expect("files");
        for name in ["run_FULL_RUN_2", "run_GET_command_run_2"] {
            for end in ["hgrm", "txt"] {
                assert!(folder.path().join(format!("{name}.{end}")).exists(), "{name}.{end}");
            }
        }
    }
}
