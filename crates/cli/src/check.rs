//! `perdura check`: verifies a pool, and repairs it if told to.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use keyspace::{CheckError, Checked, Keyspace, Refusal, Repaired};
use pmem::Lost;

use crate::Verdict;
use crate::arguments::Check;
use crate::output::say;
use crate::pool::{self, Pool, PoolError};
use crate::progress;
use crate::{json, report};

/// Bytes that a thread verifies between two updates of the bar.
const STRIDE: u64 = 1 << 20;

/// The result of a check of a whole pool.
pub(crate) struct Outcome {
    pub(crate) checked: Checked,
    pub(crate) problems: Vec<CheckError>,
    /// Bytes that could not be read from the medium.
    pub(crate) lost: Vec<Lost>,
    pub(crate) took: Duration,
}

impl Outcome {
    pub(crate) fn is_sound(&self) -> bool {
        self.problems.is_empty() && self.lost.is_empty()
    }
}

/// All findings of a check.
pub(crate) struct Findings {
    pub(crate) pool: Pool,
    pub(crate) outcome: Outcome,
    pub(crate) repair: Option<Result<Repaired, Refusal>>,
    /// Why the pool took no writes.
    pub(crate) stopped: Option<String>,
    /// The result of another check after the repair.
    pub(crate) left: Option<Outcome>,
    pub(crate) verdict: Verdict,
}

/// Checks, reports what was found, and returns the exit status.
pub(crate) fn run(options: &Check) -> Verdict {
    match examine(options) {
        Ok(findings) => {
            if options.json {
                say!("{}", json::findings(options, &findings));
            } else {
                report::findings(options, &findings);
            }
            findings.verdict
        }
        Err(error) => {
            if options.json {
                say!("{}", json::failure(options, &error));
            } else {
                eprintln!("perdura check: {error}");
            }
            if error.is_damage() { Verdict::Damaged } else { Verdict::Unchecked }
        }
    }
}

/// Verifies a pool, and repairs it if requested.
pub(crate) fn examine(options: &Check) -> Result<Findings, PoolError> {
    let pool = pool::open(&options.pool, options.journal.as_deref(), options.repair)?;
    let mut outcome = verify(&pool.keyspace, options, "checking");
    outcome.problems.splice(0..0, pool.headers.iter().copied().map(CheckError::Heap));
    let stopped = pool.keyspace.stopped().map(str::to_owned);
    let is_sound = outcome.is_sound() && stopped.is_none();
    let verdict = if is_sound { Verdict::Sound } else { Verdict::Damaged };
    let mut findings = Findings { pool, outcome, stopped, repair: None, left: None, verdict };
    if options.repair {
        repair(options, &mut findings);
    }
    Ok(findings)
}

fn repair(options: &Check, findings: &mut Findings) {
    let keyspace = &findings.pool.keyspace;
    if findings.verdict == Verdict::Damaged {
        let done = repair_all(options, findings);
        let left = verify(keyspace, options, "again");
        if done.is_ok() && left.is_sound() {
            keyspace.heap().lift_stop();
            findings.verdict = Verdict::Repaired;
        }
        findings.repair = Some(done);
        findings.left = Some(left);
    }
    if keyspace.heap().close().is_err() {
        findings.verdict = Verdict::Damaged;
    }
}

/// Repairs a pool. Bytes that the medium lost are determined first, since they read as zeros: their
/// keys are marked before they are verified.
fn repair_all(options: &Check, findings: &Findings) -> Result<Repaired, Refusal> {
    let keyspace = &findings.pool.keyspace;
    if findings.stopped.is_none() && findings.outcome.lost.is_empty() {
        return keyspace.repair(&findings.outcome.problems);
    }
    let allocated = keyspace.begin_repair()?;
    let outcome = verify(keyspace, options, "once more");
    let done = keyspace.repair(&outcome.problems)?;
    Ok(Repaired { allocated: done.allocated + allocated, ..done })
}

/// Verifies all shards, several at a time.
fn verify(keyspace: &Keyspace, options: &Check, what: &'static str) -> Outcome {
    let begin = Instant::now();
    let bar = progress::bar(keyspace.heap().used(), options.quiet || options.json);
    bar.set_message(what);
    let found = Mutex::new((Checked::default(), keyspace.heap().check_spans()));
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = options.threads.unwrap_or(cores).clamp(1, keyspace.shards());
    let problems = std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| shards(keyspace, &next, &found, &bar))).collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).flatten().collect::<Vec<_>>()
    });
    bar.finish_and_clear();
    let (checked, spans) = found.into_inner().unwrap_or_else(|poison| poison.into_inner());
    let mut all: Vec<CheckError> = spans.into_iter().map(CheckError::Heap).collect();
    all.extend(problems);
    let (_, lost) = keyspace.heap().region().lost();
    Outcome { checked, problems: all, lost, took: begin.elapsed() }
}

/// Does one thread's part: verifies shards until none is left.
fn shards(
    keyspace: &Keyspace,
    next: &AtomicUsize,
    found: &Mutex<(Checked, Vec<heap::CheckError>)>,
    bar: &ProgressBar,
) -> Vec<CheckError> {
    let mut problems = Vec::new();
    loop {
        let shard = next.fetch_add(1, Ordering::Relaxed);
        if shard >= keyspace.shards() {
            return problems;
        }
        let unseen = std::cell::Cell::new(0);
        let read = |bytes: u64| {
            unseen.set(unseen.get() + bytes);
            if unseen.get() >= STRIDE {
                bar.inc(unseen.take());
            }
        };
        let checked = keyspace.inspect(shard, &read, &mut |problem| problems.push(problem));
        bar.inc(unseen.take());
        found.lock().unwrap_or_else(|poison| poison.into_inner()).0.add(checked);
    }
}
