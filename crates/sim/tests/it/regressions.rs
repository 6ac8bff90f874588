//! Bugs that searches found above the heap, and situations that they may take long to reach, each
//! as a separate history.

use crate::histories;

#[test]
fn an_append_to_a_moved_string_leaves_the_move_whole() {
    histories::an_append_to_a_moved_string_leaves_the_move_whole();
}

#[test]
fn a_header_that_is_accepted_is_durable_before_the_other_is_written_over() {
    histories::a_header_that_is_accepted_is_durable_before_the_other_is_written_over();
}

#[test]
fn no_copy_outlives_the_commit_that_changes_its_block() {
    histories::no_copy_outlives_the_commit_that_changes_its_block();
}

#[test]
fn a_newest_record_that_was_fenced_and_is_damaged_is_reported() {
    histories::a_newest_record_that_was_fenced_and_is_damaged_is_reported();
}

#[test]
fn a_lost_record_brings_no_older_word_back_into_a_salvaged_pool() {
    histories::salvaged::a_lost_record_brings_no_older_word_back_into_a_salvaged_pool();
}

#[test]
fn a_record_that_a_recovery_has_retired_may_be_lost() {
    histories::salvaged::a_record_that_a_recovery_has_retired_may_be_lost();
}

#[test]
fn a_transaction_of_two_shards_is_salvaged_whole() {
    histories::salvaged::a_transaction_of_two_shards_is_salvaged_whole();
}

#[test]
fn a_loss_is_resolved_or_recorded_whenever_the_process_ends() {
    histories::losses::a_loss_is_resolved_or_recorded_whenever_the_process_ends(3);
}

#[test]
fn a_log_that_lost_its_newest_record_is_opened_again() {
    histories::losses::a_log_that_lost_its_newest_record_is_opened_again();
}

#[test]
fn a_flipped_bit_of_a_header_costs_nothing_and_one_of_the_log_is_reported() {
    histories::a_flipped_bit_of_a_header_costs_nothing_and_one_of_the_log_is_reported();
}

#[test]
fn a_script_that_is_run_again_is_seen_once() {
    histories::scripts::a_script_that_is_run_again_is_seen_once();
}

#[test]
fn a_script_that_is_killed_leaves_nothing() {
    histories::scripts::a_script_that_is_killed_leaves_nothing();
}

#[test]
fn scripts_that_need_each_others_shards_all_come_to_an_end() {
    histories::scripts::scripts_that_need_each_others_shards_all_come_to_an_end();
}

#[test]
fn a_search_begins_with_all_of_them() {
    assert_eq!(histories::ALL.len(), 14);
}
