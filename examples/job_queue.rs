//! A job queue that loses no job: workers take jobs from a list, and a job that was running when
//! the program was killed goes back to it.
//!
//! The program starts itself again as a child, which works until it is killed without warning
//! (`kill -9`). Then the parent opens the same pool, puts the running jobs back, and finishes all.
//!
//! ```text
//! cargo run --example job_queue
//! ```

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use perdura::prelude::*;
use perdura::{DomainRequest, Options, Perdura, Table, Transaction};

const JOBS: u64 = 2000;
const WAITING: &str = "jobs:waiting";
const RUNNING: &str = "jobs:running";
const DONE: &str = "jobs:done";

/// The domain `process` needs no persistent memory: the pool survives a crash of the process, not a
/// power loss. Without it the store survives that too.
fn open(pool: &Path) -> Result<Perdura, perdura::OpenError> {
    Perdura::open(Options::new(pool).domain(DomainRequest::Process))
}

fn enqueue(store: &Perdura) -> Result<(), perdura::Error> {
    for job in 0..JOBS {
        store.push_back(WAITING, job.to_string())?;
    }
    Ok(())
}

/// Moves the next job from the list to the table of running ones, in one transaction. Waits for a
/// job if there is none.
fn take(store: &Perdura, worker: u64) -> Result<Option<u64>, perdura::Error> {
    store.transact_wait(WAITING, Duration::from_millis(100), |tx| {
        let Some(job) = tx.pop_front(WAITING)? else { return Ok(None) };
        let job = String::from_utf8_lossy(&job).parse().unwrap_or_default();
        running(tx).insert(job, worker)?;
        Ok(Some(job))
    })
}

fn running<'t, 's>(tx: &'t Transaction<'s>) -> Table<'t, u64, u64, Transaction<'s>> {
    tx.table(RUNNING)
}

/// Stores a result and forgets the job, both or neither.
fn finish(store: &Perdura, job: u64) -> Result<(), perdura::Error> {
    store.transact(|tx| {
        running(tx).remove(job)?;
        let done: Table<u64, u64, _> = tx.table(DONE);
        let times = done.get(job)?.unwrap_or(0);
        done.insert(job, times + 1)?;
        Ok(())
    })
}

/// Takes and finishes jobs until there are none, and reports each finished one.
fn work(store: &Perdura, worker: u64) -> Result<(), perdura::Error> {
    while let Some(job) = take(store, worker)? {
        finish(store, job)?;
        // In one write, so that the lines of several workers do not mix.
        let _ = std::io::stdout().write_all(format!("{job}\n").as_bytes());
    }
    Ok(())
}

fn work_until_killed(pool: &Path) -> Result<(), Box<dyn Error>> {
    let store = open(pool)?;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|n| {
                scope.spawn({
                    let store = &store;
                    move || work(store, n)
                })
            })
            .collect();
        enqueue(&store)?;
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    Ok(())
}

/// Puts the jobs that were running when the program ended back, before all others.
fn recover(store: &Perdura) -> Result<u64, perdura::Error> {
    store.transact(|tx| {
        let (running, mut count) = (running(tx), 0);
        while let Some((job, _)) = running.pop_first()? {
            tx.push_front(WAITING, job.to_string())?;
            count += 1;
        }
        Ok(count)
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(pool) = std::env::args().nth(1) {
        return work_until_killed(Path::new(&pool));
    }
    let dir = tempfile::tempdir()?;
    let pool = dir.path().join("jobs.pool");
    let mut child =
        Command::new(std::env::current_exe()?).arg(&pool).stdout(Stdio::piped()).spawn()?;
    let output = BufReader::new(child.stdout.take().ok_or("the child has no output")?);
    let mut acknowledged = Vec::new();
    for line in output.lines() {
        acknowledged.push(line?.parse::<u64>()?);
        if acknowledged.len() == 300 {
            child.kill()?; // SIGKILL: the child gets no chance to tidy up
        }
    }
    child.wait()?;

    let store = open(&pool)?;
    let done: Table<u64, u64> = store.table(DONE);
    for &job in &acknowledged {
        assert_eq!(done.get(job)?, Some(1), "a finished job was lost, or done twice");
    }
    println!("the child was killed; all jobs that it reported are done");
    let running = store.table::<u64, u64>(RUNNING).len()?;
    let enqueued = done.len()? + running + store.list_len(WAITING)?;
    assert_eq!(recover(&store)?, running);
    while let Some(job) = take(&store, 0)? {
        finish(&store, job)?;
    }
    let all_once = done.iter().all(|row| row.is_ok_and(|(_, times)| times == 1));
    assert_eq!((done.len()?, all_once), (enqueued, true));
    println!("every job that was enqueued is done once: {all_once}");
    Ok(())
}
