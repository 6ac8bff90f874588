//! The measurements themselves, and what is kept of them whatever happens.
//!
//! After every run the results are written, whole, so that any end leaves them. A failure of one
//! system is noted and the others go on; a full disk and Ctrl-C end the session.

use super::driver;
use super::driver::ServerUsed;
use super::plan::{Clock, FEWEST, Shape, Stage, order, turns};
use super::prepare::Ready;
use super::progress::Progress;
use super::recovery::{self, Task};
use super::space;
use super::systems::{Candidate, Ground};
use super::workloads::{Job, groups};
use crate::device;
use crate::results::{Durability, FORMAT, Family, Recovery, Results, Run, Skipped};
use crate::server::launch::stay_on;
use crate::server::{Failure, Server};
use crate::units::amount;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What start, filling and end of a server take in addition to its runs, before it is known.
pub(super) const AROUND_A_SESSION: Duration = Duration::from_secs(1);

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
    clock: Clock,
    cancel: &'a AtomicBool,
    progress: Progress,
    path: PathBuf,
    results: Results,
    failures: Vec<u32>,
    troubled: bool,
    load: Duration,
    /// The longest that a round took.
    round: Duration,
    /// Rounds that were begun.
    rounds: u32,
    /// The longest that recovery took for a size, all systems together.
    recoveries: Vec<(u64, Duration)>,
}

impl<'a> Session<'a> {
    /// Begins a session, and writes down what is known.
    pub(super) fn new(ready: Ready, path: &Path, cancel: &'a AtomicBool) -> Session<'a> {
        let results = Results {
            format: FORMAT,
            machine: ready.machine.clone(),
            plan: ready.shape.plan(),
            systems: ready.candidates.iter().map(|candidate| candidate.system.clone()).collect(),
            workloads: ready.jobs.iter().map(|job| job.workload.clone()).collect(),
            skipped: ready.skipped.clone(),
            warnings: ready.warnings.clone(),
            partial: Some("it is not finished".into()),
            ..Results::default()
        };
        let load = load_of(&ready.shape);
        let failures = vec![0; ready.candidates.len()];
        let clock = Clock::start(ready.shape.time_limit);
        let (progress, path) = (Progress::new(estimate(&ready)), path.to_owned());
        let troubled = ready.troubled;
        let (round, rounds, recoveries) = (Duration::ZERO, 0, Vec::new());
        Session {
            ready,
            clock,
            cancel,
            progress,
            path,
            results,
            failures,
            troubled,
            load,
            round,
            rounds,
            recoveries,
        }
    }

    /// Measures everything. Gives what was found, also when it ended early, and whether something
    /// that was asked for is not among it.
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
        for stage in self.ready.shape.stages() {
            match stage {
                Stage::Media => self.devices()?,
                Stage::Load(round) if self.has_time(stage) => self.round(round)?,
                Stage::Recovery { round, bytes } if self.has_time(stage) => {
                    self.recovery(round, bytes)?;
                }
                // The first that is cut names those after it, which have even less time.
                Stage::Load(round) if round == self.rounds => {
                    self.cut(&format!("rounds {} to {}", round + 1, self.ready.shape.rounds));
                }
                Stage::Load(_) => {}
                Stage::Recovery { round, bytes } => {
                    self.cut(&format!("recovery of {}, round {}", amount(bytes), round + 1));
                }
            }
        }
        Ok(())
    }

    fn cut(&mut self, what: &str) {
        self.skip(what, "the time limit leaves no time for it");
    }

    /// Returns true if a stage is expected to end in time, and leaves time for the rounds that must
    /// not be missing. The first round has always time, since without it there is nothing to show;
    /// and the first restarts need not leave any, since a second round says less than they do.
    fn has_time(&self, stage: Stage) -> bool {
        match stage {
            Stage::Load(0) | Stage::Media => true,
            Stage::Load(_) => self.clock.allows(self.round),
            Stage::Recovery { round, bytes } => {
                let is_first = round == 0 && self.is_smallest(bytes);
                let set_aside = if is_first { Duration::ZERO } else { self.set_aside() };
                let known = self.recoveries.iter().find(|(size, _)| *size == bytes);
                let expected = known.map_or_else(|| self.recovery_unknown(bytes), |known| known.1);
                self.clock.allows(expected + set_aside)
            }
        }
    }

    /// Returns the time of recovering a size that was not recovered yet: as a smaller one has
    /// shown, or an estimate.
    fn recovery_unknown(&self, bytes: u64) -> Duration {
        let usual = recovery_estimate(bytes, self.load) * self.ready.candidates.len() as u32;
        let as_before = |(size, took): &(u64, Duration)| {
            took.saturating_sub(self.load * 4 * self.ready.candidates.len() as u32)
                .mul_f64(bytes as f64 / *size as f64)
        };
        self.recoveries.iter().map(as_before).fold(usual, Duration::max)
    }

    fn is_smallest(&self, bytes: u64) -> bool {
        self.ready.shape.recovery.iter().min() == Some(&bytes)
    }

    /// Returns the time for the rounds that must not be missing.
    fn set_aside(&self) -> Duration {
        let fewest = self.ready.shape.rounds.min(FEWEST);
        self.round * fewest.saturating_sub(self.rounds)
    }

    /// Returns one turn of each system with each group of workloads.
    fn round(&mut self, round: u32) -> Result<(), Stop> {
        let began = Instant::now();
        let groups = groups(&self.ready.jobs);
        for turn in turns(round, groups.len(), self.ready.candidates.len()) {
            self.turn(&groups[turn.group], turn.system, round)?;
        }
        self.round = self.round.max(began.elapsed());
        self.rounds += 1;
        Ok(())
    }

    /// Runs, on one system, a group of workloads, in one server unless that fails.
    fn turn(&mut self, group: &[Job], system: usize, round: u32) -> Result<(), Stop> {
        let mut server = None;
        let around = AROUND_A_SESSION / group.len().max(1) as u32;
        let expected = Duration::from_secs_f64(self.ready.shape.seconds) + around;
        let system_of = self.ready.candidates[system].system.clone();
        for job in group.iter().filter(|job| job.is_for(&system_of)) {
            let what = format!("{} with {}", self.id(system), job.workload.id);
            if self.failures[system] >= PATIENCE {
                return Ok(());
            }
            // A later round begins only when it is known to end in time, and is whole then.
            if round == 0 && !self.clock.allows(expected) {
                self.skip(&what, "the time limit was reached");
                self.troubled = true;
                continue;
            }
            self.progress.doing(what.clone());
            match self.one_run(&mut server, job, system, round) {
                Ok(run) => {
                    self.progress.line(&run_line(&run));
                    self.results.runs.push(run);
                    self.save()?;
                }
                Err(failure) => {
                    // The next workload has a new one.
                    server = None;
                    self.failed(system, &what, failure)?;
                }
            }
            self.progress.done(expected);
        }
        Ok(())
    }

    /// Returns a run in a server, which is started and filled if it is not there.
    fn one_run(
        &self,
        server: &mut Option<Server>,
        job: &Job,
        system: usize,
        round: u32,
    ) -> Result<Run, Failure> {
        let candidate = &self.ready.candidates[system];
        stay_on(&self.ready.cores.generator)?;
        let server = match server {
            Some(server) => server,
            None => {
                let new = Server::start(self.ready.launch(candidate), self.cancel)?;
                fill(&new, job)?;
                server.insert(new)
            }
        };
        let (cpu, written) = (server.cpu(), server.written());
        let seconds = self.ready.shape.seconds;
        let measured = driver::drive(job, server.port(), seconds, self.cancel);
        // What a journal has still to write to the pool is a part of the run.
        if candidate.system.family == Family::PerduraJournal && job.workload.writes_percent > 0 {
            server.wait_until_applied(self.cancel)?;
        }
        let on_disk = matches!(candidate.system.place.as_str(), "disk" | "second");
        let written = on_disk.then(|| server.written().saturating_sub(written));
        let used = ServerUsed { cpu: server.cpu().saturating_sub(cpu), written };
        // A server that is gone says more than the connections that it broke.
        server.still_runs()?;
        let measured = measured?;
        if let Some(error) = measured.errors.keys().next() {
            let (id, count) = (&candidate.system.id, measured.error_count());
            let line = format!("{id}: {count} error replies: {error}");
            if space::free(&candidate.place).is_some_and(|free| free < space::FULL) {
                return Err(Failure::Generator(line));
            }
            self.progress.line(&line);
        }
        if measured.totals.operations == 0 {
            return Err(Failure::Generator("no operation was answered".into()));
        }
        Ok(driver::run_of(&measured, job, &candidate.system.id, round, used))
    }

    /// Returns what the media can do: the one that pools are on, and that of the logs.
    fn devices(&mut self) -> Result<(), Stop> {
        let spare = |left: Duration| (left.saturating_sub(self.set_aside()) / 2).max(left / 8);
        let spare = self.clock.left().map(spare);
        let budget = self.ready.shape.device.min(spare.unwrap_or(Duration::MAX));
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

    /// Measures recovery of a size, systems taking turns. What keeps nothing shows that once.
    fn recovery(&mut self, round: u32, target_bytes: u64) -> Result<(), Stop> {
        let began = Instant::now();
        let expected = recovery_estimate(target_bytes, self.load);
        let smallest = self.is_smallest(target_bytes);
        let systems: Vec<usize> = order(round, self.ready.candidates.len()).collect();
        for system in systems {
            let what = format!("{}, recovery of {}", self.id(system), amount(target_bytes));
            let keeps = self.ready.candidates[system].system.durability != Durability::None;
            let is_due = keeps || (round == 0 && smallest);
            if self.failures[system] >= PATIENCE || !is_due {
                self.progress.done(expected);
                continue;
            }
            if !self.clock.allows(expected) {
                self.skip(&what, "the time limit was reached");
                continue;
            }
            self.progress.doing(what.clone());
            match self.one_recovery(system, target_bytes, round) {
                Ok(row) => {
                    self.progress.line(&recovery_line(&row));
                    self.results.recovery.push(row);
                    self.save()?;
                }
                Err(failure) => self.failed(system, &what, failure)?,
            }
            self.progress.done(expected);
        }
        self.recoveries.retain(|(size, _)| *size != target_bytes);
        self.recoveries.push((target_bytes, began.elapsed()));
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

    fn save(&mut self) -> Result<(), Stop> {
        self.results.machine.seconds = self.clock.elapsed().as_secs_f64();
        self.results.save(&self.path).map_err(|error| Stop(error.to_string()))
    }
}

/// Sets the keys of a job, named as the generator names them.
fn fill(server: &Server, job: &Job) -> Result<(), Failure> {
    let value = vec![b'x'; job.workload.value_bytes];
    server.send(job.workload.keys, |number| {
        let mut set = redis::cmd("SET");
        set.arg(format!("memtier-{}", number + 1)).arg(&value);
        set
    })
}

/// Returns true if a failure names a full disk.
fn is_full(failure: &Failure) -> bool {
    let text = failure.to_string();
    text.contains("No space left on device") || text.contains("os error 28")
}

/// Returns what recovering a data set is expected to take.
pub(super) fn recovery_estimate(target_bytes: u64, load: Duration) -> Duration {
    load * 4 + Duration::from_secs_f64(target_bytes as f64 / RECOVERY_PER_SECOND as f64)
}

/// Returns how many servers a round starts, and how many runs it has.
pub(super) fn counts(candidates: &[Candidate], jobs: &[Job]) -> (u32, u32) {
    let of = |jobs: &[Job]| {
        let is_due = |candidate: &&Candidate| jobs.iter().any(|job| job.is_for(&candidate.system));
        candidates.iter().filter(is_due).count() as u32
    };
    let sessions = groups(jobs).iter().map(|group| of(group)).sum();
    (sessions, jobs.iter().map(|job| of(std::slice::from_ref(job))).sum())
}

/// Returns the time of all of it, as far as it can be told beforehand.
fn estimate(ready: &Ready) -> Duration {
    let shape = &ready.shape;
    let load = load_of(shape);
    let systems = ready.candidates.len() as u32;
    let (sessions, runs) = counts(&ready.candidates, &ready.jobs);
    let around = AROUND_A_SESSION * sessions;
    let runs = Duration::from_secs_f64(shape.seconds) * runs;
    let recoveries: Duration =
        shape.recovery.iter().map(|bytes| recovery_estimate(*bytes, load)).sum();
    let recoveries = recoveries * systems * shape.recovery_rounds;
    let all = (around + runs) * shape.rounds + recoveries + shape.device;
    shape.time_limit.map_or(all, |limit| all.min(limit))
}

/// Returns how long the steady load and the writers run that surround a kill.
pub(super) fn load_of(shape: &Shape) -> Duration {
    Duration::from_secs_f64(shape.seconds.clamp(0.2, 2.0))
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
        amount(row.target_bytes),
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
    fn a_full_disk_is_distinguished_from_other_failures() {
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
