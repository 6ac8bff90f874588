//! One thread that uses a pool in a fixed way: with every kind of call, and a ring that becomes
//! full several times. It continues after a call has failed, like somebody who ignores errors.

use crate::overlap::model::{Contents, Counts, WRITERS, own_lines, store_and_flush};
use crate::overlap::pool;
use crate::overlap::threads::{Ack, Done, Required};
use pmem::{Clock, Region, SyncPolicy};
use sim::SimulatedClock;
use std::fmt::Display;
use std::time::Duration;

pub(crate) const RING: u64 = 64 << 10;

/// The lengths of fences in lines: at and next to the capacity of a batch.
const LENS: [usize; 14] = [1, 126, 125, 127, 62, 124, 200, 1, 126, 61, 3, 126, 63, 125];
const POLICIES: [SyncPolicy; 3] = [SyncPolicy::Always, SyncPolicy::EverySecond, SyncPolicy::No];

/// A user of a pool, with what was done and promised.
pub(crate) struct User<'r> {
    pub(crate) region: &'r Region,
    pub(crate) clock: &'r SimulatedClock,
    pub(crate) done: Done,
    pub(crate) required: Required,
    /// The errors that calls have returned.
    pub(crate) said: Vec<String>,
}

impl<'r> User<'r> {
    /// Starts with a pool that holds something.
    pub(crate) fn new(region: &'r Region, clock: &'r SimulatedClock, base: Contents) -> User<'r> {
        let done = Done::nothing(base);
        User { region, clock, done, required: Required::default(), said: Vec::new() }
    }

    fn note<E: Display>(&mut self, done: Result<(), E>) -> bool {
        let is_done = done.is_ok();
        self.said.extend(done.err().map(|error| error.to_string()));
        is_done
    }

    /// Stores to some of a writer's lines; returns true if the fence succeeded.
    pub(crate) fn fence(&mut self, writer: usize, from: usize, len: usize) -> bool {
        let own = own_lines(writer, self.region.len());
        let from = from % (own.len() - len + 1);
        let lines = &own[from..from + len];
        let (_, value) = self.done.history.begin(writer, lines);
        store_and_flush(self.region, writer, lines, value);
        self.region.fence();
        if let Some(failure) = self.region.journal_failure() {
            self.said.push(failure.to_owned());
            return false;
        }
        self.done.history.end(writer, self.region.appended());
        true
    }

    /// Waits until everything may be acknowledged.
    pub(crate) fn acknowledge(&mut self, policy: SyncPolicy) {
        let acknowledged = self.region.acknowledge(self.region.appended(), policy);
        if self.note(acknowledged) {
            self.promise(policy == SyncPolicy::Always);
        }
    }

    fn promise(&mut self, is_durable: bool) {
        for writer in 0..WRITERS {
            let (count, _) = self.done.history.ended(writer);
            let ack = Ack { writer, count, is_durable, at: self.clock.now() };
            self.required.add(&ack);
        }
    }

    /// Uses the pool, beginning with one of the policies.
    pub(crate) fn go(&mut self, first: usize, fences: usize) {
        let (mut syncs, mut applies) = self.region.background_steps().expect("a journal");
        for (n, len) in LENS.iter().cycle().take(fences).enumerate() {
            if self.fence(n % WRITERS, n * 37, *len) {
                self.acknowledge(POLICIES[(first + n) % POLICIES.len()]);
            }
            self.clock.pass(Duration::from_millis(400));
            let done = match n {
                4 => {
                    let grown = self.region.grow(pool::GROWN);
                    self.note(grown);
                    Ok(())
                }
                5 => self.region.sync_in_background(),
                7 => self.region.checkpoint_step().map(drop),
                2 | 8 => syncs.look(self.region, Some(Duration::from_secs(1))),
                9 => {
                    self.clock.pass(Duration::from_secs(1));
                    applies.look(self.region).and_then(|()| {
                        self.clock.pass(Duration::from_secs(1));
                        applies.look(self.region)
                    })
                }
                11 => self.region.checkpoint(),
                _ => Ok(()),
            };
            self.note(done);
        }
    }

    /// Ends the use of the journal, unless it has failed.
    pub(crate) fn close(&mut self) {
        if self.region.journal_failure().is_none() {
            let closed = pool::close(self.region);
            if self.note(closed) {
                self.promise(true);
            }
        }
    }

    /// Returns how many fences of each writer ended.
    pub(crate) fn ended(&self) -> Counts {
        std::array::from_fn(|writer| self.done.history.ended(writer).0)
    }
}
