//! The core workloads of the Yahoo! Cloud Serving Benchmark, on keys with string values.
//!
//! | | mix | keys |
//! |---|---|---|
//! | A | 50 % read, 50 % update | scrambled Zipf |
//! | B | 95 % read, 5 % update | scrambled Zipf |
//! | C | read | scrambled Zipf |
//! | D | 95 % read, 5 % insert | the latest most often |
//! | E | 95 % scan, 5 % insert | scrambled Zipf, up to 100 keys from there |
//! | F | 50 % read, 50 % read, then write the same key | scrambled Zipf |
//!
//! A store of keys has no order to scan in: E reads keys of consecutive numbers with one MGET,
//! which costs the server what a scan of a table would not. D may read a key whose insert is still
//! on its way, and miss it. Values are single strings of `--data-size` bytes; YCSB's own are ten
//! fields of a hundred.

use clap::ValueEnum;

/// One of the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "their names say nothing; the file's table does")]
pub enum Ycsb {
    A,
    B,
    C,
    D,
    E,
    F,
}

/// The exponent of the Zipf distribution that YCSB uses.
pub(crate) const EXPONENT: f64 = 0.99;

/// The longest scan, in keys.
pub(crate) const LONGEST_SCAN: u64 = 100;

/// What a client does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

impl Ycsb {
    /// Returns what clients do, with how many percent of it.
    pub(crate) fn mix(self) -> &'static [(Action, u64)] {
        match self {
            Ycsb::A => &[(Action::Read, 50), (Action::Update, 50)],
            Ycsb::B => &[(Action::Read, 95), (Action::Update, 5)],
            Ycsb::C => &[(Action::Read, 100)],
            Ycsb::D => &[(Action::Read, 95), (Action::Insert, 5)],
            Ycsb::E => &[(Action::Scan, 95), (Action::Insert, 5)],
            Ycsb::F => &[(Action::Read, 50), (Action::ReadModifyWrite, 50)],
        }
    }

    /// Returns true if the keys that were inserted last are read most often.
    pub(crate) fn reads_latest(self) -> bool {
        self == Ycsb::D
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mix_is_a_whole() {
        for ycsb in Ycsb::value_variants() {
            assert_eq!(ycsb.mix().iter().map(|(_, share)| share).sum::<u64>(), 100, "{ycsb:?}");
        }
    }
}
