//! Pipelined commands give the replies and the data that they give one by one.

use crate::generate;
use std::sync::Arc;

use crate::support::{Client, TestClock, emulated, volatile};
use commands::spec::Group;
use commands::{Engine, EngineOptions, Run};
use fastrand::Rng;
use keyspace::Keyspace;
use resp::{Protocol, Writer};

const NOW: u64 = 1_700_000_000_000;

fn engine(keyspace: Arc<Keyspace>) -> Arc<Engine> {
    let options = EngineOptions { clock: TestClock::new(NOW), ..EngineOptions::new(keyspace) };
    Arc::new(Engine::new(options))
}

/// Executes a batch as a server does: runs where the engine takes them, the rest one by one.
fn batch(client: &mut Client, requests: &[Vec<Vec<u8>>]) -> (Vec<u8>, usize) {
    let words: Vec<Vec<&[u8]>> =
        requests.iter().map(|request| request.iter().map(Vec::as_slice).collect()).collect();
    let engine = Arc::clone(&client.engine);
    let mut batch = engine.batch();
    words.iter().for_each(|words| batch.push(words));
    let mut out = Writer::new(Protocol::Resp2);
    client.session.begin_batch();
    batch.prefetch(&client.session);
    let (mut at, mut joined) = (0, 0);
    while at < batch.len() {
        match engine.execute_run(&mut client.session, &batch, at, &mut out) {
            Ok(done) => {
                at += done;
                joined += done;
            }
            Err(alone) => {
                for _ in 0..alone.min(batch.len() - at) {
                    let outcome = engine.perform(&mut client.session, batch.get(at), &mut out);
                    if outcome.next == commands::Next::Block {
                        let _ = engine.time_out(&mut client.session, &mut out);
                    }
                    at += 1;
                }
            }
        }
    }
    (out.take(), joined)
}

#[test]
fn a_run_replies_as_its_commands_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = |name: &str| engine(emulated(&folder.path().join(name), 4));
    check(&pool("joined"), &pool("single"));
}

#[test]
fn a_run_on_a_volatile_heap_replies_as_its_commands_do() {
    check(&engine(volatile(4, 256 << 20)), &engine(volatile(4, 256 << 20)));
}

/// Sends requests to both, to one joined and to the other one by one.
fn check(joined: &Arc<Engine>, single: &Arc<Engine>) {
    let (mut one, mut other) = (Client::new(joined), Client::new(single));
    let mut specs: Vec<_> = joined.table().top().iter().map(|c| c.spec).collect();
    specs.retain(|s| matches!(s.run, Run::Keys(_)) || s.group == Group::Transactions);
    let mut random = Rng::with_seed(3);
    let mut in_runs = 0;
    for _ in 0..400 {
        let requests: Vec<Vec<Vec<u8>>> = (0..random.usize(1..24))
            .map(|_| generate::request(specs[random.usize(..specs.len())], &mut random))
            .collect();
        let expected: Vec<u8> = requests.iter().flat_map(|request| other.raw(request)).collect();
        let (replies, taken) = batch(&mut one, &requests);
        in_runs += taken;
        assert_eq!(replies.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }
    assert!(in_runs > 1000, "only {in_runs} commands in runs");
    for command in joined.table().all() {
        let (one, other) = (joined.stats().command(command.id), single.stats().command(command.id));
        let name = command.full_name();
        assert_eq!((one.calls, one.failed), (other.calls, other.failed), "executions of {name}");
    }
}

#[test]
fn a_large_string_ends_its_run_or_is_copied_in_it() {
    let large = vec![b'v'; 2 * Keyspace::LARGE];
    let check = |lines: &[&str], expect: usize| {
        let engine = engine(volatile(4, 256 << 20));
        let mut client = Client::new(&engine);
        client.raw(&[&b"SET"[..], b"large", &large]);
        let requests: Vec<Vec<Vec<u8>>> = lines
            .iter()
            .map(|line| line.split(' ').map(|word| word.as_bytes().to_vec()).collect())
            .collect();
        let (replies, joined) = batch(&mut client, &requests);
        assert!(replies.windows(large.len() - 2).any(|part| part.iter().all(|&b| b == b'v')));
        assert_eq!(joined, expect, "{lines:?}");
        assert!(replies.ends_with(b"$-1\r\n"), "{lines:?}");
    };
    check(&["GET nothing", "GET large", "GET nothing"], 2);
    check(&["SETRANGE large 0 w", "GET large", "GET nothing"], 2);
}
