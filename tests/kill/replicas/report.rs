//! The figures of a scenario with replicas.

use std::fmt;

/// The figures of a scenario.
#[derive(Default)]
pub(super) struct Figures {
    pub(super) rounds: u64,
    /// Primaries that were killed, and replicas.
    pub(super) primaries: u64,
    pub(super) replicas: u64,
    pub(super) terminations: u64,
    /// Replicas that were promoted after their primary was gone, and beside it.
    pub(super) promotions: u64,
    pub(super) splits: u64,
    /// Primaries that were started again where they were.
    pub(super) in_place: u64,
    /// Those of them whose replicas had to continue, and did.
    pub(super) returned: u64,
    /// FAILOVERs that exchanged roles, and those that did not.
    pub(super) failovers: u64,
    pub(super) given_up: u64,
    /// Links that were cut, stalled or slowed down.
    pub(super) faults: u64,
    /// Dumps that replicas got, and links that continued.
    pub(super) dumps: u64,
    pub(super) continued: u64,
    /// Calls by their outcome.
    pub(super) acknowledged: u64,
    pub(super) unknown: u64,
    pub(super) refused: u64,
    pub(super) seconds: f64,
}

impl Figures {
    pub(super) fn kills(&self) -> u64 {
        self.primaries + self.replicas
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { rounds, primaries, replicas, terminations, .. } = self;
        let Figures { promotions, splits, in_place, returned, failovers, .. } = self;
        let Figures { given_up, faults, .. } = self;
        let Figures { dumps, continued, acknowledged, unknown, refused, seconds, .. } = self;
        write!(f, "rounds={rounds} primaries_killed={primaries} replicas_killed={replicas} ")?;
        write!(f, "terminations={terminations} promotions={promotions} splits={splits} ")?;
        write!(f, "started_again={in_place} returned={returned} failovers={failovers} ")?;
        write!(f, "given_up={given_up} ")?;
        write!(f, "faults={faults} dumps={dumps} continued={continued} ")?;
        write!(f, "acknowledged={acknowledged} unknown={unknown} refused={refused} ")?;
        write!(f, "seconds={seconds:.1} lost=0")
    }
}
