//! Writes a changed packed collection or table to its key's entry.

use heap::{Ptr, Shard};
use structures::blob::Blob;

use crate::collection::{Head, Layout};
use crate::entry::{self, Value};
use crate::error::refused;
use crate::layout::{FIELDS, Kind};
use crate::txn::{KeyLocation, Old};
use crate::{Db, Error, Event, Expire, Key, Txn};

/// The new state of a collection, to be written to its entry.
pub(crate) struct EncodedCollection<'w> {
    pub(crate) place: KeyLocation,
    pub(crate) old: Option<Old>,
    pub(crate) head: Head,
    pub(crate) content: Content<'w>,
    pub(crate) shrunk: bool,
    /// Whether a field of it has an expiry time.
    pub(crate) has_ttls: bool,
}

pub(crate) enum Content<'w> {
    /// Packed bytes, and the length of the bytes in the heap if `bytes` starts with them unchanged.
    Listpack { bytes: &'w [u8], unchanged_prefix: Option<usize> },
    /// The header of a table or of a sorted set.
    At(Ptr),
}

impl EncodedCollection<'_> {
    /// Creates or changes the key, or deletes it if no element is left. Returns true if the key
    /// exists.
    pub(crate) fn finish(
        self,
        txn: &mut Txn<'_>,
        db: Db,
        key: &Key<'_>,
        left: u64,
    ) -> Result<bool, Error> {
        let place = self.place;
        if left == 0 {
            if let Some(old) = self.old {
                txn.unlink(place, key.hash, old.slot, true)?;
                txn.record_change(place.shard, db, key.bytes(), Event::Deleted);
            }
            return Ok(false);
        }
        self.store(txn, key)?;
        txn.record_change(place.shard, db, key.bytes(), Event::Written);
        Ok(true)
    }

    fn store(self, txn: &mut Txn<'_>, key: &Key<'_>) -> Result<(), Error> {
        debug_assert_eq!(
            matches!(self.content, Content::Listpack { .. }),
            matches!(self.head.layout, Layout::Listpack | Layout::ListpackWithTtls),
            "the head describes the content"
        );
        let before = self.old.map(|old| (old, txn.cell_of(self.place, old)));
        let queue = txn.queue(self.place.shard);
        let shard = &mut txn.shards[self.place.shard];
        let word = match self.content {
            Content::At(at) => {
                if let Some((old, word)) = before
                    && let Kind::Collection(Head {
                        layout: Layout::Listpack | Layout::ListpackWithTtls,
                        ..
                    }) = old.kind
                {
                    entry::release_blob(shard, queue, Blob::from_word(word))?;
                }
                at.raw()
            }
            Content::Listpack { bytes, unchanged_prefix } => {
                shard.allow_reserve(self.shrunk);
                let blob =
                    write_listpack(shard, before.map(|(_, word)| word), bytes, unchanged_prefix);
                shard.allow_reserve(false);
                let at = before.map_or(Ptr::NULL, |(old, _)| old.at);
                blob.map_err(|error| refused(error, at))?.word()
            }
        };
        let fields = if self.has_ttls { FIELDS } else { 0 };
        match before {
            Some((old, before)) => {
                txn.change_collection(self.place, old, self.head, before, word);
                if old.expiry & FIELDS != fields {
                    txn.move_expiry(self.place, key, old, old.expiry ^ FIELDS)?;
                }
            }
            None => {
                let value = Value::Collection(self.head, word);
                txn.put(self.place, key, None, value, 0, Expire::At(fields))?;
            }
        }
        Ok(())
    }
}

/// Replaces the packed bytes in the blob with the word `before`: appends if they are the first
/// `unchanged_prefix` of the new bytes, else rewrites them.
fn write_listpack(
    shard: &mut Shard<'_>,
    before: Option<u64>,
    bytes: &[u8],
    unchanged_prefix: Option<usize>,
) -> Result<Blob, structures::Error> {
    debug_assert!(unchanged_prefix.is_none() || before.is_some(), "a prefix is that of a blob");
    let blob = before.map_or(Blob::EMPTY, Blob::from_word);
    match unchanged_prefix {
        Some(unchanged_prefix) => blob.append(shard, &bytes[unchanged_prefix..]),
        None => Ok(blob.rewrite(shard, bytes)?),
    }
}
