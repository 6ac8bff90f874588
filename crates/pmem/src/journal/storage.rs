//! The file interface that the journal uses, for its own file and for the pool's.
//!
//! Written bytes may be on the medium at any time, or in part, by sectors; they certainly are after
//! a successful sync. A failed sync may have lost earlier writes, and a later sync does not write
//! them again: so nothing is accepted after one.

use crate::calls::{self, Call};
use rustix::fs::{Advice, FallocateFlags, SeekFrom, fadvise, fallocate, fdatasync, fstatvfs, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::num::NonZero;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// A file, or its replacement in a simulation.
pub trait Storage: Send + Sync {
    /// Fills `bytes` from `at` on.
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;
    /// Writes all of `bytes` at `at`.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    /// Writes runs of pages, each with its offset, in any order.
    fn write_runs(&self, runs: &[(u64, &[u8])]) -> io::Result<()> {
        runs.iter().try_for_each(|(at, bytes)| self.write_at(bytes, *at))
    }
    /// Makes everything written, and the file's length, durable.
    fn sync(&self) -> io::Result<()>;
    /// Returns the file's length.
    fn size(&self) -> io::Result<u64>;
    /// Writes zeros to `[from, to)`.
    fn write_zeros(&self, from: u64, to: u64) -> io::Result<()> {
        const CHUNK: usize = 1 << 20;
        let zeros = vec![0; CHUNK];
        let mut at = from;
        while at < to {
            let len = (to - at).min(CHUNK as u64);
            self.write_at(&zeros[..len as usize], at)?;
            at += len;
        }
        Ok(())
    }
    /// Returns the end of the written bytes, searching from `from` on: the bytes after it may have
    /// only space, and the first write to them changes the file system's metadata.
    fn written_up_to(&self, _from: u64) -> io::Result<u64> {
        self.size()
    }
    /// Reserves space for `[from, to)`, which reads as zeros where there was none.
    fn allocate(&self, from: u64, to: u64) -> io::Result<()>;
    /// Makes a file at least `len` bytes long, which read as zeros where there was none, and
    /// reserves space for some parts of it; for all of it if parts cannot have space alone.
    fn allocate_parts(&self, _parts: &[Range<u64>], len: u64) -> io::Result<()> {
        let size = self.size()?;
        if size < len { self.allocate(size, len) } else { Ok(()) }
    }
    /// Returns how many bytes its disk has left; `None` if that is unknown.
    fn available(&self) -> Option<u64> {
        None
    }
    /// Returns true if the file may get longer while it is in use.
    fn may_grow(&self) -> bool {
        true
    }
    /// Truncates the file to `len`.
    fn cut(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Makes the file's name durable, if the file is responsible for that.
    fn sync_name(&self) -> io::Result<()> {
        Ok(())
    }
    /// Called when the file has its length and is about to be written repeatedly. Returns its lines
    /// if it is persistent memory: from then on they are stored to, and reads go to the file.
    fn map(&self) -> io::Result<Option<Box<dyn MappedLines>>> {
        Ok(None)
    }
    /// Announces that `[from, to)` will be read soon.
    fn will_read(&self, _from: u64, _to: u64) {}
    /// Announces that `[from, to)`, which is synced, will be overwritten before it is read.
    fn will_overwrite(&self, _from: u64, _to: u64) {}
}

/// The lines of a file on persistent memory, or their replacement in a simulation.
///
/// As on a CPU: streamed bytes are durable after a fence of the thread that streamed them; stored
/// bytes, after some thread has written them back and then fenced. Before that any part of them may
/// be durable, in units of words.
pub trait MappedLines: Send + Sync {
    /// Returns the number of bytes. All other calls stay within them.
    fn size(&self) -> u64;
    /// Returns true if whole lines are stored past the cache.
    fn streams(&self) -> bool;
    /// Stores whole lines past the cache.
    fn stream(&self, bytes: &[u8], at: u64);
    /// Stores bytes into the cache.
    fn store(&self, bytes: &[u8], at: u64);
    /// Writes back the lines that some bytes are in.
    fn write_back(&self, at: u64, len: u64);
    /// Waits until everything that this thread streamed and wrote back is durable.
    fn fence(&self);
}

/// Returns true if an error says that there is no space: on the disk, by a quota, or for a file of
/// this length. Nothing is wrong with the file then.
pub(super) fn is_no_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

impl Storage for File {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.read_exact_at(bytes, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        calls::make(Call::Write, || self.write_all_at(bytes, at))
    }

    fn sync(&self) -> io::Result<()> {
        Ok(calls::sync(0, u64::MAX, || fdatasync(self))?)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn written_up_to(&self, from: u64) -> io::Result<u64> {
        // A file system without holes reports that there are none.
        seek(self, SeekFrom::Hole(from)).or_else(|_| Storage::size(self))
    }

    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        let space = || fallocate(self, FallocateFlags::empty(), from, to - from);
        match calls::make(Call::Allocate, space) {
            // A file system without preallocation: writing zeros allocates.
            Err(Errno::OPNOTSUPP) => self.write_zeros(from.max(Storage::size(self)?), to),
            other => Ok(other?),
        }
    }

    fn allocate_parts(&self, parts: &[Range<u64>], len: u64) -> io::Result<()> {
        let size = Storage::size(self)?;
        for part in parts {
            let space =
                || fallocate(self, FallocateFlags::empty(), part.start, part.end - part.start);
            match calls::make(Call::Allocate, space) {
                Err(Errno::OPNOTSUPP) => return self.write_zeros(size, len),
                other => other?,
            }
        }
        let size = Storage::size(self)?;
        if size < len { calls::make(Call::Truncate, || self.set_len(len)) } else { Ok(()) }
    }

    fn available(&self) -> Option<u64> {
        fstatvfs(self).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn will_read(&self, from: u64, to: u64) {
        // Only advice: a refusal changes nothing.
        let _ = fadvise(self, from, NonZero::new(to.saturating_sub(from)), Advice::WillNeed);
    }

    fn will_overwrite(&self, from: u64, to: u64) {
        let _ = fadvise(self, from, NonZero::new(to.saturating_sub(from)), Advice::DontNeed);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A file in memory.
    pub(crate) struct Memory(Mutex<Vec<u8>>);

    impl Memory {
        pub(crate) fn new(len: usize) -> Memory {
            Memory::from(vec![0; len])
        }

        pub(crate) fn from(bytes: Vec<u8>) -> Memory {
            Memory(Mutex::new(bytes))
        }

        pub(crate) fn bytes(&self) -> Vec<u8> {
            self.0.lock().unwrap().clone()
        }
    }

    impl Storage for Memory {
        fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
            let file = self.0.lock().unwrap();
            let end = at as usize + bytes.len();
            let from = file.get(at as usize..end).ok_or(io::ErrorKind::UnexpectedEof)?;
            bytes.copy_from_slice(from);
            Ok(())
        }

        fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
            let mut file = self.0.lock().unwrap();
            let end = at as usize + bytes.len();
            let len = file.len().max(end);
            file.resize(len, 0);
            file[at as usize..end].copy_from_slice(bytes);
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        fn size(&self) -> io::Result<u64> {
            Ok(self.0.lock().unwrap().len() as u64)
        }

        fn allocate(&self, _from: u64, to: u64) -> io::Result<()> {
            let mut file = self.0.lock().unwrap();
            let len = file.len().max(to as usize);
            file.resize(len, 0);
            Ok(())
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_keeps_its_bytes_when_it_grows() {
        let file = tempfile::tempfile().unwrap();
        let file: &dyn Storage = &file;
        file.write_at(&[7; 10], 5).unwrap();
        file.allocate(0, 9000).unwrap();
        file.sync().unwrap();
        assert_eq!(file.size().unwrap(), 9000);
        let mut bytes = [1; 20];
        file.read_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, *[[0; 5], [7; 5], [7; 5], [0; 5]].as_flattened());
        file.write_zeros(6, 8).unwrap();
        file.read_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes[5..9], [7, 0, 0, 7]);
        assert!(file.read_at(&mut bytes, 8990).is_err());
    }
}
