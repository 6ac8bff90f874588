//! Memory of clients with large buffers, counted as it changes.
//!
//! Most clients have the buffers that a connection starts with, which change with every request:
//! only what is above [`LARGE`] is counted, in steps, so that the sum is written seldom. It says
//! when clients are to be evicted (`maxmemory-clients`) and, where all data is in DRAM, counts
//! toward `maxmemory`, as in Redis.
//!
//! A client that is evicted counts no longer at once, although its connection ends a little later:
//! what it took must not cost any key.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Client, Clients};
use crate::engine::Engine;

/// A client with less than this is not counted.
const LARGE: usize = 128 << 10;
/// By how much it must have changed to be counted again.
const STEP: usize = 16 << 10;

impl Client {
    /// Returns true if [`Engine::count_memory`] may have something to do: it has large buffers, or
    /// had them.
    #[inline]
    pub fn has_large_buffers(&self) -> bool {
        self.counted.load(Relaxed) > 0
            || self.query_buffer.load(Relaxed) + self.multi_mem.load(Relaxed) > LARGE / 2
            || self.reply_buffer.load(Relaxed) > LARGE / 2
    }

    /// Takes note of what it takes now; returns how much more, or less, is counted.
    fn count(&self) -> i64 {
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

    fn replace_count(&self, bytes: usize) -> i64 {
        bytes as i64 - self.counted.swap(bytes, Relaxed) as i64
    }
}

impl Clients {
    /// Says whether the data is in the memory that clients take, so that theirs counts toward
    /// `maxmemory`. To be called before there are clients.
    pub fn set_counted_as_data(&self, yes: bool) {
        self.are_data.store(yes, Relaxed);
    }

    /// Returns the bytes that clients with large buffers take.
    pub fn large_memory(&self) -> u64 {
        u64::try_from(self.large.load(Relaxed)).unwrap_or(0)
    }
}

impl Engine {
    /// Counts what a client takes. If all clients together take more than `limit` bytes then, unless
    /// that is 0, those that take most are evicted. Returns these.
    pub fn count_memory(&self, client: &Client, limit: u64) -> Vec<Arc<Client>> {
        let by = client.count();
        if by == 0 {
            return Vec::new();
        }
        self.clients().large.fetch_add(by, Relaxed);
        let exceeds = limit > 0 && self.clients().large_memory() > limit;
        let evicted = if exceeds { self.evict_clients(limit) } else { Vec::new() };
        // Only now, so that no key is evicted for what clients give up.
        self.change_data_memory(by);
        evicted
    }

    /// Closes the clients that take most until the others take `limit` bytes at most. Returns those
    /// that were closed.
    pub fn evict_clients(&self, limit: u64) -> Vec<Arc<Client>> {
        let evicted = self.clients().evict(usize::try_from(limit).unwrap_or(usize::MAX));
        evicted.iter().for_each(|client| self.forget_memory(client));
        evicted
    }

    /// Counts nothing for a client that leaves.
    pub fn forget_memory(&self, client: &Client) {
        let by = client.replace_count(0);
        self.clients().large.fetch_add(by, Relaxed);
        self.change_data_memory(by);
    }

    fn change_data_memory(&self, by: i64) {
        if self.clients().are_data.load(Relaxed) {
            self.keyspace().change_other_memory(by);
        }
    }
}
