//! When the log is due to be rewritten: how far it has grown, and what came of earlier rewrites.

use std::time::Duration;

/// Failed rewrites after which automatic ones wait longer and longer.
const FAILURES_WITHOUT_DELAY: u64 = 3;

const LONGEST_DELAY: Duration = Duration::from_secs(3600);

/// When the log has grown enough to be rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// By this many percent (`auto-aof-rewrite-percentage`); 0 for never.
    pub percentage: u64,
    /// And to more than this many bytes (`auto-aof-rewrite-min-size`).
    pub min_size: u64,
}

/// What came of earlier rewrites.
pub(crate) struct History {
    pub(crate) base_size: u64,
    pub(crate) rewrites: u64,
    pub(crate) failures: u64,
    delay: Duration,
    next: Option<Duration>,
}

impl History {
    pub(crate) fn new(base_size: u64) -> History {
        History { base_size, rewrites: 0, failures: 0, delay: Duration::ZERO, next: None }
    }

    /// See [`crate::Aof::growth_due`].
    pub(crate) fn due(&mut self, rule: Growth, size: u64, now: Duration) -> Option<u64> {
        if rule.percentage == 0 || size <= rule.min_size {
            return None;
        }
        let percent = size.saturating_mul(100) / self.base_size.max(1);
        let growth = percent.saturating_sub(100);
        (growth >= rule.percentage && !self.is_limited(now)).then_some(growth)
    }

    fn is_limited(&mut self, now: Duration) -> bool {
        if self.failures < FAILURES_WITHOUT_DELAY {
            self.delay = Duration::ZERO;
            self.next = None;
            return false;
        }
        if let Some(next) = self.next {
            if now < next {
                return true;
            }
            self.next = None;
            return false;
        }
        self.delay = (self.delay * 2).clamp(Duration::from_secs(60), LONGEST_DELAY);
        self.next = Some(now + self.delay);
        tracing::warn!(
            "Background AOF rewrite has repeatedly failed and triggered the limit, will retry in {} \
             minutes",
            self.delay.as_secs() / 60
        );
        true
    }
}
