//! How old the oldest write is that a power loss would take now.
//!
//! Ten times a second it is noted how far the journal, or the append-only file, was appended to.
//! The oldest write that is not synced came after the last of these moments whose position is
//! synced: so the age is never said to be less than it is, and at most a tenth of a second more,
//! while the notes of the last twelve seconds suffice ([`NOTES`]). Nothing is done per write.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Notes that are kept; beyond it every second one is dropped, and the age is less exact.
const NOTES: usize = 128;

/// Positions by the moments at which they were the end.
#[derive(Debug, Default)]
pub(crate) struct Unsynced {
    notes: Mutex<VecDeque<(u64, Instant)>>,
}

impl Unsynced {
    /// Notes that `end` is appended and `synced` is safe. Returns how old the oldest write between
    /// them is.
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

    /// Notes by milliseconds, with the age that is expected.
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
        // After a pause the age is not that of the pause.
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
