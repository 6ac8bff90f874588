//! Perdura inside a program: its data is there after the program was killed.
//!
//! The program starts itself again as a child, which opens a pool and writes until it is killed
//! without warning (`kill -9`). Then the parent opens the same pool and shows the data that was
//! acknowledged to the child.
//!
//! ```text
//! cargo run --example embedded
//! ```

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use perdura::prelude::*;
use perdura::{DomainRequest, Options, Perdura};

/// The domain `process` needs no persistent memory: the pool survives a crash of the process, not a
/// power loss.
fn open(pool: &Path) -> Result<Perdura, perdura::OpenError> {
    Perdura::open(Options::new(pool).domain(DomainRequest::Process))
}

/// Moves money between two accounts, forever, and prints the number of transfers after each.
fn write_until_killed(pool: &Path) -> Result<(), Box<dyn Error>> {
    let store = open(pool)?;
    store.set("greeting", "hello")?;
    loop {
        let transfers = store.transaction(&["alice", "bob", "transfers"], |tx| {
            tx.increment("alice", -1)?;
            tx.increment("bob", 1)?;
            tx.increment("transfers", 1)
        })?;
        println!("{transfers}");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(pool) = std::env::args().nth(1) {
        return write_until_killed(Path::new(&pool));
    }
    let dir = tempfile::tempdir()?;
    let pool = dir.path().join("accounts.pool");

    let mut child =
        Command::new(std::env::current_exe()?).arg(&pool).stdout(Stdio::piped()).spawn()?;
    let output = BufReader::new(child.stdout.take().ok_or("the child has no output")?);
    let mut acknowledged: i64 = 0;
    for line in output.lines() {
        acknowledged = line?.parse()?;
        if acknowledged == 10_000 {
            child.kill()?; // SIGKILL: the child gets no chance to tidy up
        }
    }
    child.wait()?;
    println!("the child was killed; it had acknowledged {acknowledged} transfers");

    let begin = Instant::now();
    let store = open(&pool)?;
    println!("reopened in {:.1?}, {} keys", begin.elapsed(), store.len());
    let greeting = store.get("greeting")?.unwrap_or_default();
    println!("greeting:  {}", String::from_utf8_lossy(&greeting));
    let [alice, bob, transfers] = ["alice", "bob", "transfers"].map(|key| store.increment(key, 0));
    let (alice, bob, transfers) = (alice?, bob?, transfers?);
    println!("transfers: {transfers}, alice {alice}, bob {bob}");
    assert!(transfers >= acknowledged, "an acknowledged transfer was lost");
    assert_eq!((alice, bob), (-transfers, transfers), "half a transfer");
    Ok(())
}
