//! Nothing that was acknowledged is lost, whatever the medium does and whenever the power fails.
//!
//! The state is a sequence of numbers; a load must return a prefix of it that contains all
//! acknowledged ones. The scenario appends, syncs, and rewrites. It is cut after each of its
//! operations, and each of its operations is made to fail.

use std::time::Duration;

use crate::medium::{Medium, State, number, numbers};
use aof::{Aof, Fsync, Rewrite};

const NUMBERS: u64 = 24;
const SYNC_EVERY: u64 = 3;

/// Appends all numbers; acknowledges what is durable. The log is rewritten half way through, twice.
fn live(medium: &Medium, log: &Aof, first: u64) {
    let mut rewrite = None;
    for n in first..first + NUMBERS {
        let end = log.append(0, 0, &number(n));
        if n % SYNC_EVERY == 0 && log.sync_up_to(end).is_ok() {
            assert!(log.durable() >= end);
            medium.acknowledge(n + 1);
        }
        match (n - first) % 10 {
            4 => rewrite = log.begin_rewrite().ok().map(|rewrite| (rewrite, 0)),
            6 => {
                if let Some((rewrite, cut)) = &mut rewrite {
                    rewrite.cut();
                    *cut = n + 1;
                }
            }
            8 => {
                if let Some((mut rewrite, cut)) = rewrite.take() {
                    let written = (0..cut)
                        .try_for_each(|n| rewrite.write(0, &[b"SET", n.to_string().as_bytes()]));
                    if written.is_ok() {
                        let _ = rewrite.finish();
                    }
                }
            }
            _ => {}
        }
    }
}

/// As [`live`], with the log switched off in between, and on again: twice, the first time given up
/// half way.
fn live_with_a_break(medium: &Medium, log: &Aof) {
    const OFF: u64 = 6;
    const ON: [u64; 2] = [10, 14];
    let mut rewrite: Option<Rewrite> = None;
    let mut is_off = false;
    for n in 0..NUMBERS {
        let end = log.append(0, 0, &number(n));
        if log.sync_up_to(end).is_ok() && log.is_whole() {
            medium.acknowledge(n + 1);
        }
        match n {
            OFF => is_off = log.switch_off().is_ok(),
            _ if ON.contains(&n) && is_off => {
                rewrite = log.begin_again().ok();
                if let Some(rewrite) = &mut rewrite {
                    rewrite.cut();
                    assert!(!log.is_whole());
                    let keys = (0..=n).map(|n| n.to_string());
                    let _ = keys
                        .into_iter()
                        .try_for_each(|key| rewrite.write(0, &[b"SET", key.as_bytes()]));
                }
            }
            12 => drop(rewrite.take()),
            18 => _ = rewrite.take().map(Rewrite::finish),
            _ => {}
        }
    }
}

fn check_load(medium: &Medium, acknowledged: u64, what: &str) -> u64 {
    let (loader, commands) =
        medium.load(Fsync::Always).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = numbers(&commands);
    let expected: Vec<u64> = (0..found.len() as u64).collect();
    assert_eq!(found, expected, "{what}");
    assert!(found.len() as u64 >= acknowledged, "{what}: {acknowledged} were acknowledged");
    let log = loader.into_log().unwrap_or_else(|error| panic!("{what}: {error}"));
    let end = log.append(0, 0, &number(found.len() as u64));
    log.sync_up_to(end).unwrap_or_else(|error| panic!("{what}: {error}"));
    found.len() as u64 + 1
}

/// Checks that each image can be loaded, appended to, and loaded again.
fn check_images(state: &State, acknowledged: u64, what: &str) {
    for (names, bytes) in [(false, false), (false, true), (true, false), (true, true)] {
        let what = format!("{what}, all names: {names}, all bytes: {bytes}");
        let image = state.after_power_cut(names, bytes);
        let count = check_load(&image, acknowledged, &what);
        let again = image.now().after_power_cut(false, false);
        check_load(&again, count, &format!("{what}, second life"));
    }
}

#[test]
fn a_power_cut_after_any_operation_takes_nothing_acknowledged() {
    let medium = Medium::default();
    medium.keep_history();
    let (loader, _) = medium.load(Fsync::Always).expect("there is nothing to load");
    live(&medium, &loader.into_log().expect("it opens"), 0);
    let history = medium.history();
    assert!(history.len() > 60, "{} states", history.len());
    for (n, (state, acknowledged)) in history.iter().enumerate() {
        check_images(state, *acknowledged, &format!("cut after operation {n}"));
    }
    assert_eq!(medium.acknowledged(), NUMBERS - NUMBERS % SYNC_EVERY - 2);
}

/// While it is off, and until it is complete again, a power cut leaves the data of the time when it
/// was switched off.
#[test]
fn a_log_that_is_switched_off_and_on_is_at_no_time_anything_but_a_prefix() {
    let medium = Medium::default();
    medium.keep_history();
    let (loader, _) = medium.load(Fsync::Always).expect("there is nothing to load");
    let log = loader.into_log().expect("it opens");
    live_with_a_break(&medium, &log);
    assert!(log.is_whole() && !log.is_off());
    assert_eq!(medium.acknowledged(), NUMBERS);
    for (n, (state, acknowledged)) in medium.history().iter().enumerate() {
        check_images(state, *acknowledged, &format!("cut after operation {n}"));
    }
    let operations = medium.operations();
    for at in 0..operations {
        let what = format!("operation {at} fails");
        let medium = Medium::default();
        let (loader, _) = medium.load(Fsync::Always).expect("there is nothing to load");
        let log = loader.into_log().expect("it opens");
        medium.fail_at(at, 0, false);
        live_with_a_break(&medium, &log);
        medium.stop_failing();
        drop(log);
        check_images(&medium.now(), medium.acknowledged(), &what);
    }
}

#[test]
fn what_is_appended_to_a_log_that_is_off_is_no_part_of_it() {
    let medium = Medium::default();
    let (loader, _) = medium.load(Fsync::Always).expect("there is nothing to load");
    let log = loader.into_log().expect("it opens");
    let end = log.append(0, 0, &number(0));
    log.switch_off().expect("the medium works");
    assert!(log.durable() >= end && log.is_off() && !log.is_whole());
    let end = log.append(0, 0, &number(1));
    log.sync_up_to(end).expect("nothing waits for what is dropped");
    drop(log);
    let (_, commands) = medium.load(Fsync::Always).expect("a log");
    assert_eq!(numbers(&commands), [0]);
}

#[test]
fn a_log_is_not_whole_until_a_rewrite_has_what_was_skipped() {
    let medium = Medium::default();
    let (loader, _) = medium.load(Fsync::Always).expect("there is nothing to load");
    let log = loader.into_log().expect("it opens");
    assert!(log.is_whole());
    log.note_skipped();
    let before_rewrite = log.skipped();
    assert!(log.has_skipped() && !log.is_whole());
    log.note_skipped();
    log.cover_skipped(before_rewrite);
    assert!(log.has_skipped() && !log.is_whole(), "the second is in no file yet");
    log.cover_skipped(log.skipped());
    assert!(!log.has_skipped() && log.is_whole());
}

#[test]
fn a_failure_of_any_operation_acknowledges_nothing_that_is_lost() {
    let operations = {
        let medium = Medium::default();
        let (loader, _) = medium.load(Fsync::Always).expect("there is nothing to load");
        let log = loader.into_log().expect("it opens");
        let before = medium.operations();
        live(&medium, &log, 0);
        medium.operations() - before
    };
    for at in 0..operations {
        for (short, dead) in [(0, false), (7, false), (0, true)] {
            let what = format!("operation {at} fails, short: {short}, dead: {dead}");
            let medium = Medium::default();
            let (loader, _) = medium.load(Fsync::Always).expect("there is nothing to load");
            let log = loader.into_log().expect("it opens");
            medium.fail_at(at, short, dead);
            live(&medium, &log, 0);
            if let Err(failure) = log.status() {
                assert_eq!(failure.code, Some(5), "{what}");
                // A write may be repeated at any moment: `retry.rs`.
                if failure.operation != aof::Operation::Write {
                    medium.stop_failing();
                    let end = log.append(0, 0, &number(99));
                    let refused = log.sync_up_to(end).map_err(|failure| failure.operation);
                    assert_eq!(refused, Err(failure.operation), "{what}: it is final");
                    let refused = log.begin_rewrite().err();
                    let for_rewrites = matches!(refused, Some(aof::RewriteError::Log(_)));
                    assert!(for_rewrites, "{what}: and for rewrites");
                }
            }
            medium.stop_failing();
            drop(log);
            check_images(&medium.now(), medium.acknowledged(), &what);
        }
    }
}

#[test]
fn a_failed_or_short_write_is_taken_back() {
    for short in [0, 1, 19] {
        let medium = Medium::default();
        let (loader, _) = medium.load(Fsync::EverySecond).expect("there is nothing to load");
        let log = loader.into_log().expect("it opens");
        log.append(0, 0, &number(0));
        log.flush().expect("the medium works");
        let before = medium.file("appendonly.aof.1.incr.aof");
        medium.fail_at(0, short, false);
        log.append(0, 0, &number(1));
        let refused = log.flush().map_err(|failure| failure.operation);
        assert_eq!(refused, Err(aof::Operation::Write));
        assert_eq!(medium.file("appendonly.aof.1.incr.aof"), before, "{short} bytes written");
        let failure = log.status().unwrap_err();
        assert_eq!(failure.operation, aof::Operation::Write);
        assert_eq!(failure.text, "Input/output error");
    }
}

#[test]
fn an_offset_is_durable_only_after_its_sync_and_many_share_one() {
    let medium = Medium::default();
    let (loader, _) = medium.load(Fsync::Always).expect("there is nothing to load");
    let log = &loader.into_log().expect("it opens");
    medium.hold_syncs(true);
    std::thread::scope(|scope| {
        let first = log.append(0, 0, &number(0));
        let leader = scope.spawn(move || log.sync_up_to(first));
        medium.wait_for_held();
        let later: Vec<u64> = (1..20).map(|n| log.append(0, 0, &number(n))).collect();
        let followers: Vec<_> =
            later.iter().copied().map(|end| scope.spawn(move || log.sync_up_to(end))).collect();
        assert_eq!(log.durable(), 0, "the sync has not returned");
        assert!(medium.durable_file("appendonly.aof.1.incr.aof").is_empty());
        medium.hold_syncs(false);
        assert!(leader.join().unwrap().is_ok());
        assert!(followers.into_iter().all(|follower| follower.join().unwrap().is_ok()));
        assert!(log.durable() >= *later.last().unwrap());
    });
    assert_eq!(log.figures().syncs, 2, "one for the leader, one for all who came meanwhile");
}

#[test]
fn what_is_synced_is_out_of_the_process_also_while_a_sync_runs() {
    for policy in [Fsync::EverySecond, Fsync::No] {
        let medium = Medium::default();
        let (loader, _) = medium.load(policy).expect("there is nothing to load");
        let log = loader.into_log().expect("it opens");
        let in_file = || medium.file("appendonly.aof.1.incr.aof").len() as u64;
        medium.hold_syncs(true);
        let first = log.append(0, 0, &number(0));
        log.sync_up_to(first).expect("nothing fails");
        assert_eq!((in_file(), log.written()), (first, first));
        if policy == Fsync::EverySecond {
            medium.wait_for_held();
        }
        let second = log.append(0, 0, &number(1));
        log.sync_up_to(second).expect("nothing fails");
        assert_eq!((in_file(), log.written()), (second, second), "beside the sync");
        assert_eq!(log.durable(), 0);
        medium.hold_syncs(false);
        log.sync_all().expect("nothing fails");
        assert_eq!(log.durable(), second);
    }
}

#[test]
fn what_another_thread_is_writing_is_synced_only_when_it_is_written() {
    for fails in [false, true] {
        let medium = Medium::default();
        let (loader, _) = medium.load(Fsync::No).expect("there is nothing to load");
        let log = &loader.into_log().expect("it opens");
        medium.hold_writes(true);
        std::thread::scope(|scope| {
            let (first, second) = (log.append(0, 0, &number(0)), log.append(0, 0, &number(1)));
            let writer = scope.spawn(move || log.sync_up_to(first));
            medium.wait_for_held();
            let other = scope.spawn(move || (log.sync_up_to(second), log.written()));
            std::thread::sleep(Duration::from_millis(30));
            let early = other.is_finished();
            if fails {
                medium.fail_at(0, 0, true);
            }
            medium.hold_writes(false);
            assert!(!early, "the write had not returned");
            assert_eq!(writer.join().unwrap().is_err(), fails);
            let (synced, written) = other.join().unwrap();
            assert_eq!(synced.is_err(), fails);
            assert!(fails || written >= second);
        });
    }
}

#[test]
fn a_log_is_rewritten_when_it_has_grown_and_later_and_later_when_that_fails() {
    let medium = Medium::default();
    let (loader, _) = medium.load(Fsync::No).expect("there is nothing to load");
    let log = loader.into_log().expect("it opens");
    let rule = |percentage, min_size| aof::Growth { percentage, min_size };
    let end = (0..10).map(|n| log.append(0, 0, &number(n))).last().expect("ten");
    log.sync_up_to(end).expect("nothing fails");
    assert_eq!(log.growth_due(rule(0, 0)), None, "0 switches it off");
    assert_eq!(log.growth_due(rule(100, end)), None, "it is not above the least size");
    assert_eq!(log.growth_due(rule(100, end - 1)), Some(end * 100 - 100), "from nothing");
    for _ in 0..3 {
        assert!(log.growth_due(rule(100, 0)).is_some());
        drop(log.begin_rewrite().expect("there is no other"));
    }
    assert_eq!(log.figures().failed_rewrites, 3);
    assert_eq!(log.growth_due(rule(100, 0)), None, "in a minute");

    let mut rewrite = log.begin_rewrite().expect("there is no other");
    let second = log.begin_rewrite().err();
    assert!(matches!(second, Some(aof::RewriteError::Busy)), "one at a time");
    assert_eq!(log.growth_due(rule(1, 0)), None, "one is under way");
    rewrite.cut();
    rewrite.write(0, &[b"SET", b"0"]).expect("nothing fails");
    let done = rewrite.finish().expect("nothing fails");
    assert_eq!((done.base, done.total), (43, 43));
    assert_eq!(log.growth_due(rule(100, 0)), None, "it is what it was after the rewrite");
    let mut files = medium.files();
    files.sort();
    let names =
        ["appendonly.aof.2.base.aof", "appendonly.aof.2.incr.aof", "appendonly.aof.manifest"];
    assert_eq!(files[..2], names[..2], "{files:?}");
    assert_eq!(files.last().map(String::as_str), Some(names[2]), "{files:?}");
}
