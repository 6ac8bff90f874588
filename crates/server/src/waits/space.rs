//! A journal without space, on a disk on which nothing is applied: writes wait, and nobody else.
//!
//! The threads of the journal are ended, as if their calls never returned. The test applies, or
//! lets that fail.

use std::time::{Duration, Instant};

use pmem::{Call, Region};

use super::bytes;
use super::requests::words;
use super::stage::{Backend, Stage, Visitor};

/// The policies under which no reply needs the threads of the journal.
const POLICIES: [&str; 2] = ["always", "no"];

fn region(stage: &Stage) -> &Region {
    stage.shared.engine.keyspace().heap().region()
}

/// Starts a server with the smallest journal, and lets a client write until it is nearly full.
fn full_stage(policy: &'static str) -> Stage {
    let stage = Stage::with(Backend::Journal, policy, &[("journal-size", "64kb")]);
    stage.shared.journal.as_ref().expect("a journal").stop();
    let mut writer = stage.visit(0);
    let value = "v".repeat(300);
    let mut written = 0;
    while !region(&stage).is_nearly_full() {
        written += 1;
        assert!(written < 1000, "the journal does not become full");
        check(&stage, &mut writer, &format!("SET key:{written} {value}"), "+OK\r\n");
    }
    stage
}

fn send(stage: &Stage, client: &mut Visitor, lines: &[&str]) {
    let requests: Vec<_> = lines.iter().map(|line| words(line)).collect();
    stage.send(client, &bytes(&requests));
}

/// Checks for the reply to a request that waits for nothing.
#[track_caller]
fn check(stage: &Stage, client: &mut Visitor, line: &str, expected: &str) {
    client.forget();
    send(stage, client, &[line]);
    let reply = stage.replies(client, 1);
    assert_eq!(reply.escape_ascii().to_string(), expected.escape_default().to_string(), "{line}");
    client.forget();
}

/// Gives the journal all of its space, as its thread does when the disk goes on.
fn apply(stage: &Stage) {
    region(stage).checkpoint().expect("a disk that works");
}

/// Requests that write, each of its own kind, and what follows once there is space.
const WRITES: [(&[&str], &str); 7] = [
    (&["SET a 1"], "+OK\r\n"),
    (&["DEL key:1"], ":1\r\n"),
    (&["EVAL return(redis.call('incr','n')) 0"], ":1\r\n"),
    (&["RPUSH list x", "BLPOP list 0"], ":1\r\n*2\r\n$4\r\nlist\r\n$1\r\nx\r\n"),
    (&["EXPIRE key:2 100"], ":1\r\n"),
    (&["SADD set x", "SADD set y", "SADD set z"], ":1\r\n:1\r\n:1\r\n"),
    (&["BLPOP key:3 0"], "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
];

#[test]
fn a_write_waits_for_space_and_nobody_else_does() {
    for policy in POLICIES {
        let stage = full_stage(policy);
        let end = region(&stage).appended();
        let mut writers: Vec<Visitor> = WRITES.iter().map(|_| stage.visit(0)).collect();
        for (writer, (lines, _)) in writers.iter_mut().zip(WRITES) {
            send(&stage, writer, lines);
        }
        let mut transaction = stage.visit(0);
        for (line, reply) in [("MULTI", "+OK\r\n"), ("SET t 1", "+QUEUED\r\n")] {
            check(&stage, &mut transaction, line, reply);
        }
        send(&stage, &mut transaction, &["EXEC"]);
        // Replies before the write leave.
        let mut pipeline = stage.visit(0);
        send(&stage, &mut pipeline, &["PING", "GET nothing", "SET p 1", "PING"]);
        assert_eq!(stage.replies(&mut pipeline, 2), b"+PONG\r\n$-1\r\n");
        for worker in [0, 1] {
            let mut other = stage.visit(worker);
            for (line, reply) in [
                ("PING", "+PONG\r\n"),
                ("GET a", "$-1\r\n"),
                ("STRLEN key:1", ":300\r\n"),
                ("EVAL_RO return(redis.call('exists','n')) 0", ":0\r\n"),
                ("PUBLISH channel message", ":0\r\n"),
                ("CONFIG SET maxclients 100", "+OK\r\n"),
                ("SET a", "-ERR wrong number of arguments for 'set' command\r\n"),
            ] {
                check(&stage, &mut other, line, reply);
            }
        }
        let all = writers.iter_mut().chain([&mut transaction]);
        for (n, writer) in all.enumerate() {
            assert!(writer.received().is_empty(), "writer {n} waits, with {policy}");
        }
        assert_eq!(region(&stage).appended(), end, "something was written, with {policy}");
        apply(&stage);
        for (writer, (lines, expected)) in writers.iter_mut().zip(WRITES) {
            let reply = stage.replies(writer, lines.len());
            assert_eq!(reply.escape_ascii().to_string(), expected.escape_default().to_string());
        }
        assert_eq!(stage.replies(&mut transaction, 1), b"*1\r\n+OK\r\n");
        assert_eq!(stage.replies(&mut pipeline, 4), b"+PONG\r\n$-1\r\n+OK\r\n+PONG\r\n");
    }
}

/// Commands that are executed together take much space at once: only while there is as much.
#[test]
fn a_pipeline_waits_for_space_before_a_command_and_not_in_it() {
    let stage = Stage::with(Backend::Journal, "no", &[("journal-size", "512kb")]);
    stage.shared.journal.as_ref().expect("a journal").stop();
    let mut writer = stage.visit(0);
    let value = "v".repeat(7000);
    let sets: Vec<_> = (0..16).map(|n| words(&format!("SET key:{n} {value}"))).collect();
    let mut waited = 0;
    for _ in 0..30 {
        writer.forget();
        stage.send(&mut writer, &bytes(&sets));
        if region(&stage).is_nearly_full() {
            waited += 1;
            apply(&stage);
        }
        assert_eq!(stage.replies(&mut writer, sets.len()), "+OK\r\n".repeat(sets.len()).as_bytes());
    }
    let counts = region(&stage).journal_counts().expect("a journal");
    assert!(waited > 3 && counts.full_waits == 0, "{waited} waits, {counts:?}");
}

#[test]
fn a_write_that_waits_when_the_disk_fails_is_told() {
    for policy in POLICIES {
        let stage = full_stage(policy);
        let mut writer = stage.visit(0);
        send(&stage, &mut writer, &["PING", "SET a 1", "GET key:1"]);
        assert_eq!(stage.replies(&mut writer, 1), b"+PONG\r\n");
        stage.calls.fail(Call::Write);
        region(&stage).checkpoint().expect_err("a disk that fails");
        let replies = stage.replies(&mut writer, 2);
        let text = replies.escape_ascii().to_string();
        assert!(text.starts_with("+PONG\\r\\n-MISCONF Errors writing to the journal"), "{text}");
    }
}

#[test]
fn a_client_that_waits_for_space_can_be_killed_and_its_write_is_not_made() {
    let stage = full_stage("no");
    let mut writer = stage.visit(0);
    check(&stage, &mut writer, "CLIENT SETNAME writer", "+OK\r\n");
    send(&stage, &mut writer, &["SET a 1"]);
    let mut admin = stage.visit(1);
    send(&stage, &mut admin, &["CLIENT KILL USER default SKIPME yes"]);
    stage.replies(&mut admin, 1);
    stage.run_idle();
    assert!(writer.received().is_empty() && writer.has_ended);
    apply(&stage);
    check(&stage, &mut admin, "EXISTS a", ":0\r\n");
}

/// Waits until this many clients are connected.
#[track_caller]
fn wait_for_clients(stage: &Stage, count: usize) {
    let begin = Instant::now();
    while stage.shared.engine.clients().len() != count {
        assert!(begin.elapsed() < Duration::from_secs(60), "not {count} clients");
        std::thread::sleep(Duration::from_millis(5));
        stage.run_idle();
    }
}

#[test]
fn a_client_that_goes_away_while_it_waits_for_space_is_forgotten() {
    let stage = full_stage("no");
    let mut admin = stage.visit(1);
    check(&stage, &mut admin, "PING", "+PONG\r\n");
    let before = stage.shared.engine.clients().len();
    // One that has sent a write, and one that sends more than is read meanwhile.
    let many = "SET b 1\r\n".repeat(10_000);
    for sent in ["SET a 1\r\n", &many] {
        let mut writer = stage.visit(0);
        stage.write_only(&mut writer, sent.as_bytes());
        stage.run_idle();
        drop(writer);
    }
    wait_for_clients(&stage, before);
    apply(&stage);
    check(&stage, &mut admin, "EXISTS a b", ":0\r\n");
}

#[test]
fn a_client_that_waits_for_space_gets_its_messages_and_no_more_than_it_may() {
    let stage = full_stage("no");
    let mut listener = stage.visit(0);
    send(&stage, &mut listener, &["HELLO 3", "SUBSCRIBE channel", "SET a 1"]);
    listener.forget();
    let mut admin = stage.visit(1);
    check(&stage, &mut admin, "PUBLISH channel hello", ":1\r\n");
    stage.run_idle();
    let got = listener.received().escape_ascii().to_string();
    assert!(got.ends_with("$5\r\nhello\r\n".escape_default().to_string().as_str()), "{got}");
    let words = ["CONFIG", "SET", "client-output-buffer-limit", "pubsub 100kb 0 0"];
    admin.forget();
    stage.send(&mut admin, &bytes(&[words.map(|word| word.as_bytes().to_vec()).to_vec()]));
    assert_eq!(stage.replies(&mut admin, 1), b"+OK\r\n");
    let before = stage.shared.engine.clients().len();
    let message = "m".repeat(50_000);
    for _ in 0..100 {
        admin.forget();
        send(&stage, &mut admin, &[&format!("PUBLISH channel {message}")]);
        stage.replies(&mut admin, 1);
    }
    wait_for_clients(&stage, before - 1);
    apply(&stage);
    check(&stage, &mut admin, "EXISTS a", ":0\r\n");
}

#[test]
fn the_server_can_be_ended_while_writes_wait_for_space() {
    for (line, now) in [("SHUTDOWN NOSAVE NOW", true), ("SHUTDOWN NOSAVE", false)] {
        let stage = full_stage("no");
        let mut writers = [0, 1].map(|worker| stage.visit(worker));
        writers.iter_mut().for_each(|writer| send(&stage, writer, &["SET a 1"]));
        let mut admin = stage.visit(1);
        send(&stage, &mut admin, &[line]);
        let request = stage.shared.shutdown.get().expect("a request to end");
        assert_eq!((request.now, request.nosave), (now, true));
        assert!(writers.iter_mut().all(|writer| writer.received().is_empty()));
    }
}

/// What nobody asked for waits too: keys that have expired are treated as such, and stay.
#[test]
fn nothing_expires_while_there_is_no_space() {
    let stage = full_stage("no");
    apply(&stage);
    let mut client = stage.visit(0);
    check(&stage, &mut client, "SET short v PX 1", "+OK\r\n");
    let value = "v".repeat(300);
    while !region(&stage).is_nearly_full() {
        check(&stage, &mut client, &format!("SET a {value}"), "+OK\r\n");
    }
    let before = region(&stage).appended();
    check(&stage, &mut client, "GET short", "$-1\r\n");
    assert!(!stage.shared.engine.may_delete_unasked());
    assert_eq!(region(&stage).appended(), before);
    apply(&stage);
    assert!(stage.shared.engine.may_delete_unasked());
}

#[test]
fn a_reply_waits_for_a_sync_that_is_late_and_its_worker_for_none() {
    let stage = Stage::new(Backend::Journal, "everysec");
    stage.shared.journal.as_ref().expect("a journal").stop();
    let mut writer = stage.visit(0);
    check(&stage, &mut writer, "SET a 1", "+OK\r\n");
    while !region(&stage).is_sync_late() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    send(&stage, &mut writer, &["SET a 2"]);
    let mut other = stage.visit(0);
    check(&stage, &mut other, "PING", "+PONG\r\n");
    assert!(writer.received().is_empty(), "its sync is late");
    region(&stage).sync_in_background().expect("a disk that works");
    assert_eq!(stage.replies(&mut writer, 1), b"+OK\r\n");
}
