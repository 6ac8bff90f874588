//! Ranges of a sorted set, read batch by batch from both ends.
//!
//! An edge of the range becomes a position in the order (a score with a member) as soon as a member
//! was shown there, so that members that are added or removed elsewhere do not shift it. Edges that
//! are given as ranks become positions with the first batch.

use std::ops::{Bound, RangeBounds};

use keyspace::SortedSetRef;

use super::{BYTES, Batch, End, ITEMS};
use crate::Error;
use crate::operations::{Execute, Open};

/// The begin or the end of a range.
#[derive(Clone, Debug)]
pub(crate) enum Edge {
    Start,
    End,
    /// Before the member of this rank.
    Rank(u64),
    /// Before the members of this score, or after them.
    Score(f64, bool),
    /// Before a member, or after it, if all have the same score.
    Name(Vec<u8>, bool),
    /// Before a member of this score, or after it.
    Member(f64, Vec<u8>, bool),
}

impl Edge {
    /// Returns the rank of the first member after the edge.
    pub(crate) fn rank(&self, set: &SortedSetRef<'_>) -> Result<u64, Error> {
        Ok(match self {
            Edge::Start => 0,
            Edge::End => set.len(),
            Edge::Rank(rank) => (*rank).min(set.len()),
            Edge::Score(score, after) => set.count_below(*score, *after)?,
            Edge::Member(score, member, after) => set.count_before(*score, member, *after)?,
            Edge::Name(name, after) => match at_rank(set, 0)? {
                Some((_, score)) => set.count_before(score, name, *after)?,
                None => 0,
            },
        })
    }
}

fn at_rank(set: &SortedSetRef<'_>, rank: u64) -> Result<Option<(Vec<u8>, f64)>, Error> {
    let mut found = None;
    set.visit(rank, false, |member, score| {
        found = Some((member.to_vec(), score));
        false
    })?;
    Ok(found)
}

/// The rest of a range.
#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    pub(crate) low: Edge,
    pub(crate) high: Edge,
}

impl Ranked {
    pub(crate) const ALL: Ranked = Ranked { low: Edge::Start, high: Edge::End };

    pub(crate) fn by_rank(range: &impl RangeBounds<u64>) -> Ranked {
        let low = match range.start_bound() {
            Bound::Unbounded => Edge::Start,
            Bound::Included(&rank) => Edge::Rank(rank),
            Bound::Excluded(&rank) => Edge::Rank(rank.saturating_add(1)),
        };
        let high = match range.end_bound() {
            Bound::Unbounded => Edge::End,
            Bound::Included(&rank) => Edge::Rank(rank.saturating_add(1)),
            Bound::Excluded(&rank) => Edge::Rank(rank),
        };
        Ranked { low, high }
    }

    /// Returns the range between two bounds of some kind.
    pub(crate) fn between<B>(
        start: Bound<B>,
        end: Bound<B>,
        edge: impl Fn(B, bool) -> Edge,
    ) -> Ranked {
        let low = match start {
            Bound::Unbounded => Edge::Start,
            Bound::Included(bound) => edge(bound, false),
            Bound::Excluded(bound) => edge(bound, true),
        };
        let high = match end {
            Bound::Unbounded => Edge::End,
            Bound::Included(bound) => edge(bound, true),
            Bound::Excluded(bound) => edge(bound, false),
        };
        Ranked { low, high }
    }

    /// Reads the next members from an end. Returns true if more are left. Under the lock they are
    /// only copied; `make` is called after it. `place` returns the edge from which to go on after a
    /// member.
    pub(crate) fn fetch<T>(
        &mut self,
        on: &(impl Execute + ?Sized),
        key: &[u8],
        end: End,
        into: &mut Filling<'_, T>,
        make: &impl Fn(&[u8], f64) -> Result<T, Error>,
        place: &impl Fn(Vec<u8>, f64, End) -> Edge,
    ) -> Result<bool, Error> {
        let Filling { members, batch } = into;
        members.begin();
        let rest = on.on(&[key], |tx| tx.read_ranked(key, self, end, members, place))?;
        for (member, score) in members.iter() {
            batch.push(make(member, score)?, member.len());
        }
        let Some(rest) = rest else { return Ok(false) };
        *self = rest;
        Ok(true)
    }
}

/// A batch to be filled, and where the members for it are copied meanwhile.
pub(crate) struct Filling<'a, T> {
    pub(crate) members: &'a mut Members,
    pub(crate) batch: &'a mut Batch<T>,
}

/// Members of a batch, one after the other in one buffer.
#[derive(Default)]
pub(crate) struct Members {
    bytes: Vec<u8>,
    /// The end and the score of each.
    ends: Vec<(usize, f64)>,
    /// How many batches were begun.
    batches: usize,
}

impl Members {
    /// Members of a batch of a long range, so that more members share the search for the first one.
    const MANY: usize = 4 * ITEMS;

    /// Begins the next batch.
    fn begin(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.batches += 1;
    }

    /// Adds a member. Returns true if there is space for another one.
    fn push(&mut self, member: &[u8], score: f64) -> bool {
        self.bytes.extend_from_slice(member);
        self.ends.push((self.bytes.len(), score));
        let most = if self.batches <= 2 { ITEMS } else { Members::MANY };
        self.ends.len() < most && self.bytes.len() < BYTES
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], f64)> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|&(end, _)| end));
        starts.zip(&self.ends).map(|(start, &(end, score))| (&self.bytes[start..end], score))
    }
}

/// Returns the edge from which a range goes on after a member was shown.
pub(crate) fn next_to(member: Vec<u8>, score: f64, end: End) -> Edge {
    Edge::Member(score, member, end == End::Front)
}

impl Open<'_> {
    /// Reads members of a range from an end. Returns the rest of the range, if there is one.
    fn read_ranked(
        &mut self,
        key: &[u8],
        range: &Ranked,
        end: End,
        members: &mut Members,
        place: &impl Fn(Vec<u8>, f64, End) -> Edge,
    ) -> Result<Option<Ranked>, Error> {
        let key = self.key(&key)?;
        let Some(entry) = self.txn.find(self.db, &key) else { return Ok(None) };
        let set = self.txn.sorted_set(&entry)?;
        let (low, high) = (range.low.rank(&set)?, range.high.rank(&set)?);
        let Some(first) = high.checked_sub(1).filter(|&last| last >= low) else { return Ok(None) };
        let from = if end == End::Front { low } else { first };
        let (mut left, mut last) = (high - low, None);
        set.visit(from, end == End::Back, |member, score| {
            left -= 1;
            let goes_on = members.push(member, score) && left > 0;
            if !goes_on {
                last = Some((member.to_vec(), score));
            }
            goes_on
        })?;
        let Some((member, score)) = last.filter(|_| left > 0) else { return Ok(None) };
        let mut rest = range.clone();
        match end {
            End::Front => rest.low = place(member, score, end),
            End::Back => rest.high = place(member, score, end),
        }
        // The other end, if it is given as a rank.
        if let (Edge::Rank(_), Some((member, score))) = (&rest.high, at_rank(&set, high - 1)?) {
            rest.high = Edge::Member(score, member, true);
        }
        if let (Edge::Rank(_), Some((member, score))) = (&rest.low, at_rank(&set, low)?) {
            rest.low = Edge::Member(score, member, false);
        }
        Ok(Some(rest))
    }
}
