//! The measurements themselves, and what is kept of them whatever happens.
//!
//! After every run the results are written, whole, so that any end leaves them. A failure of one system is noted and the
//! others go on; a full disk and Ctrl-C end the session.

use super::launch::stay_on;
use super::options::Driver;
use super::plan::{Clock, order, turns};
use super::prepare::Ready;
use super::progress::Progress;
use super::recovery::{self, Task};
use super::server::{Failure, Server};
use super::space::{self, mib};
use super::systems::Ground;
use super::workloads::Job;
use super::{client, driver};
use crate::device;
use crate::results::{FORMAT, Recovery, Results, Run, Skipped};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What start, filling and end of a server take beside the run itself, before it is known.
const AROUND_A_RUN: Duration = Duration::from_millis(1500);

/// Bytes of a data set that are written, killed, read and checked in a second, before it is known.
const RECOVERY_PER_SECOND: u64 = 60 << 20;

/// Failures of a system after which it has no more turns.
const PATIENCE: u32 = 2;

/// The session must end.
#[derive(Debug)]
pub(super) struct Stop(String);

/// A comparison that is under way.
pub(super) struct Session<'a> {
    ready: Ready,
    driver: Driver,
    clock: Clock,
    cancel: &'a AtomicBool,
    progress: Progress,
    path: PathBuf,
    results: Results,
    failures: Vec<u32>,
    troubled: bool,
    load: Duration,
}

impl<'a> Session<'a> {
    /// Begins, and writes down what is known.
    pub(super) fn new(
        ready: Ready,
        driver: Driver,
        path: &Path,
        cancel: &'a AtomicBool,
    ) -> Session<'a> {
        let name = if driver == Driver::Memtier { "memtier" } else { "builtin" };
        let results = Results {
            format: FORMAT,
            machine: ready.machine.clone(),
            plan: ready.shape.plan(name),
            systems: ready.candidates.iter().map(|candidate| candidate.system.clone()).collect(),
            workloads: ready.jobs.iter().map(|job| job.workload.clone()).collect(),
            skipped: ready.skipped.clone(),
            partial: Some("it is not finished".into()),
            ..Results::default()
        };
        let load = Duration::from_secs_f64(ready.shape.seconds.clamp(0.2, 3.0));
        let failures = vec![0; ready.candidates.len()];
        let clock = Clock::start(ready.shape.time_limit);
        let (progress, path) = (Progress::new(estimate(&ready)), path.to_owned());
        let troubled = ready.troubled;
        Session { ready, driver, clock, cancel, progress, path, results, failures, troubled, load }
    }

    /// Measures everything. Gives what was found, also when it ended early, and whether something that was asked for is not
    /// among it.
    pub(super) fn run(mut self) -> (Results, bool) {
        let end = self.everything();
        self.progress.finish();
        self.results.partial = match end {
            Ok(()) => None,
            Err(Stop(why)) => Some(why),
        };
        if let Err(Stop(why)) = self.save() {
            self.results.partial = Some(why);
        }
        (self.results, self.troubled)
    }

    fn everything(&mut self) -> Result<(), Stop> {
        self.save()?;
        let mut longest = self.round(0)?;
        self.devices()?;
        for round in 0..self.ready.shape.recovery_rounds {
            self.recovery(round)?;
        }
        for round in 1..self.ready.shape.rounds {
            if !self.clock.allows(longest + longest / 20) {
                let what = format!("rounds {} to {}", round + 1, self.ready.shape.rounds);
                self.skip(&what, "the time limit leaves no room for them");
                break;
            }
            longest = longest.max(self.round(round)?);
        }
        Ok(())
    }

    /// One turn of each system with each workload. Gives the time that it took.
    fn round(&mut self, round: u32) -> Result<Duration, Stop> {
        let began = Instant::now();
        let expected = self.run_estimate();
        for turn in turns(round, self.ready.jobs.len(), self.ready.candidates.len()) {
            let job = self.ready.jobs[turn.workload].clone();
            let what = format!("{} with {}", self.id(turn.system), job.workload.id);
            if self.failures[turn.system] >= PATIENCE {
                continue;
            }
            if !self.clock.allows(expected) {
                self.skip(&format!("{what}, round {}", round + 1), "the time limit was reached");
                self.troubled |= round == 0;
                continue;
            }
            self.progress.doing(what.clone());
            match self.one_run(&job, turn.system, round) {
                Ok(run) => {
                    self.progress.line(&run_line(&run));
                    self.results.runs.push(run);
                    self.save()?;
                }
                Err(failure) => self.failed(turn.system, &what, failure)?,
            }
            self.progress.done(expected);
        }
        Ok(began.elapsed())
    }

    fn one_run(&mut self, job: &Job, system: usize, round: u32) -> Result<Run, Failure> {
        let candidate = &self.ready.candidates[system];
        let launch = self.ready.launch(candidate);
        stay_on(&self.ready.cores.generator)?;
        let mut server = Server::start(launch, self.cancel)?;
        client::fill(&mut server.connect()?, job.workload.keys, job.workload.value_bytes)?;
        let before = server.cpu();
        let seconds = self.ready.shape.seconds;
        let measured = driver::drive(self.driver, job, server.port(), seconds, self.cancel);
        let cpu = server.cpu().saturating_sub(before);
        // A server that is gone says more than the connections that it broke.
        server.still_runs()?;
        let measured = measured?;
        if let Some(error) = &measured.error {
            let line =
                format!("{}: {} error replies: {error}", candidate.system.id, measured.errors);
            if space::free(&candidate.place).is_some_and(|free| free < space::FULL) {
                return Err(Failure::Generator(line));
            }
            self.progress.line(&line);
        }
        if measured.operations == 0 {
            return Err(Failure::Generator("no operation was answered".into()));
        }
        Ok(measured.run(job, &candidate.system.id, round, cpu))
    }

    /// What the media can do: the one that pools lie on, and that of the logs.
    fn devices(&mut self) -> Result<(), Stop> {
        let budget = self
            .clock
            .left()
            .map_or(self.ready.shape.device, |left| self.ready.shape.device.min(left / 5));
        if budget.is_zero() || stay_on(&[]).is_err() {
            return Ok(());
        }
        let used = |ground: &&Ground| {
            self.ready.candidates.iter().any(|candidate| candidate.place == ground.path)
        };
        let grounds: Vec<Ground> = self.ready.grounds.iter().filter(used).cloned().collect();
        for ground in &grounds {
            self.progress.doing(format!("what {} can do", ground.path.display()));
            let options =
                device::Options::within(ground.path.clone(), budget / grounds.len() as u32);
            match device::study(&options, self.cancel, &mut |_, _| {}) {
                Ok(study) => self.results.device.push(study),
                Err(error) => {
                    self.progress.line(&format!("{}: {error}", ground.path.display()));
                    self.skip(&format!("the medium of {}", ground.id), &error.to_string());
                }
            }
            self.save()?;
            if self.cancel.load(Ordering::Relaxed) {
                return Err(Stop("interrupted".into()));
            }
        }
        self.progress.done(self.ready.shape.device);
        Ok(())
    }

    /// Recovery of each size, systems taking turns.
    fn recovery(&mut self, round: u32) -> Result<(), Stop> {
        let mut slowest = 0.0_f64;
        for target_bytes in self.ready.shape.recovery.clone() {
            let systems: Vec<usize> = order(round, self.ready.candidates.len()).collect();
            for system in systems {
                let what = format!("{}, recovery of {}", self.id(system), mib(target_bytes));
                if self.failures[system] >= PATIENCE {
                    continue;
                }
                let usual = recovery_estimate(target_bytes, self.load);
                let expected = usual.max(Duration::from_secs_f64(slowest * target_bytes as f64));
                if !self.clock.allows(expected) {
                    self.skip(&what, "the time limit leaves no room for it");
                    continue;
                }
                self.progress.doing(what.clone());
                let began = Instant::now();
                match self.one_recovery(system, target_bytes, round) {
                    Ok(row) => {
                        self.progress.line(&recovery_line(&row));
                        self.results.recovery.push(row);
                        self.save()?;
                        // What a larger set takes follows from this one.
                        let beyond = began.elapsed().saturating_sub(self.load * 4).as_secs_f64();
                        slowest = slowest.max(beyond / target_bytes as f64);
                    }
                    Err(failure) => self.failed(system, &what, failure)?,
                }
                self.progress.done(usual);
            }
        }
        Ok(())
    }

    fn one_recovery(
        &self,
        system: usize,
        target_bytes: u64,
        round: u32,
    ) -> Result<Recovery, Failure> {
        let candidate = &self.ready.candidates[system];
        let client_cores = self.ready.cores.generator.clone();
        let task = Task { target_bytes, round, load: self.load, client_cores };
        recovery::measure(&candidate.system, self.ready.launch(candidate), &task, self.cancel)
    }

    /// Notes a failure, or ends the session where nothing more can be measured.
    fn failed(&mut self, system: usize, what: &str, failure: Failure) -> Result<(), Stop> {
        if matches!(failure, Failure::Cancelled) || self.cancel.load(Ordering::Relaxed) {
            return Err(Stop("interrupted".into()));
        }
        let place = self.ready.candidates[system].place.clone();
        self.progress.line(&format!("{what}: {failure}"));
        self.troubled = true;
        self.skip(what, &failure.to_string());
        if space::free(&place).is_some_and(|free| free < space::FULL) || is_full(&failure) {
            return Err(Stop(format!("{} is full: {failure}", place.display())));
        }
        self.failures[system] += 1;
        if self.failures[system] == PATIENCE {
            let id = self.id(system);
            self.skip(&id, "it failed twice and had no more turns");
        }
        self.save()
    }

    fn skip(&mut self, what: &str, why: &str) {
        self.results.skipped.push(Skipped { what: what.into(), why: why.into() });
    }

    fn id(&self, system: usize) -> String {
        self.ready.candidates[system].system.id.clone()
    }

    fn run_estimate(&self) -> Duration {
        Duration::from_secs_f64(self.ready.shape.seconds) + AROUND_A_RUN
    }

    fn save(&mut self) -> Result<(), Stop> {
        self.results.machine.seconds = self.clock.elapsed().as_secs_f64();
        self.results.save(&self.path).map_err(|error| Stop(error.to_string()))
    }
}

/// Whether a failure names a full disk.
fn is_full(failure: &Failure) -> bool {
    let text = failure.to_string();
    text.contains("No space left on device") || text.contains("os error 28")
}

fn recovery_estimate(target_bytes: u64, load: Duration) -> Duration {
    load * 4 + Duration::from_secs_f64(target_bytes as f64 / RECOVERY_PER_SECOND as f64)
}

/// The time of all of it, as far as it can be told beforehand.
fn estimate(ready: &Ready) -> Duration {
    let shape = &ready.shape;
    let load = Duration::from_secs_f64(shape.seconds.clamp(0.2, 3.0));
    let systems = ready.candidates.len() as u32;
    let turns = shape.rounds * ready.jobs.len() as u32 * systems;
    let runs = (Duration::from_secs_f64(shape.seconds) + AROUND_A_RUN) * turns;
    let recoveries: Duration =
        shape.recovery.iter().map(|bytes| recovery_estimate(*bytes, load)).sum();
    let all = runs + recoveries * systems * shape.recovery_rounds + shape.device;
    shape.time_limit.map_or(all, |limit| all.min(limit))
}

fn run_line(run: &Run) -> String {
    format!(
        "{} {} round {}: {:.0} ops/s, p50 {:.0} us, p99 {:.0} us, {:.2} us CPU{}",
        run.workload,
        run.system,
        run.round + 1,
        run.rate(),
        run.latency.p50,
        run.latency.p99,
        run.server_cpu(),
        if run.saturated { ", generator saturated" } else { "" }
    )
}

fn recovery_line(row: &Recovery) -> String {
    let first = row.first_get_seconds.map_or("never".into(), |s| format!("{:.1} ms", s * 1000.0));
    let full = row.full_rate_seconds.map_or("never".into(), |s| format!("{:.1} ms", s * 1000.0));
    format!(
        "recovery of {} {}: first GET {first}, full rate {full}, {} of {} keys lost, {} wrong",
        mib(row.target_bytes),
        row.system,
        row.keys_lost,
        row.keys_checked,
        row.keys_wrong
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_failures() {
        let cause = std::io::Error::from(rustix::io::Errno::NOSPC);
        assert!(is_full(&Failure::Start { what: "a log file".into(), cause }));
        let reply = "MISCONF Errors writing to the AOF file: No space left on device";
        assert!(is_full(&Failure::Generator(reply.into())));
        assert!(!is_full(&Failure::Generator("the server went away".into())));
    }

    #[test]
    fn larger_data_is_expected_to_take_longer() {
        let load = Duration::from_secs(2);
        let (small, large) = (recovery_estimate(100 << 20, load), recovery_estimate(1 << 30, load));
        assert!(small > load * 4 && large > small, "{small:?} {large:?}");
    }
}
