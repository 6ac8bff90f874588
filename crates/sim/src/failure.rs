//! A failed exploration, and how to reproduce it.

use crate::durability::Crash;
use std::fmt;

/// What went wrong, and how it came about.
#[derive(Clone, Debug, thiserror::Error)]
pub struct Failure {
    /// The seed given to the explorer.
    pub seed: u64,
    /// The crash model.
    pub crash: Crash,
    /// The crash that led into each later incarnation, outermost first.
    pub path: Vec<String>,
    /// The history of the first incarnation: number and description of each action that the failure
    /// needs.
    pub history: Vec<(usize, String)>,
    /// What was found.
    pub what: String,
}

/// Maximum number of characters of a line that is shown.
const WIDTH: usize = 240;

impl fmt::Display for Failure {
    /// Writes the violation first, then how it came about, each line shortened to a readable
    /// length.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.what.lines().try_for_each(|line| writeln!(f, "{}", cut(line)))?;
        writeln!(f, "seed {}, crash model {:?}", self.seed, self.crash)?;
        for (depth, crash) in self.path.iter().enumerate() {
            writeln!(f, "  {depth}: {}", cut(crash))?;
        }
        for (n, action) in &self.history {
            writeln!(f, "action {n}: {}", cut(action))?;
        }
        Ok(())
    }
}

/// Returns the part of a line that is shown.
fn cut(line: &str) -> String {
    let count = line.chars().count();
    if count <= WIDTH {
        return line.to_owned();
    }
    let start: String = line.chars().take(WIDTH).collect();
    format!("{start} ... ({} more)", count - WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_violation_comes_first_and_no_line_is_long() {
        let failure = Failure {
            seed: 1,
            crash: Crash::Strict,
            path: vec!["p".repeat(5000)],
            history: vec![(7, "h".repeat(5000))],
            what: format!("key lost\n{}", "w".repeat(5000)),
        };
        let text = failure.to_string();
        assert!(text.starts_with("key lost\n"), "{text}");
        assert!(text.lines().all(|line| line.len() < WIDTH + 40), "{text}");
        let last = text.lines().last().expect("a line");
        assert!(last.starts_with("action 7: hhh") && last.ends_with("... (4760 more)"), "{last}");
    }
}
