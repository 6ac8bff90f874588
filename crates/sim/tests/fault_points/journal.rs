//! The rules of the journal, each shown to be necessary: without it an exploration finds a
//! violation, or a history does that is too rare for a short exploration.

use crate::alone;
use crate::journaled::{self, Medium, histories};
use crate::overlap::crashes::{explore, explore_closing};
use crate::overlap::late_syncs::{Background, SYNCS_SLOWLY, lose};
use crate::overlap::paced::{SYNC_POOL, pace};
use pmem::{FaultPoint, SyncPolicy};
use std::sync::OnceLock;
use std::time::Duration;

/// Disables a fault point while `work` runs.
fn without<R>(point: FaultPoint, work: impl FnOnce() -> R) -> R {
    struct Enable;
    impl Drop for Enable {
        fn drop(&mut self) {
            pmem::disable_fault_point(0);
        }
    }
    let _enable = Enable;
    pmem::disable_fault_point(point.number());
    work()
}

/// Checks that explorations find a violation without this rule.
fn check_explored(point: FaultPoint) {
    static IS_FOUND_WITH_ALL_RULES: OnceLock<bool> = OnceLock::new();
    let _alone = alone();
    let is_found = || (0..3).any(|seed| journaled::explore(Medium::Disk, seed, 40).is_err());
    assert!(!IS_FOUND_WITH_ALL_RULES.get_or_init(is_found), "a violation with all rules");
    let found = (0..200)
        .find_map(|seed| without(point, || journaled::explore(Medium::Disk, seed, 40)).err());
    println!("{point:?}: {}", found.as_deref().unwrap_or("nothing found"));
    assert!(found.is_some(), "nothing depends on {point:?}");
}

/// Checks that explorations with the journal in persistent memory find a violation without this
/// rule.
fn check_lines(point: FaultPoint, streams: bool) {
    let _alone = alone();
    let explore = |seed| journaled::explore(Medium::Lines { streams }, seed, 40);
    let found = (0..200).find_map(|seed| Some((seed, without(point, || explore(seed)).err()?)));
    let (seed, what) = found.unwrap_or_else(|| panic!("nothing depends on {point:?}"));
    println!("{point:?}: {what}");
    assert!(explore(seed).is_ok(), "a violation with all rules");
}

/// Checks that explorations of several threads find a violation without this rule. They begin with
/// a seed that is known to find one.
fn check_overlap(first: u64, point: FaultPoint) {
    check_found(first, point, |seed| explore(seed, 14).err());
}

/// Checks that some seed, from the first on, leads to a violation without this rule, and to none
/// with it.
fn check_found(first: u64, point: FaultPoint, violation: impl Fn(u64) -> Option<String>) {
    let _alone = alone();
    let mut seeds = (first..200).chain(0..first);
    let found = seeds.find_map(|seed| Some((seed, without(point, || violation(seed))?)));
    let (seed, what) = found.unwrap_or_else(|| panic!("nothing depends on {point:?}"));
    println!("{point:?}: {what}");
    assert_eq!(violation(seed), None, "a violation with all rules");
}

/// Checks that a history succeeds with all rules, and fails without this one.
fn check_history(point: FaultPoint, history: impl Fn() -> bool) {
    let _alone = alone();
    assert!(history(), "with all rules");
    assert!(!without(point, history), "nothing depends on {point:?}");
}

#[test]
fn only_what_is_whole_and_next_counts() {
    check_explored(FaultPoint::VerifyBatch);
    check_explored(FaultPoint::CheckSequence);
}

#[test]
fn no_block_with_synced_bytes_is_written_to_and_readers_look_at_the_next_one() {
    check_explored(FaultPoint::BeginBlock);
    check_explored(FaultPoint::ScanNextBlock);
}

#[test]
fn a_checkpoint_writes_every_page_that_changed() {
    check_explored(FaultPoint::MarkPages);
    check_explored(FaultPoint::MarkLastPage);
    check_explored(FaultPoint::MarkRecovered);
    check_history(
        FaultPoint::TakeBeforeCopy,
        histories::what_is_stored_while_its_page_is_copied_is_kept,
    );
}

#[test]
fn a_checkpoint_writes_what_is_synced_and_ends_where_the_ring_did_when_it_began() {
    check_explored(FaultPoint::SyncBeforeWrite);
    check_explored(FaultPoint::CutBeforeCopy);
}

#[test]
fn the_pool_is_synced_before_the_tail_moves_and_the_tail_before_its_space_is_used() {
    check_explored(FaultPoint::SayApplied);
    check_explored(FaultPoint::SyncApplied);
    check_explored(FaultPoint::SyncTail);
}

#[test]
fn one_copy_of_the_superblock_stays_whole() {
    check_history(
        FaultPoint::AlternateSuperblocks,
        histories::one_copy_of_the_superblock_stays_whole,
    );
}

#[test]
fn an_older_incarnation_does_not_count_after_a_newer_one() {
    check_history(
        FaultPoint::CheckIncarnation,
        histories::an_older_incarnation_does_not_count_after_a_newer_one,
    );
}

#[test]
fn what_an_opening_found_torn_is_not_whole_later() {
    check_history(
        FaultPoint::CheckOpening,
        histories::what_an_opening_found_torn_is_not_whole_later,
    );
}

#[test]
fn what_was_synced_and_is_damaged_is_no_end() {
    check_history(FaultPoint::FindDamage, histories::what_was_synced_and_is_damaged_is_no_end);
}

#[test]
fn nothing_is_written_past_the_limit_that_readers_know() {
    let history = histories::a_damaged_batch_is_found_however_far_the_ring_was_written_to;
    check_history(FaultPoint::KeepLimit, history);
}

#[test]
fn nothing_is_written_past_a_limit_that_is_lowered() {
    let history = histories::nothing_is_written_past_a_limit_that_is_lowered;
    check_history(FaultPoint::LowerFirst, history);
}

#[test]
fn what_is_not_known_to_be_synced_is_written_again() {
    check_history(
        FaultPoint::RewriteUnsynced,
        histories::what_is_not_known_to_be_synced_is_written_again,
    );
}

#[test]
fn of_each_word_the_newest_content_comes_last() {
    let history = histories::of_each_word_the_newest_content_comes_last;
    check_history(FaultPoint::CopyUnderLock, history);
}

#[test]
fn a_write_to_lines_is_written_back_and_fenced() {
    check_lines(FaultPoint::FenceMapped, true);
    check_lines(FaultPoint::FenceMapped, false);
    check_lines(FaultPoint::WriteBackMapped, false);
}

#[test]
fn a_write_to_lines_is_durable_whichever_thread_syncs() {
    let history = histories::what_is_written_to_lines_is_durable;
    check_history(FaultPoint::FenceMapped, history);
    check_history(FaultPoint::WriteBackMapped, history);
}

#[test]
fn a_sync_that_overlaps_others_counts_what_was_written_before_it() {
    check_overlap(0, FaultPoint::CountBeforeSync);
}

#[test]
fn a_journal_is_empty_when_its_use_ends_though_others_fence_meanwhile() {
    check_found(0, FaultPoint::EndEmpty, |seed| explore_closing(seed, 14).err());
}

#[test]
fn a_ring_grows_only_where_everything_in_it_stays_in_its_place() {
    check_overlap(9, FaultPoint::GrowInPlace);
    check_overlap(3, FaultPoint::SyncGrownRing);
}

#[test]
fn nothing_is_written_past_the_lap_of_a_ring_that_grows() {
    check_history(
        FaultPoint::StopAtLap,
        histories::nothing_is_written_past_the_lap_of_a_ring_that_grows,
    );
}

#[test]
fn acknowledgements_wait_for_a_sync_that_is_late() {
    check_history(FaultPoint::WaitForLateSync, || {
        let lost = lose(SYNCS_SLOWLY, SyncPolicy::EverySecond, Background::Two, 0);
        lost.most <= Duration::from_secs(2)
    });
}

#[test]
fn writers_are_slowed_down_before_a_fence_has_to_wait_for_space() {
    check_history(FaultPoint::PaceWriters, || {
        let paced = pace(0);
        paced.full_waits == 0 && paced.fence < SYNC_POOL / 2
    });
}

/// Every history has a fault point, and every rule has a history.
#[test]
fn every_rule_of_the_journal_has_a_test() {
    let code = include_str!("journal.rs");
    let first = FaultPoint::CopyUnderLock.number();
    let rules = FaultPoint::ALL.iter().filter(|point| point.number() >= first);
    let is_used = |point: &FaultPoint| {
        [',', ')'].iter().any(|end| code.contains(&format!("FaultPoint::{point:?}{end}")))
    };
    let missing: Vec<_> = rules.filter(|point| !is_used(point)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
