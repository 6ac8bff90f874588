//! The age of the oldest write that a power loss would take now.
//!
//! Ten times a second, the end of the journal or of the append-only file is noted. The oldest write
//! that is not synced came after the last of these moments whose position is synced. So the age is
//! never reported too low, and at most a tenth of a second too high, as long as the notes reach
//! back far enough, about twelve seconds ([`NOTES`]). Nothing is done per write.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of notes; when there are more, every second one is dropped, and the age becomes
/// less exact.
const NOTES: usize = 128;

/// Positions, with the times at which they were the end.
#[derive(Debug, Default)]
pub(crate) struct Unsynced {
    notes: Mutex<VecDeque<(u64, Instant)>>,
}

impl Unsynced {
    /// Records that `end` is appended and `synced` is safe. Returns the age of the oldest write
    /// between them.
    pub(crate) fn note(&self, synced: u64, end: u64, now: Instant) -> Duration {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if synced >= end {
            notes.clear();
        }
        if notes.back().is_none_or(|(last, _)| *last < end) {
            notes.push_back((end, now));
        }
        while notes.get(1).is_some_and(|(position, _)| *position <= synced) {
            notes.pop_front();
        }
        if notes.len() > NOTES {
            let mut at = 0;
            notes.retain(|_| {
                at += 1;
                at % 2 == 1
            });
        }
        match notes.front() {
            Some((_, since)) if synced < end => now.saturating_duration_since(*since),
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records positions at given milliseconds, and checks the ages.
    fn check(notes: &[(u64, u64, u64, u64)]) {
        let (unsynced, begin) = (Unsynced::default(), Instant::now());
        for (ms, synced, end, expect) in notes {
            let age = unsynced.note(*synced, *end, begin + Duration::from_millis(*ms));
            assert_eq!(age, Duration::from_millis(*expect), "at {ms} ms");
        }
    }

    #[test]
    fn the_age_is_that_of_the_oldest_write_that_is_not_synced() {
        // Written once, synced after a second.
        check(&[(0, 0, 0, 0), (100, 0, 5, 100), (600, 0, 5, 600), (1100, 5, 5, 0)]);
        // Written all the time: a sync of what was there at 200 ms ends at 400.
        check(&[(0, 0, 0, 0), (200, 0, 20, 200), (300, 0, 30, 300), (400, 20, 40, 200)]);
        // After a pause, the age does not include the pause.
        check(&[(0, 7, 7, 0), (5000, 7, 7, 0), (5100, 7, 9, 100)]);
    }

    #[test]
    fn what_is_never_synced_takes_no_more_notes_and_keeps_its_age() {
        let (unsynced, begin) = (Unsynced::default(), Instant::now());
        for n in 1..=10_000 {
            let now = begin + Duration::from_millis(n);
            assert!(unsynced.note(0, n, now) >= Duration::from_millis(n - 1));
            assert!(unsynced.notes.lock().expect("no panic").len() <= NOTES);
        }
    }
}
