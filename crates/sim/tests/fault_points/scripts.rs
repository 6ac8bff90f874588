//! The rules that make a script atomic, each shown to be necessary: without it a history fails, and
//! without those that keep its changes together a search fails too.

use crate::alone;
use crate::engine::Commands;
use crate::script_histories::{
    a_script_that_is_killed_leaves_nothing, a_script_that_is_run_again_is_seen_once,
    scripts_that_need_each_others_shards_all_come_to_an_end,
};
use commands::FaultPoint;
use sim::{Crash, Effort, explore};
use std::panic::catch_unwind;

type History = fn();

const AGAIN: History = a_script_that_is_run_again_is_seen_once;
const KILLED: History = a_script_that_is_killed_leaves_nothing;
const SHARDS: History = scripts_that_need_each_others_shards_all_come_to_an_end;

#[test]
fn a_script_is_seen_once_or_not_at_all() {
    let _alone = alone();
    [AGAIN, KILLED, SHARDS].iter().for_each(|history| history());
}

#[test]
fn each_rule_of_a_script_is_needed() {
    let _alone = alone();
    let of_scripts = [
        (FaultPoint::CommitAtEnd, KILLED, "left: \":2\\r\\n\""),
        (FaultPoint::DiscardHalted, KILLED, "left: \":2\\r\\n\""),
        (FaultPoint::ForgetEffects, SHARDS, "effects in the log"),
        (FaultPoint::ForgetMessages, SHARDS, "their messages"),
        (FaultPoint::SameRandom, AGAIN, "its random numbers"),
        (FaultPoint::SameTime, AGAIN, "PEXPIRETIME timed"),
        (FaultPoint::RollBackStep, KILLED, "left: \":2\\r\\n\""),
    ];
    assert_eq!(of_scripts.len(), FaultPoint::ALL.len());
    let of_locks = [
        (keyspace::FaultPoint::TryExtend, SHARDS, "a deadlock"),
        (keyspace::FaultPoint::ExtendInOrder, SHARDS, "the transaction does not hold"),
    ];
    let of_scripts = of_scripts.map(|(point, history, says)| (point.number(), history, says));
    let of_locks = of_locks.map(|(point, history, says)| (point.number(), history, says));
    for (number, history, says) in of_scripts.into_iter().chain(of_locks) {
        pmem::disable_fault_point(number);
        let caught = catch_unwind(history);
        pmem::disable_fault_point(0);
        let panic = caught.expect_err(&format!("{number} is not caught"));
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
        assert!(text.contains(says), "{number}: {text}");
    }
}

/// What a crash in the middle of a script shows.
#[test]
fn a_search_finds_a_half_of_a_script() {
    let _alone = alone();
    for point in [FaultPoint::CommitAtEnd, FaultPoint::DiscardHalted] {
        pmem::disable_fault_point(point.number());
        let caught = (0..60).find_map(|seed| {
            let effort = Effort {
                images: 6,
                all_of: 16,
                go_on_one_in: 600,
                process_one_in: 150,
                shrink_seconds: 0,
                ..Effort::new(Crash::Strict, seed)
            };
            Some((seed, explore(&Commands::of(seed), effort).err()?))
        });
        pmem::disable_fault_point(0);
        let (seed, what) = caught.unwrap_or_else(|| panic!("{point:?} is caught by no search"));
        let what: String = what.to_string().chars().take(300).collect();
        println!("{point:?} is caught by seed {seed}: {what}");
    }
}
