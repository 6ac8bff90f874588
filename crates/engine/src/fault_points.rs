//! The fault points of this crate, and of the commands that run scripts: rules that crash tests
//! show to be necessary, by name. The crate `pmem` says how one is disabled.

heap::fault_points! { 208:
    /// A script's changes are committed at its end, all at once.
    CommitAtEnd,
    /// A halted script's changes are not committed,
    DiscardHalted,
    /// ... nor is it logged,
    ForgetEffects,
    /// ... nor are its messages sent.
    ForgetMessages,
    /// A script that is run again has the same random numbers,
    SameRandom,
    /// ... and the same time.
    SameTime,
    /// A command of several that fails undoes its own changes.
    RollBackStep,
}

impl FaultPoint {
    /// Returns true unless a simulation disabled it.
    #[inline(always)]
    pub fn holds(self) -> bool {
        self.is_enabled()
    }
}
