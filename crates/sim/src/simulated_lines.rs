//! The lines of a simulated journal in persistent memory: stores, write-backs and fences are
//! recorded together with the calls on the files.

use crate::files::{FileEvent, SimulatedFiles};
use crate::medium::thread;
use crate::scheduler::{self, At};
use pmem::{LINE, MappedLines};

/// The lines of the journal's file.
pub(crate) struct SimulatedLines {
    files: SimulatedFiles,
    size: u64,
    streams: bool,
}

impl SimulatedLines {
    pub(crate) fn new(files: SimulatedFiles, size: u64, streams: bool) -> SimulatedLines {
        SimulatedLines { files, size, streams }
    }

    fn record(&self, event: FileEvent) {
        self.files.record(event);
        scheduler::pause(At::Fence);
    }
}

impl MappedLines for SimulatedLines {
    fn size(&self) -> u64 {
        self.size
    }

    fn streams(&self) -> bool {
        self.streams
    }

    fn stream(&self, bytes: &[u8], at: u64) {
        assert!(at.is_multiple_of(LINE) && bytes.len().is_multiple_of(LINE as usize));
        self.record(FileEvent::Store(at, bytes.to_vec(), Some(thread())));
    }

    fn store(&self, bytes: &[u8], at: u64) {
        self.record(FileEvent::Store(at, bytes.to_vec(), None));
    }

    fn write_back(&self, at: u64, len: u64) {
        self.record(FileEvent::WriteBack(thread(), at, len));
    }

    fn fence(&self) {
        self.record(FileEvent::Fence(thread()));
    }
}
