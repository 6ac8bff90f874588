//! The pace of writers while a checkpoint runs: a client that has written waits a little before it
//! writes again, so that the ring does not become full.
//!
//! A fence that finds no space goes on with the checkpoint, however long that takes, and the
//! clients that its thread serves wait too. Two figures let a server avoid that:
//!
//! - [`Journal::charge`] returns how long a client that has just written should wait before it goes
//!   on. From half full on, the space that is left is given out over the time that the pass will
//!   take, as its pages so far and earlier passes tell. A client waits until the bytes before its
//!   own, and its own, were to have been written; but if others wrote more, only as long as its own
//!   bytes take while all that write during the pass have equal shares.
//! - [`Journal::is_nearly_full`] tells that the next write should not begin yet: what is left is
//!   for writes that have begun.
//!
//! Only advice: nothing is refused, and a writer that does not ask is as safe. Waits are bounded,
//! so that a wrong estimate costs little; if it was too fast, the ring becomes nearly full.

use super::core::{Count, Journal, locked};
use super::layout::{BLOCK, at_once};
use crate::fault_points::FaultPoint;
use std::mem;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

/// The longest wait of a client after a write.
const LONGEST: Duration = Duration::from_millis(500);

/// How much a client that writes less than its share may catch up at once.
const SLACK: Duration = Duration::from_millis(5);

/// The time after which a pass tells its own speed: at first pages may only have reached the page
/// cache.
const TELLS: Duration = Duration::from_millis(500);

/// The number of pages from which on a pass tells the speed of later ones.
fn pages_tell() -> u64 {
    at_once(1024, 4)
}

/// The slowest pace, in bytes a second.
fn slowest() -> u64 {
    at_once(1 << 20, BLOCK)
}

/// How fast the ring may be filled.
#[derive(Default)]
pub(super) struct Pace {
    /// Bytes of the ring a second; 0 while that is unknown.
    rate: AtomicU64,
    /// The time by which the bytes that were charged were to have been written, in nanoseconds.
    paid: AtomicU64,
    /// Counts the passes,
    pass: AtomicU64,
    /// ... and the clients that were charged during this one.
    clients: AtomicU64,
}

/// A client that is charged for what it writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChargedClient {
    /// The number of the pass during which it was charged last, plus 1.
    pass: u64,
}

impl Pace {
    /// Returns how long the writer of `cost` bytes of the ring waits at a time.
    fn charge(&self, now: Duration, cost: f64, client: &mut ChargedClient) -> Duration {
        let rate = self.rate.load(Acquire);
        if rate == 0 {
            return Duration::ZERO;
        }
        let nanos = |time: Duration| time.as_nanos() as u64;
        let (earliest, latest) = (nanos(now.saturating_sub(SLACK)), nanos(now + LONGEST));
        let takes = (cost / rate as f64 * 1e9) as u64;
        // Bounded, so that one write of any length, or a rate that was too low, is forgotten soon.
        let after = |paid: u64| paid.max(earliest).saturating_add(takes).min(latest);
        let pay = |paid: u64| Some(after(paid));
        let before = self.paid.fetch_update(Release, Relaxed, pay).unwrap_or(latest);
        let queue = after(before).saturating_sub(nanos(now));
        let share = takes.saturating_mul(self.clients_with(client));
        Duration::from_nanos(queue.min(share))
    }

    /// Returns the number of clients that were charged during this pass, with this one.
    fn clients_with(&self, client: &mut ChargedClient) -> u64 {
        let pass = self.pass.load(Relaxed) + 1;
        if mem::replace(&mut client.pass, pass) == pass {
            return self.clients.load(Relaxed).max(1);
        }
        self.clients.fetch_add(1, Relaxed) + 1
    }

    /// Forgets what was charged before a pass.
    fn begin(&self) {
        self.paid.store(0, Release);
        self.pass.fetch_add(1, Relaxed);
        self.clients.store(0, Relaxed);
    }

    /// Sets the rate at which `space` bytes last for this time, or a little longer.
    fn set(&self, space: u64, left: Duration) {
        let rate = 0.75 * space as f64 / left.as_secs_f64().max(1e-3);
        self.rate.store((rate as u64).max(slowest()), Release);
    }
}

/// The speed of checkpoints.
#[derive(Default)]
pub(super) struct Speed {
    begun: Duration,
    /// The number of pages that the pass has written.
    done: u64,
    /// Pages a second of earlier passes; 0 if there was none.
    before: u64,
    /// How long it takes from the last page to the end: as in the last pass, or nearly as long as
    /// in those before.
    ending: Duration,
}

impl Speed {
    pub(super) fn begin(&mut self, now: Duration) {
        (self.begun, self.done) = (now, 0);
    }

    pub(super) fn add(&mut self, pages: u64) {
        self.done += pages;
    }

    /// Records that a pass ended; `last` is when its last page was written.
    pub(super) fn end(&mut self, last: Duration, now: Duration) {
        // Nothing is known during it: rather too long than too short.
        self.ending = now.saturating_sub(last).max(self.ending * 3 / 4);
        let ended = per_second(self.done, now.saturating_sub(self.begun));
        if self.done >= pages_tell() {
            self.before = if self.before == 0 { ended } else { self.before.midpoint(ended) };
        }
    }

    /// Returns the time that the rest of the pass takes, which has this many pages to write; `None`
    /// if that cannot be told yet.
    fn left(&self, now: Duration, pages: u64) -> Option<Duration> {
        let took = now.saturating_sub(self.begun);
        let measured = per_second(self.done, took);
        let speed = match self.before {
            0 => measured,
            before if self.done == 0 => before,
            before if took < TELLS => measured.min(before),
            _ => measured,
        };
        (speed > 0).then(|| Duration::from_secs_f64(pages as f64 / speed as f64) + self.ending)
    }
}

fn per_second(count: u64, time: Duration) -> u64 {
    (count as f64 / time.as_secs_f64().max(1e-6)) as u64
}

/// Returns the number of bytes in use from which on the ring counts as nearly full.
fn nearly_full(capacity: u64) -> u64 {
    capacity.saturating_sub((capacity / 16).max(4 * BLOCK))
}

/// How much of the ring is in use, or will be when the buffer is written.
struct Filled {
    head: u64,
    used: u64,
    capacity: u64,
}

impl Journal {
    /// Forgets what was charged before a pass, which begins.
    pub(super) fn begin_pace(&self) {
        self.progress.pace.begin();
    }

    /// Sets how fast the ring may be filled while the pass goes on from page `next`.
    pub(super) fn set_pace(&self, speed: &Speed, next: u64) {
        // With those that were marked meanwhile, unless they are behind it.
        let pages = locked(&self.buffer).dirty.count_from(next);
        let Some(left) = speed.left(self.clock.now(), pages) else { return };
        let Filled { used, capacity, .. } = self.filled();
        self.progress.pace.set(nearly_full(capacity).saturating_sub(used), left);
    }

    fn filled(&self) -> Filled {
        let progress = &self.progress;
        // The tail is read first, so that it never exceeds the head.
        let tail = progress.tail.load(Acquire);
        // And what was written before it: bytes may be counted twice for a moment, but never not.
        let written = progress.written.load(Acquire);
        let head = progress.head.load(Acquire);
        let used = head - tail + progress.appended.load(Acquire).saturating_sub(written);
        Filled { head, used, capacity: progress.capacity.load(Acquire) }
    }

    /// Returns true while a write that begins may have to wait for space in its fence, or soon
    /// will. Never after a failure, nor while the journal is held: then a write is told why.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.lacks_space_for(0)
    }

    /// As [`Journal::is_nearly_full`], for writes of this many bytes in all; at most half of the
    /// ring is left for them.
    pub(crate) fn lacks_space_for(&self, bytes: u64) -> bool {
        let Filled { head, used, capacity } = self.filled();
        let most = nearly_full(capacity).min(capacity - bytes.min(capacity / 2));
        used > 0
            && (used >= most || self.is_at_limit(head, capacity))
            && self.failure().is_none()
            && !self.is_held()
            && FaultPoint::PaceWriters.is_enabled()
    }

    /// Returns true while those that have written should wait.
    pub(crate) fn is_half_full(&self) -> bool {
        let Filled { used, capacity, .. } = self.filled();
        used > capacity / 2 && self.failure().is_none()
    }

    /// Returns how long a client that has just appended this many bytes should wait before it goes
    /// on.
    pub(crate) fn charge(&self, bytes: u64, client: &mut ChargedClient) -> Duration {
        if bytes == 0
            || !self.is_half_full()
            || self.is_about_to_grow()
            || !FaultPoint::PaceWriters.is_enabled()
        {
            return Duration::ZERO;
        }
        // In the ring they have headers and padding too.
        let progress = &self.progress;
        let appended = progress.appended.load(Relaxed).max(1);
        let written = progress.counted(Count::BytesWritten) as f64 / appended as f64;
        progress.pace.charge(self.clock.now(), bytes as f64 * written.max(1.0), client)
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::JournalPlace;
    use super::super::storage::tests::Memory;
    use super::*;
    use crate::clock::Clock;
    use std::sync::Arc;

    const RING: u64 = 1 << 20;
    const NEARLY: u64 = RING - RING / 16;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A clock that the test moves.
    #[derive(Default)]
    struct TestClock(AtomicU64);

    impl TestClock {
        fn set(&self, time: Duration) {
            self.0.store(time.as_nanos() as u64, Relaxed);
        }
    }

    impl Clock for TestClock {
        fn now(&self) -> Duration {
            Duration::from_nanos(self.0.load(Relaxed))
        }
    }

    /// Returns a journal with a ring of which the tests say how much is in use, and its clock. Each
    /// line takes as much of the ring as it has bytes.
    fn journal() -> (Journal, Arc<TestClock>) {
        let place = JournalPlace::Given(Arc::new(Memory::new(0)));
        let mut journal = Journal::new(place, RING, Arc::new(Memory::new(0)));
        let clock = Arc::new(TestClock::default());
        journal.clock = Arc::clone(&clock) as Arc<dyn Clock>;
        journal.progress.capacity.store(RING, Release);
        journal.progress.limit.store(u64::MAX, Release);
        (journal, clock)
    }

    fn fill(journal: &Journal, used: u64) {
        journal.progress.head.store(7 + used, Release);
        journal.progress.tail.store(7, Release);
    }

    #[test]
    fn no_write_begins_while_the_ring_is_nearly_full() {
        let full = [64 << 10, (256 << 10) - BLOCK, 256 << 10, RING, 256 << 20].map(nearly_full);
        assert_eq!(full, [48 << 10, (240 << 10) - BLOCK, 240 << 10, NEARLY, 240 << 20]);
        let (journal, _) = journal();
        let is_nearly_full = |used| {
            fill(&journal, used);
            journal.is_nearly_full()
        };
        let found = [0, RING / 2, NEARLY - 1, NEARLY, RING].map(is_nearly_full);
        assert_eq!(found, [false, false, false, true, true]);
        // A write is told why it is refused.
        journal.held.store(true, Release);
        assert!(!is_nearly_full(NEARLY));
        journal.held.store(false, Release);
        assert!(is_nearly_full(NEARLY));
        journal.fail("a test", "it fails");
        assert!(!is_nearly_full(RING));
    }

    #[test]
    fn several_writes_begin_only_while_there_is_space_for_all() {
        let (journal, _) = journal();
        let found = |bytes: u64| {
            let most = (1..=RING).step_by(4096).take_while(|used| {
                fill(&journal, *used);
                !journal.lacks_space_for(bytes)
            });
            most.last().map_or(0, |used| used.next_multiple_of(4096))
        };
        assert_eq!([0, 1, RING / 16].map(found), [NEARLY; 3]);
        assert_eq!(
            [RING / 4, RING / 2, RING, u64::MAX].map(found),
            [RING * 3 / 4, RING / 2, RING / 2, RING / 2]
        );
        fill(&journal, 0);
        assert!(!journal.lacks_space_for(u64::MAX));
    }

    #[test]
    fn a_journal_that_is_not_in_use_delays_nobody() {
        let (journal, _) = journal();
        journal.progress.capacity.store(0, Release);
        journal.progress.pace.rate.store(1, Release);
        fill(&journal, 0);
        assert_eq!(
            (journal.is_nearly_full(), journal.charge(1 << 30, &mut ChargedClient::default())),
            (false, Duration::ZERO)
        );
    }

    #[test]
    fn no_write_begins_while_the_limit_is_near() {
        let (journal, _) = journal();
        fill(&journal, 1);
        journal.progress.is_written.store(true, Release);
        // An eighth of the distance at which the limit is put.
        let near = 1 + RING / 4 / 8;
        let is_near = |limit| {
            journal.progress.limit.store(limit, Release);
            journal.is_nearly_full()
        };
        assert_eq!([7 + near - 1, 7 + near].map(is_near), [true, false]);
        // At the end of the ring there is nothing to wait for.
        fill(&journal, NEARLY - 1);
        assert!(!is_near(RING));
        // Nor in an empty one: its use may have ended.
        fill(&journal, 0);
        assert!(!is_near(7));
    }

    #[test]
    fn who_has_written_waits_from_half_full_on() {
        let (journal, clock) = journal();
        clock.set(at(1000));
        // Each time another client.
        let charge = |used, bytes| {
            fill(&journal, used);
            journal.charge(bytes, &mut ChargedClient::default())
        };
        journal.progress.pace.clients.store(100, Release);
        assert_eq!(charge(RING / 2 + 1, 1 << 30), Duration::ZERO, "the speed is not known yet");
        journal.progress.pace.rate.store(1_000_000, Release);
        assert_eq!(charge(RING / 2, 1 << 30), Duration::ZERO);
        assert_eq!(charge(RING / 2 + 1, 0), Duration::ZERO);
        assert_eq!(charge(RING / 2 + 1, 8_000), at(3), "8 ms, of which 5 may be caught up");
        assert_eq!(charge(RING, 7_000), at(10), "after the one before");
        // Headers and padding count too: a byte takes as many of the ring as it did so far.
        journal.progress.appended.store(1000, Release);
        journal.progress.count(Count::BytesWritten, 4000);
        assert_eq!(charge(RING, 5_000), at(30));
        // A ring that is about to grow needs no pass, unless its content must leave it first.
        journal.progress.wants_growth.store(RING, Release);
        assert_eq!(charge(RING, 5_000), Duration::ZERO);
        journal.progress.growth_lacks_place.store(true, Release);
        assert_eq!(charge(RING, 5_000), at(50));
        journal.progress.growth_lacks_place.store(false, Release);
        journal.progress.growth_after.store(at(1001).as_nanos() as u64, Release);
        assert_eq!(charge(RING, 5_000), at(70));
        journal.fail("a test", "it fails");
        assert_eq!(charge(RING, 5_000), Duration::ZERO);
    }

    #[test]
    fn a_wait_has_bounds_and_what_was_not_used_is_forgotten() {
        let pace = Pace::default();
        pace.clients.store(1000, Release);
        let charge = |now, cost| pace.charge(now, cost, &mut ChargedClient::default());
        assert_eq!(charge(at(1000), 1e12), Duration::ZERO);
        pace.rate.store(1_000, Release);
        assert_eq!(charge(at(1000), 5.0), Duration::ZERO);
        assert_eq!(charge(at(1000), 1.0), at(1));
        assert_eq!(charge(at(1001), 1.0), at(1));
        // Rest is not saved up.
        assert_eq!(charge(at(9000), 6.0), at(1));
        assert_eq!(charge(at(9000), 499.0), LONGEST);
        assert_eq!(charge(at(9000), 1e12), LONGEST);
        assert_eq!(charge(at(9000), 1e12), LONGEST);
        // Whoever waited that long has paid.
        assert_eq!(charge(at(9500), 1.0), at(1));
        pace.set(1000, at(500));
        assert_eq!(pace.rate.load(Relaxed), slowest());
        pace.set(80 << 20, at(500));
        assert_eq!(pace.rate.load(Relaxed), 120 << 20);
        pace.set(0, at(500));
        assert_eq!(pace.rate.load(Relaxed), slowest());
        pace.set(80 << 20, at(0));
        assert_eq!(pace.rate.load(Relaxed), (60 << 20) * 1000);
    }

    #[test]
    fn a_client_pays_for_others_only_what_it_pays_for_itself() {
        let pace = Pace::default();
        pace.rate.store(1_000, Release);
        let mut clients = [ChargedClient::default(); 3];
        let mut charge = |client: usize, cost| pace.charge(at(1000), cost, &mut clients[client]);
        assert_eq!(charge(0, 105.0), at(100));
        assert_eq!(charge(1, 2.0), at(4), "there are two");
        assert_eq!(charge(0, 1.0), at(2));
        assert_eq!(charge(1, 2.0), at(4));
        assert_eq!(charge(2, 2.0), at(6), "there are three");
        assert_eq!(charge(0, 90.0), at(197), "all before it, and its own");
        // The next pass knows nobody yet, and nothing is owed.
        pace.begin();
        assert_eq!(charge(1, 10.0), at(5));
        assert_eq!(charge(0, 10.0), at(15));
        assert_eq!(charge(1, 1.0), at(2));
    }

    #[test]
    fn writers_fill_the_ring_no_faster_than_the_pace_and_have_equal_shares() {
        let pace = Pace::default();
        pace.rate.store(1_000_000, Release);
        // The first one writes ten times as much at once.
        let (mut turns, mut clients) = ([Duration::ZERO; 20], [ChargedClient::default(); 20]);
        let (mut written, mut longest) = ([0; 20], [Duration::ZERO; 20]);
        for ms in 0..10_000 {
            for writer in 0..turns.len() {
                if at(ms) < turns[writer] {
                    continue;
                }
                let bytes = if writer == 0 { 10_000 } else { 1_000 };
                let wait = pace.charge(at(ms), bytes as f64, &mut clients[writer]);
                written[writer] += bytes;
                longest[writer] = longest[writer].max(wait);
                turns[writer] = at(ms) + wait;
            }
        }
        let all: u64 = written.iter().sum();
        assert!((9_500_000..=10_500_000).contains(&all), "{all} bytes in ten seconds");
        assert!(longest[0] <= at(200) && longest[1..].iter().all(|wait| *wait <= at(20)));
        assert!(written.iter().all(|bytes| (400_000..=700_000).contains(bytes)), "{written:?}");
    }

    #[test]
    fn the_rest_of_a_pass_takes_as_long_as_its_pages_and_earlier_passes_tell() {
        let mut speed = Speed::default();
        speed.begin(at(1000));
        assert_eq!(speed.left(at(1000), 10_000), None);
        speed.add(2000);
        assert_eq!(speed.left(at(2000), 8000), Some(at(4000)));
        // More may be marked than there were.
        assert_eq!(speed.left(at(2000), 12_000), Some(at(6000)));
        speed.add(8000);
        speed.end(at(3000), at(3000));
        // What is only in the page cache is fast at first.
        speed.begin(at(3000));
        assert_eq!(speed.left(at(3000), 10_000), Some(at(2000)));
        speed.add(5000);
        assert_eq!(speed.left(at(3100), 5000), Some(at(1000)));
        assert_eq!(speed.left(at(4000), 5000), Some(at(1000)));
        assert_eq!(speed.left(at(8000), 5000), Some(at(5000)));
        speed.end(at(8000), at(8200));
        speed.begin(at(9000));
        speed.add(5000);
        assert_eq!(speed.left(at(10_000), 5000), Some(at(1200)));
        assert_eq!(speed.left(at(10_000), 0), Some(at(200)));
        speed.end(at(11_000), at(11_020));
        speed.begin(at(12_000));
        assert_eq!(speed.left(at(12_000), 0), Some(at(150)), "nearly as long as before");
    }

    #[test]
    fn a_pass_tells_its_own_speed_after_a_while_and_that_of_later_ones_if_it_was_long() {
        let pass = |pages| {
            let mut speed = Speed::default();
            speed.begin(at(0));
            speed.add(pages);
            speed.end(at(100), at(100));
            speed.before
        };
        assert_eq!([pages_tell() - 1, pages_tell()].map(pass), [0, pages_tell() * 10]);
        let left = |took| {
            let mut speed = Speed { before: 100, ..Speed::default() };
            speed.begin(at(0));
            speed.add(500);
            speed.left(took, 500).unwrap()
        };
        let just_before = left(TELLS - Duration::from_nanos(1));
        assert_eq!((just_before, left(TELLS)), (at(5000), at(500)));
    }
}
