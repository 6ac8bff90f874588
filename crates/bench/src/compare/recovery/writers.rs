//! Clients that write to a data set and keep its ledger, and clients whose only purpose is a steady
//! rate.
//!
//! The steady load is the same before the kill and after the restart: half reads of the data set,
//! half writes to a few keys next to it, which no ledger knows. It touches nothing whose loss would
//! have to be noticed.

use super::ledger::{Ledger, Verdict};
use crate::server::connect;
use fastrand::Rng;
use redis::{Connection, RedisResult, Value};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Clients at once.
const CLIENTS: u64 = 4;

/// Commands that each has on its way.
const PIPELINE: u64 = 16;

/// Keys that the steady load writes to.
const WARM_KEYS: u64 = 1000;

/// How much longer than asked for a load goes on that had no answer: one flush of a busy disk may
/// take longer than a load.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes that are sent at once while a data set is made.
const BATCH: usize = 1 << 20;

/// Writes version 1 of each key.
pub(super) fn fill(
    connection: &mut Connection,
    ledger: &Ledger,
    cancel: &AtomicBool,
) -> RedisResult<()> {
    let step = (BATCH / (ledger.value_bytes() + 64)).max(1) as u64;
    let mut first = 0;
    while first < ledger.keys() && !cancel.load(Ordering::Relaxed) {
        let last = (first + step).min(ledger.keys());
        write(connection, ledger, first..last)?;
        first = last;
    }
    Ok(())
}

/// Writes the next version of some keys in one pipeline: acknowledged are all of them or, as far as
/// is known, none.
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

/// Returns true if a load goes on that began then: for the time that was asked for, and until it
/// had an answer.
fn goes_on(began: Instant, at_most: Duration, had_answer: impl Fn() -> bool) -> bool {
    let elapsed = began.elapsed();
    elapsed < at_most || (elapsed < at_most + PATIENCE && !had_answer())
}

/// Writes to random keys for a while, until `end` ends the server. Each client has keys of its own.
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
                // One key twice in a pipeline is as good as twice in a row.
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

/// Returns true if there is a client that has not given up.
fn work(clients: &[ScopedJoinHandle<'_, ()>]) -> bool {
    clients.iter().any(|client| !client.is_finished())
}

/// A rate, looked at every tenth of a second.
#[derive(Debug)]
pub(super) struct Steady {
    /// Operations per second over all of the time; 0 if there was no answer at all.
    pub(super) rate: f64,
    /// When the wanted rate was first reached, from the start of the load.
    pub(super) reached: Option<Duration>,
}

/// Runs the steady load for a while, or until a wanted rate is reached and has lasted.
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
            // Long enough for a rate to be told, once there is nothing left to wait for.
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
    let step = (BATCH / (ledger.value_bytes() + 64)).max(1) as u64;
    let mut verdict = Verdict::default();
    let mut first = 0;
    while first < ledger.keys() && !cancel.load(Ordering::Relaxed) {
        let last = (first + step).min(ledger.keys());
        let found: Vec<Value> = ledger.get_all(first..last).query(connection)?;
        for (key, value) in (first..last).zip(&found) {
            let value = match value {
                Value::BulkString(bytes) => Some(bytes.as_slice()),
                _ => None,
            };
            ledger.check(key, value, &mut verdict);
        }
        first = last;
    }
    Ok(verdict)
}
