//! How far a check has come, for whoever watches.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Returns a bar over the bytes that are to be verified. It shows on a terminal only.
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
