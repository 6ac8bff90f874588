//! Pipelined commands give the same replies and data as one by one.

use crate::generate;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::support::{Client, MemoryLog, TestClock, emulated, volatile};
use commands::spec::{Arg, ArgKind, Group};
use commands::{CommandLog, Engine, EngineOptions, OneByOne, ReplyLog, Run};
use fastrand::Rng;
use keyspace::{Db, Keyspace};
use resp::{Protocol, Writer};

const NOW: u64 = 1_700_000_000_000;

pub(crate) fn engine(keyspace: Arc<Keyspace>) -> Arc<Engine> {
    let options = EngineOptions { clock: TestClock::new(NOW), ..EngineOptions::new(keyspace) };
    Arc::new(Engine::new(options))
}

/// Executes a batch, and counts the commands that were executed in runs.
pub(crate) fn batch(client: &mut Client, requests: &[Vec<Vec<u8>>]) -> (Vec<u8>, usize) {
    let words: Vec<Vec<&[u8]>> =
        requests.iter().map(|request| request.iter().map(Vec::as_slice).collect()).collect();
    let engine = Arc::clone(&client.engine);
    let mut batch = engine.batch();
    words.iter().for_each(|words| batch.push(words));
    let mut out = Writer::new(Protocol::Resp2);
    batch.prefetch(&client.session);
    let (mut at, mut joined) = (0, 0);
    while at < batch.len() {
        match engine.execute_run(&mut client.session, &batch, at, &mut out) {
            Ok(done) => {
                at += done.requests;
                joined += done.requests;
            }
            Err(OneByOne(alone)) => {
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

/// Executes a batch as a server does, in as many calls as it takes.
fn execute(client: &mut Client, requests: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut out = Writer::new(Protocol::Resp2);
    let engine = Arc::clone(&client.engine);
    let mut at = 0;
    while at < requests.len() {
        let words: Vec<Vec<&[u8]>> =
            requests[at..].iter().map(|words| words.iter().map(Vec::as_slice).collect()).collect();
        let mut batch = engine.batch();
        words.iter().for_each(|words| batch.push(words));
        let done = engine.execute_batch(&mut client.session, &mut batch, &mut out);
        assert!(done.requests > 0, "a batch without an end");
        if done.next == commands::Next::Block {
            let _ = engine.time_out(&mut client.session, &mut out);
        }
        at += done.requests;
    }
    out.take()
}

#[test]
fn a_batch_replies_as_its_commands_do() {
    let (one, other) = (engine(volatile(4, 256 << 20)), engine(volatile(4, 256 << 20)));
    let (mut one, mut other) = (Client::new(&one), Client::new(&other));
    let mut specs: Vec<_> = one.engine.table().top().iter().map(|c| c.spec).collect();
    specs.retain(|s| matches!(s.run, Run::Keys(_)) || s.group == Group::Transactions);
    let mut random = Rng::with_seed(5);
    for _ in 0..400 {
        let requests: Vec<Vec<Vec<u8>>> = (0..random.usize(1..80))
            .map(|_| generate::request(specs[random.usize(..specs.len())], &mut random))
            .collect();
        let expected: Vec<u8> = requests.iter().flat_map(|request| other.raw(request)).collect();
        let replies = execute(&mut one, &requests);
        assert_eq!(replies.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }
}

/// A command with something for the connection to do ends a batch: the rest is left for later.
#[test]
fn a_batch_ends_where_the_connection_has_something_else_to_do() {
    let check = |lines: &[&str], requests: usize, next: commands::Next, replies: &str| {
        let engine = engine(volatile(4, 64 << 20));
        let mut client = Client::new(&engine);
        let words: Vec<Vec<&[u8]>> =
            lines.iter().map(|line| line.split(' ').map(str::as_bytes).collect()).collect();
        let mut batch = engine.batch();
        words.iter().for_each(|words| batch.push(words));
        let mut out = Writer::new(Protocol::Resp2);
        let done = engine.execute_batch(&mut client.session, &mut batch, &mut out);
        assert_eq!((done.requests, done.next), (requests, next), "{lines:?}");
        assert_eq!(String::from_utf8_lossy(out.as_bytes()), replies, "{lines:?}");
    };
    check(&["PING", "SET k v", "GET k"], 3, commands::Next::Reply, "+PONG\r\n+OK\r\n$1\r\nv\r\n");
    check(&["SET k v", "BLPOP l 0", "GET k"], 2, commands::Next::Block, "+OK\r\n");
    check(&["SET k v", "QUIT", "GET k"], 2, commands::Next::Close, "+OK\r\n+OK\r\n");
    check(&["CLIENT PAUSE 100000", "SET k v"], 1, commands::Next::Paused, "+OK\r\n");
    let paused = ["CLIENT PAUSE 100000 WRITE", "SET k v", "SET l v"];
    check(&paused, 1, commands::Next::Paused, "+OK\r\n");
    check(&["CLIENT REPLY OFF", "SET k v", "GET k"], 3, commands::Next::Reply, "");
    check(&["CLIENT REPLY SKIP", "SET k v", "GET k"], 3, commands::Next::Reply, "$1\r\nv\r\n");
}

#[test]
fn a_batch_ends_when_its_replies_are_long() {
    let engine = engine(volatile(4, 64 << 20));
    let mut client = Client::new(&engine);
    client.raw(&[&b"SET"[..], b"k", &vec![b'v'; 20_000]]);
    let words: Vec<Vec<&[u8]>> = (0..60).map(|_| vec![&b"GET"[..], b"k"]).collect();
    let mut batch = engine.batch();
    words.iter().for_each(|words| batch.push(words));
    let mut out = Writer::new(Protocol::Resp2);
    let done = engine.execute_batch(&mut client.session, &mut batch, &mut out);
    assert!((14..20).contains(&done.requests), "{done:?}");
    assert_eq!(done.next, commands::Next::Reply);
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

/// Sends the same requests to both, in runs to one and one by one to the other.
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

/// Each command of a run is in the log as if it had been executed by itself.
#[test]
fn a_run_is_logged_as_its_commands_are() {
    let logged = || {
        let log = Arc::new(MemoryLog::default());
        let engine = engine(volatile(4, 256 << 20));
        assert!(engine.set_log(log.clone()));
        (log, Client::new(&engine))
    };
    let ((one_log, mut one), (other_log, mut other)) = (logged(), logged());
    let mut specs: Vec<_> = one.engine.table().top().iter().map(|c| c.spec).collect();
    specs.retain(|s| matches!(s.run, Run::Keys(_)) || s.group == Group::Transactions);
    let (mut random, mut in_runs) = (Rng::with_seed(7), 0);
    for _ in 0..400 {
        let requests: Vec<Vec<Vec<u8>>> = (0..random.usize(1..24))
            .map(|_| generate::request(specs[random.usize(..specs.len())], &mut random))
            .collect();
        let expected: Vec<u8> = requests.iter().flat_map(|request| other.raw(request)).collect();
        let (replies, taken) = batch(&mut one, &requests);
        in_runs += taken;
        assert_eq!(replies.escape_ascii().to_string(), expected.escape_ascii().to_string());
        assert_eq!(one_log.lines(), other_log.lines());
        [&one_log, &other_log].iter().for_each(|log| log.clear());
    }
    assert!(in_runs > 1000, "only {in_runs} commands in runs");
}

/// A key that expired before a run is deleted in the log before the command that found it so, or
/// after the run.
#[test]
fn a_run_logs_what_it_found_expired() {
    let check = |lines: &[&str], expected: &[&str]| {
        let (log, clock) = (Arc::new(MemoryLog::default()), TestClock::new(NOW));
        let engine = Arc::new(Engine::new(EngineOptions {
            log: Some(log.clone()),
            clock: clock.clone(),
            ..EngineOptions::new(volatile(4, 64 << 20))
        }));
        let mut client = Client::new(&engine);
        client.check("SET {k}old v PX 10", "OK");
        client.check("HSETEX {k}h PX 10 FIELDS 1 f v", "(integer) 1");
        clock.advance_ms(100);
        log.clear();
        let requests: Vec<Vec<&[u8]>> =
            lines.iter().map(|line| line.split(' ').map(str::as_bytes).collect()).collect();
        assert!(client.pipeline(&requests).is_some(), "{lines:?}");
        assert_eq!(log.lines(), [&["SELECT 0"], expected].concat(), "{lines:?}");
        // No reply shows the deletion of a key that a reader found expired.
        let unawaited = if lines[0].starts_with("GET") { DEL.len() } else { 0 };
        assert_eq!(client.outcome.reply_after as usize, log.bytes().len() - unawaited);
    };
    const DEL: &str = "*2\r\n$3\r\nDEL\r\n$6\r\n{k}old\r\n";
    check(
        &["SET a 1", "APPEND {k}old w", "SET b 2"],
        &["SET a 1", "MULTI", "DEL {k}old", "APPEND {k}old w", "EXEC", "SET b 2"],
    );
    check(&["GET {k}old", "SET b 2"], &["SET b 2", "DEL {k}old"]);
    // A hash whose only field has expired is gone.
    let expected = ["SET b 2", "MULTI", "DEL {k}h", "HSET {k}h g w", "EXEC"];
    check(&["SET b 2", "HSET {k}h g w"], &expected);
    check(&["SET a 1", "RPUSH l x", "LPUSH l y"], &["SET a 1", "RPUSH l x", "LPUSH l y"]);
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

/// A log whose disk fails on request: its last command then waits to be written again.
#[derive(Default)]
struct Failing {
    last: Mutex<Vec<u8>>,
    end: AtomicU64,
    durable: AtomicU64,
    fails: AtomicBool,
}

impl ReplyLog for Failing {
    fn end(&self) -> u64 {
        self.end.load(Relaxed)
    }

    fn is_synchronous(&self) -> bool {
        true
    }

    fn failure(&self) -> Option<String> {
        self.unwritten().map(|_| "No space left on device".to_owned())
    }

    fn is_on(&self) -> bool {
        true
    }

    fn is_synced(&self, offset: u64) -> bool {
        offset <= self.durable.load(Relaxed)
    }

    fn sync_to(&self, offset: u64) -> bool {
        self.is_synced(offset)
    }
}

impl CommandLog for Failing {
    fn append(&self, _: Db, _: Db, bytes: &[u8]) -> u64 {
        *self.last.lock().expect("no panic") = bytes.to_vec();
        self.end.fetch_add(1, Relaxed) + 1
    }

    fn unwritten(&self) -> Option<Vec<u8>> {
        self.fails.load(Relaxed).then(|| self.last.lock().expect("no panic").clone())
    }
}

/// If a run reads what a failed log lacks, it is not executed as a run: each of its commands gets
/// its own reply, and a read of other keys is answered.
#[test]
fn a_run_that_the_failed_log_refuses_leaves_each_command_its_own_reply() {
    let log = Arc::new(Failing::default());
    let engine = Arc::new(Engine::new(EngineOptions {
        log: Some(log.clone()),
        ..EngineOptions::new(volatile(4, 64 << 20))
    }));
    let mut client = Client::new(&engine);
    client.raw(&[&b"SET"[..], b"large", &[b'v'; 64 << 10]]);
    log.durable.store(log.end(), Relaxed);
    client.raw(&[&b"SET"[..], b"k", b"new"]);
    log.fails.store(true, Relaxed);

    let words: [&[&[u8]]; 2] = [&[b"GET", b"k"], &[b"GET", b"large"]];
    let mut batch = engine.batch();
    words.iter().for_each(|words| batch.push(words));
    let mut out = Writer::new(Protocol::Resp2);
    let run = engine.execute_run(&mut client.session, &batch, 0, &mut out);
    assert_eq!(run, Err(OneByOne(2)));
    assert!(out.is_empty(), "{} bytes of replies", out.len());

    let done = engine.execute_batch(&mut client.session, &mut batch, &mut out);
    assert_eq!(done.requests, 2);
    let replies = String::from_utf8_lossy(out.as_bytes());
    let (first, second) = replies.split_once("\r\n").expect("two replies");
    assert!(first.starts_with("-MISCONF"), "{first}");
    assert!(second.starts_with("$65536\r\nvvv"), "{second:.40}");
    assert_eq!(second.len(), "$65536\r\n".len() + 65536 + 2);
}

/// The names of the arguments of a request without options, in order.
fn required(args: &[Arg]) -> Vec<&'static str> {
    args.iter()
        .filter(|arg| !arg.is_optional)
        .flat_map(|arg| match arg.kind {
            ArgKind::Block(parts) => required(parts),
            _ => vec![arg.name],
        })
        .collect()
}

/// A batch prefetches the arguments that are documented as members or fields.
#[test]
fn the_members_that_are_prefetched_are_those_of_the_documentation() {
    let engine = engine(volatile(1, 1 << 20));
    let mut seen = 0;
    for command in engine.table().all() {
        let names = required(command.spec.args);
        let words: Vec<&[u8]> =
            std::iter::once(&b"name"[..]).chain(names.iter().map(|name| name.as_bytes())).collect();
        let Some(members) = command.spec.members else { continue };
        let found: Vec<&[u8]> = members.of(&words).collect();
        let is_member = |name: &[u8]| matches!(name, b"member" | b"field");
        let all = words.iter().filter(|word| is_member(word)).count();
        assert_eq!((found.len(), found.iter().all(|name| is_member(name))), (all, true));
        assert!(command.spec.group.is_of_collections() && names[0] == "key", "{names:?}");
        seen += 1;
    }
    assert_eq!(seen, 21);
}
