//! Recovery: a data set, kill -9 under load, and the time until everything is as before.
//!
//! 1. The data set is written, and every acknowledgement is recorded in a [`Ledger`].
//! 2. A steady load measures the rate of the healthy server.
//! 3. Writers change the data set, and the server is killed while they write.
//! 4. The server is started again on the files that it left. The clock runs from its exec to the
//!    first GET that returns a value of the data set, and on until 90 % of the rate before the kill
//!    is reached again.
//! 5. Every key is compared with the ledger.
//!
//! The server stays on its core, the clients on the others. The written data is still in the page
//! cache when the server starts again: the cost of a cold disk is not measured, and kill -9 is no
//! power loss.

mod ledger;
mod writers;

use crate::results::{Recovery, System};
use crate::server::launch::stay_on;
use crate::server::{Failure, Launch, Server};
use ledger::Ledger;
pub(crate) use ledger::Of;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The share of the rate before the kill that counts as the full rate.
const FULL: f64 = 0.9;

/// Seconds that a server may take to start again per GiB of data, in addition to 30 seconds.
const PATIENCE_PER_GIB: u64 = 120;

/// One measurement of recovery.
#[derive(Clone, Debug)]
pub(super) struct Task {
    /// The size of the data set in bytes.
    pub(super) target_bytes: u64,
    /// The round, counted from 0.
    pub(super) round: u32,
    /// How long the steady load runs before the kill, and then the writers until the kill. Each of
    /// them runs longer if no reply has come by then.
    pub(super) load: Duration,
    /// The cores of the clients.
    pub(super) client_cores: Vec<usize>,
    pub(super) of: Of,
    pub(super) value_bytes: usize,
}

impl Task {
    fn keys(&self) -> u64 {
        (self.target_bytes / (self.value_bytes as u64 + 16)).max(1)
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(30 + (self.target_bytes >> 20) * PATIENCE_PER_GIB / 1024)
    }
}

/// Measures the recovery of one system once.
pub(super) fn measure(
    system: &System,
    launch: Launch,
    task: &Task,
    cancel: &AtomicBool,
) -> Result<Recovery, Failure> {
    let mut server = Server::start(launch, cancel)?;
    stay_on(&task.client_cores)?;
    let ledger = Ledger::new(task.of, task.keys(), task.value_bytes);
    writers::fill(&mut server.connect()?, &ledger, cancel)?;
    let began = Instant::now();
    let before = writers::steady(server.port(), &ledger, task.load, None, cancel);
    if before.rate == 0.0 {
        server.still_runs()?;
        return Err(server.silent(began));
    }
    kill_under_load(&mut server, &ledger, task.load, cancel)?;
    let stored_bytes = server.stored();
    let mut row = Recovery {
        system: system.id.clone(),
        round: task.round,
        target_bytes: task.target_bytes,
        keys: ledger.keys(),
        value_bytes: ledger.value_bytes(),
        stored_bytes,
        rate_before: before.rate,
        acknowledged: ledger.writes(),
        ..Recovery::default()
    };
    server.start_again()?;
    if let Some(first) = first_get(&mut server, &ledger, task.patience(), cancel)? {
        row.first_get_seconds = Some(first.as_secs_f64());
        let began = server.age();
        let wanted = Some(before.rate * FULL);
        let at_most = Duration::from_secs(10).max(task.load);
        let after = writers::steady(server.port(), &ledger, at_most, wanted, cancel);
        row.rate_after = after.rate;
        let full = began.zip(after.reached).map(|(began, reached)| began + reached);
        row.full_rate_seconds = full.map(|full| full.as_secs_f64());
    }
    let verdict = writers::check(&mut server.connect()?, &ledger, cancel)?;
    if cancel.load(Ordering::Relaxed) {
        return Err(Failure::Cancelled);
    }
    (row.keys_checked, row.keys_lost, row.keys_wrong) =
        (verdict.checked, verdict.lost, verdict.wrong);
    Ok(row)
}

/// Kills the server while writers change the data set.
fn kill_under_load(
    server: &mut Server,
    ledger: &Ledger,
    load: Duration,
    cancel: &AtomicBool,
) -> Result<(), Failure> {
    let (before, began) = (ledger.writes(), Instant::now());
    let mut alive = Ok(());
    writers::write_until_the_end(server.port(), ledger, load, cancel, || {
        alive = server.still_runs();
        server.kill();
    });
    alive?;
    if cancel.load(Ordering::Relaxed) {
        return Err(Failure::Cancelled);
    }
    if ledger.writes() == before {
        return Err(server.silent(began));
    }
    Ok(())
}

/// Returns the time from exec to the first GET that returns a value; `None` if the key is missing.
fn first_get(
    server: &mut Server,
    ledger: &Ledger,
    patience: Duration,
    cancel: &AtomicBool,
) -> Result<Option<Duration>, Failure> {
    server.wait_for(patience, Duration::from_micros(500), cancel, |server| {
        let found: Option<Vec<u8>> = ledger.get(0).query(&mut server.connect()?)?;
        Ok(Some(found.and_then(|_| server.age())))
    })
}
