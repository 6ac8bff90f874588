//! A log whose files fail under load: nothing that was acknowledged is lost, and nothing that was
//! not kept is acknowledged.
//!
//! The engine writes its log over a medium in memory that can make any one operation fail (a write,
//! a short write, a sync, a rename, the sync of a directory), once or permanently, while several
//! sessions write and the log is rewritten. Then the process ends: everything passed to write(2)
//! remains; or the power fails: with `always`, only synced data remains. The log is replayed, and
//! each session must find the state after some prefix of its transactions, from the last
//! acknowledged to the last sent.

use std::sync::Arc;
use std::thread;

use crate::medium::Medium;
use crate::support::{Client, volatile};
use aof::{Aof, Fsync, Loader};
use commands::{Engine, EngineOptions};
use fastrand::Rng;

const SESSIONS: usize = 3;
const TRANSACTIONS: u64 = 60;

/// Transactions acknowledged and sent.
type Counts = (u64, u64);

fn empty(log: Option<Arc<Aof>>) -> Arc<Engine> {
    let log = log.map(|log| log as Arc<dyn commands::CommandLog>);
    Arc::new(Engine::new(EngineOptions { log, ..EngineOptions::new(volatile(4, 64 << 20)) }))
}

/// Executes transaction number `n`. Returns true if it was executed.
fn transaction(client: &mut Client, name: usize, n: u64) -> bool {
    client.run("MULTI");
    client.run(&format!("SET s{name}:a {n}"));
    client.run(&format!("SET s{name}:b {n} PXAT 4102444800000"));
    client.run("SELECT 5");
    client.run(&format!("INCR s{name}:count"));
    client.run("SELECT 0");
    !client.run("EXEC").starts_with("(error)")
}

/// A session that continues after a refusal; it counts executed transactions as sent.
fn stubborn_session(engine: &Arc<Engine>, log: &Aof, name: usize) -> Counts {
    let (mut client, mut acknowledged, mut executed) = (Client::new(engine), 0, 0);
    for _ in 0..TRANSACTIONS {
        if !transaction(&mut client, name, executed + 1) {
            thread::yield_now();
            continue;
        }
        executed += 1;
        if log.sync_up_to(client.outcome.reply_after).is_ok() {
            acknowledged = executed;
        }
    }
    (acknowledged, executed)
}

/// A session: each transaction sets two keys and increments a third, in two databases.
fn session(engine: &Arc<Engine>, log: &Aof, name: usize, syncs: bool) -> Counts {
    let mut client = Client::new(engine);
    for n in 1..=TRANSACTIONS {
        if !transaction(&mut client, name, n) {
            return (n - 1, n - 1);
        }
        if syncs && log.sync_up_to(client.outcome.reply_after).is_err() {
            return (n - 1, n);
        }
    }
    (TRANSACTIONS, TRANSACTIONS)
}

/// Runs all sessions at once, and a rewrite of the log meanwhile.
fn run_writers(engine: &Arc<Engine>, log: &Arc<Aof>, syncs: bool) -> Vec<Counts> {
    thread::scope(|scope| {
        let start = |name| scope.spawn(move || session(engine, log, name, syncs));
        let sessions: Vec<_> = (0..SESSIONS).map(start).collect();
        let _ = commands::rewrite_log(engine, log, false, &|| true, None);
        sessions.into_iter().map(|session| session.join().expect("no panic")).collect()
    })
}

/// The number of a session's transactions that a new process finds.
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
    commands::replay(&engine, &mut loader, &mut |_| {}).map_err(|error| error.to_string())?;
    let mut client = Client::new(&engine);
    for (name, (acknowledged, sent)) in counts.iter().enumerate() {
        let found = count(&mut client, name)?;
        if !(*acknowledged..=*sent).contains(&found) {
            return Err(format!("{found} is not in {acknowledged}..={sent}"));
        }
    }
    Ok(())
}

/// An incarnation under load in which an operation fails, then an end: of the process, or with
/// `always` of the power.
fn run_incarnation(policy: Fsync, seed: u64, syncs: bool) -> Result<bool, String> {
    let mut random = Rng::with_seed(seed);
    let medium = Medium::default();
    let (loader, _) = medium.load(policy).map_err(|error| error.to_string())?;
    let log = Arc::new(loader.into_log().map_err(|error| error.to_string())?);
    let engine = empty(Some(Arc::clone(&log)));
    medium.fail_at(random.usize(..160), random.usize(..90), random.bool());
    let counts = run_writers(&engine, &log, syncs);
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
    medium.stop_failing();
    Ok(failed)
}

#[track_caller]
fn check(policy: Fsync, lives: u64) {
    let seeds = 0..lives;
    let failed =
        seeds.filter(|seed| run_incarnation(policy, *seed, true).expect("nothing is lost")).count();
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
    let noticed = (0..20).any(|seed| run_incarnation(Fsync::Always, seed, false).is_err());
    assert!(noticed, "acknowledging before the log is settled was not noticed");
}

/// In one shard, so that the key decides: reads of keys whose writes were not written are refused,
/// all others are answered.
#[test]
fn reads_of_what_is_durable_go_on_while_the_log_cannot_be_written() {
    let medium = Medium::default();
    let (loader, _) = medium.load(Fsync::Always).expect("there is nothing to load");
    let log = Arc::new(loader.into_log().expect("a log"));
    let shared: Arc<dyn commands::CommandLog> = log.clone();
    let options = EngineOptions { log: Some(shared), ..EngineOptions::new(volatile(1, 64 << 20)) };
    let mut client = Client::new(&Arc::new(Engine::new(options)));
    client.check("SET kept value", "OK");
    client.check("SET old before", "OK");
    log.sync_up_to(client.outcome.reply_after).expect("it is written");
    medium.limit_space(Some(0));
    for line in ["SET old after", "SET new 1"] {
        client.check(line, "OK");
    }
    assert!(log.sync_up_to(client.outcome.reply_after).is_err(), "nobody is told that");
    let refused = "(error) MISCONF Errors writing to the AOF file: No space left on device";
    for (line, expected) in [
        ("GET kept", "\"value\""),
        ("EXISTS kept absent", "(integer) 1"),
        ("GET old", refused),
        ("MGET kept old", refused),
        ("EXISTS new", refused),
        ("DBSIZE", refused),
        ("KEYS *", refused),
        ("SET kept value", refused),
        ("PING", refused),
        ("MULTI", "OK"),
        ("GET kept", "QUEUED"),
        ("EXEC", "[\"value\"]"),
        ("MULTI", "OK"),
        ("GET kept", "QUEUED"),
        ("GET new", "QUEUED"),
        ("EXEC", refused),
        ("MULTI", "OK"),
        ("TIME", "QUEUED"),
    ] {
        client.check(line, expected);
        assert!(log.sync_up_to(client.outcome.reply_after).is_ok(), "{line} waits for nothing");
    }
    assert!(client.run("EXEC").starts_with("[["), "it read nothing");
    medium.limit_space(None);
    log.flush().expect("there is space");
    for (line, expected) in [("GET old", "\"after\""), ("EXISTS new", "(integer) 1")] {
        client.check(line, expected);
        log.sync_up_to(client.outcome.reply_after).expect("it is written");
    }
}

/// An incarnation on a disk that is full repeatedly, during a rewrite. Returns how many
/// transactions were executed, and how many of them were acknowledged.
fn run_full_incarnation(policy: Fsync, seed: u64) -> Result<Counts, String> {
    let mut random = Rng::with_seed(seed);
    let medium = Medium::default();
    let (loader, _) = medium.load(policy).map_err(|error| error.to_string())?;
    let log = Arc::new(loader.into_log().map_err(|error| error.to_string())?);
    let engine = empty(Some(Arc::clone(&log)));
    let counts: Vec<Counts> = thread::scope(|scope| {
        let (engine, log) = (&engine, &log);
        let start = |name| scope.spawn(move || stubborn_session(engine, log, name));
        let sessions: Vec<_> = (0..SESSIONS).map(start).collect();
        let rewrite =
            scope.spawn(|| commands::rewrite_log(engine, log, false, &|| true, None).is_ok());
        while sessions.iter().any(|session| !session.is_finished()) {
            medium.limit_space(Some(random.usize(..3000)));
            thread::yield_now();
            medium.limit_space(None);
            let _ = log.flush();
            thread::yield_now();
        }
        let _ = rewrite.join().expect("no panic");
        sessions.into_iter().map(|session| session.join().expect("no panic")).collect()
    });
    check_image(&medium.now().after_power_cut(true, true), policy, &counts)
        .map_err(|what| format!("{policy:?}, seed {seed}, the process ended: {what}"))?;
    log.sync_all().map_err(|failure| failure.to_string())?;
    let executed: Vec<Counts> = counts.iter().map(|(_, executed)| (*executed, *executed)).collect();
    check_image(&medium.now().after_power_cut(false, false), policy, &executed)
        .map_err(|what| format!("{policy:?}, seed {seed}, there was room again: {what}"))?;
    let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum();
    Ok((sum(|counts| counts.1), sum(|counts| counts.0)))
}

#[test]
fn a_log_that_was_full_again_and_again_holds_what_was_executed_once_and_in_order() {
    for policy in [Fsync::EverySecond, Fsync::No] {
        let (mut executed, mut acknowledged) = (0, 0);
        for seed in 0..25 {
            let run_incarnation = run_full_incarnation(policy, seed).expect("nothing is lost");
            (executed, acknowledged) =
                (executed + run_incarnation.0, acknowledged + run_incarnation.1);
        }
        let sent = 25 * SESSIONS as u64 * TRANSACTIONS;
        assert!(executed < sent, "{policy:?}: nothing was refused");
        assert!(acknowledged > sent / 20, "{policy:?}: {acknowledged} of {sent} acknowledged");
    }
}
