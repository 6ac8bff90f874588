//! Reads a whole file into the working memory before it is used: later accesses need no fault and
//! no read, and use huge pages.
//!
//! Holes of the file take no memory: their pages are zeros, as after a read.

#![allow(unsafe_code, reason = "bytes of the file are read into the mapping")]

use crate::mapping::{Mapping, PAGE};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that are read at once.
const CHUNK: u64 = 64 << 20;

/// Replaces a private mapping of a file with anonymous memory that has the file's bytes.
///
/// # Safety
/// Nobody has been given an address in the mapping yet.
pub(crate) unsafe fn preload(file: &File, mapping: &Mapping, len: u64) -> io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    // SAFETY: nobody has an address in it (caller).
    unsafe { mapping.put_zeros(0, len.next_multiple_of(PAGE))? };
    let mut at = 0;
    while let Some((from, to)) = data(file, at, len)? {
        for from in (from..to).step_by(CHUNK as usize) {
            let bytes = (to - from).min(CHUNK) as usize;
            let start = mapping.base().wrapping_add(from as usize);
            // SAFETY: inside the mapping, which is writable there; nobody else uses it (caller).
            let memory = unsafe { std::slice::from_raw_parts_mut(start, bytes) };
            file.read_exact_at(memory, from)?;
        }
        at = to;
    }
    Ok(())
}

/// Returns the first range from `at` on that is not a hole.
pub(crate) fn data(file: &File, at: u64, len: u64) -> io::Result<Option<(u64, u64)>> {
    if at >= len {
        return Ok(None);
    }
    match seek(file, SeekFrom::Data(at)) {
        Ok(from) if from >= len => Ok(None),
        Ok(from) => Ok(Some((from, seek(file, SeekFrom::Hole(from))?.min(len)))),
        // Nothing but a hole until the end.
        Err(Errno::NXIO) => Ok(None),
        // A file system without holes.
        Err(Errno::INVAL) => Ok(Some((at, len))),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::HUGE;

    #[test]
    fn the_memory_has_the_bytes_of_the_file_and_the_file_keeps_its_own() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        for (at, byte) in [(0, 1), (70_000, 2), ((1 << 20) - 1, 3)] {
            file.write_all_at(&[byte], at).unwrap();
        }
        let mapping = Mapping::reserve(HUGE, HUGE).unwrap();
        mapping.put_private(&file).unwrap();
        // SAFETY: the mapping is this test's.
        unsafe { preload(&file, &mapping, 1 << 20).unwrap() };
        let mut bytes = vec![0; 1 << 20];
        file.read_exact_at(&mut bytes, 0).unwrap();
        // SAFETY: mapped, and nobody stores into it meanwhile.
        assert!(unsafe { std::slice::from_raw_parts(mapping.base(), 1 << 20) } == bytes);
        // SAFETY: mapped, and nobody else uses it.
        unsafe { mapping.base().write(9) };
        file.read_exact_at(&mut bytes[..1], 0).unwrap();
        assert_eq!(bytes[0], 1);
    }

    #[test]
    fn an_empty_file_and_one_of_holes_have_nothing_to_read() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(data(&file, 0, 0).unwrap(), None);
        file.set_len(1 << 20).unwrap();
        let found = data(&file, 0, 1 << 20).unwrap();
        assert!(found.is_none() || found == Some((0, 1 << 20)), "{found:?}");
        let mapping = Mapping::reserve(HUGE, HUGE).unwrap();
        // SAFETY: the mapping is this test's.
        unsafe { preload(&file, &mapping, 0).unwrap() };
    }
}
