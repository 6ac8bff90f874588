//! A primary and two replicas, whose clients' replies wait for replicas, while servers are killed
//! and links break.
//!
//! No acknowledged write is lost by a failover, and what clients see is linearizable
//! ([`testkit::linear`]): that is what `repl-acknowledge` promises, with all replicas whatever
//! happens, with one of two if the one that has most is promoted ([`scenario`]). A round has some
//! [`events`] while [`clients`] work; then all is healed, everybody must make progress again, all
//! replies must have come, and the three must have the same data ([`quiet`]).
//!
//! In some scenarios a primary with a pool always comes back after kill -9, and its replicas must
//! continue, without a dump.
//!
//! Two scenarios are canaries, in which acknowledged writes must get lost: replies that wait for
//! nobody, and the wrong replica promoted.

mod clients;
mod events;
mod ledger;
mod link;
mod quiet;
mod report;
mod scenario;
mod trio;

use clients::{CLIENTS, Shared, Worker};
use events::Events;
use fastrand::Rng;
use ledger::Ledger;
use report::Figures;
use scenario::{SCENARIOS, Scenario};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Instant;
use testkit::load::Violation;
use testkit::two_at_a_time;
use trio::Trio;

/// The most events of a round.
const EVENTS: usize = 7;
/// The rounds in which a canary must be noticed.
const CANARY_ROUNDS: u64 = 40;

/// Ends clients also when there is a panic.
struct EndsClients<'s>(&'s AtomicBool);

impl Drop for EndsClients<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Runs one round.
fn round(
    trio: &mut Trio<'_>,
    shared: &Shared,
    ledger: &mut Ledger,
    figures: &mut Figures,
) -> Result<(), Violation> {
    trio.steps.clear();
    trio.began = Instant::now();
    shared.is_over.store(false, SeqCst);
    let objects = ledger::objects(figures.rounds);
    let objects = objects.as_slice();
    let seeds: Vec<u64> = (0..CLIENTS).map(|_| trio.random.u64(..)).collect();
    let entries = thread::scope(|scope| {
        let _ends = EndsClients(&shared.is_over);
        let workers = seeds.into_iter().enumerate().map(|(number, seed)| {
            let random = Rng::with_seed(seed);
            let worker = Worker { shared, number, objects, random, entries: Vec::new() };
            scope.spawn(|| {
                let result = worker.run();
                if result.is_err() {
                    shared.is_over.store(true, SeqCst);
                }
                result
            })
        });
        let workers: Vec<_> = workers.collect();
        let events = trio.random.usize(1..=EVENTS);
        let mut result = match trio.scenario.returns {
            true => Events { trio, shared, figures }.come_back(),
            false => Ok(()),
        };
        for _ in 0..events {
            if result.is_ok() && !shared.is_over.load(SeqCst) {
                result = Events { trio, shared, figures }.next();
            }
        }
        let result = result.and_then(|()| quiet::settle(trio, shared));
        trio.note("clients got replies");
        shared.is_over.store(true, SeqCst);
        if result.is_err() {
            // Then nobody waits for replies that do not come.
            (0..3).for_each(|at| trio.kill(at));
        }
        let all: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        let mut entries = Vec::new();
        for found in all {
            let found = found.map_err(|_| Violation("a client panicked".into()))?;
            entries.extend(found.map_err(Violation)?);
        }
        result.map(|()| entries)
    })?;
    ledger.add(entries);
    quiet::check(trio, shared, ledger, objects)?;
    trio.note("the end");
    if std::env::var_os("KILL_STEPS").is_some() {
        println!("{}: {}", trio.scenario.name, trio.steps.join("; "));
    }
    figures.rounds += 1;
    quiet::count(trio, figures)
}

/// Runs a scenario. Returns its figures, or the first violation.
fn run(scenario: &Scenario, rounds: u64, seed: u64) -> Result<Figures, Violation> {
    let began = Instant::now();
    let mut trio = Trio::start(scenario, Rng::with_seed(seed))?;
    let addresses = trio.nodes.iter().map(|node| node.server.address()).collect();
    let shared = Shared { addresses, ..Shared::default() };
    let (mut ledger, mut figures) = (Ledger::default(), Figures::default());
    for number in 1..=rounds {
        let result = round(&mut trio, &shared, &mut ledger, &mut figures);
        result.map_err(|Violation(what)| {
            let steps = trio.steps.join("; ");
            Violation(format!(
                "round {number} (kill {}): {what}\nits steps: {steps}\n{}",
                figures.kills(),
                trio.logs()
            ))
        })?;
    }
    figures.acknowledged = shared.acknowledged.load(SeqCst);
    figures.unknown = shared.unknown.load(SeqCst);
    figures.refused = shared.refused.load(SeqCst);
    figures.seconds = began.elapsed().as_secs_f64();
    Ok(figures)
}

/// Runs a scenario and prints its figures or its violation. Returns them for the sum; none if it
/// has failed.
fn run_and_say(scenario: &Scenario, rounds: u64, seed: u64) -> Option<Figures> {
    let rounds = if scenario.is_canary() { CANARY_ROUNDS } else { rounds };
    let result = catch_unwind(|| run(scenario, rounds, seed))
        .unwrap_or_else(|_| Err(Violation("see the panic above".into())));
    let name = scenario.name;
    match (result, scenario.is_canary()) {
        (Ok(figures), false) => {
            println!("{name}: {figures} seed={seed}");
            Some(figures)
        }
        (Ok(figures), true) => {
            println!("{name}: KILL_SEED={seed}: nothing was noticed: {figures}");
            None
        }
        (Err(Violation(what)), true) if quiet::is_loss(&what) => {
            let first = what.lines().next().unwrap_or_default();
            println!("{name}: noticed as it must be: {first:.160} seed={seed}");
            Some(Figures::default())
        }
        (Err(Violation(what)), _) => {
            println!("{name}: KILL_SEED={seed}: {what}");
            None
        }
    }
}

/// Runs the scenarios whose names have all words. Returns the number of kills, or an error if one
/// has failed.
pub(crate) fn run_all(words: &[&String], rounds: u64, seed: u64) -> Result<u64, ()> {
    let chosen = |scenario: &&Scenario| words.iter().all(|word| scenario.name.contains(*word));
    let kills = std::sync::atomic::AtomicU64::new(0);
    two_at_a_time(SCENARIOS.iter().filter(chosen), |scenario| {
        let figures = run_and_say(scenario, rounds, seed).ok_or(())?;
        kills.fetch_add(figures.kills(), SeqCst);
        if !scenario.is_canary() {
            let mut row = crate::report::Figures::default();
            (row.kills, row.terminations) = (figures.kills(), figures.terminations);
            (row.steps, row.seconds) = (figures.acknowledged, figures.seconds);
            crate::report::add(scenario.name, &row, seed);
        }
        Ok(())
    })?;
    Ok(kills.into_inner())
}
