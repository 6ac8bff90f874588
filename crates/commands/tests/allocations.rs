//! A command with one key allocates nothing between reading its words and writing its reply.
//!
//! This is a program of its own, since its counting allocator serves the whole process.
//!
//! Tables in DRAM that grow with the data may allocate periodically, so the median of many
//! executions is taken.
//!
//! A command on streams holds in DRAM what it will change, not everything that it visits.

mod support;

use std::sync::Arc;

use commands::{Engine, EngineOptions, Peer};
use resp::{Protocol, Writer};
use support::{emulated, volatile};

const ROUNDS: usize = 101;

/// Median number of allocations for `line`, with `#` for the number of the round.
fn allocations(engine: &Arc<Engine>, line: &str) -> u64 {
    let mut session = engine.connect(Peer::default(), 0);
    let mut out = Writer::append_to(Vec::with_capacity(1 << 20), Protocol::Resp2);
    let mut counts: Vec<u64> = (0..ROUNDS)
        .map(|round| {
            let line = line.replace('#', &round.to_string());
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let counted = allocation_counter::measure(|| {
                let _ = engine.execute(&mut session, &words, &mut out);
            });
            counted.count_total
        })
        .collect();
    assert!(!out.as_bytes().windows(3).any(|w| w == b"\n-E"), "{line} fails");
    engine.disconnect(&mut session);
    counts.sort_unstable();
    counts[ROUNDS / 2]
}

#[test]
fn commands_with_one_key_allocate_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine =
        Arc::new(Engine::new(EngineOptions::new(emulated(&folder.path().join("pool"), 4))));
    let value = "v".repeat(32);
    for line in [
        "PING",
        &format!("SET key:# {value}"),
        &format!("SET key:# {value}"),
        "GET key:#",
        "GET nothing",
        "STRLEN key:#",
        "GETRANGE key:# 1 5",
        "EXISTS key:#",
        "EXPIRE key:# 1000",
        "TTL key:#",
        "PERSIST key:#",
        "INCR number:#",
        "INCR number:#",
        "INCRBY number:# 5",
        "SET key:# v EX 1000 XX",
        "TYPE key:#",
        "DEL key:#",
        "DEL key:#",
    ] {
        assert_eq!(allocations(&engine, line), 0, "{line}");
    }
}

/// The maximum number of bytes allocated at once while `line` is executed, and the reply.
fn most_bytes(engine: &Arc<Engine>, line: &str) -> (u64, String) {
    let mut session = engine.connect(Peer::default(), 0);
    let mut out = Writer::append_to(Vec::with_capacity(1 << 20), Protocol::Resp2);
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let counted = allocation_counter::measure(|| {
        let _ = engine.execute(&mut session, &words, &mut out);
    });
    engine.disconnect(&mut session);
    (counted.bytes_max, String::from_utf8_lossy(out.as_bytes()).into_owned())
}

/// An engine with a stream `x` of this many entries, after these lines.
fn stream(entries: usize, lines: &[&str]) -> Arc<Engine> {
    let engine = Arc::new(Engine::new(EngineOptions::new(volatile(4, 64 << 20))));
    for n in 1..=entries {
        most_bytes(&engine, &format!("XADD x 1-{n} f v"));
    }
    for line in lines {
        let (_, reply) = most_bytes(&engine, line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    engine
}

/// Less than what 20000 IDs take, which are 320 KB.
const FEW: u64 = 64 << 10;

#[test]
fn a_trim_holds_the_references_that_go_and_no_entries() {
    let group = ["XGROUP CREATE x g 0", "XREADGROUP GROUP g a COUNT 50 STREAMS x >"];
    let engine = stream(20_000, &group);
    for (line, gone) in [
        ("XTRIM x DELREF MAXLEN ~ 0 LIMIT 200", ":200\r\n"),
        ("XTRIM x DELREF MAXLEN 10", ":19790\r\n"),
    ] {
        let (bytes, reply) = most_bytes(&engine, line);
        assert_eq!(reply, gone, "{line}");
        assert!(bytes < FEW, "{bytes} bytes for {line}");
    }
}

#[test]
fn a_claim_holds_what_it_delivers_and_not_all_that_is_pending() {
    let group = ["XGROUP CREATE x g 0", "XREADGROUP GROUP g a STREAMS x >"];
    let engine = stream(20_000, &group);
    for _ in 0..2 {
        let line = "XREADGROUP GROUP g b COUNT 3 CLAIM 0 STREAMS x >";
        let (bytes, reply) = most_bytes(&engine, line);
        assert_eq!(reply.matches("$1\r\nf\r\n").count(), 3, "{reply}");
        assert!(bytes < FEW, "{bytes} bytes");
    }
}

#[test]
fn strings_are_combined_in_place() {
    let engine = stream(0, &["SETBIT a 8388607 1", "SETBIT b 8388600 1", "SETBIT c 8388607 1"]);
    let (bytes, reply) = most_bytes(&engine, "BITOP ONE d a b c");
    assert_eq!(reply, ":1048576\r\n");
    // The bits set in one source, those set in several, and the next string, which grows while it
    // is read.
    assert!(bytes < 4 << 20, "{bytes} bytes");
}
