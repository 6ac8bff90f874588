//! Copying a collection into another shard, or the same one: COPY, and RENAME to a key of another
//! shard.
//!
//! A rename gives up the source. So a copy is complete or fails: in a durable heap everything is
//! verified as it is read, and the number of copied elements must be the recorded one.

use heap::{Ptr, Shard};
use structures::blob::Blob;
use structures::dict::{Dict, Hashed};
use structures::index::Index;
use structures::list::List;
use structures::sorted_set::SortedSet;
use structures::stream;
use structures::{Damaged, Error};

use super::lifecycle::{check, dict, sorted_set};
use super::{Head, Layout, streams};
use crate::key::Hashing;

/// The shards from which and to which a collection is copied.
pub(crate) struct Pair<'p, 'k> {
    pub(crate) shards: &'p mut [Shard<'k>],
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl<'k> Pair<'_, 'k> {
    fn from(&self) -> &Shard<'k> {
        &self.shards[self.from]
    }

    /// Returns true if bytes may differ from what was written.
    fn verify(&self) -> bool {
        self.from().heap().is_durable()
    }

    fn to(&mut self) -> &mut Shard<'k> {
        &mut self.shards[self.to]
    }
}

/// Copies it; returns the word of the copy.
pub(crate) fn copy(
    mut pair: Pair<'_, '_>,
    hashing: &Hashing,
    head: Head,
    word: u64,
) -> Result<u64, Error> {
    match head.layout {
        Layout::Listpack | Layout::ListpackWithTtls => {
            if pair.verify() {
                check(pair.from(), head, word, None)?;
            }
            let bytes = Blob::from_word(word).to_vec(pair.from())?;
            Ok(Blob::create(pair.to(), &bytes)?.word())
        }
        Layout::HashTable => copy_table(pair, hashing, dict(word)),
        Layout::List => copy_list(pair, List::from_word(word)),
        Layout::SortedSet => copy_sorted_set(pair, hashing, sorted_set(word)),
        Layout::Stream => {
            let copied = streams::copy(pair.shards, pair.from, pair.to, word);
            copied.map_err(plain)
        }
    }
}

/// Returns an error if the number of copied elements is not the expected one.
fn whole(what: &'static str, at: Ptr, expected: u64, copied: u64) -> Result<(), Error> {
    if expected == copied { Ok(()) } else { Err(Damaged::new(what, at, expected, copied).into()) }
}

/// Copies a table. A scan visits the index segment by segment, so the segments of the copy are
/// filled one after the other too. The expected depth lets its index grow in large steps.
fn copy_table(mut pair: Pair<'_, '_>, hashing: &Hashing, source: Dict) -> Result<u64, Error> {
    let depth = Index::depth_for(source.len(pair.from()));
    let copy = Dict::create(pair.to())?;
    let (mut cursor, mut copied, mut members) = (0, 0, Vec::new());
    loop {
        let (shard, verify, mut sound) = (pair.from(), pair.verify(), Ok(()));
        cursor = source.scan(shard, cursor, 64, |member| {
            if verify && sound.is_ok() {
                sound = member.check(shard);
            }
            let (field, value) = (member.field(shard), member.value(shard));
            members.push((field.into_owned(), value.into_owned(), member.time(shard)));
        });
        sound?;
        copied += members.len() as u64;
        for (field, value, time) in members.drain(..) {
            let field = Hashed { bytes: &field, hash: hashing.hash(&field) };
            let hash = |field: &[u8]| hashing.hash(field);
            copy.insert_expecting(pair.to(), field, &value, time, depth, hash)?;
        }
        if cursor == 0 {
            break;
        }
    }
    whole("number of members", source.ptr(), source.len(pair.from()), copied)?;
    Ok(copy.ptr().raw())
}

fn copy_list(mut pair: Pair<'_, '_>, source: List) -> Result<u64, Error> {
    let len = source.len(pair.from())?;
    let (mut copied, mut copy) = (0, List::EMPTY);
    while copied < len {
        let Some(node) = source.copy_node(pair.from(), copied, pair.verify())? else { break };
        copied += node.count();
        copy = copy.push_copy(pair.to(), &node)?;
    }
    whole("length of a list", Ptr::from_raw(source.word()), len, copied)?;
    Ok(copy.word())
}

fn copy_sorted_set(
    mut pair: Pair<'_, '_>,
    hashing: &Hashing,
    source: SortedSet,
) -> Result<u64, Error> {
    let len = source.len(pair.from());
    let (mut names, mut ends) = (Vec::new(), Vec::with_capacity(len as usize));
    source.visit(pair.from(), 0, false, pair.verify(), |member, score| {
        names.extend_from_slice(member);
        ends.push((names.len(), score));
        true
    })?;
    let mut begin = 0;
    let member =
        |&(end, score): &(usize, f64)| (&names[std::mem::replace(&mut begin, end)..end], score);
    let members: Vec<(&[u8], f64)> = ends.iter().map(member).collect();
    // A strictly ascending order has each member only once.
    let rises = members.is_sorted_by(|(before, low), (member, score)| {
        low < score || low == score && before < member
    });
    whole("order of members", source.ptr(), 1, u64::from(rises))?;
    whole("number of members", source.ptr(), len, members.len() as u64)?;
    let copy = SortedSet::create_of(pair.to(), |member| hashing.hash(member), &members)?;
    Ok(copy.ptr().raw())
}

fn plain(error: stream::Error) -> Error {
    match error {
        stream::Error::Full(full) => Error::Full(full),
        stream::Error::Damaged(damaged) => Error::Damaged(damaged),
    }
}
