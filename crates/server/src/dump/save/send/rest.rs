//! An unnamed file with a dump, or the rest of one, from which receivers are served at their own
//! speed while it is written.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use super::PIECE;

/// The file. Shared by the thread that writes it and those that read it.
#[derive(Clone)]
pub(super) struct Rest(Arc<Shared>);

struct Shared {
    file: File,
    len: AtomicU64,
    is_complete: AtomicBool,
    has_failed: AtomicBool,
}

/// The next piece of the file for a receiver.
pub(super) enum NextPiece {
    /// Bytes.
    Bytes(Vec<u8>),
    /// Nothing yet.
    Later,
    /// Nothing any more.
    End,
}

impl Rest {
    /// Makes an empty one in a folder.
    pub(super) fn begin(folder: &Path) -> io::Result<Rest> {
        let file = pmem::unnamed_file(folder)?;
        let (len, is_complete, has_failed) = Default::default();
        Ok(Rest(Arc::new(Shared { file, len, is_complete, has_failed })))
    }

    /// Returns how many bytes were written.
    pub(super) fn len(&self) -> u64 {
        self.0.len.load(Acquire)
    }

    /// Appends bytes. There is one thread at a time that does.
    pub(super) fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let len = self.0.len.load(Relaxed);
        self.0.file.write_all_at(bytes, len)?;
        self.0.len.store(len + bytes.len() as u64, Release);
        Ok(())
    }

    /// Notes that nothing follows.
    pub(super) fn complete(&self) {
        self.0.is_complete.store(true, Release);
    }

    /// Notes that bytes are missing: whoever reads it is to end.
    pub(super) fn fail(&self) {
        self.0.has_failed.store(true, Relaxed);
    }

    /// Returns true if bytes are missing.
    pub(super) fn has_failed(&self) -> bool {
        self.0.has_failed.load(Relaxed)
    }

    /// Reads what comes after the first `at` bytes.
    pub(super) fn read(&self, at: u64) -> io::Result<NextPiece> {
        let is_complete = self.0.is_complete.load(Acquire);
        let left = self.len().saturating_sub(at);
        if left == 0 {
            return Ok(if is_complete { NextPiece::End } else { NextPiece::Later });
        }
        let mut bytes = vec![0; left.min(PIECE as u64) as usize];
        self.0.file.read_exact_at(&mut bytes, at)?;
        Ok(NextPiece::Bytes(bytes))
    }
}

impl Write for &Rest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.append(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
