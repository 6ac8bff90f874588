//! Fault points: the flushes, fences, checks and rules of a protocol that a simulation can disable,
//! by number, to show that a test catches it.
//!
//! Each crate lists its own with [`fault_points!`](crate::fault_points) and checks `is_enabled`
//! where each of them applies. A build for simulation can disable one fault point of any crate at a
//! time, at run time, for every thread of the process; it records which ones a thread passed, so
//! that a crash can be located. In any other build `is_enabled` is `true`, and nothing of this is
//! left.
//!
//! This crate's own fault points are the places where a range of bytes becomes lines or pages, and
//! where a file grows.

/// The numbers of fault points are below this.
pub const FAULT_POINTS: usize = 256;

/// Lists the fault points of a crate: an enumeration whose numbers begin at a base that the numbers
/// of no other crate reach.
#[macro_export]
macro_rules! fault_points {
    ($base:literal: $($(#[$doc:meta])* $name:ident,)*) => {
        /// A part of a protocol that a simulation can disable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub enum FaultPoint { $($(#[$doc])* $name,)* }

        impl FaultPoint {
            /// All of them, in the order of their numbers.
            pub const ALL: &[FaultPoint] = &[$(FaultPoint::$name,)*];

            /// Returns its number among those of all crates.
            pub const fn number(self) -> u32 {
                $base + self as u32
            }

            /// Returns true unless a simulation disabled it.
            #[inline(always)]
            #[allow(dead_code, reason = "a crate may ask in its own way")]
            pub(crate) fn is_enabled(self) -> bool {
                $crate::fault_point_is_enabled(self.number())
            }
        }

        const _: () = assert!($base as usize + FaultPoint::ALL.len() <= $crate::FAULT_POINTS);
    };
}

fault_points! { 1:
    /// A flush that begins inside a line flushes that line too.
    FlushFirstLine,
    /// A flush that begins inside a line and ends in the line after its length flushes that line
    /// too.
    FlushLastLine,
    /// The bytes before the first whole line of a streamed copy are flushed.
    FlushStreamHead,
    /// The whole lines of a streamed copy go past the cache.
    StreamBody,
    /// The bytes after the last whole line of a streamed copy are flushed.
    FlushStreamTail,
    /// A flush that begins in one page and ends in another remembers the last one too.
    RememberLastPage,
    /// What is remembered of a page removes nothing that is remembered of later ones.
    KeepRemembered,
    /// A file's new length is synced before it counts.
    SyncGrown,
    /// ... and so is a length that an earlier process gave it.
    SyncFound,
    /// A fence copies its lines while the journal's buffer is locked.
    CopyUnderLock,
    /// A batch of the journal counts only with its checksum,
    VerifyBatch,
    /// ... with the sequence number that is next,
    CheckSequence,
    /// ... and with an incarnation that is not older than that of the previous batch.
    CheckIncarnation,
    /// A batch that had been synced and is not whole is damage, not the end.
    FindDamage,
    /// The superblock's copies are written in turn.
    AlternateSuperblocks,
    /// A recovery writes batches again that are not known to be synced.
    RewriteUnsynced,
    /// A page whose lines are appended is marked for the next checkpoint,
    MarkPages,
    /// ... as does each page of a range that covers several,
    MarkLastPage,
    /// ... as does each page into which a recovery stored.
    MarkRecovered,
    /// A checkpoint moves the tail to where the ring ended before its pages were copied.
    CutBeforeCopy,
    /// The marks of pages are taken before the pages are copied.
    TakeBeforeCopy,
    /// The journal is synced up to its end at the time of the copying before copied pages are
    /// written.
    SyncBeforeWrite,
    /// All pages of a checkpoint are synced before the tail moves,
    SyncApplied,
    /// ... and the tail before the space that it frees is overwritten.
    SyncTail,
    /// The first batch after a sync begins a new block: a block with synced bytes is not written
    /// again.
    BeginBlock,
    /// After the last opening, batches of earlier ones no longer count.
    CheckOpening,
    /// A reader looks for the next batch after the last one, and then in the next block.
    ScanNextBlock,
    /// No batch is written past the limit in the superblock.
    KeepLimit,
    /// Bytes that are stored into a mapped journal through the cache are written back,
    WriteBackMapped,
    /// ... and each write to it ends with a fence of the thread that stored.
    FenceMapped,
    /// The pool records which batches it has, in the sync after which they may leave the journal.
    SayApplied,
    /// A sync in the background makes durable only what had been written when it began.
    CountBeforeSync,
    /// An acknowledgement waits for a late sync.
    WaitForLateSync,
    /// The use of a journal ends only once it is empty, whatever others have appended.
    EndEmpty,
    /// A ring grows only if everything in it stays in its place,
    GrowInPlace,
    /// ... no batch is written past its lap meanwhile,
    StopAtLap,
    /// ... and the file's new length is synced before the superblock says it.
    SyncGrownRing,
    /// Writers that ask are slowed down before the ring is full.
    PaceWriters,
    /// A limit that is lowered counts for writers before a reader can find it.
    LowerFirst,
}

/// Returns true: no fault point can be disabled in this build.
#[cfg(not(feature = "sim"))]
#[inline(always)]
pub const fn fault_point_is_enabled(number: u32) -> bool {
    let _ = number;
    true
}

/// A place where a test may make the thread panic: see `panic_after`. Does nothing in any other
/// build.
#[cfg(not(feature = "sim"))]
#[inline(always)]
pub const fn panic_point() {}

#[cfg(feature = "sim")]
pub use switch::{
    FaultPointSet, disable_fault_point, fault_point_is_enabled, panic_after, panic_point,
    take_passed_fault_points,
};

#[cfg(feature = "sim")]
mod switch {
    use super::FAULT_POINTS;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    /// A set of fault points, by number.
    pub type FaultPointSet = [u64; FAULT_POINTS / 64];

    static DISABLED: AtomicU32 = AtomicU32::new(0);

    thread_local! {
        static PASSED: Cell<FaultPointSet> = const { Cell::new([0; FAULT_POINTS / 64]) };
        /// How many more places this thread passes before it panics at one; `None`: it never does.
        static PANIC_AFTER: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Makes the calling thread panic, once, after it has passed this many panic points; or never.
    /// Returns what was left of the previous number.
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

    /// Disables a fault point in all threads of the process, or none (0).
    pub fn disable_fault_point(number: u32) {
        DISABLED.store(number, Relaxed);
    }

    /// Returns true unless the fault point of this number is disabled. Records that this thread
    /// passed it.
    #[inline]
    pub fn fault_point_is_enabled(number: u32) -> bool {
        PASSED.with(|set| {
            let mut passed = set.get();
            passed[number as usize / 64] |= 1 << (number % 64);
            set.set(passed);
        });
        panic_point();
        DISABLED.load(Relaxed) != number
    }

    /// Returns the fault points that this thread has passed since the previous call.
    pub fn take_passed_fault_points() -> FaultPointSet {
        PASSED.with(|set| set.replace([0; FAULT_POINTS / 64]))
    }
}

/// Returns the offsets of the units, lines or words, that a flush of this range reports to a
/// simulation: all of them, unless a mistake is simulated.
#[cfg(feature = "sim")]
pub(crate) fn flushed_units(off: u64, len: usize, unit: u64) -> impl Iterator<Item = u64> {
    use crate::lines::{LINE, lines};
    let (whole, short) = (lines(off, len).len() as u64, (len as u64).div_ceil(LINE));
    let (mut first, mut end) = (off / LINE, off / LINE + whole);
    if !off.is_multiple_of(LINE) && !FaultPoint::FlushFirstLine.is_enabled() {
        first += 1;
    }
    if short < whole && !FaultPoint::FlushLastLine.is_enabled() {
        end -= 1;
    }
    let (from, to) = (off / unit * unit, off + len as u64);
    (first * LINE..end * LINE).step_by(unit as usize).filter(move |at| (from..to).contains(at))
}
