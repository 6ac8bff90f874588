//! Before the first measurement: where data may be stored, which systems start, what they can do,
//! and whether there is enough space.
//!
//! Whatever would end a comparison after minutes should be found in its first seconds, so each
//! system is started once and queried.

use super::names::choose;
use super::options::Options;
use super::plan::Shape;
use super::recovery::Of;
use super::space;
use super::systems::{Candidate, Catalogue, Ground, versions};
use super::workloads::{self, Cores, Job};
use crate::machine;
use crate::results::{FORMAT, Family, Results, Skipped};
use crate::server::{Failure, Launch, Server, remove_orphans};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use thiserror::Error;

/// The directory of pools on a machine without persistent memory.
const MEMORY: &str = "/dev/shm";

/// The reason that the comparison cannot begin.
#[derive(Debug, Error)]
pub(super) enum Refusal {
    /// The arguments do not fit this machine or contain an unknown name, or Perdura itself does not
    /// start.
    #[error("{0}")]
    Arguments(String),
    /// The comparison was interrupted before it began.
    #[error("interrupted")]
    Cancelled,
}

/// Everything that a session needs to measure.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) shape: Shape,
    /// The results before the first run.
    pub(super) results: Results,
    pub(super) candidates: Vec<Candidate>,
    pub(super) jobs: Vec<Job>,
    pub(super) cores: Cores,
    pub(super) grounds: Vec<Ground>,
    /// Whether a requested system does not start.
    pub(super) troubled: bool,
    pub(super) recovery_of: Of,
    pub(super) recovery_value: usize,
}

impl Ready {
    /// Determines what can be measured.
    pub(super) fn new(options: &Options, cancel: &AtomicBool) -> Result<Ready, Refusal> {
        let shape = Shape::of(options);
        let mut machine = machine::here();
        let cores = Cores::divide(&allowed_cores());
        let grounds = grounds(options)?;
        let warnings = warnings(&grounds);
        warnings.iter().for_each(|warning| eprintln!("perdura-bench: warning: {warning}"));
        machine.places =
            grounds.iter().map(|ground| machine::place(ground.id, &ground.path)).collect();
        let mut catalogue = Catalogue::new(&options.programs, &options.variants, &grounds);
        catalogue.choose(&systems(&shape, &catalogue, options)).map_err(Refusal::Arguments)?;
        // A wrong name or too little space is reported before the servers are tried, which takes
        // time.
        let mut jobs = workloads::all(&cores, options.keys);
        choose(&mut jobs, &shape.workloads, "workload", |job| &job.workload.id)
            .map_err(Refusal::Arguments)?;
        space::check(&shape.plan, &jobs, &catalogue.candidates, &grounds)
            .map_err(Refusal::Arguments)?;
        let Catalogue { candidates, mut skipped } = catalogue;
        let wanted = candidates.len();
        let candidates = probe(candidates, &mut skipped, &cores, cancel)?;
        let troubled = candidates.len() < wanted;
        machine.versions = versions(&candidates);
        let results = Results {
            format: FORMAT,
            machine,
            plan: shape.plan.clone(),
            systems: candidates.iter().map(|candidate| candidate.system.clone()).collect(),
            workloads: jobs.iter().map(|job| job.workload.clone()).collect(),
            skipped,
            warnings,
            partial: Some("it is not finished".into()),
            ..Results::default()
        };
        Ok(Ready {
            shape,
            results,
            candidates,
            jobs,
            cores,
            grounds,
            troubled,
            recovery_of: options.recovery_of,
            recovery_value: options.recovery_value as usize,
        })
    }
}

/// Returns the cores that this process may use.
fn allowed_cores() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

/// Returns the directories that systems may use. Only the directory of the results is created: if a
/// mount point were created, an unmounted device would be measured as the device below it.
fn grounds(options: &Options) -> Result<Vec<Ground>, Refusal> {
    let mut grounds = vec![Ground { id: "disk", path: options.out.clone() }];
    if Path::new(MEMORY).is_dir() {
        grounds.push(Ground { id: "memory", path: MEMORY.into() });
    } else {
        grounds.push(Ground { id: "memory", path: options.out.clone() });
    }
    for (id, path) in [("second", &options.second), ("dax", &options.dax)] {
        let Some(path) = path else { continue };
        if !path.is_dir() {
            let text = format!("--{id} {}: there is no such directory", path.display());
            return Err(Refusal::Arguments(text));
        }
        grounds.push(Ground { id, path: path.clone() });
    }
    fs::create_dir_all(&options.out)
        .map_err(|error| Refusal::Arguments(format!("{}: {error}", options.out.display())))?;
    grounds.iter().for_each(|ground| remove_orphans(&ground.path));
    Ok(grounds)
}

/// Returns warnings about the figures: the second device may be the same as the first.
fn warnings(grounds: &[Ground]) -> Vec<String> {
    let of = |id: &str| {
        let ground = grounds.iter().find(|ground| ground.id == id)?;
        Some((ground, fs::metadata(&ground.path).ok()?.dev()))
    };
    match (of("disk"), of("second")) {
        (Some((disk, one)), Some((second, other))) if one == other => vec![format!(
            "--second {} is on the same device as {}: systems \u{201c}on second\u{201d} show that device again, not another",
            second.path.display(),
            disk.path.display()
        )],
        _ => Vec::new(),
    }
}

/// Returns the names of the systems to measure. The defaults of a size are limited to what is
/// available, and the peers named on the command line are added.
fn systems(shape: &Shape, catalogue: &Catalogue, options: &Options) -> Vec<String> {
    if !options.systems.is_empty() || shape.systems.is_empty() {
        return shape.systems.clone();
    }
    let there = |name: &String| {
        catalogue.candidates.iter().any(|candidate| candidate.system.id.starts_with(name.as_str()))
    };
    let usual = shape.systems.iter().filter(|name| there(name)).cloned();
    usual.chain(options.programs.peer.iter().map(|(name, _)| name.clone())).collect()
}

/// Starts each system once, leaves out those that do not start, and queries the others.
fn probe(
    candidates: Vec<Candidate>,
    skipped: &mut Vec<Skipped>,
    cores: &Cores,
    cancel: &AtomicBool,
) -> Result<Vec<Candidate>, Refusal> {
    let mut ready = Vec::new();
    for mut candidate in candidates {
        let ours = matches!(candidate.system.id.as_str(), "perdura-pmem" | "perdura-volatile");
        let launch = candidate.launch(&cores.server);
        match ask(&mut candidate, launch, cancel) {
            Ok(()) => ready.push(candidate),
            Err(Failure::Cancelled) => return Err(Refusal::Cancelled),
            Err(failure) if ours => {
                let program = candidate.program.display();
                let place = candidate.place.display();
                let text = format!("{program} does not start in {place}: {failure}");
                return Err(Refusal::Arguments(text));
            }
            Err(failure) => {
                let what = candidate.system.id.clone();
                eprintln!("{what} is left out, it does not start: {failure}");
                skipped.push(Skipped { what, why: format!("it does not start: {failure}") });
            }
        }
    }
    if ready.is_empty() {
        return Err(Refusal::Arguments("no system is left that starts".into()));
    }
    Ok(ready)
}

/// Starts a system and, if it has a pool, asks for its persistence domain.
fn ask(candidate: &mut Candidate, launch: Launch, cancel: &AtomicBool) -> Result<(), Failure> {
    let server = Server::start(launch, cancel)?;
    if matches!(candidate.system.family, Family::PerduraPmem | Family::PerduraJournal) {
        candidate.system.domain = server.info("persistence")?.remove("domain");
    }
    Ok(())
}
