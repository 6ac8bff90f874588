//! A line that says how far a run has come, for whoever watches.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::client::Progress;
use super::options::Options;

/// How often the line is written again.
const EACH: Duration = Duration::from_millis(250);

/// How soon the end of a run is noticed.
const LOOK: Duration = Duration::from_millis(5);

/// What all threads have done up to a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    seconds: f64,
    operations: u64,
    bytes: u64,
    nanos: u64,
}

impl Sum {
    fn now(all: &[Arc<Progress>], began: Instant) -> Sum {
        let mut sum = Sum { seconds: began.elapsed().as_secs_f64(), ..Sum::default() };
        for progress in all {
            sum.operations += progress.operations.load(Ordering::Relaxed);
            sum.bytes += progress.bytes.load(Ordering::Relaxed);
            sum.nanos += progress.latency.load(Ordering::Relaxed);
        }
        sum
    }

    /// Operations a second, MiB of replies a second, and milliseconds each, since an earlier
    /// moment.
    fn since(&self, earlier: &Sum) -> (f64, f64, f64) {
        let seconds = (self.seconds - earlier.seconds).max(1e-9);
        let operations = (self.operations - earlier.operations) as f64;
        let bytes = (self.bytes - earlier.bytes) as f64;
        let millis = (self.nanos - earlier.nanos) as f64 / 1e6 / operations.max(1.0);
        (operations / seconds, bytes / seconds / f64::from(1 << 20), millis)
    }
}

/// Waits until the run is over and shows meanwhile how far it is: on a terminal only.
pub(crate) fn watch(
    options: &Options,
    all: &[Arc<Progress>],
    began: Instant,
    is_over: impl Fn() -> bool,
) {
    let bar = if options.quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    let mut last = Sum::default();
    let mut shown = Instant::now();
    while !is_over() {
        if !bar.is_hidden() && shown.elapsed() >= EACH {
            shown = Instant::now();
            let now = Sum::now(all, began);
            bar.set_message(line(options, &now, &last));
            bar.tick();
            last = now;
        }
        thread::sleep(LOOK);
    }
    bar.finish_and_clear();
}

fn line(options: &Options, now: &Sum, last: &Sum) -> String {
    let whole = match options.test_time {
        Some(time) => format!("{:.0} of {time} s", now.seconds),
        None => format!("{:.0} s", now.seconds),
    };
    let ((rate, mib, millis), (mean, _, _)) = (now.since(last), now.since(&Sum::default()));
    format!(
        "{whole}  {} operations, {rate:.0} (mean {mean:.0}) a second, {mib:.1} MiB/s of replies, {millis:.3} ms",
        now.operations
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_since_the_last_look() {
        let last = Sum { seconds: 1.0, operations: 100, bytes: 0, nanos: 0 };
        let now = Sum { seconds: 3.0, operations: 500, bytes: 4 << 20, nanos: 800_000_000 };
        assert_eq!(now.since(&last), (200.0, 2.0, 2.0));
        let options = Options { test_time: Some(10.0), ..Options::default() };
        let line = line(&options, &now, &last);
        assert!(line.starts_with("3 of 10 s  500 operations, 200 (mean 167) a second"), "{line}");
    }
}
