//! Who is measured when: round by round, each time in another order, so that a slow minute of the
//! machine hurts all.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::cell::Figure;
use crate::child::{Kind, Task, Working};
use crate::kill::{Found, Progress};
use crate::results::Results;
use crate::store::Result;
use crate::systems::{Place, System};

/// How long a child may take for what needs seconds.
const PATIENCE: Duration = Duration::from_secs(300);

/// What is to be measured.
pub struct Plan {
    /// How often.
    pub rounds: usize,
    /// For how long each workload, in seconds.
    pub seconds: f64,
    /// Bytes of a value, and how many keys there are then.
    pub sizes: Vec<(usize, u64)>,
    /// Keys that the store is filled with before it is killed; none: nobody is killed. Values of
    /// the first size.
    pub kill_keys: u64,
    /// For how long the store is under load before it is killed.
    pub load: Duration,
    /// A folder on the disk.
    pub disk: PathBuf,
    /// A folder in memory.
    pub memory: PathBuf,
    /// What is measured.
    pub systems: Vec<System>,
    /// No round begins that would not end within this time if it took as long as those before.
    pub time_limit: Option<Duration>,
}

/// One child, or the two of a kill.
#[derive(Clone, Copy)]
enum Job {
    Measure { len: usize, keys: u64 },
    Kill,
}

impl Plan {
    /// Measures everything, until `stop` says so. Gives the number of rounds.
    pub fn run(&self, results: &mut Results, stop: &dyn Fn() -> bool) -> Result<usize> {
        let jobs = self.jobs();
        let start = Instant::now();
        for (done, (round, system, job)) in jobs.iter().enumerate() {
            let begins = done > 0 && jobs[done - 1].0 < *round;
            if begins && !has_time(self.time_limit, start.elapsed(), *round - 1) {
                eprintln!("round {round} is left out: it would not end in time");
                return Ok(*round - 1);
            }
            let began = Instant::now();
            let end = match job {
                Job::Measure { len, keys } => self
                    .measure(*round, system, *len, *keys, stop)
                    .and_then(|figures| results.add(*round, system, *len, figures)),
                Job::Kill => self
                    .kill(system, stop)
                    .and_then(|found| results.add_kill(*round, system, found)),
            };
            if stop() {
                return Ok(*round);
            }
            let what = match job {
                Job::Measure { len, .. } => format!("{}, {len} bytes", system.id()),
                Job::Kill => format!("{}, kill -9", system.id()),
            };
            let word = match end {
                Ok(()) => "ok".to_owned(),
                Err(failure) => {
                    results.problems.push(format!("{what}: {failure}"));
                    format!("FAILED: {failure}")
                }
            };
            let left =
                start.elapsed().as_secs_f64() / (done + 1) as f64 * (jobs.len() - done - 1) as f64;
            eprintln!(
                "[{}/{}] round {round}: {what}: {word} ({:.1} s; about {:.0} s left)",
                done + 1,
                jobs.len(),
                began.elapsed().as_secs_f64(),
                left
            );
        }
        Ok(self.rounds)
    }

    fn jobs(&self) -> Vec<(usize, System, Job)> {
        let mut jobs = Vec::new();
        for round in 1..=self.rounds {
            let mut order = self.systems.clone();
            let shift = order.len() * (round - 1) / self.rounds;
            order.rotate_left(shift);
            for &(len, keys) in &self.sizes {
                jobs.extend(order.iter().map(|s| (round, *s, Job::Measure { len, keys })));
            }
            let killed = order.iter().filter(|s| self.kill_keys > 0 && s.has_files());
            jobs.extend(killed.map(|s| (round, *s, Job::Kill)));
        }
        jobs
    }

    fn folder(&self, system: &System) -> Result<TempDir> {
        let above = match system.class.place {
            Place::Disk => &self.disk,
            Place::Memory => &self.memory,
        };
        Ok(tempfile::Builder::new().prefix("perdura-embedded-").tempdir_in(above)?)
    }

    fn measure(
        &self,
        round: usize,
        system: &System,
        len: usize,
        keys: u64,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<Figure>> {
        let (folder, scratch) = (self.folder(system)?, tempfile::tempdir_in(&self.memory)?);
        let kind = Kind::Measure { seconds: self.seconds, seed: round as u64 * 1000 };
        let task = task(kind, system, folder.path(), keys, len);
        Working::start(&task, scratch.path())?.result(PATIENCE, stop)
    }

    fn kill(&self, system: &System, stop: &dyn Fn() -> bool) -> Result<Found> {
        let (folder, scratch) = (self.folder(system)?, tempfile::tempdir_in(&self.memory)?);
        let path = scratch.path().join("progress");
        let len = self.sizes.first().ok_or("no size of values")?.0;
        let progress = Progress::create(&path)?;
        let load = Kind::Load { progress: path.clone() };
        let load = task(load, system, folder.path(), self.kill_keys, len);
        let mut victim = Working::start(&load, scratch.path())?;
        let start = Instant::now();
        while !progress.is_filled()? {
            if victim.has_ended()? || stop() || start.elapsed() > PATIENCE {
                return Err("it did not come to its load".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(self.load);
        if victim.has_ended()? {
            return Err("it ended under load".into());
        }
        victim.kill()?;
        let reopen = Kind::Reopen { progress: path };
        let reopen = task(reopen, system, folder.path(), self.kill_keys, len);
        Working::start(&reopen, scratch.path())?.result(PATIENCE, stop)
    }
}

fn task(kind: Kind, system: &System, folder: &Path, keys: u64, len: usize) -> Task {
    Task { kind, system: system.id(), folder: folder.to_owned(), keys, len }
}

/// Returns true if one more round ends in time, after `rounds` that took `elapsed`.
fn has_time(limit: Option<Duration>, elapsed: Duration, rounds: usize) -> bool {
    limit.is_none_or(|limit| elapsed.div_f64(rounds as f64).mul_f64(rounds as f64 + 1.0) <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_refuses_a_round_that_would_not_end_in_time() {
        let check = |limit: Option<u64>, elapsed, rounds, expect| {
            let (limit, elapsed) = (limit.map(Duration::from_secs), Duration::from_secs(elapsed));
            assert_eq!(has_time(limit, elapsed, rounds), expect, "{elapsed:?} for {rounds}");
        };
        check(None, 10_000, 1, true);
        check(Some(300), 150, 1, true);
        check(Some(300), 151, 1, false);
        check(Some(300), 200, 2, true);
        check(Some(300), 240, 3, false);
    }
}
