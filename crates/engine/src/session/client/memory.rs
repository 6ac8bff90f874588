//! Memory of clients with large buffers, counted as it changes.
//!
//! Most clients have the buffers that a connection starts with, which change with every request:
//! only clients that take at least [`LARGE`] are counted, in steps, so that the sum is written
//! seldom. The sum decides when clients are evicted (`maxmemory-clients`) and, if all data is in
//! DRAM, counts toward `maxmemory`, as in Redis.
//!
//! An evicted client stops counting at once, although its connection ends a little later: its
//! memory must not cost any key.

use std::sync::atomic::Ordering::Relaxed;

use super::{Client, Clients};

/// A client with less than this is not counted.
const LARGE: usize = 128 << 10;
/// The change from which on it is counted again.
const STEP: usize = 16 << 10;

impl Client {
    /// Returns true if [`crate::memory::ClientMemory::count`] may have work: the client has large
    /// buffers, or had them.
    #[inline]
    pub fn has_large_buffers(&self) -> bool {
        self.counted.load(Relaxed) > 0
            || self.query_buffer.load(Relaxed) + self.multi_mem.load(Relaxed) > LARGE / 2
            || self.reply_buffer.load(Relaxed) > LARGE / 2
    }

    /// Records what it takes now. Returns how much more, or less, is counted.
    pub(crate) fn count(&self) -> i64 {
        let bytes = match self.memory() {
            _ if self.killed.load(Relaxed) => 0,
            bytes if bytes < LARGE => 0,
            bytes => bytes,
        };
        match self.counted.load(Relaxed) {
            before if bytes > 0 && bytes.abs_diff(before) < STEP => 0,
            _ => self.replace_count(bytes),
        }
    }

    /// Records that it no longer counts. Returns how much more, or less, is counted.
    pub(crate) fn stop_counting(&self) -> i64 {
        self.replace_count(0)
    }

    fn replace_count(&self, bytes: usize) -> i64 {
        bytes as i64 - self.counted.swap(bytes, Relaxed) as i64
    }
}

impl Clients {
    /// Sets whether clients' memory counts toward `maxmemory`, as it does if the data is in the
    /// same memory. To be called before there are clients.
    pub fn set_counted_as_data(&self, yes: bool) {
        self.are_data.store(yes, Relaxed);
    }

    /// Returns true if clients' memory counts toward `maxmemory`.
    pub(crate) fn are_counted_as_data(&self) -> bool {
        self.are_data.load(Relaxed)
    }

    /// Counts this many bytes more, or fewer.
    pub(crate) fn change_large(&self, by: i64) {
        self.large.fetch_add(by, Relaxed);
    }

    /// Returns the bytes that clients with large buffers take.
    pub fn large_memory(&self) -> u64 {
        u64::try_from(self.large.load(Relaxed)).unwrap_or(0)
    }
}
