//! Writing a key into the new pool, from the parts in which a snapshot gives it.

use heap::Ptr;

use super::walk::Salvager;
use super::{SalvageFinding, SalvageStopped};
use crate::layout::LIBRARIES;
use crate::snapshot;
use crate::{
    Content, Db, Error, Expire, FieldTime, Item, Key, Keyspace, Limits, NodeLimits, Side,
    StreamEdit, StreamLimits, StreamPart, Txn, Type, entry,
};

/// Redis's own limits, up to which a collection is small.
const SMALL: Limits = Limits { entries: 128, value: 64 };
const SMALL_SET: Limits = Limits { entries: 512, value: 64 };

impl Salvager<'_> {
    /// Copies a sound entry that expires at `time` (0: never), unless its time has come.
    pub(super) fn copy(&mut self, db: Db, at: Ptr, time: u64) -> Result<(), SalvageStopped> {
        let (pool, now) = (self.pool, self.options.now);
        if time != 0 && time <= now {
            self.done.expired += 1;
            return Ok(());
        }
        if has(self.to, db, &entry::key(pool, at), now) {
            self.done.lost += 1;
            let key = entry::key(pool, at).into_owned();
            (self.find)(SalvageFinding::Twice { db: db.number(), key, at: at.raw() });
            return Ok(());
        }
        let (mut within, mut is_there) = (0, false);
        loop {
            let (mut item, rest) = snapshot::begin(pool, db, at, &mut within);
            if let (Some(len), Content::String(value)) = (rest, &mut item.value) {
                let read = |piece: &[u8]| value.extend_from_slice(piece);
                let done = entry::blob(pool, at).read(pool, 0..len, read);
                done.map_err(|_| SalvageStopped::Write(Error::Damaged(at.raw())))?;
            }
            item.expiry = Some(time).filter(|time| *time != 0 && within == 0);
            is_there |= put(self.to, &item, now)?;
            if within == 0 {
                break;
            }
        }
        match is_there {
            true => {
                self.done.keys += 1;
                self.done.expiring += u64::from(time != 0);
            }
            // All of its fields have expired.
            false => self.done.expired += 1,
        }
        Ok(())
    }

    /// Copies the sound entry of a function library.
    pub(super) fn copy_library(&mut self, at: Ptr) -> Result<(), SalvageStopped> {
        let name = entry::key(self.pool, at).into_owned();
        let key = self.to.key(&name);
        let mut txn = self.to.begin_one(key.shard(), self.options.now);
        if txn.library(&name)?.is_some() {
            self.done.lost += 1;
            let db = usize::from(LIBRARIES);
            (self.find)(SalvageFinding::Twice { db, key: name, at: at.raw() });
            return Ok(());
        }
        let code = snapshot::library(self.pool, at);
        txn.put_library(&name, &code.map_err(SalvageStopped::Write)?)?;
        txn.commit()?;
        self.done.libraries += 1;
        Ok(())
    }

    /// Names a sound entry of which the database is not known, and copies it where the caller says.
    pub(super) fn unplaced(&mut self, shard: usize, at: Ptr) -> Result<(), SalvageStopped> {
        let key = entry::key(self.pool, at).into_owned();
        let put = self.options.unplaced.filter(|&db| !has(self.to, db, &key, self.options.now));
        match put {
            Some(db) => {
                self.done.found += 1;
                self.copy(db, at, entry::expiry(self.pool, at))?;
            }
            None => self.done.lost += 1,
        }
        let put = put.map(Db::number);
        (self.find)(SalvageFinding::Unplaced { shard, key, at: at.raw(), put });
        Ok(())
    }
}

fn has(to: &Keyspace, db: Db, key: &[u8], now: u64) -> bool {
    let key = to.key(key);
    to.begin_one(key.shard(), now).find(db, &key).is_some()
}

/// Writes an item, in a transaction of its own; whether there is anything of it: not where all
/// fields of a hash have expired.
fn put(to: &Keyspace, item: &Item, now: u64) -> Result<bool, SalvageStopped> {
    let key = to.key(&item.key);
    let mut txn = to.begin_one(key.shard(), now);
    let is_there = put_content(&mut txn, item.db, &key, &item.value)?;
    if item.expiry.is_some() {
        txn.set_expiry(item.db, &key, item.expiry)?;
    }
    txn.commit()?;
    Ok(is_there)
}

fn put_content(txn: &mut Txn<'_>, db: Db, key: &Key<'_>, value: &Content) -> Result<bool, Error> {
    match value {
        Content::String(value) => txn.set(db, key, value, Expire::Clear)?,
        Content::Elements(what, elements) => put_elements(txn, db, key, *what, elements)?,
        Content::Fields(fields) => {
            let now = txn.now();
            let left: Vec<_> =
                fields.iter().filter(|field| field.time.is_none_or(|time| time > now)).collect();
            for field in &left {
                let time = field.time.map_or(FieldTime::Clear, FieldTime::At);
                let pair = [(field.field.as_slice(), field.value.as_slice())];
                txn.put_fields(db, key, pair, time, SMALL)?;
            }
            return Ok(!left.is_empty());
        }
        Content::Stream(parts) => {
            txn.edit_stream(db, key, |edit| parts.iter().try_for_each(|part| put_part(edit, part)))?
        }
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
            txn.put_members(db, key, what, words.map(|word| (word, &b""[..])), SMALL_SET)?;
        }
        Type::Hash => drop(txn.put_members(db, key, what, pairs, SMALL)?),
        Type::SortedSet => {
            let mut edit = txn.edit_sorted_set(db, key, SMALL)?;
            for (score, member) in pairs {
                let score = std::str::from_utf8(score).ok().and_then(|text| text.parse().ok());
                edit.change(txn, member, |_| score)?;
            }
            edit.finish(txn, db, key)?;
        }
        _ => drop(txn.push(db, key, Side::Tail, words, NodeLimits::new(8192, 128))?),
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
        StreamPart::Consumer { group, name, seen, .. } => {
            if let Some(group) = edit.read().group(group)? {
                edit.create_consumer(&group, name, *seen)?;
            }
        }
        StreamPart::Pending { group, consumer, id, delivered, count } => {
            let Some(group) = edit.read().group(group)? else { return Ok(()) };
            let Some(consumer) = edit.read().consumer(&group, consumer)? else { return Ok(()) };
            edit.deliver(&group, &consumer, *id, (*delivered, *count))?;
        }
    }
    Ok(())
}
