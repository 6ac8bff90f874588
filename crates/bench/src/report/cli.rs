//! The command line of `perdura-bench report`.

use std::path::PathBuf;

/// Makes the page and its pictures from results that were measured before.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The results: results.json of a comparison
    pub(crate) results: PathBuf,
    /// The directory for report.html
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Also write comparison.md, pictures/*.svg and report.html to DIR/results/DATE, by the date
    /// of the measurement
    #[arg(long, value_name = "DIR")]
    pub(crate) docs: Option<PathBuf>,
}
