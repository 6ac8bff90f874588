//! A log whose files fail under load: nothing that was acknowledged is lost, and nothing is acknowledged that was not kept.
//!
//! The engine writes its log over a medium in memory that lets any one operation fail (a write, a short write, a sync, a
//! rename, the sync of a directory), for once or for good, while several sessions write and the log is rewritten. Then
//! the process is gone: what write(2) took is there; or the power is: with `always`, only what was synced is there. The
//! log is replayed, and each session must find the state after some prefix of its transactions, from the last
//! acknowledged to the last sent.

#[path = "../../aof/tests/medium/mod.rs"]
mod medium;
mod support;

use std::sync::Arc;
use std::thread;

use aof::{Aof, Fsync, Loader};
use commands::{Engine, EngineOptions};
use fastrand::Rng;
use medium::Medium;
use support::{Client, volatile};

const SESSIONS: usize = 3;
const TRANSACTIONS: u64 = 60;

/// Transactions acknowledged and sent.
type Counts = (u64, u64);

fn empty(log: Option<Arc<Aof>>) -> Arc<Engine> {
    let log = log.map(|log| log as Arc<dyn commands::CommandLog>);
    Arc::new(Engine::new(EngineOptions { log, ..EngineOptions::new(volatile(4, 64 << 20)) }))
}

/// One session: each transaction sets two keys and counts a third, in two databases.
fn session(engine: &Arc<Engine>, log: &Aof, name: usize, settle: bool) -> Counts {
    let mut client = Client::new(engine);
    for n in 1..=TRANSACTIONS {
        client.run("MULTI");
        client.run(&format!("SET s{name}:a {n}"));
        client.run(&format!("SET s{name}:b {n} PXAT 4102444800000"));
        client.run("SELECT 5");
        client.run(&format!("INCR s{name}:count"));
        client.run("SELECT 0");
        let reply = client.run("EXEC");
        if reply.starts_with("(error)") {
            return (n - 1, n - 1);
        }
        if settle && log.settle(client.outcome.durable_at).is_err() {
            return (n - 1, n);
        }
    }
    (TRANSACTIONS, TRANSACTIONS)
}

/// All sessions at once, and a rewrite of the log beside them.
fn live(engine: &Arc<Engine>, log: &Arc<Aof>, settle: bool) -> Vec<Counts> {
    thread::scope(|scope| {
        let start = |name| scope.spawn(move || session(engine, log, name, settle));
        let sessions: Vec<_> = (0..SESSIONS).map(start).collect();
        let _ = engine.rewrite_log(log, false, &|| true);
        sessions.into_iter().map(|session| session.join().expect("no panic")).collect()
    })
}

/// What a new process finds of a session.
fn count(client: &mut Client, name: usize) -> Result<u64, String> {
    let number = |client: &mut Client, line: &str| {
        let text = client.run(line).replace('"', "");
        if text == "(nil)" { 0 } else { text.parse::<u64>().unwrap_or(u64::MAX) }
    };
    let found = [format!("GET s{name}:a"), format!("GET s{name}:b")].map(|l| number(client, &l));
    client.run("SELECT 5");
    let counted = number(client, &format!("GET s{name}:count"));
    client.run("SELECT 0");
    let expires = client.run(&format!("PEXPIRETIME s{name}:b"));
    let whole = found == [counted; 2] && (counted == 0 || expires.ends_with("4102444800000"));
    if whole { Ok(counted) } else { Err(format!("{found:?}, counted {counted}, {expires}")) }
}

fn check_image(image: &Medium, policy: Fsync, counts: &[Counts]) -> Result<(), String> {
    let engine = empty(None);
    let mut loader = Loader::open(image.options(policy)).map_err(|error| error.to_string())?;
    engine.replay(&mut loader, &mut |_| {}).map_err(|error| error.to_string())?;
    let mut client = Client::new(&engine);
    for (name, (acknowledged, sent)) in counts.iter().enumerate() {
        let found = count(&mut client, name)?;
        if !(*acknowledged..=*sent).contains(&found) {
            return Err(format!("{found} is not in {acknowledged}..={sent}"));
        }
    }
    Ok(())
}

/// A life under load in which an operation fails, then an end: by the process, or with `always` by the power.
fn life(policy: Fsync, seed: u64, settle: bool) -> Result<bool, String> {
    let mut random = Rng::with_seed(seed);
    let medium = Medium::default();
    let (loader, _) = medium.load(policy).map_err(|error| error.to_string())?;
    let log = Arc::new(loader.into_log().map_err(|error| error.to_string())?);
    let engine = empty(Some(Arc::clone(&log)));
    medium.fail_at(random.usize(..160), random.usize(..90), random.bool());
    let counts = live(&engine, &log, settle);
    let failed = log.status().is_err();
    let now = medium.now();
    check_image(&now.after_power_cut(true, true), policy, &counts)
        .map_err(|what| format!("{policy:?}, seed {seed}, the process ended: {what}"))?;
    if policy == Fsync::Always {
        for (names, bytes) in [(false, false), (false, true), (true, false)] {
            check_image(&now.after_power_cut(names, bytes), policy, &counts)
                .map_err(|what| format!("seed {seed}, the power was cut: {what}"))?;
        }
    }
    medium.heal();
    Ok(failed)
}

#[track_caller]
fn check(policy: Fsync, lives: u64) {
    let seeds = 0..lives;
    let failed = seeds.filter(|seed| life(policy, *seed, true).expect("nothing is lost")).count();
    assert!(failed as u64 > lives / 4, "the log failed in {failed} of {lives} lives only");
}

#[test]
fn a_log_that_fails_under_always_loses_nothing_acknowledged() {
    check(Fsync::Always, 150);
}

#[test]
fn a_log_that_fails_under_everysec_loses_nothing_acknowledged_when_the_process_ends() {
    check(Fsync::EverySecond, 100);
}

#[test]
fn a_log_that_fails_under_no_loses_nothing_acknowledged_when_the_process_ends() {
    check(Fsync::No, 100);
}

#[test]
fn replies_that_do_not_wait_for_the_log_are_noticed() {
    let noticed = (0..20).any(|seed| life(Fsync::Always, seed, false).is_err());
    assert!(noticed, "acknowledging before the log is settled was not noticed");
}
