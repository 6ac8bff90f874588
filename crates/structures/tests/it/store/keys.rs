//! Keys with values in the index.

use heap::{Full, Ptr, Shard, View};
use structures::index::Index;

/// Bad enough that home buckets overflow periodically.
pub fn hash(key: u64) -> u64 {
    let mixed = key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = mixed ^ mixed >> 29;
    if key.is_multiple_of(8) { mixed | 0xffff } else { mixed.rotate_left(23) }
}

pub fn write_entry(shard: &mut Shard<'_>, key: u64, value: u64) -> Result<Ptr, Full> {
    let fresh = shard.reserve(16)?;
    shard.write_word(&fresh, 0, key);
    shard.write_word(&fresh, 8, value);
    Ok(shard.publish(fresh, 16))
}

pub fn put(shard: &mut Shard<'_>, index: Index, key: u64, value: u64) -> Result<(), Full> {
    let entry = write_entry(shard, key, value)?;
    match index.find(shard, hash(key), |entry| shard.word(entry) == key) {
        Some(slot) => {
            shard.free(slot.entry());
            index.replace(shard, slot, entry);
            Ok(())
        }
        None => index.insert(shard, hash(key), entry, |shard, entry| hash(shard.word(entry))),
    }
}

pub fn remove(shard: &mut Shard<'_>, index: Index, key: u64) {
    if let Some(slot) = index.find(shard, hash(key), |entry| shard.word(entry) == key) {
        shard.free(slot.entry());
        index.remove(shard, slot);
    }
}
