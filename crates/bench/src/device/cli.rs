//! The command line of `perdura-bench device`.

use super::options::Options;
use crate::units::parse_seconds;
use std::path::PathBuf;

/// Measures what a medium can do: bandwidth, operations and latency by access method, pattern,
/// block size and threads, and the cost of a fence, a flush and a log append. Files are made in the
/// given directories, and removed.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A directory on the medium; may be given several times [default: /dev/shm and the current
    /// directory]
    #[arg(long, value_name = "DIR")]
    dir: Vec<PathBuf>,
    /// Seconds of each cell [default: 0.25; 0.05 with --quick]
    #[arg(long, value_parser = parse_seconds)]
    seconds: Option<f64>,
    /// Write the results to a file that `perdura-bench report` reads
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Fewer patterns, one thread, short cells: some ten seconds
    #[arg(long)]
    quick: bool,
    /// No progress bar
    #[arg(long)]
    pub(crate) quiet: bool,
}

impl Arguments {
    /// Returns what is to be measured, for each directory.
    pub(crate) fn options(&self) -> Vec<Options> {
        let mut dirs = self.dir.clone();
        if dirs.is_empty() {
            let usual = [PathBuf::from("/dev/shm"), PathBuf::from(".")];
            dirs.extend(usual.into_iter().filter(|dir| dir.is_dir()));
        }
        let of = |dir| {
            let mut options = if self.quick { Options::quick(dir) } else { Options::new(dir) };
            options.seconds = self.seconds.unwrap_or(options.seconds);
            options
        };
        dirs.into_iter().map(of).collect()
    }
}
