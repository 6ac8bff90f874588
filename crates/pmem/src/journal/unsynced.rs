//! The age of the oldest unsynced write: what a power loss would take.
//!
//! All of this is under the writer's lock. A sync in progress covers everything up to the position
//! that had been written when it began; later writes belong to the next one.

use std::collections::VecDeque;
use std::time::Duration;

/// Writes that have not been synced.
#[derive(Debug, Default)]
pub(super) struct UnsyncedWrites {
    /// When the oldest write was made that no sync in progress covers.
    next: Option<Duration>,
    /// For each sync in progress: the position up to which it syncs, and when the oldest write was
    /// made that it covers and the previous sync does not.
    syncing: VecDeque<(u64, Duration)>,
}

impl UnsyncedWrites {
    /// Records a write at a time.
    pub(super) fn write(&mut self, now: Duration) {
        self.next.get_or_insert(now);
    }

    /// Records that a sync begins, of everything up to a position.
    pub(super) fn begin_sync(&mut self, end: u64) {
        if let Some(oldest) = self.next.take() {
            self.syncing.push_back((end, oldest));
        }
    }

    /// Records that a sync succeeded, of everything up to a position.
    pub(super) fn end_sync(&mut self, end: u64) {
        while self.syncing.front().is_some_and(|(first, _)| *first <= end) {
            self.syncing.pop_front();
        }
    }

    /// Returns when the oldest unsynced write was made.
    pub(super) fn oldest(&self) -> Option<Duration> {
        self.syncing.front().map(|(_, oldest)| *oldest).or(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_covers_what_was_written_when_it_began() {
        let time = Duration::from_millis;
        let mut writes = UnsyncedWrites::default();
        assert_eq!(writes.oldest(), None);
        writes.write(time(1));
        writes.write(time(2));
        assert_eq!(writes.oldest(), Some(time(1)));
        writes.begin_sync(20);
        writes.write(time(3));
        // Another sync begins, and covers only later writes.
        writes.begin_sync(30);
        writes.begin_sync(30);
        writes.write(time(4));
        assert_eq!(writes.oldest(), Some(time(1)));
        writes.end_sync(20);
        assert_eq!(writes.oldest(), Some(time(3)));
        writes.end_sync(30);
        assert_eq!(writes.oldest(), Some(time(4)));
        writes.begin_sync(40);
        writes.end_sync(40);
        assert_eq!(writes.oldest(), None);
        // The later of two syncs ends first.
        writes.write(time(5));
        writes.begin_sync(50);
        writes.write(time(6));
        writes.begin_sync(60);
        writes.end_sync(60);
        writes.end_sync(50);
        assert_eq!(writes.oldest(), None);
    }
}
