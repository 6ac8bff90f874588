//! Crashes a heap for as long as it is told to, and counts.
//!
//! `cargo run --release -p perdura-sim --example crash -- [--minutes N] [--seed FIRST]`
//!
//! Each seed is one exploration, with another number of shards, another size of the pool and the other crash model.
//! A violation ends the run, naming the seed that shows it again.

#![forbid(unsafe_code)]

#[path = "../tests/pool/mod.rs"]
mod pool;

use pool::Pool;
use sim::{Crash, Effort, explore};
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let (minutes, first) = (option("--minutes", 1.0), option("--seed", 1.0) as u64);
    let (start, most) = (Instant::now(), Duration::from_secs_f64(minutes * 60.0));
    let (mut images, mut points, mut lives, mut seed) = (0, 0, 0, first);
    while start.elapsed() < most {
        let crash = if seed % 2 == 0 { Crash::Strict } else { Crash::X86 };
        let pool = Pool::of(1 + seed as usize / 2 % 4, 1 + seed / 8 % 4);
        let effort = Effort { live_on_one_in: 100, ..Effort::new(crash, seed) };
        match explore(&pool, effort) {
            Ok(counts) => {
                images += counts.images;
                points += counts.crashes;
                lives += counts.lives;
            }
            Err(failure) => {
                println!("images={images} points={points} lives={lives} violations=1\n{failure}");
                return ExitCode::FAILURE;
            }
        }
        seed += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "images={images} points={points} lives={lives} violations=0 seeds={first}..{seed} seconds={seconds:.0}"
    );
    ExitCode::SUCCESS
}

fn option(name: &str, default: f64) -> f64 {
    let mut words = std::env::args().skip_while(|word| word != name);
    words.nth(1).and_then(|value| value.parse().ok()).unwrap_or(default)
}
