//! The properties of a key that was found, other than its value.

use heap::View;

use super::{Entry, Txn};
use crate::layout::{FIELDS, Kind};
use crate::types::{Encoding, Type};
use crate::{collection, entry, value};

/// The properties of a key that was found, whatever the type of its value.
#[derive(Clone, Copy)]
pub struct Properties<'t, 'k> {
    txn: &'t Txn<'k>,
    entry: Entry,
}

impl<'k> Txn<'k> {
    /// Returns the properties of the key with this entry.
    #[inline]
    pub fn properties(&self, entry: &Entry) -> Properties<'_, 'k> {
        Properties { txn: self, entry: *entry }
    }
}

impl Properties<'_, '_> {
    /// Returns the type of the value.
    pub fn value_type(&self) -> Type {
        match entry::kind(&self.txn.shards[self.entry.shard], self.entry.at) {
            Kind::Collection(head) => head.what,
            _ => Type::String,
        }
    }

    /// Returns the encoding of the value.
    pub fn encoding(&self) -> Encoding {
        value::encoding(&self.txn.shards[self.entry.shard], self.entry.at)
    }

    /// Returns when the key expires, in unix ms.
    pub fn expiry(&self) -> Option<u64> {
        let expiry = entry::expiry(&self.txn.shards[self.entry.shard], self.entry.at);
        Some(expiry).filter(|&at| at != 0)
    }

    /// Returns true if the value is a hash of which any field has an expiry time of its own.
    pub fn has_field_ttls(&self) -> bool {
        entry::expiry_word(&self.txn.shards[self.entry.shard], self.entry.at) & FIELDS != 0
    }

    /// Returns how many bytes of the heap the key, its value and its index slots take.
    pub fn memory(&self) -> u64 {
        let (shard, at) = (&self.txn.shards[self.entry.shard], self.entry.at);
        let mut bytes = shard.capacity(at) as u64 + collection::INDEX_COST;
        match entry::kind(shard, at) {
            Kind::Collection(head) => {
                let word = shard.word(entry::cell(shard, at));
                bytes += collection::memory(shard, head, word);
            }
            _ => entry::owned(shard, at, |block| bytes += shard.capacity(block) as u64),
        }
        bytes
    }

    /// Returns how many milliseconds ago the key was last used.
    pub fn idle_ms(&self) -> u64 {
        let volatile = self.txn.volatile(self.entry.shard);
        volatile.access.idle_ms(self.entry.which, self.txn.now())
    }

    /// Returns Redis's logarithmic counter of uses; meaningful under an LFU policy.
    pub fn frequency(&self) -> u8 {
        let (volatile, lfu) = (self.txn.volatile(self.entry.shard), self.txn.shared.lfu_settings());
        volatile.access.frequency(self.entry.which, self.txn.now(), lfu)
    }
}
