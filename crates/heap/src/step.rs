//! Every flush, fence and rule of the commit protocol by name.
//!
//! In a build for simulation one of them at a time can be knocked out, at run time, to show that a crash test
//! notices. In any other build this is a flush and a fence.

use pmem::Region;

macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A step of the protocol that can be knocked out in a simulation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Step { $($(#[$doc])* $name,)* }

        impl Step {
            /// All steps, in the order of their numbers.
            pub const ALL: &[Step] = &[$(Step::$name,)*];
        }
    };
}

steps! {
    /// New bytes are flushed before the record's fence.
    FlushFresh,
    /// Large new bytes have a fence of their own before their record.
    FenceDetached,
    /// The record is flushed.
    FlushRecord,
    /// The one fence of a commit.
    FenceCommit,
    /// Words are stored in place only after the fence.
    StoreAfterFence,
    /// Retiring flushes every word that its records changed.
    FlushRetired,
    /// ... and fences before the tail moves.
    FenceRetired,
    /// The new tail is flushed.
    FlushTail,
    /// A part is retired before it is written again.
    RetireAhead,
    /// Recovery believes the newest record only if its fresh ranges match.
    VerifyFresh,
    /// Recovery checks a record's checksum.
    VerifyRecord,
    /// Recovery checks a record's sequence number.
    CheckSequence,
    /// Recovery checks a record's epoch.
    CheckEpoch,
    /// Recovery skips an entry that lies in a later record's fresh range.
    SkipRevoked,
    /// Fresh ranges that had a fence of their own are listed too.
    ListDetached,
    /// Recovery makes durable what it believes before its first store.
    FlushBelieved,
    /// ... with a fence.
    FenceBelieved,
    /// Recovery flushes the words it stored.
    FlushRecovered,
    /// ... and fences before the tails move.
    FenceRecovered,
    /// Recovery flushes the new tails.
    FlushRecoveredTail,
    /// Recovery begins a new epoch.
    NextEpoch,
    /// A freed block is reserved again only after the freeing record's fence.
    ReuseAfterFence,
    /// ... and after every reader pinned before it has gone.
    ReuseAfterPins,
    /// Recovery believes one of several records only if all of them are there.
    CheckLinks,
    /// A long record's body is flushed.
    FlushLong,
    /// A long record's spans stay reserved until it is retired.
    HoldLong,
    /// A span is given to another shard only after its log is retired past the release.
    RetireBeforeHandover,
    /// A new span's header and bitmap are part of the record that takes it.
    ListSpanHeader,
    /// The number of zones is flushed after growth.
    FlushZones,
    /// ... and fenced before a span of the new zone is used.
    FenceZones,
}

#[cfg(feature = "sim")]
mod knocked {
    use super::Step;
    use std::cell::Cell;

    thread_local! {
        static OUT: Cell<Option<Step>> = const { Cell::new(None) };
    }

    /// Knocks a step out in this thread, or none.
    pub fn knock_out(step: Option<Step>) {
        OUT.set(step);
    }

    pub(super) fn is_out(step: Step) -> bool {
        OUT.get() == Some(step)
    }
}

#[cfg(feature = "sim")]
pub use knocked::knock_out;

/// Whether the step is to be done: always, but for the one that a simulation knocked out.
#[inline(always)]
pub(crate) fn done(step: Step) -> bool {
    #[cfg(feature = "sim")]
    let done = !knocked::is_out(step);
    #[cfg(not(feature = "sim"))]
    let done = {
        let _ = step;
        true
    };
    done
}

#[inline]
pub(crate) fn flush(region: &Region, at: u64, len: usize, step: Step) {
    if done(step) {
        region.flush(at, len);
    }
}

#[inline]
pub(crate) fn fence(region: &Region, step: Step) {
    if done(step) {
        region.fence();
    }
}
