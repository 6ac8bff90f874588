//! A check finds and reports each kind of damage; a repair removes it and leaves everything else as
//! it was.
//!
//! Bits are flipped in the file of a closed pool, at places that the test finds by their contents.

use crate::common::{
    HEADER, HEADER_WITH_TIME, NOW, check, db, emulated, get, set, set_until, write,
};
use keyspace::{CheckError, DamagedKey, Expire, Keyspace, Refusal, Repaired};
use std::fs;
use std::path::PathBuf;

const KEYS: usize = 3000;
const EXPIRING: usize = 40;

struct Pool {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Pool {
    /// Creates a pool of one shard with short values, an integer, a blob of one block, a blob of
    /// many blocks, and some expiry times, and closes it.
    fn new() -> Pool {
        let folder = tempfile::tempdir().expect("a folder");
        let pool = Pool { path: folder.path().join("pool"), _folder: folder };
        let ks = pool.open();
        for i in 0..KEYS {
            set(&ks, &format!("key:{i}"), &format!("the value of key {i}, as it was set"));
        }
        for i in 0..EXPIRING {
            set_until(&ks, &format!("until:{i}"), "some time", Expire::At(NOW + 1000));
        }
        set(&ks, "number", "12345678");
        set(&ks, "block", &"one block of it ".repeat(1000));
        set(&ks, "chunks", &"many blocks of it ".repeat(20_000));
        ks.heap().close().expect("a clean close");
        pool
    }

    fn open(&self) -> Keyspace {
        emulated(&self.path, 1)
    }

    /// Flips a bit `skip` bytes after the start of the only occurrence of `text`.
    fn flip_at(&self, text: &str, skip: usize) {
        let mut bytes = fs::read(&self.path).expect("the pool");
        let found: Vec<usize> = memchr::memmem::find_iter(&bytes, text.as_bytes()).collect();
        let [at] = found[..] else { panic!("{text:?} stands at {found:x?}") };
        bytes[at + skip] ^= 4;
        fs::write(&self.path, bytes).expect("the pool");
    }

    /// Changes the word at an offset.
    fn change(&self, at: u64, change: impl FnOnce(u64) -> u64) {
        let mut bytes = fs::read(&self.path).expect("the pool");
        let word = &mut bytes[at as usize..][..8];
        let old = u64::from_le_bytes(word.try_into().expect("a word"));
        word.copy_from_slice(&change(old).to_le_bytes());
        fs::write(&self.path, bytes).expect("the pool");
    }

    fn problems(&self) -> Vec<CheckError> {
        problems(&self.open())
    }

    /// Repairs the pool, checks that it is sound afterwards, and returns what the repair did.
    fn repaired(&self) -> Repaired {
        let ks = self.open();
        let found = problems(&ks);
        assert!(!found.is_empty(), "nothing was wrong");
        let done = ks.repair(&found).expect("a repair");
        let left = problems(&ks);
        assert!(left.is_empty(), "after the repair: {left:?}");
        ks.heap().close().expect("a clean close");
        drop(ks);
        assert!(self.problems().is_empty());
        done
    }
}

fn problems(ks: &Keyspace) -> Vec<CheckError> {
    let mut problems = Vec::new();
    problems.extend(ks.heap().check_spans().into_iter().map(CheckError::Heap));
    for shard in 0..ks.shards() {
        ks.inspect(shard, &|_| {}, &mut |problem| problems.push(problem));
    }
    problems
}

fn keys(problems: &[CheckError]) -> Vec<&DamagedKey> {
    problems
        .iter()
        .filter_map(|problem| match problem {
            CheckError::Key(key) => Some(key),
            _ => None,
        })
        .collect()
}

fn text(key: &DamagedKey) -> String {
    String::from_utf8_lossy(key.key.as_deref().unwrap_or(b"(lost)")).into_owned()
}

/// Checks that a flipped bit damages only this key, that the check reports it, and that a repair
/// removes it and nothing else.
#[track_caller]
fn check_one_key(near: &str, skip: usize, key: Option<&str>, what: &str) {
    let pool = Pool::new();
    pool.flip_at(near, skip);
    let found = pool.problems();
    let damaged = keys(&found);
    assert_eq!(damaged.len(), 1, "{found:?}");
    assert_eq!((text(damaged[0]).as_str(), damaged[0].what), (key.unwrap_or("(lost)"), what));
    let done = pool.repaired();
    assert_eq!(done.cut.len(), 1);
    let ks = pool.open();
    let all = KEYS + EXPIRING + 3;
    assert_eq!(ks.count(db(0)).0, all as u64 - 1);
    if let Some(key) = key {
        check(&ks, key, None);
        set(&ks, key, "set again");
        check(&ks, key, Some("set again"));
    }
    check(&ks, "key:8", Some("the value of key 8, as it was set"));
    assert!(problems(&ks).is_empty());
}

#[test]
fn a_pool_that_is_sound_has_no_problems() {
    let pool = Pool::new();
    let before = fs::read(&pool.path).expect("the pool");
    assert!(pool.problems().is_empty());
    let ks = pool.open();
    let figures = ks.inspect(0, &|_| {}, &mut |problem| panic!("{problem}"));
    assert_eq!((figures.keys, figures.expiring), ((KEYS + EXPIRING + 3) as u64, EXPIRING as u64));
    assert_eq!(figures.bytes, ks.heap().used());
    assert_eq!(before.len(), fs::read(&pool.path).expect("the pool").len());
}

#[test]
fn a_flipped_bit_of_a_value_costs_its_key() {
    check_one_key("the value of key 77, as", 9, Some("key:77"), "value");
}

#[test]
fn a_flipped_bit_of_a_value_with_an_expiry_time_costs_its_key() {
    check_one_key("until:17some time", 12, Some("until:17"), "value");
}

#[test]
fn a_flipped_bit_of_a_key_costs_it_without_its_name() {
    check_one_key("key:78the value", 2, None, "key");
}

#[test]
fn a_flipped_bit_of_a_keys_length_costs_it_without_its_name() {
    let pool = Pool::new();
    pool.flip_at("key:79the value", 0);
    let Some(CheckError::Key(key)) = pool.problems().pop() else { panic!("one key") };
    pool.change(key.at, |word| word ^ 4);
    pool.change(key.entry, |word| word ^ 1 << 30);
    let found = pool.problems();
    assert_eq!((keys(&found).len(), keys(&found)[0].what), (1, "key length"));
    assert_eq!(pool.repaired().cut.len(), 1);
}

#[test]
fn a_value_word_that_makes_no_sense_costs_its_key() {
    let pool = Pool::new();
    pool.flip_at("the value of key 80, as", 1);
    let Some(CheckError::Key(key)) = pool.problems().pop() else { panic!("one key") };
    pool.change(key.at, |word| word ^ 4 << 8);
    pool.change(key.entry, |word| word ^ 1 << 20);
    let found = pool.problems();
    assert_eq!(
        keys(&found).iter().map(|k| (text(k), k.what)).collect::<Vec<_>>(),
        [("key:80".into(), "value word")]
    );
    // Without a tag nothing says where the key is.
    pool.change(key.entry, |word| word ^ 1 << 20 ^ 8);
    let found = pool.problems();
    assert_eq!(keys(&found).iter().map(|k| text(k)).collect::<Vec<_>>(), ["(lost)"]);
    assert_eq!(pool.repaired().cut.len(), 1);
}

#[test]
fn a_flipped_bit_of_a_blob_costs_its_key() {
    let pool = Pool::new();
    let mut bytes = fs::read(&pool.path).expect("the pool");
    for (word, key) in [(&b"one block of it "[..], "block"), (b"many blocks of it ", "chunks")] {
        let at = memchr::memmem::find(&bytes, word).expect("the blob");
        bytes[at + 3] ^= 1;
        fs::write(&pool.path, &bytes).expect("the pool");
        let found = pool.problems();
        assert_eq!(keys(&found).iter().map(|k| text(k)).collect::<Vec<_>>(), [key]);
        assert_eq!((keys(&found)[0].what, keys(&found)[0].at <= at as u64), ("value", true));
        bytes[at + 3] ^= 1;
    }
    fs::write(&pool.path, &bytes).expect("the pool");
    assert!(pool.problems().is_empty());
}

#[test]
fn the_blocks_of_a_key_that_was_cut_are_free_again() {
    let pool = Pool::new();
    let mut bytes = fs::read(&pool.path).expect("the pool");
    let at = memchr::memmem::find(&bytes, b"many blocks of it ").expect("the blob");
    bytes[at] ^= 1;
    fs::write(&pool.path, &bytes).expect("the pool");
    let used = pool.open().heap().used();
    let done = pool.repaired();
    assert_eq!(done.cut.len(), 1);
    assert!(done.freed_bytes >= 360_000 && done.freed > 6, "{done:?}");
    let ks = pool.open();
    assert_eq!(ks.heap().used(), used - done.freed_bytes);
    check(&ks, "chunks", None);
}

/// The offset of the first zone: after the headers, the area of the one shard and its log.
const ZONES: u64 = (12288u64 + 2048 + 8 * 32768).next_multiple_of(65536);

/// Returns the offset of a key's slot: the only word of the zones that refers to its entry.
fn slot_of(pool: &Pool, name: &str) -> u64 {
    let bytes = fs::read(&pool.path).expect("the pool");
    let at = memchr::memmem::find(&bytes, name.as_bytes()).expect("the key") as u64 - HEADER;
    let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8")));
    let leads = |word: &u64| word & 0xffff_ffff_ffff == at && word >> 48 != 0;
    // Skip the log records, which precede the first zone.
    let found = words.enumerate().rfind(|(n, word)| *n as u64 * 8 > ZONES && leads(word));
    found.expect("a slot").0 as u64 * 8
}

#[track_caller]
fn check_index_is_rebuilt(change: impl FnOnce(u64) -> u64) {
    let pool = Pool::new();
    let slot = slot_of(&pool, "key:81the value");
    pool.change(slot, change);
    let found = pool.problems();
    let index = found.iter().any(|p| matches!(p, CheckError::Index { expiry: false, .. }));
    let lost = found.iter().any(|p| matches!(p, CheckError::Lost { .. }));
    assert!(index || lost, "{found:?}");
    let ks = pool.open();
    let done = ks.repair(&found).expect("a repair");
    assert!(problems(&ks).is_empty(), "{:?}", problems(&ks));
    if index {
        assert_eq!((done.cut.len(), done.rebuilt.len()), (0, 1), "{done:?}");
        check(&ks, "key:81", Some("the value of key 81, as it was set"));
        assert_eq!(ks.count(db(0)).0, (KEYS + EXPIRING + 3) as u64);
    }
    for i in (0..KEYS).filter(|i| *i != 81) {
        check(&ks, &format!("key:{i}"), Some(&format!("the value of key {i}, as it was set")));
    }
}

#[test]
fn a_slot_that_leads_astray_is_found_again_from_the_entry() {
    check_index_is_rebuilt(|word| word ^ 1 << 6);
    check_index_is_rebuilt(|word| word ^ 1 << 33);
    check_index_is_rebuilt(|word| word ^ 1 << 48);
    check_index_is_rebuilt(|word| word ^ 1 << 63);
}

#[test]
fn a_damaged_segment_is_rebuilt_from_its_entries() {
    let pool = Pool::new();
    let slot = slot_of(&pool, "key:82the value");
    let bytes = fs::read(&pool.path).expect("the pool");
    // The segment's header is before the slot: its first word is "segment" with the depth.
    let header = (0..slot / 8)
        .rev()
        .map(|word| word * 8)
        .find(|at| &bytes[*at as usize + 1..*at as usize + 8] == b"segment")
        .expect("the segment");
    for at in [header, header + 8] {
        pool.change(at, |word| word ^ 1 << 20);
        let found = pool.problems();
        assert!(found.iter().any(|p| matches!(p, CheckError::Index { .. })), "{found:?}");
        let done = pool.repaired();
        assert_eq!((done.cut.len(), done.rebuilt.as_slice()), (0, &[(0, 0)][..]));
        let ks = pool.open();
        for i in 0..KEYS {
            check(&ks, &format!("key:{i}"), Some(&format!("the value of key {i}, as it was set")));
        }
        assert_eq!(ks.count(db(0)), ((KEYS + EXPIRING + 3) as u64, EXPIRING as u64));
        ks.heap().close().expect("a clean close");
        drop(ks);
        fs::write(&pool.path, &bytes).expect("the pool");
    }
}

/// The area of the shard, after the header: it holds the shard's root words and counters.
const AREA: u64 = 12288;
const ROOTS: u64 = AREA + 1024;

#[test]
fn counts_are_set_right() {
    let check = |at: u64| {
        let pool = Pool::new();
        pool.change(at, |word| word ^ 1 << 3);
        let found = pool.problems();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            matches!(found[0], CheckError::Count { .. })
                || matches!(found[0], CheckError::Heap(heap::CheckError::Used { .. })),
            "{found:?}"
        );
        let done = pool.repaired();
        assert_eq!((done.counts, done.cut.len(), done.freed), (1, 0, 0));
        assert_eq!(pool.open().count(db(0)).0, (KEYS + EXPIRING + 3) as u64);
    };
    check(ROOTS + 32 * 8);
    check(ROOTS + 32 * 8 + 4 - 4);
    check(AREA + 128);
}

#[test]
fn a_block_that_nothing_leads_to_is_found_and_freed() {
    let pool = Pool::new();
    let bytes = fs::read(&pool.path).expect("the pool");
    let entry = memchr::memmem::find(&bytes, b"key:0the value").expect("the key") as u64;
    // The first bitmap word with a free block, in the span of an entry or one of the next spans.
    let bitmaps = (0..20).map(|span| (entry & !65535) + span * 65536 + 64);
    let at = bitmaps.flat_map(|bitmap| (0..14).map(move |word| bitmap + 8 * word));
    let word = |at: u64| u64::from_le_bytes(bytes[at as usize..][..8].try_into().expect("8"));
    let at = at.filter(|at| word(*at) != 0).find(|at| word(*at) != u64::MAX).expect("a free block");
    pool.change(at, |word| word | (word + 1));
    let found = pool.problems();
    let lost = found.iter().filter(|p| matches!(p, CheckError::Lost { .. })).count();
    assert_eq!((found.len(), lost), (2, 1), "the block, and the count of bytes: {found:?}");
    let done = pool.repaired();
    assert_eq!((done.freed, done.cut.len()), (1, 0), "{done:?}");
}

#[test]
fn an_expiry_time_that_is_not_in_its_index_is_found() {
    let pool = Pool::new();
    let ks = pool.open();
    set_until(&ks, "persistent", "some time", Expire::At(NOW + 1000));
    write(&ks, &["persistent"], |txn| {
        let key = txn.key(b"persistent");
        assert_eq!(txn.keys().set_expiry(db(0), &key, None), Ok(true));
    });
    ks.heap().close().expect("a clean close");
    drop(ks);
    let bytes = fs::read(&pool.path).expect("the pool");
    let entry = |text: &[u8]| {
        memchr::memmem::find(&bytes, text).expect("the key") as u64 - HEADER_WITH_TIME
    };
    let at = entry(b"until:5some");
    pool.change(at + 8, |_| 0);
    let found = pool.problems();
    assert!(matches!(found[..], [CheckError::Expiry { listed: true, .. }]), "{found:?}");
    pool.change(at + 8, |_| NOW + 1000);
    let at = entry(b"persistentsome");
    pool.change(at + 8, |_| NOW + 1000);
    let found = pool.problems();
    assert!(matches!(found[..], [CheckError::Expiry { listed: false, .. }]), "{found:?}");
    assert_eq!(pool.repaired().rebuilt, [(0, 0)]);
    let ks = pool.open();
    check(&ks, "persistent", Some("some time"));
    assert_eq!(get(&ks, NOW + 1000, 0, "persistent"), None, "it has the expiry time that it says");
    assert_eq!(ks.count(db(0)).1, EXPIRING as u64 + 1);
}

#[test]
fn what_nothing_else_reports_is_not_repaired() {
    let check = |at: u64, change: fn(u64) -> u64| {
        let pool = Pool::new();
        pool.change(at, change);
        let before = fs::read(&pool.path).expect("the pool");
        let ks = pool.open();
        let found = problems(&ks);
        assert!(found.iter().any(|p| matches!(p, CheckError::Heap(_))), "{found:?}");
        assert!(matches!(ks.repair(&found), Err(Refusal::Metadata(_))));
        drop(ks);
        let after = fs::read(&pool.path).expect("the pool");
        let data = ZONES as usize;
        assert!(before[data..] == after[data..], "nothing behind the logs was touched");
    };
    // The word of the first span, and its header.
    check(ZONES + 8, |_| 0xfff_ffff);
    check(ZONES + 65536, |word| word ^ 1 << 8);
}
