//! A region that is only read, never written: a private copy of the file, page by page as it is
//! changed.
//!
//! For `perdura check`: a pool can be recovered and walked like any other, and the file stays
//! unchanged.

use crate::domain::Domain;
use crate::error::MapError;
use crate::journal::JournalPlace;
use crate::locked::LockedFile;
use crate::mapping::{Mapping, accepts_sync};
use crate::media::{Lost, LostPage, Mapped, Watch};
use crate::readable;
use crate::region::{Parts, Region};
use rustix::fd::AsRawFd;
use std::fs::File;
use std::path::Path;
use std::sync::PoisonError;

/// Records losses durably; returns true if it could.
pub type RecordLosses = fn(&Region, &[LostPage]) -> bool;

impl Region {
    /// Maps a file so that stores stay in memory. Locks the file against writers, but not against
    /// other inspections. Its journal is expected next to it.
    pub fn inspect(path: impl AsRef<Path>) -> Result<Region, MapError> {
        let path = path.as_ref();
        Region::inspect_with(path, &JournalPlace::of_pool(path))
    }

    /// Like [`Region::inspect`], for a file whose journal is elsewhere.
    pub fn inspect_with(path: &Path, journal: &Path) -> Result<Region, MapError> {
        let failed = |step, source| MapError::Io { path: path.to_owned(), step, source };
        let file = File::open(path).map_err(|source| failed("open", source))?;
        let metadata = file.metadata().map_err(|source| failed("stat", source))?;
        if !metadata.is_file() {
            let found = "a device or a folder: only a file can be mapped privately";
            return Err(MapError::WrongKind { path: path.to_owned(), found });
        }
        let file = LockedFile::shared(path, file)?;
        let len = metadata.len();
        // On persistent memory the file refuses whole pages that its device may still read by
        // sectors.
        let device = if accepts_sync(&file).is_ok() { readable::block_device(&file) } else { -1 };
        let mapping = Mapping::copy_on_write(&file, len).map_err(|source| failed("map", source))?;
        let watch = Watch::new(&Mapped {
            base: mapping.base(),
            len: mapping.len(),
            file: file.as_raw_fd(),
            device,
            flags: 0,
        });
        let mut region = Region::from_parts(Parts {
            watch,
            mapping,
            len,
            domain: Domain::Process,
            emulated: false,
            device: false,
            file: Some(file),
        });
        region.journal_to_read = Some(journal.to_owned());
        Ok(region)
    }
}

impl Region {
    /// Returns true if the medium has lost bytes of this region that nobody has looked into: zeros
    /// may have been read in their place. Costs one relaxed load. It does not report a loss that
    /// was found and resolved meanwhile: it is for callers that hold what resolving needs; others
    /// use [`Region::has_lost_since`].
    #[inline]
    pub fn has_unresolved_losses(&self) -> bool {
        self.watch.has_unresolved_losses()
    }

    /// Returns how many times losses were resolved: read it before reading bytes, for
    /// [`Region::has_lost_since`].
    #[inline]
    pub fn resolutions(&self) -> u64 {
        self.watch.resolutions()
    }

    /// Returns true if bytes read since `resolutions` may be zeros in place of lost ones, or if the
    /// meaning of lost bytes may have become known since.
    #[inline]
    pub fn has_lost_since(&self, resolutions: u64) -> bool {
        self.watch.has_lost_since(resolutions)
    }

    /// Returns how many damaged pages nobody has looked into, and the bytes that were lost with
    /// them.
    pub fn lost(&self) -> (usize, Vec<Lost>) {
        self.watch.lost()
    }

    /// Returns the pages that were damaged after the first `pages` ones.
    pub fn lost_after(&self, pages: usize) -> Vec<LostPage> {
        self.watch.lost_after(pages)
    }

    /// Records that the first `pages` damaged pages have been looked into. Returns true if no
    /// others have been found since.
    pub fn resolve(&self, pages: usize) -> bool {
        self.watch.resolve(pages)
    }

    /// Returns the number of damaged pages found since the region was opened.
    pub fn media_errors(&self) -> u64 {
        self.watch.total()
    }

    /// Sets `record`, which is called with each loss before it is overwritten, since after that the
    /// medium no longer reports it. `record` makes the loss durable with [`Region::drain`], and
    /// returns true if it could: a page whose loss was not recorded is not repaired. It may run in
    /// any thread that fences, and must not call [`Region::fence`].
    pub fn record_losses(&self, record: RecordLosses) {
        // Set once: opening a pool does so before anybody else has the region.
        let _ = self.record.set(record);
    }

    /// Treats the lines of a page as lost: they were lost before the region was opened. Returns
    /// false if this cannot be remembered.
    pub fn mark_lost(&self, page: LostPage) -> bool {
        self.watch.mark_lost(page)
    }

    /// Rewrites damaged pages, with zeros for the lost bytes, so that the medium holds them;
    /// durable on return. A failure is that of a fence: [`Region::failed`].
    pub fn repair(&self) {
        if self.journal.is_some() && self.watch.has_quarantined() {
            // The lost bytes are only in the pool's file, to which the journal writes lines: the
            // other lost lines of the page would stay lost, and nothing would report them any more.
            self.fail();
        }
        if self.watch.is_private() || !self.watch.has_quarantined() {
            return;
        }
        // Not under the lock of the table, which the signal handler takes: the record may be in
        // lost bytes too.
        let _one_at_a_time = self.repairing.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.record_lost_pages() || self.watch.repair().is_err() {
            self.fail();
        }
    }

    fn record_lost_pages(&self) -> bool {
        loop {
            let pages = self.watch.unrecorded();
            if pages.is_empty() {
                return true;
            }
            if self.record.get().is_some_and(|record| !record(self, &pages)) {
                return false;
            }
            self.watch.set_recorded(&pages);
        }
    }
}
