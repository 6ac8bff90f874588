//! Memory of clients (`maxmemory-clients`) and of the process, and their part of `maxmemory`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::engine::Engine;
use crate::session::client::Client;

/// The memory of an engine's clients.
#[derive(Clone, Copy)]
pub struct ClientMemory<'e> {
    engine: &'e Engine,
}

impl Engine {
    /// Returns the memory of its clients.
    pub fn client_memory(&self) -> ClientMemory<'_> {
        ClientMemory { engine: self }
    }
}

impl ClientMemory<'_> {
    /// Counts the memory of a client. If all clients together then take more than `limit` bytes (0
    /// for no limit), those that take most are evicted. Returns these.
    pub fn count(&self, client: &Client, limit: u64) -> Vec<Arc<Client>> {
        let by = client.count();
        if by == 0 {
            return Vec::new();
        }
        self.engine.clients().change_large(by);
        let exceeds = limit > 0 && self.engine.clients().large_memory() > limit;
        let evicted = if exceeds { self.evict_largest(limit) } else { Vec::new() };
        // Only now, so that no key is evicted for memory that clients give up.
        self.change_data_memory(by);
        evicted
    }

    /// Closes the clients that take most until the others take at most `limit` bytes. Returns the
    /// closed ones.
    pub fn evict_largest(&self, limit: u64) -> Vec<Arc<Client>> {
        let evicted = self.engine.clients().evict(usize::try_from(limit).unwrap_or(usize::MAX));
        evicted.iter().for_each(|client| self.forget(client));
        evicted
    }

    /// Stops counting a client that leaves.
    pub fn forget(&self, client: &Client) {
        let by = client.stop_counting();
        self.engine.clients().change_large(by);
        self.change_data_memory(by);
    }

    /// Counts the memory that the process took before it served clients, in bytes, if the data is
    /// in the same memory.
    pub fn count_startup(&self, bytes: u64) {
        if self.engine.clients().are_counted_as_data() {
            self.engine.admin().startup_memory.store(bytes, Relaxed);
            self.change_data_memory(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }

    fn change_data_memory(&self, by: i64) {
        if self.engine.clients().are_counted_as_data() {
            self.engine.keyspace().change_other_memory(by);
        }
    }
}
