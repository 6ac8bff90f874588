//! Generated cases, on Perdura and on redis-server, compared reply by reply, in several areas:
//! users' rights ([`acl`]), scripts and functions ([`scripts`]), side effects that other clients
//! see ([`events`]).
//!
//! The oracle is redis-server 7.0.15. If docs/compatibility.md says that Perdura differs, a case
//! leaves that out or states the expected reply, each with its reason. A case starts from an empty
//! state and is determined by its seed, so that it can be repeated; one that differs is shrunk to
//! the smallest that still does. The first line of a failure names the reply that differs.
//!
//! This is a program, so that its areas share two servers and it ends with a line of figures for
//! each: `make peer MINUTES=10 ONLY=acl`. `PEER_SEED` repeats one case, `PEER_LOG` names a table to
//! which the figures are added. docs/durability.md lists injected mistakes, and how many were
//! noticed.

#![forbid(unsafe_code)]

mod acl;
mod alike;
mod both;
mod events;
#[path = "../../crates/commands/tests/generate/mod.rs"]
mod request;
mod rules_text;
mod scripts;
#[path = "../differential/shrink.rs"]
mod shrink;
mod steps;

use both::{Both, Difference};
use commands::{Engine, EngineOptions};
use heap::{CreateOptions, Geometry, Heap};
use keyspace::Keyspace;
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use steps::{Act, Alike, Case};

/// The beginning of the lines that scripts write into the log.
const SAID: &str = "said by ";

/// How often a case that differs is run, since it may depend on time.
const REPEATED: usize = 4;

/// An area of tests.
struct Area<'g> {
    name: &'static str,
    /// The number of cases without a time limit.
    cases: u64,
    /// Runs the case of a seed. Returns its number of steps, and the difference, as text.
    run: Box<dyn Fn(u64) -> (usize, Option<String>) + 'g>,
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn engine() -> Engine {
    let geometry = Geometry { shards: 1, ..Geometry::default() };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    let heap = Heap::volatile(1 << 30, &options).expect("a heap in memory");
    Engine::new(EngineOptions::new(Arc::new(Keyspace::new(heap, 0))))
}

/// Returns the smallest case that differs. A case with waits is left as it is: without the other
/// steps they would not end.
fn smallest(both: &Both, case: Case) -> Case {
    if case.steps.iter().any(|step| matches!(step.act, Act::AwaitBlocked | Act::AwaitBusy)) {
        return case;
    }
    let with = |steps: &[steps::Step]| Case { steps: steps.to_vec(), ..case.clone() };
    with(&shrink::smallest(case.steps.clone(), |steps| both.run(&with(steps)).is_some()))
}

/// Runs a case, several times if counters differ: the calls that a script made before it was moved
/// to another thread count twice, which depends on time.
fn differs_each_time(both: &Both, case: &Case) -> bool {
    for _ in 0..REPEATED {
        match both.run(case) {
            None => return false,
            Some(Difference { at, .. }) if case.steps[at].alike != Alike::Counters => return true,
            Some(_) => {}
        }
    }
    true
}

/// Runs the case of a seed.
fn run_case(both: &Both, seed: u64, case: Case) -> (usize, Option<String>) {
    let steps = case.steps.len();
    (steps, differs_each_time(both, &case).then(|| shown(both, seed, case)))
}

/// Shrinks a case that differs. Returns the text that shows it.
fn shown(both: &Both, seed: u64, case: Case) -> String {
    let small = smallest(both, case);
    let (at, ours, theirs) = match both.run(&small) {
        Some(Difference { at, ours, theirs }) => (at, ours.to_string(), theirs.to_string()),
        None => (small.steps.len() - 1, "the same".into(), "another reply at first".into()),
    };
    let mut text = format!(
        "another reply than redis-server's to {}\n  ours   {ours}\n  theirs {theirs}\n  \
         after these steps (RESP{}; PEER_SEED={seed}):",
        small.steps[at], small.protocol
    );
    for step in &small.steps[..=at] {
        let _ = write!(text, "\n    {step}");
    }
    text
}

/// Runs the cases of an area. Returns true if one of them differed.
fn run(both: &Both, area: &Area<'_>, time: Option<Duration>) -> bool {
    let (first, cases) = match (number("PEER_SEED"), time) {
        (Some(seed), _) => (seed, 1),
        (None, Some(_)) => (fastrand::u64(..1 << 40), u64::MAX),
        (None, None) => (0, number("PEER_CASES").unwrap_or(area.cases)),
    };
    let began = Instant::now();
    let (mut done, mut steps, mut differs) = (0, 0, false);
    while !differs && done < cases && time.is_none_or(|time| began.elapsed() < time) {
        let seed = first + done;
        let (length, difference) = (area.run)(seed);
        done += 1;
        steps += length;
        if let Some(difference) = difference {
            differs = true;
            println!("{}: {difference}", area.name);
        }
    }
    let [ours, theirs] = both.logged(SAID);
    if !differs && ours != theirs {
        differs = true;
        let at = ours.iter().zip(&theirs).take_while(|(ours, theirs)| ours == theirs).count();
        let line = |lines: &[String]| lines.get(at).cloned().unwrap_or("nothing more".into());
        println!("{}: the log has another line of a script than redis-server's", area.name);
        println!("  ours   {}\n  theirs {}", line(&ours), line(&theirs));
    }
    let seconds = began.elapsed().as_secs();
    println!(
        "{}: cases={done} steps={steps} seed={first} seconds={seconds} differences={}",
        area.name,
        u8::from(differs)
    );
    testkit::evidence::add(
        "PEER_LOG",
        "area\tcases\tsteps\tdifferences\tseed\tseconds",
        &format!("{}\t{done}\t{steps}\t{}\t{first}\t{seconds}", area.name, u8::from(differs)),
    );
    differs
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let names: Vec<&String> =
        arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let is_chosen =
        |name: &str| names.is_empty() || names.iter().any(|chosen| name.contains(&***chosen));
    if !["peer", "acl", "scripts", "events"].iter().any(|name| is_chosen(name)) {
        return ExitCode::SUCCESS;
    }
    let both = Both::start();
    let (engine, peer) = (engine(), &both.peer.commands);
    let acl = acl::Generator::new(&engine, peer);
    let scripts = scripts::Generator::new(&engine, peer);
    let events = events::Generator::new(&both);
    let run_acl = |seed| run_case(&both, seed, acl.case(seed));
    let run_scripts = |seed| run_case(&both, seed, scripts.case(seed));
    let areas = [
        Area { name: "acl", cases: 700, run: Box::new(run_acl) },
        Area { name: "scripts", cases: 700, run: Box::new(run_scripts) },
        Area { name: "events", cases: 130, run: Box::new(|seed| events.run(seed)) },
    ];
    let chosen: Vec<&Area<'_>> =
        areas.iter().filter(|area| is_chosen("peer") || is_chosen(area.name)).collect();
    let time = number("PEER_MINUTES").map(|minutes| {
        Duration::from_secs(minutes * 60) / u32::try_from(chosen.len()).unwrap_or(1)
    });
    let differing = chosen.iter().filter(|area| run(&both, area, time)).count();
    if differing > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
