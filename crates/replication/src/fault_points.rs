//! The fault points of the ring: rules that crash tests show to be necessary, by name. The crate
//! `pmem` says how one is disabled, and is used in a build for simulation alone.

/// Lists the fault points, in a build for simulation with their numbers.
macro_rules! fault_points {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[cfg(feature = "sim")]
        pmem::fault_points! { 224: $($(#[$doc])* $name,)* }

        #[cfg(not(feature = "sim"))]
        #[derive(Clone, Copy)]
        pub(crate) enum FaultPoint { $($(#[$doc])* $name,)* }
    };
}

fault_points! {
    /// Nothing is shown from a commit on that has not ended.
    HideUnfinished,
    /// What follows a SELECT of a commit that has not ended selects its own database.
    SelectAfterUnfinished,
    /// A frame whose commit failed becomes void,
    VoidFailed,
    /// ... durably so, before its shard is unlocked.
    FenceVoid,
    /// A frame without a home is durable before it is shown.
    FenceHomeless,
    /// Whoever appends a frame writes the heads back of those whose commits have not ended.
    WriteBackHeads,
    /// A ring is durable before the pool names it.
    FenceBeginning,
    /// A ring has a mark from its beginning on.
    MarkBeginning,
    /// A frame counts only if its home's word says so,
    CountByWord,
    /// ... and takes its place as padding if it does not.
    PadUncounted,
    /// What follows one that does not count was not sent: replicas that have it are refused.
    RefuseAfterUncounted,
    /// After the last commit the stream ends before the first frame that does not count.
    CutAtUncounted,
    /// A ring with commits after those of the data is not believed.
    RefuseNewer,
    /// Of two rings that belong to the place, the one that goes further is believed.
    TakeFurthest,
}

#[cfg(not(feature = "sim"))]
impl FaultPoint {
    /// Returns true: only a simulation can disable fault points.
    #[inline(always)]
    pub(crate) const fn is_enabled(self) -> bool {
        true
    }
}
