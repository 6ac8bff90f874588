//! A failed exploration, and how to see it again.

use crate::durability::Crash;
use std::fmt;

/// What went wrong, and the way there.
#[derive(Clone, Debug, thiserror::Error)]
pub struct Failure {
    /// The seed given to the explorer.
    pub seed: u64,
    /// The crash model in force.
    pub crash: Crash,
    /// The crash that led into each later life, outermost first.
    pub path: Vec<String>,
    /// What was done in the first life: number and words of each action that the failure needs.
    pub history: Vec<(usize, String)>,
    /// What was found.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, action) in &self.history {
            writeln!(f, "action {n}: {action}")?;
        }
        writeln!(f, "{}", self.what)?;
        writeln!(f, "seed {}, crash model {:?}", self.seed, self.crash)?;
        for (depth, crash) in self.path.iter().enumerate() {
            writeln!(f, "  {depth}: {crash}")?;
        }
        Ok(())
    }
}
