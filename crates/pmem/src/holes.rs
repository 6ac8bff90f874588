//! Gives space in the middle of a region back to its file system, and reserves it again.
//!
//! The region keeps its length and its addresses: the space that was given back is a hole of the
//! file, which reads as zeros. Nobody may store into a hole before it is reserved again: on a full
//! file system that would end the process by a signal, where [`Region::back`] reports an error.
//!
//! Nothing here is synced. After a power loss a hole may hold its old bytes, zeros, or a mix: it is
//! only for bytes whose content has no meaning. Stores after the space was reserved again are as
//! durable as anywhere else: a sync of the file, and a write fault of a mapping with `MAP_SYNC`,
//! first write the file's map of blocks.

use crate::calls::{self, Call};
use crate::error::{GrowError, PunchError};
use crate::growth::{is_synced, prefault, write_zeros};
use crate::region::Region;
use crate::scheduler::lock;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, fstat, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

impl Region {
    /// Gives the space of `[from, to)`, whole pages, back to the file system or the kernel; it then
    /// reads as zeros.
    ///
    /// # Safety
    /// Nobody reads or writes these bytes meanwhile, or needs their content.
    pub unsafe fn punch(&self, from: u64, to: u64) -> Result<(), PunchError> {
        let len = to.saturating_sub(from);
        let Some(at) = self.place(from, len as usize) else {
            return Err(PunchError::Unsupported);
        };
        if !self.may_be_punched() {
            return Err(PunchError::Unsupported);
        }
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder {
            self.store_zeros(from, to);
            recorder.punch(from, len);
            return Ok(());
        }
        let done = match &self.file {
            Some(file) => punch_file(file, from, len),
            // SAFETY: pages of this mapping, whose bytes nobody needs (caller).
            None => match unsafe { libc::madvise(at.cast(), len as usize, libc::MADV_DONTNEED) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            },
        };
        self.record_stored(from, len);
        done.map_err(|error| match error.raw_os_error() {
            // Not supported for this kind of file, or a file whose seals forbid it.
            Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL | libc::ENODEV | libc::EPERM) => {
                PunchError::Unsupported
            }
            _ => PunchError::Io { source: error },
        })?;
        self.check_holes_are_reported(from, to)
    }

    /// Undoes the first hole if the file does not report where it is: after a restart nobody would
    /// know.
    fn check_holes_are_reported(&self, from: u64, to: u64) -> Result<(), PunchError> {
        if self.file.is_none() || self.reports_holes.load(Relaxed) {
            return Ok(());
        }
        if self.hole_in(from, to).is_some() {
            self.reports_holes.store(true, Relaxed);
            return Ok(());
        }
        // SAFETY: the caller of `punch` promises the same.
        match unsafe { self.back(from, to) } {
            Ok(()) => Err(PunchError::Unsupported),
            Err(error) => Err(PunchError::Io { source: io::Error::other(error) }),
        }
    }

    /// Reserves the space of `[from, to)`, which may have holes, again. Holes still read as zeros,
    /// other bytes as before or as zeros. On failure it may be reserved in part.
    ///
    /// # Safety
    /// As for [`Region::punch`].
    pub unsafe fn back(&self, from: u64, to: u64) -> Result<(), GrowError> {
        let Some(at) = self.place(from, (to - from) as usize) else {
            return Err(GrowError::BeyondReserve { wanted: to, reserved: self.len() });
        };
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder {
            recorder.back(from, to - from);
            return Ok(());
        }
        let Some(file) = self.file.as_ref().filter(|_| !self.device && !self.is_private()) else {
            return Ok(());
        };
        let _one_at_a_time = lock(&self.growing).unwrap_or_else(PoisonError::into_inner);
        if let Some(journal) = &self.journal {
            return self.allocate_journaled(journal, from, to);
        }
        if let Some(found) = self.cut_short() {
            return Err(GrowError::CutShort { wanted: to, expected: self.len(), found });
        }
        let synced = is_synced(self.domain);
        let zeros = || write_zeros(&**file, from, to, &|file| self.sync_grown(file));
        let done = match allocate(file, from, to - from) {
            Err(Errno::OPNOTSUPP) => zeros(),
            Err(errno) => Err(("allocate", errno.into())),
            Ok(()) if synced => zeros(),
            Ok(()) => Ok(()),
        };
        done.map_err(|(step, source)| match source.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => GrowError::NoSpace { wanted: to },
            _ => GrowError::Io { wanted: to, step, source },
        })?;
        prefault(self.domain, at, (to - from) as usize);
        Ok(())
    }

    /// Returns the first hole in `[from, to)`, which may end after `to`; `None` if all of these
    /// bytes have space. Bytes that were reserved and never written may count as a hole, and so do
    /// all of them if the file cannot be queried: reserving them again does no harm. The call takes
    /// longer the more data there is before the hole.
    pub fn hole_in(&self, from: u64, to: u64) -> Option<Range<u64>> {
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder {
            return recorder.hole_in(from, to);
        }
        let file = self.file.as_ref().filter(|_| !self.device && !self.is_private())?;
        let hole = match seek(&**file, SeekFrom::Hole(from)) {
            Ok(hole) => Some(hole).filter(|hole| *hole < to)?,
            // A file system without holes, and a place after the end.
            Err(Errno::INVAL | Errno::NXIO) => return None,
            Err(_) => return Some(from..to),
        };
        match seek(&**file, SeekFrom::Data(hole)) {
            Ok(data) => Some(hole..data),
            Err(Errno::NXIO) => Some(hole..self.len().max(to)),
            Err(_) => Some(hole..to),
        }
    }

    /// Returns how many bytes of space the file has, whatever its length; `None` if there is no
    /// file or this is unknown.
    pub fn allocated(&self) -> Option<u64> {
        let file = self.file.as_ref().filter(|_| !self.device)?;
        fstat(&**file).ok().map(|stat| stat.st_blocks as u64 * 512)
    }

    /// Returns true if this kind of region can give space back at all.
    pub fn may_be_punched(&self) -> bool {
        // With a journal, free space may still be needed: a recovery may return to a time when it
        // was in use.
        !self.device && !self.is_private() && self.journal.is_none()
    }

    /// Makes a hole as stores, of which a power loss may keep any.
    #[cfg(feature = "sim")]
    fn store_zeros(&self, from: u64, to: u64) {
        for word in (from..to).step_by(8).filter(|word| self.load(*word) != 0) {
            // SAFETY: the bytes belong to nobody (the caller's callers promise that).
            unsafe { self.store(word, 0) };
        }
    }
}

fn punch_file(file: &File, from: u64, len: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(calls::make(Call::Punch, || fallocate(file, flags, from, len))?)
}

/// Reserves blocks within a file; never extends it.
fn allocate(file: &File, from: u64, len: u64) -> rustix::io::Result<()> {
    calls::make(Call::Allocate, || fallocate(file, FallocateFlags::KEEP_SIZE, from, len))
}

/// Returns the number of bytes that the allocator has given out; 0 if it does not report that.
/// Exact below 2 GiB.
pub fn allocated() -> u64 {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: the allocator locks what it counts.
        let info = unsafe { libc::mallinfo() };
        let bytes = [info.uordblks, info.hblkhd].map(|bytes| u64::from(bytes.cast_unsigned()));
        bytes.iter().sum()
    }
    #[cfg(not(target_env = "gnu"))]
    0
}

/// Returns memory that the allocator keeps for later to the kernel.
pub fn trim_allocator() {
    // SAFETY: the allocator locks what it works on; no live allocation changes.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}
