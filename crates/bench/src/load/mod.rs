//! Load: sends requests to a running server and measures the replies. Its options and their meaning
//! are memtier_benchmark's.
//!
//! ```text
//! Options -> Workload -> Source (one per connection) -> requests
//!            Target   -> stream (one per connection) -> replies -> Record (one per thread)
//!                                                                  -> Outcome
//! ```
//!
//! Each thread has its own runtime and connections, and shares nothing with other threads while it
//! works. All connections are open before the clock starts.

mod client;
mod clock;
mod keys;
mod options;
mod outcome;
mod pace;
mod program;
pub(crate) mod replies;
mod target;
mod template;
mod worker;
mod workload;

pub use options::{Options, Pattern, Ratio, Requests, Size};
pub use outcome::{Class, Ended, Generator, Kind, Outcome};
pub use program::execute;
pub use workload::Ycsb;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use target::Target;
use tokio::sync::{mpsc, oneshot};
use worker::{Part, Run};
use workload::Workload;

/// A generator that uses more than this share of its CPU time limits the rate itself, so the
/// figures say little about the server.
pub(crate) const SATURATED: f64 = 0.9;

/// How long to wait for outstanding replies after a cancellation.
const GRACE: Duration = Duration::from_millis(200);

/// Why nothing, or not everything, could be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The options ask for something impossible.
    #[error("{0}")]
    Options(String),
    /// The server cannot be reached.
    #[error("{server}: {source}{}", hint(.source))]
    Connect {
        /// The server's address.
        server: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Something failed during the run.
    #[error("{0}")]
    Failed(String),
    /// The run was cancelled before it began.
    #[error("cancelled before the first request")]
    Cancelled,
}

/// Returns a hint on a connection that cannot be opened.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => " (is the server running, and is it this port?)",
        _ => "",
    }
}

/// Sends the requests that the options describe and returns what was measured, also if the run was
/// cancelled or broke off ([`Outcome::ended`]). The caller deals with the options for output.
///
/// # Errors
/// If nothing was measured: the options contradict each other, or not all connections could be
/// opened.
pub fn run(options: &Options, cancel: &AtomicBool) -> Result<Outcome, Error> {
    run_with_grace(options, cancel, GRACE)
}

/// Does the same, but waits `grace` for outstanding replies after a cancellation.
pub(crate) fn run_with_grace(
    options: &Options,
    cancel: &AtomicBool,
    grace: Duration,
) -> Result<Outcome, Error> {
    options.check()?;
    let target = &Target::new(options)?;
    let workload = &Workload::new(options)?;
    let run = Run { options, target, workload, cancel, grace, failed: AtomicBool::new(false) };
    thread::scope(|scope| {
        let (ready, mut readiness) = mpsc::unbounded_channel();
        let mut threads = Vec::new();
        let mut starts = Vec::new();
        for at in 0..options.threads {
            let (start, started) = oneshot::channel();
            let (run, ready) = (&run, ready.clone());
            threads.push(scope.spawn(move || run.work(at, &ready, started)));
            starts.push(start);
        }
        begin(&mut readiness, starts, &run)?;
        let parts = threads.into_iter().map(|thread| thread.join().ok().flatten());
        Ok(whole(parts.collect(), workload, cancel))
    })
}

/// Waits until all threads have opened their connections, then signals them to start.
fn begin(
    readiness: &mut mpsc::UnboundedReceiver<Result<(), Error>>,
    starts: Vec<oneshot::Sender<Instant>>,
    run: &Run<'_>,
) -> Result<(), Error> {
    for _ in &starts {
        let ready = readiness.blocking_recv();
        let ready = ready.unwrap_or_else(|| Err(Error::Failed("a thread has ended".into())));
        if let Err(error) = ready {
            // The other threads notice at their next connection, or when the signal to start does
            // not arrive.
            run.failed.store(true, Ordering::Relaxed);
            return Err(error);
        }
    }
    let began = Instant::now() + Duration::from_millis(2);
    for start in starts {
        // A thread that has ended by now is noticed when it is joined.
        let _ = start.send(began);
    }
    Ok(())
}

/// Combines the measurements of all threads.
fn whole(parts: Vec<Option<Part>>, workload: &Workload, cancel: &AtomicBool) -> Outcome {
    let classes = workload.classes.iter().map(|class| Class::new(&class.name, class.kind));
    let mut outcome = Outcome { classes: classes.collect(), ..Outcome::default() };
    let mut failure = None;
    let mut first: Option<Instant> = None;
    let mut last = None;
    for part in parts {
        let Some(part) = part else {
            failure.get_or_insert("a thread ended without a result".to_owned());
            continue;
        };
        for (class, measured) in outcome.classes.iter_mut().zip(&part.classes) {
            class.add(measured);
        }
        for (text, count) in &part.errors {
            outcome::count_error(&mut outcome.errors, text, *count);
        }
        outcome.unanswered.add(&part.unanswered);
        outcome.unsent += part.unsent;
        first = Some(first.map_or(part.began, |first| first.min(part.began)));
        last = last.max(Some(part.ended));
        outcome.generator.cpu_seconds += part.cpu.as_secs_f64();
        outcome.generator.busiest = outcome.generator.busiest.max(part.busy);
        failure = failure.or_else(|| part.failure.map(|error| error.to_string()));
    }
    let elapsed = first.zip(last).map(|(first, last)| last.saturating_duration_since(first));
    outcome.seconds = elapsed.unwrap_or_default().as_secs_f64();
    outcome.totals = Class::new("Totals", Kind::Other);
    for class in &mut outcome.classes {
        class.finish(outcome.seconds);
        outcome.totals.add(class);
    }
    outcome.totals.finish(outcome.seconds);
    outcome.ended = match failure {
        Some(why) => Ended::Failed(why),
        None if cancel.load(Ordering::Relaxed) => Ended::Cancelled,
        None => Ended::Done,
    };
    let operations = outcome.totals.operations.max(1) as f64;
    outcome.generator.cpu_per_operation = outcome.generator.cpu_seconds * 1e6 / operations;
    outcome.generator.saturated = outcome.generator.busiest > SATURATED;
    outcome
}
