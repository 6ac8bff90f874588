//! Bugs that searches found, each as a separate history, and situations that a search may take long
//! to reach. A search begins with them.

#[path = "../log/mod.rs"]
pub(crate) mod log;
#[path = "../losses/mod.rs"]
pub(crate) mod losses;
#[path = "../salvaged/mod.rs"]
pub(crate) mod salvaged;
#[path = "../scripts/mod.rs"]
pub(crate) mod scripts;
#[path = "../snapshots/mod.rs"]
pub(crate) mod snapshots;

use crate::journaled;
use heap::{CreateOptions, Geometry, Heap, OpenError};
use keyspace::{Db, Defragmentation, Expire, Keyspace};
use pmem::{NullRecorder, Region};
use sim::{Choose, Crash, Durability, Event, Medium};
use std::sync::Arc;

/// Returns all of them, by name.
#[allow(dead_code, reason = "not every program goes through all of them")]
pub(crate) fn all() -> impl Iterator<Item = &'static (&'static str, fn())> {
    ALL.iter().chain(snapshots::ALL).chain(JOURNALED)
}

/// Histories of a heap with a journal.
const JOURNALED: &[(&str, fn())] = &[
    ("one_copy_of_the_superblock_stays_whole", || {
        assert!(journaled::histories::one_copy_of_the_superblock_stays_whole());
    }),
    ("an_older_incarnation_does_not_count_after_a_newer_one", || {
        assert!(journaled::histories::an_older_incarnation_does_not_count_after_a_newer_one());
    }),
    ("what_was_synced_and_is_damaged_is_no_end", || {
        assert!(journaled::histories::what_was_synced_and_is_damaged_is_no_end());
    }),
    ("a_damaged_batch_is_found_however_far_the_ring_was_written_to", || {
        let is_found =
            journaled::histories::a_damaged_batch_is_found_however_far_the_ring_was_written_to;
        assert!(is_found());
    }),
    ("what_an_opening_found_torn_is_not_whole_later", || {
        assert!(journaled::histories::what_an_opening_found_torn_is_not_whole_later());
    }),
    ("what_is_not_known_to_be_synced_is_written_again", || {
        assert!(journaled::histories::what_is_not_known_to_be_synced_is_written_again());
    }),
    ("of_each_word_the_newest_content_comes_last", || {
        assert!(journaled::histories::of_each_word_the_newest_content_comes_last());
    }),
    ("what_is_stored_while_its_page_is_copied_is_kept", || {
        assert!(journaled::histories::what_is_stored_while_its_page_is_copied_is_kept());
    }),
    ("what_is_written_to_lines_is_durable", || {
        assert!(journaled::histories::what_is_written_to_lines_is_durable());
    }),
    ("nothing_is_written_past_a_limit_that_is_lowered", || {
        assert!(journaled::histories::nothing_is_written_past_a_limit_that_is_lowered());
    }),
    ("nothing_is_written_past_the_lap_of_a_ring_that_grows", || {
        assert!(journaled::histories::nothing_is_written_past_the_lap_of_a_ring_that_grows());
    }),
];

pub(crate) const ALL: &[(&str, fn())] = &[
    (
        "an_append_to_a_moved_string_leaves_the_move_whole",
        an_append_to_a_moved_string_leaves_the_move_whole,
    ),
    (
        "a_header_that_is_accepted_is_durable_before_the_other_is_written_over",
        a_header_that_is_accepted_is_durable_before_the_other_is_written_over,
    ),
    (
        "no_copy_outlives_the_commit_that_changes_its_block",
        no_copy_outlives_the_commit_that_changes_its_block,
    ),
    (
        "a_newest_record_that_was_fenced_and_is_damaged_is_reported",
        a_newest_record_that_was_fenced_and_is_damaged_is_reported,
    ),
    (
        "a_flipped_bit_of_a_header_costs_nothing_and_one_of_the_log_is_reported",
        a_flipped_bit_of_a_header_costs_nothing_and_one_of_the_log_is_reported,
    ),
    (
        "a_lost_record_brings_no_older_word_back_into_a_salvaged_pool",
        salvaged::a_lost_record_brings_no_older_word_back_into_a_salvaged_pool,
    ),
    (
        "a_record_that_a_recovery_has_retired_may_be_lost",
        salvaged::a_record_that_a_recovery_has_retired_may_be_lost,
    ),
    (
        "a_transaction_of_two_shards_is_salvaged_whole",
        salvaged::a_transaction_of_two_shards_is_salvaged_whole,
    ),
    ("a_loss_is_resolved_or_recorded_whenever_the_process_ends", || {
        losses::a_loss_is_resolved_or_recorded_whenever_the_process_ends(37);
    }),
    (
        "a_log_that_lost_its_newest_record_is_opened_again",
        losses::a_log_that_lost_its_newest_record_is_opened_again,
    ),
    ("a_script_that_is_run_again_is_seen_once", scripts::a_script_that_is_run_again_is_seen_once),
    ("a_script_that_is_killed_leaves_nothing", scripts::a_script_that_is_killed_leaves_nothing),
    (
        "scripts_that_need_each_others_shards_all_come_to_an_end",
        scripts::scripts_that_need_each_others_shards_all_come_to_an_end,
    ),
    ("a_log_that_is_rewritten_under_load_gives_each_transaction_back_once", || {
        // The seed in which a cut without the locks shows.
        for seed in [0, 1, 34] {
            log::Rewriting::of(seed).explore().unwrap_or_else(|what| panic!("{what}"));
        }
    }),
];

/// The places of the copies of the header, and their length.
const HEADERS: [usize; 2] = [0, 4096];
const HEADER: usize = 192;
/// The places of the only log's tail and ring.
const TAIL: usize = 12288;
const RING: usize = 16384;
const RINGS: std::ops::Range<usize> = RING..RING + 3 * 4096;

const RESERVE: usize = 4 << 20;
const NOW: u64 = 1_700_000_000_000;

fn create(region: Region) -> Keyspace {
    let geometry = Geometry { shards: 1, ring_parts: 3, ring_part: 4096, zone_spans: 16 };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    Keyspace::new(Heap::create(region, &options).expect("a pool"), NOW)
}

fn db() -> Db {
    Db::new(0).expect("a database")
}

fn set(keyspace: &Keyspace, key: &str, value: &[u8]) {
    let mut txn = keyspace.begin_all(NOW);
    let key = txn.key(key.as_bytes());
    txn.strings().set(db(), &key, value, Expire::Clear).expect("free memory");
    txn.commit().expect("a commit");
}

fn get(keyspace: &Keyspace, key: &str) -> Option<Vec<u8>> {
    let mut txn = keyspace.begin_all(NOW);
    let key = txn.key(key.as_bytes());
    let entry = txn.find(db(), &key)?;
    Some(txn.string(&entry).and_then(|value| value.to_vec()).expect("a string"))
}

/// Returns the keyspace after a crash just after these bytes were stored, when everything stored so
/// far has arrived.
fn crashed_after(medium: &Medium, stored: &[u8]) -> Keyspace {
    let trace = medium.take();
    let is_it = |event: &Event| match *event {
        Event::Store { from, len, .. } => trace.bytes[from..from + len] == *stored,
        _ => false,
    };
    let last = trace.events.iter().rposition(is_it).expect("these bytes were stored") + 1;
    let mut durability = Durability::new(Vec::new());
    trace.events[..last].iter().for_each(|event| durability.apply(&trace, *event));
    let image = durability.visible();
    let region = Region::simulated_from(&image, RESERVE, Arc::new(NullRecorder));
    let (heap, _) = Heap::open(region, [0; 16]).expect("a pool that opens");
    let keyspace = Keyspace::new(heap, NOW);
    keyspace.check().expect("an intact keyspace");
    keyspace
}

/// An entry was moved together with the space up to the next word after its string; the append
/// wrote there, and so invalidated the move, which had been acknowledged.
pub(crate) fn an_append_to_a_moved_string_leaves_the_move_whole() {
    let medium = Medium::new();
    let keyspace = create(Region::simulated_growing(RESERVE, medium.clone()));
    let value = vec![b'v'; 3001];
    (0..60).for_each(|n| set(&keyspace, &format!("k{n:02}"), &value));
    let mut txn = keyspace.begin_all(NOW);
    for n in 1..40 {
        let name = format!("k{n:02}");
        let key = txn.key(name.as_bytes());
        txn.keys().delete(db(), &key).expect("a delete");
    }
    txn.commit().expect("a commit");
    drop(txn);
    let moved = keyspace.defragment_step(0, Defragmentation::default(), 1000).expect("a commit");
    assert!(moved.is_some_and(|at| at.moved > 0), "{moved:?}");
    let mut txn = keyspace.begin_all(NOW);
    let key = txn.key(b"k00");
    txn.strings().append(db(), &key, b"tail").expect("free memory");
    txn.commit().expect("a commit");
    drop(txn);
    let keyspace = crashed_after(&medium, b"tail");
    let found = get(&keyspace, "k00").expect("the key");
    assert!(found == value || found == [&value[..], b"tail"].concat());
}

/// A process ended while it wrote the second copy of the header; the next one accepted that copy,
/// which was only in the cache, and overwrote the first. A power cut then took both.
pub(crate) fn a_header_that_is_accepted_is_durable_before_the_other_is_written_over() {
    let made = Medium::new();
    drop(create(Region::simulated_growing(RESERVE, made.clone())));
    let trace = made.take();
    let mut durability = Durability::new(Vec::new());
    trace.events.iter().for_each(|event| durability.apply(&trace, *event));

    let dying = Medium::new();
    let image = durability.visible();
    let region = Region::simulated_from(&image, RESERVE, dying.clone());
    drop(Heap::open(region, [0; 16]).expect("a pool"));
    let trace = dying.take();
    let store = |event: &Event| matches!(event, Event::Store { len, .. } if *len > 8);
    let last = trace.events.iter().rposition(store).expect("a header");
    let mut durability = Durability::new(image);
    trace.events[..=last].iter().for_each(|event| durability.apply(&trace, *event));

    let next = Medium::new();
    let region = Region::simulated_from(&durability.visible(), RESERVE, next.clone());
    drop(Heap::open(region, [0; 16]).expect("a pool after the death of a process"));
    let trace = next.take();
    let mut rng = fastrand::Rng::with_seed(1);
    for event in &trace.events {
        let choose = Choose { all_of: 64, some: 64 };
        durability.images(Crash::Strict, choose, &mut rng, |image, _| {
            let region = Region::simulated_from(image.bytes, RESERVE, Arc::new(NullRecorder));
            Heap::open(region, [0; 16]).expect("a pool after a power cut");
            true
        });
        durability.apply(&trace, *event);
    }
}

/// Values of one length, in blocks that are reused: a copy that is not invalidated is returned for
/// another value.
pub(crate) fn no_copy_outlives_the_commit_that_changes_its_block() {
    let keyspace = create(Region::simulated_growing(RESERVE, Medium::new()));
    keyspace.heap().set_read_cache(1 << 20);
    for round in 0..20 {
        set(&keyspace, "key", &[round; 1000]);
        let mut txn = keyspace.begin_all(NOW);
        let key = txn.key(b"key");
        let entry = txn.find(db(), &key).expect("the key");
        let read = txn.strings().read(&entry).and_then(|value| value.to_vec()).expect("a string");
        assert!(read == [round; 1000], "the read cache gives what is there no more");
    }
}

/// Whatever a commit stored before its fence, a flipped bit in it must be reported if the fence is
/// known to have completed: no later record reports it, and the write was acknowledged.
pub(crate) fn a_newest_record_that_was_fenced_and_is_damaged_is_reported() {
    let medium = Medium::new();
    let keyspace = create(Region::simulated_growing(RESERVE, medium.clone()));
    set(&keyspace, "one", &[b'1'; 200]);
    set(&keyspace, "two", &[b'2'; 200]);
    let trace = medium.take();
    let mut durability = Durability::new(Vec::new());
    trace.events.iter().for_each(|event| durability.apply(&trace, *event));
    let mut image = durability.visible();
    let is_fence = |event: &Event| matches!(event, Event::Fence { .. });
    let fence = trace.events.iter().rposition(is_fence).expect("the commit's");
    let from = trace.events[..fence].iter().rposition(is_fence).expect("that of the one before");
    let (mut of_the_record, mut of_its_bytes) = (0, 0);
    for event in &trace.events[from..fence] {
        let Event::Store { off, len, .. } = *event else { continue };
        let at = off as usize + len / 2;
        image[at] ^= 1;
        let region = Region::simulated_from(&image, RESERVE, Arc::new(NullRecorder));
        let opened = Heap::open(region, [0; 16]);
        image[at] ^= 1;
        match opened {
            Ok((heap, _)) => {
                let found = get(&Keyspace::new(heap, NOW), "two");
                assert!(found == Some(vec![b'2'; 200]), "byte {at:#x} damaged: lost in silence");
                assert!(!RINGS.contains(&at), "byte {at:#x} of the record is not needed");
            }
            // The record itself, or what it publishes: it was the newest, and known to be fenced.
            Err(OpenError::DamagedLog { shard: 0, expected, found }) if expected == found => {
                match RINGS.contains(&at) {
                    true => of_the_record += 1,
                    false => of_its_bytes += 1,
                }
                assert!(at >= RINGS.start, "byte {at:#x} is none of the commit's");
            }
            // The word that records what was fenced: it asks for a record that never existed.
            Err(OpenError::DamagedLog { .. }) if at < RINGS.start => {}
            Err(other) => panic!("byte {at:#x} damaged: {other}"),
        }
    }
    assert!(of_the_record > 0 && of_its_bytes > 0, "{of_the_record} and {of_its_bytes}");
}

/// One of the two headers is enough. A log that ends too early, or that seems to be empty, is
/// exposed by what else is in the ring; but after a power loss the newest record may as well not
/// have arrived.
pub(crate) fn a_flipped_bit_of_a_header_costs_nothing_and_one_of_the_log_is_reported() {
    let medium = Medium::new();
    let keyspace = create(Region::simulated_growing(RESERVE, medium.clone()));
    let keys: Vec<String> = (0..8).map(|n| format!("key{n}")).collect();
    keys.iter().for_each(|key| set(&keyspace, key, key.as_bytes()));
    let trace = medium.take();
    let mut durability = Durability::new(Vec::new());
    trace.events.iter().for_each(|event| durability.apply(&trace, *event));
    flip_bits(&mut durability.visible(), &keys);
    flip_bits(&mut durability.certain().to_vec(), &keys[..keys.len() - 1]);
}

fn flip_bits(image: &mut [u8], keys: &[String]) {
    let mut costs_nothing = |at: usize, bit: u8| {
        image[at] ^= bit;
        let region = Region::simulated_from(image, RESERVE, Arc::new(NullRecorder));
        let opened = Heap::open(region, [0; 16]);
        image[at] ^= bit;
        let heap = match opened {
            Ok((heap, _)) => heap,
            Err(
                OpenError::DamagedLog { shard: 0, .. } | OpenError::DamagedTail { shard: 0, .. },
            ) => {
                return false;
            }
            Err(other) => panic!("a bit at {at:#x}: {other}"),
        };
        let keyspace = Keyspace::new(heap, NOW);
        for key in keys {
            let found = get(&keyspace, key);
            assert!(found.as_deref() == Some(key.as_bytes()), "{key} is lost by a bit at {at:#x}");
        }
        true
    };
    for at in HEADERS.iter().flat_map(|header| (*header..header + HEADER).step_by(4)) {
        assert!(costs_nothing(at, 4), "the bit at {at:#x} of a header costs the pool");
    }
    let log = (TAIL..TAIL + 8).chain((RING..RING + 8 * 192).step_by(8));
    let reported = log.filter(|at| !costs_nothing(*at, 0x40)).count();
    assert!(reported >= keys.len(), "{reported} flipped bits of the log were told");
}
