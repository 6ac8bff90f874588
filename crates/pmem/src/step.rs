//! Steps of a protocol, by number, that a simulation can leave out to show that a test notices.
//!
//! Each crate lists its own steps with [`steps!`](crate::steps) and asks `done` at the place where a step stands. In
//! a build for simulation one step at a time, of all crates, can be knocked out at run time, for every thread of the
//! process; which steps a thread came by is noted, so that a crash can be told from where it struck. In any other
//! build `done` is `true`, and nothing of this is left.
//!
//! This crate's own steps are the places where a range of bytes becomes lines or pages, and where a file grows.

/// Steps that can be told apart: their numbers are below this.
pub const STEPS: usize = 256;

/// Lists the steps of a crate: an enumeration whose numbers begin at a base that no other crate's reach.
#[macro_export]
macro_rules! steps {
    ($base:literal: $($(#[$doc:meta])* $name:ident,)*) => {
        /// A step that a simulation can leave out.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Step { $($(#[$doc])* $name,)* }

        impl Step {
            /// All steps, in the order of their numbers.
            pub const ALL: &[Step] = &[$(Step::$name,)*];

            /// Its number among the steps of all crates.
            pub const fn number(self) -> u32 {
                $base + self as u32
            }

            /// Whether the step is to be done: always, but for the one that a simulation left out.
            #[inline(always)]
            #[allow(dead_code, reason = "a crate may ask in its own way")]
            pub(crate) fn done(self) -> bool {
                $crate::step_is_done(self.number())
            }
        }

        const _: () = assert!($base as usize + Step::ALL.len() <= $crate::STEPS);
    };
}

steps! { 1:
    /// A flush that begins inside a line flushes that line too.
    FlushFirstLine,
    /// A flush that begins inside a line and ends in the one behind its length flushes that one too.
    FlushLastLine,
    /// The bytes before the first whole line of a streamed copy are flushed.
    FlushStreamHead,
    /// The whole lines of a streamed copy go past the cache.
    StreamBody,
    /// The bytes behind the last whole line of a streamed copy are flushed.
    FlushStreamTail,
    /// A flush that begins in one page and ends in another remembers the last one too.
    RememberLastPage,
    /// What is remembered of a page takes nothing back of those behind it.
    KeepRemembered,
    /// A file's new length is synced before it counts.
    SyncGrown,
    /// So is a length that an earlier process gave it.
    SyncFound,
}

/// Whether the step of this number is to be done.
#[cfg(not(feature = "sim"))]
#[inline(always)]
pub const fn step_is_done(number: u32) -> bool {
    let _ = number;
    true
}

/// A place where a test may let the thread panic: see `panic_after`. Nothing in any other build.
#[cfg(not(feature = "sim"))]
#[inline(always)]
pub const fn panic_point() {}

#[cfg(feature = "sim")]
pub use knocked::{StepSet, knock_out, panic_after, panic_point, step_is_done, take_steps};

#[cfg(feature = "sim")]
mod knocked {
    use super::STEPS;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    /// A set of steps, by number.
    pub type StepSet = [u64; STEPS / 64];

    static OUT: AtomicU32 = AtomicU32::new(0);

    thread_local! {
        static CAME_BY: Cell<StepSet> = const { Cell::new([0; STEPS / 64]) };
        /// How many more places this thread passes before it panics at one; none: it never does.
        static PANIC_AFTER: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Lets the calling thread panic, once, after it has passed this many places where it may; or never. Returns
    /// what was left of the number before.
    pub fn panic_after(places: Option<u64>) -> Option<u64> {
        PANIC_AFTER.replace(places)
    }

    /// A place where the calling thread panics if [`panic_after`] says so.
    #[inline]
    pub fn panic_point() {
        if std::thread::panicking() {
            return;
        }
        match PANIC_AFTER.get() {
            None => {}
            Some(0) => {
                PANIC_AFTER.set(None);
                std::panic::resume_unwind(Box::new("a test asked for this panic"));
            }
            Some(left) => PANIC_AFTER.set(Some(left - 1)),
        }
    }

    /// Leaves a step out in all threads of the process, or none (0).
    pub fn knock_out(number: u32) {
        OUT.store(number, Relaxed);
    }

    /// Whether the step of this number is to be done. Notes that this thread came by.
    #[inline]
    pub fn step_is_done(number: u32) -> bool {
        CAME_BY.with(|set| {
            let mut steps = set.get();
            steps[number as usize / 64] |= 1 << (number % 64);
            set.set(steps);
        });
        panic_point();
        OUT.load(Relaxed) != number
    }

    /// The steps that this thread came by since it last asked.
    pub fn take_steps() -> StepSet {
        CAME_BY.with(|set| set.replace([0; STEPS / 64]))
    }
}

/// The lines that a flush of this range reports to a simulation: all, unless a mistake is simulated.
#[cfg(feature = "sim")]
pub(crate) fn flushed_lines(off: u64, len: usize) -> std::ops::Range<u64> {
    use crate::lines::{LINE, lines};
    let (whole, short) = (lines(off, len).len() as u64, (len as u64).div_ceil(LINE));
    let (mut first, mut end) = (off / LINE, off / LINE + whole);
    if !off.is_multiple_of(LINE) && !Step::FlushFirstLine.done() {
        first += 1;
    }
    if short < whole && !Step::FlushLastLine.done() {
        end -= 1;
    }
    first..end
}
