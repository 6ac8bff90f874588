//! DEBUG POPULATE, DIGEST and DIGEST-VALUE: filling a database, and signatures of what is in it.
//!
//! A signature is 160 bits in hexadecimal. It does not depend on the order of keys, nor on where
//! they lie: equal contents of two servers have equal signatures. It is not the one of Redis.

use std::convert::Infallible;

use std::hash::Hasher;

use keyspace::{Content, Db, Expire, Key, Txn};
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::call::Call;
use crate::failure::{Done, Failure};
use crate::rewrite::commands_of;

/// This many keys are one transaction.
const KEYS_AT_ONCE: i64 = 100;

pub(super) fn populate(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let count = positive(call, 2)?;
    let prefix = call.args.get(3).copied().unwrap_or(b"key");
    let size = if call.args.len() > 4 { Some(positive(call, 4)?) } else { None };
    let db = call.db();
    for n in 0..count {
        let mut name = prefix.to_vec();
        name.extend_from_slice(format!(":{n}").as_bytes());
        let key = txn.key(&name);
        if txn.peek(db, &key).is_none() {
            let mut value = format!("value:{n}").into_bytes();
            if let Some(size) = size {
                value.resize(size as usize, 0);
            }
            txn.set(db, &key, &value, Expire::Clear)?;
        }
        if n % KEYS_AT_ONCE == KEYS_AT_ONCE - 1 {
            call.commit_part(txn)?;
        }
    }
    call.out.ok();
    Ok(())
}

fn positive(call: &Call<'_>, at: usize) -> Result<i64, Failure> {
    let number = call.int(at).ok().filter(|number| *number >= 0);
    number.ok_or_else(|| "ERR value is out of range, must be positive".into())
}

type Digest = [u8; 20];

fn sign(parts: &[&[u8]]) -> Digest {
    let mut digest = [0; 20];
    for (half, seed) in [(0..16, 1), (16..20, 2)] {
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

fn hex(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the signature of all databases: the sum (exclusive or) of those of the keys.
pub(super) fn digest_of_all(txn: &Txn<'_>) -> String {
    let mut all = Digest::default();
    for db in Db::all() {
        let number = [db.number() as u8];
        txn.for_each(db, &mut |name, entry| {
            let value = txn.content(entry).map_or_else(|_| Vec::new(), parts);
            let value: Vec<&[u8]> = value.iter().map(Vec::as_slice).collect();
            let expires: &[u8] = if txn.expiry(entry).is_some() { b"expires" } else { b"" };
            let one = sign(&[&[&number, name], &value[..], &[expires]].concat());
            all.iter_mut().zip(one).for_each(|(sum, byte)| *sum ^= byte);
        });
    }
    hex(&all)
}

/// Returns the signature of one value; zeros where there is none.
pub(super) fn digest_of_value(txn: &Txn<'_>, db: Db, key: &Key<'_>) -> String {
    let value = txn.peek(db, key).and_then(|entry| txn.content(&entry).ok().map(parts));
    hex(&value.map_or(Digest::default(), |value| {
        sign(&value.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }))
}

/// Returns what a value is made of, in an order that does not depend on how it is kept.
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
