//! What was explored.

use pmem::{FAULT_POINTS, FaultPointSet};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum number of images of one crash that are counted.
const COUNTED: u64 = 64;

/// What was explored.
#[derive(Clone, PartialEq, Eq)]
pub struct Counts {
    /// Crash images opened and compared; at most 64 are counted for one crash.
    pub images: u64,
    /// All images that were opened and compared.
    pub opened: u64,
    /// Moments at which a crash was tried.
    pub crashes: u64,
    /// Incarnations that ran transactions.
    pub incarnations: u64,
    /// Transactions that the store refused.
    pub refused: u64,
    /// Deepest chain of crashes.
    pub deepest: usize,
    /// Crashes while an action was under way, by its name.
    pub doing: BTreeMap<&'static str, u64>,
    /// Crashes after each fault point was passed, by the fault point's number.
    pub fault_points: Vec<u64>,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            images: 0,
            opened: 0,
            crashes: 0,
            incarnations: 0,
            refused: 0,
            deepest: 0,
            doing: BTreeMap::new(),
            fault_points: vec![0; FAULT_POINTS],
        }
    }
}

impl Counts {
    /// Adds the counts of another exploration.
    pub fn add(&mut self, other: &Counts) {
        self.images += other.images;
        self.opened += other.opened;
        self.crashes += other.crashes;
        self.incarnations += other.incarnations;
        self.refused += other.refused;
        self.deepest = self.deepest.max(other.deepest);
        for (name, count) in &other.doing {
            *self.doing.entry(name).or_default() += count;
        }
        self.fault_points.iter_mut().zip(&other.fault_points).for_each(|(all, more)| *all += more);
    }

    pub(crate) fn crash(&mut self, opened: u64, doing: &[&'static str], passed: FaultPointSet) {
        self.crashes += 1;
        self.opened += opened;
        self.images += opened.min(COUNTED);
        for name in doing {
            *self.doing.entry(name).or_default() += 1;
        }
        for (point, count) in self.fault_points.iter_mut().enumerate() {
            *count += passed[point / 64] >> (point % 64) & 1;
        }
    }
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counts")
            .field("images", &self.images)
            .field("opened", &self.opened)
            .field("crashes", &self.crashes)
            .field("incarnations", &self.incarnations)
            .field("refused", &self.refused)
            .field("deepest", &self.deepest)
            .field("doing", &self.doing)
            .field("fault_points", &self.fault_points.iter().filter(|count| **count > 0).count())
            .finish()
    }
}
