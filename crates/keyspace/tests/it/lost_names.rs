//! Keys whose names the medium lost stay known as lost, until a delete or a flush clears them.

use crate::common::medium::{KEYS, PAGE, Pool, ZONES, name, read, scrub, value};
use crate::common::{self, NOW, db, set, write};
use keyspace::Defragmentation;

/// Returns a pool in which some keys were lost with their names, and the numbers of these keys.
fn with_unidentified() -> (Pool, Vec<usize>) {
    let pool = Pool::new(KEYS);
    let page = pool.entry(&name(KEYS / 2)) & !(PAGE - 1);
    pool.lose_one(page);
    pool.ks.resolve_losses();
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
    let (pool, lost) = with_unidentified();
    for i in KEYS..5 * KEYS {
        set(&pool.ks, &name(i), &value(i));
    }
    check_lost(&pool, &lost);
    for &i in &lost {
        let name = name(i);
        pool.ks.remove_unidentified(db(0), &pool.ks.key(name.as_bytes())).expect("a commit");
        // One entry was cut in two and kept its name.
        write(&pool.ks, &[&name], |txn| {
            let key = txn.key(name.as_bytes());
            txn.keys().delete(db(0), &key).is_ok()
        });
        assert_eq!(read(&pool.ks, &name), Ok(None));
    }
    assert!(!pool.ks.has_media_errors());
    assert_eq!(pool.ks.count(db(0)).0, (5 * KEYS - lost.len()) as u64);
}

/// Returns the page with the most slots of the index, found by the slots of keys other than `lost`.
fn index_page(pool: &Pool, lost: &[usize]) -> u64 {
    // The low bits of a slot are the entry's offset.
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
fn lost_names_are_known_when_the_index_was_rebuilt() {
    let (pool, lost) = with_unidentified();
    pool.lose_one(index_page(&pool, &lost));
    pool.ks.resolve_losses();
    let news = pool.ks.damage_news().join("\n");
    assert!(news.contains("was rebuilt"), "{news}");
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
    pool.ks.resolve_losses();
    let news = pool.ks.damage_news().join("\n");
    assert!(news.contains("was rebuilt"), "{news}");
    // Nothing leads to the entries whose slots were in the lost page.
    let known = lost.iter().filter(|&&i| read(&pool.ks, &name(i)).is_err()).count();
    assert!(known > lost.len() / 2, "{known} of {}", lost.len());
    for i in (0..KEYS).filter(|i| !lost.contains(i)) {
        let whole = read(&pool.ks, &name(i));
        // The entry before the page may reach into it.
        assert!(
            whole == Ok(Some(value(i))) || i + 1 == lost[0] && whole.is_err(),
            "{i}: {whole:?}"
        );
    }
}

#[test]
fn lost_names_are_not_shown_to_who_walks_over_all_keys() {
    let (pool, lost) = with_unidentified();
    let is_unidentified =
        |i: &&usize| pool.ks.key_damage(db(0), &pool.ks.key(name(**i).as_bytes())).is_some();
    let unidentified = lost.iter().filter(is_unidentified).count();
    assert!(unidentified >= lost.len() - 1);
    let txn = pool.ks.begin_one(0, NOW);
    let mut seen = 0;
    txn.database(db(0)).for_each(&mut |key, _| {
        assert!(!key.is_empty());
        seen += 1;
    });
    assert_eq!(seen, KEYS - unidentified);
}

#[test]
fn lost_names_stay_known_to_the_defragmenter_and_go_with_their_database() {
    let (pool, lost) = with_unidentified();
    let gone = |i: &usize| !lost.contains(i) && !i.is_multiple_of(16);
    for i in (0..KEYS).filter(gone) {
        let name = name(i);
        write(&pool.ks, &[&name], |txn| {
            let key = txn.key(name.as_bytes());
            txn.keys().delete(db(0), &key).expect("free memory")
        });
    }
    while common::goes_on() && pool.ks.reclaim_until(|| false) {}
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
    write(&pool.ks, &[&name(0)], |txn| txn.databases().flush(db(0)).expect("free memory"));
    assert_eq!(read(&pool.ks, &name(lost[0])), Ok(None));
    assert_eq!(scrub(&pool.ks).1, 0);
    assert!(!pool.ks.has_media_errors());
    assert_eq!(read(&pool.ks, &name(lost[1])), Ok(None));
}

/// Returns a pool with this many keys and the empty key, whose value a scrub has found to be
/// damaged.
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
fn an_index_rebuilt_does_not_lead_to_a_block_that_was_given_up() {
    let pool = with_damaged_empty_key(KEYS);
    // The entry is remembered without a name, and then deleted under its name.
    let key = pool.ks.key(b"");
    pool.ks.remove_unidentified(db(0), &key).expect("a commit");
    write(&pool.ks, &[""], |txn| txn.keys().delete(db(0), &key).expect("free memory"));
    pool.lose_one(index_page(&pool, &[]));
    pool.ks.resolve_losses();
    let news = pool.ks.damage_news().join("\n");
    assert!(news.contains("was rebuilt: 4000 keys"), "{news}");
    assert_eq!(pool.ks.count(db(0)).0, KEYS as u64);
    check_lost(&pool, &[]);
}
