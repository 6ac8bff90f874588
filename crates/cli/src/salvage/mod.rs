//! `perdura salvage`: copies the intact data of a damaged pool into a new one, and names the rest.
//!
//! The pool is read in a private copy of its pages; its file keeps every byte. The new pool is made
//! under a temporary name next to its own, and gets its name when it is complete and synced, so
//! that an incomplete pool never has it.

mod report;
mod target;

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use heap::{Salvage, SalvageError};
use keyspace::{Db, SalvageFinding, SalvageOptions, SalvageStopped, Salvaged};
use pmem::MapError;

use crate::Verdict;
use crate::arguments::SalvageArguments;
use crate::{pool, progress};
use target::{Target, TargetError};

/// Bytes that are verified between two updates of the bar.
const STRIDE: u64 = 1 << 20;

/// Why nothing was copied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A server has the pool open.
    #[error("{0} is in use by another process: stop the server first")]
    InUse(String),
    /// The file cannot be mapped.
    #[error("{0}")]
    Map(MapError),
    /// It contains nothing to copy.
    #[error("{path}: {source}")]
    Pool {
        /// The file.
        path: String,
        /// Why.
        source: SalvageError,
    },
    /// The new pool could not be made.
    #[error("{path}: {source}")]
    Target {
        /// The file.
        path: String,
        /// Why.
        source: TargetError,
    },
    /// The new pool could not be filled.
    #[error("{path}: {source}; it was removed again")]
    Stopped {
        /// The file.
        path: String,
        /// Why.
        source: SalvageStopped,
    },
}

/// All results.
pub(crate) struct Outcome {
    pub(crate) pool: Salvage,
    pub(crate) copied: Salvaged,
    pub(crate) findings: Vec<SalvageFinding>,
    pub(crate) took: Duration,
}

impl Outcome {
    /// Returns true if data is lost, or may be.
    pub(crate) fn costs(&self) -> bool {
        self.copied.lost > 0
            || self.findings.iter().any(SalvageFinding::costs)
            || self.pool.notes().iter().any(heap::SalvageNote::costs)
    }

    pub(crate) fn verdict(&self) -> Verdict {
        if self.costs() { Verdict::Damaged } else { Verdict::Sound }
    }
}

/// Copies, reports what was found, and returns the exit status.
pub(crate) fn run(options: &SalvageArguments) -> Verdict {
    let done = salvage(options);
    report::print(options, &done);
    done.map_or(Verdict::Unchecked, |outcome| outcome.verdict())
}

fn salvage(options: &SalvageArguments) -> Result<Outcome, Failure> {
    let began = Instant::now();
    let to = |source| Failure::Target { path: shown(&options.to), source };
    target::refuse_present(&options.to).map_err(to)?;
    if !options.json {
        let list = report::list_of(options);
        target::refuse_present(&list)
            .map_err(|source| Failure::Target { path: shown(&list), source })?;
    }
    let region =
        pool::inspect(&options.pool, options.journal.as_deref()).map_err(|error| match error {
            MapError::Locked { .. } => Failure::InUse(shown(&options.pool)),
            other => Failure::Map(other),
        })?;
    let capacity = region.len();
    let open = match options.without_journal {
        true => Salvage::open_without_journal,
        false => Salvage::open,
    };
    let pool = open(region, pmem::boot_id())
        .map_err(|source| Failure::Pool { path: shown(&options.pool), source })?;
    let target = Target::create(&options.to, pool.geometry(), capacity).map_err(to)?;
    let (copied, findings) = copy(options, &pool, &target)
        .map_err(|source| Failure::Stopped { path: shown(&options.to), source })?;
    target.finish().map_err(to)?;
    Ok(Outcome { pool, copied, findings, took: began.elapsed() })
}

fn copy(
    options: &SalvageArguments,
    pool: &Salvage,
    target: &Target,
) -> Result<(Salvaged, Vec<SalvageFinding>), SalvageStopped> {
    let bar = progress::bar(pool.used(), options.quiet || options.json);
    bar.set_message("copying");
    let unseen = Cell::new(0);
    let read = |bytes: u64| {
        unseen.set(unseen.get() + bytes);
        if unseen.get() >= STRIDE {
            bar.inc(unseen.take());
        }
    };
    let mut findings = Vec::new();
    let how = SalvageOptions {
        now: pool::unix_ms(),
        unplaced: options.unplaced.and_then(|number| Db::new(usize::from(number))),
    };
    let mut find = |finding| findings.push(finding);
    let copied = target.keyspace().take_from(pool, how, &read, &mut find);
    bar.finish_and_clear();
    copied.map(|copied| (copied, findings))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
