//! Every fault point of every crate, numbered consecutively.

use std::fmt;

/// A program with one fault point disabled.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    /// The number, from 1 on, that `MUTANT` uses.
    pub(crate) nth: usize,
    /// The fault point's own number.
    pub(crate) number: u32,
    name: String,
}

/// Returns all of them.
pub(crate) fn all() -> Vec<Mutant> {
    macro_rules! points_of {
        ($($layer:ident)*) => {
            [$($layer::FaultPoint::ALL
                .iter()
                .map(|point| (point.number(), format!("{} {point:?}", stringify!($layer))))
                .collect::<Vec<_>>()),*]
        };
    }
    let all =
        points_of!(pmem heap structures keyspace commands aof).into_iter().flatten().enumerate();
    all.map(|(at, (number, name))| Mutant { nth: at + 1, number, name }).collect()
}

impl Mutant {
    /// Returns the one with this number.
    pub(crate) fn of(nth: usize) -> Option<Mutant> {
        all().into_iter().find(|mutant| mutant.nth == nth)
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.nth, self.name)
    }
}
