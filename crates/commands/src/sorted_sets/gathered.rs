//! Members with scores that a command has read and will show or store: one after the other in one
//! buffer, since a command may gather millions.

use std::hash::{BuildHasher, RandomState};

use keyspace::sort_scored;

use crate::collections::gathered::Gathered;

/// Members with their scores, in the order of their arrival.
#[derive(Default)]
pub(super) struct GatheredScores {
    names: Gathered,
    scores: Vec<f64>,
}

impl GatheredScores {
    pub(super) fn push(&mut self, member: &[u8], score: f64) {
        self.names.push(member);
        self.scores.push(score);
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn clear(&mut self) {
        self.names.clear();
        self.scores.clear();
    }

    /// Keeps the first members only, at most this many.
    pub(super) fn truncate(&mut self, most: usize) {
        self.names.truncate(most);
        self.scores.truncate(most);
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], f64)> {
        self.names.iter().zip(self.scores.iter().copied())
    }

    /// Returns the members in the order of a sorted set.
    pub(super) fn in_order(&self) -> Vec<(&[u8], f64)> {
        let mut members = self.iter().collect();
        sort_scored(&mut members);
        members
    }

    /// Returns each member once, with its scores aggregated in the order of their arrival.
    ///
    /// The members are visited in the order of their hashes, so that equal ones follow each other:
    /// a hash table of millions would miss the cache at each lookup.
    pub(super) fn united(&self, aggregate: impl Fn(f64, f64) -> f64) -> GatheredScores {
        let hasher = RandomState::new();
        let hashes = self.names.iter().map(|name| hasher.hash_one(name));
        let mut rows: Vec<(u64, usize)> = hashes.zip(0..).collect();
        rows.sort_unstable();
        let mut united = GatheredScores::default();
        for same in rows.chunk_by(|(hash, _), (its, _)| hash == its) {
            let from = united.len();
            for &(_, number) in same {
                let (name, score) = (self.names.get(number), self.scores[number]);
                match (from..united.len()).find(|&at| united.names.get(at) == name) {
                    Some(at) => united.scores[at] = aggregate(united.scores[at], score),
                    None => united.push(name, score),
                }
            }
        }
        united
    }
}
