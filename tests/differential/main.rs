//! Random sequences of commands to Perdura and to redis-server, reply for reply, in RESP2 and RESP3, with restarts of
//! Perdura between them that must change no reply.
//!
//! The commands come from the command table: each documented argument with values from the edges of its kind, one request
//! in ten spoilt. Perdura is killed or asked to end at random places, over a pool and over a log; redis-server goes on,
//! and only its connection is closed, since a connection's state ends with it. A sequence that differs is shrunk to the
//! smallest that still does. What cannot be the same is left out in `generate.rs`, each with its reason.
//!
//! It is a program, so that it can end with one line of figures: `make differential MINUTES=10`. `DIFFERENTIAL_SEED`
//! repeats one sequence.

#![forbid(unsafe_code)]

mod compare;
mod generate;
mod shrink;

use compare::{Difference, Pair};
use generate::{Generator, Op};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use testkit::Launch;

/// Sequences without a limit of time.
const SEQUENCES: u64 = 240;
/// Servers are new after so many sequences.
const SERVERS_LIVE: u64 = 60;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
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
        let restarts = ops.iter().filter(|op| !matches!(op, Op::Call(_))).count() as u64;
        self.restarts += restarts;
        self.commands += ops.len() as u64 - restarts;
    }
}

/// Shrinks what differs, and shows it.
fn show(pair: &mut Pair, what: &str, seed: u64, protocol: u8, ops: Vec<Op>) {
    let small = shrink::smallest(ops, |ops| pair.run(ops, protocol).is_some());
    println!(
        "{what}, RESP{protocol}, DIFFERENTIAL_SEED={seed}: the smallest sequence that differs"
    );
    for op in &small {
        println!("    {op}");
    }
    match pair.run(&small, protocol) {
        Some(Difference { ours, theirs }) => println!("  ours   {ours}\n  theirs {theirs}"),
        None => println!("  (it does not differ each time)"),
    }
}

/// A server that forgets everything at a restart must be noticed, and the sequence shrunk to a write, a restart, a read.
fn canary(generator: &Generator) -> Result<(), String> {
    let mut pair = Pair::start(Launch::redis(), false);
    for seed in 0..40 {
        let (protocol, ops) = generator.sequence(seed);
        if pair.run(&ops, protocol).is_none() {
            continue;
        }
        let small = shrink::smallest(ops, |ops| pair.run(ops, protocol).is_some());
        let restarts = small.iter().filter(|op| !matches!(op, Op::Call(_))).count();
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
    let limit = number("DIFFERENTIAL_MINUTES").map(|minutes| Duration::from_secs(minutes * 60));
    let only = number("DIFFERENTIAL_SEED");
    let first = only.unwrap_or_else(|| if limit.is_some() { fastrand::u64(..1 << 40) } else { 0 });
    let began = Instant::now();
    let mut figures = Figures::default();
    let mut differences = 0;
    let more = |sequences: u64| match (only, limit) {
        (Some(_), _) => sequences < 2,
        (_, Some(limit)) => began.elapsed() < limit,
        _ => sequences < SEQUENCES,
    };
    while differences == 0 && more(figures.sequences) {
        let (what, launch) =
            match figures.sequences / if only.is_some() { 1 } else { SERVERS_LIVE } % 2 {
                0 => ("over a pool", Launch::perdura_pmem()),
                _ => ("over a log", Launch::perdura_aof("always")),
            };
        let mut pair = Pair::start(launch, what == "over a log");
        loop {
            let seed = first + if only.is_some() { 0 } else { figures.sequences };
            let (protocol, ops) = generator.sequence(seed);
            figures.add(&ops);
            if pair.run(&ops, protocol).is_some() {
                differences += 1;
                show(&mut pair, what, seed, protocol, ops);
                break;
            }
            let is_over = only.is_some() || figures.sequences.is_multiple_of(SERVERS_LIVE);
            if is_over || !more(figures.sequences) {
                break;
            }
        }
    }
    let Figures { sequences, commands, restarts } = figures;
    println!(
        "sequences={sequences} commands={commands} restarts={restarts} differences={differences}"
    );
    if differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
