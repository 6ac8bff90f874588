//! Strings and bitmaps of Redis 8.2 and 8.4, and of Valkey 8 and 9: replies, error texts, keyspace
//! events and the log.
//!
//! The commands are newer than the server of the comparison. The expected results come from the
//! documentation and the tests of Redis 8.4 and Valkey 9.

use std::sync::Arc;

use crate::support::{Client, MemoryLog, TestClock, volatile};
use commands::{Engine, EngineOptions};

const NOW: u64 = 1_700_000_000_000;
const SYNTAX: &str = "(error) ERR syntax error";
const WRONG: &str = "(error) WRONGTYPE Operation against a key holding the wrong kind of value";

fn server() -> (Client, Arc<MemoryLog>) {
    let (log, clock) = (Arc::new(MemoryLog::default()), TestClock::new(NOW));
    let options = EngineOptions {
        log: Some(log.clone()),
        clock,
        ..EngineOptions::new(volatile(4, 64 << 20))
    };
    (Client::new(&Arc::new(Engine::new(options))), log)
}

#[track_caller]
fn check(lines: &[(&str, &str)]) {
    let (mut client, _) = server();
    lines.iter().for_each(|(line, expected)| client.check(line, expected));
}

/// After these lines, separated by `;`, the log contains these (after the first SELECT).
#[track_caller]
fn logs(lines: &str, expected: &str) {
    let (mut client, log) = server();
    lines.split("; ").for_each(|line| drop(client.run(line)));
    let written = log.lines();
    let written = written.strip_prefix(&["SELECT 0".to_owned()]).unwrap_or(&written);
    assert_eq!(written.join("; "), expected, "{lines}");
}

/// The digests are those of the reference implementation (`xxhsum -H3`).
#[test]
fn a_digest_is_that_of_xxh3() {
    check(&[
        ("DIGEST nothing", "(nil)"),
        ("SET k hello", "OK"),
        ("DIGEST k", "\"9555e8555c62dcfd\""),
        ("SET k \"\"", "OK"),
        ("DIGEST k", "\"2d06800538d394c2\""),
        ("RPUSH l a", "(integer) 1"),
        ("DIGEST l", WRONG),
        ("DIGEST", "(error) ERR wrong number of arguments for \\'digest\\' command"),
    ]);
    // A long value is hashed piece by piece, and a number as its text.
    let (mut client, _) = server();
    let long = vec![b'x'; 300_000];
    client.raw(&[b"SET", &b"long"[..], &long]);
    client.run("SETRANGE long 299999 x");
    let expected = format!("\"{:016x}\"", xxhash_rust::xxh3::xxh3_64(&long));
    client.check("DIGEST long", &expected);
    client.run("SET n 12345");
    let expected = format!("\"{:016x}\"", xxhash_rust::xxh3::xxh3_64(b"12345"));
    client.check("DIGEST n", &expected);
}

#[test]
fn set_compares_with_what_is_there() {
    check(&[
        ("SET k v IFEQ x", "(nil)"),
        ("EXISTS k", "(integer) 0"),
        ("SET k v IFNE x", "OK"),
        ("SET k w IFEQ x", "(nil)"),
        ("SET k w IFEQ v", "OK"),
        ("SET k x IFNE w", "(nil)"),
        ("SET k x IFNE v GET", "\"w\""),
        ("SET k y IFEQ z GET", "\"x\""),
        ("GET k", "\"x\""),
        ("SET k y ifeq x EX 100", "OK"),
        ("TTL k", "(integer) 100"),
        ("SET k z IFEQ y KEEPTTL", "OK"),
        ("TTL k", "(integer) 100"),
        ("SET k 12 IFEQ z", "OK"),
        ("SET k 13 IFEQ 12", "OK"),
        ("SET k a IFEQ 13 NX", SYNTAX),
        ("SET k a XX IFEQ 13", SYNTAX),
        ("SET k a IFEQ 13 IFEQ 13", SYNTAX),
        ("SET k a IFEQ", SYNTAX),
        ("RPUSH l a", "(integer) 1"),
        ("SET l a IFEQ a", WRONG),
        ("SET l a IFNE b", WRONG),
        ("SET l a IFDEQ 1", WRONG),
        ("LLEN l", "(integer) 1"),
    ]);
}

#[test]
fn set_compares_digests() {
    let bad = "(error) ERR must be exactly 16 hexadecimal characters";
    check(&[
        ("SET k v IFDEQ 1", "(nil)"),
        ("SET k hello IFDNE 1", "OK"),
        ("SET k v IFDEQ 1", bad),
        ("SET k v IFDNE zzzzzzzzzzzzzzzz", bad),
        ("SET k v IFDNE 9555e8555c62dcfd", "(nil)"),
        ("SET k v IFDEQ 0555e8555c62dcfd", "(nil)"),
        ("SET k v IFDEQ 9555E8555C62DCFD", "OK"),
        ("GET k", "\"v\""),
    ]);
}

#[test]
fn delex_deletes_on_a_condition() {
    let arity = "(error) ERR wrong number of arguments for \\'delex\\' command";
    check(&[
        ("DELEX k", "(integer) 0"),
        ("DELEX k IFEQ", "(integer) 0"),
        ("HSET h f v", "(integer) 1"),
        ("DELEX h IFEQ v", "(error) ERR Key should be of string type if conditions are specified"),
        ("DELEX h", "(integer) 1"),
        ("SET k hello", "OK"),
        ("DELEX k IFEQ", arity),
        ("DELEX k IFEQ a b", arity),
        ("DELEX k EQ hello", "(error) ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"),
        ("DELEX k IFEQ hell", "(integer) 0"),
        ("DELEX k IFNE hello", "(integer) 0"),
        ("DELEX k IFDNE 9555e8555c62dcfd", "(integer) 0"),
        ("DELEX k IFDEQ 9555e8555c62dcfd", "(integer) 1"),
        ("EXISTS k", "(integer) 0"),
        ("SET k 5", "OK"),
        ("DELEX k IFNE 4", "(integer) 1"),
    ]);
    logs("SET k v; DELEX k IFEQ w; DELEX k IFEQ v; DELEX k", "SET k v; DEL k");
}

#[test]
fn delifeq_deletes_what_is_equal() {
    check(&[
        ("DELIFEQ k v", "(integer) 0"),
        ("SET k v", "OK"),
        ("DELIFEQ k w", "(integer) 0"),
        ("DELIFEQ k v", "(integer) 1"),
        ("EXISTS k", "(integer) 0"),
        ("RPUSH l a", "(integer) 1"),
        ("DELIFEQ l a", WRONG),
    ]);
    logs("SET k v; DELIFEQ k w; DELIFEQ k v", "SET k v; DEL k");
}

#[test]
fn msetex_sets_all_or_nothing() {
    let pairs = "(error) ERR wrong number of key-value pairs";
    let count = "(error) ERR invalid numkeys value";
    check(&[
        ("MSETEX 2 a 1 b 2", "(integer) 1"),
        ("MGET a b", "[\"1\", \"2\"]"),
        ("MSETEX 2 b 3 c 4 NX", "(integer) 0"),
        ("MSETEX 2 b 3 c 4 XX", "(integer) 0"),
        ("MSETEX 2 a 3 b 4 XX EX 100", "(integer) 1"),
        ("TTL b", "(integer) 100"),
        ("MSETEX 2 a 5 c 6 KEEPTTL", "(integer) 1"),
        ("TTL a", "(integer) 100"),
        ("TTL c", "(integer) -1"),
        ("MSETEX 1 d 7 PXAT 1700000001000 nx", "(integer) 1"),
        ("PTTL d", "(integer) 1000"),
        ("MSETEX 2 a 1 b", pairs),
        ("MSETEX 2147483647 a 1", pairs),
        ("MSETEX 2147483648 a 1", count),
        ("MSETEX 0 a 1", count),
        ("MSETEX a 1 EX 10", count),
        ("MSETEX 1 a 1 NX XX", SYNTAX),
        ("MSETEX 1 a 1 EX 1 PX 1", SYNTAX),
        ("MSETEX 1 a 1 KEEPTTL EX 1", SYNTAX),
        ("MSETEX 1 a 1 EX", SYNTAX),
        ("MSETEX 1 a 1 b 2", SYNTAX),
        ("MSETEX 1 a 1 EX 0", "(error) ERR invalid expire time in \\'msetex\\' command"),
        ("MSETEX 1 a", "(error) ERR wrong number of arguments for \\'msetex\\' command"),
        ("COMMAND GETKEYS MSETEX 2 a 1 b 2 EX 5", "[\"a\", \"b\"]"),
    ]);
    logs("MSETEX 2 a 1 b 2; MSETEX 1 a 1 NX", "MSET a 1 b 2");
    let expected = "MULTI; SET a 1 PXAT 1700000010000; SET b 2 PXAT 1700000010000; EXEC";
    logs("MSETEX 2 a 1 b 2 EX 10", expected);
    logs("MSETEX 1 a 1 KEEPTTL", "SET a 1 KEEPTTL");
}

/// Bits of `a`: 1100 1100, of `b`: 1010 1010 0000 1111, of `c`: 1111 0000.
#[test]
fn bits_are_compared_with_those_of_other_keys() {
    let (mut client, _) = server();
    for (key, value) in [("a", &b"\xcc"[..]), ("b", b"\xaa\x0f"), ("c", b"\xf0")] {
        client.raw(&[b"SET", key.as_bytes(), value]);
    }
    for (line, expected) in [
        ("BITOP DIFF d a b c", "\"\\x04\\x00\""),
        ("BITOP DIFF1 d a b c", "\"2\\x0f\""),
        ("BITOP ANDOR d a b c", "\"\\xc8\\x00\""),
        ("BITOP ONE d a b c", "\"\\x16\\x0f\""),
        ("BITOP ONE d b c a", "\"\\x16\\x0f\""),
        ("BITOP ONE d b b a", "\"D\\x00\""),
        ("BITOP one d b", "\"\\xaa\\x0f\""),
        ("BITOP DIFF d nothing b", "\"\\x00\\x00\""),
    ] {
        client.check(line, "(integer) 2");
        client.check("GET d", expected);
    }
    client.check("BITOP ANDOR d nothing neither", "(integer) 0");
    client.check("EXISTS d", "(integer) 0");
    for name in ["DIFF", "DIFF1", "ANDOR"] {
        let error =
            format!("(error) ERR BITOP {name} must be called with at least two source keys.");
        client.check(&format!("BITOP {name} d a"), &error);
    }
    client.check("BITOP TWO d a b", SYNTAX);
    logs("SET a a; SET b c; BITOP DIFF1 d a b", "SET a a; SET b c; SET d \u{2}");
    logs("SET d a; BITOP ONE d x y", "SET d a; DEL d");
}

#[test]
fn fields_are_scanned_without_their_values() {
    let refused = "(error) ERR NOVALUES option can only be used in HSCAN";
    check(&[
        ("HSET h a 1 b 2", "(integer) 2"),
        ("HSCAN h 0 NOVALUES", "[\"0\", [\"a\", \"b\"]]"),
        ("HSCAN h 0 COUNT 5 novalues MATCH b", "[\"0\", [\"b\"]]"),
        ("HSCAN h 0 NOVALUES x", SYNTAX),
        ("SADD s a", "(integer) 1"),
        ("SSCAN s 0 NOVALUES", refused),
        ("SCAN 0 NOVALUES", refused),
        ("ZADD z 1 a", "(integer) 1"),
        ("ZSCAN z 0 NOVALUES", refused),
    ]);
}
