//! The command line of `perdura-bench report`.

use std::path::PathBuf;

/// Makes the page, its pictures and CSV files again from results that were measured before.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The results: results.json of a comparison, or what `perdura-bench device --json` wrote
    pub(crate) results: PathBuf,
    /// The folder for report.html and csv/
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Also write comparison.md, pictures/*.svg and report.html to DIR/results/DATE, by the date
    /// of the measurement
    #[arg(long, value_name = "DIR")]
    pub(crate) docs: Option<PathBuf>,
    /// Renew the marked section of a document: a table of all systems compared with the first, and
    /// with a read cache in addition to without
    #[arg(long, value_name = "FILE")]
    pub(crate) variants: Option<PathBuf>,
}
