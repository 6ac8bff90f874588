//! Clients that write to a data set and keep its ledger, and clients that produce a steady load.
//!
//! The steady load is the same before the kill and after the restart: half of it reads the data
//! set, half writes to a few other keys that are not in the ledger. So it changes nothing whose
//! loss would have to be detected.

use super::ledger::{Ledger, Verdict};
use crate::server::connect;
use fastrand::Rng;
use redis::{Connection, RedisResult};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// The number of concurrent clients.
const CLIENTS: u64 = 4;

/// Commands in the pipeline of each client.
const PIPELINE: u64 = 16;

/// Keys that the steady load writes to.
const WARM_KEYS: u64 = 1000;

/// How much longer a load continues if no reply has come in its time: one flush of a busy disk may
/// take longer than the load.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes sent or read at once when a data set is filled or checked.
const BATCH: usize = 1 << 20;

/// Returns ranges of keys that together are all keys, or only the first of them if `cancel` is set
/// meanwhile.
fn batches<'a>(ledger: &Ledger, cancel: &'a AtomicBool) -> impl Iterator<Item = Range<u64>> + 'a {
    let step = (BATCH / (ledger.value_bytes() + 64)).max(1);
    let keys = ledger.keys();
    let batch = move |first: u64| first..(first + step as u64).min(keys);
    (0..keys).step_by(step).map(batch).take_while(|_| !cancel.load(Ordering::Relaxed))
}

/// Writes version 1 of each key.
pub(super) fn fill(
    connection: &mut Connection,
    ledger: &Ledger,
    cancel: &AtomicBool,
) -> RedisResult<()> {
    batches(ledger, cancel).try_for_each(|keys| write(connection, ledger, keys))
}

/// Writes the next version of some keys in one pipeline, and records all of them as acknowledged if
/// it succeeds, none otherwise.
fn write(
    connection: &mut Connection,
    ledger: &Ledger,
    keys: impl Iterator<Item = u64>,
) -> RedisResult<()> {
    let mut pipe = redis::pipe();
    let mut sent = Vec::new();
    for key in keys {
        let (version, value) = ledger.next(key);
        pipe.add_command(ledger.set(key, version, value)).ignore();
        sent.push((key, version));
    }
    pipe.query::<()>(connection)?;
    sent.into_iter().for_each(|(key, version)| ledger.acknowledge(key, version));
    Ok(())
}

/// Returns true if a load that began at `began` should continue: until its time is over and it has
/// had a reply.
fn goes_on(began: Instant, at_most: Duration, had_answer: impl Fn() -> bool) -> bool {
    let elapsed = began.elapsed();
    elapsed < at_most || (elapsed < at_most + PATIENCE && !had_answer())
}

/// Writes to random keys until the load's time is over, then calls `end`, which ends the server.
/// Each client has keys of its own.
pub(super) fn write_until_the_end(
    port: u16,
    ledger: &Ledger,
    load: Duration,
    cancel: &AtomicBool,
    end: impl FnOnce(),
) {
    let before = ledger.writes();
    thread::scope(|scope| {
        let spawn = move |client| {
            scope.spawn(move || {
                let mut random = Rng::with_seed(client);
                let own = (ledger.keys() - client).div_ceil(CLIENTS);
                let Ok(mut connection) = connect(port) else { return };
                // A key may appear twice in a pipeline: its versions arrive in order.
                let keys = |random: &mut Rng| -> Vec<u64> {
                    (0..PIPELINE).map(|_| random.u64(0..own) * CLIENTS + client).collect()
                };
                while write(&mut connection, ledger, keys(&mut random).into_iter()).is_ok() {}
            })
        };
        let clients: Vec<_> = (0..CLIENTS.min(ledger.keys())).map(spawn).collect();
        let began = Instant::now();
        while goes_on(began, load, || ledger.writes() > before)
            && work(&clients)
            && !cancel.load(Ordering::Relaxed)
        {
            thread::sleep(Duration::from_millis(10));
        }
        end();
    });
}

/// Returns true if at least one client is still running.
fn work(clients: &[ScopedJoinHandle<'_, ()>]) -> bool {
    clients.iter().any(|client| !client.is_finished())
}

/// The rate of a steady load, sampled every tenth of a second.
#[derive(Debug)]
pub(super) struct Steady {
    /// Operations per second over the whole load; 0 if there was no reply.
    pub(super) rate: f64,
    /// The start of the first sample that reached the wanted rate, measured from the start of the
    /// load.
    pub(super) reached: Option<Duration>,
}

/// Runs the steady load until `goes_on` ends it, or until a second after a wanted rate was reached.
pub(super) fn steady(
    port: u16,
    ledger: &Ledger,
    at_most: Duration,
    wanted: Option<f64>,
    cancel: &AtomicBool,
) -> Steady {
    const LOOK: Duration = Duration::from_millis(100);
    let done = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (done, stop) = (&done, &stop);
        let spawn = move |client| {
            scope.spawn(move || {
                let Ok(mut connection) = connect(port) else { return };
                let mut random = Rng::with_seed(client);
                while !stop.load(Ordering::Relaxed) {
                    if one_batch(&mut connection, ledger, &mut random).is_err() {
                        return;
                    }
                    done.fetch_add(PIPELINE, Ordering::Relaxed);
                }
            })
        };
        let clients: Vec<_> = (0..CLIENTS).map(spawn).collect();
        let began = Instant::now();
        let (mut before, mut looked, mut reached) = (0, began, None);
        while goes_on(began, at_most, || done.load(Ordering::Relaxed) > 0)
            && work(&clients)
            && !cancel.load(Ordering::Relaxed)
        {
            thread::sleep(LOOK);
            let (now, all) = (Instant::now(), done.load(Ordering::Relaxed));
            let rate = (all - before) as f64 / (now - looked).as_secs_f64();
            if reached.is_none() && wanted.is_some_and(|wanted| rate >= wanted) {
                reached = Some(looked - began);
            }
            (before, looked) = (all, now);
            // A second is long enough to measure a rate, and the wanted rate has been reached.
            if reached.is_some_and(|at| began.elapsed() > at + LOOK * 10) {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        let rate = done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
        Steady { rate, reached }
    })
}

fn one_batch(connection: &mut Connection, ledger: &Ledger, random: &mut Rng) -> RedisResult<()> {
    let mut pipe = redis::pipe();
    for n in 0..PIPELINE {
        if n % 2 == 0 {
            pipe.add_command(ledger.get(random.u64(0..ledger.keys()))).ignore();
        } else {
            let key = format!("warm:{}", random.u64(0..WARM_KEYS));
            pipe.cmd("SET").arg(key).arg(vec![b'w'; ledger.value_bytes()]).ignore();
        }
    }
    pipe.query(connection)
}

/// Reads every key and compares it with the ledger.
pub(super) fn check(
    connection: &mut Connection,
    ledger: &Ledger,
    cancel: &AtomicBool,
) -> RedisResult<Verdict> {
    let mut verdict = Verdict::default();
    for keys in batches(ledger, cancel) {
        // A reply that is neither a value nor null is an error here, not a missing key.
        let found: Vec<Option<Vec<u8>>> = ledger.get_all(keys.clone()).query(connection)?;
        for (key, value) in keys.zip(found) {
            ledger.check(key, value.as_deref(), &mut verdict);
        }
    }
    Ok(verdict)
}
