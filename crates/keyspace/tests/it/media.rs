//! The medium loses bytes while a keyspace is in use.

use crate::common::medium::{KEYS, PAGE, Pool, ZONES, name, read, scrub, value};
use crate::common::{HEADER, NOW, check, db, emulated, set, write};
use keyspace::{CheckError, Error, Expire, KeyDamage, Keyspace};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

#[test]
fn lost_bytes_cost_the_keys_that_they_were_and_no_other() {
    let pool = Pool::new(KEYS);
    let cut = pool.entry(&name(KEYS - 1)) & !(PAGE - 1);
    assert_eq!(cut, pool.last_page(), "the keys that came last lie last");
    let end = |i: usize| pool.entry(&name(i)) + HEADER + 9 + value(i).len() as u64;
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
    // A delete or an overwrite of a lost key leaves a sound state.
    for (n, &i) in lost.iter().enumerate() {
        let name = name(i);
        let key = pool.ks.key(name.as_bytes());
        pool.ks.remove_unidentified(db(0), &key).expect("a commit");
        if n % 2 == 0 {
            set(&pool.ks, &name, "new");
            check(&pool.ks, &name, Some("new"));
        } else {
            let mut txn = pool.ks.begin_one(key.shard(), NOW);
            txn.keys().delete(db(0), &key).expect("free memory");
            txn.commit().expect("a commit");
            drop(txn);
            check(&pool.ks, &name, None);
        }
    }
    assert!(!pool.ks.has_media_errors());
    pool.ks.heap().close().expect("a clean close");
    let Pool { ks, path, _folder } = pool;
    drop(ks);
    let ks = emulated(&path, 1);
    let mut found = Vec::new();
    ks.inspect(0, &|_| {}, &mut |problem| found.push(problem));
    // The space of entries whose slot was removed is lost until a repair.
    assert!(found.iter().all(|p| matches!(p, CheckError::Lost { .. })), "{found:?}");
    ks.repair(&found).expect("a repair");
    ks.check().expect("a keyspace without damage");
    assert_eq!(ks.count(db(0)).0, (KEYS - lost.len() / 2) as u64);
}

#[test]
fn a_damaged_key_stays_one_after_a_restart_and_is_listed_by_a_check() {
    let pool = Pool::new(KEYS);
    let last = KEYS - 1;
    // Find a key whose name is before the lost page, and whose value reaches into it.
    let pages = (1..8)
        .map(|back| pool.last_page() - back * PAGE)
        .filter(|page| !page.is_multiple_of(65536));
    let cut_in_two = pages.flat_map(|page| (last - 500..=last).map(move |i| (page, i)));
    let (page, i) = cut_in_two
        .filter(|(page, i)| (pool.entry(&name(*i)) + HEADER + 10..page + 60).contains(page))
        .find(|(page, i)| pool.entry(&name(*i)) + HEADER + 9 + value(*i).len() as u64 > *page)
        .expect("a key whose value is cut in two");
    pool.lose(page);
    let refused = read(&pool.ks, &name(i)).expect_err("damage");
    assert!(refused.contains("the value of this key is damaged"), "{refused}");
    let key = pool.ks.key(name(i).as_bytes().to_vec().leak());
    let mut txn = pool.ks.begin_one(0, NOW);
    assert!(matches!(txn.strings().append(db(0), &key, b"x"), Err(Error::Damaged(_))));
    assert!(matches!(txn.strings().set_range(db(0), &key, 3, b"x"), Err(Error::Damaged(_))));
    let other = pool.ks.key(b"other");
    assert!(matches!(txn.keys().rename((db(0), &key), (db(0), &other)), Err(Error::Damaged(_))));
    assert!(matches!(txn.keys().copy((db(0), &key), (db(0), &other)), Err(Error::Damaged(_))));
    drop(txn);
    let Pool { ks, path, _folder } = pool;
    drop(ks);
    let ks = emulated(&path, 1);
    assert!(read(&ks, &name(i)).is_err(), "in the next incarnation too");
    let mut found = Vec::new();
    ks.inspect(0, &|_| {}, &mut |problem| found.push(problem));
    let named = |problem: &CheckError| matches!(problem, CheckError::Key(key) if key.key.as_deref() == Some(name(i).as_bytes()));
    assert!(found.iter().any(named), "{found:?}");
    ks.repair(&found).expect("a repair");
    ks.check().expect("a keyspace without damage");
    check(&ks, &name(i), None);
}

#[test]
fn a_lost_part_of_an_index_is_rebuilt_from_the_entries() {
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
    assert!(news.contains("was rebuilt: 400 keys"), "{news}");
    assert_eq!(pool.ks.damaged_keys(), 0);
    pool.ks.resolve_losses();
    let mut found = Vec::new();
    pool.ks.inspect(0, &|_| {}, &mut |problem| found.push(problem));
    assert!(found.iter().all(|p| matches!(p, CheckError::Lost { .. })), "{found:?}");
}

/// Loses the page with the bitmap of the last span in use.
fn lose_bitmap(pool: &Pool) {
    pool.lose_one(pool.last_page() & !65535);
    pool.ks.resolve_losses();
}

#[track_caller]
fn check_stopped(ks: &Keyspace) {
    assert!(ks.stopped().is_some_and(|why| why.contains("bitmap")), "{:?}", ks.stopped());
    let key = ks.key(b"more");
    let mut txn = ks.begin_one(key.shard(), NOW);
    txn.strings().set(db(0), &key, b"x", Expire::Clear).expect("free memory");
    assert!(txn.commit().is_err(), "no write is taken");
}

/// Checks that each key has its value or is reported as damaged. Returns how many have their
/// values.
#[track_caller]
fn check_named(ks: &Keyspace, keys: usize) -> usize {
    let answers = (0..keys).map(|i| (i, read(ks, &name(i))));
    let whole = answers.filter(|(i, answer)| match answer {
        Ok(found) => {
            assert_eq!(*found, Some(value(*i)), "key {i}");
            true
        }
        Err(_) => false,
    });
    whole.count()
}

#[test]
fn what_nothing_else_reports_stops_the_store_and_says_so() {
    let pool = Pool::new(KEYS);
    lose_bitmap(&pool);
    check_stopped(&pool.ks);
    let key = pool.ks.key(b"more");
    assert_eq!(pool.ks.key_damage(db(0), &key), None, "reads go on");
    assert!(check_named(&pool.ks, KEYS) > KEYS - 100);
    let news = pool.ks.damage_news().join("\n");
    assert!(news.contains("perdura check --repair"), "{news}");
}

#[test]
fn a_stop_outlives_the_process() {
    let pool = Pool::new(KEYS);
    lose_bitmap(&pool);
    let whole = check_named(&pool.ks, KEYS);
    let Pool { mut ks, path, _folder } = pool;
    for incarnation in 0..3 {
        drop(ks);
        ks = emulated(&path, 1);
        let stopped = ks.stopped().map(str::to_owned);
        assert!(stopped.is_some_and(|why| why.contains("bitmap")), "before anything is settled");
        ks.resolve_losses();
        check_stopped(&ks);
        assert_eq!(check_named(&ks, KEYS), whole, "life {incarnation}");
    }
}

#[test]
fn a_repaired_pool_is_written_again_and_no_block_in_use_was_given_away() {
    let pool = Pool::new(KEYS);
    lose_bitmap(&pool);
    let damaged: Vec<usize> = (0..KEYS).filter(|&i| read(&pool.ks, &name(i)).is_err()).collect();
    let Pool { ks, path, _folder } = pool;
    drop(ks);
    let ks = emulated(&path, 1);
    let rebuilt = ks.begin_repair().expect("bitmaps that follow from what is reached");
    assert!(rebuilt > 100, "{rebuilt} blocks");
    let mut found = Vec::new();
    ks.inspect(0, &|_| {}, &mut |problem| found.push(problem));
    let done = ks.repair(&found).expect("a repair");
    assert_eq!(done.cut.len(), damaged.len(), "{done:?}");
    ks.check().expect("a keyspace without damage");
    ks.heap().lift_stop();
    ks.heap().close().expect("a clean close");
    drop(ks);
    let ks = emulated(&path, 1);
    assert_eq!((ks.stopped(), ks.has_unresolved_losses()), (None, false));
    for i in KEYS..2 * KEYS {
        set(&ks, &name(i), &value(i));
    }
    for i in 0..2 * KEYS {
        let expected = if damaged.contains(&i) { None } else { Some(value(i)) };
        assert_eq!(read(&ks, &name(i)), Ok(expected), "key {i}");
    }
    ks.check().expect("a keyspace without damage");
}

#[test]
fn a_loss_is_known_when_the_process_ends_after_its_page_was_repaired() {
    let pool = Pool::new(KEYS);
    let page = pool.entry(&name(KEYS / 2)) & !(PAGE - 1);
    pool.lose_one(page);
    pool.ks.heap().region().repair();
    let Pool { ks, path, _folder } = pool;
    drop(ks);
    let ks = emulated(&path, 1);
    assert!(ks.has_unresolved_losses(), "the pool lists it");
    ks.resolve_losses();
    let whole = check_named(&ks, KEYS);
    assert!((KEYS - 100..KEYS - 10).contains(&whole), "{whole} keys");
    assert_eq!(ks.damaged_keys(), (KEYS - whole) as u64);
    drop(ks);
    let ks = emulated(&path, 1);
    assert!(!ks.has_unresolved_losses(), "what was settled is listed no more");
    assert!(scrub(&ks).1 > 0, "and its keys are marked");
    assert_eq!(check_named(&ks, KEYS), whole);
}

#[test]
fn a_transaction_that_may_have_read_lost_bytes_does_not_commit() {
    let pool = Pool::new(KEYS);
    pool.lose(pool.last_page());
    let (first, last) = (name(0), name(KEYS - 1));
    let mut txn = pool.ks.begin_one(0, NOW);
    let [kept, lost] = [&first, &last].map(|name| pool.ks.key(name.as_bytes()));
    assert_eq!(txn.keys().delete(db(0), &kept), Ok(true));
    let seen = txn.find(db(0), &lost);
    assert!(seen.is_none(), "its bytes read as zeros");
    assert!(txn.commit().is_err());
    drop(txn);
    pool.ks.resolve_losses();
    check(&pool.ks, &first, Some(&value(0)));
    set(&pool.ks, "another", "x");
    check(&pool.ks, "another", Some("x"));
    assert!(read(&pool.ks, &last).is_err());
}

/// While a part of the span table may be lost, no span counts as free.
#[test]
fn nothing_is_reserved_of_what_a_loss_may_have_freed() {
    let pool = Pool::new(KEYS);
    pool.lose(pool.last_page());
    let mut txn = pool.ks.begin_one(0, NOW);
    let lost = name(KEYS - 1);
    assert!(txn.find(db(0), &pool.ks.key(lost.as_bytes())).is_none());
    let values = (0..64).map(|n| (name(KEYS + n), vec![1; 30_000]));
    let refused = values
        .filter(|(name, value)| {
            let key = pool.ks.key(name.as_bytes());
            txn.strings().set(db(0), &key, value, Expire::Clear).is_err()
        })
        .count();
    assert!(refused > 0);
    drop(txn);
    pool.ks.resolve_losses();
    set(&pool.ks, "another", "x");
    check(&pool.ks, "another", Some("x"));
}

#[test]
fn a_scrub_finds_what_was_changed_without_the_keyspace() {
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
fn a_scrub_rebuilds_an_index_whose_slot_leads_astray() {
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
    assert!(pool.ks.damage_news().join("\n").contains("rebuilt"));
}

/// Loses the last page, which holds the entries of the keys `lost`, here by their offsets. Returns
/// another name whose hash has the same known bits as that of one of these keys, and that key.
fn twin(pool: &Pool, lost: &HashMap<u64, String>) -> (String, String) {
    pool.lose(pool.last_page());
    pool.ks.resolve_losses();
    let at_of = |name: &str| match pool.ks.key_damage(db(0), &pool.ks.key(name.as_bytes())) {
        Some(KeyDamage::Unidentified(at)) => Some(at),
        _ => None,
    };
    let names = (0..1 << 24).map(|n| format!("x{n:08}"));
    let mut twins = names.filter_map(|name| Some((lost.get(&at_of(&name)?)?.clone(), name)));
    let (lost, name) = twins.next().expect("one in some hundred thousand");
    (name, lost)
}

/// Replaces a key in the last page with another key in the same space.
fn replace(pool: &Pool, old: &str, new: &str) {
    let last = pool.last_page();
    write(&pool.ks, &[old], |txn| {
        let key = txn.key(old.as_bytes());
        txn.keys().delete(db(0), &key).expect("free memory");
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

    // A keyspace in which both keys are in the page that is lost.
    let pool = Pool::new(KEYS);
    replace(&pool, &name(KEYS - 1), &twin);
    pool.lose(pool.last_page());
    assert!(read(&pool.ks, &lost).is_err() && read(&pool.ks, &twin).is_err());
    let clear = |name: &str| pool.ks.remove_unidentified(db(0), &pool.ks.key(name.as_bytes()));
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
    let (twin, _) = twin(&pool, &HashMap::from([(value - HEADER, String::new())]));
    let pool = Pool::new(KEYS);
    replace(&pool, &name(KEYS - 1), &twin);
    pool.lose(pool.last_page());
    assert!(read(&pool.ks, &twin).is_err());
}

#[test]
fn what_was_read_while_a_loss_was_seen_and_resolved_is_read_again() {
    let pool = Pool::new(KEYS);
    let before = pool.ks.losses();
    assert!(!pool.ks.has_lost_since(before));
    pool.lose(pool.last_page());
    assert!(pool.ks.has_lost_since(before) && pool.ks.has_lost_since(pool.ks.losses()));
    let during = pool.ks.losses();
    pool.ks.resolve_losses();
    assert!(!pool.ks.has_unresolved_losses());
    assert!(pool.ks.has_lost_since(before) && pool.ks.has_lost_since(during));
    assert!(!pool.ks.has_lost_since(pool.ks.losses()));
}
