//! kill -9 under load, over and over, with clients that know what was acknowledged.
//!
//! After each restart every client must find the state after some prefix of its commands, from the
//! last acknowledged to the last sent; transactions and multi-key commands are whole
//! ([`testkit::load`]). Every seventh round ends by SIGTERM instead, and after every third one the
//! next start is killed too. This tests what the end of a process may cost; simulated media test
//! what a power loss may cost, since the caches of a CPU survive a kill. `tests/it/kill_canary.rs`
//! shows that this check can fail. After these scenarios come those of a primary and two replicas
//! ([`replicas`]).
//!
//! This is a program, so that it can end with one line of figures: `make kill ROUNDS=500`.
//! `KILL_ROUNDS` sets the kills of each scenario, a word on the command line chooses scenarios,
//! `KILL_SEED` repeats a run's commands (its timing only roughly), `KILL_LOG` names a table to
//! which the figures of each scenario are added, `KILL_STEPS` prints what was done to replicas.

#![forbid(unsafe_code)]

mod replicas;
mod report;
mod scenario;

use fastrand::Rng;
use report::Figures;
use scenario::{SCENARIOS, Scenario, Short, SmallDisk};
use std::ops::Range;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use testkit::load::{Crew, View, Violation};
use testkit::{Client, Server, two_at_a_time};

const CLIENTS: usize = 5;
/// A round of SIGTERM follows this many kills.
const TERMINATE_EVERY: u64 = 6;
/// After every third round the next start is killed too, in recovery or while the log is loaded.
const KILL_START_EVERY: u64 = 3;
/// How many steps of all clients a round lasts, if they are to fill something: as many on a busy
/// machine as on an idle one.
const STEPS: Range<u64> = 10..80;
/// The size of the small disk, in MiB.
const SMALL: u32 = 84;

/// How a server ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Kill,
    Terminate,
}

/// A server, its clients, and the figures.
struct Run<'s> {
    scenario: &'s Scenario,
    random: Rng,
    crew: Crew,
    server: Server,
    figures: Figures,
}

impl Run<'_> {
    /// Loads the server for a while, ends it, starts it again and compares.
    fn round(&mut self, end: End, number: u64) -> Result<(), Violation> {
        let long = self.scenario.waits_for_sync && number.is_multiple_of(4);
        let wait = Duration::from_millis(self.random.u64(if long { 900..1300 } else { 5..150 }));
        let steps = self.scenario.is_filled().then(|| self.random.u64(STEPS));
        let view = self.crew.view();
        let address = self.server.address();
        let (status, refused) = self.crew.run(
            || Client::connect(address),
            || {
                match steps {
                    Some(steps) => wait_for_steps(&view, steps),
                    None => thread::sleep(wait),
                }
                end_server(&mut self.server, end)
            },
        )?;
        // If the log may be full, its last write may detect that.
        if status.is_some_and(|ok| !ok) && self.scenario.short != Short::File {
            return Err(Violation(format!(
                "SIGTERM was answered by a failure\n{}",
                self.server.log()
            )));
        }
        self.figures.out_of_service += refused as u64;
        if number.is_multiple_of(KILL_START_EVERY) {
            let launch = self.scenario.launch(self.server.folder(), &mut self.random);
            self.server.start_and_kill(launch, Duration::from_micros(self.random.u64(..25_000)));
            self.figures.starts_killed += 1;
        }
        self.server.start_as(self.scenario.launch(self.server.folder(), &mut self.random));
        self.crew.verify(&mut self.server.client())?;
        match end {
            End::Kill => self.figures.kills += 1,
            End::Terminate => self.figures.terminations += 1,
        }
        Ok(())
    }

    /// Returns true if something must run out of space and has not yet.
    fn is_still_roomy(&self) -> bool {
        let refused = self.crew.refused() + self.figures.out_of_service;
        self.scenario.short != Short::Nothing && refused == 0
    }
}

/// Waits until clients have made this many steps more, or none for a second: then they were
/// refused, and go no further.
fn wait_for_steps(view: &View, steps: u64) {
    let goal = view.steps() + steps;
    let (mut made, mut since) = (view.steps(), Instant::now());
    while made < goal && since.elapsed() < Duration::from_secs(1) {
        thread::sleep(Duration::from_millis(1));
        if view.steps() != made {
            (made, since) = (view.steps(), Instant::now());
        }
    }
}

/// Ends the server. Returns whether it exited as it should, if it was asked to.
fn end_server(server: &mut Server, end: End) -> Option<bool> {
    match end {
        End::Kill => {
            server.kill();
            None
        }
        End::Terminate => Some(server.terminate().success()),
    }
}

/// Does the same, but a server that does not start is a violation too.
fn run_to_end(scenario: &Scenario, rounds: u64, seed: u64) -> Result<Option<Figures>, Violation> {
    catch_unwind(|| run(scenario, rounds, seed))
        .unwrap_or_else(|_| Err(Violation("see the panic above".into())))
}

/// Runs a scenario. Returns its figures, or the first violation.
fn run(scenario: &Scenario, rounds: u64, seed: u64) -> Result<Option<Figures>, Violation> {
    let began = Instant::now();
    let mut random = Rng::with_seed(seed);
    let disk = match scenario.short {
        Short::Disk => match SmallDisk::mount(SMALL) {
            None => return Ok(None),
            disk => disk,
        },
        _ => None,
    };
    let launch = scenario.launch("".as_ref(), &mut random);
    let server = match &disk {
        Some(disk) => launch.start_in(disk.scratch()),
        None => launch.start(),
    };
    let crew = Crew::new(CLIENTS, seed, scenario.habits());
    let mut run = Run { scenario, random, crew, server, figures: Figures::default() };
    // If space must run out, more rounds follow until it has.
    let mut number = 0;
    while number < rounds || (run.is_still_roomy() && number < 10 * rounds) {
        number += 1;
        run.round(End::Kill, number)?;
        if number.is_multiple_of(TERMINATE_EVERY) {
            run.round(End::Terminate, number)?;
        }
    }
    if run.is_still_roomy() {
        return Err(Violation("nothing ever ran short".into()));
    }
    let Run { crew, mut figures, server, .. } = run;
    drop(server);
    (figures.steps, figures.scripts) = (crew.steps(), crew.scripts());
    figures.refused = crew.refused();
    figures.seconds = began.elapsed().as_secs_f64();
    Ok(Some(figures))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let words: Vec<&String> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    let rounds = number("KILL_ROUNDS").unwrap_or(12);
    let seed = number("KILL_SEED").unwrap_or_else(|| fastrand::u64(..1_000_000));
    let chosen = |scenario: &&Scenario| words.iter().all(|word| scenario.name.contains(*word));
    let kills = AtomicU64::new(0);
    let alone = two_at_a_time(SCENARIOS.iter().filter(chosen), |scenario| {
        match run_to_end(scenario, rounds, seed) {
            Ok(Some(figures)) => {
                println!("{}: {figures} seed={seed}", scenario.name);
                report::add(scenario.name, &figures, seed);
                kills.fetch_add(figures.kills, Ordering::Relaxed);
            }
            Ok(None) => println!("{}: skipped, since mounting needs root", scenario.name),
            Err(Violation(what)) => {
                println!("{}: KILL_SEED={seed}: {what}", scenario.name);
                return Err(());
            }
        }
        Ok(())
    });
    let rounds = number("KILL_ROUNDS").unwrap_or(3);
    let together = alone.and_then(|()| replicas::run_all(&words, rounds, seed));
    let kills = kills.into_inner() + together.unwrap_or(0);
    println!("kills={kills} lost={}", u8::from(together.is_err()));
    if together.is_err() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
