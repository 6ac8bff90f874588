//! DEBUG DIGEST and DIGEST-VALUE: signatures of the databases' content.
//!
//! A signature is 160 bits in hexadecimal, made by Redis's rules: servers with the same keys have
//! the same one, Redis or Perdura, whatever order and encoding they store them in. Ordered data
//! (the elements of a list, the entries of a stream, a field and its value) is mixed in:
//! `SHA1(digest ^ SHA1(data))`. Unordered data (keys, members, fields) is combined by exclusive or.
//!
//! Redis's signature ignores consumer groups, and of a TTL only its presence counts. `DEBUG DIGEST
//! FULL`, which Redis does not have, adds groups with all pending entries, for tests that compare
//! Perdura with itself.

use std::convert::Infallible;
use std::hash::Hasher;

use keyspace::{Content, Db, Key, StreamPart, TimedField, Txn, Type};
use sha1_smol::Sha1;
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::rewrite::commands_of;

const BYTES: usize = 20;

/// A signature under construction.
#[derive(Clone, Copy, Default)]
struct Digest([u8; BYTES]);

impl Digest {
    /// Adds data whose position does not matter.
    fn add(&mut self, data: &[u8]) {
        self.xor(Sha1::from(data).digest().bytes());
    }

    /// Adds data in order, after all that was added before.
    fn mix(&mut self, data: &[u8]) {
        self.add(data);
        self.0 = Sha1::from(self.0).digest().bytes();
    }

    fn xor(&mut self, other: [u8; BYTES]) {
        self.0.iter_mut().zip(other).for_each(|(sum, byte)| *sum ^= byte);
    }

    fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Adds a value, and whether its key expires, as Redis does.
    fn add_value(&mut self, value: &Content, expires: bool) {
        self.mix(&number_of_type(value).to_be_bytes());
        match value {
            Content::String(bytes) => self.mix(bytes),
            Content::Elements(Type::List, elements) => {
                elements.iter().for_each(|element| self.mix(element));
            }
            Content::Elements(Type::Hash, pairs) => {
                pairs.chunks_exact(2).for_each(|pair| self.add_pair(&pair[0], &pair[1], false));
            }
            Content::Elements(Type::SortedSet, pairs) => {
                pairs
                    .chunks_exact(2)
                    .for_each(|pair| self.add_pair(&pair[1], &score(&pair[0]), false));
            }
            Content::Elements(_, members) => members.iter().for_each(|member| self.add(member)),
            Content::Fields(fields) => {
                for TimedField { field, value, time } in fields {
                    self.add_pair(field, value, time.is_some());
                }
            }
            Content::Stream(parts) => parts.iter().for_each(|part| self.mix_entry(part)),
        }
        if expires {
            self.add(b"!!expire!!");
        }
    }

    fn add_pair(&mut self, name: &[u8], value: &[u8], expires: bool) {
        let mut pair = Digest::default();
        pair.mix(name);
        pair.mix(value);
        if expires {
            // As Redis 7.4 does.
            pair.add(b"!!hexpire!!");
        }
        self.add(&pair.0);
    }

    fn mix_entry(&mut self, part: &StreamPart) {
        if let StreamPart::Entry(id, words) = part {
            self.mix(format!("{}.{}", id.ms, id.seq).as_bytes());
            words.iter().for_each(|word| self.mix(word));
        }
    }
}

/// Returns Redis's number of a type.
fn number_of_type(value: &Content) -> u32 {
    match value {
        Content::String(_) => 0,
        Content::Elements(Type::List, _) => 1,
        Content::Elements(Type::Set, _) => 2,
        Content::Elements(Type::SortedSet, _) => 3,
        Content::Elements(..) | Content::Fields(_) => 4,
        Content::Stream(_) => 6,
    }
}

/// Returns a score as C's `%.17g` writes it.
fn score(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match resp::number::parse_f64(text) {
        Some(score) => resp::number::write_f64(&mut out, score),
        None => out.extend_from_slice(text),
    }
    out
}

/// Returns the signature of all databases.
pub(super) fn of_all(txn: &Txn<'_>) -> String {
    let mut all = Digest::default();
    for db in Db::all().filter(|db| txn.database(*db).count() > 0) {
        all.mix(&(db.number() as u32).to_be_bytes());
        txn.database(db).for_each(&mut |name, entry| {
            let mut one = Digest::default();
            one.mix(name);
            if let Ok(value) = txn.content(entry) {
                one.add_value(&value, txn.properties(entry).expiry().is_some());
            }
            all.add(&one.0);
        });
    }
    all.hex()
}

/// Returns the signature of one value; zeros if there is none.
pub(super) fn of_value(txn: &Txn<'_>, db: Db, key: &Key<'_>) -> String {
    let mut digest = Digest::default();
    if let Some(entry) = txn.peek(db, key)
        && let Ok(value) = txn.content(&entry)
    {
        digest.add_value(&value, txn.properties(&entry).expiry().is_some());
    }
    digest.hex()
}

/// Returns the signature of all databases, with consumer groups.
pub(super) fn full(txn: &Txn<'_>) -> String {
    let mut all = Digest::default();
    for db in Db::all() {
        let number = [db.number() as u8];
        txn.database(db).for_each(&mut |name, entry| {
            let value = txn.content(entry).map_or_else(|_| Vec::new(), parts);
            let value: Vec<&[u8]> = value.iter().map(Vec::as_slice).collect();
            let expires: &[u8] =
                if txn.properties(entry).expiry().is_some() { b"expires" } else { b"" };
            all.xor(hash(&[&[&number, name], &value[..], &[expires]].concat()));
        });
    }
    all.hex()
}

fn hash(parts: &[&[u8]]) -> [u8; BYTES] {
    let mut digest = [0; BYTES];
    for (half, seed) in [(0..16, 1), (16..BYTES, 2)] {
        let mut hasher = SipHasher13::new_with_keys(seed, 0x7065_7264_7572_6121);
        for part in parts {
            hasher.write_u64(part.len() as u64);
            hasher.write(part);
        }
        let buffer = &mut digest[half];
        let len = buffer.len();
        buffer.copy_from_slice(&hasher.finish128().as_bytes()[..len]);
    }
    digest
}

/// Returns the parts of a value, in an order that does not depend on its encoding.
fn parts(value: Content) -> Vec<Vec<u8>> {
    match value.sorted() {
        Content::String(value) => vec![value],
        Content::Elements(_, elements) => elements,
        stream => {
            let mut parts = Vec::new();
            let append = |words: &[&[u8]]| {
                parts.extend(words.iter().map(|word| word.to_vec()));
                Ok::<_, Infallible>(())
            };
            commands_of(b"", &stream, append).map_or(Vec::new(), |()| parts)
        }
    }
}
