//! Sorted sets: members with scores, found by member, by rank and by score.
//!
//! Members of equal score are in the order of their bytes. Ranks count from 0, the lowest score. A
//! score is any number but NaN. A sorted set has no key while it has no member.

use std::ops::{Range, RangeBounds};

use keyspace::Limits;

use crate::iter::ranked::{Edge, Filling, Members, Ranked, next_to};
use crate::operations::{Execute, Open, Writable};
use crate::{Error, Perdura, RangeIter, Transaction};

/// A member of a sorted set with its score.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura, Scored};
///
/// let store = Perdura::open(Options::volatile())?;
/// store.sorted_set_add("players", "anna", 12.5)?;
/// store.sorted_set_add("players", "ben", 3.0)?;
/// let lowest: Option<Scored> = store.sorted_set_pop("players")?;
/// assert_eq!(lowest, Some((b"ben".to_vec(), 3.0)));
/// # Ok(())
/// # }
/// ```
pub type Scored = (Vec<u8>, f64);

/// The sizes up to which the listpack encoding is used: Redis's defaults.
pub(crate) const LIMITS: Limits = Limits { entries: 128, value: 64 };

impl Open<'_> {
    /// Returns the score of a member.
    pub(crate) fn score(
        &mut self,
        key: &impl AsRef<[u8]>,
        member: &impl AsRef<[u8]>,
    ) -> Result<Option<f64>, Error> {
        let key = self.key(key)?;
        let Some(entry) = self.txn.find(self.db, &key) else { return Ok(None) };
        Ok(self.txn.sorted_set(&entry)?.score(member.as_ref())?)
    }

    /// Sets the score of a member to what `decide` makes of its present one. Returns the new score,
    /// and whether the member is new.
    pub(crate) fn score_by(
        &mut self,
        key: &[u8],
        member: &[u8],
        decide: impl FnOnce(Option<f64>) -> f64,
    ) -> Result<(f64, bool), Error> {
        self.whole(|tx| {
            let key = tx.key(&key)?;
            let mut edit = tx.txn.sorted_sets().edit(tx.db, &key, LIMITS)?;
            let (mut score, mut is_new) = (0.0, false);
            edit.change(&mut tx.txn, member, |old| {
                (score, is_new) = (decide(old), old.is_none());
                Some(score).filter(|score| !score.is_nan())
            })?;
            if score.is_nan() {
                return Err(Error::NotANumber);
            }
            edit.finish(&mut tx.txn, tx.db, &key)?;
            Ok((score, is_new))
        })
    }
}

/// Returns an iterator over a range of a sorted set.
fn iterate<'s, S: Execute + ?Sized>(
    on: &'s S,
    key: &[u8],
    mut range: Ranked,
) -> RangeIter<'s, Scored, S> {
    let key = key.to_vec();
    let mut members = Members::default();
    let make = |member: &[u8], score| Ok((member.to_vec(), score));
    RangeIter::new(on, move |on, end, batch| {
        let mut into = Filling { members: &mut members, batch };
        range.fetch(on, &key, end, &mut into, &make, &next_to)
    })
}

/// Operations on sorted sets. Members of equal score are in the order of their bytes; ranks count
/// from 0, the lowest score.
pub trait SortedSets: Execute {
    /// Sets the score of a member of a sorted set. Returns true if the member is new.
    fn sorted_set_add(
        &self,
        key: impl AsRef<[u8]>,
        member: impl AsRef<[u8]>,
        score: f64,
    ) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.on(&[key.as_ref()], |tx| Ok(tx.score_by(key.as_ref(), member.as_ref(), |_| score)?.1))
    }

    /// Adds to the score of a member of a sorted set, 0 if there is none. Returns the sum.
    fn sorted_set_increment(
        &self,
        key: impl AsRef<[u8]>,
        member: impl AsRef<[u8]>,
        by: f64,
    ) -> Result<f64, Error>
    where
        Self: Writable,
    {
        self.on(&[key.as_ref()], |tx| {
            Ok(tx.score_by(key.as_ref(), member.as_ref(), |old| old.unwrap_or(0.0) + by)?.0)
        })
    }

    /// Removes a member from a sorted set. Returns true if it was there.
    fn sorted_set_remove(
        &self,
        key: impl AsRef<[u8]>,
        member: impl AsRef<[u8]>,
    ) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            let mut edit = tx.txn.sorted_sets().edit(tx.db, &key, LIMITS)?;
            let was_there = edit.remove(&mut tx.txn, member.as_ref())?;
            edit.finish(&mut tx.txn, tx.db, &key)?;
            Ok(was_there)
        })
    }

    /// Removes the member with the lowest score from a sorted set and returns it.
    fn sorted_set_pop(&self, key: impl AsRef<[u8]>) -> Result<Option<Scored>, Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            let mut edit = tx.txn.sorted_sets().edit(tx.db, &key, LIMITS)?;
            let mut found = None;
            let keep = |member: &[u8], score: f64| found = Some((member.to_vec(), score));
            edit.remove_range(&mut tx.txn, 0, 1, keep)?;
            edit.finish(&mut tx.txn, tx.db, &key)?;
            Ok(found)
        })
    }

    /// Returns the score of a member of a sorted set.
    fn sorted_set_score(
        &self,
        key: impl AsRef<[u8]>,
        member: impl AsRef<[u8]>,
    ) -> Result<Option<f64>, Error> {
        self.on(&[key.as_ref()], |tx| tx.score(&key, &member))
    }

    /// Returns the rank of a member of a sorted set.
    fn sorted_set_rank(
        &self,
        key: impl AsRef<[u8]>,
        member: impl AsRef<[u8]>,
    ) -> Result<Option<u64>, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            let Some(entry) = tx.txn.find(tx.db, &key) else { return Ok(None) };
            let found = tx.txn.sorted_set(&entry)?.rank(member.as_ref())?;
            Ok(found.map(|(rank, _)| rank))
        })
    }

    /// Returns how many members a sorted set has; 0 if there is no key.
    fn sorted_set_len(&self, key: impl AsRef<[u8]>) -> Result<u64, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            let Some(entry) = tx.txn.find(tx.db, &key) else { return Ok(0) };
            Ok(tx.txn.sorted_set(&entry)?.len())
        })
    }

    /// Returns the ranks of the members with `min <= score < max`.
    fn sorted_set_ranks(
        &self,
        key: impl AsRef<[u8]>,
        min: f64,
        max: f64,
    ) -> Result<Range<u64>, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            let Some(entry) = tx.txn.find(tx.db, &key) else { return Ok(0..0) };
            let sorted_set = tx.txn.sorted_set(&entry)?;
            let start = sorted_set.count_below(min, false)?;
            Ok(start..sorted_set.count_below(max, false)?.max(start))
        })
    }

    /// Returns an iterator over the members of a sorted set with their scores, from the lowest and
    /// from the highest. See [`RangeIter`] for the effect of concurrent writes.
    fn sorted_set_iter(&self, key: impl AsRef<[u8]>) -> RangeIter<'_, Scored, Self> {
        iterate(self, key.as_ref(), Ranked::ALL)
    }

    /// Returns an iterator over the members of a sorted set whose ranks, at the first step, are in
    /// a range.
    fn sorted_set_by_rank(
        &self,
        key: impl AsRef<[u8]>,
        ranks: impl RangeBounds<u64>,
    ) -> RangeIter<'_, Scored, Self> {
        iterate(self, key.as_ref(), Ranked::by_rank(&ranks))
    }

    /// Returns an iterator over the members of a sorted set whose scores are in a range.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura, Scored};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// for (job, due) in [("wash", 10.0), ("dry", 20.0), ("fold", 30.0)] {
    ///     store.sorted_set_add("jobs", job, due)?;
    /// }
    /// let due = store.sorted_set_by_score("jobs", ..=20.0);
    /// let due: Vec<Scored> = due.collect::<Result<_, _>>()?;
    /// assert_eq!(due, [(b"wash".to_vec(), 10.0), (b"dry".to_vec(), 20.0)]);
    /// # Ok(())
    /// # }
    /// ```
    fn sorted_set_by_score(
        &self,
        key: impl AsRef<[u8]>,
        scores: impl RangeBounds<f64>,
    ) -> RangeIter<'_, Scored, Self> {
        let (low, high) = (scores.start_bound().cloned(), scores.end_bound().cloned());
        iterate(self, key.as_ref(), Ranked::between(low, high, Edge::Score))
    }

    /// Returns an iterator over the members of a sorted set, all of the same score, that are in a
    /// range of byte strings. If scores differ, only members of the lowest score are meaningful.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// for name in ["anna", "ben", "bert", "cleo"] {
    ///     store.sorted_set_add("names", name, 0.0)?;
    /// }
    /// assert_eq!(store.sorted_set_by_name("names", "b".."c").count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    fn sorted_set_by_name<N: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        names: impl RangeBounds<N>,
    ) -> RangeIter<'_, Scored, Self> {
        let start = names.start_bound().map(|name| name.as_ref().to_vec());
        let end = names.end_bound().map(|name| name.as_ref().to_vec());
        iterate(self, key.as_ref(), Ranked::between(start, end, Edge::Name))
    }

    /// Returns up to `count` members of a sorted set with their scores, from a rank upwards.
    fn sorted_set_members(
        &self,
        key: impl AsRef<[u8]>,
        rank: u64,
        count: usize,
    ) -> Result<Vec<Scored>, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            let mut found = Vec::new();
            let Some(entry) = tx.txn.find(tx.db, &key).filter(|_| count > 0) else {
                return Ok(found);
            };
            tx.txn.sorted_set(&entry)?.visit(rank, false, |member, score| {
                found.push((member.to_vec(), score));
                found.len() < count
            })?;
            Ok(found)
        })
    }
}

impl SortedSets for Perdura {}
impl SortedSets for Transaction<'_> {}
