//! A journal's file on persistent memory: its writes are stored past the cache, and are durable
//! after a fence, without a system call.
//!
//! The kernel is asked whether it is persistent memory, by mapping it with `MAP_SYNC`, as for a
//! pool. Only writes go through the mapping, once the file has its length: reads go to the file,
//! which has the same bytes.
//!
//! Each write ends with its own fence, in the thread that stored: another thread may sync
//! afterwards, and its fence would not cover these stores.

#![allow(unsafe_code, reason = "lines are stored into the mapped file")]

use super::storage::{MappedLines, Storage};
use crate::calls::{self, Call};
use crate::cpu::{self, WriteBack};
use crate::fault_points::FaultPoint;
use crate::lines::LINE;
use crate::mapping::{HUGE, Mapping, accepts_sync};
use crate::stream;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// A file whose lines are mapped: writes are stores, and need no sync.
pub(super) struct MappedStorage {
    file: Arc<dyn Storage>,
    lines: Box<dyn MappedLines>,
}

impl MappedStorage {
    /// Returns the file; if its lines can be mapped, its writes go to them. Earlier writes are
    /// synced.
    pub(super) fn over(file: Arc<dyn Storage>) -> io::Result<(Arc<dyn Storage>, bool)> {
        let Some(lines) = file.map()? else { return Ok((file, false)) };
        file.sync()?;
        Ok((Arc::new(MappedStorage { file, lines }), true))
    }
}

impl Storage for MappedStorage {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_at(bytes, at)
    }

    /// Stores bytes; they are durable when this returns. Nobody else stores there meanwhile.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let len = bytes.len() as u64;
        let end = at.checked_add(len).filter(|end| *end <= self.lines.size());
        end.ok_or(io::ErrorKind::UnexpectedEof)?;
        let whole_lines = at.is_multiple_of(LINE) && len.is_multiple_of(LINE);
        if whole_lines && self.lines.streams() {
            self.lines.stream(bytes, at);
        } else {
            self.lines.store(bytes, at);
            if FaultPoint::WriteBackMapped.is_enabled() {
                self.lines.write_back(at, len);
            }
        }
        if FaultPoint::FenceMapped.is_enabled() {
            self.lines.fence();
        }
        calls::stored(at, len);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// Writes the zeros as to any file, since the first store to a page that was never written
    /// waits for the file system; and syncs them, so that they never arrive after later stores.
    fn write_zeros(&self, from: u64, to: u64) -> io::Result<()> {
        self.file.write_zeros(from, to)?;
        self.file.sync()
    }

    fn written_up_to(&self, from: u64) -> io::Result<u64> {
        self.file.written_up_to(from)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        self.file.allocate(from, to)
    }

    fn may_grow(&self) -> bool {
        false
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.file.cut(len)
    }

    fn will_read(&self, from: u64, to: u64) {
        self.file.will_read(from, to);
    }

    fn will_overwrite(&self, from: u64, to: u64) {
        self.file.will_overwrite(from, to);
    }
}

/// The mapped lines of a file whose length does not change.
pub(super) struct FileLines {
    mapping: Mapping,
    len: u64,
    write_back: WriteBack,
}

impl FileLines {
    /// Maps a file, if it is persistent memory or is to count as such.
    pub(super) fn new(file: &File, emulate: bool) -> io::Result<Option<FileLines>> {
        let sync = is_persistent_memory(file)?;
        if !sync && !emulate {
            return Ok(None);
        }
        let len = file.metadata()?.len();
        let mapping = Mapping::reserve(len, HUGE)?;
        calls::make(Call::Map, || mapping.put_file(file, sync))?;
        Ok(Some(FileLines { mapping, len, write_back: cpu::detect() }))
    }

    /// Returns true if a file will be mapped, and therefore keeps its length.
    pub(super) fn are_mapped(file: &File, emulate: bool) -> bool {
        emulate || is_persistent_memory(file).unwrap_or(true)
    }

    /// Returns the place of some bytes.
    ///
    /// # Panics
    /// If the file does not have them all.
    fn place(&self, at: u64, len: u64) -> *mut u8 {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.len), "a store past the file");
        self.mapping.base().wrapping_add(at as usize)
    }
}

fn is_persistent_memory(file: &File) -> io::Result<bool> {
    match accepts_sync(file) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::INVAL) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

impl MappedLines for FileLines {
    fn size(&self) -> u64 {
        self.len
    }

    fn streams(&self) -> bool {
        stream::PAST_THE_CACHE
    }

    fn stream(&self, bytes: &[u8], at: u64) {
        let whole_lines = at.is_multiple_of(LINE) && bytes.len().is_multiple_of(LINE as usize);
        assert!(whole_lines, "only whole lines are streamed");
        let to = self.place(at, bytes.len() as u64);
        // SAFETY: whole lines of the mapping, which the file has (checked above); nobody has a
        // reference into it, and no other thread stores there (the writer, and the thread that
        // writes the superblock, which is elsewhere, have a lock each).
        unsafe { stream::copy_lines(to, bytes.as_ptr(), bytes.len()) };
    }

    fn store(&self, bytes: &[u8], at: u64) {
        let to = self.place(at, bytes.len() as u64);
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    fn write_back(&self, at: u64, len: u64) {
        let (first, end) = (at / LINE, (at + len).div_ceil(LINE));
        let line = self.place(at, len).wrapping_sub((at % LINE) as usize);
        // SAFETY: the lines of bytes of the mapping, which begins a page and has whole pages.
        unsafe { cpu::write_back(self.write_back, line, (end - first) as usize) };
    }

    fn fence(&self) {
        cpu::fence();
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
        let lines = Box::new(FileLines::new(&file, true).unwrap().unwrap());
        let of_file: Arc<dyn Storage> = Arc::new(file.try_clone().unwrap());
        let mapped = MappedStorage { file: of_file, lines };
        let mut expected = vec![0; 9000];
        for (n, (at, len)) in
            [(0, 64), (4096, 4096), (100, 1), (63, 130), (8936, 64), (8190, 20)].iter().enumerate()
        {
            let bytes = vec![n as u8 + 1; *len];
            mapped.write_at(&bytes, *at as u64).unwrap();
            expected[*at..at + len].copy_from_slice(&bytes);
            let mut found = vec![0; 9000];
            file.read_exact_at(&mut found, 0).unwrap();
            assert!(found == expected, "{len} bytes at {at}");
        }
        for (at, len) in [(8999, 2), (9000, 1), (u64::MAX, 1)] {
            let refused = mapped.write_at(&vec![1; len], at).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn an_ordinary_file_is_mapped_only_if_it_is_to_count_as_persistent_memory() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let is_mapped = |emulate| FileLines::new(&file, emulate).unwrap().is_some();
        assert!(is_mapped(true));
        assert_eq!(is_mapped(false), accepts_sync(&file).is_ok());
    }
}
