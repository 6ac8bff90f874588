//! A region that is looked at and never written to: a private copy of the file, page by page as it is changed.
//!
//! For `perdura check`: a pool can be recovered and walked like any other, and the file keeps every byte.

use crate::domain::Domain;
use crate::error::MapError;
use crate::locked::LockedFile;
use crate::mapping::{Mapping, accepts_sync};
use crate::media::{Lost, Mapped, Watch};
use crate::readable;
use crate::region::{Parts, Region};
use rustix::fd::AsRawFd;
use std::fs::File;
use std::path::Path;

impl Region {
    /// Maps a file so that stores stay in memory. The file is locked against those that would write to it, not against
    /// other inspections.
    pub fn inspect(path: impl AsRef<Path>) -> Result<Region, MapError> {
        let path = path.as_ref();
        let failed = |step, source| MapError::Io { path: path.to_owned(), step, source };
        let file = File::open(path).map_err(|source| failed("open", source))?;
        let metadata = file.metadata().map_err(|source| failed("stat", source))?;
        if !metadata.is_file() {
            let found = "a device or a folder: only a file can be mapped privately";
            return Err(MapError::WrongKind { path: path.to_owned(), found });
        }
        let file = LockedFile::shared(path, file)?;
        let len = metadata.len();
        // Where the file is persistent memory, what it refuses by pages its device may still give by sectors.
        let device = if accepts_sync(&file).is_ok() { readable::block_device(&file) } else { -1 };
        let mapping = Mapping::copy_on_write(&file, len).map_err(|source| failed("map", source))?;
        let watch = Watch::new(&Mapped {
            base: mapping.base(),
            len: mapping.len(),
            file: file.as_raw_fd(),
            device,
            flags: 0,
        });
        Ok(Region::from_parts(Parts {
            watch,
            mapping,
            len,
            domain: Domain::Process,
            emulated: false,
            device: false,
            file: Some(file),
        }))
    }
}

impl Region {
    /// Whether the medium lost bytes of this region since somebody looked into it: zeros may have been read in their
    /// place. One relaxed load. It says nothing of a loss that was met and settled meanwhile: that is for who holds what
    /// settling needs, and for others [`Region::has_lost_since`].
    #[inline]
    pub fn is_unsettled(&self) -> bool {
        self.watch.is_unsettled()
    }

    /// How often losses were settled: to be asked before reading, for [`Region::has_lost_since`].
    #[inline]
    pub fn settlements(&self) -> u64 {
        self.watch.settlements()
    }

    /// Whether what was read since there were so many settlements may be zeros in the place of lost bytes, or what lost bytes
    /// meant may have become known since.
    #[inline]
    pub fn has_lost_since(&self, settlements: u64) -> bool {
        self.watch.has_lost_since(settlements)
    }

    /// How many damaged pages nobody has looked into, and the bytes that were lost with them.
    pub fn lost(&self) -> (usize, Vec<Lost>) {
        self.watch.lost()
    }

    /// Says that the first so many damaged pages were looked into. Whether no others have come since.
    pub fn settle(&self, pages: usize) -> bool {
        self.watch.settle(pages)
    }

    /// Damaged pages met since the region was opened.
    pub fn media_errors(&self) -> u64 {
        self.watch.total()
    }

    /// Writes damaged pages anew, with zeros for what was lost, so that the medium holds them again; durable on return.
    /// A failure is that of a fence: [`Region::failed`].
    pub fn mend(&self) {
        if self.watch.mend().is_err() {
            self.fail();
        }
    }
}
