//! Writes keys into another keyspace, from the parts that a snapshot yields.

use crate::{
    CommitError, Content, Db, Error, Expire, FieldTime, Item, Key, Keyspace, Limits, NodeLimits,
    Side, StreamDelivery, StreamEdit, StreamLimits, StreamPart, Txn, Type,
};

/// Redis's default limits, up to which a collection is small.
const SMALL: Limits = Limits { entries: 128, value: 64 };
const SMALL_SET: Limits = Limits { entries: 512, value: 64 };

/// The reason why a key or a library was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The keyspace refused it.
    #[error("a key could not be written: {0}")]
    Write(#[from] Error),
    /// The transaction failed.
    #[error("a transaction failed: {0}")]
    Commit(#[from] CommitError),
}

impl Keyspace {
    /// Writes a key, or adds a part of it to the parts that were written before, in a transaction
    /// of its own at `now` (unix ms). Returns false if nothing was written because all of the given
    /// fields of a hash have expired.
    pub fn restore(&self, item: &Item, now: u64) -> Result<bool, RestoreError> {
        let key = self.key(&item.key);
        let mut txn = self.begin_one(key.shard(), now);
        let expire = item.expiry.map_or(Expire::Clear, Expire::At);
        let is_there = put_content(&mut txn, item.db, &key, &item.value, expire)?;
        let has_time = matches!(item.value, Content::String(_));
        if item.expiry.is_some() && !has_time {
            // That of a string is written with it. If it has passed, the key would be deleted here.
            txn.keys().set_expiry(item.db, &key, item.expiry)?;
        }
        txn.commit()?;
        Ok(is_there)
    }

    /// Writes the code of a function library, in a transaction of its own.
    pub fn restore_library(&self, name: &[u8], code: &[u8], now: u64) -> Result<(), RestoreError> {
        let key = self.key(name);
        let mut txn = self.begin_one(key.shard(), now);
        txn.libraries().put(name, code)?;
        Ok(txn.commit()?)
    }
}

/// Writes a value. Only a string gets the expiry time together with it.
fn put_content(
    txn: &mut Txn<'_>,
    db: Db,
    key: &Key<'_>,
    value: &Content,
    expire: Expire,
) -> Result<bool, Error> {
    match value {
        Content::String(value) => txn.strings().set(db, key, value, expire)?,
        Content::Elements(what, elements) => put_elements(txn, db, key, *what, elements)?,
        Content::Fields(fields) => {
            let now = txn.now();
            let left: Vec<_> =
                fields.iter().filter(|field| field.time.is_none_or(|time| time > now)).collect();
            for field in &left {
                let time = field.time.map_or(FieldTime::Clear, FieldTime::At);
                let pair = [(field.field.as_slice(), field.value.as_slice())];
                txn.hashes().put_with_time(db, key, pair, time, SMALL)?;
            }
            return Ok(!left.is_empty());
        }
        Content::Stream(parts) => txn
            .streams()
            .edit(db, key, |edit| parts.iter().try_for_each(|part| put_part(edit, part)))?,
    }
    Ok(true)
}

fn put_elements(
    txn: &mut Txn<'_>,
    db: Db,
    key: &Key<'_>,
    what: Type,
    elements: &[Vec<u8>],
) -> Result<(), Error> {
    let words = elements.iter().map(Vec::as_slice);
    let pairs = elements.chunks_exact(2).map(|pair| (pair[0].as_slice(), pair[1].as_slice()));
    match what {
        Type::Set => {
            txn.sets().add(db, key, words, SMALL_SET)?;
        }
        Type::Hash => drop(txn.hashes().put(db, key, pairs, SMALL)?),
        Type::SortedSet => {
            let mut edit = txn.sorted_sets().edit(db, key, SMALL)?;
            for (score, member) in pairs {
                let score = std::str::from_utf8(score).ok().and_then(|text| text.parse().ok());
                edit.change(txn, member, |_| score.filter(|score: &f64| !score.is_nan()))?;
            }
            edit.finish(txn, db, key)?;
        }
        _ => drop(txn.lists().push(db, key, Side::Tail, words, NodeLimits::new(8192, 128))?),
    }
    Ok(())
}

fn put_part(edit: &mut StreamEdit<'_, '_>, part: &StreamPart) -> Result<(), Error> {
    match part {
        StreamPart::Entry(id, words) => {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            edit.append(*id, &words, StreamLimits::new(4096, 100))?;
        }
        StreamPart::Head { last, added, deleted, .. } => {
            edit.set_last(*last, Some(*added), Some(*deleted));
        }
        StreamPart::Group { name, last, read } => drop(edit.create_group(name, *last, *read)?),
        StreamPart::Consumer { group, name, seen, active, .. } => {
            if let Some(group) = edit.read().group(group)? {
                edit.create_consumer(&group, name, *seen, *active)?;
            }
        }
        StreamPart::Pending { group, consumer, id, delivered, count } => {
            let Some(group) = edit.read().group(group)? else { return Ok(()) };
            let Some(consumer) = edit.read().consumer(&group, consumer)? else { return Ok(()) };
            edit.deliver(
                &group,
                &consumer,
                *id,
                StreamDelivery { at_ms: *delivered, count: *count },
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use heap::{CreateOptions, Heap};

    use super::*;

    #[test]
    fn a_score_that_is_not_a_number_is_left_out() {
        let heap = Heap::volatile(64 << 20, &CreateOptions::default()).expect("a heap in memory");
        let (keyspace, db) = (Keyspace::new(heap, 0), Db::default());
        let key = keyspace.key(b"sorted");
        let elements = ["1.5", "sound", "NaN", "damaged"].map(|word| word.as_bytes().to_vec());
        let value = Content::Elements(Type::SortedSet, elements.to_vec());
        let mut txn = keyspace.begin_one(key.shard(), 0);
        assert_eq!(put_content(&mut txn, db, &key, &value, Expire::Clear), Ok(true));
        let entry = txn.peek(db, &key).expect("the key");
        let set = txn.sorted_set(&entry).expect("a sorted set");
        assert_eq!((set.score(b"sound"), set.score(b"damaged")), (Ok(Some(1.5)), Ok(None)));
    }
}
