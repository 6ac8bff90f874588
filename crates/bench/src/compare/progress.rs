//! How far it is: a bar with the time left on a terminal, one line for each result elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// The progress of a comparison. What is still to do is counted in estimated milliseconds.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    on_terminal: bool,
}

impl Progress {
    /// Begins: nothing is done of what is estimated to take this long.
    pub(super) fn new(estimate: Duration) -> Progress {
        let on_terminal = stderr().is_terminal();
        let target =
            if on_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(millis(estimate)), target);
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

    /// Counts a part as done that was estimated to take this long.
    pub(super) fn done(&self, estimate: Duration) {
        self.bar.inc(millis(estimate));
    }

    /// Prints something that belongs next to the bar, or is a line of its own.
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

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
