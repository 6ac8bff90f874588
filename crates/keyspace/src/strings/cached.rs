//! Reading a string through the heap's read cache: DRAM in front of a slower medium.
//!
//! What is cached is the bytes of a string that is in one block: its key's entry, or the one
//! block of a blob. The index and the entry's words (value word, expiry time, key) are read from
//! the pool every time, so that whether a key is there, expired or marked as damaged is never a
//! matter of the cache. When its bytes are stale the heap knows: see there.
//!
//! A string that is read through the cache is verified when it is copied, not when the copy is read
//! again: DRAM is trusted here as it is everywhere.

use heap::{Shard, View};

use crate::entry;
use crate::layout::{Kind, body_at};
use crate::prepared::LARGE;
use crate::{Entry, Error, Str, Txn};

/// Bytes from which a string is worth a copy. A shorter one is next to the words that a lookup
/// reads anyway: in the same lines, or in the same 256 bytes that the known media read at a time.
const FROM: usize = 256;

impl Txn<'_> {
    /// Returns the string that the key holds, as [`Txn::string`], for a command that replies with
    /// all of it: through the read cache, where there is one.
    #[inline]
    pub fn read_string<'t>(&'t mut self, entry: &Entry) -> Result<Str<'t>, Error> {
        if !self.shards[entry.shard].has_read_cache() {
            return self.string(entry);
        }
        read(&mut self.shards[entry.shard], entry)
    }
}

fn read<'t>(shard: &'t mut Shard<'_>, entry: &Entry) -> Result<Str<'t>, Error> {
    let at = entry.at;
    let found = match Kind::decode(shard.word(at)) {
        Some(Kind::Inline { len, crc, .. }) if len >= FROM => {
            let from = body_at(entry::key_len(shard, at));
            let durable = shard.heap().is_durable();
            shard.bytes_by_cache(at, from, len, |bytes| !durable || heap::crc32c(bytes) == crc)
        }
        Some(Kind::Blob) => {
            let blob = entry::blob(shard, at);
            match blob.in_one_block(shard) {
                Some((block, from, len)) if (FROM..LARGE).contains(&len) => {
                    shard.bytes_by_cache(block, from, len, |_| true)
                }
                _ => return Str::read(shard, at),
            }
        }
        Some(Kind::Collection(_)) => return Err(Error::WrongType),
        _ => {
            let kind = entry::sound(shard, at)?;
            return Str::read_as(shard, at, kind);
        }
    };
    found.map(Str::of).ok_or(Error::Damaged(at.raw()))
}
