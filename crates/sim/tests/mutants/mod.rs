//! Every step of every crate that can be knocked out, numbered through.

use std::fmt;

/// A program without one step.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    /// From 1 on, as `MUTANT` names it.
    pub(crate) nth: usize,
    /// The step's own number.
    pub(crate) number: u32,
    name: String,
}

/// All of them.
pub(crate) fn all() -> Vec<Mutant> {
    let pmem = pmem::Step::ALL.iter().map(|step| (step.number(), format!("pmem {step:?}")));
    let heap = heap::Step::ALL.iter().map(|step| (step.number(), format!("heap {step:?}")));
    let all = pmem.chain(heap).enumerate();
    all.map(|(at, (number, name))| Mutant { nth: at + 1, number, name }).collect()
}

impl Mutant {
    /// The one with this number.
    pub(crate) fn of(nth: usize) -> Option<Mutant> {
        all().into_iter().find(|mutant| mutant.nth == nth)
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.nth, self.name)
    }
}
