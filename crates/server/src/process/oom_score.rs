//! How likely the kernel is to kill this process when the machine is out of memory
//! (`oom-score-adj`).

use std::io;
use std::sync::{Mutex, PoisonError};

use crate::config::Values;
use crate::config::choice::OomScoreAdj;

const FILE: &str = "/proc/self/oom_score_adj";

/// The range of the kernel's value.
const LEAST: i64 = -1000;
const MOST: i64 = 1000;

/// The value given to the kernel.
#[derive(Default)]
pub(crate) struct OomScore {
    /// The value before the first change; none if nothing was changed.
    before: Mutex<Option<i64>>,
}

impl OomScore {
    /// Gives the kernel the value of the directives, or the one it had before.
    pub(crate) fn apply(&self, values: &Values, is_replica: bool) -> io::Result<()> {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if values.oom_score_adj == OomScoreAdj::No {
            if let Some(value) = *before {
                std::fs::write(FILE, value.to_string())?;
            }
            *before = None;
            return Ok(());
        }
        let base = match *before {
            Some(value) => value,
            None => std::fs::read_to_string(FILE)?.trim().parse().map_err(io::Error::other)?,
        };
        std::fs::write(FILE, adjusted(values, is_replica, base).to_string())?;
        *before = Some(base);
        Ok(())
    }
}

/// Returns the value for a primary or a replica. The third is for child processes: there are none.
fn adjusted(values: &Values, is_replica: bool, base: i64) -> i64 {
    let [of_primary, of_replica, _] = values.oom_score_adj_values;
    let change = if is_replica { of_replica } else { of_primary };
    let base = if values.oom_score_adj == OomScoreAdj::Absolute { 0 } else { base };
    i64::clamp(base + change, LEAST, MOST)
}
