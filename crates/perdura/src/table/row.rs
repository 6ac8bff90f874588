//! The storage of rows: members of a sorted set, all of score 0.
//!
//! A member is the bytes of the key followed by those of the value. Members of equal score are in
//! the order of their bytes, and no key is a prefix of another one, so rows are in the order of
//! their keys, and a row is found as the first member that is not before its key.

use std::ops::{Bound, RangeBounds};

use keyspace::SortedSetRef;

use super::{Key, Value};
use crate::Error;
use crate::iter::End;
use crate::iter::ranked::{Edge, Ranked};

pub(super) const SCORE: f64 = 0.0;

pub(super) fn key_bytes<K: Key>(key: &K::Ref<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    K::encode(key, &mut bytes);
    bytes
}

/// Returns the member of a row.
pub(super) fn member<V: Value>(key: &[u8], value: &V::Ref<'_>) -> Result<Vec<u8>, Error> {
    let mut bytes = key.to_vec();
    V::encode(value, &mut bytes)?;
    Ok(bytes)
}

/// Decodes a row from a member.
pub(super) fn decode<K: Key, V: Value>(mut member: &[u8], score: f64) -> Result<(K, V), Error> {
    if score != SCORE {
        return Err(Error::NotARow);
    }
    let key = K::decode(&mut member).ok_or(Error::NotARow)?;
    Ok((key, V::decode(member).ok_or(Error::NotARow)?))
}

/// Returns the member of a key's row.
pub(super) fn find(set: &SortedSetRef<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let rank = set.count_before(SCORE, key, false)?;
    let mut found = None;
    set.visit(rank, false, |member, score| {
        found = (score == SCORE && member.starts_with(key)).then(|| member.to_vec());
        false
    })?;
    Ok(found)
}

/// Returns the edge before all rows whose keys begin with these bytes, or after them.
fn edge(mut key: Vec<u8>, after: bool) -> Edge {
    if after {
        // The lowest bytes that are greater than all that begin with these.
        while key.pop_if(|last| *last == u8::MAX).is_some() {}
        match key.last_mut() {
            Some(last) => *last += 1,
            None => return Edge::Score(SCORE, true),
        }
    }
    Edge::Member(SCORE, key, false)
}

/// Returns the rows whose keys are in a range.
pub(super) fn range<'r, K: Key>(keys: &impl RangeBounds<K::Ref<'r>>) -> Ranked {
    let bytes = |bound: Bound<&K::Ref<'r>>| bound.map(key_bytes::<K>);
    Ranked::between(bytes(keys.start_bound()), bytes(keys.end_bound()), edge)
}

/// Returns the rows whose keys begin with these bytes.
pub(super) fn beginning_with(bytes: Vec<u8>) -> Ranked {
    Ranked { low: edge(bytes.clone(), false), high: edge(bytes, true) }
}

/// Returns the edge from which a range goes on after a row was shown: next to its key, so that the
/// row is not shown again if its value has changed by then.
pub(super) fn next_to<K: Key>(mut member: Vec<u8>, _score: f64, end: End) -> Edge {
    let mut rest = &member[..];
    if K::decode(&mut rest).is_some() {
        let key = member.len() - rest.len();
        member.truncate(key);
    }
    edge(member, end == End::Front)
}
