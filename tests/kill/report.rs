//! The figures of a scenario, and the table that collects those of many runs.

use std::fmt;

/// The figures of a scenario.
#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) kills: u64,
    pub(crate) terminations: u64,
    /// Starts that were killed before they were complete.
    pub(crate) starts_killed: u64,
    /// Acknowledged steps.
    pub(crate) steps: u64,
    /// Scripts among them.
    pub(crate) scripts: u64,
    /// Commands refused for lack of space.
    pub(crate) refused: u64,
    /// Clients that were told that nothing more can be written.
    pub(crate) out_of_service: u64,
    pub(crate) seconds: f64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { kills, terminations, starts_killed, steps, refused, .. } = self;
        let Figures { out_of_service, seconds, .. } = self;
        write!(f, "kills={kills} terminations={terminations} starts_killed={starts_killed} ")?;
        write!(f, "steps={steps} scripts={} refused={refused} ", self.scripts)?;
        write!(f, "out_of_service={out_of_service} seconds={seconds:.1} lost=0")
    }
}

const HEAD: &str = "backend\tkills\tterminations\tstarts killed\tsteps\trefused\tout of service\tlost\tseed\tseconds";

/// Adds a row to the table that `KILL_LOG` names.
pub(crate) fn add(backend: &str, figures: &Figures, seed: u64) {
    let Figures { kills, terminations, starts_killed, steps, refused, .. } = figures;
    let Figures { out_of_service, seconds, .. } = figures;
    let row = format!(
        "{backend}\t{kills}\t{terminations}\t{starts_killed}\t{steps}\t{refused}\t{out_of_service}\t0\t{seed}\t{seconds:.0}"
    );
    testkit::evidence::add("KILL_LOG", HEAD, &row);
}
