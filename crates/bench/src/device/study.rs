//! The study of one medium: the grid of methods, patterns, block sizes and threads, and the costs
//! of single steps.
//!
//! An unsupported method is recorded in rows that say why. A study that is stopped returns the rows
//! measured so far.

use super::cell::{self, Timing};
use super::costs;
use super::medium::Medium;
use super::method::Method;
use super::options::{Cell, Options};
use super::target::{self, Refusal, Target};
use crate::results::{DeviceRow, DeviceStudy, FileError, Pattern};
use rustix::io::Errno;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Measures a medium. When `stop` is set, it soon returns what has been measured.
///
/// # Errors
/// The directory is not one or has too little space, or the medium fails. An unsupported method is
/// not an error but a row.
pub(crate) fn study(options: &Options, stop: &AtomicBool) -> Result<DeviceStudy, FileError> {
    let medium = Medium::of(&options.dir)?;
    let mut study = DeviceStudy {
        dir: options.dir.display().to_string(),
        medium: medium.name(),
        domain: medium.domain().to_string(),
        emulated: medium.is_emulated(),
        note: medium.note(),
        write_back: target::map(&medium, Method::Memcpy, 4096)?.write_back().into(),
        size: options.size,
        threads: options.threads.clone(),
        seconds: options.seconds,
        costs: Some(costs::measure(&medium, stop)?),
        rows: Vec::new(),
    };
    let clock = study.costs.as_ref().and_then(|costs| costs.clock_ns).unwrap_or(0.0);
    let timing = Timing { seconds: options.seconds, clock: clock.round() as u64 };
    let partitions = options.threads.iter().copied().max().unwrap_or(1).max(1) as usize;
    for method in Method::ALL {
        let cells = options.cells_of(method);
        if stop.load(Relaxed) {
            break;
        }
        let mut targets = match target::open(&medium, method, options.size, partitions) {
            Ok(targets) => targets,
            Err(Refusal::Failed(error)) => return Err(error),
            Err(Refusal::NotHere(why)) => {
                let refused = |cell| row(&medium, method, cell, skipped(why.clone()));
                study.rows.extend(cells.into_iter().map(refused));
                continue;
            }
        };
        for cell in cells {
            let row = measure(&medium, method, cell, &mut targets, timing, stop)?;
            if stop.load(Relaxed) {
                break;
            }
            study.rows.push(row);
        }
    }
    Ok(study)
}

fn measure(
    medium: &Medium,
    method: Method,
    cell: Cell,
    targets: &mut [Target],
    timing: Timing,
    stop: &AtomicBool,
) -> Result<DeviceRow, FileError> {
    let targets = &mut targets[..cell.threads.max(1) as usize];
    let figures = match cell::run(targets, cell, timing, stop) {
        Ok(figures) => figures,
        Err(error) if is_refusal(&error) && method == Method::Direct => {
            skipped(format!("the device refuses blocks of {} bytes: {error}", cell.block))
        }
        Err(cause) => return Err(FileError::step(&medium.dir, "read or write")(cause)),
    };
    Ok(row(medium, method, cell, figures))
}

/// Returns true if a device refuses a block of this size.
fn is_refusal(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::INVAL.raw_os_error())
}

fn skipped(why: String) -> DeviceRow {
    DeviceRow { skipped: Some(why), ..DeviceRow::default() }
}

/// Returns the row of a cell with these figures.
fn row(medium: &Medium, method: Method, cell: Cell, figures: DeviceRow) -> DeviceRow {
    DeviceRow {
        method: method.title().into(),
        block: cell.block,
        pattern: if cell.access.random { Pattern::Random } else { Pattern::Sequential },
        reads_percent: cell.access.reads_percent,
        threads: cell.threads,
        durable: medium.keeps(method),
        emulated: medium.emulates(method),
        ..figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_study_is_whole_and_leaves_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let options = Options { seconds: 0.01, ..Options::quick(dir.path().into()) };
        let found = study(&options, &AtomicBool::new(false)).expect("measured");
        assert_eq!(found.rows.len(), 3 * 9 + 3 * 6, "3 of 6 methods have reads of their own");
        let bad =
            found.rows.iter().find(|row| row.skipped.is_none() && row.bytes_per_second <= 0.0);
        assert!(bad.is_none(), "{bad:?}");
        assert!(found.rows.iter().all(|row| !(row.emulated && row.durable)));
        assert!(found.costs.is_some_and(|costs| costs.fence_ns > 0.0));
        let stopped = study(&options, &AtomicBool::new(true)).expect("what there is");
        assert!(stopped.rows.is_empty());
        assert_eq!(dir.path().read_dir().expect("a folder").count(), 0);
        let nowhere = Options::quick(dir.path().join("nowhere"));
        let error = study(&nowhere, &AtomicBool::new(false)).expect_err("no folder").to_string();
        assert!(error.contains("No such file"), "{error}");
    }
}
