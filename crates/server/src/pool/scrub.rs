//! The scrub: a thread that goes through all keys forever, slowly, so that damage is found before
//! a client meets it.
//!
//! It verifies as many bytes a second as `scrub-rate` says (0: none), in steps that hold a shard's
//! lock for some hundred entries at most, and begins a pass `scrub-every` seconds after the last
//! one began. Only data that outlives the process is scrubbed. The same thread resolves media
//! errors that no command has resolved, and logs the findings.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use keyspace::{Keyspace, Scrub};

use crate::shared::Shared;
use crate::threads::contained::contained;

/// Bytes between two pauses.
const STRIDE: u64 = 256 << 10;
/// How often it checks whether there is work.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Runs the thread of the scrub, until the server ends.
pub(crate) fn run(shared: &Arc<Shared>) {
    let mut begun = None;
    while !shared.shutdown.is_asked() {
        std::thread::sleep(POLL_INTERVAL);
        round(shared, &mut begun);
    }
}

/// Checks whether there is work, and does it. `begun` is when the last pass began.
pub(crate) fn round(shared: &Arc<Shared>, begun: &mut Option<Duration>) {
    let (keyspace, now) = (shared.engine.keyspace(), shared.engine.clock().monotonic());
    contained("media errors", || look_after(keyspace));
    let every = Duration::from_secs(shared.limits.scrub_every_s.load(Relaxed));
    let is_due = begun.is_none_or(|begun| now.saturating_sub(begun) >= every);
    if is_due && is_wanted(shared) {
        *begun = Some(now);
        contained("the scrub", || pass(shared, keyspace));
        shared.scrub.running.store(false, Relaxed);
    }
}

fn is_wanted(shared: &Shared) -> bool {
    shared.limits.scrub_rate.load(Relaxed) > 0
        && shared.cron.load(Relaxed)
        && shared.engine.keyspace().heap().is_durable()
        && shared.engine.keyspace().stopped().is_none()
}

/// Resolves losses that no command has resolved, and logs the findings.
pub(crate) fn look_after(keyspace: &Keyspace) {
    if keyspace.has_unresolved_losses() {
        keyspace.resolve_losses();
    }
    for line in keyspace.damage_news() {
        tracing::warn!("{line}");
    }
}

/// Goes through all shards once.
fn pass(shared: &Arc<Shared>, keyspace: &Keyspace) {
    let progress = &shared.scrub;
    let begin = Instant::now();
    progress.running.store(true, Relaxed);
    let mut found = 0;
    let mut whole = true;
    for shard in 0..keyspace.shards() {
        progress.shard.store(shard as u64, Relaxed);
        whole &= one(shared, keyspace, shard, &mut found);
    }
    progress.shard.store(0, Relaxed);
    if !whole {
        return;
    }
    progress.passes.fetch_add(1, Relaxed);
    progress.last_ms.store(begin.elapsed().as_millis() as u64, Relaxed);
    if found > 0 {
        let keys = if found == 1 { "key" } else { "keys" };
        tracing::warn!("The scrub found {found} damaged {keys} in {:.1?}", begin.elapsed());
    } else {
        tracing::debug!("The scrub found nothing wrong in {:.1?}", begin.elapsed());
    }
}

/// Goes through one shard. Returns true if it reached the end.
fn one(shared: &Arc<Shared>, keyspace: &Keyspace, shard: usize, found: &mut u64) -> bool {
    let progress = &shared.scrub;
    let mut at = Scrub::default();
    let mut since_rest = 0;
    let mut more = true;
    while more {
        if shared.shutdown.is_asked() || !is_wanted(shared) {
            return false;
        }
        let before = at;
        match keyspace.scrub_step(shard, at) {
            Ok((next, goes_on)) => (at, more) = (next, goes_on),
            // Bytes were lost meanwhile, or the store takes no writes.
            Err(_) => {
                look_after(keyspace);
                return false;
            }
        }
        progress.keys.fetch_add(at.keys - before.keys, Relaxed);
        progress.bytes.fetch_add(at.bytes - before.bytes, Relaxed);
        progress.found.fetch_add(at.found - before.found, Relaxed);
        *found += at.found - before.found;
        if at.found > before.found {
            look_after(keyspace);
        }
        since_rest += at.bytes - before.bytes;
        if since_rest >= STRIDE {
            rest(shared, since_rest);
            since_rest = 0;
        }
    }
    rest(shared, since_rest);
    true
}

/// Pauses as long as the rate demands for this many bytes, but not past the server's end.
fn rest(shared: &Shared, bytes: u64) {
    let rate = shared.limits.scrub_rate.load(Relaxed).max(1);
    let until = Instant::now() + Duration::from_secs_f64(bytes as f64 / rate as f64);
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        if shared.shutdown.is_asked() || left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(POLL_INTERVAL));
        look_after(shared.engine.keyspace());
    }
}
