//! Reading a string through the heap's read cache: DRAM in front of a slower medium.
//!
//! The cache holds the bytes of strings that are in one block: the key's entry, or the one block of
//! a blob. The index and the entry's words (value word, expiry time, key) are read from the pool
//! every time, so the cache never decides whether a key exists, has expired, or is marked as
//! damaged. The heap invalidates stale bytes: see its documentation.
//!
//! A string in an entry is verified when it is copied, not when the copy is read again: DRAM is
//! trusted here, as it is everywhere. A blob is not verified here, as it is not by
//! [`Txn::string`](crate::Txn::string).

use heap::{Shard, View};

use super::Strings;
use crate::entry;
use crate::layout::Kind;
use crate::prepared::LARGE;
use crate::{Entry, Error, Str};

/// The length, in bytes, from which a string is worth a copy. A shorter string is next to the words
/// that a lookup reads anyway: in the same cache lines, or in the same 256 bytes, which is what
/// known media read at a time.
const FROM: usize = 256;

impl<'t> Strings<'t, '_> {
    /// Like [`Txn::string`](crate::Txn::string), for a command that replies with the whole string:
    /// reads through the read cache, if there is one.
    #[inline]
    pub fn read(self, entry: &Entry) -> Result<Str<'t>, Error> {
        if !self.txn.shards[entry.shard].has_read_cache() {
            return self.txn.string(entry);
        }
        read(&mut self.txn.shards[entry.shard], entry)
    }
}

fn read<'t>(shard: &'t mut Shard<'_>, entry: &Entry) -> Result<Str<'t>, Error> {
    let at = entry.at;
    let found = match Kind::decode(shard.word(at)) {
        Some(Kind::Inline { len, crc, .. }) if len >= FROM => {
            let from = entry::key_place(shard, at).body_at();
            let durable = shard.heap().is_durable();
            let before = entry::checksum_before_body(shard, at);
            let is_sound = |bytes: &[u8]| !durable || heap::crc32c_append(before, bytes) == crc;
            shard.bytes_by_cache(at, from, len, is_sound)
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
