//! The fault points of the log: rules that crash tests show to be necessary, by name. The crate
//! `pmem` says how one is disabled.
//!
//! That crate is used only in a build for simulation, for fault points and for the order in which
//! threads get locks.

/// Lists the fault points, in a build for simulation with their numbers.
macro_rules! fault_points {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[cfg(feature = "sim")]
        pmem::fault_points! { 192: $($(#[$doc])* $name,)* }

        #[cfg(not(feature = "sim"))]
        #[derive(Clone, Copy)]
        pub(crate) enum FaultPoint { $($(#[$doc])* $name,)* }
    };
}

fault_points! {
    /// Commands appended before a cut go into the present file, those appended after it into the
    /// next one.
    DivideAtCut,
    /// The next file begins with a SELECT.
    SelectAfterCut,
    /// A file is durable before the next one is listed.
    SyncBeforeNext,
    /// The next file is listed before it is written to.
    ListNext,
    /// A new base is durable before it is listed.
    SyncBase,
    /// A manifest's bytes are durable before its name is,
    SyncManifest,
    /// ... and the names of the files that it lists,
    SyncListed,
    /// ... and its name before anything relies on it.
    SyncNames,
}

#[cfg(not(feature = "sim"))]
impl FaultPoint {
    /// Returns true: only a simulation can disable fault points.
    #[inline(always)]
    pub(crate) const fn is_enabled(self) -> bool {
        true
    }
}
