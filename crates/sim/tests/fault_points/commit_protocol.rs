//! The rules of the commit protocol, each shown to be necessary: without it a crash test fails.
//!
//! A test is named after a rule and lists the fault points that keep it. Each is disabled alone;
//! the exploration that passes with all of them must then find a violation. A fault point that no
//! test catches is either unnecessary, or a sign that the crash tests overlook something.

use crate::alone;
use crate::pool::Pool;
use heap::{CreateOptions, FaultPoint, Geometry, Heap, disable_fault_point};
use keyspace::{Db, Expire, Keyspace};
use sim::{Crash, Effort, explore};

/// The number of seeds that are tried before a fault point counts as caught by none.
const SEEDS: u64 = 24;

/// Checks that each of these fault points, when disabled, is caught.
fn check(points: &[FaultPoint]) {
    check_from(0, points);
}

/// Like `check`; the search begins with a seed that is known to catch them, of which there are few.
fn check_from(first: u64, points: &[FaultPoint]) {
    check_under(first, &[Crash::Strict, Crash::X86], numbered(points), |pool| pool);
}

/// Like `check`, in pools that are a little different.
fn check_in(points: &[FaultPoint], change: impl Fn(Pool) -> Pool) {
    check_under(0, &[Crash::Strict, Crash::X86], numbered(points), change);
}

fn numbered(points: &[FaultPoint]) -> Vec<(u32, String)> {
    points.iter().map(|point| (point.number(), format!("{point:?}"))).collect()
}

/// Checks that each of these fault points, when disabled, is caught by a search under one of these
/// models, which begins with the first seed.
fn check_under(
    first: u64,
    models: &[Crash],
    points: Vec<(u32, String)>,
    change: impl Fn(Pool) -> Pool,
) {
    let _alone = alone();
    for (number, point) in points {
        pmem::disable_fault_point(number);
        let seeds = (first..SEEDS).chain(0..first);
        let attempts = seeds.flat_map(|seed| models.iter().map(move |crash| (seed, *crash)));
        let mut failures = attempts.filter_map(|(seed, crash)| {
            let pool = change(Pool::of(2 + seed as usize % 2, 1 + seed % 2));
            let effort = Effort {
                transactions: 40,
                images: 16,
                go_on_one_in: 60,
                shrink_seconds: 0,
                ..Effort::new(crash, seed)
            };
            explore(&pool, effort).err()
        });
        let failure = failures.next();
        pmem::disable_fault_point(0);
        let failure = failure.unwrap_or_else(|| panic!("{point} is caught by no search"));
        println!("{point} is caught: {failure}");
    }
}

/// Checks the fault points of the layer that syncs pages and sets a file's length.
fn check_medium(models: &[Crash], points: &[pmem::FaultPoint]) {
    let numbered = points.iter().map(|point| (point.number(), format!("{point:?}")));
    check_under(0, models, numbered.collect(), |pool| pool);
}

#[test]
fn each_page_of_a_flushed_range_is_remembered_until_the_fence() {
    let synced = [Crash::SyncedWords, Crash::SyncedPages];
    check_medium(&synced, &[pmem::FaultPoint::RememberLastPage, pmem::FaultPoint::KeepRemembered]);
}

#[test]
fn a_length_of_the_file_is_durable_before_it_counts() {
    for model in Crash::ALL {
        check_medium(&[model], &[pmem::FaultPoint::SyncGrown, pmem::FaultPoint::SyncFound]);
    }
}

#[test]
fn new_bytes_are_flushed_before_the_record_that_publishes_them_is_fenced() {
    check(&[FaultPoint::FlushFresh]);
}

#[test]
fn large_new_bytes_have_a_fence_of_their_own_and_are_listed_too() {
    check(&[FaultPoint::FenceDetached]);
    check_from(4, &[FaultPoint::ListDetached]);
}

#[test]
fn one_fence_makes_bytes_and_record_durable_together() {
    check(&[FaultPoint::FlushRecord, FaultPoint::FenceCommit]);
}

#[test]
fn words_are_stored_in_place_only_after_the_fence() {
    check(&[FaultPoint::StoreAfterFence]);
}

#[test]
fn a_part_of_the_log_is_retired_before_it_is_written_again() {
    check(&[
        FaultPoint::RetireAhead,
        FaultPoint::FlushRetired,
        FaultPoint::FenceRetired,
        FaultPoint::FlushTail,
    ]);
    // The next part is entered at once only if a record fills a part.
    check_in(&[FaultPoint::FenceTail], |pool| Pool { long_records: true, ..pool });
}

#[test]
fn a_record_is_accepted_while_epoch_sequence_and_checksum_hold() {
    check(&[FaultPoint::VerifyRecord, FaultPoint::CheckSequence]);
    check_from(5, &[FaultPoint::CheckEpoch, FaultPoint::NextEpoch]);
}

#[test]
fn the_newest_record_is_accepted_only_if_its_fresh_ranges_match() {
    check(&[FaultPoint::VerifyFresh]);
}

#[test]
fn what_is_accepted_is_made_durable_before_the_first_store() {
    check(&[FaultPoint::FlushAccepted, FaultPoint::FenceAccepted]);
}

#[test]
fn an_entry_in_a_fresh_range_of_a_later_record_is_skipped() {
    check(&[FaultPoint::SkipRevoked]);
}

#[test]
fn recovery_makes_words_durable_before_tails_and_epoch_move() {
    check(&[
        FaultPoint::FlushRecovered,
        FaultPoint::FenceRecovered,
        FaultPoint::FlushRecoveredTail,
    ]);
}

#[test]
fn a_freed_block_is_reserved_again_only_after_the_fence_and_the_pins() {
    check(&[FaultPoint::ReuseAfterFence, FaultPoint::ReuseAfterPins]);
}

#[test]
fn the_tails_of_a_new_pool_are_durable_before_it_is_used() {
    check(&[FaultPoint::FlushFirstTail, FaultPoint::FenceFirstTail]);
}

#[test]
fn of_several_linked_records_all_count_or_none() {
    check(&[FaultPoint::CheckLinks]);
}

#[test]
fn a_long_record_has_its_body_flushed_with_it_and_held_until_retired() {
    check(&[FaultPoint::FlushLong, FaultPoint::HoldLong]);
}

#[test]
fn a_span_changes_hands_only_after_its_owners_log_is_retired() {
    check(&[FaultPoint::RetireBeforeTransfer]);
}

#[test]
fn a_span_loses_its_space_only_when_no_log_speaks_of_it_and_has_it_again_before_its_use() {
    let change = |pool: Pool| Pool { purges: true, spacious: true, ..pool };
    check_in(&[FaultPoint::BackHoles, FaultPoint::RetireBeforeTransfer], change);
}

#[test]
fn a_span_is_published_with_its_header_and_bitmap() {
    check(&[FaultPoint::ListSpanHeader]);
}

#[test]
fn a_zone_is_published_before_a_span_of_it_is_used() {
    check(&[FaultPoint::FlushZones]);
    // Not shown: `FenceZones`. The pool grows ahead of need, so that some commit's fence comes in
    // between; only a transaction that takes more spans than are kept in reserve uses space that it
    // created itself.
}

/// Reads a value that was overwritten since the last read, repeatedly, by values of the same length
/// in blocks that are reused; returns how many reads were stale.
fn stale_reads() -> usize {
    let geometry = Geometry { shards: 1, ring_parts: 3, ring_part: 4096, zone_spans: 16 };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    let keyspace = Keyspace::new(Heap::volatile(4 << 20, &options).expect("a heap"), 0);
    keyspace.heap().set_read_cache(1 << 20);
    let db = Db::default();
    let is_stale = |round: u8| {
        let value = [round; 1000];
        let mut txn = keyspace.begin_all(0);
        let key = txn.key(b"key");
        txn.strings().set(db, &key, &value, Expire::Clear).expect("free memory");
        txn.commit().expect("a commit");
        let entry = txn.find(db, &key).expect("the key");
        txn.strings().read(&entry).and_then(|value| value.to_vec()).expect("a string") != value
    };
    (0..20).filter(|round| is_stale(*round)).count()
}

#[test]
fn a_commit_forgets_the_copies_of_what_it_changes() {
    let _alone = alone();
    assert_eq!(stale_reads(), 0);
    disable_fault_point(Some(FaultPoint::ForgetCached));
    let stale = stale_reads();
    disable_fault_point(None);
    assert!(stale > 0, "nobody misses ForgetCached");
}
