//! Combines the members of several sorted sets, or sets.

use std::collections::HashSet;

use engine::failure::Failure;
use keyspace::{Entry, Members, SortedSetRef, Txn, Type};

use super::gathered::GatheredScores;
use crate::collections::gathered::{AT_ONCE, Gathered};

/// How the scores of a member in several keys are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    pub(super) fn parse(word: &[u8]) -> Option<Aggregate> {
        match word.to_ascii_lowercase().as_slice() {
            b"sum" => Some(Aggregate::Sum),
            b"min" => Some(Aggregate::Min),
            b"max" => Some(Aggregate::Max),
            _ => None,
        }
    }

    /// Combines two scores. Infinities that cancel each other out give 0.
    fn of(self, score: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum if (score + other).is_nan() => 0.0,
            Aggregate::Sum => score + other,
            Aggregate::Min => {
                if other < score {
                    other
                } else {
                    score
                }
            }
            Aggregate::Max => {
                if other > score {
                    other
                } else {
                    score
                }
            }
        }
    }
}

/// A source key.
pub(super) struct Input<'t> {
    source: Source<'t>,
    /// The factor of its scores.
    pub(super) weight: f64,
}

enum Source<'t> {
    Absent,
    Set(Members<'t>),
    SortedSet(SortedSetRef<'t>),
}

impl<'t> Input<'t> {
    /// Reads the set or sorted set of an entry; a missing key has no members.
    pub(super) fn read(txn: &'t Txn<'_>, entry: Option<&Entry>) -> Result<Input<'t>, Failure> {
        let source = match entry {
            None => Source::Absent,
            Some(entry) if txn.properties(entry).value_type() == Type::Set => {
                Source::Set(txn.members(entry, Type::Set)?)
            }
            Some(entry) => Source::SortedSet(txn.sorted_set(entry)?),
        };
        Ok(Input { source, weight: 1.0 })
    }

    fn len(&self) -> u64 {
        match &self.source {
            Source::Absent => 0,
            Source::Set(members) => members.len(),
            Source::SortedSet(sorted_set) => sorted_set.len(),
        }
    }

    /// Passes all members with their scores to `visit`.
    fn visit(&self, mut visit: impl FnMut(&[u8], f64)) -> Result<(), Failure> {
        match &self.source {
            Source::Absent => {}
            Source::Set(members) => members.visit(|member, _| visit(member, 1.0))?,
            Source::SortedSet(sorted_set) => sorted_set.visit(0, false, |member, score| {
                visit(member, score);
                true
            })?,
        }
        Ok(())
    }

    /// Gathers some members from a cursor on (0 for the start). Returns the next cursor (0 for the
    /// end).
    fn gather(&self, cursor: u64, into: &mut GatheredScores) -> Result<u64, Failure> {
        match &self.source {
            Source::Absent => Ok(0),
            Source::Set(members) => {
                Ok(members.scan(cursor, AT_ONCE, |member, _| into.push(member, 1.0))?)
            }
            Source::SortedSet(sorted_set) => {
                let mut next = cursor;
                sorted_set.visit(cursor, false, |member, score| {
                    into.push(member, score);
                    next += 1;
                    next - cursor < AT_ONCE as u64
                })?;
                Ok(if next < sorted_set.len() { next } else { 0 })
            }
        }
    }

    /// Replaces each member's score with what `merge` makes of it and of the member's score here
    /// (`None` if it has no such member), and drops the members for which that is `None`.
    fn merge(
        &self,
        members: &mut Vec<(&[u8], f64)>,
        merge: impl Fn(f64, Option<f64>) -> Option<f64>,
    ) -> Result<(), Failure> {
        let names: Vec<&[u8]> = members.iter().map(|(name, _)| *name).collect();
        let mut kept = 0;
        let mut keep = |at: usize, score: Option<f64>| {
            let (name, so_far) = members[at];
            if let Some(score) = merge(so_far, score) {
                members[kept] = (name, score);
                kept += 1;
            }
        };
        match &self.source {
            Source::Absent => (0..names.len()).for_each(|at| keep(at, None)),
            Source::Set(set) => {
                set.contains_each(&names, |at, found| keep(at, found.then_some(1.0)))?;
            }
            Source::SortedSet(sorted_set) => sorted_set.score_each(&names, keep)?,
        }
        members.truncate(kept);
        Ok(())
    }

    /// Returns a score, weighted.
    fn weighed(&self, score: f64) -> f64 {
        let weighed = self.weight * score;
        if weighed.is_nan() { 0.0 } else { weighed }
    }
}

/// Returns the members of any key, each once. Small keys come first, which determines the order in
/// which scores are added.
pub(super) fn unite(
    mut inputs: Vec<Input<'_>>,
    aggregate: Aggregate,
) -> Result<GatheredScores, Failure> {
    inputs.sort_by_key(Input::len);
    let mut all = GatheredScores::default();
    for input in &inputs {
        input.visit(|member, score| all.push(member, input.weighed(score)))?;
    }
    Ok(if inputs.len() > 1 { all.united(|score, other| aggregate.of(score, other)) } else { all })
}

/// Returns the members that all keys have, at most this many.
pub(super) fn intersect(
    mut inputs: Vec<Input<'_>>,
    aggregate: Aggregate,
    most: usize,
) -> Result<GatheredScores, Failure> {
    inputs.sort_by_key(Input::len);
    let Some((smallest, others)) = inputs.split_first() else { return Ok(Default::default()) };
    let mut common = filtered(smallest, most, |members| {
        members.iter_mut().for_each(|(_, score)| *score = smallest.weighed(*score));
        others.iter().try_for_each(|other| {
            other.merge(members, |so_far, score| {
                score.map(|score| aggregate.of(so_far, score * other.weight))
            })
        })
    })?;
    common.truncate(most);
    Ok(common)
}

/// Returns the members of the first key that no other has.
///
/// As for sets, there are two methods: look up each member of the first key in the others, or
/// remove the members of all others from the first; it uses the one that visits fewer members.
pub(super) fn subtract(inputs: &[Input<'_>]) -> Result<GatheredScores, Failure> {
    let Some((first, others)) = inputs.split_first() else { return Ok(Default::default()) };
    let asking = first.len().saturating_mul(others.len() as u64) / 2;
    let taking = others.iter().map(Input::len).sum::<u64>().saturating_add(first.len());
    if asking > taking {
        let mut taken = Gathered::default();
        others.iter().try_for_each(|other| other.visit(|member, _| taken.push(member)))?;
        let taken: HashSet<&[u8]> = taken.iter().collect();
        return filtered(first, usize::MAX, |members| {
            members.retain(|(member, _)| !taken.contains(member));
            Ok(())
        });
    }
    filtered(first, usize::MAX, |members| {
        others.iter().try_for_each(|other| {
            other.merge(members, |score, found| found.is_none().then_some(score))
        })
    })
}

/// Returns the members of a key that pass `filter`, piece by piece, until there are as many as
/// asked for, or a few more.
fn filtered(
    input: &Input<'_>,
    most: usize,
    filter: impl Fn(&mut Vec<(&[u8], f64)>) -> Result<(), Failure>,
) -> Result<GatheredScores, Failure> {
    let (mut left, mut piece, mut cursor) = Default::default();
    loop {
        GatheredScores::clear(&mut piece);
        cursor = input.gather(cursor, &mut piece)?;
        let mut members: Vec<(&[u8], f64)> = piece.iter().collect();
        filter(&mut members)?;
        members.iter().for_each(|(name, score)| GatheredScores::push(&mut left, name, *score));
        if cursor == 0 || left.len() >= most {
            return Ok(left);
        }
    }
}
