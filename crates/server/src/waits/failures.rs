//! Failures of the log when it is written or synced: clients learn nothing that may be lost, and
//! after a temporary failure everything goes on.

use std::sync::Arc;

use commands::Peer;
use fastrand::Rng;
use pmem::Call;
use resp::{Protocol, Writer};

use super::requests::{self, Case, describe, words};
use super::stage::{Backend, Stage, Visitor};
use super::{begin, bytes, number};

/// The fate of the next write or sync of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Nothing can be written for a while.
    Full,
    /// A write fails, and cannot be undone either.
    Torn,
    /// A sync fails, for good.
    Sync,
    /// A call for the journal fails, for good.
    Journal(Call),
}

const FAULTS: &[(Backend, &str, Fault)] = &[
    (Backend::Log, "always", Fault::Full),
    (Backend::Log, "always", Fault::Torn),
    (Backend::Log, "always", Fault::Sync),
    (Backend::Log, "everysec", Fault::Full),
    (Backend::Log, "everysec", Fault::Torn),
    (Backend::Log, "no", Fault::Full),
    (Backend::Journal, "always", Fault::Journal(Call::Sync)),
    (Backend::Journal, "always", Fault::Journal(Call::Write)),
    (Backend::Journal, "everysec", Fault::Journal(Call::Write)),
    (Backend::Journal, "no", Fault::Journal(Call::Write)),
];

fn inject(stage: &Stage, fault: Fault) {
    match fault {
        Fault::Full => stage.medium.limit_space(Some(0)),
        Fault::Torn => stage.medium.fail_at(0, 3, true),
        Fault::Sync => stage.medium.fail_at(1, 0, true),
        Fault::Journal(call) => stage.calls.fail(call),
    }
}

/// Returns the bytes before the error that says that the log has failed.
fn before_refusal(bytes: &[u8]) -> &[u8] {
    let at = bytes.windows(8).position(|part| part == b"-MISCONF");
    at.map_or(bytes, |at| &bytes[..at])
}

/// Clients that wait while the log fails.
struct Waiting {
    writer: Visitor,
    reader: Visitor,
    listener: Visitor,
    /// The reader's replies if the write did not happen.
    without: Vec<u8>,
}

/// Reads and writes while the log is held back; returns none if nothing was written.
fn wait(stage: &Stage, case: &Case, worker: usize) -> Option<Waiting> {
    let mut reader = begin(stage, &case.before, worker);
    stage.send(&mut reader, &bytes(&case.after));
    let without = stage.replies(&mut reader, case.after.len());
    let reader = begin(stage, &case.before, worker);
    let listens = ["HELLO 3", "CLIENT TRACKING ON BCAST", "PSUBSCRIBE *"].map(words);
    let mut listener = stage.visit(1);
    stage.send(&mut listener, &bytes(&listens));
    stage.run_idle();
    listener.forget();
    let mut waiting = Waiting { writer: stage.visit(0), reader, listener, without };
    let end = stage.end();
    stage.shut();
    stage.send(&mut waiting.writer, &bytes(&case.write));
    let has_written = stage.end() > end;
    stage.send(&mut waiting.reader, &bytes(&case.after));
    has_written.then_some(waiting)
}

/// Checks what each client received, after the log has failed and when it has recovered.
fn check(stage: &Stage, case: &Case, mut waiting: Waiting, fault: Fault) -> Result<(), String> {
    stage.open();
    stage.run_idle();
    let wrong = |what: &str, bytes: &[u8]| {
        Err(format!(
            "{what}, with {:?}, {} and {fault:?}: {} after another's {}: {:.300}",
            stage.backend,
            stage.policy,
            describe(&[&case.before[..], &case.after].concat()),
            describe(&case.write),
            bytes.escape_ascii().to_string(),
        ))
    };
    let own = waiting.writer.received();
    if !before_refusal(own).is_empty() {
        return wrong("a write is acknowledged that may be lost", own);
    }
    if own.is_empty() {
        return wrong("a write that failed has no answer", own);
    }
    let notified = waiting.listener.received();
    if !before_refusal(notified).is_empty() {
        return wrong("a client is told of a write that may be lost", notified);
    }
    let shown = waiting.reader.received().to_vec();
    if !waiting.without.starts_with(before_refusal(&shown)) {
        return wrong("a reply shows a write that may be lost", &shown);
    }
    if stage.policy == "always" {
        let mut late = stage.visit(1);
        stage.send(&mut late, &bytes(&[&case.before[..], &case.after].concat()));
        stage.run_idle();
        let mut shown = late.received();
        // The replies before are the same as without the write, except for a WATCH.
        for _ in &case.before {
            shown = super::wire::split(shown).first().map_or(shown, |first| &shown[first.len()..]);
        }
        let refused = shown.windows(7).any(|part| part == b"MISCONF");
        if !refused && !waiting.without.starts_with(shown) {
            return wrong("a later reply shows a write that may be lost", shown);
        }
    }
    if stage.policy != "always" {
        let mut late = stage.visit(1);
        stage.send(&mut late, &bytes(&[words("EXISTS nothing")]));
        if late.received() != b":0\r\n" {
            return wrong("a read is refused although the policy lets it go on", late.received());
        }
    }
    if fault == Fault::Full {
        recover(stage);
    }
    Ok(())
}

/// Makes space again: the executed commands are then written, and requests served.
fn recover(stage: &Stage) {
    stage.medium.limit_space(None);
    stage.shared.log.get().expect("a log").flush().expect("there is space");
    let mut client = stage.visit(0);
    stage.send(&mut client, &bytes(&[words("SET a 1"), words("GET a"), words("DBSIZE")]));
    let replies = stage.replies(&mut client, 3);
    assert!(replies.starts_with(b"+OK\r\n$1\r\n1\r\n:"), "{}", replies.escape_ascii());
}

#[test]
fn nobody_is_notified_of_a_write_that_may_be_lost() {
    let seed = number("WAITS_SEED", 1);
    let (mut random, cases) = (Rng::with_seed(seed), number("WAITS_CASES", 60) / 10);
    println!("WAITS_SEED={seed} repeats this");
    for (backend, policy, fault) in FAULTS {
        let mut stage = None;
        // If it recovers, no other server is needed for the next case.
        let cases = if *fault == Fault::Full { cases * 10 } else { cases };
        for at in 0..cases {
            let stage_of = stage.get_or_insert_with(|| {
                let stage = Stage::new(*backend, policy);
                stage.shared.engine.set_events(commands::EventClasses::parse(b"AKE"));
                stage
            });
            let Some(case) = requests::case(&stage_of.shared.engine, &mut random) else { continue };
            let Some(waiting) = wait(stage_of, &case, (at % 2) as usize) else {
                stage_of.open();
                continue;
            };
            inject(stage_of, *fault);
            let checked = check(stage_of, &case, waiting, *fault);
            checked.unwrap_or_else(|violation| panic!("{violation}"));
            if *fault != Fault::Full {
                stage = None;
            }
        }
    }
}

/// Executes a request in the middle of a sync, on another thread, and shuts the gate.
fn write_in_a_sync(stage: &Stage, line: &'static str) -> std::thread::JoinHandle<()> {
    let (medium, engine) = (stage.medium.clone(), Arc::clone(&stage.shared.engine));
    let shut = stage.shutter();
    std::thread::spawn(move || {
        medium.wait_for_held();
        let mut session = engine.connect(Peer::default(), 0);
        let mut out = Writer::new(Protocol::Resp2);
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let _ = engine.execute(&mut session, &words, &mut out);
        engine.disconnect(&mut session);
        shut();
        medium.hold_syncs(false);
        medium.hold_writes(false);
    })
}

#[test]
fn a_sync_counts_for_what_was_written_before_it() {
    for (policy, worker) in [("always", 0), ("always", 1), ("everysec", 0), ("no", 1)] {
        let stage = Stage::new(Backend::Log, policy);
        let (mut writer, mut reader) = (stage.visit(0), stage.visit(worker));
        match policy {
            "always" => stage.medium.hold_syncs(true),
            _ => stage.medium.hold_writes(true),
        }
        let other = write_in_a_sync(&stage, "SET later token");
        stage.send(&mut writer, &bytes(&[words("SET a 1")]));
        other.join().expect("no panic");
        assert_eq!(stage.replies(&mut writer, 1), b"+OK\r\n", "{policy}");
        stage.send(&mut reader, &bytes(&[words("GET later")]));
        let early = reader.received();
        assert!(early.is_empty(), "{policy}: a write in a sync is shown: {}", early.escape_ascii());
        stage.open();
        assert_eq!(stage.replies(&mut reader, 1), b"$5\r\ntoken\r\n", "{policy}");
        assert!(stage.is_safe(), "{policy}");
    }
}

#[test]
fn what_was_acknowledged_is_as_safe_as_under_the_policy_that_is_set_next() {
    for backend in super::BACKENDS {
        for policy in ["everysec", "no"] {
            let mut stage = Stage::new(backend, policy);
            let mut client = stage.visit(0);
            stage.send(&mut client, &bytes(&[words("SET a 1")]));
            stage.replies(&mut client, 1);
            client.forget();
            stage.policy = "always";
            stage.send(&mut client, &bytes(&[words("CONFIG SET appendfsync always")]));
            assert_eq!(stage.replies(&mut client, 1), b"+OK\r\n");
            assert!(stage.is_safe(), "{backend:?} {policy}: what was acknowledged is not synced");
            client.forget();
            stage.shut();
            stage.send(&mut client, &bytes(&[words("SET a 2")]));
            assert!(
                client.received().is_empty(),
                "{backend:?} {policy}: a write is not waited for"
            );
            stage.open();
            stage.replies(&mut client, 1);
            assert!(stage.is_safe(), "{backend:?} {policy}: a later write is not synced");
        }
    }
}
