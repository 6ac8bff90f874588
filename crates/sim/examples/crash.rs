//! Crashes heaps and keyspaces for a given time, and counts what was explored.
//!
//! `cargo run --release -p perdura-sim --example crash -- [--minutes N] [--seed FIRST] [--jobs N]
//! [--log FILE]`
//!
//! Each seed is one exploration: of commands, executed by one or several threads; of the heap
//! alone; of several threads on the heap; of the heap with a journal; of a journal that several
//! threads use. Its number of shards, size, space and crash model follow from the seed too. A
//! violation ends the run, which then names the seed and the smallest history found that shows the
//! violation. A run without one ends with a line of figures, preceded by the commands and fault
//! points that no crash hit, if any.
//!
//! `MUTANT=k` disables fault point number k: then a violation must be found. `--mutate` goes
//! through all fault points.

#[path = "../tests/engine/mod.rs"]
mod engine;
#[path = "../tests/histories/mod.rs"]
mod histories;
#[path = "../tests/journaled/mod.rs"]
mod journaled;
#[path = "../tests/mutants/mod.rs"]
mod mutants;
#[path = "../tests/overlap/mod.rs"]
mod overlap;
#[path = "../tests/pool/mod.rs"]
mod pool;
#[path = "../tests/scheduled/mod.rs"]
mod scheduled;
#[path = "../tests/search/mod.rs"]
mod search;

use mutants::Mutant;
use search::Search;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let minutes = option("--minutes").unwrap_or(1.0);
    let search = Search {
        first: option("--seed").map_or(1, |seed| seed as u64),
        jobs: option("--jobs").map_or_else(cores, |jobs| jobs as usize),
        most: Duration::from_secs_f64(minutes * 60.0),
        hasty: false,
    };
    if std::env::args().any(|word| word == "--mutate") {
        return mutate(&search);
    }
    let mutant = std::env::var("MUTANT").ok().filter(|text| !text.is_empty());
    let hasty = mutant.is_some() || std::env::args().any(|word| word == "--hasty");
    if let Some(text) = mutant {
        let Some(mutant) = text.parse().ok().and_then(Mutant::of) else {
            println!("MUTANT is a number from 1 to {}, not {text:?}", mutants::all().len());
            return ExitCode::FAILURE;
        };
        println!("without {mutant}");
        pmem::disable_fault_point(mutant.number);
    }
    crash(&Search { hasty, ..search })
}

/// Explores until time is up, or a violation is found.
fn crash(search: &Search) -> ExitCode {
    let start = Instant::now();
    let found = search.run();
    let seconds = start.elapsed().as_secs_f64();
    if let Some((seed, what)) = &found.violation {
        println!("seed {seed}: {what}");
    }
    for name in mutants::all().iter().filter(|m| found.counts.fault_points[m.number as usize] == 0)
    {
        println!("no crash after {name}");
    }
    for name in search::writers().iter().filter(|name| !found.counts.doing.contains_key(*name)) {
        println!("no crash during {name}");
    }
    let counts = &found.counts;
    println!(
        "seeds={}..{} incarnations={} opened={} refused={} seconds={seconds:.0} commands={} fault_points={}",
        search.first,
        found.next,
        counts.incarnations,
        counts.opened,
        counts.refused,
        search::writers().iter().filter(|name| counts.doing.contains_key(*name)).count(),
        mutants::all().iter().filter(|m| counts.fault_points[m.number as usize] > 0).count(),
    );
    let violations = u64::from(found.violation.is_some());
    log(&format!(
        "{}\t{}..{}\t{}\t{}\t{}\t{}\t{violations}\t{seconds:.0}\t{}\n",
        whence(),
        search.first,
        found.next,
        counts.images,
        counts.crashes,
        counts.opened,
        counts.incarnations,
        search.jobs,
    ));
    println!("images={} points={} violations={violations}", counts.images, counts.crashes);
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Disables each fault point in turn, and lists those that are not caught.
fn mutate(search: &Search) -> ExitCode {
    let one_in = option("--one-in").map_or(1, |n| n as usize).max(1);
    let offset = option("--offset").map_or(0, |n| n as usize);
    let chosen: Vec<Mutant> =
        mutants::all().into_iter().skip(offset % one_in).step_by(one_in).collect();
    // All of them in half an hour: each gets as long as it needs, within its share of the remaining
    // time.
    let end = Instant::now() + Duration::from_secs(28 * 60);
    let survivors = chosen.iter().filter(|mutant| !is_caught(search, mutant, end)).count();
    let figures = format!("mutants={} survivors={survivors}", chosen.len());
    log(&format!("{}\t{figures}\n", whence()));
    println!("{figures}");
    if survivors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn is_caught(search: &Search, mutant: &Mutant, end: Instant) -> bool {
    let start = Instant::now();
    let most = search.most.min(end.saturating_duration_since(start));
    pmem::disable_fault_point(mutant.number);
    let found = Search { hasty: true, most, ..*search }.run();
    pmem::disable_fault_point(0);
    let (seconds, images) = (start.elapsed().as_secs_f64(), found.counts.opened);
    match &found.violation {
        Some((seed, what)) => {
            let what = what.lines().nth(1).unwrap_or_default();
            let what: String = what.chars().take(100).collect();
            let described =
                format!("{mutant}: caught after {seconds:.1} s and {images} images, seed {seed}");
            println!("{described}: {what}");
            log(&format!("{described}\n"));
        }
        None => {
            let described = format!("{mutant}: SURVIVES {seconds:.0} s and {images} images");
            println!("{described}");
            log(&format!("{described}\n"));
        }
    }
    found.violation.is_some()
}

/// Appends a line to the file named by `--log`, if there is one.
fn log(line: &str) {
    let name = std::env::args().skip_while(|word| word != "--log").nth(1);
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        let file = OpenOptions::new().create(true).append(true).open(&name);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| eprintln!("{name}: {error}"));
    }
}

/// Returns the date and the commit.
fn whence() -> String {
    let ask = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).output().ok();
        let text = output.and_then(|output| String::from_utf8(output.stdout).ok());
        text.map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    let commit = ask("git", &["rev-parse", "--short=10", "HEAD"]);
    format!("{}\t{commit}", ask("date", &["-u", "+%F"]))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn option(name: &str) -> Option<f64> {
    std::env::args().skip_while(|word| word != name).nth(1).and_then(|value| value.parse().ok())
}
