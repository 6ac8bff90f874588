//! `maxmemory-clients`: clients are closed, those that take most memory first, while all together
//! take more.
//!
//! What a client takes is counted when its buffers grow. What it watches or listens to is looked at
//! periodically.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use commands::Client;

use crate::shared::Shared;

/// Counts what a client takes, and evicts where all take too much.
pub(crate) fn count(shared: &Shared, client: &Client) {
    let limit = shared.limits.client_memory.load(Relaxed);
    log(shared, &shared.engine.client_memory().count(client, limit));
}

/// Looks at all clients, and evicts where they take too much.
pub(crate) fn evict(shared: &Shared) {
    let limit = shared.limits.client_memory.load(Relaxed);
    if limit > 0 {
        log(shared, &shared.engine.client_memory().evict_largest(limit));
    }
}

/// Names clients that were closed.
fn log(shared: &Shared, clients: &[Arc<Client>]) {
    let now = shared.engine.clock().unix_ms();
    for client in clients {
        tracing::warn!(
            "Evicting client: {}",
            commands::admin::describe(&shared.engine, client, now)
        );
    }
}
