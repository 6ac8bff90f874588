//! What becomes of the members of several sorted sets, or sets, together.

use std::collections::HashMap;

use keyspace::{Entry, Members, SortedSetRef, Txn, Type};

use super::Scored;
use crate::failure::Failure;

/// What is made of the scores of a member that several keys have.
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

    /// Infinities that cancel each other out are 0.
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

/// A key that takes part.
pub(super) struct Input<'t> {
    source: Source<'t>,
    /// By which its scores are multiplied.
    pub(super) weight: f64,
}

enum Source<'t> {
    Absent,
    Set(Members<'t>),
    SortedSet(SortedSetRef<'t>),
}

impl<'t> Input<'t> {
    /// Returns the set or sorted set of an entry; a key that is not there has no members.
    pub(super) fn read(txn: &'t Txn<'_>, entry: Option<&Entry>) -> Result<Input<'t>, Failure> {
        let source = match entry {
            None => Source::Absent,
            Some(entry) if txn.type_of(entry) == Type::Set => {
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

    fn score(&self, member: &[u8]) -> Result<Option<f64>, Failure> {
        Ok(match &self.source {
            Source::Absent => None,
            Source::Set(members) => members.contains(member)?.then_some(1.0),
            Source::SortedSet(sorted_set) => sorted_set.score(member)?,
        })
    }

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

    /// Returns a first score, weighed.
    fn weighed(&self, score: f64) -> f64 {
        let weighed = self.weight * score;
        if weighed.is_nan() { 0.0 } else { weighed }
    }
}

/// Members of any key, each once. Small keys come first, which decides in what order scores are
/// added.
pub(super) fn unite(mut inputs: Vec<Input<'_>>, aggregate: Aggregate) -> Result<Scored, Failure> {
    inputs.sort_by_key(Input::len);
    let mut all: HashMap<Vec<u8>, f64> = HashMap::new();
    for input in &inputs {
        input.visit(|member, score| {
            let score = input.weighed(score);
            match all.get_mut(member) {
                Some(so_far) => *so_far = aggregate.of(*so_far, score),
                None => _ = all.insert(member.to_vec(), score),
            }
        })?;
    }
    Ok(all.into_iter().collect())
}

/// Members that all keys have, at most this many.
pub(super) fn intersect(
    mut inputs: Vec<Input<'_>>,
    aggregate: Aggregate,
    most: usize,
) -> Result<Scored, Failure> {
    inputs.sort_by_key(Input::len);
    let Some((smallest, others)) = inputs.split_first() else { return Ok(Scored::new()) };
    let (mut common, mut failed) = (Scored::new(), None);
    smallest.visit(|member, score| {
        if common.len() >= most || failed.is_some() {
            return;
        }
        let everywhere = others.iter().try_fold(Some(smallest.weighed(score)), |so_far, other| {
            let Some(so_far) = so_far else { return Ok(None) };
            let score = other.score(member)?.map(|score| score * other.weight);
            Ok::<_, Failure>(score.map(|score| aggregate.of(so_far, score)))
        });
        match everywhere {
            Ok(Some(score)) => common.push((member.to_vec(), score)),
            Ok(None) => {}
            Err(error) => failed = Some(error),
        }
    })?;
    failed.map_or(Ok(common), Err)
}

/// Members of the first key that no other has.
///
/// As for sets: either all others are asked for each member of the first, or the members of all
/// others are taken out of the first, whichever looks at fewer.
pub(super) fn subtract(inputs: &[Input<'_>]) -> Result<Scored, Failure> {
    let Some((first, others)) = inputs.split_first() else { return Ok(Scored::new()) };
    let mut left: HashMap<Vec<u8>, f64> = HashMap::new();
    first.visit(|member, score| _ = left.insert(member.to_vec(), score))?;
    let asking = first.len().saturating_mul(others.len() as u64) / 2;
    let taking = others.iter().map(Input::len).sum::<u64>().saturating_add(first.len());
    for other in others {
        if left.is_empty() {
            break;
        }
        if asking > taking {
            other.visit(|member, _| _ = left.remove(member))?;
            continue;
        }
        let mut failed = None;
        left.retain(|member, _| match other.score(member) {
            Ok(found) => found.is_none(),
            Err(error) => {
                failed = Some(error);
                true
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
    }
    Ok(left.into_iter().collect())
}
