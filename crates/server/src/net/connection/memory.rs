//! The memory of a connection's buffers, and whether all clients together take too much.

use std::sync::atomic::Ordering::Relaxed;

use super::Connection;
use crate::net::client_memory;

impl Connection {
    /// Publishes how much memory the replies take.
    #[inline]
    pub(super) fn publish_capacity(&self) {
        let capacity = self.output.capacity();
        if self.client.reply_buffer.load(Relaxed) != capacity {
            self.client.reply_buffer.store(capacity, Relaxed);
        }
    }

    /// Returns true if this client's replies or requests alone exceed the limit for all clients, so
    /// that no larger client need be searched for.
    #[inline]
    pub(super) fn exceeds_all(&self, waiting: u64) -> bool {
        let limit = self.worker.shared.limits.client_memory.load(Relaxed);
        limit > 0 && waiting > limit && self.is_evicted()
    }

    #[cold]
    fn is_evicted(&self) -> bool {
        if self.client.no_evict.load(Relaxed) {
            return false;
        }
        let engine = &self.worker.shared.engine;
        if engine.clients().mark_evicted(&self.client) {
            let line = commands::admin::describe(engine, &self.client, self.now_ms());
            tracing::warn!("Evicting client: {line}");
            engine.client_memory().forget(&self.client);
        }
        true
    }

    /// Counts large buffers, and evicts clients if all of those take too much.
    #[inline]
    pub(crate) fn count_memory(&self) {
        if self.client.has_large_buffers() {
            client_memory::count(&self.worker.shared, &self.client);
        }
    }
}
