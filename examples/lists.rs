//! A queue of jobs in a pool: jobs are pushed at one end and taken from the other, and a running
//! job is in a second list. Both lists change in one transaction.
//!
//! ```text
//! cargo run --example lists
//! ```

use std::error::Error;

use perdura::prelude::*;
use perdura::{DomainRequest, Options, Order, Perdura};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    // The domain `process` needs no persistent memory: the pool survives a crash of the process,
    // not a power loss.
    let options = Options::new(dir.path().join("jobs.pool")).domain(DomainRequest::Process);
    let store = Perdura::open(options)?;

    for job in ["wash", "dry", "fold"] {
        let waiting = store.push_back("waiting", job)?;
        println!("{job}: {waiting} waiting");
    }

    // Both lists change, or neither, whenever the machine stops.
    let job = store.transaction(&["waiting", "running"], |tx| {
        let job = tx.pop_front("waiting")?;
        if let Some(job) = &job {
            tx.push_back("running", job)?;
        }
        Ok::<_, perdura::Error>(job)
    })?;
    println!("running: {}", String::from_utf8(job.unwrap_or_default())?);
    for (number, job) in store.elements("waiting", 0, 10)?.into_iter().enumerate() {
        println!("waiting {number}: {}", String::from_utf8(job)?);
    }
    for job in store.sort("waiting", Order::Bytes)? {
        println!("by name: {}", String::from_utf8(job)?);
    }
    store.close()?;
    Ok(())
}
