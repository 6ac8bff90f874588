//! The progress of a long run: a bar on a terminal, lines elsewhere.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanCount, HumanDuration, ProgressBar, ProgressStyle};

/// The interval of lines if standard error is not a terminal.
const LINES: Duration = Duration::from_secs(10);

/// Returns a bar over the bytes to be verified. It shows on a terminal only.
pub(crate) fn bar(bytes: u64, quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(bytes);
    let form = "{msg:8} {bar:32} {percent:>3} %  {binary_bytes} of {binary_total_bytes}  \
                {binary_bytes_per_sec}  {eta} left";
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// Progress in bytes or keys: a bar on a terminal, elsewhere a line periodically.
pub(crate) struct Watched {
    bar: ProgressBar,
    total: u64,
    is_bytes: bool,
    lines: Option<Instant>,
    began: Instant,
}

impl Watched {
    /// Begins to show progress towards `total`; nothing if `quiet`.
    pub(crate) fn new(total: u64, is_bytes: bool, quiet: bool) -> Watched {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(total) };
        let form = if is_bytes {
            "{bar:32} {percent:>3} %  {binary_bytes} of {binary_total_bytes}  \
             {binary_bytes_per_sec}  {eta} left"
        } else {
            "{bar:32} {percent:>3} %  {human_pos} of {human_len} keys  {per_sec}  {eta} left"
        };
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style);
        }
        let now = Instant::now();
        let lines = (!quiet && !stderr().is_terminal()).then_some(now);
        Watched { bar, total, is_bytes, lines, began: now }
    }

    /// Shows the amount done so far.
    pub(crate) fn set(&mut self, done: u64) {
        self.bar.set_position(done);
        if self.lines.is_some_and(|last| last.elapsed() >= LINES) {
            self.lines = Some(Instant::now());
            eprintln!("{}", line(done, self.total, self.is_bytes, self.began.elapsed()));
        }
    }

    /// Removes the bar from the screen.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// Returns a line with the amount done, the speed, and the remaining time.
fn line(done: u64, total: u64, is_bytes: bool, took: Duration) -> String {
    let amount = |amount: u64| match is_bytes {
        true => HumanBytes(amount).to_string(),
        false => format!("{} keys", HumanCount(amount)),
    };
    let rate = done as f64 / took.as_secs_f64().max(0.001);
    let percent = done.saturating_mul(100) / total.max(1);
    let left = total.saturating_sub(done) as f64 / rate.max(1.0);
    format!(
        "{percent} %: {} of {}, {}/s, {} left",
        amount(done),
        amount(total),
        amount(rate as u64),
        HumanDuration(Duration::from_secs_f64(left))
    )
}

#[cfg(test)]
mod tests {
    use super::line;
    use std::time::Duration;

    #[test]
    fn a_line_says_how_much_how_fast_and_how_long() {
        let check = |done, total, is_bytes, seconds, expect: &str| {
            assert_eq!(line(done, total, is_bytes, Duration::from_secs(seconds)), expect);
        };
        check(500, 2000, false, 5, "25 %: 500 keys of 2,000 keys, 100 keys/s, 15 seconds left");
        check(1 << 20, 4 << 20, true, 1, "25 %: 1.00 MiB of 4.00 MiB, 1.00 MiB/s, 3 seconds left");
        check(0, 0, false, 0, "0 %: 0 keys of 0 keys, 0 keys/s, 0 seconds left");
    }
}
