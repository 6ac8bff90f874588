//! kill -9 under load, over and over, with clients that know what was acknowledged.
//!
//! After each restart every client must find the state after some prefix of its commands, from the last acknowledged to
//! the last sent; transactions and multi-key commands are whole. This is what the end of a process may cost; what a
//! power loss may cost is decided over simulated media, since the caches of a CPU survive a kill. A server that is asked
//! to end under load keeps the same rule, whatever its policy of syncing.
//!
//! `KILL_ROUNDS` sets the rounds, `KILL_SEED` repeats a run's commands (its timing repeats only roughly).

#![forbid(unsafe_code)]

mod load;
mod model;

use fastrand::Rng;
use load::{Load, Violation};
use std::thread;
use std::time::Duration;
use testkit::{Client, Launch, Server};

const CLIENTS: usize = 5;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn seed() -> u64 {
    number("KILL_SEED").unwrap_or_else(|| fastrand::u64(..1_000_000))
}

/// How a server ends.
#[derive(Clone, Copy)]
enum End {
    Kill,
    Terminate,
}

/// Loads the server for a while and ends it.
fn round(
    server: &mut Server,
    end: End,
    loads: &mut [Load],
    random: &mut Rng,
) -> Result<(), Violation> {
    thread::scope(|scope| {
        let running: Vec<_> = loads
            .iter_mut()
            .map(|load| {
                let mut client = server.client();
                scope.spawn(move || load.run(&mut client))
            })
            .collect();
        thread::sleep(Duration::from_millis(random.u64(20..400)));
        match end {
            End::Kill => server.kill(),
            End::Terminate => assert!(server.terminate().success(), "{}", server.log()),
        }
        running.into_iter().try_for_each(|load| load.join().expect("a client's thread"))
    })
}

fn verify(client: &mut Client, loads: &mut [Load]) -> Result<(), Violation> {
    loads.iter_mut().try_for_each(|load| load.verify(client))?;
    let shared = client.run("GET shared").int().unwrap_or(0);
    let acknowledged: i64 = loads.iter().map(|load| load.shared.0).sum();
    let sent: i64 = acknowledged + loads.iter().map(|load| load.shared.1).sum::<i64>();
    if !(acknowledged..=sent).contains(&shared) {
        return Err(Violation(format!(
            "the shared counter is {shared}, not in {acknowledged}..={sent}"
        )));
    }
    loads.iter_mut().for_each(|load| load.shared = (0, 0));
    if let Some(first) = loads.first_mut() {
        first.shared.0 = shared;
    }
    let pair = client.run("MGET pair:a pair:b");
    if pair.items()[0] != pair.items()[1] {
        return Err(Violation(format!("half of an MSET: {pair}")));
    }
    let others = usize::from(shared > 0) + if pair.items()[0].bytes().is_some() { 2 } else { 0 };
    let expected = loads.iter().map(Load::keys).sum::<usize>() + others;
    match client.run("DBSIZE").int() {
        Some(keys) if keys == expected as i64 => Ok(()),
        keys => Err(Violation(format!("DBSIZE is {keys:?}, {expected} keys are readable"))),
    }
}

/// Runs all rounds; the steps acknowledged, or the first violation.
fn run(launch: Launch, end: End, rounds: u64, seed: u64) -> Result<u64, Violation> {
    let mut random = Rng::with_seed(seed);
    let mut loads: Vec<Load> = (0..CLIENTS).map(|number| Load::new(number, seed)).collect();
    let mut server = launch.start();
    for _ in 0..rounds {
        round(&mut server, end, &mut loads, &mut random)?;
        server.start_again();
        verify(&mut server.client(), &mut loads)?;
    }
    Ok(loads.iter().map(|load| load.steps).sum())
}

fn nothing_is_lost(name: &str, launch: Launch) {
    let (rounds, seed) = (number("KILL_ROUNDS").unwrap_or(12), seed());
    match run(launch, End::Kill, rounds, seed) {
        Ok(steps) => println!("{name}: seed={seed} steps={steps} kills={rounds} lost=0"),
        Err(Violation(what)) => panic!("{name}: KILL_SEED={seed}: {what}"),
    }
}

#[test]
fn a_pool_loses_nothing() {
    nothing_is_lost("pmem, process domain", Launch::perdura_pmem());
}

#[test]
fn a_pool_with_flushes_and_fences_loses_nothing() {
    nothing_is_lost("pmem, emulated clwb", Launch::perdura_emulated());
}

#[test]
fn an_append_only_file_synced_always_loses_nothing() {
    nothing_is_lost("aof, always", Launch::perdura_aof("always"));
}

#[test]
fn an_append_only_file_that_is_always_being_rewritten_loses_nothing() {
    let launch = Launch::perdura_aof("always");
    let eager = ["--auto-aof-rewrite-percentage", "1", "--auto-aof-rewrite-min-size", "1kb"];
    nothing_is_lost("aof, always, rewriting", launch.args(eager));
}

#[test]
fn a_server_that_is_asked_to_end_loses_nothing() {
    for launch in
        [Launch::perdura_pmem(), Launch::perdura_aof("everysec"), Launch::perdura_aof("no")]
    {
        let kept = run(launch.clone(), End::Terminate, 2, seed());
        assert!(kept.is_ok(), "{launch:?}: {kept:?}");
    }
}

#[test]
fn redis_itself_keeps_the_rule() {
    let launch = Launch::redis().args(["--appendonly", "yes", "--appendfsync", "always"]);
    let kept = run(launch, End::Kill, 2, seed());
    assert!(kept.is_ok(), "{kept:?}");
}

/// The check itself must be able to fail: a server that keeps nothing is found out.
#[test]
fn a_server_that_forgets_is_noticed() {
    let noticed = run(Launch::redis(), End::Kill, 2, seed());
    assert!(noticed.is_err(), "a server without persistence passed");
}
