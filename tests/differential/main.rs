//! Random sequences of commands to Perdura and to redis-server, compared reply by reply, in RESP2
//! and RESP3, with restarts of Perdura that must change no reply.
//!
//! The commands come from the command table: each documented argument with edge values of its kind,
//! one request in ten malformed; half of the sequences are sent in pipelines. Perdura is killed or
//! terminated at random points, over a pool and over a log; redis-server keeps running, and only
//! its connection is closed, since a connection's state ends with it. A sequence that differs is
//! shrunk to the smallest that still does. Commands that cannot give the same replies are left out
//! in `generate.rs`, each with its reason.
//!
//! This is a program, so that it can end with one line of figures: `make differential MINUTES=10`.
//! `DIFFERENTIAL_SEED` repeats one sequence, `DIFFERENTIAL_LOG` names a table to which the figures
//! are added.

#![forbid(unsafe_code)]

mod compare;
mod generate;
mod shrink;

use compare::{Difference, Pair};
use generate::{Generator, Op, Sequence};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use testkit::{Launch, two_at_a_time};

/// The number of sequences without a time limit.
const SEQUENCES: u64 = 120;
/// The number of sequences after which servers are replaced.
const SERVERS_LIVE: u64 = 60;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The number of sequences, and the first seed.
struct Limits {
    began: Instant,
    time: Option<Duration>,
    sequences: u64,
    first: u64,
}

impl Limits {
    fn from_environment() -> Limits {
        let began = Instant::now();
        let time = number("DIFFERENTIAL_MINUTES").map(|minutes| Duration::from_secs(minutes * 60));
        match (number("DIFFERENTIAL_SEED"), time) {
            // Once over a pool, once over a log.
            (Some(first), _) => Limits { began, time: None, sequences: 2, first },
            (None, Some(_)) => {
                Limits { began, time, sequences: u64::MAX, first: fastrand::u64(..1 << 40) }
            }
            (None, None) => Limits { began, time, sequences: SEQUENCES, first: 0 },
        }
    }

    /// Returns true if the sequence with this number, from 0, is to be run.
    fn allow(&self, number: u64) -> bool {
        number < self.sequences && self.time.is_none_or(|time| self.began.elapsed() < time)
    }

    /// The number of sequences for which the same servers are used.
    fn servers_live(&self) -> u64 {
        if self.is_single() { 1 } else { SERVERS_LIVE }
    }

    /// Returns true if one sequence is repeated.
    fn is_single(&self) -> bool {
        self.sequences == 2
    }
}

/// Runs the sequences of a batch over new servers; fails if one of them differed.
fn servers(
    generator: &Generator,
    limits: &Limits,
    batch: u64,
    figures: &Mutex<Figures>,
) -> Result<(), ()> {
    let live = limits.servers_live();
    let from_log = batch % 2 == 1;
    let (what, launch) = match from_log {
        false => ("over a pool", Launch::perdura_pmem()),
        true => ("over a log", Launch::perdura_aof("always")),
    };
    let mut pair = Pair::start(launch, from_log);
    for number in (batch * live..(batch + 1) * live).take_while(|number| limits.allow(*number)) {
        let seed = limits.first + if limits.is_single() { 0 } else { number };
        let sequence = generator.sequence(seed);
        figures.lock().expect("no panic while figures are added").add(&sequence.ops);
        if pair.run(&sequence).is_some() {
            show(&mut pair, what, seed, sequence);
            return Err(());
        }
    }
    Ok(())
}

#[derive(Default)]
struct Figures {
    sequences: u64,
    commands: u64,
    restarts: u64,
}

impl Figures {
    fn add(&mut self, ops: &[Op]) {
        self.sequences += 1;
        let restarts = ops.iter().filter(|op| !op.is_call()).count() as u64;
        self.restarts += restarts;
        self.commands += ops.len() as u64 - restarts;
    }
}

/// Returns the smallest sequence that differs, with commands sent one by one if that suffices.
fn shrink(pair: &mut Pair, mut sequence: Sequence) -> Sequence {
    let alone = Sequence { burst: 1, ..sequence.clone() };
    if pair.run(&alone).is_some() {
        sequence = alone;
    }
    let with = |ops: &[Op]| Sequence { ops: ops.to_vec(), ..sequence.clone() };
    with(&shrink::smallest(sequence.ops.clone(), |ops| pair.run(&with(ops)).is_some()))
}

/// Shrinks a sequence that differs, and prints it.
fn show(pair: &mut Pair, what: &str, seed: u64, sequence: Sequence) {
    let small = shrink(pair, sequence);
    let Sequence { protocol, burst, ops } = &small;
    println!(
        "{what}, RESP{protocol}, {burst} at a time, DIFFERENTIAL_SEED={seed}: differs at least by"
    );
    ops.iter().for_each(|op| println!("    {op}"));
    match pair.run(&small) {
        Some(Difference { ours, theirs }) => println!("  ours   {ours}\n  theirs {theirs}"),
        None => println!("  (it does not differ each time)"),
    }
}

/// A server that forgets everything at a restart must be noticed, and the sequence shrunk to a
/// write, a restart and a read.
fn canary(generator: &Generator) -> Result<(), String> {
    let mut pair = Pair::start(Launch::redis(), false);
    for seed in 0..40 {
        let sequence = generator.sequence(seed);
        if pair.run(&sequence).is_none() {
            continue;
        }
        let small = shrink(&mut pair, sequence).ops;
        let restarts = small.iter().filter(|op| !op.is_call()).count();
        println!("canary: a server that forgets was noticed, by {} steps", small.len());
        return match (small.len(), restarts) {
            (..=4, 1) => Ok(()),
            (len, restarts) => Err(format!("shrunk to {len} steps with {restarts} restarts only")),
        };
    }
    Err("a server that forgets at each restart was not noticed".into())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_chosen = arguments.iter().all(|a| a.starts_with('-') || "differential".contains(a));
    if arguments.iter().any(|argument| argument == "--list") || !is_chosen {
        return ExitCode::SUCCESS;
    }
    let generator = Generator::new();
    if let Err(why) = canary(&generator) {
        println!("{why}");
        return ExitCode::FAILURE;
    }
    let limits = Limits::from_environment();
    let figures = Mutex::new(Figures::default());
    let batches = (0..).take_while(|batch| limits.allow(batch * limits.servers_live()));
    let differs =
        two_at_a_time(batches, |batch| servers(&generator, &limits, batch, &figures)).is_err();
    let Figures { sequences, commands, restarts } =
        figures.into_inner().expect("the threads have ended");
    let seconds = limits.began.elapsed().as_secs();
    testkit::evidence::add(
        "DIFFERENTIAL_LOG",
        "sequences\tcommands\trestarts\tdifferences\tseed\tseconds",
        &format!(
            "{sequences}\t{commands}\t{restarts}\t{}\t{}\t{seconds}",
            u8::from(differs),
            limits.first
        ),
    );
    println!(
        "sequences={sequences} commands={commands} restarts={restarts} differences={}",
        u8::from(differs)
    );
    if differs { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
