//! `maxmemory-clients`: when all clients together exceed it, they are closed, those that take most
//! memory first.
//!
//! A client's memory is counted when its buffers grow. Its watches and subscriptions are counted
//! periodically.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use commands::Client;

use crate::shared::Shared;

/// Counts a client's memory, and evicts clients if all take too much.
pub(crate) fn count(shared: &Shared, client: &Client) {
    let limit = shared.limits.client_memory.load(Relaxed);
    log(shared, &shared.engine.client_memory().count(client, limit));
}

/// Counts all clients, and evicts some if they take too much.
pub(crate) fn evict(shared: &Shared) {
    let limit = shared.limits.client_memory.load(Relaxed);
    if limit > 0 {
        log(shared, &shared.engine.client_memory().evict_largest(limit));
    }
}

/// Logs clients that were closed.
fn log(shared: &Shared, clients: &[Arc<Client>]) {
    let now = shared.engine.clock().unix_ms();
    for client in clients {
        tracing::warn!(
            "Evicting client: {}",
            commands::admin::describe(&shared.engine, client, now)
        );
    }
}
