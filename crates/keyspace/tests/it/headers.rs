//! Both headers of an entry, the short one and the one that was written before: whatever bit is
//! flipped in an entry, no read returns another value than the one that was written.
//!
//! The older header is written into the file of a closed pool, over the block of a short entry of
//! the same key.

use crate::common::medium::scrub;
use crate::common::{HEADER, NOW, check, db, emulated, get, set, set_until, write};
use keyspace::{CheckError, Error, Expire, Keyspace};
use std::fs;
use std::path::PathBuf;

const KEY: &str = "the key of 16 by";
const VALUE: &str = "a value of 32 bytes, no more, no";
const TIME: u64 = NOW + 1_000_000;
/// Bytes of the older header.
const OLDER: usize = 24;

struct Pool {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Pool {
    /// Creates a pool with some keys, and those that `fill` writes, and closes it.
    fn new(fill: impl FnOnce(&Keyspace)) -> Pool {
        let folder = tempfile::tempdir().expect("a folder");
        let pool = Pool { path: folder.path().join("pool"), _folder: folder };
        let ks = pool.open();
        for i in 0..20 {
            set(&ks, &format!("other {i}"), &format!("another value {i}"));
        }
        set_until(&ks, "timed", "so that there is an index of times", Expire::At(TIME));
        fill(&ks);
        ks.heap().close().expect("a clean close");
        pool
    }

    /// Creates a pool in which [`KEY`] has an entry with the older header.
    fn with_older(time: u64) -> Pool {
        // As many bytes as the older entry has.
        let long = "x".repeat(OLDER - HEADER as usize + VALUE.len());
        let pool = Pool::new(|ks| set(ks, KEY, &long));
        let at = pool.entry(&format!("{KEY}{long}"), HEADER as usize);
        let mut bytes = pool.bytes();
        let crc = |bytes: &str| u64::from(heap::crc32c(bytes.as_bytes()));
        let value_word = 1 | (VALUE.len() as u64) << 8 | crc(VALUE) << 32;
        let key_word = KEY.len() as u64 | u64::from(!heap::crc32c(KEY.as_bytes())) << 32;
        let words = [value_word, time, key_word].map(u64::to_le_bytes);
        let entry = [words.as_flattened(), KEY.as_bytes(), VALUE.as_bytes()].concat();
        bytes[at..][..entry.len()].copy_from_slice(&entry);
        fs::write(&pool.path, bytes).expect("the pool");
        pool
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).expect("the pool")
    }

    /// Returns the offset of an entry whose key and value are `text`.
    fn entry(&self, text: &str, header: usize) -> usize {
        let bytes = self.bytes();
        let found: Vec<usize> = memchr::memmem::find_iter(&bytes, text.as_bytes()).collect();
        let [at] = found[..] else { panic!("{text:?} stands at {found:x?}") };
        at - header
    }

    fn open(&self) -> Keyspace {
        emulated(&self.path, 1)
    }
}

fn problems(ks: &Keyspace) -> Vec<CheckError> {
    let mut problems: Vec<CheckError> =
        ks.heap().check_spans().into_iter().map(CheckError::Heap).collect();
    ks.inspect(0, &|_| {}, &mut |problem| problems.push(problem));
    problems
}

/// Returns what a client reads under [`KEY`] at time 0.
fn read(ks: &Keyspace) -> Result<Option<Vec<u8>>, Error> {
    let key = ks.key(KEY.as_bytes());
    let mut txn = ks.begin_one(key.shard(), 0);
    let Some(entry) = txn.find(db(0), &key) else { return Ok(None) };
    txn.string(&entry)?.to_vec().map(Some)
}

fn set_expiry(ks: &Keyspace, at: Option<u64>) -> Result<bool, Error> {
    let key = ks.key(KEY.as_bytes());
    let mut txn = ks.begin_one(key.shard(), NOW);
    let done = txn.keys().set_expiry(db(0), &key, at)?;
    txn.commit().expect("a commit");
    Ok(done)
}

/// Flips each bit of the entry of [`KEY`], of which the bits that `is_unprotected` names have no
/// checksum. After each, reads the key, checks the pool and repairs it.
fn check_flips(
    pool: &Pool,
    at: usize,
    len: usize,
    value: &str,
    is_unprotected: impl Fn(usize, u8) -> bool,
) {
    let sound = pool.bytes();
    for (byte, bit) in (0..len).flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
        // All bits of the header, and one of each other byte.
        if byte >= OLDER && bit != byte as u8 % 8 {
            continue;
        }
        let mut bytes = sound.clone();
        bytes[at + byte] ^= 1 << bit;
        fs::write(&pool.path, bytes).expect("the pool");
        let ks = pool.open();
        let found = problems(&ks);
        let seen = read(&ks);
        if is_unprotected(byte, bit) {
            continue;
        }
        assert!(!found.is_empty(), "bit {bit} of byte {byte}: nothing was found");
        if let Ok(Some(seen)) = &seen {
            assert_eq!(seen, value.as_bytes(), "bit {bit} of byte {byte}");
        }
        let done = ks.repair(&found).unwrap_or_else(|error| panic!("{byte}, {bit}: {error}"));
        assert!(problems(&ks).is_empty(), "bit {bit} of byte {byte}: {done:?}");
        assert!(done.cut.len() <= 1, "bit {bit} of byte {byte}: {done:?}");
        for other in 0..20 {
            check(&ks, &format!("other {other}"), Some(&format!("another value {other}")));
        }
        let after = get(&ks, 0, 0, KEY);
        assert_eq!(after.is_some(), done.cut.is_empty(), "bit {bit} of byte {byte}: {done:?}");
        assert!(after.is_none_or(|after| after == value), "bit {bit} of byte {byte}");
        set_until(&ks, KEY, "again", Expire::At(TIME));
        assert!(problems(&ks).is_empty(), "bit {bit} of byte {byte}");
    }
}

/// Bits 4 to 7 of the first byte: whether a string is "raw", and three that mean nothing.
fn is_of_encoding(byte: usize, bit: u8) -> bool {
    byte == 0 && bit >= 4
}

#[test]
fn no_flipped_bit_of_a_short_entry_makes_another_value_of_it() {
    let pool = Pool::new(|ks| set(ks, KEY, VALUE));
    let at = pool.entry(&format!("{KEY}{VALUE}"), 8);
    check_flips(&pool, at, 8 + 16 + 32, VALUE, is_of_encoding);
}

#[test]
fn no_flipped_bit_of_a_short_entry_with_a_time_makes_another_value_of_it() {
    let pool = Pool::new(|ks| set_until(ks, KEY, VALUE, Expire::At(TIME)));
    let at = pool.entry(&format!("{KEY}{VALUE}"), 16);
    let is_time = |byte: usize| (8..16).contains(&byte);
    check_flips(&pool, at, 16 + 16 + 32, VALUE, |byte, bit| {
        is_of_encoding(byte, bit) || is_time(byte)
    });
}

#[test]
fn no_flipped_bit_of_an_older_entry_makes_another_value_of_it() {
    for time in [0, TIME] {
        let pool = Pool::with_older(time);
        let at = pool.entry(&format!("{KEY}{VALUE}"), OLDER);
        let is_time = |byte: usize| (8..16).contains(&byte);
        check_flips(&pool, at, OLDER + 16 + 32, VALUE, |byte, bit| {
            is_of_encoding(byte, bit) || is_time(byte)
        });
    }
}

#[test]
fn no_flipped_bit_of_an_integer_hides_it_from_the_check() {
    let pool = Pool::new(|ks| set(ks, KEY, "123456789"));
    let at = pool.entry(KEY, 8);
    // The cell has no checksum.
    check_flips(&pool, at, 8 + 16, "123456789", is_of_encoding);
}

#[test]
fn an_entry_with_the_older_header_is_sound_and_gets_the_short_one_when_it_is_replaced() {
    let pool = Pool::with_older(0);
    let ks = pool.open();
    assert!(problems(&ks).is_empty());
    assert_eq!(read(&ks), Ok(Some(VALUE.into())));
    let used = |ks: &Keyspace| ks.heap().used();
    let before = used(&ks);
    assert_eq!(set_expiry(&ks, Some(TIME)), Ok(true));
    assert_eq!(get(&ks, NOW, 0, KEY).as_deref(), Some(VALUE));
    assert_eq!(get(&ks, TIME, 0, KEY), None);
    assert_eq!(set_expiry(&ks, None), Ok(true));
    assert_eq!(used(&ks), before, "its header has a word for the time");
    set(&ks, KEY, VALUE);
    assert_eq!(used(&ks), before - 16);
    assert_eq!(set_expiry(&ks, Some(TIME)), Ok(true));
    assert_eq!(used(&ks), before - 8, "a word for the time");
    assert_eq!(set_expiry(&ks, None), Ok(true));
    assert_eq!(used(&ks), before - 8, "the word stays");
    set(&ks, KEY, VALUE);
    assert_eq!(used(&ks), before - 16);
    assert!(problems(&ks).is_empty());
}

#[test]
fn an_expiry_time_does_not_make_damaged_bytes_sound() {
    for (older, mut is_known) in [(false, false), (false, true), (true, false), (true, true)] {
        let pool = match older {
            true => Pool::with_older(0),
            false => Pool::new(|ks| set(ks, KEY, VALUE)),
        };
        let at = pool.entry(&format!("{KEY}{VALUE}"), 0);
        let mut bytes = pool.bytes();
        bytes[at + KEY.len() + 5] ^= 1;
        fs::write(&pool.path, bytes).expect("the pool");
        let ks = pool.open();
        if is_known {
            scrub(&ks);
        }
        for _ in 0..2 {
            // As for a key with a word for the time: TTL and DEL work on damaged keys, too.
            assert_eq!(set_expiry(&ks, Some(TIME)), Ok(true), "{older}");
            assert!(matches!(read(&ks), Err(Error::Damaged(_))));
            // The copy shows no more where the damage is.
            assert_eq!(ks.damaged_keys(), u64::from(is_known || !older));
            is_known = true;
            // It is the same damage.
            scrub(&ks);
            assert_eq!(ks.damaged_keys(), 1);
        }
        let place = format!("damaged value at offset {:#x} ", at + KEY.len());
        let is_said = |event: &String| event.contains(KEY) && event.contains(&place);
        assert!(ks.damage_news().iter().any(is_said), "{place}");
        assert!(!problems(&ks).is_empty());
        write(&ks, &[KEY], |txn| {
            let key = txn.key(KEY.as_bytes());
            assert_eq!(txn.keys().delete(db(0), &key), Ok(true));
        });
        assert!(problems(&ks).is_empty());
    }
}

#[test]
fn in_a_full_heap_a_first_expiry_time_is_refused_and_nothing_is_lost() {
    let ks = crate::common::volatile(1, 16 << 20);
    let long = "v".repeat(3000);
    let put = |name: &str, value: &str, expire| {
        let key = ks.key(name.as_bytes());
        let mut txn = ks.begin_one(key.shard(), NOW);
        txn.strings().set(db(0), &key, value.as_bytes(), expire)?;
        txn.commit().expect("a commit");
        Ok::<(), Error>(())
    };
    put(KEY, &long, Expire::Clear).expect("free memory");
    put("timed", &long, Expire::At(TIME)).expect("free memory");
    let mut count = 0;
    for value in [long.as_str(), "short", ""] {
        while put(&format!("key {count}"), value, Expire::Clear).is_ok() {
            count += 1;
        }
    }
    assert_eq!(set_expiry(&ks, Some(TIME)), Err(Error::Full));
    check(&ks, KEY, Some(&long));
    assert_eq!(ks.count(db(0)), (count + 2, 1));
    assert!(problems(&ks).is_empty());
    assert_eq!(get(&ks, TIME, 0, "timed"), None);
    write(&ks, &["timed"], |txn| {
        let key = txn.key(b"timed");
        assert_eq!(txn.keys().set_expiry(db(0), &key, None), Ok(true), "it has the word");
        assert_eq!(txn.keys().delete(db(0), &key), Ok(true));
    });
    assert_eq!(set_expiry(&ks, Some(TIME)), Ok(true), "there is free memory again");
    assert_eq!(ks.count(db(0)), (count + 1, 1));
    assert!(problems(&ks).is_empty());
}

#[test]
fn without_its_first_word_no_bytes_of_a_short_entry_are_an_address() {
    let one = db(1);
    let put = |ks: &Keyspace, value: &[u8]| {
        write(ks, &[KEY], |txn| {
            let key = txn.key(KEY.as_bytes());
            txn.strings().set(one, &key, value, Expire::Clear)
        })
        .expect("free memory");
    };
    let pool = Pool::new(|_| {});
    let other = pool.entry("other 3another value 3", HEADER as usize);
    // The value begins with the address of another key's entry, where a longer header would have
    // that of a long key.
    let value = [&(other as u64).to_le_bytes()[..], &VALUE.as_bytes()[8..]].concat();
    let ks = pool.open();
    put(&ks, &value);
    ks.heap().close().expect("a clean close");
    drop(ks);
    let at = pool.entry(&VALUE[8..], 8 + KEY.len() + HEADER as usize);
    let mut bytes = pool.bytes();
    assert_eq!(&bytes[at + HEADER as usize..][..KEY.len()], KEY.as_bytes());
    bytes[at..][..8].fill(0);
    fs::write(&pool.path, bytes).expect("the pool");
    let ks = pool.open();
    write(&ks, &[KEY], |txn| txn.databases().flush(one)).expect("a flush");
    while ks.reclaim_step(0, 64).expect("free memory").more {}
    for other in 0..20 {
        check(&ks, &format!("other {other}"), Some(&format!("another value {other}")));
    }
    let found = problems(&ks);
    ks.repair(&found).expect("a repair");
    assert!(problems(&ks).is_empty());
    for other in 0..20 {
        check(&ks, &format!("other {other}"), Some(&format!("another value {other}")));
    }
}
