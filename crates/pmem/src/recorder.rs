//! What a simulated region reports: every store, flush, fence and sync, in program order, and the
//! growth of its file.

use crate::domain::Domain;
use crate::growth::Backing;
use crate::lines::LINE;
use std::io;
use std::ops::Range;

/// Watches a simulated region. Called by the thread that stored, flushed, fenced or synced.
pub trait Recorder: Send + Sync {
    /// Returns the domain whose rules the region follows: [`Domain::Clwb`], or [`Domain::Msync`],
    /// which reports syncs of pages in place of flushes and fences.
    fn domain(&self) -> Domain {
        Domain::Clwb
    }
    /// `bytes` were stored at `off`. A copy past the cache is reported as a store and flushes of
    /// its lines, unless the recorder [distinguishes it](Recorder::streams).
    fn store(&self, off: u64, bytes: &[u8]);
    /// Returns true if copies past the cache should be made, and reported to [`Recorder::stream`].
    fn streams(&self) -> bool {
        false
    }
    /// `bytes`, whole lines, were stored at `off` past the cache.
    fn stream(&self, off: u64, bytes: &[u8]) {
        self.store(off, bytes);
    }
    /// Returns the number of bytes that a flush covers at least: those of a line, or, as in a
    /// journal, of a word.
    fn flush_unit(&self) -> u64 {
        LINE
    }
    /// The line or word at `off`, a multiple of [`Recorder::flush_unit`], was flushed.
    fn flush(&self, off: u64);
    /// Records a fence of the calling thread.
    fn fence(&self);
    /// The pages of `[off, off + len)` are written to the file, whoever stored into them.
    fn sync(&self, off: u64, len: u64) {
        let _ = (off, len);
    }
    /// The file now has `len` bytes; new ones are zeros. A power loss may take them until
    /// [`Recorder::sync_length`].
    fn grow(&self, len: u64) {
        let _ = len;
    }
    /// Records that the file's length is durable.
    fn sync_length(&self) {}
    /// The space of `[off, off + len)` was given back: nobody may store there. That it now reads as
    /// zeros has been reported as stores.
    fn punch(&self, off: u64, len: u64) {
        let _ = (off, len);
    }
    /// Returns the first hole in `[from, to)`.
    fn hole_in(&self, from: u64, to: u64) -> Option<Range<u64>> {
        let _ = (from, to);
        None
    }
    /// The space of `[off, off + len)` was reserved again.
    fn back(&self, off: u64, len: u64) {
        let _ = (off, len);
    }
}

/// Records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullRecorder;

impl Recorder for NullRecorder {
    fn store(&self, _off: u64, _bytes: &[u8]) {}
    fn flush(&self, _line: u64) {}
    fn fence(&self) {}
}

/// The file of a simulated region, which has none.
pub(crate) struct RecordedFile<'r>(pub(crate) &'r dyn Recorder);

impl Backing for RecordedFile<'_> {
    fn allocate(&self, _from: u64, to: u64) -> rustix::io::Result<()> {
        self.0.grow(to);
        Ok(())
    }

    fn write_at(&self, _bytes: &[u8], _at: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> rustix::io::Result<()> {
        self.0.sync_length();
        Ok(())
    }

    fn cut(&self, _len: u64) {}
}
