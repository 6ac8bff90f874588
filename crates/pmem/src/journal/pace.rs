//! The pace of writers while a checkpoint runs: who has written waits a little before it writes
//! again, so that the ring does not become full.
//!
//! A fence that finds no space goes on with the checkpoint, however long that takes, and whoever
//! its thread serves waits too. So from half full on, the space that is left is given out over the
//! time that the pass will take, as its pages so far and the passes before tell: [`Journal::delay`]
//! says how long a writer should wait. It may do so where nobody else waits for its thread.
//!
//! Only advice: nothing is refused, and a writer that does not ask is as safe.

use super::core::{Count, Journal, JournalCounts};
use super::layout::BLOCK;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

/// The longest wait that is asked for at once.
const LONGEST: Duration = Duration::from_millis(50);

/// The wait while the ring is nearly full, after which the writer should ask again.
const FULL: Duration = Duration::from_millis(5);

/// How long a writer may be behind what it was allowed: it may use that later at once.
const SLACK: Duration = Duration::from_millis(5);

/// The time after which a pass tells its own speed.
const TELLS: Duration = Duration::from_millis(500);

/// How fast the ring may be filled.
#[derive(Default)]
pub(super) struct Pace {
    /// Bytes of the ring a second; 0 while that is unknown.
    rate: AtomicU64,
    /// The time until which the bytes that were written were to take, in nanoseconds.
    paid: AtomicU64,
}

/// The speed of checkpoints.
#[derive(Default)]
pub(super) struct Speed {
    begun: Duration,
    /// The number of pages that the pass has to write, and has written.
    pages: u64,
    done: u64,
    /// Pages a second of the passes before; 0 if there was none.
    before: u64,
    /// How long the last one took from its last page to its end.
    ending: Duration,
}

impl Speed {
    pub(super) fn begin(&mut self, now: Duration, pages: u64) {
        (self.begun, self.pages, self.done) = (now, pages, 0);
    }

    pub(super) fn add(&mut self, pages: u64) {
        self.done += pages;
    }

    /// Records that a pass ended; `last` is when its last page was written.
    pub(super) fn end(&mut self, last: Duration, now: Duration) {
        self.ending = now.saturating_sub(last);
        let ended = per_second(self.done, now.saturating_sub(self.begun));
        // A pass of few pages tells nothing.
        if self.done >= 1024 {
            self.before = if self.before == 0 { ended } else { self.before.midpoint(ended) };
        }
    }

    /// Returns the time that the rest of the pass takes; `None` if that cannot be told yet.
    fn left(&self, now: Duration) -> Option<Duration> {
        let took = now.saturating_sub(self.begun);
        let speed = match per_second(self.done, took) {
            measured if took >= TELLS || self.before == 0 => measured,
            measured => measured.min(self.before),
        };
        let left = self.pages.saturating_sub(self.done);
        (speed > 0).then(|| Duration::from_secs_f64(left as f64 / speed as f64) + self.ending)
    }
}

fn per_second(count: u64, time: Duration) -> u64 {
    (count as f64 / time.as_secs_f64().max(1e-6)) as u64
}

/// Returns the number of bytes in use from which on the ring counts as full.
fn nearly_full(capacity: u64) -> u64 {
    capacity - (capacity / 16).max(4 * BLOCK)
}

impl Journal {
    /// Sets how fast the ring may be filled from here on.
    pub(super) fn set_pace(&self, speed: &Speed) {
        let Some(left) = speed.left(self.clock.now()) else { return };
        let JournalCounts { used, capacity, .. } = self.counts();
        let space = nearly_full(capacity).saturating_sub(used);
        // Rather a little slower than too fast.
        let rate = 0.875 * space as f64 / left.as_secs_f64().max(1e-3);
        self.progress.pace.rate.store((rate as u64).max(1 << 16), Release);
    }

    /// Returns how long a client that has fenced this many bytes of lines should wait before it
    /// writes more, and whether it should ask again then, with 0.
    pub(crate) fn delay(&self, bytes: u64) -> (Duration, bool) {
        let progress = &self.progress;
        let JournalCounts { used, capacity, .. } = self.counts();
        if self.failure().is_some() || self.is_held() {
            return (Duration::ZERO, false);
        }
        let head = progress.head.load(Acquire);
        if used >= nearly_full(capacity) || self.is_at_limit(head, capacity) {
            return (FULL, true);
        }
        if used <= capacity / 2 || self.should_grow() {
            return (Duration::ZERO, false);
        }
        let rate = progress.pace.rate.load(Acquire);
        if rate == 0 || bytes == 0 {
            return (Duration::ZERO, false);
        }
        // In the ring they have headers and padding too.
        let appended = progress.appended.load(Relaxed).max(1);
        let written = progress.counted(Count::BytesWritten) as f64 / appended as f64;
        let cost = bytes as f64 * written.max(1.0) / rate as f64 * 1e9;
        let now = self.clock.now().as_nanos() as u64;
        let earliest = now.saturating_sub(SLACK.as_nanos() as u64);
        let pay = |paid: u64| Some(paid.max(earliest).saturating_add(cost as u64));
        let before = progress.pace.paid.fetch_update(Release, Relaxed, pay).unwrap_or(now);
        let until = before.max(earliest).saturating_add(cost as u64);
        (Duration::from_nanos(until.saturating_sub(now)).min(LONGEST), false)
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::JournalPlace;
    use super::super::storage::tests::Memory;
    use super::super::superblock::JournalId;
    use super::*;
    use crate::domain::Domain;
    use crate::region::Region;
    use std::sync::Arc;

    const LEN: u64 = 1 << 20;
    const RING: u64 = 64 << 10;
    const NONE: (Duration, bool) = (Duration::ZERO, false);

    fn region() -> Region {
        let place = JournalPlace::Given(Arc::new(Memory::new(0)));
        let region = Region::anonymous(LEN as usize).unwrap();
        let mut region = region.with_journal(Journal::new(place, RING, Arc::new(Memory::new(0))));
        region.domain = Domain::Journal;
        region.grow(LEN).unwrap();
        region.begin_journal(JournalId { pool: [7; 16], journal: 1 }, 64).unwrap();
        region.start_journal();
        region
    }

    #[test]
    fn who_has_written_waits_from_half_full_on_and_who_has_not_while_it_is_nearly_full_alone() {
        let region = region();
        let journal = region.journal.as_ref().unwrap();
        let write_until = |used: u64| {
            while region.journal_counts().unwrap().used < used {
                region.flush(4096, 8);
                region.fence();
                region.sync_up_to(region.appended()).unwrap();
                journal.raise_limit().unwrap();
            }
        };
        assert_eq!(region.write_delay(1 << 20), NONE);
        write_until(RING / 2 + 4096);
        assert_eq!(region.write_delay(1 << 20), NONE, "the speed is not known yet");
        journal.progress.pace.rate.store(64 << 20, Release);
        assert_eq!(region.write_delay(0), NONE);
        let waits: Vec<Duration> = (0..20).map(|_| region.write_delay(1 << 10).0).collect();
        assert!(waits.is_sorted() && waits[19] > Duration::ZERO, "{waits:?}");
        assert_eq!(region.write_delay(1 << 30), (LONGEST, false));
        write_until(nearly_full(RING));
        assert_eq!([0, 1 << 10].map(|bytes| region.write_delay(bytes)), [(FULL, true); 2]);
        region.checkpoint().unwrap();
        assert_eq!(region.write_delay(1 << 20), NONE);
    }

    #[test]
    fn the_rest_of_a_pass_takes_as_long_as_its_pages_and_earlier_passes_tell() {
        let at = Duration::from_millis;
        let mut speed = Speed::default();
        speed.begin(at(1000), 10_000);
        assert_eq!(speed.left(at(1000)), None);
        speed.add(2000);
        assert_eq!(speed.left(at(2000)), Some(at(4000)));
        speed.add(8000);
        speed.end(at(3000), at(3000));
        // What is only in the page cache is fast at first.
        speed.begin(at(3000), 10_000);
        speed.add(5000);
        assert_eq!(speed.left(at(3100)), Some(at(1000)));
        assert_eq!(speed.left(at(4000)), Some(at(1000)));
        assert_eq!(speed.left(at(8000)), Some(at(5000)));
        speed.end(at(8000), at(8200));
        speed.begin(at(9000), 10_000);
        speed.add(5000);
        assert_eq!(speed.left(at(10_000)), Some(at(1200)));
    }
}
