//! A server that follows a primary, without the sockets: what it executes, and what its clients
//! are told.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use commands::{
    Applier, Clock, CommandLog, Engine, EngineOptions, Primary, ReceivedCommand, ReplyLog,
};
use engine::replication::Wanted;
use keyspace::Db;
use replication::{Id, Replica, Stage};

use crate::load::{load, save};
use crate::support::{Client, MemoryLog, TestClock, emulated, engine, volatile};

/// Makes the server follow a primary, or nobody.
fn follow(engine: &Engine, follows: bool) {
    let primary = Primary { host: "127.0.0.1".to_owned(), port: 1 };
    engine.follow(follows.then_some(primary));
}

/// Returns a server that receives the stream of a primary.
fn replica() -> Arc<Engine> {
    let engine = engine();
    engine.config().set_replicas_are_read_only(true);
    follow(&engine, true);
    engine.replication().stream().adopt(Id::NONE, 0, None);
    engine
}

/// Executes commands of the primary.
#[track_caller]
fn receive(engine: &Engine, lines: &[&str]) {
    let mut applier = Applier::new(engine, engine.replication().stream().epoch(), None);
    let words: Vec<Vec<&[u8]>> =
        lines.iter().map(|line| line.split(' ').map(str::as_bytes).collect()).collect();
    let received = lines.iter().zip(&words);
    let commands: Vec<_> =
        received.map(|(line, words)| ReceivedCommand { words, bytes: line.as_bytes() }).collect();
    applier.apply(&commands).expect("they are executed");
}

#[test]
fn a_read_only_replica_gives_a_client_that_waits_nothing_of_its_primarys() {
    let engine = replica();
    engine.config().set_replicas_are_read_only(false);
    let (mut reader, mut writer) = (Client::patient(&engine), Client::patient(&engine));
    writer.check("BLPOP l 0", "(blocked)");
    reader.check("XREAD BLOCK 0 STREAMS x $", "(blocked)");
    engine.config().set_replicas_are_read_only(true);
    receive(&engine, &["XADD x 1-1 a b", "RPUSH l 1"]);
    let refused = "(error) READONLY You can\\'t write against a read only replica.";
    assert_eq!(writer.unblocked().as_deref(), Some(refused));
    let served = "[[\"x\", [[\"1-1\", [\"a\", \"b\"]]]]]";
    assert_eq!(reader.unblocked().as_deref(), Some(served));
    reader.check("LLEN l", "(integer) 1");
}

#[test]
fn a_wait_for_replicas_that_begins_with_the_end_of_a_primary_ends_at_once() {
    let engine = replica();
    let mut client = Client::patient(&engine);
    // What waits here is like a WAIT that found a primary.
    client.check("XREAD BLOCK 0 STREAMS x $", "(blocked)");
    let wanted = Wanted { replicas: 1, offset: 1, durable: false };
    engine.wait_for_replicas(&client.session, wanted);
    let told = "(error) UNBLOCKED force unblock from blocking operation, instance state changed \
                (master -> replica?)";
    assert_eq!(client.unblocked().as_deref(), Some(told));
}

#[test]
fn a_wait_after_a_promotion_is_for_the_present_history() {
    let engine = engine();
    let mut client = Client::patient(&engine);
    let stream = engine.replication().stream();
    engine.replication().switch_on();
    let wait = |client: &mut Client| {
        let before = stream.end();
        client.check("WAIT 1 0", "(blocked)");
        let asked = stream.end() > before;
        assert!(engine.unblock(client.session.id(), false));
        assert_eq!(client.unblocked().as_deref(), Some("(integer) 0"));
        asked
    };
    client.check(&format!("SET a {}", "x".repeat(1000)), "OK");
    assert!(wait(&mut client), "the replicas are asked");
    assert!(!wait(&mut client), "they were asked");
    follow(&engine, true);
    stream.adopt(Id::NONE, 10, None);
    follow(&engine, false);
    // What the client wrote before is where no replica will ever be.
    let replica = Replica::new(77, "host".to_owned(), 1, 0);
    replica.set_stage(Stage::Online, 0);
    let replica = engine.replication().replicas().enter(replica);
    replica.acknowledge(10, None, 0);
    client.check("WAIT 1 0", "(integer) 1");
    client.check("SET a 1", "OK");
    assert!(wait(&mut client), "the replicas of this history were not asked");
}

/// Returns a server with a clock of its own.
fn timed() -> (Arc<Engine>, Arc<TestClock>) {
    let clock = TestClock::new(1_700_000_000_000);
    let keyspace = volatile(4, 64 << 20);
    let options = EngineOptions { clock: clock.clone(), ..EngineOptions::new(keyspace) };
    (Arc::new(Engine::new(options)), clock)
}

#[test]
fn what_is_received_was_used_when_it_came() {
    let (engine, clock) = timed();
    let mut client = Client::new(&engine);
    client.check("SET own 1 PX 1000", "OK");
    follow(&engine, true);
    engine.replication().stream().adopt(Id::NONE, 0, None);
    clock.advance_ms(100_000);
    // In a run, in a transaction, by itself.
    receive(&engine, &["SET one 1", "SET two 1", "MULTI", "SET three 1", "EXEC", "PERSIST own"]);
    receive(&engine, &["SET four 1"]);
    clock.advance_ms(50_000);
    for key in ["one", "two", "three", "four"] {
        client.check(&format!("OBJECT IDLETIME {key}"), "(integer) 50");
    }
    client.check("GET own", "\"1\"");
}

#[test]
fn what_is_in_a_primarys_dump_was_used_when_it_was_loaded() {
    let (engine, clock) = timed();
    let mut client = Client::new(&engine);
    client.check("SET a 1", "OK");
    client.check("SET expired 1 PX 1000", "OK");
    let dump = save(&client);
    clock.advance_ms(100_000);
    load(&mut client, &dump, true).expect("a dump");
    clock.advance_ms(50_000);
    client.check("OBJECT IDLETIME a", "(integer) 50");
    client.check("DBSIZE", "(integer) 2");
}

/// A clock that gives the server a log when it is read next.
#[derive(Default)]
struct LateLog {
    log: Arc<CountingLog>,
    engine: Mutex<Option<Arc<Engine>>>,
}

impl Clock for LateLog {
    fn unix_ns(&self) -> u64 {
        if let Some(engine) = self.engine.lock().expect("no panic").take() {
            assert!(engine.set_log(self.log.clone()));
        }
        1_700_000_000_000_000_000
    }
}

/// A log that counts what it lacks.
#[derive(Default)]
struct CountingLog {
    log: MemoryLog,
    skipped: AtomicUsize,
}

impl ReplyLog for CountingLog {
    fn end(&self) -> u64 {
        self.log.end()
    }

    fn is_synchronous(&self) -> bool {
        true
    }

    fn failure(&self) -> Option<String> {
        None
    }

    fn is_on(&self) -> bool {
        true
    }

    fn is_synced(&self, _: u64) -> bool {
        true
    }

    fn sync_to(&self, _: u64) -> bool {
        true
    }
}

impl CommandLog for CountingLog {
    fn append(&self, first: Db, last: Db, bytes: &[u8]) -> u64 {
        self.log.append(first, last, bytes)
    }

    fn note_skipped(&self) {
        self.skipped.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_log_that_comes_within_a_command_of_the_primary_knows_that_it_lacks_it() {
    let clock = Arc::new(LateLog::default());
    let keyspace = volatile(4, 64 << 20);
    let options = EngineOptions { clock: clock.clone(), ..EngineOptions::new(keyspace) };
    let engine = Arc::new(Engine::new(options));
    follow(&engine, true);
    engine.replication().stream().adopt(Id::NONE, 0, None);
    let mut applier = Applier::new(&engine, engine.replication().stream().epoch(), None);
    *clock.engine.lock().expect("no panic") = Some(Arc::clone(&engine));
    let words: &[&[u8]] = &[b"SET", b"a", b"1"];
    applier.apply(&[ReceivedCommand { words, bytes: b"set" }]).expect("it is executed");
    assert!(engine.log().is_some());
    assert_eq!((clock.log.log.lines().len(), clock.log.skipped.load(Relaxed)), (0, 1));
    receive(&engine, &["SET b 1"]);
    assert_eq!((clock.log.log.lines().len(), clock.log.skipped.load(Relaxed)), (2, 1));
}

/// A value that the medium damaged here only: what the primary says of the key's time is taken, so
/// that the link goes on.
#[test]
fn a_damaged_value_takes_the_expiry_time_that_the_primary_sets() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let value = "a value that is found again in the file";
    let keyspace = emulated(&path, 1);
    let engine = Arc::new(Engine::new(EngineOptions::new(keyspace)));
    Client::new(&engine).check(&format!("SET key {}", value.replace(' ', "-")), "OK");
    engine.keyspace().heap().close().expect("a clean close");
    drop(engine);
    let mut bytes = std::fs::read(&path).expect("the pool");
    let value = value.replace(' ', "-");
    let at = bytes.windows(value.len()).position(|part| part == value.as_bytes());
    bytes[at.expect("the value") + 3] ^= 1;
    std::fs::write(&path, bytes).expect("the pool");

    let engine = Arc::new(Engine::new(EngineOptions::new(emulated(&path, 1))));
    follow(&engine, true);
    engine.replication().stream().adopt(Id::NONE, 0, None);
    receive(&engine, &["PEXPIREAT key 33000000000000", "SET other 1"]);
    let mut client = Client::new(&engine);
    client.check("PEXPIRETIME key", "(integer) 33000000000000");
    let reply = client.run("GET key");
    assert!(reply.starts_with("(error) MEDIAERR"), "{reply}");
    receive(&engine, &["SET key again"]);
    client.check("GET key", "\"again\"");
}
