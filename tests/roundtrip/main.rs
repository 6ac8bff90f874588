//! Generated data and settings, exported and imported in each way, and compared field by field.
//!
//! There are three areas. *dumps*: values of every type around every constant of the code that
//! stores and writes them ([`chunks`], [`shapes`]), with redis-server and, if they are named, Redis
//! 8 and Valkey 9 as peers ([`dumps`]). *inside*: such values through the ways that need no server
//! ([`inside`]), and the bytes of dumps ([`walk`]). *configuration*: every directive with odd
//! values, and users ([`configuration`]).
//!
//! `make roundtrip MINUTES=10` continues with other seeds for that time; `AREA=dumps`,
//! `AREA=inside` or `AREA=configuration` selects an area. `ROUNDTRIP_SEED` repeats one round.
//! `PERDURA_REDIS8` and `PERDURA_VALKEY9` name the executables of those peers. The first line of a
//! failure names the loss and the seed.

#![forbid(unsafe_code)]

mod chunks;
mod configuration;
mod copied;
mod dumps;
mod edges;
mod engine;
mod files;
mod inside;
mod packed;
mod shapes;
mod state;
mod streams;
mod users;
mod values;
mod walk;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use testkit::two_at_a_time;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs an area with one seed after the other, two at a time.
fn area(
    name: &str,
    rounds: u64,
    run: impl Fn(u64) -> Result<(), String> + Sync,
) -> Result<(), String> {
    let is_alone = std::env::var("ROUNDTRIP_AREA").is_ok_and(|area| !area.is_empty());
    let share = if is_alone { 1 } else { 3 };
    let time = number("ROUNDTRIP_MINUTES").map(|minutes| Duration::from_secs(minutes * 60) / share);
    let one = number("ROUNDTRIP_SEED");
    let first = one.unwrap_or_else(|| time.map_or(0, |_| fastrand::u64(..1 << 40)));
    if time.is_some() {
        // Printed before, in case it panics.
        println!("{name}: first_seed={first}");
    }
    let (began, done) = (Instant::now(), AtomicU64::new(0));
    let goes_on = |round: &u64| match (one, time) {
        (Some(_), _) => *round < 1,
        (None, Some(time)) => *round < rounds || began.elapsed() < time,
        (None, None) => *round < rounds,
    };
    two_at_a_time((0..).take_while(goes_on), |round| -> Result<(), String> {
        let seed = first + round;
        run(seed).map_err(|what| format!("{name}: {what} (ROUNDTRIP_SEED={seed})"))?;
        done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })?;
    let done = done.into_inner();
    println!("{name}: rounds={done} first_seed={first} seconds={}", began.elapsed().as_secs());
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_chosen = arguments.iter().all(|a| a.starts_with('-') || "roundtrip".contains(a));
    if arguments.iter().any(|argument| argument == "--list") || !is_chosen {
        return ExitCode::SUCCESS;
    }
    let chosen = std::env::var("ROUNDTRIP_AREA").unwrap_or_default();
    let mut failures = Vec::new();
    if chosen.is_empty() || chosen == "dumps" {
        failures.extend(area("dumps", dumps::ROUNDS, dumps::round).err());
    }
    if chosen.is_empty() || chosen == "inside" {
        failures.extend(area("inside", inside::ROUNDS, inside::round).err());
    }
    if chosen.is_empty() || chosen == "configuration" {
        failures.extend(area("configuration", 1, configuration::round).err());
    }
    failures.iter().for_each(|what| println!("{what}"));
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
