//! Progress: a bar with the time left on a terminal, a line for each result elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// The progress of a comparison, in steps: runs and recoveries.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    on_terminal: bool,
}

impl Progress {
    /// Returns the progress with none of its steps done.
    pub(super) fn new(steps: u64) -> Progress {
        let on_terminal = stderr().is_terminal();
        let target =
            if on_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %, {eta} left  {wide_msg}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Progress { bar, on_terminal }
    }

    /// Shows what is being done now.
    pub(super) fn doing(&self, what: String) {
        self.bar.set_message(what);
    }

    /// Counts a step as done.
    pub(super) fn done(&self) {
        self.bar.inc(1);
    }

    /// Prints a line: above the bar on a terminal, on standard error elsewhere.
    pub(super) fn line(&self, text: &str) {
        if self.on_terminal {
            self.bar.println(text);
        } else {
            eprintln!("{text}");
        }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
