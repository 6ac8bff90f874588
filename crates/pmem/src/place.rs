//! Detects whether the file below a region is still in its place and has its full length.
//!
//! A mapping survives when its file is renamed, removed or replaced: later stores then go to a file
//! that nobody will open again. It also survives when the file is truncated: pages past the file's
//! end raise `SIGBUS`, which is also how a medium reports an error. A page past the end is not a
//! media error: everything stored in that part is gone, and writing zeros there would extend the
//! file again and hide it.

use crate::media::Watched;
use crate::region::Region;
use rustix::fd::AsRawFd;
use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;

/// The place of a region's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePlace {
    /// Under its path, as far as is known.
    There,
    /// Moved: its path names another file, or none.
    Moved,
    /// Under no path at all.
    Removed,
}

impl Region {
    /// Returns the place of the file that was opened at `path`.
    pub fn file_place(&self, path: &Path) -> FilePlace {
        let Some(file) = self.file.as_ref().filter(|_| !self.is_device()) else {
            return FilePlace::There;
        };
        place_of(file, path)
    }

    /// Returns the number of the file's descriptor.
    pub fn descriptor(&self) -> Option<i32> {
        self.file.as_ref().map(|file| file.as_raw_fd())
    }

    /// Returns the file's length if the file was truncated below the region's length.
    pub fn cut_short(&self) -> Option<u64> {
        let file = self.file.as_ref().filter(|_| !self.is_device())?;
        let found = file.metadata().ok()?.len();
        (found < self.len() || self.watch.was_cut_short()).then_some(found)
    }
}

/// Returns the place of a file that was opened at `path`.
pub(crate) fn place_of(file: &File, path: &Path) -> FilePlace {
    let Ok(ours) = file.metadata() else { return FilePlace::There };
    if ours.nlink() == 0 {
        return FilePlace::Removed;
    }
    match fs::metadata(path) {
        Ok(theirs) if (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()) => FilePlace::There,
        Err(error) if error.kind() != io::ErrorKind::NotFound => FilePlace::There,
        _ => FilePlace::Moved,
    }
}

impl Watched {
    /// Returns true if the file ends before a page. Called by the signal handler.
    pub(crate) fn ends_before(&self, page: u64) -> bool {
        let mut stat = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: the descriptor is open as long as the region is watched, and there is space for
        // the answer.
        if unsafe { libc::fstat(self.file.load(Ordering::Relaxed), stat.as_mut_ptr()) } != 0 {
            return false;
        }
        // SAFETY: filled by the call.
        let len = unsafe { stat.assume_init() }.st_size;
        page >= len as u64
    }

    /// Returns true if pages past the file's end were accessed that could not be remembered one by
    /// one.
    fn was_cut_short(&self) -> bool {
        self.cut_short.load(Ordering::Relaxed)
    }

    /// Refuses to write a page that the file no longer has.
    pub(crate) fn refuse_past_end(&self, page: u64) -> io::Result<()> {
        if self.was_cut_short() || self.ends_before(page) {
            return Err(io::Error::other("the file was cut short"));
        }
        Ok(())
    }
}
