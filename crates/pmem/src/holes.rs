//! Giving space in the middle of a region back to its file system, and reserving it again.
//!
//! The region keeps its length and its addresses: what is given back is a hole of the file, which
//! reads as zeros. Nobody may store into a hole before it is reserved again: a file system that is
//! full by then would end the process by a signal, where [`Region::back`] reports an error.
//!
//! Nothing here is synced. After a loss of power a hole may hold its old bytes, zeros, or some of
//! each: it is for bytes whose content means nothing to anybody. What is stored after the space was
//! reserved again is as durable as anywhere else: a sync of the file, and a write fault of a
//! mapping with `MAP_SYNC`, write the file's map of blocks first.

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
    /// Gives the space of `[from, to)`, whole pages, back to the file system or the kernel: it
    /// reads as zeros then.
    ///
    /// # Safety
    /// Nobody reads or writes these bytes meanwhile, or needs what they hold.
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
            // No kind of file for it, or a file that is not to be changed so (with seals).
            Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL | libc::ENODEV | libc::EPERM) => {
                PunchError::Unsupported
            }
            _ => PunchError::Io { source: error },
        })?;
        self.check_holes_are_reported(from, to)
    }

    /// Takes the first hole back if the file does not say where it is: after a restart nobody would
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

    /// Reserves the space of `[from, to)`, which may have holes, again. Holes read as zeros still,
    /// other bytes as they did or as zeros. On failure it may be reserved in part.
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

    /// Returns the first hole in `[from, to)`, which may end after `to`; none if all of these bytes
    /// have space. What was reserved and never written may count as a hole, and so does all of it
    /// if the file cannot be asked: to reserve it again does no harm. The call takes the longer the
    /// more data is before the hole.
    pub fn hole_in(&self, from: u64, to: u64) -> Option<Range<u64>> {
        #[cfg(feature = "sim")]
        if let Some(recorder) = &self.recorder {
            return recorder.hole_in(from, to);
        }
        let file = self.file.as_ref().filter(|_| !self.device && !self.is_private())?;
        let hole = match seek(&**file, SeekFrom::Hole(from)) {
            Ok(hole) => Some(hole).filter(|hole| *hole < to)?,
            // A file system that knows of no holes, and a place after the end.
            Err(Errno::INVAL | Errno::NXIO) => return None,
            Err(_) => return Some(from..to),
        };
        match seek(&**file, SeekFrom::Data(hole)) {
            Ok(data) => Some(hole..data),
            Err(Errno::NXIO) => Some(hole..self.len().max(to)),
            Err(_) => Some(hole..to),
        }
    }

    /// Bytes of space that the file has, whatever its length; none where there is no file or nobody
    /// can tell.
    pub fn allocated(&self) -> Option<u64> {
        let file = self.file.as_ref().filter(|_| !self.device)?;
        fstat(&**file).ok().map(|stat| stat.st_blocks as u64 * 512)
    }

    /// Returns true if space can be given back at all, as far as the kind of the region tells.
    pub fn may_be_punched(&self) -> bool {
        // With a journal, what is free may still be needed: a recovery may go back to when it was
        // not.
        !self.device && !self.is_private() && self.journal.is_none()
    }

    /// A hole as stores, of which a loss of power may take any.
    #[cfg(feature = "sim")]
    fn store_zeros(&self, from: u64, to: u64) {
        for word in (from..to).step_by(8).filter(|word| self.load(*word) != 0) {
            // SAFETY: the bytes are nobody's (the caller's callers promise it).
            unsafe { self.store(word, 0) };
        }
    }
}

fn punch_file(file: &File, from: u64, len: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(calls::make(Call::Punch, || fallocate(file, flags, from, len))?)
}

/// Reserves blocks inside of a file; never makes it longer.
fn allocate(file: &File, from: u64, len: u64) -> rustix::io::Result<()> {
    calls::make(Call::Allocate, || fallocate(file, FallocateFlags::KEEP_SIZE, from, len))
}

/// Returns the bytes that the allocator has given out; 0 where it does not say. Exact below 2 GiB.
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

/// Gives memory that the allocator keeps for later back to the kernel.
pub fn trim_allocator() {
    // SAFETY: the allocator locks what it works on; no live allocation changes.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}
