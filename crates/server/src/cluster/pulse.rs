//! A node whose task does not get on, since its disk hangs, cannot find out that others have taken
//! it for failed and elected another primary. So clients are told that the cluster is down until
//! the task goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::shared::Shared;

/// The time between two looks.
const LOOKS: Duration = Duration::from_millis(100);
/// The least time without a sign of the task that counts.
const LEAST: u64 = 1000;

/// The signs of life of the task.
#[derive(Default)]
pub(super) struct Pulse {
    /// The steady time of the last one, in milliseconds.
    last: AtomicU64,
    /// How long a silence may be.
    limit: AtomicU64,
    /// Whether clients are told that the cluster is down, since there was none.
    is_lost: AtomicBool,
}

impl Pulse {
    /// Gives a sign, and says after how long the next one is missed. Returns true if the view is to
    /// be shown again.
    pub(super) fn beat(&self, now: u64, limit: u64) -> bool {
        self.last.store(now, Relaxed);
        self.limit.store(limit.max(LEAST), Relaxed);
        self.is_lost.swap(false, Relaxed)
    }
}

/// Looks for signs of the task, on a thread that ends with the server.
pub(super) fn watch(
    pulse: Arc<Pulse>,
    began: Instant,
    shared: &Arc<Shared>,
) -> std::io::Result<()> {
    let shared = Arc::clone(shared);
    let look = move || {
        while !shared.shutdown.is_asked() {
            std::thread::sleep(LOOKS);
            let now = began.elapsed().as_millis() as u64;
            let silence = now.saturating_sub(pulse.last.load(Relaxed));
            let limit = pulse.limit.load(Relaxed);
            if limit == 0 || silence <= limit || pulse.is_lost.load(Relaxed) {
                continue;
            }
            tracing::warn!(
                "The cluster's task has not gone on for {silence} ms: this node serves nobody"
            );
            if let Some(view) = shared.engine.cluster().view() {
                shared.engine.cluster().set_view(view.down());
            }
            // Last: whoever sees it shows the view again.
            pulse.is_lost.store(true, Relaxed);
        }
    };
    std::thread::Builder::new().name("cluster-pulse".into()).spawn(look)?;
    Ok(())
}
