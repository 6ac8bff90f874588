//! Field expiration: replies, error texts and the log.
//!
//! The commands are newer than the server of the comparison. The expected results come from the
//! sources of Redis 7.4 (HEXPIRE, HTTL and their variants, HPERSIST) and 8.0 (HGETEX, HSETEX,
//! HGETDEL), and from their tests.

use std::sync::Arc;

use crate::support::wire::{Reply, parse};
use crate::support::{Client, MemoryLog, TestClock, requests, volatile};
use commands::{Engine, EngineOptions};

const NOW: u64 = 1_700_000_000_000;

struct Server {
    client: Client,
    clock: Arc<TestClock>,
    log: Arc<MemoryLog>,
}

fn server() -> Server {
    let (log, clock) = (Arc::new(MemoryLog::default()), TestClock::new(NOW));
    let options = EngineOptions {
        log: Some(log.clone()),
        clock: clock.clone(),
        ..EngineOptions::new(volatile(4, 64 << 20))
    };
    Server { client: Client::new(&Arc::new(Engine::new(options))), clock, log }
}

/// Each line gives this reply; "wait" lets milliseconds pass. Runs with a small hash and with a
/// large one, which is a table because of a long field; "only these" deletes that field.
#[track_caller]
fn check(lines: &[(&str, &str)]) {
    for large in [false, true] {
        let mut server = server();
        if large {
            server.client.run("CONFIG SET hash-max-listpack-entries 0");
            let long = "x".repeat(2000);
            server.client.run(&format!("HSET h long {long}"));
        }
        for (line, expected) in lines {
            match line.strip_prefix("wait ") {
                Some(ms) => server.clock.advance_ms(ms.parse().expect("milliseconds")),
                None if *line == "only these" => drop(server.client.run("HDEL h long")),
                None => server.client.check(line, expected),
            }
        }
    }
}

#[test]
fn a_time_is_set_read_and_removed() {
    check(&[
        ("HSET h a 1 b 2 c 3", "(integer) 3"),
        ("HEXPIRE h 10 FIELDS 2 a nothing", "[(integer) 1, (integer) -2]"),
        ("HTTL h FIELDS 3 a b nothing", "[(integer) 10, (integer) -1, (integer) -2]"),
        ("HPTTL h FIELDS 1 a", "[(integer) 10000]"),
        ("HEXPIRETIME h FIELDS 1 a", "[(integer) 1700000010]"),
        ("HPEXPIRETIME h FIELDS 1 a", "[(integer) 1700000010000]"),
        ("wait 9001", ""),
        ("HTTL h FIELDS 1 a", "[(integer) 1]"),
        ("HPTTL h FIELDS 1 a", "[(integer) 999]"),
        ("HPERSIST h FIELDS 3 a b nothing", "[(integer) 1, (integer) -1, (integer) -2]"),
        ("HTTL h FIELDS 1 a", "[(integer) -1]"),
        ("HPEXPIRE h 500 FIELDS 1 a", "[(integer) 1]"),
        ("HEXPIREAT h 1700000100 FIELDS 1 b", "[(integer) 1]"),
        ("HPEXPIREAT h 1700000100001 FIELDS 1 c", "[(integer) 1]"),
        (
            "HPEXPIRETIME h FIELDS 3 a b c",
            "[(integer) 1700000009501, (integer) 1700000100000, (integer) 1700000100001]",
        ),
        ("HTTL nothing FIELDS 2 a b", "[(integer) -2, (integer) -2]"),
        ("HEXPIRE nothing 10 FIELDS 2 a b", "[(integer) -2, (integer) -2]"),
        ("HPERSIST nothing FIELDS 1 a", "[(integer) -2]"),
    ]);
}

#[test]
fn conditions_hold_or_nothing_changes() {
    check(&[
        ("HSET h a 1 b 2", "(integer) 2"),
        ("HEXPIRE h 10 XX FIELDS 1 a", "[(integer) 0]"),
        ("HEXPIRE h 10 GT FIELDS 1 a", "[(integer) 0]"),
        ("HEXPIRE h 10 nx FIELDS 1 a", "[(integer) 1]"),
        ("HEXPIRE h 20 NX FIELDS 2 a b", "[(integer) 0, (integer) 1]"),
        ("HEXPIRE h 10 GT FIELDS 1 a", "[(integer) 0]"),
        ("HEXPIRE h 10 LT FIELDS 1 a", "[(integer) 0]"),
        ("HEXPIRE h 11 GT FIELDS 1 a", "[(integer) 1]"),
        ("HEXPIRE h 9 LT FIELDS 1 a", "[(integer) 1]"),
        ("HPERSIST h FIELDS 1 a", "[(integer) 1]"),
        ("HEXPIRE h 99 LT FIELDS 1 a", "[(integer) 1]"),
        ("HEXPIRE h 0 NX FIELDS 1 a", "[(integer) 0]"),
        ("HEXPIRE h 0 FIELDS 3 a a b", "[(integer) 2, (integer) -2, (integer) 2]"),
        ("HEXISTS h a", "(integer) 0"),
    ]);
}

#[test]
fn an_expired_field_is_absent_for_every_command() {
    check(&[
        ("HSET h a 1 b 2 n 5", "(integer) 3"),
        ("only these", ""),
        ("HPEXPIRE h 10 FIELDS 2 a n", "[(integer) 1, (integer) 1]"),
        ("HLEN h", "(integer) 3"),
        ("wait 10", ""),
        ("HLEN h", "(integer) 1"),
        ("HGET h a", "(nil)"),
        ("HMGET h a b", "[(nil), \"2\"]"),
        ("HGETALL h", "[\"b\", \"2\"]"),
        ("HKEYS h", "[\"b\"]"),
        ("HVALS h", "[\"2\"]"),
        ("HEXISTS h a", "(integer) 0"),
        ("HSTRLEN h a", "(integer) 0"),
        ("HSCAN h 0", "[\"0\", [\"b\", \"2\"]]"),
        ("HRANDFIELD h", "\"b\""),
        ("HRANDFIELD h 5", "[\"b\"]"),
        ("HTTL h FIELDS 1 a", "[(integer) -2]"),
        ("HPERSIST h FIELDS 1 a", "[(integer) -2]"),
        ("HEXPIRE h 5 FIELDS 1 a", "[(integer) -2]"),
        ("HDEL h a", "(integer) 0"),
        ("HINCRBY h n 2", "(integer) 2"),
        ("HTTL h FIELDS 1 n", "[(integer) -1]"),
        ("HSETNX h a 7", "(integer) 1"),
    ]);
    check(&[
        ("HSET h a 1 b 2", "(integer) 2"),
        ("only these", ""),
        ("HPEXPIRE h 10 FIELDS 1 a", "[(integer) 1]"),
        ("HPEXPIRE h 20 FIELDS 1 b", "[(integer) 1]"),
        ("wait 10", ""),
        ("HSET h a 3", "(integer) 1"),
        ("HTTL h FIELDS 1 a", "[(integer) -1]"),
        ("HPEXPIRE h 5 FIELDS 1 a", "[(integer) 1]"),
        ("wait 10", ""),
        ("EXISTS h", "(integer) 0"),
        ("TYPE h", "none"),
        ("RPUSH h x", "(integer) 1"),
    ]);
}

#[test]
fn a_value_that_is_written_drops_the_time_and_one_that_is_counted_keeps_it() {
    check(&[
        ("HSETEX h EX 10 FIELDS 3 a 1 b 2 c 1.5", "(integer) 1"),
        ("HSET h a 5", "(integer) 0"),
        ("HINCRBY h b 5", "(integer) 7"),
        ("HINCRBYFLOAT h c 1", "\"2.5\""),
        ("HTTL h FIELDS 3 a b c", "[(integer) -1, (integer) 10, (integer) 10]"),
        ("RENAME h {h}2", "OK"),
        ("COPY {h}2 h", "(integer) 1"),
        ("HTTL h FIELDS 3 a b c", "[(integer) -1, (integer) 10, (integer) 10]"),
        ("EXPIRE h 5", "(integer) 1"),
        ("PERSIST h", "(integer) 1"),
        ("HTTL h FIELDS 1 b", "[(integer) 10]"),
        ("TTL h", "(integer) -1"),
    ]);
}

#[test]
fn values_are_read_with_a_change_of_times() {
    check(&[
        ("HSET h a 1 b 2", "(integer) 2"),
        ("HGETEX h FIELDS 2 a nothing", "[\"1\", (nil)]"),
        ("HTTL h FIELDS 1 a", "[(integer) -1]"),
        ("HGETEX h EX 10 FIELDS 1 a", "[\"1\"]"),
        ("HTTL h FIELDS 1 a", "[(integer) 10]"),
        ("HGETEX h PX 10 FIELDS 1 a", "[\"1\"]"),
        ("HPTTL h FIELDS 1 a", "[(integer) 10]"),
        ("HGETEX h EXAT 1700000001 FIELDS 1 a", "[\"1\"]"),
        ("HGETEX h PXAT 1700000001001 FIELDS 1 b", "[\"2\"]"),
        ("HPEXPIRETIME h FIELDS 2 a b", "[(integer) 1700000001000, (integer) 1700000001001]"),
        ("HGETEX h PERSIST FIELDS 2 a b", "[\"1\", \"2\"]"),
        ("HTTL h FIELDS 2 a b", "[(integer) -1, (integer) -1]"),
        ("HGETEX h PXAT 1 FIELDS 2 a a", "[\"1\", (nil)]"),
        ("HEXISTS h a", "(integer) 0"),
        ("HGETDEL h FIELDS 3 b b nothing", "[\"2\", (nil), (nil)]"),
        ("HEXISTS h b", "(integer) 0"),
        ("HGETEX nothing EX 1 FIELDS 1 a", "[(nil)]"),
        ("HGETDEL nothing FIELDS 1 a", "[(nil)]"),
    ]);
}

#[test]
fn fields_are_set_with_ttls_where_a_condition_holds() {
    check(&[
        ("HSETEX h FXX FIELDS 1 a 1", "(integer) 0"),
        ("HSETEX h FNX EX 5 FIELDS 2 a 1 b 2", "(integer) 1"),
        ("HSETEX h FNX FIELDS 2 b 3 c 3", "(integer) 0"),
        ("HSETEX h FXX FIELDS 2 b 3 c 3", "(integer) 0"),
        ("HSETEX h KEEPTTL FXX FIELDS 1 a 4", "(integer) 1"),
        ("HSETEX h FIELDS 1 b 4", "(integer) 1"),
        ("HMGET h a b c", "[\"4\", \"4\", (nil)]"),
        ("HTTL h FIELDS 2 a b", "[(integer) 5, (integer) -1]"),
        ("HSETEX h PXAT 1 FIELDS 2 a 9 c 9", "(integer) 1"),
        ("HMGET h a b c", "[(nil), \"4\", (nil)]"),
        ("HSETEX new PXAT 1 FIELDS 1 a 9", "(integer) 1"),
        ("EXISTS new", "(integer) 0"),
    ]);
}

#[test]
fn errors_are_those_of_redis() {
    let arity =
        |name: &str| format!("(error) ERR wrong number of arguments for \\'{name}\\' command");
    let invalid = |name: &str| format!("(error) ERR invalid expire time in \\'{name}\\' command");
    const PLACE: &str =
        "(error) ERR Mandatory argument FIELDS is missing or not at the right position";
    const MATCH: &str = "(error) ERR The `numfields` parameter must match the number of arguments";
    const POSITIVE: &str = "(error) ERR Number of fields must be a positive integer";
    const GREATER: &str = "(error) ERR Parameter `numFields` should be greater than 0";
    const NEGATIVE: &str = "(error) ERR invalid expire time, must be >= 0";
    const INTEGER: &str = "(error) ERR value is not an integer or out of range";
    const WRONG: &str = "(error) WRONGTYPE Operation against a key holding the wrong kind of value";
    const ONE_TIME: &str =
        "(error) ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
    const ONE_CONDITION: &str = "(error) ERR Only one of FXX or FNX arguments can be specified";
    check(&[
        ("SET s v", "OK"),
        ("HEXPIRE s x FIELDS 1 a", WRONG),
        ("HTTL s x 1 a", WRONG),
        ("HPERSIST s x 1 a", WRONG),
        ("HGETEX s x 1 a", WRONG),
        ("HGETDEL s x 1 a", WRONG),
        ("HSETEX s FIELDS 1 a 1", WRONG),
        ("HEXPIRE h 1 FIELDS 1", &arity("hexpire")),
        ("HEXPIRE h x FIELDS 1 a", INTEGER),
        ("HEXPIRE h -1 FIELDS 1 a", NEGATIVE),
        ("HEXPIRE h 70368744177 FIELDS 1 a", &invalid("hexpire")),
        ("HEXPIREAT h 70368744178 FIELDS 1 a", &invalid("hexpireat")),
        ("HPEXPIREAT h 70368744177664 FIELDS 1 a", &invalid("hpexpireat")),
        ("HPEXPIREAT h 70368744177663 FIELDS 1 a", "[(integer) -2]"),
        ("HEXPIRE h 1 FIELD 1 a", PLACE),
        ("HEXPIRE h 1 NX XX FIELDS 1 a", PLACE),
        ("HEXPIRE h 1 FIELDS 0 a", GREATER),
        ("HEXPIRE h 1 FIELDS x a", GREATER),
        ("HEXPIRE h 1 FIELDS 2 a", MATCH),
        ("HEXPIRE h 1 NX FIELDS 1", MATCH),
        ("HTTL h FIELDS 1", &arity("httl")),
        ("HTTL h x 1 a", PLACE),
        ("HTTL h FIELDS 0 a", POSITIVE),
        ("HTTL h FIELDS 2 a", MATCH),
        ("HPERSIST h FIELDS -1 a", POSITIVE),
        ("HGETEX h FIELDS 2 a", MATCH),
        ("HGETEX h EX FIELDS 1 a", INTEGER),
        ("HGETEX h EX 10 FIELDS", &arity("hgetex")),
        ("HGETEX h PX -1 FIELDS 1 a", NEGATIVE),
        ("HGETEX h KEEPTTL FIELDS 1 a", PLACE),
        ("HGETDEL h FIELDS 0 a", POSITIVE),
        ("HGETDEL h FIELDS 2 a", MATCH),
        ("HGETDEL h x 1 a", PLACE),
        ("HSETEX h FIELDS 1 a", &arity("hsetex")),
        ("HSETEX h FIELDS 2 a b c", &arity("hsetex")),
        ("HSETEX h FIELDS 1 a b unknown", &arity("hsetex")),
        ("HSETEX h ZX FIELDS 1 a b", "(error) ERR unknown argument: ZX"),
        ("HSETEX h FIELDS 0 a b", "(error) ERR invalid number of fields"),
        ("HSETEX h FXX FNX FIELDS 1 a b", ONE_CONDITION),
        ("HSETEX h EX 1 KEEPTTL FIELDS 1 a b", ONE_TIME),
        ("HSETEX h EX FIELDS 1 a b", INTEGER),
        ("HSETEX h EX 1 FNX FNX PX", ONE_CONDITION),
        ("HSETEX h FNX KEEPTTL KEEPTTL EX", ONE_TIME),
        ("HSETEX h FNX fnx FIELDS EX", ONE_CONDITION),
        ("HSETEX h EXAT -1 1 a b", NEGATIVE),
    ]);
}

#[test]
fn the_encoding_is_listpackex_or_hashtable() {
    let mut client = server().client;
    client.run("HSET h a 1 b 2");
    client.check("OBJECT ENCODING h", "\"listpack\"");
    client.run("HEXPIRE h 10 FIELDS 1 a");
    client.check("OBJECT ENCODING h", "\"listpackex\"");
    client.run("HPERSIST h FIELDS 1 a");
    client.check("OBJECT ENCODING h", "\"listpackex\"");
    client.run(&format!("HSET h c {}", "x".repeat(100)));
    client.check("OBJECT ENCODING h", "\"hashtable\"");
}

/// After these lines, separated by `;`, the log contains these (after the first SELECT).
#[track_caller]
fn logs(lines: &str, expected: &str) {
    let mut server = server();
    for line in lines.split("; ") {
        match line.strip_prefix("wait ") {
            Some(ms) => server.clock.advance_ms(ms.parse().expect("milliseconds")),
            None => drop(server.client.run(line)),
        }
    }
    let written = server.log.lines();
    let written = written.strip_prefix(&["SELECT 0".to_owned()]).unwrap_or(&written);
    assert_eq!(written.join("; "), expected, "{lines}");
}

#[test]
fn what_is_logged_gives_the_same_at_any_time() {
    const MADE: &str = "HSET h a 1 b 2";
    let after = |lines: &str, expected: &str| {
        logs(&format!("{MADE}; {lines}"), &format!("{MADE}; {expected}"));
    };
    logs(
        "HEXPIRE h 1 FIELDS 1 a; HPERSIST h FIELDS 1 a; HGETDEL h FIELDS 1 a; HTTL h FIELDS 1 a",
        "",
    );
    after("HEXPIRE h 1 FIELDS 3 a x b", "HPEXPIREAT h 1700000001000 FIELDS 2 a b");
    after("HEXPIRE h 1 XX FIELDS 1 a; HEXPIRE h 0 FIELDS 2 a x", "HDEL h a");
    const TIMED: &str = "HPEXPIREAT h 1700000000005 FIELDS 1 a";
    after(
        "HPEXPIRE h 5 FIELDS 1 a; HPERSIST h FIELDS 2 a b",
        &format!("{TIMED}; HPERSIST h FIELDS 1 a"),
    );
    after("HGETEX h PX 5 FIELDS 2 a x; HGETEX h FIELDS 1 a", TIMED);
    after(
        "HGETEX h PX 5 FIELDS 1 a; HGETEX h PERSIST FIELDS 2 a b",
        &format!("{TIMED}; HPERSIST h FIELDS 1 a"),
    );
    after("HGETEX h PXAT 1 FIELDS 1 a; HGETDEL h FIELDS 2 b x", "HDEL h a; HDEL h b");
    after("HSETEX h FXX PX 5 FIELDS 1 a 3", "HSETEX h PXAT 1700000000005 FIELDS 1 a 3");
    after("HSETEX h FNX FIELDS 1 a 3; HSETEX h PXAT 1 FIELDS 2 a 3 c 3", "HDEL h a");
    after("HSETEX h KEEPTTL FIELDS 1 a 3", "HSETEX h KEEPTTL FIELDS 1 a 3");
    after("HINCRBYFLOAT h a 1", "HSET h a 2");
    after(
        "HPEXPIRE h 5 FIELDS 1 a; HINCRBYFLOAT h a 1",
        &format!("{TIMED}; HSETEX h KEEPTTL FIELDS 1 a 2"),
    );
    after("HPEXPIRE h 5 FIELDS 1 a; wait 5; HGET h a", TIMED);
    after(
        "HPEXPIRE h 5 FIELDS 1 a; wait 5; HSET h c 1",
        &format!("{TIMED}; MULTI; HDEL h a; HSET h c 1; EXEC"),
    );
    after("HPEXPIRE h 5 FIELDS 1 a; wait 5; HSETNX h b 1; HDEL h a", &format!("{TIMED}; HDEL h a"));
    after(
        "HPEXPIRE h 5 FIELDS 1 a; wait 5; RENAME h g",
        &format!("{TIMED}; MULTI; HDEL h a; RENAME h g; EXEC"),
    );
    after(
        "HPEXPIRE h 5 FIELDS 2 a b; wait 5; HSET h c 1",
        "HPEXPIREAT h 1700000000005 FIELDS 2 a b; MULTI; DEL h; HSET h c 1; EXEC",
    );
}

/// More fields have expired than one command deletes, and the hash has been renamed when one of
/// them is found.
#[test]
fn a_field_that_expired_is_deleted_in_the_log_under_the_name_that_its_hash_had() {
    let mut server = server();
    for n in 0..300 {
        server.client.run(&format!("HSETEX {{b}} PX 5 FIELDS 1 f{n} 7"));
    }
    server.client.run("HSET {b} lasting 1");
    server.clock.advance_ms(10);
    for line in ["MULTI", "RENAME {b} {b}a", "HINCRBY {b}a f299 1", "EXEC"] {
        server.client.run(line);
    }
    server.client.check("HGET {b}a f299", "\"1\"");
    let options =
        EngineOptions { clock: server.clock.clone(), ..EngineOptions::new(volatile(2, 64 << 20)) };
    let copy = Arc::new(Engine::new(options));
    let mut replay = Client::of(&copy, copy.connect_replay());
    for request in requests(&server.log.bytes()) {
        replay.raw(&request);
    }
    Client::new(&copy).check("HGET {b}a f299", "\"1\"");
}

#[test]
fn replaying_the_log_gives_the_same_fields() {
    let mut server = server();
    let mut random = fastrand::Rng::with_seed(9);
    let expirations = ["", "PX 40", "KEEPTTL", "EX 1"];
    for _ in 0..4000 {
        let key = ["h", "{h}1", "g"][random.usize(..3)];
        let (a, b) = (random.u8(..30), random.u8(..30));
        let ms = random.u8(..90);
        let line = match random.u8(..12) {
            0 => format!("HSET {key} f{a} 1 f{b} 2"),
            1 => format!("HPEXPIRE {key} {ms} FIELDS 2 f{a} f{b}"),
            2 => format!("HSETEX {key} {} FIELDS 1 f{a} {ms}", expirations[random.usize(..4)]),
            3 => format!("HGETEX {key} PX {ms} FIELDS 1 f{a}"),
            4 => format!("HINCRBY {key} f{a} 1"),
            5 => format!("HSETNX {key} f{a} 1"),
            6 => format!("HDEL {key} f{a} f{b}"),
            7 => format!("HPERSIST {key} FIELDS 1 f{a}"),
            8 => format!("COPY {key} {{h}}1 REPLACE"),
            9 => format!("HINCRBYFLOAT {key} f{a} 0.5"),
            10 => format!("HGETDEL {key} FIELDS 1 f{a}"),
            _ => format!("HSETEX {key} FNX PX {ms} FIELDS 2 f{a} 1 f{b} 2"),
        };
        server.client.run(&line);
        server.clock.advance_ms(random.u64(..5));
        if random.u8(..30) == 0 {
            let now = NOW;
            let keyspace = server.client.engine.keyspace();
            let (mut txn, _) = keyspace.expire_step(random.usize(..4), 20, now).expect("a commit");
            server.client.engine.commit_step(&mut txn, keyspace.losses());
        }
    }
    let options =
        EngineOptions { clock: server.clock.clone(), ..EngineOptions::new(volatile(2, 64 << 20)) };
    let copy = Arc::new(Engine::new(options));
    let mut replay = Client::of(&copy, copy.connect_replay());
    for request in requests(&server.log.bytes()) {
        let reply = replay.raw(&request);
        assert!(!reply.starts_with(b"-"), "{}", String::from_utf8_lossy(&reply));
    }
    let mut copied = Client::new(&copy);
    for key in ["h", "{h}1", "g"] {
        for field in 0..30 {
            for ask in ["HGET", "HPEXPIRETIME"] {
                let line = match ask {
                    "HGET" => format!("HGET {key} f{field}"),
                    _ => format!("{ask} {key} FIELDS 1 f{field}"),
                };
                assert_eq!(copied.run(&line), server.client.run(&line), "{line}");
            }
        }
        let line = format!("HLEN {key}");
        assert_eq!(copied.run(&line), server.client.run(&line), "{line}");
    }
}

#[test]
fn info_counts_fields_and_their_hashes() {
    let mut server = server();
    server.client.run("HSETEX h PX 5 FIELDS 2 a 1 b 2");
    server.client.run("HSET h c 3");
    assert!(server.client.run("INFO keyspace").contains("keys=1,expires=0,avg_ttl=0,subexpiry=1"));
    server.clock.advance_ms(5);
    server.client.run("HSET h d 4");
    assert!(server.client.run("INFO stats").contains("expired_subkeys:2"));
    assert!(!server.client.run("INFO keyspace").contains("subexpiry"));
}

/// Events as Redis 8.0.6 sends them.
#[test]
fn a_field_that_is_set_to_a_time_that_is_past_is_set_and_deleted() {
    let engine = crate::support::engine();
    engine.set_events(commands::EventClasses::parse(b"KEA"));
    let (mut listener, mut client) =
        (crate::support::Client::new(&engine), crate::support::Client::new(&engine));
    listener.run("PSUBSCRIBE __keyspace@0__:*");
    let heard = || {
        let mut bytes = Vec::new();
        let _ = listener.session.client.take_pushes(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let messages = text.split("pmessage").skip(1);
        // The last word of a message.
        let events: Vec<&str> = messages.filter_map(|message| message.lines().nth(6)).collect();
        events.join(" ")
    };
    for (line, reply, events) in [
        ("HSETEX h EXAT 1 FIELDS 1 f v", "(integer) 1", "hset hdel del"),
        ("HSET h f v g w", "(integer) 2", "hset"),
        ("HSETEX h FXX EXAT 1 FIELDS 1 f v", "(integer) 1", "hset hdel"),
        ("HSETEX h PXAT 1 FIELDS 2 new v other v", "(integer) 1", "hset hdel"),
        ("HSETEX h FNX EXAT 1 FIELDS 1 g v", "(integer) 0", ""),
        ("HSETEX h EXAT 1 FIELDS 1 g v", "(integer) 1", "hset hdel del"),
        ("HSETEX h EX 100 FIELDS 1 f v", "(integer) 1", "hset hexpire"),
        ("HSETEX h KEEPTTL FIELDS 1 f v", "(integer) 1", "hset"),
    ] {
        client.check(line, reply);
        assert_eq!(heard(), events, "{line}");
    }
}

/// A replay, for which nothing expires, stores them: a field that is made again would get the old
/// value, and its time.
#[test]
fn fields_that_a_restored_payload_had_are_deleted_in_the_log_if_they_have_expired() {
    let mut server = server();
    server.client.run("HSET h a 1 b 2 c 3");
    server.client.run("HPEXPIRE h 100 FIELDS 2 a b");
    let payload = match parse(&server.client.raw(&["DUMP", "h"])) {
        Reply::Bulk(_, Some(payload)) => payload,
        _ => panic!("no payload"),
    };
    server.clock.advance_ms(101);
    server.log.clear();
    let reply = server.client.raw(&[&b"RESTORE"[..], b"copy", b"0", &payload]);
    assert_eq!(reply, b"+OK\r\n");
    server.client.check("HINCRBY copy a 5", "(integer) 5");
    let logged = server.log.lines();
    assert!(logged.iter().any(|line| line == "HDEL copy a b"), "{logged:?}");
    let copy = Arc::new(Engine::new(EngineOptions::new(volatile(2, 64 << 20))));
    let mut replay = Client::of(&copy, copy.connect_replay());
    for request in requests(&server.log.bytes()) {
        replay.raw(&request);
    }
    let mut reader = Client::new(&copy);
    reader.check("HMGET copy a b c", "[\"5\", (nil), \"3\"]");
    reader.check("HPTTL copy FIELDS 1 a", "[(integer) -1]");
}

/// The payload of a hash whose fields have these times, unix ms.
fn payload_of(fields: &[(&str, u64)]) -> Vec<u8> {
    let mut writer = rdb::Writer::new(Vec::new(), true);
    let mut write = || {
        writer.kind(rdb::Kind::HashExpiring)?;
        // Times are counted from the earliest, which is 1.
        writer.millis(1)?;
        writer.length(fields.len() as u64)?;
        for (field, time) in fields {
            writer.length(*time)?;
            writer.string(field.as_bytes())?;
            writer.string(b"1")?;
        }
        std::io::Result::Ok(())
    };
    write().expect("memory takes everything");
    let mut payload = writer.into_inner();
    rdb::payload::append_footer(&mut payload, rdb::VERSION);
    payload
}

/// A replay, for which nothing expires, would refuse the payload.
#[test]
fn a_payload_that_has_an_expired_field_twice_is_refused() {
    let mut server = server();
    let later = NOW + 100_000;
    for (fields, expected) in [
        (&[("a", 1), ("b", 1)][..], "+OK\r\n"),
        (&[("a", 1), ("b", later)], "+OK\r\n"),
        (&[("a", later), ("a", later)], "-ERR Bad data format\r\n"),
        (&[("a", 1), ("a", later)], "-ERR Bad data format\r\n"),
        (&[("a", later), ("b", 1), ("a", 1)], "-ERR Bad data format\r\n"),
        (&[("a", 1), ("b", later), ("a", 2)], "-ERR Bad data format\r\n"),
        (&[("a", 1), ("a", 1)], "-ERR Bad data format\r\n"),
    ] {
        server.client.run("SET copy old");
        server.log.clear();
        let payload = payload_of(fields);
        let reply = server.client.raw(&[&b"RESTORE"[..], b"copy", b"0", &payload, b"REPLACE"]);
        assert_eq!(String::from_utf8_lossy(&reply), expected, "{fields:?}");
        if expected.starts_with('-') {
            server.client.check("GET copy", "\"old\"");
            assert!(server.log.lines().is_empty(), "{fields:?}");
        }
    }
}
