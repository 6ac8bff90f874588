//! A rate limiter and a meter: a customer may use a service a limited number of times in a window
//! of time, and the use is billed by the minute.
//!
//! The program starts itself again as a child, which serves until it is killed without warning
//! (`kill -9`). Then the parent opens the same pool: limits and bills agree.
//!
//! ```text
//! cargo run --example metering
//! ```

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use perdura::prelude::*;
use perdura::{DomainRequest, Options, Perdura, Table};

const LIMIT: i64 = 50;
const WINDOW: Duration = Duration::from_secs(3600);

/// The domain `process` needs no persistent memory: the pool survives a crash of the process, not a
/// power loss. Without it the store survives that too.
fn open(pool: &Path) -> Result<Perdura, perdura::OpenError> {
    Perdura::open(Options::new(pool).domain(DomainRequest::Process))
}

/// The use of each customer in each minute.
type Meter<'s, S = Perdura> = Table<'s, (String, u64), u64, S>;

/// Admits a request and bills it, or refuses it: both the limit and the bill, or neither.
fn admit(store: &Perdura, customer: &str, minute: u64) -> Result<bool, perdura::Error> {
    store.transact(|tx| {
        let window = format!("window:{customer}");
        let used = tx.increment(&window, 1)?;
        if used == 1 {
            tx.expire(&window, WINDOW)?;
        }
        if used > LIMIT {
            tx.increment(&window, -1)?;
            return Ok(false);
        }
        let meter: Meter<'_, _> = tx.table("meter");
        let before = meter.get((customer, minute))?.unwrap_or(0);
        meter.insert((customer, minute), before + 1)?;
        Ok(true)
    })
}

/// Returns a customer's use from one minute to another.
fn bill(store: &Perdura, customer: &str, from: u64, to: u64) -> Result<u64, perdura::Error> {
    let meter: Meter<'_> = store.table("meter");
    let rows = meter.range((customer, from)..(customer, to));
    rows.map(|row| Ok(row?.1)).sum()
}

/// Takes requests of a hundred customers, forever, and reports each admitted one.
fn serve_until_killed(pool: &Path) -> Result<(), Box<dyn Error>> {
    let store = open(pool)?;
    std::thread::scope(|scope| {
        let serve = |thread: u64| {
            let store = &store;
            move || -> Result<(), perdura::Error> {
                for n in (thread..).step_by(2) {
                    let customer = format!("c{:02}", n * 7 % 100);
                    if admit(store, &customer, n / 500)? {
                        println!("{customer}");
                    }
                }
                Ok(())
            }
        };
        let threads = [scope.spawn(serve(0)), scope.spawn(serve(1))];
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(pool) = std::env::args().nth(1) {
        return serve_until_killed(Path::new(&pool));
    }
    let dir = tempfile::tempdir()?;
    let pool = dir.path().join("meter.pool");
    let mut child =
        Command::new(std::env::current_exe()?).arg(&pool).stdout(Stdio::piped()).spawn()?;
    let output = BufReader::new(child.stdout.take().ok_or("the child has no output")?);
    let mut admitted = 0;
    for _ in output.lines() {
        admitted += 1;
        if admitted == 2000 {
            child.kill()?; // SIGKILL: the child gets no chance to tidy up
        }
    }
    child.wait()?;

    let store = open(&pool)?;
    let mut billed = 0;
    for n in 0..100 {
        let customer = format!("c{n:02}");
        let bill = bill(&store, &customer, 0, u64::MAX)?;
        let used = store.increment(format!("window:{customer}"), 0)?;
        assert_eq!(bill as i64, used, "{customer}: the bill and the limit differ");
        billed += bill;
    }
    assert!(billed >= admitted, "a request that was admitted is not billed");
    println!("the child was killed; bills and limits agree");

    let refused = (0..2 * LIMIT).filter(|_| matches!(admit(&store, "c07", 9), Ok(false))).count();
    let used = store.increment("window:c07", 0)?;
    println!("c07 used {used}, some requests were refused: {}", refused > 0);
    println!("billed to c07: {}", bill(&store, "c07", 0, u64::MAX)?);
    Ok(())
}
