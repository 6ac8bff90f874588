//! Whether the file below a region is still where it was, and as long as it was.
//!
//! A mapping lives on when its file is renamed, removed or replaced: what is stored into it then is
//! in a file that nobody will open again. It also lives on when the file is cut short: pages past
//! the file's end raise `SIGBUS`, which is how a medium tells of an error too. A page past the end
//! is no media error: all that was stored in that part is gone, and writing zeros there would make
//! the file long again and hide it.

use crate::media::Watched;
use crate::region::Region;
use rustix::fd::AsRawFd;
use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Where the file of a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePlace {
    /// Under its path, or nothing tells otherwise.
    There,
    /// Under another path: its own names another file, or none.
    Moved,
    /// Under no path at all.
    Removed,
}

impl Region {
    /// Returns where the file is that was opened at `path`.
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

    /// Returns the file's length if the file was cut short below the region.
    pub fn cut_short(&self) -> Option<u64> {
        let file = self.file.as_ref().filter(|_| !self.is_device())?;
        let found = file.metadata().ok()?.len();
        (found < self.len() || self.watch.was_cut_short()).then_some(found)
    }
}

/// Returns where a file is that was opened at `path`.
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

    /// Returns true if pages past the file's end were met that could not be remembered one by one.
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
