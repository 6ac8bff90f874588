//! The medium loses bytes under a keyspace in use: here the file is cut short under its mapping, which raises the same
//! signal as a line that persistent memory cannot give.

mod common;

use common::{NOW, check, db, emulated, set, write};
use keyspace::{CheckError, Defragmentation, Error, Expire, Harm, Keyspace, Scrub};
use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const PAGE: u64 = 4096;
const KEYS: usize = 4000;
/// Of a pool with one shard, by the geometry of `common`.
const ZONES: u64 = (12288u64 + 2048 + 8 * 32768).next_multiple_of(65536);

struct Pool {
    _folder: tempfile::TempDir,
    path: PathBuf,
    ks: Keyspace,
}

impl Pool {
    fn new(keys: usize) -> Pool {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let ks = emulated(&path, 1);
        for i in 0..keys {
            set(&ks, &name(i), &value(i));
        }
        Pool { _folder: folder, path, ks }
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).expect("the pool")
    }

    /// The entry of a key, found by its bytes.
    fn entry(&self, key: &str) -> u64 {
        let text = format!("{key}the value");
        memchr::memmem::find(&self.bytes(), text.as_bytes()).expect("the key") as u64 - 24
    }

    /// Loses all from this page on.
    fn lose(&self, page: u64) {
        let last = self.last_page();
        let file = OpenOptions::new().write(true).open(&self.path).expect("the pool");
        let len = file.metadata().expect("a file").len();
        file.set_len(page).expect("a shorter file");
        for page in (page..=last).step_by(PAGE as usize) {
            self.ks.heap().region().load(page);
        }
        file.set_len(len).expect("as long as before, with zeros");
        assert!(self.ks.is_unsettled());
    }

    /// Changes a bit behind the keyspace's back.
    fn flip(&self, at: u64) {
        let file = OpenOptions::new().write(true).open(&self.path).expect("the pool");
        file.write_all_at(&[self.bytes()[at as usize] ^ 1], at).expect("a write");
    }

    /// Loses one page and leaves what lies behind it.
    fn lose_one(&self, page: u64) {
        let bytes = self.bytes();
        let file = OpenOptions::new().write(true).open(&self.path).expect("the pool");
        file.set_len(page).expect("a shorter file");
        self.ks.heap().region().load(page);
        let behind = page + PAGE;
        file.write_all_at(&bytes[behind as usize..], behind).expect("what lies behind");
        assert!(self.ks.is_unsettled());
    }

    /// The page behind which everything was zeros anyway.
    fn last_page(&self) -> u64 {
        let bytes = self.bytes();
        let last = bytes.iter().rposition(|byte| *byte != 0).expect("a pool") as u64;
        last & !(PAGE - 1)
    }
}

fn name(i: usize) -> String {
    format!("key:{i:05}")
}

fn value(i: usize) -> String {
    format!("the value of key {i}, which is a bit longer")
}

/// Reads as a server does: what was read while bytes were lost is read again.
fn read(ks: &Keyspace, key: &str) -> Result<Option<String>, String> {
    loop {
        let losses = ks.losses();
        let key = ks.key(key.as_bytes());
        if ks.has_alert()
            && let Some(harm) = ks.harm(db(0), &key)
        {
            return Err(format!("{harm:?}"));
        }
        let mut txn = ks.begin_one(key.shard(), NOW);
        let found = txn.find(db(0), &key);
        let text = found.map(|entry| {
            let text = txn.string(&entry).map(|text| text.to_vec());
            text.map(|text| String::from_utf8_lossy(&text).into_owned())
        });
        drop(txn);
        if !ks.has_lost_since(losses) {
            return text.transpose().map_err(|error| error.to_string());
        }
        ks.settle();
    }
}

#[test]
fn lost_bytes_cost_the_keys_that_they_were_and_no_other() {
    let pool = Pool::new(KEYS);
    let cut = pool.entry(&name(KEYS - 1)) & !(PAGE - 1);
    assert_eq!(cut, pool.last_page(), "the keys that came last lie last");
    let end = |i: usize| pool.entry(&name(i)) + 24 + 9 + value(i).len() as u64;
    let lost: Vec<usize> = (KEYS - 200..KEYS).filter(|&i| end(i) > cut).collect();
    let whole: Vec<usize> = (KEYS - 200..KEYS).filter(|&i| end(i) <= cut).collect();
    assert!((10..100).contains(&lost.len()), "{} keys", lost.len());
    pool.lose(cut);
    for i in (0..KEYS - 200).chain(whole.iter().copied()) {
        assert_eq!(read(&pool.ks, &name(i)), Ok(Some(value(i))), "a neighbour");
    }
    for &i in &lost {
        assert!(read(&pool.ks, &name(i)).is_err(), "key {i}: {:?}", read(&pool.ks, &name(i)));
    }
    assert_eq!(pool.ks.damaged_keys(), lost.len() as u64);
    assert_eq!(pool.ks.heap().region().media_errors(), 1);
    let news = pool.ks.damage_news().join("\n");
    assert!(news.contains("bytes at pool offset"), "{news}");
    assert!(pool.ks.stopped().is_none());
    // Whoever deletes or overwrites a lost key has a sound one.
    for (n, &i) in lost.iter().enumerate() {
        let name = name(i);
        let key = pool.ks.key(name.as_bytes());
        pool.ks.cut_nameless(db(0), &key).expect("a commit");
        if n % 2 == 0 {
            set(&pool.ks, &name, "new");
            check(&pool.ks, &name, Some("new"));
        } else {
            let mut txn = pool.ks.begin_one(key.shard(), NOW);
            txn.delete(db(0), &key).expect("room");
            txn.commit().expect("a commit");
            drop(txn);
            check(&pool.ks, &name, None);
        }
    }
    assert!(!pool.ks.has_alert());
    pool.ks.heap().close().expect("a clean close");
    let Pool { ks, path, _folder } = pool;
    drop(ks);
    let ks = emulated(&path, 1);
    let mut found = Vec::new();
    ks.inspect(0, &|_| {}, &mut |problem| found.push(problem));
    // The room of entries whose slot was cut is lost until a repair.
    assert!(found.iter().all(|p| matches!(p, CheckError::Lost { .. })), "{found:?}");
    ks.repair(&found).expect("a repair");
    ks.check().expect("a keyspace without damage");
    assert_eq!(ks.count(db(0)).0, (KEYS - lost.len() / 2) as u64);
}

#[test]
fn a_damaged_key_stays_one_after_a_restart_and_is_listed_by_a_check() {
    let pool = Pool::new(KEYS);
    let last = KEYS - 1;
    // The name of this key lies before the page that is lost, its value in it.
    let pages = (1..8)
        .map(|back| pool.last_page() - back * PAGE)
        .filter(|page| !page.is_multiple_of(65536));
    let cut_in_two = pages.flat_map(|page| (last - 500..=last).map(move |i| (page, i)));
    let (page, i) = cut_in_two
        .filter(|(page, i)| (pool.entry(&name(*i)) + 34..page + 60).contains(page))
        .find(|(page, i)| pool.entry(&name(*i)) + 33 + value(*i).len() as u64 > *page)
        .expect("a key whose value is cut in two");
    pool.lose(page);
    let refused = read(&pool.ks, &name(i)).expect_err("damage");
    assert!(refused.contains("the value of this key is damaged"), "{refused}");
    let key = pool.ks.key(name(i).as_bytes().to_vec().leak());
    let mut txn = pool.ks.begin_one(0, NOW);
    assert!(matches!(txn.append(db(0), &key, b"x"), Err(Error::Damaged(_))));
    assert!(matches!(txn.set_range(db(0), &key, 3, b"x"), Err(Error::Damaged(_))));
    let other = pool.ks.key(b"other");
    assert!(matches!(txn.rename((db(0), &key), (db(0), &other)), Err(Error::Damaged(_))));
    assert!(matches!(txn.copy((db(0), &key), (db(0), &other)), Err(Error::Damaged(_))));
    drop(txn);
    let Pool { ks, path, _folder } = pool;
    drop(ks);
    let ks = emulated(&path, 1);
    assert!(read(&ks, &name(i)).is_err(), "in the next life too");
    let mut found = Vec::new();
    ks.inspect(0, &|_| {}, &mut |problem| found.push(problem));
    let named = |problem: &CheckError| matches!(problem, CheckError::Key(key) if key.key.as_deref() == Some(name(i).as_bytes()));
    assert!(found.iter().any(named), "{found:?}");
    ks.repair(&found).expect("a repair");
    ks.check().expect("a keyspace without damage");
    check(&ks, &name(i), None);
}

#[test]
fn a_lost_part_of_an_index_is_made_anew_from_the_entries() {
    const KEYS: usize = 400;
    let pool = Pool::new(KEYS);
    let cut = pool.last_page();
    assert!(cut > pool.entry(&name(KEYS - 1)), "the index lies behind the entries");
    assert!(!cut.is_multiple_of(65536), "what is lost is not the span's bitmap");
    pool.lose(cut);
    for i in 0..KEYS {
        assert_eq!(read(&pool.ks, &name(i)), Ok(Some(value(i))), "key {i}");
    }
    let news = pool.ks.damage_news().join("\n");
    assert!(news.contains("was made anew: 400 keys"), "{news}");
    assert_eq!(pool.ks.damaged_keys(), 0);
    pool.ks.settle();
    let mut found = Vec::new();
    pool.ks.inspect(0, &|_| {}, &mut |problem| found.push(problem));
    assert!(found.iter().all(|p| matches!(p, CheckError::Lost { .. })), "{found:?}");
}

#[test]
fn what_nothing_else_tells_stops_the_store_and_says_so() {
    let pool = Pool::new(400);
    pool.lose(pool.last_page() & !65535);
    let refused = (0..400).find_map(|i| read(&pool.ks, &name(i)).err()).expect("damage");
    assert!(refused.contains("Stopped") && refused.contains("bitmap"), "{refused}");
    assert!(pool.ks.stopped().is_some_and(|why| why.contains("bitmap")));
    let key = pool.ks.key(b"more");
    let harm = pool.ks.harm(db(0), &key);
    assert!(matches!(harm, Some(Harm::Stopped(_))), "{harm:?}");
    let mut txn = pool.ks.begin_one(0, NOW);
    txn.set(db(0), &key, b"x", Expire::Clear).expect("room");
    assert!(txn.commit().is_err(), "no write is taken");
}

#[test]
fn a_transaction_that_may_have_read_lost_bytes_does_not_commit() {
    let pool = Pool::new(KEYS);
    pool.lose(pool.last_page());
    let key = pool.ks.key(b"another");
    let mut txn = pool.ks.begin_one(0, NOW);
    let last = name(KEYS - 1);
    let lost = txn.key(last.as_bytes());
    let seen = txn.find(db(0), &lost);
    assert!(seen.is_none(), "its bytes read as zeros");
    txn.set(db(0), &key, b"x", Expire::Clear).expect("room");
    assert!(txn.commit().is_err());
    drop(txn);
    pool.ks.settle();
    check(&pool.ks, "another", None);
    set(&pool.ks, "another", "x");
    check(&pool.ks, "another", Some("x"));
    assert!(read(&pool.ks, &last).is_err());
}

/// Scrubs the whole keyspace once: keys, and damaged ones.
fn scrub(ks: &Keyspace) -> (u64, u64) {
    let (mut keys, mut found) = (0, 0);
    for shard in 0..ks.shards() {
        let mut at = Scrub::default();
        loop {
            let (next, more) = ks.scrub_step(shard, at).expect("a step");
            at = next;
            if !more {
                break;
            }
        }
        keys += at.keys;
        found += at.found;
    }
    (keys, found)
}

#[test]
fn a_scrub_finds_what_was_changed_behind_the_keyspaces_back() {
    const KEYS: usize = 1500;
    let pool = Pool::new(KEYS);
    set(&pool.ks, "large", &"large ".repeat(100_000));
    set(&pool.ks, "block", &"block ".repeat(1000));
    assert_eq!(scrub(&pool.ks), (KEYS as u64 + 2, 0));
    let bytes = pool.bytes();
    pool.flip(pool.entry(&name(7)) + 40);
    pool.flip(memchr::memmem::rfind(&bytes, b"large large").expect("a chunk") as u64);
    pool.flip(memchr::memmem::rfind(&bytes, b"block block").expect("a block") as u64);
    assert!(read(&pool.ks, &name(7)).is_err(), "a short value is verified when it is read");
    assert_eq!(read(&pool.ks, "block").map(|text| text.is_some()), Ok(true), "a long one is not");
    assert_eq!(scrub(&pool.ks), (KEYS as u64 + 2, 3));
    for key in [&name(7), "large", "block"] {
        assert!(read(&pool.ks, key).is_err(), "{key}");
    }
    let news = pool.ks.damage_news().join("\n");
    for key in [&name(7), "large", "block"] {
        assert!(news.contains(&format!("key \"{key}\"")), "{news}");
    }
    assert_eq!(pool.ks.damaged_keys(), 3);
    assert_eq!(scrub(&pool.ks).1, 3, "they are still there");
    assert_eq!(pool.ks.damaged_keys(), 3, "and counted once");
    for i in (0..KEYS).filter(|i| *i != 7) {
        assert_eq!(read(&pool.ks, &name(i)), Ok(Some(value(i))));
    }
    for key in [&name(7), "large", "block"] {
        set(&pool.ks, key, "again");
    }
    assert_eq!(scrub(&pool.ks), (KEYS as u64 + 2, 0));
}

#[test]
fn a_scrub_makes_an_index_anew_whose_slot_leads_astray() {
    const KEYS: usize = 600;
    let pool = Pool::new(KEYS);
    let entry = pool.entry(&name(9));
    let bytes = pool.bytes();
    let words = bytes[ZONES as usize..]
        .chunks_exact(8)
        .map(|w| u64::from_le_bytes(w.try_into().expect("8")));
    let slot = words.enumerate().rfind(|(_, w)| w & 0xffff_ffff_ffff == entry && w >> 48 != 0);
    let (at, word) = slot.map(|(n, w)| (ZONES + n as u64 * 8, w)).expect("a slot");
    let file = OpenOptions::new().write(true).open(&pool.path).expect("the pool");
    file.write_all_at(&(word ^ 1 << 50).to_le_bytes(), at).expect("a write");
    assert_eq!(read(&pool.ks, &name(9)), Ok(None), "the tag hides it");
    scrub(&pool.ks);
    assert_eq!(read(&pool.ks, &name(9)), Ok(Some(value(9))));
    assert!(pool.ks.damage_news().join("\n").contains("made anew"));
}

/// A name with the same known bits of the hash as one of `lost`, keys by their entries in the last page; and which. Loses
/// that page.
fn twin(pool: &Pool, lost: &HashMap<u64, String>) -> (String, String) {
    pool.lose(pool.last_page());
    pool.ks.settle();
    let at_of = |name: &str| match pool.ks.harm(db(0), &pool.ks.key(name.as_bytes())) {
        Some(Harm::Nameless(at)) => Some(at),
        _ => None,
    };
    let names = (0..1 << 24).map(|n| format!("x{n:08}"));
    let mut twins = names.filter_map(|name| Some((lost.get(&at_of(&name)?)?.clone(), name)));
    let (lost, name) = twins.next().expect("one in some hundred thousand");
    (name, lost)
}

/// Puts another key in the place of one that lies in the last page.
fn replace(pool: &Pool, old: &str, new: &str) {
    let last = pool.last_page();
    write(&pool.ks, &[old], |txn| {
        let key = txn.key(old.as_bytes());
        txn.delete(db(0), &key).expect("room");
    });
    let as_long = value(KEYS - 1).len() + old.len() - new.len();
    set(&pool.ks, new, &"v".repeat(as_long));
    assert_eq!(pool.last_page(), last, "the room of the deleted key was taken");
}

#[test]
fn of_two_lost_keys_with_the_same_known_bits_each_is_cleared_by_its_own_delete() {
    let pool = Pool::new(KEYS);
    let lost = (KEYS - 20..KEYS - 1).map(|i| (pool.entry(&name(i)), name(i))).collect();
    let (twin, lost) = twin(&pool, &lost);

    // A keyspace where both are keys of the page that is lost.
    let pool = Pool::new(KEYS);
    replace(&pool, &name(KEYS - 1), &twin);
    pool.lose(pool.last_page());
    assert!(read(&pool.ks, &lost).is_err() && read(&pool.ks, &twin).is_err());
    let clear = |name: &str| pool.ks.cut_nameless(db(0), &pool.ks.key(name.as_bytes()));
    clear(&twin).expect("a commit");
    assert_eq!(read(&pool.ks, &twin), Ok(None), "deleted, whatever else fits it");
    assert!(read(&pool.ks, &lost).is_err());
    clear(&twin).expect("nothing to cut");
    assert!(read(&pool.ks, &lost).is_err(), "the other key's loss was not forgotten");
    clear(&lost).expect("a commit");
    assert_eq!(read(&pool.ks, &lost), Ok(None));
}

#[test]
fn a_lost_key_with_the_known_bits_of_the_empty_one_is_not_taken_for_it() {
    let pool = Pool::new(KEYS);
    replace(&pool, &name(KEYS - 1), "");
    let value = memchr::memmem::find(&pool.bytes(), &[b'v'; 40]).expect("its value") as u64;
    let (twin, _) = twin(&pool, &HashMap::from([(value - 24, String::new())]));
    let pool = Pool::new(KEYS);
    replace(&pool, &name(KEYS - 1), &twin);
    pool.lose(pool.last_page());
    assert!(read(&pool.ks, &twin).is_err());
}

#[test]
fn what_was_read_while_a_loss_was_met_and_settled_is_read_again() {
    let pool = Pool::new(KEYS);
    let before = pool.ks.losses();
    assert!(!pool.ks.has_lost_since(before));
    pool.lose(pool.last_page());
    assert!(pool.ks.has_lost_since(before) && pool.ks.has_lost_since(pool.ks.losses()));
    let during = pool.ks.losses();
    pool.ks.settle();
    assert!(!pool.ks.is_unsettled());
    assert!(pool.ks.has_lost_since(before) && pool.ks.has_lost_since(during));
    assert!(!pool.ks.has_lost_since(pool.ks.losses()));
}

/// Keys of which some were lost with their names; which.
fn with_nameless() -> (Pool, Vec<usize>) {
    let pool = Pool::new(KEYS);
    let page = pool.entry(&name(KEYS / 2)) & !(PAGE - 1);
    pool.lose_one(page);
    pool.ks.settle();
    let lost: Vec<usize> = (0..KEYS).filter(|&i| read(&pool.ks, &name(i)).is_err()).collect();
    assert!((10..100).contains(&lost.len()), "{} keys", lost.len());
    (pool, lost)
}

#[track_caller]
fn check_lost(pool: &Pool, lost: &[usize]) {
    for i in 0..KEYS {
        let expected = lost.contains(&i).then_some(()).map_or(Some(value(i)), |()| None);
        assert_eq!(read(&pool.ks, &name(i)).ok().flatten(), expected, "key {i}");
        assert_eq!(read(&pool.ks, &name(i)).is_err(), lost.contains(&i), "key {i}");
    }
}

#[test]
fn lost_names_are_known_when_the_index_has_grown() {
    let (pool, lost) = with_nameless();
    for i in KEYS..5 * KEYS {
        set(&pool.ks, &name(i), &value(i));
    }
    check_lost(&pool, &lost);
    for &i in &lost {
        let name = name(i);
        pool.ks.cut_nameless(db(0), &pool.ks.key(name.as_bytes())).expect("a commit");
        // One was cut in two and kept its name.
        write(&pool.ks, &[&name], |txn| txn.delete(db(0), &txn.key(name.as_bytes())).is_ok());
        assert_eq!(read(&pool.ks, &name), Ok(None));
    }
    assert!(!pool.ks.has_alert());
    assert_eq!(pool.ks.count(db(0)).0, (5 * KEYS - lost.len()) as u64);
}

/// A page with slots of an index, as they lead to keys other than `lost`.
fn index_page(pool: &Pool, lost: &[usize]) -> u64 {
    // The low bits of a slot are the entry's place.
    let bytes = pool.bytes();
    let entries: Vec<u64> =
        (0..KEYS).filter(|i| !lost.contains(i)).map(|i| pool.entry(&name(i))).collect();
    let leads = |word: &[u8]| {
        let word = u64::from_le_bytes(word.try_into().expect("a word"));
        entries.binary_search(&(word & ((1 << 48) - 1))).is_ok()
    };
    let pages = bytes.chunks(PAGE as usize).skip((ZONES / PAGE) as usize);
    let slots = pages.map(|page| page.chunks(8).filter(|word| leads(word)).count());
    let (page, _) = slots.enumerate().max_by_key(|(_, slots)| *slots).expect("pages");
    ZONES + page as u64 * PAGE
}

#[test]
fn lost_names_are_known_when_the_index_was_made_anew() {
    let (pool, lost) = with_nameless();
    pool.lose_one(index_page(&pool, &lost));
    pool.ks.settle();
    let news = pool.ks.damage_news().join("\n");
    assert!(news.contains("was made anew"), "{news}");
    check_lost(&pool, &lost);
}

#[test]
fn names_that_are_lost_together_with_a_part_of_the_index_are_known() {
    let pool = Pool::new(KEYS);
    let page = pool.entry(&name(KEYS / 2)) & !(PAGE - 1);
    let lost: Vec<usize> =
        (0..KEYS).filter(|&i| pool.entry(&name(i)) & !(PAGE - 1) == page).collect();
    pool.lose_one(index_page(&pool, &[]));
    pool.lose_one(page);
    pool.ks.settle();
    let news = pool.ks.damage_news().join("\n");
    assert!(news.contains("was made anew"), "{news}");
    // Nothing leads to those whose slots were in the lost page.
    let known = lost.iter().filter(|&&i| read(&pool.ks, &name(i)).is_err()).count();
    assert!(known > lost.len() / 2, "{known} of {}", lost.len());
    for i in (0..KEYS).filter(|i| !lost.contains(i)) {
        let whole = read(&pool.ks, &name(i));
        // One may reach into the lost page.
        assert!(
            whole == Ok(Some(value(i))) || i + 1 == lost[0] && whole.is_err(),
            "{i}: {whole:?}"
        );
    }
}

#[test]
fn lost_names_are_not_shown_to_who_walks_over_all_keys() {
    let (pool, lost) = with_nameless();
    let is_nameless =
        |i: &&usize| pool.ks.harm(db(0), &pool.ks.key(name(**i).as_bytes())).is_some();
    let nameless = lost.iter().filter(is_nameless).count();
    assert!(nameless >= lost.len() - 1);
    let txn = pool.ks.begin_one(0, NOW);
    let mut seen = 0;
    txn.for_each(db(0), &mut |key, _| {
        assert!(!key.is_empty());
        seen += 1;
    });
    assert_eq!(seen, KEYS - nameless);
}

#[test]
fn lost_names_stay_known_to_the_defragmenter_and_go_with_their_database() {
    let (pool, lost) = with_nameless();
    let gone = |i: &usize| !lost.contains(i) && !i.is_multiple_of(16);
    for i in (0..KEYS).filter(gone) {
        let key = name(i);
        write(&pool.ks, &[&key], |txn| txn.delete(db(0), &txn.key(key.as_bytes())).expect("room"));
    }
    while pool.ks.reclaim_until(|| false) {}
    let (mut at, mut moved) = (Defragmentation::default(), 0);
    for _ in 0..10_000 {
        let Some(next) = pool.ks.defragment_step(0, at, 16).expect("a commit") else { break };
        at = next;
        moved = moved.max(at.moved);
    }
    assert!(moved > 0, "nothing to do");
    for &i in &lost {
        assert!(read(&pool.ks, &name(i)).is_err(), "key {i}");
    }
    write(&pool.ks, &[&name(0)], |txn| txn.flush(db(0)).expect("room"));
    assert_eq!(read(&pool.ks, &name(lost[0])), Ok(None));
    assert_eq!(scrub(&pool.ks).1, 0);
    assert!(!pool.ks.has_alert());
    assert_eq!(read(&pool.ks, &name(lost[1])), Ok(None));
}

/// Keys, and the empty one, whose value a scrub has found to be damaged.
fn with_damaged_empty_key(keys: usize) -> Pool {
    let pool = Pool::new(keys);
    set(&pool.ks, "", &"a value in a block of its own ".repeat(500));
    let at = memchr::memmem::find(&pool.bytes(), b"of its own a value").expect("the value");
    pool.flip(at as u64);
    assert_eq!(scrub(&pool.ks).1, 1);
    pool
}

#[test]
fn the_empty_key_is_one_that_a_scrub_can_find_damaged() {
    let pool = with_damaged_empty_key(10);
    assert!(read(&pool.ks, "").is_err());
    assert_eq!(scrub(&pool.ks).1, 1, "still there");
    assert!(read(&pool.ks, "").is_err());
}

#[test]
fn an_index_made_anew_does_not_lead_to_a_block_that_was_given_up() {
    let pool = with_damaged_empty_key(KEYS);
    // The entry is remembered without a name, and deleted under it.
    let key = pool.ks.key(b"");
    pool.ks.cut_nameless(db(0), &key).expect("a commit");
    write(&pool.ks, &[""], |txn| txn.delete(db(0), &key).expect("room"));
    pool.lose_one(index_page(&pool, &[]));
    pool.ks.settle();
    let news = pool.ks.damage_news().join("\n");
    assert!(news.contains("was made anew: 4000 keys"), "{news}");
    assert_eq!(pool.ks.count(db(0)).0, KEYS as u64);
    check_lost(&pool, &[]);
}
