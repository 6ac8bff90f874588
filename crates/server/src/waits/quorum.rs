//! Replies that wait until replicas have what they show (`repl-acknowledge`): as with the log, but
//! what is held back is the acknowledgement of a replica.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use commands::{Primary, Quorum};
use fastrand::Rng;

use super::replicas::replica;
use super::requests::{self, Case, Words, describe, words};
use super::stage::{Backend, Stage, Visitor};
use super::{Shown, begin, bytes, number, wire};

const ONE: Quorum = Quorum { replicas: 1, durable: false };
const NONE: Quorum = Quorum { replicas: 0, durable: false };
/// Turns of the server, between acknowledgements, after which a reply should be there.
const MOST_TURNS: usize = 20_000;

/// A server with a replica that acknowledges only when it is told to.
struct Ground {
    stage: Stage,
    replica: Visitor,
}

impl Ground {
    fn new(backend: Backend) -> Ground {
        let stage = Stage::new(backend, "no");
        let replica = replica(&stage, 1);
        Ground { stage, replica }
    }

    fn set_quorum(&self, quorum: Quorum) {
        self.stage.shared.engine.replication().set_quorum(quorum, 0);
    }

    fn changed(&self) -> u64 {
        self.stage.shared.engine.replication().stream().changed()
    }

    fn send(&self, visitor: &mut Visitor, requests: &[Words]) {
        self.stage.send(visitor, &bytes(requests));
    }

    /// Says that the replica has everything, or durably so.
    fn acknowledge(&mut self, words_before: &str) {
        let end = self.stage.shared.engine.replication().stream().end();
        let request = words(&format!("REPLCONF ACK {words_before}{end}"));
        self.stage.send(&mut self.replica, &bytes(&[request]));
        self.replica.forget();
    }

    /// Returns all that a client has received once it has `count` replies, or its connection ends,
    /// while the replica acknowledges everything at once.
    fn replies(&mut self, visitor: &mut Visitor, count: usize) -> Vec<u8> {
        for turn in 0..MOST_TURNS {
            let received = visitor.received();
            if wire::count(received) >= count || visitor.has_ended {
                return visitor.received().to_vec();
            }
            self.acknowledge("");
            if turn > MOST_TURNS / 2 {
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
        panic!("a reply does not come: {}", visitor.received().escape_ascii());
    }

    /// Compares what leaves while the replica is silent with what leaves without the write.
    fn check(&mut self, case: &Case, worker: usize) -> Result<Shown, String> {
        self.set_quorum(NONE);
        let mut reader = begin(&self.stage, &case.before, worker);
        self.send(&mut reader, &case.after);
        let without = self.stage.replies(&mut reader, case.after.len());
        let mut reader = begin(&self.stage, &case.before, worker);
        let mut writer = self.stage.visit(0);
        self.acknowledge("");
        self.set_quorum(ONE);
        let before = self.changed();
        self.send(&mut writer, &case.write);
        let has_written = self.changed() > before;
        self.send(&mut reader, &case.after);
        let (early, acknowledged) = (reader.received().to_vec(), writer.received().to_vec());
        let with = self.replies(&mut reader, case.after.len());
        self.replies(&mut writer, case.write.len());
        let wrong = |what: &str, bytes: &[u8]| {
            Err(format!(
                "{what}, with {:?}: {} (worker {worker}), after another's {}: {:.300}, not {:.300}",
                self.stage.backend,
                describe(&[&case.before[..], &case.after].concat()),
                describe(&case.write),
                bytes.escape_ascii().to_string(),
                without.escape_ascii().to_string(),
            ))
        };
        if has_written && !acknowledged.is_empty() {
            return wrong("a write was acknowledged that no replica has", &acknowledged);
        }
        if has_written && !without.starts_with(&early) {
            return wrong("a reply shows a write that no replica has", &early);
        }
        let shows = has_written && with != without;
        Ok(if shows { Shown::Write } else { Shown::Nothing })
    }
}

#[test]
fn a_reply_shows_no_write_that_no_replica_has() {
    let (seed, cases) = (number("WAITS_SEED", 1), number("WAITS_CASES", 200));
    println!("WAITS_SEED={seed} repeats this");
    let (mut random, mut showing) = (Rng::with_seed(seed), BTreeSet::new());
    for backend in [Backend::Memory, Backend::Journal, Backend::Log] {
        let mut ground = Ground::new(backend);
        for at in 0..cases {
            let engine = &ground.stage.shared.engine;
            let Some(case) = requests::case(engine, &mut random) else { continue };
            let done = ground.check(&case, (at % 2) as usize);
            if done.unwrap_or_else(|violation| panic!("{violation}")) == Shown::Write {
                showing.insert(case.name);
            }
        }
    }
    assert!(showing.len() > 60, "replies of few commands showed a write: {showing:?}");
}

/// Requests whose replies come later or from another thread, after a write that no replica has.
#[test]
fn a_reply_that_comes_later_waits_too() {
    let script: Words = {
        let text = format!("return redis.call('get','a')--{}", "x".repeat(70_000));
        [b"EVAL", text.as_bytes(), b"0"].map(Into::into).into()
    };
    let large: Words = [b"APPEND".to_vec(), b"a".to_vec(), vec![b'x'; 100_000]].into();
    let before = [large, words("DEBUG POPULATE 4000")];
    let ways: [(&[Words], &str, usize); 6] = [
        (&[words("KEYS *")], "SET new v", 1),
        (&[script], "SET a token", 1),
        (&[words("GET a")], "SETRANGE a 10 token", 1),
        (&[words("SET own 1"), words("KEYS *")], "DEL key:77", 2),
        (&[words("BLPOP list 0")], "RPUSH list token", 1),
        (&[words("MULTI"), words("GET a"), words("EXEC")], "APPEND a token", 3),
    ];
    for worker in [0, 1] {
        let mut ground = Ground::new(Backend::Memory);
        for (asks, write, count) in &ways {
            ground.set_quorum(NONE);
            let mut reader = begin(&ground.stage, &before, worker);
            let mut writer = ground.stage.visit(0);
            ground.acknowledge("");
            ground.set_quorum(ONE);
            if *write != "RPUSH list token" {
                ground.send(&mut writer, &[words(write)]);
                ground.send(&mut reader, asks);
            } else {
                ground.send(&mut reader, asks);
                ground.send(&mut writer, &[words(write)]);
            }
            for _ in 0..50 {
                ground.stage.run_idle();
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
            let early = wire::count(reader.received());
            // Nothing is shown by what MULTI answers.
            let shows_nothing = if *count == 3 { 2 } else { 0 };
            assert!(early <= shows_nothing, "{write}: {}", reader.received().escape_ascii());
            assert!(writer.received().is_empty(), "{write} was acknowledged");
            ground.replies(&mut reader, *count);
            ground.replies(&mut writer, 1);
        }
    }
}

#[test]
fn what_shows_no_data_is_answered_meanwhile() {
    let mut ground = Ground::new(Backend::Memory);
    ground.set_quorum(ONE);
    let mut writer = ground.stage.visit(0);
    ground.send(&mut writer, &[words("SET a 1")]);
    // The last one is executed by another thread.
    for asks in [
        "PING",
        "INFO replication",
        "CLIENT ID",
        "PUBLISH c m",
        "SUBSCRIBE c",
        "ROLE",
        "CONFIG REWRITE",
    ] {
        let mut other = ground.stage.visit(1);
        ground.send(&mut other, &[words(asks)]);
        assert_eq!(wire::count(&ground.stage.replies(&mut other, 1)), 1, "{asks}");
    }
    assert!(writer.received().is_empty());
    // A refusal shows nothing.
    ground.stage.shared.engine.config().set_lacks_replicas(true);
    let mut other = ground.stage.visit(1);
    ground.send(&mut other, &[words("SET b 1")]);
    assert!(ground.stage.replies(&mut other, 1).starts_with(b"-NOREPLICAS "));
    ground.stage.shared.engine.config().set_lacks_replicas(false);
    let mut other = ground.stage.visit(1);
    ground.send(&mut other, &[words("INFO replication")]);
    let info = ground.stage.replies(&mut other, 1);
    let line = b"replies_waiting_for_replicas:1\r\n";
    assert!(info.windows(line.len()).any(|part| part == line), "{}", info.escape_ascii());
    assert_eq!(ground.replies(&mut writer, 1), b"+OK\r\n");
}

#[test]
fn connections_that_are_ready_together_ask_once() {
    let mut ground = Ground::new(Backend::Memory);
    ground.set_quorum(ONE);
    ground.replica.forget();
    let mut writers: Vec<Visitor> = (0..20).map(|_| ground.stage.visit(0)).collect();
    for writer in &mut writers {
        ground.stage.write_only(writer, &bytes(&[words("SET a 1")]));
    }
    ground.stage.run_idle();
    let received = ground.replica.received().to_vec();
    let asked = received.windows(6).filter(|part| *part == b"GETACK").count();
    assert_eq!(asked, 1, "{}", received.escape_ascii());
    for mut writer in writers {
        assert_eq!(ground.replies(&mut writer, 1), b"+OK\r\n");
    }
}

#[test]
fn a_durable_acknowledgement_is_another_one() {
    let mut ground = Ground::new(Backend::Memory);
    ground.set_quorum(Quorum { durable: true, ..ONE });
    let mut writer = ground.stage.visit(0);
    ground.send(&mut writer, &[words("SET a 1")]);
    ground.acknowledge("");
    ground.stage.run_idle();
    assert!(writer.received().is_empty(), "the replica has it in memory only");
    ground.acknowledge("0 FACK ");
    assert_eq!(ground.stage.replies(&mut writer, 1), b"+OK\r\n");
}

#[test]
fn a_replica_counts_for_what_it_has_said() {
    let stage = Stage::new(Backend::Memory, "no");
    let durable = Quorum { durable: true, ..ONE };
    stage.shared.engine.replication().set_quorum(durable, 0);
    let mut writer = stage.visit(0);
    stage.send(&mut writer, &bytes(&[words("SET a 1")]));
    let mut replica = super::replicas::ask_and_receive(&stage, 1);
    stage.send(&mut replica, &bytes(&[words("REPLCONF ACK 0")]));
    stage.run_idle();
    assert!(writer.received().is_empty(), "it says nothing of what is durable");
    let mut ground = Ground { stage, replica };
    let end = ground.stage.shared.engine.replication().stream().end();
    let too_much = words(&format!("REPLCONF ACK {0} FACK {0}", end + 1000));
    ground.stage.send(&mut ground.replica, &bytes(&[too_much]));
    assert!(writer.received().is_empty(), "it claims more than there is");
    ground.set_quorum(NONE);
    let mut other = ground.stage.visit(0);
    ground.send(&mut other, &[words("GET a")]);
    assert_eq!(ground.stage.replies(&mut other, 1), b"$1\r\n1\r\n");
}

#[test]
fn a_pipeline_lowers_no_quorum_of_what_it_wrote_before() {
    for lowers in ["CLIENT ACKNOWLEDGE 0", "CLIENT ACKNOWLEDGE DEFAULT", "RESET"] {
        let mut ground = Ground::new(Backend::Memory);
        let mut writer = ground.stage.visit(0);
        let requests = ["CLIENT ACKNOWLEDGE 1", "SET a 1", lowers, "SET a 2"].map(words);
        ground.send(&mut writer, &requests);
        assert!(writer.received().is_empty(), "{lowers}");
        ground.replies(&mut writer, 4);
        writer.forget();
        ground.send(&mut writer, &[words("SET a 3")]);
        assert_eq!(ground.stage.replies(&mut writer, 1), b"+OK\r\n", "{lowers}");
    }
}

#[test]
fn a_connection_has_a_quorum_of_its_own_until_it_is_reset() {
    let mut ground = Ground::new(Backend::Memory);
    let (mut careful, mut other) = (ground.stage.visit(0), ground.stage.visit(0));
    ground.send(&mut careful, &[words("CLIENT ACKNOWLEDGE 1"), words("SET a 1")]);
    ground.send(&mut other, &[words("SET b 1")]);
    assert_eq!(ground.stage.replies(&mut other, 1), b"+OK\r\n");
    assert!(careful.received().is_empty(), "CLIENT ACKNOWLEDGE and SET are one batch");
    assert_eq!(ground.replies(&mut careful, 2), b"+OK\r\n+OK\r\n");
    careful.forget();
    ground.send(&mut careful, &[words("RESET"), words("SET a 2")]);
    assert_eq!(ground.stage.replies(&mut careful, 2), b"+RESET\r\n+OK\r\n");
    careful.forget();
    ground.set_quorum(ONE);
    ground.send(&mut careful, &[words("CLIENT ACKNOWLEDGE 0"), words("SET a 3")]);
    assert_eq!(ground.stage.replies(&mut careful, 2), b"+OK\r\n+OK\r\n");
    careful.forget();
    ground.send(&mut careful, &[words("CLIENT ACKNOWLEDGE DEFAULT"), words("SET a 4")]);
    assert!(careful.received().is_empty());
    assert_eq!(ground.replies(&mut careful, 2), b"+OK\r\n+OK\r\n");
}

/// What was executed on a primary is not acknowledged by the replica that it becomes.
#[test]
fn a_demotion_ends_the_connections_that_wait() {
    let ground = Ground::new(Backend::Memory);
    ground.set_quorum(ONE);
    let (mut writer, mut pipelining) = (ground.stage.visit(0), ground.stage.visit(1));
    ground.send(&mut writer, &[words("SET a 1")]);
    ground.send(&mut pipelining, &[words("SET b 1"), words("GET a")]);
    let engine = &ground.stage.shared.engine;
    engine.follow(Some(Primary { host: "127.0.0.1".into(), port: 1 }));
    for waiting in [&mut writer, &mut pipelining] {
        let received = ground.stage.replies(waiting, 1);
        assert!(received.starts_with(b"-UNBLOCKED "), "{}", received.escape_ascii());
        assert_eq!(wire::count(&received), 1);
        ground.stage.run_idle();
        waiting.received();
        assert!(waiting.has_ended, "the connection goes on");
    }
    // A replica's own readers wait for nobody.
    let mut reader = ground.stage.visit(0);
    ground.send(&mut reader, &[words("GET a")]);
    assert_eq!(ground.stage.replies(&mut reader, 1), b"$1\r\n1\r\n");
}

#[test]
fn a_reply_is_given_up_after_the_longest_wait() {
    let ground = Ground::new(Backend::Memory);
    ground.stage.shared.engine.replication().set_quorum(ONE, 20);
    let mut writer = ground.stage.visit(0);
    ground.send(&mut writer, &[words("SET a 1"), words("SET a 2")]);
    let received = ground.stage.replies(&mut writer, 1);
    assert!(received.starts_with(b"-NOREPLICAS 1 replicas "), "{}", received.escape_ascii());
    ground.stage.run_idle();
    writer.received();
    assert!(writer.has_ended);
}

#[test]
fn a_client_that_leaves_or_is_killed_is_not_waited_with() {
    let ground = Ground::new(Backend::Memory);
    ground.set_quorum(ONE);
    let ended = || 0_usize.wrapping_sub(ground.stage.workers[0].meter().serving.load(Relaxed));
    ground.stage.run_idle();
    let before = ended();
    let mut writer = ground.stage.visit(0);
    ground.send(&mut writer, &[words("SET a 1")]);
    assert_eq!(ground.stage.shared.engine.replication().unconfirmed(), 1);
    drop(writer);
    ground.stage.run_idle();
    assert_eq!(ground.stage.shared.engine.replication().unconfirmed(), 0);
    assert_eq!(ended(), before + 1, "its connection goes on");
    let mut writer = ground.stage.visit(0);
    ground.send(&mut writer, &[words("CLIENT SETNAME x"), words("SET a 1")]);
    let mut admin = ground.stage.visit(1);
    ground.send(&mut admin, &[words("CLIENT KILL TYPE normal")]);
    ground.stage.run_idle();
    assert!(writer.received().is_empty());
    assert!(writer.has_ended);
    assert_eq!(ground.stage.shared.engine.replication().unconfirmed(), 0);
}

/// Without any replica there is no stream to count by: a replica that comes gets everything in its
/// dump.
#[test]
fn what_was_written_before_there_was_a_replica_waits_for_its_dump() {
    let stage = Stage::new(Backend::Memory, "no");
    stage.shared.engine.replication().set_quorum(ONE, 0);
    let mut writer = stage.visit(0);
    stage.send(&mut writer, &bytes(&[words("SET a 1")]));
    assert!(writer.received().is_empty());
    let replica = super::replicas::ask_and_receive(&stage, 1);
    let mut ground = Ground { stage, replica };
    assert!(writer.received().is_empty(), "the replica has not said that it has its dump");
    assert_eq!(ground.replies(&mut writer, 1), b"+OK\r\n");
}
