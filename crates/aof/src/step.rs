//! The steps of the log that crash tests show to be needed, by name: see the crate `pmem` on how
//! one is left out.
//!
//! That crate is used in a build for simulation alone, for this and for the order in which threads
//! get at locks.

/// Lists the steps, in a build for simulation with their numbers.
macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[cfg(feature = "sim")]
        pmem::steps! { 192: $($(#[$doc])* $name,)* }

        #[cfg(not(feature = "sim"))]
        #[derive(Clone, Copy)]
        pub(crate) enum Step { $($(#[$doc])* $name,)* }
    };
}

steps! {
    /// What was appended before a cut goes into the present file, what was appended after it into
    /// the next one.
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
impl Step {
    /// Whether the step is to be done: always, but in a simulation.
    #[inline(always)]
    pub(crate) const fn done(self) -> bool {
        true
    }
}
