//! Clients that have been idle: they give their buffers back, or are closed (`timeout`).

use std::sync::atomic::Ordering::Relaxed;

use crate::shared::Shared;

/// Wakes idle clients, which give their buffers back, and those that do not read, whose replies may
/// have been over their limit for too long; closes those that were idle too long. Returns how many
/// buffers are given back.
pub(crate) fn release_or_close(shared: &Shared) -> u64 {
    const SILENT_MS: u64 = 2000;
    let mut released = 0;
    let timeout = shared.limits.timeout_s.load(Relaxed) * 1000;
    let now = shared.engine.clock().unix_ms();
    let all = shared.engine.clients().list();
    for client in all.iter().filter(|client| !client.is_primary.load(Relaxed)) {
        let silent = now.saturating_sub(client.seen_ms.load(Relaxed));
        let waits =
            client.monitor.load(Relaxed) || client.blocked.load(Relaxed) || client.is_subscribed();
        if timeout > 0 && silent > timeout && !waits {
            tracing::debug!("Closing idle client");
            client.kill();
            continue;
        }
        // The buffer of a request that is still arriving stays.
        let is_arriving = client.query_buffer.load(Relaxed) > 0;
        let input = if is_arriving { 0 } else { client.query_buffer_free.load(Relaxed) };
        let has_buffers = input + client.reply_buffer.load(Relaxed) > 0;
        let is_idle = silent > SILENT_MS && has_buffers;
        client.release.store(is_idle, Relaxed);
        released += u64::from(is_idle);
        if is_idle || client.output.load(Relaxed) > 0 {
            client.wake();
        }
    }
    released
}
