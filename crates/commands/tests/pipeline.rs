//! Pipelined commands give the replies and the data that they give one by one.

mod generate;
mod support;

use std::sync::Arc;

use commands::spec::Group;
use commands::{Engine, EngineOptions, Run};
use fastrand::Rng;
use resp::{Protocol, Writer};
use support::{Client, TestClock, emulated};

const NOW: u64 = 1_700_000_000_000;

fn engine(file: &std::path::Path) -> Arc<Engine> {
    let options =
        EngineOptions { clock: TestClock::new(NOW), ..EngineOptions::new(emulated(file, 4)) };
    Arc::new(Engine::new(options))
}

/// Executes a batch as a server does: runs where the engine takes them, the rest one by one.
fn batch(client: &mut Client, requests: &[Vec<Vec<u8>>]) -> (Vec<u8>, usize) {
    let words: Vec<Vec<&[u8]>> =
        requests.iter().map(|request| request.iter().map(Vec::as_slice).collect()).collect();
    let engine = Arc::clone(&client.engine);
    let words: Vec<_> = words.iter().map(|words| engine.request(words)).collect();
    let mut out = Writer::new(Protocol::Resp2);
    client.session.begin_batch();
    let (mut at, mut joined) = (0, 0);
    while at < words.len() {
        match engine.execute_run(&mut client.session, &words[at..], &mut out) {
            Ok(done) => {
                at += done;
                joined += done;
            }
            Err(alone) => {
                for words in words[at..].iter().take(alone) {
                    let _ = engine.perform(&mut client.session, words, &mut out);
                }
                at += alone;
            }
        }
    }
    (out.take(), joined)
}

#[test]
fn a_run_replies_as_its_commands_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let (joined, single) =
        (engine(&folder.path().join("joined")), engine(&folder.path().join("single")));
    let (mut one, mut other) = (Client::new(&joined), Client::new(&single));
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
}
