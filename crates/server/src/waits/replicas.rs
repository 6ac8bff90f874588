//! Replicas get nothing that is not safe here: neither by the stream nor by a dump.

use std::time::{Duration, Instant};

use super::requests::words;
use super::stage::{Backend, Stage, Visitor};
use super::{bytes, for_each_stage};
use crate::replication::position;

/// Maximum time for a dump, which another thread makes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lets the server run until the replica has received what is looked for.
#[track_caller]
fn receive_until(
    stage: &Stage,
    replica: &mut Visitor,
    is_there: impl Fn(&[u8]) -> bool,
) -> Vec<u8> {
    let began = Instant::now();
    while !is_there(replica.received()) {
        assert!(began.elapsed() < PATIENCE, "{}", replica.received().escape_ascii());
        assert!(!replica.has_ended, "the replica was disconnected");
        stage.run_idle();
        std::thread::sleep(Duration::from_micros(200));
    }
    replica.received().to_vec()
}

/// Asks for a dump.
fn ask(stage: &Stage, worker: usize) -> Visitor {
    let mut replica = stage.visit(worker);
    let asks = ["REPLCONF capa eof capa psync2", "PSYNC ? -1"].map(words);
    stage.send(&mut replica, &bytes(&asks));
    replica
}

/// Returns true if a marked dump is there, with its mark at the end.
fn is_whole(received: &[u8]) -> bool {
    let text = b"$EOF:";
    let at = received.windows(text.len()).position(|part| part == text);
    let mark = at.and_then(|at| received.get(at + text.len()..at + text.len() + 40));
    mark.is_some_and(|mark| received.len() > 200 && received.ends_with(mark))
}

/// Makes a replica that has received its dump, and does not say so.
pub(super) fn ask_and_receive(stage: &Stage, worker: usize) -> Visitor {
    let mut replica = ask(stage, worker);
    receive_until(stage, &mut replica, is_whole);
    replica
}

/// Makes a replica that receives the stream.
pub(super) fn replica(stage: &Stage, worker: usize) -> Visitor {
    let mut replica = ask_and_receive(stage, worker);
    stage.send(&mut replica, &bytes(&[words("REPLCONF ACK 0")]));
    let mut writer = stage.visit(0);
    stage.send(&mut writer, &bytes(&[words("SET first 1")]));
    receive_until(stage, &mut replica, |received| received.ends_with(b"first\r\n$1\r\n1\r\n"));
    replica.forget();
    replica
}

#[test]
fn the_stream_is_sent_as_far_as_it_is_safe() {
    let ways: [&[&str]; 5] = [
        &["SET a 1"],
        &["MULTI", "SET a 1", "INCR a", "EXEC"],
        &["EVAL return(redis.call('set','a','1')) 0"],
        &["XADD x 1-1 a b"],
        &["FLUSHALL"],
    ];
    for_each_stage(|stage| {
        for worker in [0, 1] {
            let mut replica = replica(stage, worker);
            for way in ways {
                let requests: Vec<_> = way.iter().map(|line| words(line)).collect();
                let mut writer = stage.visit(0);
                stage.shut();
                stage.send(&mut writer, &bytes(&requests));
                // What the primary says of itself comes after it, and waits with it.
                stage.shared.engine.replication().append_free(replication::PING);
                stage.run_idle();
                let early = replica.received();
                assert!(
                    early.is_empty(),
                    "{:?} and {}: {way:?} was sent before it was safe: {}",
                    stage.backend,
                    stage.policy,
                    early.escape_ascii()
                );
                stage.open();
                receive_until(stage, &mut replica, |received| {
                    received.ends_with(replication::PING)
                });
                assert!(stage.is_safe(), "{:?} and {}: {way:?}", stage.backend, stage.policy);
                assert!(replica.received().len() > replication::PING.len(), "{way:?}");
                replica.forget();
            }
        }
    });
}

#[test]
fn a_dump_is_sent_when_what_it_shows_is_safe() {
    for_each_stage(|stage| {
        for worker in [0, 1] {
            let mut writer = stage.visit(0);
            stage.shut();
            stage.send(&mut writer, &bytes(&[words("SET token token")]));
            // The cut makes the next command select its database.
            let stream = stage.shared.engine.replication().stream();
            assert!(stream.append_received(stream.epoch(), 7, b""));
            let mut replica = ask(stage, worker);
            let began = Instant::now();
            while stream.position().db.is_some() || stage.server.saver.is_busy() {
                assert!(began.elapsed() < PATIENCE, "no dump is made");
                stage.run_idle();
                std::thread::sleep(Duration::from_micros(200));
            }
            stage.run_idle();
            let early = replica.received().to_vec();
            assert!(
                !early.windows(5).any(|part| part == b"token" || part == b"REDIS"),
                "{:?} and {}: a dump was sent before it was safe",
                stage.backend,
                stage.policy
            );
            stage.open();
            let dump = receive_until(stage, &mut replica, is_whole);
            assert!(dump.windows(5).any(|part| part == b"token"));
            assert!(stage.is_safe());
        }
    });
}

/// After a sync that failed nothing is safe any more.
#[test]
fn what_could_not_be_synced_is_never_sent() {
    for backend in [Backend::Log, Backend::Journal] {
        let stage = Stage::new(backend, "always");
        let mut replica = replica(&stage, 1);
        let mut writer = stage.visit(0);
        match backend {
            Backend::Log => stage.medium.fail_at(1, 0, true),
            _ => stage.calls.fail(pmem::Call::Sync),
        }
        stage.send(&mut writer, &bytes(&[words("SET a lost")]));
        let reply = stage.replies(&mut writer, 1);
        assert!(reply.starts_with(b"-MISCONF"), "{}", reply.escape_ascii());
        // The sender has tried more than once.
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(400) {
            stage.run_idle();
            std::thread::sleep(Duration::from_millis(1));
        }
        let early = replica.received();
        assert!(early.is_empty(), "{backend:?}: {}", early.escape_ascii());
    }
}

/// Nobody knows what a restart finds after a commit that failed half-way: whether its bytes in the
/// stream count.
#[test]
fn after_a_commit_of_unknown_outcome_nothing_is_sent_and_no_data_has_a_place() {
    let ring = [("repl-durable-size", "1mb"), ("repl-diskless-sync-delay", "0")];
    let stage = Stage::with(Backend::Journal, "everysec", &ring);
    let mut replica = replica(&stage, 1);
    let engine = &stage.shared.engine;
    let stream = engine.replication().stream();
    position::begin(&stage.shared);
    let began = Instant::now();
    while !(stream.reserves() && engine.keyspace().position().kept_offset().is_some()) {
        assert!(began.elapsed() < PATIENCE, "no place is kept");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(position::present(engine).is_some());
    engine.keyspace().heap().region().fail();
    let mut writer = stage.visit(0);
    stage.send(&mut writer, &bytes(&[words("SET a unknown")]));
    let reply = stage.replies(&mut writer, 1);
    assert!(reply.starts_with(b"-"), "{}", reply.escape_ascii());
    assert!(stream.has_pending() && position::present(engine).is_none());
    // What is refused afterwards takes no place.
    let end = stream.appended();
    stage.send(&mut writer, &bytes(&[words("SET b refused")]));
    let reply = stage.replies(&mut writer, 1);
    assert!(reply.starts_with(b"-"), "{}", reply.escape_ascii());
    assert_eq!(stream.appended(), end);
    engine.replication().append_free(replication::PING);
    let mut other = ask(&stage, 0);
    for _ in 0..20 {
        stage.run_idle();
        std::thread::sleep(Duration::from_millis(1));
    }
    let early = replica.received();
    assert!(early.is_empty(), "{}", early.escape_ascii());
    let received = other.received().to_vec();
    let is_refused = received.windows(2).any(|part| part == b"\n-") || other.has_ended;
    assert!(is_refused, "a dump is sent: {}", received.escape_ascii());
}
