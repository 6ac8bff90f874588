//! The explorer finds what it is meant to find: a store with each of its flushes and fences left
//! out.
//!
//! The store is the smallest that needs them: two words that change together through a redo record
//! of one line. Complete, it must pass; with any step missing, it must fail. If this test fails,
//! the other crash tests prove nothing.

#![allow(unsafe_code, reason = "stores into a region are unsafe")]

use pmem::Region;
use sim::{Crash, Effort, Failure, Subject, explore};

/// The record's line: sequence number, both values, and a sum over the three.
const RECORD: u64 = 0;
const FIRST: u64 = 64;
const SECOND: u64 = 128;
const LEN: usize = 192;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Omit {
    Nothing,
    RecordFlush,
    RecordFence,
    Sum,
    HomeFlush,
    HomeFence,
    RecoveryFlush,
    Revocation,
    OwnThread,
    /// The record's last word is on a flushed line, and is not flushed.
    RecordTail,
    /// Nothing is omitted: the record is streamed by the thread that fences.
    Streamed,
    /// The record is streamed, and not fenced.
    StreamFence,
    /// The record is streamed by a thread other than the one that flushes and fences.
    StreamThread,
}

impl Omit {
    fn streams(self) -> bool {
        matches!(self, Omit::Streamed | Omit::StreamFence | Omit::StreamThread)
    }
}

struct Pair(Omit);

struct Open {
    region: Region,
    sequence: u64,
}

impl Open {
    fn store(&self, off: u64, value: u64) {
        // SAFETY: nobody holds slices of the region.
        unsafe { self.region.store(off, value) };
    }

    /// Writes the record past the cache; returns true if it must still be flushed.
    fn stream(&self, plan: (u64, u64)) -> bool {
        let mut line = [0; 64];
        let words = [self.sequence, plan.0, plan.1, sum(self.sequence, plan)];
        for (word, value) in line.chunks_exact_mut(8).zip(words) {
            word.copy_from_slice(&value.to_le_bytes());
        }
        // SAFETY: nobody holds slices of the region.
        unsafe { self.region.write_lines(RECORD, &line) }
    }

    fn home(&self, omit: Omit, values: (u64, u64)) {
        self.store(FIRST, values.0);
        self.store(SECOND, values.1);
        if omit != Omit::HomeFlush {
            self.region.flush(FIRST, 8);
            self.region.flush(SECOND, 8);
        }
        if omit != Omit::HomeFence {
            self.region.fence();
        }
    }
}

fn sum(sequence: u64, values: (u64, u64)) -> u64 {
    (sequence ^ values.0.rotate_left(17) ^ values.1.rotate_left(41))
        .wrapping_mul(0x9E3779B97F4A7C15)
}

impl Subject for Pair {
    type State = (u64, u64);
    type Plan = (u64, u64);
    type Store = Open;

    fn reserve(&self) -> usize {
        LEN
    }

    fn empty(&self) -> (u64, u64) {
        (0, 0)
    }

    fn open(&self, region: Region) -> Result<Open, String> {
        region.grow(LEN as u64).map_err(|error| error.to_string())?;
        let word = |n: u64| region.load(RECORD + n * 8);
        let (sequence, values) = (word(0), (word(1), word(2)));
        let whole = self.0 == Omit::Sum || word(3) == sum(sequence, values);
        let store = Open { region, sequence };
        if sequence != 0 && whole {
            if self.0 != Omit::RecoveryFlush {
                store.region.flush(RECORD, 32);
                store.region.fence();
            }
            store.home(Omit::Nothing, values);
        } else if self.0 != Omit::Revocation {
            // The parts of a torn record that arrived must not combine with the words of a later
            // one.
            store.store(RECORD + 24, 0);
            store.region.flush(RECORD, 32);
            store.region.fence();
        }
        Ok(store)
    }

    fn read(&self, store: &mut Open) -> Result<(u64, u64), String> {
        Ok((store.region.load(FIRST), store.region.load(SECOND)))
    }

    fn plan(&self, state: &(u64, u64), rng: &mut fastrand::Rng) -> ((u64, u64), (u64, u64)) {
        let next = (state.0 + rng.u64(1..9), state.1 + rng.u64(1..9));
        (next, next)
    }

    fn close(&self, _store: &mut Open) -> Result<(), String> {
        Ok(())
    }

    fn run(&self, store: &mut Open, plan: &(u64, u64)) -> Result<bool, String> {
        store.sequence += 1;
        if self.0.streams() {
            let is_cached = match self.0 {
                Omit::StreamThread => std::thread::scope(|scope| {
                    scope.spawn(|| store.stream(*plan)).join().expect("no panic");
                    true
                }),
                _ => store.stream(*plan),
            };
            if is_cached {
                store.region.flush(RECORD, 32);
            }
            if self.0 != Omit::StreamFence {
                store.region.fence();
            }
            store.home(self.0, *plan);
            return Ok(true);
        }
        // The checksum is written first and the sequence number last: each order within the line
        // must be torn to be found.
        store.store(RECORD + 24, sum(store.sequence, *plan));
        store.store(RECORD + 8, plan.0);
        store.store(RECORD + 16, plan.1);
        store.store(RECORD, store.sequence);
        match self.0 {
            Omit::RecordFlush => {}
            Omit::RecordTail => store.region.flush(RECORD, 24),
            _ => store.region.flush(RECORD, 32),
        }
        match self.0 {
            Omit::RecordFence => {}
            Omit::OwnThread => {
                std::thread::scope(|scope| scope.spawn(|| store.region.fence()).join()).unwrap();
            }
            _ => store.region.fence(),
        }
        store.home(self.0, *plan);
        Ok(true)
    }
}

/// Returns the first violation in a few explorations.
fn violation(omit: Omit, crash: Crash) -> Option<Failure> {
    violation_on(omit, crash, false)
}

/// Like `violation`, on a medium that distinguishes copies past the cache from other stores, or
/// does not.
fn violation_on(omit: Omit, crash: Crash, streams: bool) -> Option<Failure> {
    (5..8).find_map(|seed| {
        let few = Effort::new(crash, seed);
        let effort =
            Effort { transactions: 12, go_on_one_in: 4, shrink_seconds: 0, streams, ..few };
        let outcome = explore(&Pair(omit), effort);
        if let Ok(counts) = &outcome {
            assert!(counts.deepest == 2 && counts.images > 1000, "{counts:?}");
        }
        outcome.err()
    })
}

#[test]
fn a_correct_store_survives_every_crash() {
    for crash in Crash::ALL {
        if let Some(failure) = violation(Omit::Nothing, crash) {
            panic!("{failure}");
        }
    }
}

#[test]
fn a_store_with_any_step_left_out_does_not() {
    for omit in [
        Omit::RecordFlush,
        Omit::RecordFence,
        Omit::Sum,
        Omit::HomeFlush,
        Omit::HomeFence,
        Omit::RecoveryFlush,
        Omit::Revocation,
        Omit::OwnThread,
    ] {
        let failure = violation(omit, Crash::Strict);
        let failure = failure.unwrap_or_else(|| panic!("nobody misses {omit:?}"));
        assert!(!failure.path.is_empty(), "{failure}");
    }
}

#[test]
fn a_flush_of_words_does_not_cover_the_rest_of_their_line() {
    for crash in [Crash::Strict, Crash::X86] {
        assert!(violation(Omit::RecordTail, crash).is_none(), "the line is flushed");
    }
    assert!(violation(Omit::RecordTail, Crash::FlushedWords).is_some(), "the word is not");
}

#[test]
fn what_is_streamed_needs_the_fence_of_its_own_thread() {
    for crash in [Crash::Strict, Crash::X86] {
        for streams in [false, true] {
            let failure = violation_on(Omit::Streamed, crash, streams);
            assert!(failure.is_none(), "{failure:?}");
            assert!(violation_on(Omit::StreamFence, crash, streams).is_some());
        }
        assert!(violation_on(Omit::StreamThread, crash, false).is_none(), "the flush covers it");
        assert!(violation_on(Omit::StreamThread, crash, true).is_some(), "nothing flushes it");
    }
}

#[test]
fn a_seed_repeats_its_exploration() {
    let run = |seed| explore(&Pair(Omit::Nothing), Effort::new(Crash::Strict, seed)).unwrap();
    assert_eq!(run(9), run(9));
    assert_ne!(run(9), run(10));
}
