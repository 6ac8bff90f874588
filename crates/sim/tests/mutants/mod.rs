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
    macro_rules! steps_of {
        ($($layer:ident)*) => {
            [$($layer::Step::ALL
                .iter()
                .map(|step| (step.number(), format!("{} {step:?}", stringify!($layer))))
                .collect::<Vec<_>>()),*]
        };
    }
    let all = steps_of!(pmem heap structures keyspace aof).into_iter().flatten().enumerate();
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
