//! A disk that was full and has space again: the log goes on by itself, and has everything that was
//! appended, in order and once. Failures that cannot safely be retried are final.

use std::time::{Duration, Instant};

use crate::medium::{Medium, number, numbers};
use aof::{Aof, Failure, Fsync, Operation, Rewrite, RewriteError};
use fastrand::Rng;

const INCREMENT: &str = "appendonly.aof.1.incr.aof";

fn open(medium: &Medium, policy: Fsync) -> Aof {
    let (loader, _) = medium.load(policy).expect("there is nothing to load");
    loader.into_log().expect("it opens")
}

#[track_caller]
fn check_holds(medium: &Medium, count: u64) {
    let (_, commands) = medium.load(Fsync::Always).expect("it loads");
    assert_eq!(numbers(&commands), (0..count).collect::<Vec<_>>());
}

/// Checks that a call was refused because this operation has failed.
#[track_caller]
fn check_refused(done: Result<(), Failure>, operation: Operation) {
    assert_eq!(done.map_err(|failure| failure.operation), Err(operation));
}

/// Waits for the ticker's work, which it does once a second.
#[track_caller]
fn wait_until(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn check_goes_on(policy: Fsync, space: usize) {
    let medium = Medium::default();
    let log = open(&medium, policy);
    let first = log.append(0, 0, &number(0));
    log.sync_up_to(first).expect("there is space");
    let before = medium.file(INCREMENT);
    medium.limit_space(Some(space));
    let mut end = log.append(0, 0, &number(1));
    check_refused(log.sync_up_to(end), Operation::Write);
    for n in 2..5 {
        end = log.append(3, 3, &number(n));
        // No reply may leave meanwhile.
        check_refused(log.sync_up_to(end), Operation::Write);
    }
    let failure = log.status().expect_err("it cannot be written");
    assert_eq!((failure.operation, failure.code), (Operation::Write, Some(28)));
    assert_eq!(medium.file(INCREMENT), before, "a part is taken back");
    assert_eq!((log.written(), log.figures().buffered as u64), (first, end - first));
    if policy == Fsync::Always {
        let waits = log.unwritten().expect("all that was written is durable");
        assert_eq!(waits.len() as u64, end - first);
    }
    check_refused(log.set_fsync(Fsync::Always), Operation::Write);
    check_refused(log.switch_off(), Operation::Write);
    assert!(log.fsync() == policy && !log.is_off());

    medium.limit_space(None);
    wait_until("it goes on by itself", || log.status().is_ok());
    assert_eq!((log.written(), log.figures().buffered), (end, 0));
    log.sync_up_to(end).expect("it was written");
    let end = log.append(3, 3, &number(5));
    log.sync_up_to(end).expect("there is space");
    drop(log);
    check_holds(&medium, 6);
}

#[test]
fn a_log_that_could_not_be_written_goes_on_when_there_is_space() {
    std::thread::scope(|scope| {
        for policy in [Fsync::EverySecond, Fsync::No, Fsync::Always] {
            for space in [0, 1, 19] {
                scope.spawn(move || check_goes_on(policy, space));
            }
        }
    });
}

#[test]
fn what_was_written_before_is_synced_though_nothing_more_can_be_written() {
    let medium = Medium::default();
    let log = open(&medium, Fsync::EverySecond);
    medium.hold_syncs(true);
    let first = log.append(0, 0, &number(0));
    log.sync_up_to(first).expect("there is space");
    medium.limit_space(Some(0));
    let second = log.append(0, 0, &number(1));
    check_refused(log.sync_up_to(second), Operation::Write);
    medium.hold_syncs(false);
    wait_until("the sync", || log.durable() >= first);
    check_refused(log.status(), Operation::Write);
    assert!(log.durable() < second);
    assert_eq!(medium.durable_file(INCREMENT).len() as u64, first);
}

#[test]
fn a_part_of_a_write_that_cannot_be_taken_back_is_final() {
    let medium = Medium::default();
    let log = open(&medium, Fsync::No);
    log.append(0, 0, &number(0));
    medium.fail_at(0, 7, true);
    check_refused(log.flush(), Operation::Write);
    assert_eq!(medium.file(INCREMENT).len(), 7, "the truncation failed too");
    medium.stop_failing();
    check_is_final(&log, Operation::Write);
    assert_eq!(medium.file(INCREMENT).len(), 7, "nothing was written behind it");
}

#[test]
fn a_failed_sync_is_final() {
    for policy in [Fsync::EverySecond, Fsync::No, Fsync::Always] {
        let medium = Medium::default();
        let log = open(&medium, policy);
        log.append(0, 0, &number(0));
        medium.fail_at(1, 0, false);
        check_refused(log.sync_all(), Operation::Sync);
        medium.stop_failing();
        check_is_final(&log, Operation::Sync);
    }
}

#[track_caller]
fn check_is_final(log: &Aof, operation: Operation) {
    let end = log.append(0, 0, &number(1));
    for done in [log.sync_up_to(end), log.flush(), log.sync_all(), log.status()] {
        check_refused(done, operation);
    }
    let refused = log.begin_rewrite().err();
    assert!(matches!(refused, Some(RewriteError::Log(failure)) if failure.operation == operation));
    assert_eq!(log.figures().buffered, 0, "nothing is kept for another try");
}

/// A log in use on a disk that fills up and is cleared again and again, and is rewritten meanwhile.
struct Run {
    medium: Medium,
    log: Aof,
    appended: u64,
    acknowledged: u64,
    rewrite: Option<(Rewrite, Option<u64>)>,
    stalls: u64,
    rewritten: u64,
}

impl Run {
    fn step(&mut self, random: &mut Rng) {
        match random.u8(..12) {
            0 => self.medium.limit_space(Some(random.usize(..200))),
            1 => self.medium.limit_space(None),
            2 => _ = self.log.flush(),
            3 if self.rewrite.is_none() => {
                self.rewrite = self.log.begin_rewrite().ok().map(|rewrite| (rewrite, None));
            }
            4 => {
                if let Some((rewrite, cut @ None)) = &mut self.rewrite {
                    rewrite.cut();
                    *cut = Some(self.appended);
                }
            }
            5 => match self.rewrite.take() {
                Some((rewrite, Some(cut))) => self.finish(rewrite, cut),
                given_up => drop(given_up),
            },
            6 => drop(self.rewrite.take_if(|_| random.bool())),
            _ => {
                let end = self.log.append(0, 0, &number(self.appended));
                self.appended += 1;
                match self.log.sync_up_to(end) {
                    Ok(()) => self.acknowledged = self.appended,
                    Err(_) => self.stalls += 1,
                }
            }
        }
    }

    fn finish(&mut self, mut rewrite: Rewrite, cut: u64) {
        let keys = (0..cut).map(|n| n.to_string());
        let written =
            keys.into_iter().try_for_each(|key| rewrite.write(0, &[b"SET", key.as_bytes()]));
        let finished = written.is_ok() && rewrite.finish().is_ok();
        self.rewritten += u64::from(finished);
    }

    /// Checks what the end of the process would leave.
    fn check(&self, what: &str) {
        let image = self.medium.now().after_power_cut(true, true);
        let (_, commands) = image.load(Fsync::No).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = numbers(&commands);
        let expected: Vec<u64> = (0..found.len() as u64).collect();
        assert_eq!(found, expected, "{what}");
        let whole = self.acknowledged..=self.appended;
        assert!(whole.contains(&(found.len() as u64)), "{what}: {} of {whole:?}", found.len());
    }
}

#[test]
fn a_log_holds_what_was_appended_however_often_the_disk_was_full() {
    let (mut stalls, mut rewritten, mut alive) = (0, 0, 0);
    for seed in 0..60 {
        let mut random = Rng::with_seed(seed);
        let medium = Medium::default();
        let log = open(&medium, if seed % 2 == 0 { Fsync::No } else { Fsync::EverySecond });
        let mut run = Run {
            medium: medium.clone(),
            log,
            appended: 0,
            acknowledged: 0,
            rewrite: None,
            stalls: 0,
            rewritten: 0,
        };
        for step in 0..300 {
            run.step(&mut random);
            if step % 20 == 0 {
                run.check(&format!("seed {seed}, step {step}"));
            }
        }
        medium.limit_space(None);
        run.rewrite = None;
        let synced = run.log.sync_all();
        if synced.is_ok() {
            assert!(run.log.status().is_ok(), "seed {seed}");
            run.acknowledged = run.appended;
            alive += 1;
        }
        run.check(&format!("seed {seed}, the end"));
        (stalls, rewritten) = (stalls + run.stalls, rewritten + run.rewritten);
    }
    assert!(stalls > 1000 && rewritten > 100, "{stalls} stalls, {rewritten} rewrites");
    assert_eq!(alive, 60, "only writes failed");
}
