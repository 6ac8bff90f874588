//! Checks at the socket what replies, pushes and wake-ups wait for.
//!
//! The oracle knows no command and no position. While the log is neither written nor synced, the
//! server must send only what it would have sent without the last write: the bytes that a client
//! has received by then must be a prefix of those that it receives from a server without that
//! write. When the log is served again, all replies arrive. When the log fails instead, an error
//! takes their place.
//!
//! Cases are made from the command table: every command that shows something, alone, pipelined, in
//! a transaction or a script, after any write to one of its keys, by one thread or two, with the
//! log and the journal, under each policy; and everything that is sent in addition to replies.
//! `WAITS_CASES` says how many of each, `WAITS_SEED` repeats a run.

mod failures;
#[path = "../../../commands/tests/generate/mod.rs"]
mod generate;
#[path = "../../../aof/tests/it/medium/mod.rs"]
mod medium;
mod outputs;
mod quorum;
mod replicas;
mod requests;
mod space;
pub(crate) mod stage;
pub(crate) mod wire;

use std::collections::BTreeSet;

use commands::Evicted;
use fastrand::Rng;
use keyspace::{Eviction, Policy};

use requests::{Case, Words, describe, reset, words};
use stage::{Backend, Stage, Visitor};

const BACKENDS: [Backend; 2] = [Backend::Log, Backend::Journal];
const POLICIES: [&str; 3] = ["always", "everysec", "no"];

/// Runs a test with each backend and policy.
fn for_each_stage(mut run: impl FnMut(&Stage)) {
    for backend in BACKENDS {
        POLICIES.into_iter().for_each(|policy| run(&Stage::new(backend, policy)));
    }
}

/// Returns a number from the environment, or the default.
fn number(name: &str, preset: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(preset)
}

fn bytes(requests: &[Words]) -> Vec<u8> {
    requests.iter().flat_map(|words| wire::request(words)).collect()
}

/// Resets everything to the state at the beginning of a case. Returns a client that has sent its
/// requests before the write.
fn begin(stage: &Stage, before: &[Words], worker: usize) -> Visitor {
    let (mut maker, all) = (stage.visit(0), reset());
    stage.send(&mut maker, &bytes(&all));
    stage.replies(&mut maker, all.len());
    let mut reader = stage.visit(worker);
    stage.send(&mut reader, &bytes(before));
    stage.replies(&mut reader, before.len());
    reader.forget();
    reader
}

/// The result of a case.
#[derive(PartialEq, Eq)]
enum Shown {
    /// The replies are those without the write, or nothing was written.
    Nothing,
    Write,
}

/// Compares what leaves while the log is held back with what leaves without the write.
fn check(stage: &Stage, case: &Case, worker: usize) -> Result<Shown, String> {
    let mut reader = begin(stage, &case.before, worker);
    stage.send(&mut reader, &bytes(&case.after));
    let without = stage.replies(&mut reader, case.after.len());
    let mut reader = begin(stage, &case.before, worker);
    let mut writer = stage.visit(0);
    let end = stage.end();
    stage.shut();
    stage.send(&mut writer, &bytes(&case.write));
    let has_written = stage.end() > end;
    stage.send(&mut reader, &bytes(&case.after));
    let (early, acknowledged) = (reader.received().to_vec(), writer.received().to_vec());
    stage.open();
    let with = stage.replies(&mut reader, case.after.len());
    stage.replies(&mut writer, case.write.len());
    let wrong = |what: &str, bytes: &[u8]| {
        Err(format!(
            "{what}, with {:?} and {}: {} (worker {worker}), after another's {}: {:.300}, not \
             {:.300}",
            stage.backend,
            stage.policy,
            describe(&[&case.before[..], &case.after].concat()),
            describe(&case.write),
            bytes.escape_ascii().to_string(),
            without.escape_ascii().to_string(),
        ))
    };
    if has_written && !acknowledged.is_empty() {
        return wrong("a write was acknowledged before it was safe", &acknowledged);
    }
    if has_written && !without.starts_with(&early) {
        return wrong("a reply shows a write that is not safe", &early);
    }
    if has_written && !stage.is_safe() {
        return wrong("a reply left and its write is not safe", &with);
    }
    let shows = has_written && with != without;
    Ok(if shows { Shown::Write } else { Shown::Nothing })
}

#[test]
fn a_reply_shows_no_write_that_is_not_safe() {
    let (seed, cases) = (number("WAITS_SEED", 1), number("WAITS_CASES", 200));
    println!("WAITS_SEED={seed} repeats this");
    let (mut random, mut showing, mut shown) = (Rng::with_seed(seed), BTreeSet::new(), 0);
    for_each_stage(|stage| {
        for at in 0..cases {
            let Some(case) = requests::case(&stage.shared.engine, &mut random) else { continue };
            let done = check(stage, &case, (at % 2) as usize);
            if done.unwrap_or_else(|violation| panic!("{violation}")) == Shown::Write {
                showing.insert(case.name);
                shown += 1;
            }
        }
    });
    println!("{shown} replies of {} commands showed a write", showing.len());
    assert!(showing.len() > 80, "replies of few commands showed a write: {showing:?}");
}

/// Requests that take several steps, between which others are served, or that take another thread,
/// or more than one turn; and strings that are copied after the locks are released.
#[test]
fn a_reply_that_takes_long_shows_no_write_that_is_not_safe() {
    let comment = format!("return redis.call('get','a')--{}", "x".repeat(70_000));
    let script: Words = [b"EVAL", comment.as_bytes(), b"0"].map(Into::into).into();
    let large: Words = [b"APPEND".to_vec(), b"a".to_vec(), vec![b'x'; 100_000]].into();
    let before = [large, words("DEBUG POPULATE 4000")];
    let many = vec![words("STRLEN a"); 150];
    let cases: [(&[Words], &str); 8] = [
        (&[words("KEYS *")], "SET new v"),
        (&[words("KEYS *")], "SET other v"),
        (&[words("KEYS *")], "DEL key:77"),
        (std::slice::from_ref(&script), "SET a token"),
        (std::slice::from_ref(&script), "DEL a"),
        (&[words("GET a")], "SETRANGE a 10 token"),
        (&[words("GET nothing"), words("GET a")], "SETRANGE a 10 token"),
        (&many, "APPEND a token"),
    ];
    for_each_stage(|stage| {
        for (asks, write) in cases {
            let mut reader = begin(stage, &before, 1);
            stage.send(&mut reader, &bytes(asks));
            let without = stage.replies(&mut reader, asks.len());
            reader.forget();
            stage.shut();
            let mut writer = stage.visit(0);
            stage.send(&mut writer, &bytes(&[words(write)]));
            stage.send(&mut reader, &bytes(asks));
            let early = stage.wait_for_barrier(&mut reader, 1);
            assert!(
                early.is_empty(),
                "a reply that takes long shows a write that is not safe: {write}, with {:?} and {}",
                stage.backend,
                stage.policy
            );
            stage.open();
            let with = stage.replies(&mut reader, asks.len());
            assert_ne!(with, without, "it shows nothing of {write}");
        }
    });
}

#[test]
fn what_was_evicted_is_shown_when_that_is_safe() {
    for_each_stage(|stage| {
        let keyspace = stage.shared.engine.keyspace();
        for asks in ["GET a", "EXISTS b c", "DBSIZE", "TYPE h1"] {
            let mut reader = begin(stage, &[], 1);
            let (before, now) = (keyspace.eviction(), stage.shared.engine.clock().unix_ms());
            let tight = Eviction { maxmemory: 1, policy: Policy::AllkeysRandom, ..before };
            stage.shut();
            keyspace.set_eviction(tight, now);
            while stage.shared.engine.evict_if_over_limit() == Evicted::Keys {}
            keyspace.set_eviction(before, now);
            stage.send(&mut reader, &bytes(&[words(asks)]));
            let early = reader.received();
            assert!(early.is_empty(), "{asks} shows an eviction: {}", early.escape_ascii());
            stage.open();
            stage.replies(&mut reader, 1);
        }
    });
}

/// Ways in which a client writes, after which WAITAOF syncs the write, whatever the policy.
#[test]
fn waitaof_syncs_what_its_client_wrote_in_any_way() {
    let script = format!("EVAL return(redis.call('set','a','1'))--{} 0", "x".repeat(70_000));
    let ways: [&[&str]; 5] = [
        &["SET a 1"],
        &["SET a 1", "SET b 2", "GET c"],
        &["MULTI", "SET a 1", "GET b", "EXEC"],
        &["EVAL return(redis.call('set','a','1')) 0"],
        &[&script],
    ];
    for backend in BACKENDS {
        let mut stage = Stage::new(backend, "no");
        for way in ways {
            let mut client = begin(&stage, &[], 1);
            let requests: Vec<Words> = way.iter().map(|line| words(line)).collect();
            stage.send(&mut client, &bytes(&requests));
            stage.replies(&mut client, requests.len());
            client.forget();
            stage.send(&mut client, &bytes(&[words("WAITAOF 1 0 0")]));
            assert_eq!(stage.replies(&mut client, 1), b"*2\r\n:1\r\n:0\r\n");
            stage.policy = "always";
            assert!(stage.is_safe(), "{backend:?}: WAITAOF has not synced {:.60}", way[0]);
            stage.policy = "no";
        }
    }
}
