//! Blocking commands: which client is served, when, with what, and how that is logged.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::{Client, MemoryLog, TestClock, emulated, engine, volatile};
use commands::{Engine, EngineOptions};

/// Clients by name on one engine.
struct Stage {
    engine: Arc<Engine>,
    clients: BTreeMap<char, Client>,
}

impl Stage {
    fn new(engine: Arc<Engine>) -> Stage {
        Stage { engine, clients: BTreeMap::new() }
    }

    /// Executes lines such as `a BLPOP k 0`, separated by `;`. Returns the replies as they come,
    /// `a: reply`: first that of the command, then those of clients that it unblocked, by name.
    fn run_script(&mut self, script: &str) -> String {
        let mut heard = Vec::new();
        for line in script.split("; ") {
            let (name, command) = line.split_at(2);
            let name = name.chars().next().expect("a name");
            let client = self.clients.entry(name).or_insert_with(|| Client::patient(&self.engine));
            let reply = client.run(command);
            if client.outcome.next != commands::Next::Block {
                heard.push(format!("{name}: {reply}"));
            }
            for (name, client) in &mut self.clients {
                heard.extend(client.unblocked().map(|reply| format!("{name}: {reply}")));
            }
        }
        heard.join("; ")
    }

    #[track_caller]
    fn check(&mut self, script: &str, expected: &str) {
        assert_eq!(self.run_script(script), expected, "{script}");
    }
}

#[track_caller]
fn check(script: &str, expected: &str) {
    Stage::new(engine()).check(script, expected);
}

#[test]
fn a_client_is_served_by_the_push_that_fills_its_key() {
    check(
        "a BLPOP k 0; b RPUSH k 1 2; b LLEN k",
        "b: (integer) 2; a: [\"k\", \"1\"]; b: (integer) 1",
    );
    check("a BRPOP k 0; b RPUSH k 1 2", "b: (integer) 2; a: [\"k\", \"2\"]");
    check(
        "a BLMPOP 0 2 k l LEFT COUNT 2; b RPUSH l 1 2 3",
        "b: (integer) 3; a: [\"l\", [\"1\", \"2\"]]",
    );
    check(
        "a BLPOP k 0; b RPUSH k 1; b EXISTS k",
        "b: (integer) 1; a: [\"k\", \"1\"]; b: (integer) 0",
    );
}

#[test]
fn a_filled_key_is_served_at_once_and_the_first_one_given_counts() {
    check(
        "b RPUSH l 1; b RPUSH k 2; a BLPOP j k l 0",
        "b: (integer) 1; b: (integer) 1; a: [\"k\", \"2\"]",
    );
    check(
        "b RPUSH k 1; a BLMOVE k l LEFT RIGHT 0; b LLEN l",
        "b: (integer) 1; a: \"1\"; b: (integer) 1",
    );
}

#[test]
fn who_came_first_is_served_first() {
    check(
        "c BLPOP k 0; a BLPOP k 0; b BLPOP k 0; d RPUSH k 1; d RPUSH k 2 3",
        "d: (integer) 1; c: [\"k\", \"1\"]; d: (integer) 2; a: [\"k\", \"2\"]; b: [\"k\", \"3\"]",
    );
    // Also if another key is listed first.
    check(
        "a BLPOP j k 0; b BLPOP k 0; c RPUSH k 1; c RPUSH j 2; c RPUSH k 3",
        "c: (integer) 1; a: [\"k\", \"1\"]; c: (integer) 1; c: (integer) 1; b: [\"k\", \"3\"]",
    );
}

#[test]
fn a_transaction_is_over_before_anybody_is_served() {
    check(
        "a BLPOP k 0; b MULTI; b RPUSH k 1; b LPUSH k 0; b LLEN k; b EXEC",
        "b: OK; b: QUEUED; b: QUEUED; b: QUEUED; b: [(integer) 1, (integer) 2, (integer) 2]; a: [\"k\", \"0\"]",
    );
    check(
        "a BLPOP k 0; b MULTI; b RPUSH k 1; b DEL k; b EXEC; b RPUSH k 2",
        "b: OK; b: QUEUED; b: QUEUED; b: [(integer) 1, (integer) 1]; b: (integer) 1; a: [\"k\", \"2\"]",
    );
    // The key that was filled first counts.
    check(
        "a BLPOP k j 0; b MULTI; b RPUSH j 1; b RPUSH k 2; b EXEC; b LLEN k",
        "b: OK; b: QUEUED; b: QUEUED; b: [(integer) 1, (integer) 1]; a: [\"j\", \"1\"]; b: (integer) 1",
    );
}

#[test]
fn nothing_blocks_inside_of_a_transaction() {
    check(
        "a MULTI; a BLPOP k 0; a BLMPOP 0 1 k LEFT; a BLMOVE k l LEFT LEFT 0; a BRPOPLPUSH k l 0; a WAIT 1 0; a EXEC",
        "a: OK; a: QUEUED; a: QUEUED; a: QUEUED; a: QUEUED; a: QUEUED; \
         a: [(nil), (nil), (nil), (nil), (integer) 0]",
    );
}

#[test]
fn a_move_serves_those_who_wait_for_its_target() {
    check(
        "a BLMOVE k l LEFT RIGHT 0; b BLMOVE l m LEFT RIGHT 0; c BRPOP m 0; d RPUSH k 1; d EXISTS k l m",
        "d: (integer) 1; a: \"1\"; b: \"1\"; c: [\"m\", \"1\"]; d: (integer) 0",
    );
    check(
        "a BRPOPLPUSH k k 0; b BLPOP k 0; c RPUSH k 1; c EXISTS k",
        "c: (integer) 1; a: \"1\"; b: [\"k\", \"1\"]; c: (integer) 0",
    );
    // Two clients that move an element in a circle are served once each.
    check(
        "a BRPOPLPUSH k l 0; b BRPOPLPUSH l k 0; c RPUSH k 1; c LRANGE k 0 -1",
        "c: (integer) 1; a: \"1\"; b: \"1\"; c: [\"1\"]",
    );
}

#[test]
fn a_move_that_cannot_push_fails_and_the_next_client_is_served() {
    check(
        "d SET l x; a BLMOVE k l LEFT RIGHT 0; b BLPOP k 0; d RPUSH k 1",
        "d: OK; d: (integer) 1; a: (error) WRONGTYPE Operation against a key holding the wrong kind of value; \
         b: [\"k\", \"1\"]",
    );
}

#[test]
fn every_way_to_fill_a_key_serves() {
    for (fill, reply) in [
        ("RENAME other k", "OK"),
        ("COPY other k", "(integer) 1"),
        ("LMOVE other k LEFT LEFT", "\"1\""),
        ("RPOPLPUSH other k", "\"1\""),
    ] {
        check(
            &format!("b RPUSH other 1; a BLPOP k 0; b {fill}"),
            &format!("b: (integer) 1; b: {reply}; a: [\"k\", \"1\"]"),
        );
    }
    check(
        "b SELECT 3; b RPUSH k 1; a BLPOP k 0; b SWAPDB 0 3",
        "b: OK; b: (integer) 1; b: OK; a: [\"k\", \"1\"]",
    );
    check(
        "b SELECT 3; b RPUSH k 1; a BLPOP k 0; b MOVE k 0",
        "b: OK; b: (integer) 1; b: (integer) 1; a: [\"k\", \"1\"]",
    );
}

#[test]
fn only_the_own_database_and_the_own_type_count() {
    check(
        "a BLPOP k 0; b SELECT 1; b RPUSH k 1; b LLEN k",
        "b: OK; b: (integer) 1; b: (integer) 1",
    );
    check(
        "a BLPOP k 0; b SET k 1; b DEL k; b SADD k 1; b DEL k; b RPUSH k 1",
        "b: OK; b: (integer) 1; b: (integer) 1; b: (integer) 1; b: (integer) 1; a: [\"k\", \"1\"]",
    );
    check(
        "b SET k 1; a BLPOP j k 0",
        "b: OK; a: (error) WRONGTYPE Operation against a key holding the wrong kind of value",
    );
    check("b SET k 1; b RPUSH j 1; a BLPOP j k 0", "b: OK; b: (integer) 1; a: [\"j\", \"1\"]");
}

#[test]
fn a_client_that_left_loses_no_element() {
    let mut stage = Stage::new(engine());
    stage.check("a BLPOP k j 0; b BLPOP k 0", "");
    let mut gone = stage.clients.remove(&'a').expect("a client");
    stage.engine.disconnect(&mut gone.session);
    stage.check("c RPUSH j 1; c RPUSH k 2", "c: (integer) 1; c: (integer) 1; b: [\"k\", \"2\"]");
    stage.check("c LLEN j", "c: (integer) 1");
}

#[test]
fn a_client_that_is_to_be_closed_is_passed_over() {
    let mut stage = Stage::new(engine());
    stage.check("a BLPOP k 0; b BLPOP k 0", "");
    let id = stage.clients[&'a'].session.id();
    stage.check(
        &format!("c CLIENT KILL ID {id}; c RPUSH k 1"),
        "c: (integer) 1; c: (integer) 1; b: [\"k\", \"1\"]",
    );
}

#[test]
fn many_clients_that_move_in_a_circle_are_served_once_each() {
    const PAIRS: usize = 2000;
    let engine = engine();
    let mut clients: Vec<Client> = (0..2 * PAIRS).map(|_| Client::patient(&engine)).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        client.run(if n % 2 == 0 { "BLMOVE a b LEFT RIGHT 0" } else { "BLMOVE b a LEFT RIGHT 0" });
    }
    let mut filler = Client::new(&engine);
    assert_eq!(filler.run("RPUSH a x"), "(integer) 1");
    assert!(clients.iter_mut().all(|client| client.unblocked().as_deref() == Some("\"x\"")));
    assert_eq!(filler.run("LRANGE a 0 -1"), "[\"x\"]");
    assert_eq!(filler.run("EXISTS b"), "(integer) 0");
}

#[test]
fn a_client_may_wait_for_a_hundred_thousand_keys() {
    let engine = engine();
    let (mut client, mut filler) = (Client::patient(&engine), Client::new(&engine));
    let names: Vec<String> = (0..100_000).map(|n| format!("key:{n}")).collect();
    client.run(&format!("BLPOP {} key:5 0", names.join(" ")));
    filler.check("RPUSH key:99999 1", "(integer) 1");
    assert_eq!(client.unblocked().as_deref(), Some("[\"key:99999\", \"1\"]"));
    filler.check("RPUSH key:5 1", "(integer) 1");
    filler.check("LLEN key:5", "(integer) 1");
}

#[test]
fn a_wait_ends_with_its_time_or_by_unblock() {
    let mut stage = Stage::new(engine());
    stage.check("a BLPOP k 0.5; b WAIT 1 100", "");
    let client = stage.clients.get_mut(&'a').expect("a client");
    assert!(client.session.blocked_until().is_some());
    let mut out = resp::Writer::new(resp::Protocol::Resp2);
    assert!(stage.engine.time_out(&mut client.session, &mut out).is_some());
    assert_eq!(out.as_bytes(), b"*-1\r\n");
    let id = client.session.id();
    stage.check("c RPUSH k 1; c LPOP k", "c: (integer) 1; c: \"1\"");
    stage.check("a BLPOP k 0", "");
    stage.check(
        &format!("c CLIENT UNBLOCK {id} ERROR; c CLIENT UNBLOCK {id}; c CLIENT UNBLOCK 999"),
        "c: (integer) 1; a: (error) UNBLOCKED client unblocked via CLIENT UNBLOCK; c: (integer) 0; c: (integer) 0",
    );
    let id = stage.clients[&'b'].session.id();
    stage.check(&format!("c CLIENT UNBLOCK {id}"), "c: (integer) 1; b: (integer) 0");
    let stats = |name: &str| {
        let command = stage.engine.table().get(name.as_bytes()).expect("a command");
        let stats = stage.engine.stats().command(command.id);
        (stats.calls, stats.failed)
    };
    assert_eq!((stats("blpop"), stats("wait")), ((2, 1), (1, 0)));
}

#[test]
fn timeouts_are_read_as_redis_reads_them() {
    for command in ["BLPOP k", "BRPOP k", "BLMOVE k l LEFT LEFT", "BRPOPLPUSH k l"] {
        let negative = "a: (error) ERR timeout is negative";
        let no_float = "a: (error) ERR timeout is not a float or out of range";
        for (timeout, expected) in [
            ("-1", negative),
            ("-0.1", negative),
            ("x", no_float),
            ("nan", no_float),
            ("1e300", negative),
        ] {
            check(&format!("a {command} {timeout}"), expected);
        }
    }
    check("a WAIT 1 -1", "a: (error) ERR timeout is negative");
    check("a WAIT 1 1.5", "a: (error) ERR timeout is not an integer or out of range");
    check("a WAIT 0 0; a WAIT -1 5", "a: (integer) 0; a: (integer) 0");
}

#[test]
fn replies_are_of_the_blocked_clients_protocol() {
    let mut stage = Stage::new(engine());
    stage.run_script("a HELLO 3");
    stage.check("a BLPOP k 0", "");
    let client = stage.clients.get_mut(&'a').expect("a client");
    let mut out = resp::Writer::new(resp::Protocol::Resp3);
    assert!(stage.engine.time_out(&mut client.session, &mut out).is_some());
    assert_eq!(out.as_bytes(), b"_\r\n");
}

#[test]
fn the_log_holds_each_service_after_what_filled_its_key() {
    let (log, clock) = (Arc::new(MemoryLog::default()), TestClock::new(1_700_000_000_000));
    let options = EngineOptions {
        log: Some(log.clone()),
        clock,
        ..EngineOptions::new(volatile(4, 256 << 20))
    };
    let mut stage = Stage::new(Arc::new(Engine::new(options)));
    stage
        .run_script("a BLPOP k 0; b BLMOVE k l LEFT RIGHT 0; c BLMPOP 0 1 l LEFT; d RPUSH k 1 2 3");
    stage.run_script(
        "a BRPOPLPUSH k m 0; a BRPOP m 0; a SELECT 2; a BLPOP q 0; d SELECT 2; d LPUSH q 9",
    );
    let served = stage.clients[&'a'].outcome.reply_after;
    assert_eq!(served, log.bytes().len() as u64, "the reply waits for its own record");
    let lines = log.lines();
    let expected = "SELECT 0; RPUSH k 1 2 3; MULTI; LPOP k; LMOVE k l LEFT RIGHT; LPOP l 1; EXEC; \
                    RPOPLPUSH k m; RPOP m; SELECT 2; LPUSH q 9; LPOP q";
    assert_eq!(lines.join("; "), expected);
}

#[test]
fn a_thousand_clients_on_one_key_are_served_in_order_by_one_commit() {
    let folder = tempfile::tempdir().expect("a folder");
    let keyspace = emulated(&folder.path().join("pool"), 4);
    let engine = Arc::new(Engine::new(EngineOptions::new(keyspace)));
    let mut clients: Vec<Client> = (0..1000).map(|_| Client::patient(&engine)).collect();
    for client in &mut clients {
        client.run("BLPOP k 0");
    }
    let mut filler = Client::new(&engine);
    let values: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    let before = pmem::counters();
    assert_eq!(filler.run(&format!("RPUSH k {}", values.join(" "))), "(integer) 1000");
    let spent = pmem::counters().since(&before);
    assert!(spent.fences <= 4, "{} fences", spent.fences);
    for (client, value) in clients.iter_mut().zip(&values) {
        assert_eq!(client.unblocked().as_deref(), Some(&*format!("[\"k\", \"{value}\"]")));
    }
    assert_eq!(filler.run("EXISTS k"), "(integer) 0");
}

#[test]
fn xread_waits_for_newer_entries_and_takes_none() {
    check(
        "a XREAD BLOCK 0 STREAMS x $; c XREAD COUNT 1 BLOCK 0 STREAMS y x 0 1-1; b XADD x 1-1 f v; b XADD x 1-2 g w",
        "b: \"1-1\"; a: [[\"x\", [[\"1-1\", [\"f\", \"v\"]]]]]; b: \"1-2\"; c: [[\"x\", [[\"1-2\", [\"g\", \"w\"]]]]]",
    );
    check(
        "b XADD x 1-1 f v; a XREAD BLOCK 0 STREAMS x $; b XDEL x 1-1; b DEL x; b XADD x 1-1 f v; b XADD x 2-1 f v",
        "b: \"1-1\"; b: (integer) 1; b: (integer) 1; b: \"1-1\"; b: \"2-1\"; a: [[\"x\", [[\"2-1\", [\"f\", \"v\"]]]]]",
    );
    check("b MULTI; b XREAD BLOCK 0 STREAMS x $; b EXEC", "b: OK; b: QUEUED; b: [(nil)]");
    check("a XREAD BLOCK -1 STREAMS x $", "a: (error) ERR timeout is negative");
}

#[test]
fn more_moves_than_are_locked_for_are_made_after_the_command() {
    const MOVERS: usize = 300;
    let engine = Arc::new(Engine::new(EngineOptions::new(volatile(16, 256 << 20))));
    let mut clients: Vec<Client> = (0..MOVERS).map(|_| Client::patient(&engine)).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        client.run(&format!("BLMOVE k target:{n} LEFT RIGHT 0"));
    }
    let mut last = Client::patient(&engine);
    last.run("BLPOP target:299 0");
    let mut filler = Client::new(&engine);
    let values: Vec<String> = (0..=MOVERS).map(|n| n.to_string()).collect();
    // A short command provides a value with many elements.
    filler.check(&format!("RPUSH {{k}}other {}", values.join(" ")), "(integer) 301");
    filler.check("RENAME {k}other k", "OK");
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.unblocked().as_deref(), Some(&*format!("\"{n}\"")));
    }
    assert_eq!(last.unblocked().as_deref(), Some("[\"target:299\", \"299\"]"));
    filler.check("LRANGE k 0 -1", "[\"300\"]");
    filler.check("LRANGE target:7 0 -1", "[\"7\"]");
    filler.check("EXISTS target:299", "(integer) 0");
}

#[test]
fn readers_of_a_group_wait_for_what_is_new_to_it_and_share_it() {
    let made = "m XGROUP CREATE x g $ MKSTREAM";
    let new = |id: &str| format!("[[\"x\", [[\"{id}\", [\"f\", \"v\"]]]]]");
    check(
        &format!(
            "{made}; a XREADGROUP GROUP g alice BLOCK 0 STREAMS x >; b XREADGROUP GROUP g bob BLOCK 0 STREAMS x >; c XADD x 1-1 f v; c XADD x 1-2 f v; c XPENDING x g"
        ),
        &format!(
            "m: OK; c: \"1-1\"; a: {}; c: \"1-2\"; b: {}; c: [(integer) 2, \"1-1\", \"1-2\", [[\"alice\", \"1\"], [\"bob\", \"1\"]]]",
            new("1-1"),
            new("1-2")
        ),
    );
    check(
        &format!(
            "{made}; a XREADGROUP GROUP g alice BLOCK 0 NOACK STREAMS x >; c XADD x 1-1 f v; c XPENDING x g"
        ),
        &format!("m: OK; c: \"1-1\"; a: {}; c: [(integer) 0, (nil), (nil), (nil)]", new("1-1")),
    );
    // Pending entries are returned at once, even if there are none.
    check(
        &format!("{made}; a XREADGROUP GROUP g alice BLOCK 0 STREAMS x 0"),
        "m: OK; a: [[\"x\", []]]",
    );
}

#[test]
fn readers_of_a_group_are_notified_that_it_is_gone() {
    let waits = "m XGROUP CREATE x g $ MKSTREAM; a XREADGROUP GROUP g alice BLOCK 0 STREAMS x >";
    let lost = "a: (error) UNBLOCKED the stream key no longer exists";
    let gone = "a: (error) NOGROUP the consumer group this client was blocked on no longer exists";
    check(&format!("{waits}; b XGROUP DESTROY x g"), &format!("m: OK; b: (integer) 1; {gone}"));
    check(&format!("{waits}; b DEL x"), &format!("m: OK; b: (integer) 1; {lost}"));
    check(&format!("{waits}; b SET x 1"), &format!("m: OK; b: OK; {lost}"));
    check(&format!("{waits}; b SWAPDB 0 1"), &format!("m: OK; b: OK; {lost}"));
    check(&format!("{waits}; b FLUSHALL"), &format!("m: OK; b: OK; {lost}"));
    check(
        &format!("{waits}; b XADD y 1-1 f v; b RENAME y x"),
        &format!("m: OK; b: \"1-1\"; b: OK; {gone}"),
    );
    check(
        &format!(
            "{waits}; b MULTI; b DEL x; b XGROUP CREATE x g $ MKSTREAM; b XADD x 2-1 f v; b EXEC"
        ),
        "m: OK; b: OK; b: QUEUED; b: QUEUED; b: QUEUED; b: [(integer) 1, OK, \"2-1\"]; a: [[\"x\", [[\"2-1\", [\"f\", \"v\"]]]]]",
    );
}

#[test]
fn the_words_of_a_command_that_waits_are_shown_until_it_ends() {
    let mut stage = Stage::new(engine());
    let mut shown = |script: &str| {
        let list = stage.run_script(&format!("{script}; b CLIENT LIST"));
        let fields = list.split_whitespace().filter_map(|word| word.strip_prefix("argv-mem="));
        fields.map(|bytes| bytes.parse::<usize>().expect("a number")).collect::<Vec<_>>()
    };
    let own = "CLIENTLIST".len();
    assert_eq!(shown("a BLPOP kk 0"), ["BLPOPkk0".len(), own]);
    assert_eq!(shown("b RPUSH kk 1"), [0, own]);
}
