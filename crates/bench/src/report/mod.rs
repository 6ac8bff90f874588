//! The report of a comparison: one HTML page, and the same document for the documentation.
//!
//! Reports depend only on [`Results`], so that a report can be made again from its JSON file,
//! elsewhere and later. The pictures are drawn here: they need two forms (`lines` and `ranges`),
//! colours that follow the reader's scheme through CSS, a title on every mark and names at the ends
//! of lines. General chart libraries use fixed colours and offer none of the rest.
//!
//! **Must not know** how anything was measured.

mod chart;
pub(crate) mod contents;
mod device;
mod docs;
mod document;
mod figures;
mod findings;
mod lines;
mod ranges;
mod scale;
mod svg;
pub(crate) mod tables;

use crate::Verdict;
use crate::results::{FileError, Results};
use std::path::{Path, PathBuf};

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

/// Makes the report that the command line asks for.
pub fn run(arguments: &Arguments) -> Verdict {
    let made = Results::load(&arguments.results).and_then(|results| {
        let page = write(&results, &arguments.out)?;
        if let Some(docs) = &arguments.docs {
            docs::write(&results, docs)?;
        }
        Ok(page)
    });
    match made {
        Ok(page) => {
            println!("{}", page.display());
            Verdict::Done
        }
        Err(error) => {
            eprintln!("perdura-bench: {error}");
            Verdict::Refused
        }
    }
}

/// Writes `report.html` into a folder, which is created if necessary. Returns the path of the page.
///
/// # Errors
/// A file cannot be written.
pub fn write(results: &Results, folder: &Path) -> Result<PathBuf, FileError> {
    std::fs::create_dir_all(folder).map_err(FileError::of(folder))?;
    let page = folder.join("report.html");
    std::fs::write(&page, self::page(results)).map_err(FileError::of(&page))?;
    Ok(page)
}

fn page(results: &Results) -> String {
    document::page(&contents::contents(results, &findings::findings(results)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    #[test]
    fn a_report_is_a_page() {
        let folder = tempfile::tempdir().expect("a folder");
        let page = write(&sample(), &folder.path().join("new/out")).expect("written");
        let html = std::fs::read_to_string(page).expect("read");
        assert!(html.contains("<svg") && html.contains("Where Perdura is slower"));
    }

    #[test]
    fn a_page_needs_nothing_from_elsewhere() {
        let html = page(&sample());
        for bad in ["<script", "src=", "@import", "url(", "<link", "href=\"http"] {
            assert!(!html.contains(bad), "{bad}");
        }
    }

    #[test]
    fn emulation_and_early_ends_are_said() {
        let results = sample();
        let html = page(&results);
        assert!(html.contains("Emulated: Perdura PMEM") && html.contains("Partial results"));
        assert!(html.contains("Perdura PMEM (emulated)"));
        assert!(html.contains("the server ended: out of memory"));
        assert!(!html.contains("NaN"), "a figure that is none");
    }

    #[test]
    fn a_busy_machine_is_said_at_the_top_and_no_source_is_named_that_is_not_there() {
        let mut results = sample();
        assert!(!page(&results).contains("The machine was busy"));
        results.machine.load_before = results.machine.cores as f64 * 0.6;
        let html = page(&results);
        let at = |text: &str| html.find(text).expect("it is there");
        assert!(at("The machine was busy") < at("In short"));
        assert!(!html.to_lowercase().contains("the paper"), "which one?");
    }

    #[test]
    fn names_from_outside_are_text() {
        let mut results = sample();
        let evil = "<img src=x onerror=alert(1)>\"'&";
        results.systems[0].title = evil.into();
        results.systems[1].emulated = Some(evil.into());
        results.machine.cpu = evil.into();
        results.partial = Some(evil.into());
        results.skipped[0].why = evil.into();
        results.warnings = vec![evil.into()];
        results.device[0].dir = evil.into();
        results.device[0].rows[0].method = evil.into();
        results.workloads[0].title = evil.into();
        let html = page(&results);
        assert!(!html.contains("<img"), "a tag came through");
    }

    #[test]
    fn results_without_anything_still_make_a_page() {
        let nothing = Results { format: crate::results::FORMAT, ..Results::default() };
        let html = page(&nothing);
        assert!(html.contains("How it was measured") && !html.contains("<svg"));
    }
}
