//! Strings behave as in Redis; results that depend on machines or times are tested here by
//! statements.

use std::sync::Arc;

use crate::support::{Client, TestClock, volatile};
use commands::{Engine, EngineOptions};

/// No time passes between the lines.
#[track_caller]
fn check(lines: &[(&str, &str)]) {
    let clock = TestClock::new(1_700_000_000_000);
    let options = EngineOptions { clock, ..EngineOptions::new(volatile(4, 64 << 20)) };
    let mut client = Client::new(&Arc::new(Engine::new(options)));
    for (line, expected) in lines {
        client.check(line, expected);
    }
}

#[test]
fn set_obeys_its_options() {
    check(&[
        ("SET k v", "OK"),
        ("GET k", "\"v\""),
        ("SET k w NX", "(nil)"),
        ("SET k w XX GET", "\"v\""),
        ("SET new w XX", "(nil)"),
        ("SET new w NX GET", "(nil)"),
        ("GET new", "\"w\""),
        ("SET k x EX 100", "OK"),
        ("TTL k", "(integer) 100"),
        ("SET k y KEEPTTL", "OK"),
        ("TTL k", "(integer) 100"),
        ("SET k z", "OK"),
        ("TTL k", "(integer) -1"),
        ("SET k z EX 0", "(error) ERR invalid expire time in \\'set\\' command"),
        ("SET k z EX 1 PX 1", "(error) ERR syntax error"),
        ("SET k z PXAT 1", "OK"),
        ("GET k", "(nil)"),
    ]);
}

#[test]
fn numbers_are_counted_and_keep_their_expiry_time() {
    check(&[
        ("INCR n", "(integer) 1"),
        ("OBJECT ENCODING n", "\"int\""),
        ("EXPIRE n 100", "(integer) 1"),
        ("DECRBY n 5", "(integer) -4"),
        ("TTL n", "(integer) 100"),
        ("INCRBYFLOAT n 10.5", "\"6.5\""),
        ("TTL n", "(integer) 100"),
        ("INCR n", "(error) ERR value is not an integer or out of range"),
        ("SET n 9223372036854775807", "OK"),
        ("INCR n", "(error) ERR increment or decrement would overflow"),
        ("DECRBY n -9223372036854775808", "(error) ERR decrement would overflow"),
        ("APPEND n x", "(integer) 20"),
        ("OBJECT ENCODING n", "\"raw\""),
    ]);
}

#[test]
fn several_keys_are_one() {
    check(&[
        ("MSET a 1 b 2 c 3", "OK"),
        ("MGET a b nope c", "[\"1\", \"2\", (nil), \"3\"]"),
        ("MSETNX d 4 a 9", "(integer) 0"),
        ("EXISTS a b c d", "(integer) 3"),
        ("MSETNX d 4 e 5", "(integer) 1"),
        ("DEL a b nope", "(integer) 2"),
        ("MSET a", "(error) ERR wrong number of arguments for \\'mset\\' command"),
        ("MSET a 1 b", "(error) ERR wrong number of arguments for \\'mset\\' command"),
    ]);
}

#[test]
fn getex_changes_the_expiry_time() {
    check(&[
        ("SET k v", "OK"),
        ("GETEX k EX 100", "\"v\""),
        ("TTL k", "(integer) 100"),
        ("GETEX k PERSIST", "\"v\""),
        ("TTL k", "(integer) -1"),
        ("GETEX k PXAT 1", "\"v\""),
        ("EXISTS k", "(integer) 0"),
        ("SET k v", "OK"),
        ("GETDEL k", "\"v\""),
        ("GETDEL k", "(nil)"),
    ]);
}

#[test]
fn lcs_finds_ranges() {
    check(&[
        ("MSET a ohmytext b mynewtext", "OK"),
        ("LCS a b", "\"mytext\""),
        ("LCS a b LEN", "(integer) 6"),
        (
            "LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN",
            "[\"matches\", [[[(integer) 4, (integer) 7], [(integer) 5, (integer) 8], (integer) 4]], \
             \"len\", (integer) 6]",
        ),
    ]);
}
