//! Decides when the log is due to be rewritten: by its growth, and by the results of earlier
//! rewrites.

use std::time::Duration;

/// Failed rewrites after which automatic ones wait longer and longer.
const FAILURES_WITHOUT_DELAY: u64 = 3;

const LONGEST_DELAY: Duration = Duration::from_secs(3600);

/// The growth at which the log is rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// In percent (`auto-aof-rewrite-percentage`); 0 for never.
    pub percentage: u64,
    /// The size that it must exceed, in bytes (`auto-aof-rewrite-min-size`).
    pub min_size: u64,
}

/// The results of earlier rewrites.
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

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60;

    /// Checks, after this many failures, whether a rewrite may begin at given times in seconds.
    fn check(failures: u64, moments: &[(u64, bool)]) {
        let mut history = History::new(100);
        history.failures = failures;
        for (seconds, is_due) in moments {
            let rule = Growth { percentage: 100, min_size: 1 };
            let due = history.due(rule, 200, Duration::from_secs(*seconds));
            assert_eq!(due, is_due.then_some(100), "{failures} failures, second {seconds}");
        }
    }

    #[test]
    fn a_log_is_due_where_both_limits_are_passed() {
        for (percentage, min_size, base, size, expected) in [
            (100, 200, 100, 200, None),
            (100, 199, 100, 200, Some(100)),
            (100, 1, 100, 199, None),
            (101, 1, 100, 200, None),
            (101, 1, 100, 201, Some(101)),
            (1, 1, 0, 2, Some(100)),
            (1, 1, 100, 100, None),
            (0, 1, 100, 1000, None),
        ] {
            let due = History::new(base).due(Growth { percentage, min_size }, size, Duration::ZERO);
            assert_eq!(due, expected, "{percentage} % of {base}, {min_size}: {size}");
        }
    }

    #[test]
    fn rewrites_that_fail_are_tried_after_longer_and_longer_times() {
        check(2, &[(0, true), (1, true), (2, true)]);
        check(3, &[(0, false), (MINUTE - 1, false), (MINUTE, true)]);
        // Each further failure doubles the time, up to an hour.
        let mut history = History::new(100);
        history.failures = 3;
        let rule = Growth { percentage: 100, min_size: 1 };
        let mut now = 0;
        for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
            let mut is_due = |at: u64| history.due(rule, 200, Duration::from_secs(at)).is_some();
            assert!(!is_due(now), "{minutes}: it is limited from now on");
            assert!(!is_due(now + minutes * MINUTE - 1), "{minutes}: it is early");
            now += minutes * MINUTE;
            assert!(is_due(now), "{minutes}: it is late");
        }
        history.failures = 0;
        assert!(history.due(rule, 200, Duration::from_secs(now)).is_some());
    }
}
