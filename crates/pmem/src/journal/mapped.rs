//! A journal's file on persistent memory: the tail of the log is stored past the cache, and is
//! durable after a fence, without a system call.
//!
//! Whether it is persistent memory is asked of the kernel, by mapping it with `MAP_SYNC`, as for a
//! pool. Only writes go through the mapping, once the file has its length: what is read comes from
//! the file, which has the same bytes.
//!
//! Each write ends with its own fence, in the thread that stored: another thread may sync after it,
//! and a fence is none for what others have stored.

#![allow(unsafe_code, reason = "lines are stored into the mapped file")]

use crate::calls::{self, Call};
use crate::cpu::{self, WriteBack};
use crate::lines::LINE;
use crate::mapping::{HUGE, Mapping, accepts_sync};
use crate::stream;
use rustix::io::Errno;
use std::fs::File;
use std::io;

/// A file of a length that does not change, mapped.
pub(super) struct MappedFile {
    mapping: Mapping,
    len: u64,
    write_back: WriteBack,
}

impl MappedFile {
    /// Maps a file, if it is persistent memory or is to count as that.
    pub(super) fn new(file: &File, emulate: bool) -> io::Result<Option<MappedFile>> {
        let sync = match accepts_sync(file) {
            Ok(()) => true,
            Err(Errno::OPNOTSUPP | Errno::INVAL) => false,
            Err(errno) => return Err(errno.into()),
        };
        if !sync && !emulate {
            return Ok(None);
        }
        let len = file.metadata()?.len();
        let mapping = Mapping::reserve(len, HUGE)?;
        calls::make(Call::Map, || mapping.put_file(file, sync))?;
        Ok(Some(MappedFile { mapping, len, write_back: cpu::detect() }))
    }

    /// Stores bytes, which are durable when this returns. Nobody else stores there meanwhile.
    pub(super) fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let end = at.checked_add(bytes.len() as u64).filter(|end| *end <= self.len);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        let to = self.mapping.base().wrapping_add(at as usize);
        let whole_lines = at.is_multiple_of(LINE) && bytes.len().is_multiple_of(LINE as usize);
        if whole_lines {
            // SAFETY: whole lines of the mapping, which the file has (checked above); nobody has a
            // reference into it, and no other thread stores there (caller).
            unsafe { stream::copy_lines(to, bytes.as_ptr(), bytes.len()) };
        } else {
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        }
        if !whole_lines || !stream::PAST_THE_CACHE {
            let first = at / LINE;
            let line = self.mapping.base().wrapping_add((first * LINE) as usize);
            // SAFETY: the lines of bytes that were just stored.
            unsafe {
                cpu::write_back(self.write_back, line, (end.div_ceil(LINE) - first) as usize);
            }
        }
        cpu::fence();
        calls::stored(at, bytes.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_is_stored_is_in_the_file_and_nothing_around_it() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(9000).unwrap();
        let mapped = MappedFile::new(&file, true).unwrap().unwrap();
        let mut expected = vec![0; 9000];
        for (n, (at, len)) in
            [(0, 64), (4096, 4096), (100, 1), (63, 130), (8936, 64), (8190, 20)].iter().enumerate()
        {
            let bytes = vec![n as u8 + 1; *len];
            mapped.write(&bytes, *at as u64).unwrap();
            expected[*at..at + len].copy_from_slice(&bytes);
            let mut found = vec![0; 9000];
            file.read_exact_at(&mut found, 0).unwrap();
            assert!(found == expected, "{len} bytes at {at}");
        }
        for (at, len) in [(8999, 2), (9000, 1), (u64::MAX, 1)] {
            let refused = mapped.write(&vec![1; len], at).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn an_ordinary_file_is_mapped_only_if_it_is_to_count_as_persistent_memory() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let is_mapped = |emulate| MappedFile::new(&file, emulate).unwrap().is_some();
        assert!(is_mapped(true));
        assert_eq!(is_mapped(false), accepts_sync(&file).is_ok());
    }
}
