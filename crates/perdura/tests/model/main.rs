//! Random calls of the whole library, compared with a model in memory that knows nothing of the
//! code.
//!
//! Areas: *calls*, one thread and every method of every handle, on each medium, with iterators and
//! snapshots that are kept open across writes, transactions that end in each way, a clock that
//! moves, and stores that are closed, or killed, and opened again ([`session`]); in the same
//! sequences the syncs and fences of each call are counted ([`costs`]), and others wait for their
//! keys ([`watchers`]). *batches*: how much iterators read at a time ([`batches`]). *waits*:
//! futures that are polled, dropped and woken at any point ([`waits`]). *threads*: real threads,
//! each of whose elements is taken once and whose sums stay right ([`threads`]). *syncs*: the time
//! of syncs, by durability ([`syncs`]). *surface*: no public method is missing here ([`surface`]).
//!
//! It is in this crate, since one thread needs no scheduler. Futures, iterators and snapshots of
//! several threads run under the deterministic scheduler in `crates/sim/tests/library`.
//!
//! `MODEL_MINUTES=10` goes on with other seeds for that long, `MODEL_SEED` repeats one round, and a
//! word on the command line selects an area. The first line of a failure names the violation; a
//! hang ends by itself. Injected mistakes, and how many were noticed, are in docs/durability.md.

#![forbid(unsafe_code)]

mod batches;
mod bits;
mod collections;
mod content;
mod costs;
mod draw;
mod handles;
mod iterators;
mod ranked;
mod session;
mod state;
mod streams;
mod strings;
mod surface;
mod syncs;
mod tables;
mod threads;
mod waits;
mod watchers;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use state::Checked;

/// The maximum time of a round: a longer one hangs.
const HANG: Duration = Duration::from_secs(100);

struct Area {
    name: &'static str,
    /// Rounds when there is no time limit.
    rounds: u64,
    round: fn(u64) -> Checked,
}

const AREAS: [Area; 6] = [
    Area { name: "surface", rounds: 1, round: surface::round },
    Area { name: "batches", rounds: 60, round: batches::round },
    Area { name: "waits", rounds: 60, round: waits::round },
    Area { name: "threads", rounds: 6, round: threads::round },
    Area { name: "syncs", rounds: 1, round: syncs::round },
    Area { name: "calls", rounds: 16, round: session::round },
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs a round; ends the program if it hangs.
fn run(area: &'static Area, seed: u64) -> Checked {
    let (ended, end) = channel();
    std::thread::spawn(move || {
        let done = catch_unwind(AssertUnwindSafe(|| (area.round)(seed)));
        let panicked = |panic: Box<dyn std::any::Any + Send>| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(format!("a panic: {}", text.unwrap_or_default()))
        };
        let _ = ended.send(done.unwrap_or_else(panicked));
    });
    match end.recv_timeout(HANG) {
        Ok(done) => done,
        Err(RecvTimeoutError::Timeout) => {
            println!("{}: a call hangs (MODEL_SEED={seed})", area.name);
            std::process::exit(1);
        }
        Err(RecvTimeoutError::Disconnected) => Err("its thread ended".into()),
    }
}

/// Runs the rounds of an area.
fn run_area(area: &'static Area, time: Option<Duration>) -> Checked {
    let one = number("MODEL_SEED");
    let first = one.unwrap_or_else(|| time.map_or(0, |_| fastrand::u64(..1 << 40)));
    let (began, mut done) = (Instant::now(), 0);
    let rounds = if one.is_some() { 1 } else { area.rounds };
    while done < rounds || one.is_none() && time.is_some_and(|time| began.elapsed() < time) {
        let seed = first + done;
        run(area, seed).map_err(|what| format!("{}: {what}\n  MODEL_SEED={seed}", area.name))?;
        done += 1;
    }
    let ms = began.elapsed().as_millis();
    println!("{}: rounds={done} first_seed={first} ms={ms}", area.name);
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let names: Vec<&String> = arguments.iter().filter(|name| !name.starts_with('-')).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let is_chosen = |area: &&Area| {
        names.is_empty()
            || names.iter().any(|name| area.name == *name || "model".contains(&***name))
    };
    let chosen: Vec<&'static Area> = AREAS.iter().filter(is_chosen).collect();
    let time = number("MODEL_MINUTES")
        .map(|minutes| Duration::from_secs(minutes * 60) / chosen.len().max(1) as u32);
    match chosen.into_iter().try_for_each(|area| run_area(area, time)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            println!("{what}");
            ExitCode::FAILURE
        }
    }
}
