//! The measurements, and the results that are kept whatever happens.
//!
//! All results are saved after every run, so that they survive any end of the program. If one
//! system fails, the failure is recorded and the others continue; a full disk or Ctrl-C ends the
//! session.

use super::driver::{drive, fill, run_of};
use super::plan::order;
use super::prepare::Ready;
use super::progress::Progress;
use super::recovery::{self, Task};
use super::space;
use super::systems::{Candidate, Ground};
use super::workloads::{Job, groups};
use crate::device;
use crate::results::{Durability, Family, Plan, Recovery, Results, Run, Skipped};
use crate::server::launch::stay_on;
use crate::server::{Failure, Server};
use crate::units::amount;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The number of failures after which a system gets no more turns.
const PATIENCE: u32 = 2;

/// Why the session must end.
#[derive(Debug)]
pub(super) struct Stop(String);

/// A server filled with data, and the bytes of memory that the data takes.
struct Filled {
    server: Server,
    data_bytes: Option<u64>,
}

/// A comparison in progress.
pub(super) struct Session<'a> {
    ready: Ready,
    began: Instant,
    cancel: &'a AtomicBool,
    progress: Progress,
    path: PathBuf,
    results: Results,
    failures: Vec<u32>,
    troubled: bool,
    /// Servers that are kept for the next round, by group of workloads and system.
    kept: BTreeMap<(String, usize), Filled>,
}

impl<'a> Session<'a> {
    /// Returns a session whose results contain everything known before the first run.
    pub(super) fn new(mut ready: Ready, path: &Path, cancel: &'a AtomicBool) -> Session<'a> {
        Session {
            began: Instant::now(),
            cancel,
            progress: Progress::new(steps(&ready)),
            path: path.to_owned(),
            results: std::mem::take(&mut ready.results),
            failures: vec![0; ready.candidates.len()],
            troubled: ready.troubled,
            kept: BTreeMap::new(),
            ready,
        }
    }

    /// Measures everything. Returns the results, also if the session ended early, and whether
    /// something requested is missing from them.
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
        let Plan { rounds, recovery: sizes, .. } = self.results.plan.clone();
        let recovery_rounds = self.ready.shape.recovery_rounds;
        for round in 0..rounds.max(recovery_rounds) {
            if round < rounds {
                self.round(round)?;
            }
            if round < recovery_rounds {
                sizes.iter().try_for_each(|bytes| self.recovery(round, *bytes))?;
            }
            if round == 0 {
                self.devices()?;
            }
        }
        Ok(())
    }

    /// Gives each system a turn with each group of workloads.
    fn round(&mut self, round: u32) -> Result<(), Stop> {
        for group in groups(&self.ready.jobs) {
            for system in order(round, self.ready.candidates.len()) {
                self.turn(&group, system, round)?;
            }
        }
        Ok(())
    }

    /// Runs a group of workloads on one system, all in the same server unless a run fails.
    fn turn(&mut self, group: &[Job], system: usize, round: u32) -> Result<(), Stop> {
        let name = (group[0].workload.id.clone(), system);
        let mut server = self.kept.remove(&name);
        let system_of = self.ready.candidates[system].system.clone();
        for job in group.iter().filter(|job| job.is_for(&system_of)) {
            let what = format!("{} with {}", self.id(system), job.workload.id);
            if self.failures[system] >= PATIENCE {
                return Ok(());
            }
            self.progress.doing(what.clone());
            match self.one_run(&mut server, job, system, round) {
                Ok(run) => {
                    self.progress.line(&run_line(&run));
                    self.results.runs.push(run);
                    self.save()?;
                }
                Err(failure) => {
                    // The next workload starts a new server.
                    server = None;
                    self.failed(system, &what, failure)?;
                }
            }
            self.progress.done();
        }
        if self.results.plan.same_server
            && let Some(server) = server
        {
            self.kept.insert(name, server);
        }
        Ok(())
    }

    /// Runs a job in a server, which is started and filled first if there is none.
    fn one_run(
        &self,
        filled: &mut Option<Filled>,
        job: &Job,
        system: usize,
        round: u32,
    ) -> Result<Run, Failure> {
        let candidate = &self.ready.candidates[system];
        stay_on(&self.ready.cores.generator)?;
        let Filled { server, data_bytes } = match filled {
            Some(filled) => filled,
            None => {
                let server =
                    Server::start(candidate.launch(&self.ready.cores.server), self.cancel)?;
                let data_bytes = fill(&server, job)?;
                filled.insert(Filled { server, data_bytes })
            }
        };
        let (cpu, written) = (server.cpu(), server.written());
        let measured = drive(job, server, self.results.plan.seconds, self.cancel);
        // The run includes the time in which a journal is applied to the pool.
        if candidate.system.family == Family::PerduraJournal && job.workload.writes_percent > 0 {
            server.wait_until_applied(self.cancel)?;
        }
        let on_disk = matches!(candidate.system.place.as_str(), "disk" | "second");
        let cpu = server.cpu().saturating_sub(cpu);
        let written = server.written().saturating_sub(written);
        // The failure of the server says more than the broken connections.
        server.still_runs()?;
        let measured = measured?;
        if let Some(error) = measured.errors.keys().next() {
            let (id, count) = (&candidate.system.id, measured.error_count());
            let line = format!("{id}: {count} error replies: {error}");
            if space::is_full(&candidate.place) {
                return Err(Failure::Generator(line));
            }
            self.progress.line(&line);
        }
        if measured.totals.operations == 0 {
            return Err(Failure::Generator("no operation was answered".into()));
        }
        Ok(Run {
            round,
            server_cpu_seconds: cpu.as_secs_f64(),
            written_bytes: on_disk.then_some(written),
            data_bytes: *data_bytes,
            used_bytes: Some(server.used_memory()?),
            stored_bytes: Some(server.stored()),
            ..run_of(&measured, job, &candidate.system.id)
        })
    }

    /// Measures the media that pools and logs are stored on.
    fn devices(&mut self) -> Result<(), Stop> {
        let Some(seconds) = self.ready.shape.device else { return Ok(()) };
        if stay_on(&[]).is_err() {
            return Ok(());
        }
        let used = |ground: &&Ground| {
            self.ready.candidates.iter().any(|candidate| candidate.place == ground.path)
        };
        let grounds: Vec<Ground> = self.ready.grounds.iter().filter(used).cloned().collect();
        for ground in &grounds {
            self.progress.doing(format!("what {} can do", ground.path.display()));
            let options = match self.results.plan.size.as_str() {
                "quick" => device::Options::quick(ground.path.clone()),
                _ => device::Options::new(ground.path.clone()),
            };
            match device::study(&device::Options { seconds, ..options }, self.cancel) {
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
        Ok(())
    }

    /// Measures the recovery of a data set of this size on each system in turn. A system without
    /// durability is measured once, with the smallest size.
    fn recovery(&mut self, round: u32, target_bytes: u64) -> Result<(), Stop> {
        let is_first = round == 0 && self.results.plan.recovery.iter().min() == Some(&target_bytes);
        for system in order(round, self.ready.candidates.len()) {
            let what = format!("{}, recovery of {}", self.id(system), amount(target_bytes));
            let keeps = self.ready.candidates[system].system.durability != Durability::None;
            if self.failures[system] < PATIENCE && (keeps || is_first) {
                self.progress.doing(what.clone());
                match self.one_recovery(system, target_bytes, round) {
                    Ok(row) => {
                        self.progress.line(&recovery_line(&row));
                        self.results.recovery.push(row);
                        self.save()?;
                    }
                    Err(failure) => self.failed(system, &what, failure)?,
                }
            }
            self.progress.done();
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
        let task = Task {
            target_bytes,
            round,
            load: Duration::from_secs_f64(self.results.plan.seconds.clamp(0.2, 2.0)),
            client_cores: self.ready.cores.generator.clone(),
            of: self.ready.recovery_of,
            value_bytes: self.ready.recovery_value,
        };
        recovery::measure(
            &candidate.system,
            candidate.launch(&self.ready.cores.server),
            &task,
            self.cancel,
        )
    }

    /// Records a failure, or ends the session if nothing more can be measured.
    fn failed(&mut self, system: usize, what: &str, failure: Failure) -> Result<(), Stop> {
        if matches!(failure, Failure::Cancelled) || self.cancel.load(Ordering::Relaxed) {
            return Err(Stop("interrupted".into()));
        }
        let place = self.ready.candidates[system].place.clone();
        self.progress.line(&format!("{what}: {failure}"));
        self.troubled = true;
        self.skip(what, &failure.to_string());
        if space::is_full(&place) || names_full_disk(&failure) {
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
        self.results.machine.seconds = self.began.elapsed().as_secs_f64();
        self.results.save(&self.path).map_err(|error| Stop(error.to_string()))
    }
}

/// Returns true if the text of a failure says that a disk is full.
fn names_full_disk(failure: &Failure) -> bool {
    let text = failure.to_string();
    text.contains("No space left on device") || text.contains("os error 28")
}

/// Returns how many runs and recoveries there will be.
fn steps(ready: &Ready) -> u64 {
    let Ready { shape, candidates, jobs, .. } = ready;
    let runs_of = |candidate: &Candidate| {
        jobs.iter().filter(|job| job.is_for(&candidate.system)).count() as u64
    };
    let runs = candidates.iter().map(runs_of).sum::<u64>() * u64::from(shape.plan.rounds);
    let restarts = (shape.plan.recovery.len() * candidates.len()) as u64;
    runs + restarts * u64::from(shape.recovery_rounds)
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
    let ms =
        |seconds: Option<f64>| seconds.map_or("never".into(), |s| format!("{:.1} ms", s * 1000.0));
    format!(
        "recovery of {} {}: first GET {}, full rate {}, {} of {} keys lost, {} wrong",
        amount(row.target_bytes),
        row.system,
        ms(row.first_get_seconds),
        ms(row.full_rate_seconds),
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
        assert!(names_full_disk(&Failure::Start { what: "a log file".into(), cause }));
        let reply = "MISCONF Errors writing to the AOF file: No space left on device";
        assert!(names_full_disk(&Failure::Generator(reply.into())));
        assert!(!names_full_disk(&Failure::Generator("the server went away".into())));
    }
}
