//! A key with its shard and hash, computed once.
//!
//! Redis's hash slot, with hash tags, decides the shard, so that a slot is in one shard: keys with
//! the same tag can be changed together at the price of one. Inside the shard, a keyed hash with
//! the pool's seed decides the key's place in the indexes, so that an attacker cannot prepare keys
//! that collide.

use siphasher::sip::SipHasher13;
use structures::index::Slot;

use crate::Error;

/// The number of databases of a keyspace.
pub const DATABASES: usize = 16;

/// The maximum length of a key, in bytes.
pub(crate) const MAX_KEY: usize = 512 << 20;

/// The number of hash slots in Redis Cluster.
const SLOTS: u16 = 16384;

/// The polynomial of CRC-16/XMODEM, by which slots are computed.
const POLYNOMIAL: u16 = 0x1021;

/// Table `n` has the checksum of each byte that `n` zero bytes follow. Keys are short: four tables
/// take two kilobytes of the CPU's cache, and three bytes at most are left for one table.
const TABLES: [[u16; 256]; 4] = {
    let (mut tables, mut byte) = ([[0; 256]; 4], 0);
    while byte < 256 {
        let (mut crc, mut step) = ((byte as u16) << 8, 0);
        while step < 8 {
            crc = crc << 1 ^ if crc >> 15 != 0 { POLYNOMIAL } else { 0 };
            step += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut n = 1;
    while n < tables.len() {
        byte = 0;
        while byte < 256 {
            let before = tables[n - 1][byte];
            tables[n][byte] = before << 8 ^ tables[0][before as usize >> 8];
            byte += 1;
        }
        n += 1;
    }
    tables
};

/// Returns the CRC-16/XMODEM of some bytes.
fn crc16(bytes: &[u8]) -> u16 {
    let [last, third, second, first] = &TABLES;
    let (words, rest) = bytes.as_chunks();
    let crc = words.iter().fold(0, |crc: u16, &[a, b, c, d]| {
        let [a, b] = (crc ^ u16::from_be_bytes([a, b])).to_be_bytes().map(usize::from);
        first[a] ^ second[b] ^ third[usize::from(c)] ^ last[usize::from(d)]
    });
    rest.iter().fold(crc, |crc, byte| crc << 8 ^ last[usize::from((crc >> 8) as u8 ^ byte)])
}

/// The number of a database, as clients see it (SWAPDB changes which data it refers to).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Db(u8);

impl Db {
    /// Returns the database with this number, if there is one.
    pub fn new(number: usize) -> Option<Db> {
        (number < DATABASES).then_some(Db(number as u8))
    }

    /// Returns its number.
    pub fn number(self) -> usize {
        self.0 as usize
    }

    /// Returns all databases.
    pub fn all() -> impl Iterator<Item = Db> {
        (0..DATABASES as u8).map(Db)
    }
}

/// Returns Redis's hash slot of a key. If the text between the first `{` and the next `}` is not
/// empty, only that text is hashed.
pub fn slot(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

fn tag(key: &[u8]) -> &[u8] {
    if !has_brace(key) {
        return key;
    }
    let Some(open) = memchr::memchr(b'{', key) else { return key };
    match memchr::memchr(b'}', &key[open + 1..]) {
        Some(len) if len > 0 => &key[open + 1..open + 1 + len],
        _ => key,
    }
}

/// Returns true if there may be a `{`. Keys are too short for a search that needs set-up.
#[inline]
fn has_brace(key: &[u8]) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const BRACES: u64 = u64::from_ne_bytes([b'{'; 8]);
    let (words, rest) = key.as_chunks::<8>();
    // The highest bit of a byte is set if the byte was a brace, and possibly also in bytes after a
    // brace.
    let braces = words.iter().fold(0, |braces, word| {
        let differ = u64::from_ne_bytes(*word) ^ BRACES;
        braces | (differ.wrapping_sub(ONES) & !differ)
    });
    braces & ONES << 7 != 0 || rest.contains(&b'{')
}

/// A key with its shard and hash. Made by [`crate::Keyspace::key`].
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) hash: u64,
    pub(crate) shard: u32,
    /// The slot in which a prefetch saw the key.
    pub(crate) slot_hint: Slot,
}

impl<'a> Key<'a> {
    pub(crate) fn new(bytes: &'a [u8], hashing: &Hashing, shards: usize) -> Key<'a> {
        let shard = if shards == 1 { 0 } else { u32::from(slot(bytes)) % shards as u32 };
        Key { bytes, hash: hashing.hash(bytes), shard, slot_hint: Slot::default() }
    }

    /// Returns the bytes of the key.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the shard to which the key belongs.
    pub fn shard(&self) -> usize {
        self.shard as usize
    }

    /// Returns true if it is probably the same key as another.
    #[inline]
    pub fn has_hash_of(&self, other: &Key<'_>) -> bool {
        self.hash == other.hash
    }

    /// Takes over the slot in which a prefetch saw another key of the same hash.
    #[inline]
    pub fn set_hint_of(&mut self, other: &Key<'_>) {
        self.slot_hint = other.slot_hint;
    }

    /// Returns an error if no entry can have so long a key.
    #[inline]
    pub(crate) fn check_len(&self) -> Result<(), Error> {
        if self.bytes.len() > MAX_KEY { Err(Error::KeyTooLong) } else { Ok(()) }
    }
}

/// The keyed hash that decides a key's place in its shard's indexes.
#[derive(Clone, Copy)]
pub(crate) struct Hashing {
    keyed: SipHasher13,
}

impl Hashing {
    pub(crate) fn new(seed: &[u8; 16]) -> Hashing {
        Hashing { keyed: SipHasher13::new_with_key(seed) }
    }

    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.keyed.hash(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: &str, hashed: &str) {
        assert_eq!(tag(key.as_bytes()), hashed.as_bytes(), "tag of {key}");
    }

    #[test]
    fn hash_tags_are_those_of_redis() {
        check("plain", "plain");
        check("{user1000}.following", "user1000");
        check("foo{}{bar}", "foo{}{bar}");
        check("foo{{bar}}zap", "{bar");
        check("foo{bar}{zap}", "bar");
        check("open{only", "open{only");
        check("eight__{8}______", "8");
        check("\u{fb}z|zzzzz{", "\u{fb}z|zzzzz{");
    }

    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(slot(b"123456789"), 0x31c3 % SLOTS);
        let bytes: Vec<u8> = (0..100u8).map(|n| n.wrapping_mul(151)).collect();
        let xmodem = crc::Crc::<u16>::new(&crc::CRC_16_XMODEM);
        (0..bytes.len()).for_each(|len| {
            assert_eq!(crc16(&bytes[..len]), xmodem.checksum(&bytes[..len]), "{len} bytes");
        });
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"{foo}.bar"), 12182);
    }
}
