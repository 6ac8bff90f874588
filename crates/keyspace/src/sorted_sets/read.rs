//! Reading a sorted set in place: by member, by rank, by score.

use std::ops::Range;

use heap::{Ptr, Shard, View};
use structures::Damaged;
use structures::dict::Member;
use structures::sorted_set::{FoundMember, SortedSet};

use crate::Error;
use crate::collection::{Head, Layout, ScoredItem, Text, item, pairs};
use crate::entry;
use crate::key::Hashing;
use crate::members::{ASKED_AT_ONCE, find, listpack_bytes, prefetch_members, sound_table};

/// A sorted set that is read in place. Ranks count from 0, the lowest score.
pub struct SortedSetRef<'t> {
    shard: &'t Shard<'t>,
    hashing: Hashing,
    at: Ptr,
    count: u32,
    repr: Repr<'t>,
}

enum Repr<'t> {
    Listpack(&'t [u8]),
    Table(SortedSet),
}

impl<'t> SortedSetRef<'t> {
    pub(super) fn read(
        shard: &'t Shard<'t>,
        hashing: Hashing,
        at: Ptr,
        head: Head,
    ) -> Result<SortedSetRef<'t>, Error> {
        let word = shard.word(entry::cell(shard, at));
        let repr = match head.layout {
            Layout::Listpack => Repr::Listpack(listpack_bytes(shard, at, head, word)?),
            Layout::SortedSet => Repr::Table(SortedSet::at(sound_table(shard, at, word)?.ptr())),
            Layout::ListpackWithTtls | Layout::HashTable | Layout::List | Layout::Stream => {
                return Err(Error::WrongType);
            }
        };
        Ok(SortedSetRef { shard, hashing, at, count: head.count, repr })
    }

    fn damaged(&self, _: Damaged) -> Error {
        Error::Damaged(self.at.raw())
    }

    fn verify(&self) -> bool {
        self.shard.heap().is_durable()
    }

    /// Returns the number of members.
    pub fn len(&self) -> u64 {
        match &self.repr {
            Repr::Listpack(_) => u64::from(self.count),
            Repr::Table(sorted_set) => sorted_set.len(self.shard),
        }
    }

    /// Returns true if there are none, which is never so for a key that exists.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if it is packed.
    pub fn is_listpack(&self) -> bool {
        matches!(self.repr, Repr::Listpack(_))
    }

    fn table_find(
        &self,
        sorted_set: SortedSet,
        member: &[u8],
    ) -> Result<Option<FoundMember>, Error> {
        let found = sorted_set.find(self.shard, self.hashing.hash(member), member, self.verify());
        found.map_err(|damaged| self.damaged(damaged))
    }

    /// Returns the score of a member.
    pub fn score(&self, member: &[u8]) -> Result<Option<f64>, Error> {
        match self.repr {
            Repr::Listpack(bytes) => {
                let found = find(bytes, 2, item(member)).map(|(at, _)| at);
                Ok(found.and_then(|at| pairs(&bytes[at..]).next()).map(|pair| pair.score))
            }
            Repr::Table(sorted_set) => {
                Ok(self.table_find(sorted_set, member)?.map(|found| found.score))
            }
        }
    }

    /// Reports the score of each of these members, in order. In a table, prefetches the lookups of
    /// a group of members before it looks at the first.
    pub fn score_each(
        &self,
        members: &[&[u8]],
        mut report: impl FnMut(usize, Option<f64>),
    ) -> Result<(), Error> {
        for (number, some) in members.chunks(ASKED_AT_ONCE).enumerate() {
            if let Repr::Table(sorted_set) = self.repr {
                let names = some.iter().copied();
                prefetch_members(self.shard, sorted_set.dict(), &self.hashing, names);
            }
            for (at, member) in some.iter().enumerate() {
                report(number * ASKED_AT_ONCE + at, self.score(member)?);
            }
        }
        Ok(())
    }

    /// Returns the rank and the score of a member.
    pub fn rank(&self, member: &[u8]) -> Result<Option<(u64, f64)>, Error> {
        match self.repr {
            Repr::Listpack(bytes) => {
                let wanted = item(member);
                let mut all = pairs(bytes).zip(0..);
                let found = all.find(|(pair, _)| pair.member == wanted);
                Ok(found.map(|(pair, rank)| (rank, pair.score)))
            }
            Repr::Table(sorted_set) => {
                let Some(found) = self.table_find(sorted_set, member)? else { return Ok(None) };
                let rank = sorted_set.rank(self.shard, &found, member);
                Ok(Some((rank.map_err(|damaged| self.damaged(damaged))?, found.score)))
            }
        }
    }

    /// Returns how many members have a score below this one, or, with `or_equal`, below or equal to
    /// it.
    pub fn count_below(&self, bound: f64, or_equal: bool) -> Result<u64, Error> {
        let is_before = |score: f64| score < bound || or_equal && score == bound;
        match self.repr {
            Repr::Listpack(bytes) => {
                Ok(pairs(bytes).take_while(|pair| is_before(pair.score)).count() as u64)
            }
            Repr::Table(sorted_set) => {
                let count = sorted_set.count_before(self.shard, |score, _| is_before(score));
                count.map_err(|damaged| self.damaged(damaged))
            }
        }
    }

    /// Returns how many members precede this score and name in the order, including the one that is
    /// equal to both if `or_equal`.
    pub fn count_before(&self, score: f64, member: &[u8], or_equal: bool) -> Result<u64, Error> {
        let is_before = |own: f64, name: &[u8]| {
            own < score || own == score && (name < member || or_equal && name == member)
        };
        match self.repr {
            Repr::Listpack(bytes) => {
                let is_before =
                    |pair: &ScoredItem<'_>| is_before(pair.score, Text::of(pair.member).as_ref());
                Ok(pairs(bytes).take_while(is_before).count() as u64)
            }
            Repr::Table(sorted_set) => {
                let count = sorted_set.count_before(self.shard, |own, at: Member| {
                    own < score || own == score && is_before(own, &at.field(self.shard))
                });
                count.map_err(|damaged| self.damaged(damaged))
            }
        }
    }

    /// Returns the ranks of the members that are neither `below` a range of names nor `above` it,
    /// in a sorted set in which all scores are the same.
    ///
    /// If scores differ, the range is not well defined. In a packed set it then is, as in Redis,
    /// the run that starts at the first member that is not below, up to the next one that is above;
    /// or, `backwards`, the run that ends at the last member that is not above, back to the
    /// previous one that is below.
    pub fn between(
        &self,
        below: impl Fn(&[u8]) -> bool,
        above: impl Fn(&[u8]) -> bool,
        backwards: bool,
    ) -> Result<Range<u64>, Error> {
        let range = match self.repr {
            Repr::Listpack(bytes) => {
                let names: Vec<Text<'_>> = pairs(bytes).map(|pair| Text::of(pair.member)).collect();
                listpack_range(&names, below, above, backwards)
            }
            Repr::Table(sorted_set) => {
                let count = |before: &dyn Fn(&[u8]) -> bool| {
                    let is_before = |_, member: Member| before(&member.field(self.shard));
                    let count = sorted_set.count_before(self.shard, is_before);
                    count.map_err(|damaged| self.damaged(damaged))
                };
                count(&below)?..count(&|member| !above(member))?
            }
        };
        Ok(range.start..range.end.max(range.start))
    }

    /// Visits members with their scores from number `rank` on, upwards or `backwards`, until
    /// `visit` returns `false`.
    pub fn visit(
        &self,
        rank: u64,
        backwards: bool,
        mut visit: impl FnMut(&[u8], f64) -> bool,
    ) -> Result<(), Error> {
        let mut show = |pair: &ScoredItem<'_>| visit(Text::of(pair.member).as_ref(), pair.score);
        let number = usize::try_from(rank).unwrap_or(usize::MAX);
        match self.repr {
            Repr::Listpack(bytes) if backwards => {
                let all: Vec<ScoredItem<'_>> =
                    pairs(bytes).take(number.saturating_add(1)).collect();
                if number < all.len() {
                    let _ = all.iter().rev().all(&mut show);
                }
                Ok(())
            }
            Repr::Listpack(bytes) => {
                let _ = pairs(bytes).skip(number).all(|pair| show(&pair));
                Ok(())
            }
            Repr::Table(sorted_set) => {
                let done = sorted_set.visit(self.shard, rank, backwards, self.verify(), visit);
                done.map_err(|damaged| self.damaged(damaged))
            }
        }
    }

    /// Visits about `count` members from `cursor` on, or all members of a packed set, and returns
    /// the cursor to continue from (0: the end). A member that exists during the whole scan is
    /// never missed.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(&[u8], f64),
    ) -> Result<u64, Error> {
        let Repr::Table(sorted_set) = self.repr else {
            self.visit(0, false, |member, score| {
                visit(member, score);
                true
            })?;
            return Ok(0);
        };
        let mut members = Vec::new();
        let shard = self.shard;
        let next = sorted_set.dict().scan(shard, cursor, count, |found| members.push(found));
        for found in members {
            let member = found.field(shard);
            if let Some(score) = self.score(&member)? {
                visit(&member, score);
            }
        }
        Ok(next)
    }
}

/// See [`SortedSetRef::between`].
fn listpack_range(
    names: &[Text<'_>],
    below: impl Fn(&[u8]) -> bool,
    above: impl Fn(&[u8]) -> bool,
    backwards: bool,
) -> Range<u64> {
    let below = |name: &Text<'_>| below(name.as_ref());
    let above = |name: &Text<'_>| above(name.as_ref());
    if names.last().is_none_or(below) || names.first().is_none_or(above) {
        return 0..0;
    }
    let range = if backwards {
        let end = names.iter().rposition(|name| !above(name)).map_or(0, |last| last + 1);
        let start = names[..end].iter().rposition(below).map_or(0, |last| last + 1);
        start..end
    } else {
        let start = names.iter().position(|name| !below(name)).unwrap_or(names.len());
        let end = names[start..].iter().position(above).map_or(names.len(), |len| start + len);
        start..end
    };
    range.start as u64..range.end as u64
}
