//! The report of a comparison: one HTML page, CSV files, and the generated parts of the
//! documentation.
//!
//! Everything follows from [`Results`] and nothing else, so that a report can be made again,
//! elsewhere and later, from its JSON file. A chart layer of our own draws the pictures: what is
//! needed is two forms (`lines` and `ranges`), colours that follow the reader's scheme by CSS, a
//! title on every mark and names at the ends of lines, and general libraries write fixed colours
//! and none of the rest.
//!
//! **Must not know** how anything was measured.

mod chart;
mod cli;
mod csv;
mod device;
mod docs;
mod figures;
mod findings;
mod lines;
mod minutes;
mod page;
mod ranges;
mod scale;
mod svg;
pub(crate) mod tables;
mod variants;

pub use cli::Arguments;
pub(crate) use minutes::{MinuteChart, minutes_picture};

use crate::Verdict;
use crate::results::{FileError, Results};
use std::path::{Path, PathBuf};

/// Makes a report as the command line asks.
pub fn run(arguments: &Arguments) -> Verdict {
    let made = Results::load(&arguments.results).and_then(|results| {
        let page = write(&results, &arguments.out)?;
        if let Some(docs) = &arguments.docs {
            write_docs(&results, docs)?;
        }
        if let Some(document) = &arguments.variants {
            variants::write(&results, document)?;
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

/// Writes `report.html` and `csv/*.csv` into a folder, which is made if it is not there. Gives the
/// page's path.
///
/// # Errors
/// A file cannot be written.
pub fn write(results: &Results, folder: &Path) -> Result<PathBuf, FileError> {
    let findings = findings::findings(results);
    let tables = folder.join("csv");
    std::fs::create_dir_all(&tables).map_err(FileError::of(&tables))?;
    let page = folder.join("report.html");
    let mut files = vec![(page.clone(), page::page(results, &findings))];
    let csv = csv::files(results, &findings).into_iter();
    files.extend(csv.map(|(name, text)| (tables.join(name), text)));
    for (path, text) in files {
        std::fs::write(&path, text).map_err(FileError::of(&path))?;
    }
    Ok(page)
}

/// Writes `comparison.md`, `pictures/*.svg` and `report.html` into the folder `results/<date of the
/// measurement>` of a folder of documentation. Of paths on the machine that measured only names are
/// left.
///
/// # Errors
/// A file cannot be written.
pub fn write_docs(results: &Results, folder: &Path) -> Result<(), FileError> {
    let findings = findings::findings(results);
    docs::write(results, &findings, folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results that all parts of the tool are tested with.
    pub(crate) fn sample() -> Results {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sample/results.json");
        Results::load(Path::new(path)).expect("the sample is read")
    }

    #[test]
    fn a_report_is_a_page_and_tables() {
        let folder = tempfile::tempdir().expect("a folder");
        let page = write(&sample(), &folder.path().join("new/out")).expect("written");
        let html = std::fs::read_to_string(page).expect("read");
        assert!(html.contains("<svg") && html.contains("Where Perdura is slower"));
        assert!(folder.path().join("new/out/csv/runs.csv").exists());
    }

    #[test]
    fn a_page_needs_nothing_from_elsewhere() {
        let html = page::page(&sample(), &findings::findings(&sample()));
        for bad in ["<script", "src=", "@import", "url(", "<link", "href=\"http"] {
            assert!(!html.contains(bad), "{bad}");
        }
    }

    #[test]
    fn emulation_and_early_ends_are_said() {
        let results = sample();
        let html = page::page(&results, &findings::findings(&results));
        assert!(html.contains("Emulated: Perdura PMEM") && html.contains("Partial results"));
        assert!(html.contains("Perdura PMEM (emulated)"));
        assert!(html.contains("the server ended: out of memory"));
        assert!(!html.contains("NaN"), "a figure that is none");
    }

    #[test]
    fn a_busy_machine_is_said_at_the_top_and_no_source_is_named_that_is_not_there() {
        let mut results = sample();
        let page = |results: &Results| page::page(results, &findings::findings(results));
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
        let html = page::page(&results, &findings::findings(&results));
        assert!(!html.contains("<img"), "a tag came through");
    }

    #[test]
    fn results_without_anything_still_make_a_page() {
        let nothing = Results { format: crate::results::FORMAT, ..Results::default() };
        let html = page::page(&nothing, &findings::findings(&nothing));
        assert!(html.contains("How it was measured") && !html.contains("<svg"));
    }
}
