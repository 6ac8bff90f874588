//! References of consumer groups to deleted entries: XDELEX, XACKDEL, and the options of XADD and
//! XTRIM, of Redis 8.2. The expected results come from the documentation and the tests of that
//! version.

use std::sync::Arc;

use crate::support::{Client, MemoryLog, TestClock, volatile};
use commands::{Engine, EngineOptions};

const NOW: u64 = 1_700_000_000_000;
const SYNTAX: &str = "(error) ERR syntax error";

/// A stream of four entries: of three delivered to `g` two are pending, of two to `h` one.
const MADE: &[&str] = &[
    "XADD x 1-1 f a",
    "XADD x 1-2 f b",
    "XADD x 1-3 f c",
    "XADD x 1-4 f d",
    "XGROUP CREATE x g 0",
    "XGROUP CREATE x h 0",
    "XREADGROUP GROUP g alice COUNT 3 STREAMS x >",
    "XREADGROUP GROUP h bob COUNT 2 STREAMS x >",
    "XACK x g 1-1",
    "XACK x h 1-1",
];

fn server() -> (Client, Arc<MemoryLog>) {
    let log = Arc::new(MemoryLog::default());
    let options = EngineOptions {
        log: Some(log.clone()),
        clock: TestClock::new(NOW),
        ..EngineOptions::new(volatile(4, 64 << 20))
    };
    let mut client = Client::new(&Arc::new(Engine::new(options)));
    MADE.iter().for_each(|line| drop(client.run(line)));
    log.clear();
    (client, log)
}

/// These lines give these replies, and this log (after the first SELECT).
#[track_caller]
fn check(lines: &[(&str, &str)], logged: &str) {
    let (mut client, log) = server();
    lines.iter().for_each(|(line, expected)| client.check(line, expected));
    let written = log.lines();
    let written = written.strip_prefix(&["SELECT 0".to_owned()]).unwrap_or(&written);
    assert_eq!(written.join("; "), logged);
}

const PENDING: &str = "[(integer) 2, \"1-2\", \"1-3\", [[\"alice\", \"2\"]]]";
const NONE: &str = "[(integer) 0, (nil), (nil), (nil)]";

#[test]
fn xdelex_keeps_deletes_or_heeds_references() {
    check(
        &[
            ("XDELEX x IDS 2 1-2 9-9", "[(integer) 1, (integer) -1]"),
            ("XPENDING x g", PENDING),
            ("XDELEX x IDS 1 1-2", "[(integer) -1]"),
            // References to entries that no longer exist are removed too.
            ("XDELEX x DELREF IDS 1 1-2", "[(integer) -1]"),
            ("XPENDING x g", "[(integer) 1, \"1-3\", \"1-3\", [[\"alice\", \"1\"]]]"),
            ("XPENDING x h", NONE),
        ],
        "XDEL x 1-2; MULTI; XACK x g 1-2; XACK x h 1-2; EXEC",
    );
    check(
        &[
            (
                "XDELEX x ACKED IDS 5 1-1 1-2 1-3 1-4 9-9",
                "[(integer) 1, (integer) 2, (integer) 2, (integer) 2, (integer) -1]",
            ),
            ("XLEN x", "(integer) 3"),
            ("XPENDING x g", PENDING),
        ],
        "XDEL x 1-1",
    );
    check(
        &[
            ("XDELEX x delref IDS 2 1-2 1-3", "[(integer) 1, (integer) 1]"),
            ("XPENDING x g", NONE),
            ("XPENDING x h", NONE),
            ("XLEN x", "(integer) 2"),
        ],
        "MULTI; XDEL x 1-2 1-3; XACK x g 1-2 1-3; XACK x h 1-2; EXEC",
    );
}

#[test]
fn xackdel_acknowledges_and_deletes() {
    check(
        &[
            ("XACKDEL x g IDS 3 1-1 1-2 9-9", "[(integer) -1, (integer) 1, (integer) -1]"),
            ("XLEN x", "(integer) 3"),
            ("XPENDING x h", "[(integer) 1, \"1-2\", \"1-2\", [[\"bob\", \"1\"]]]"),
            // Pending, but no longer in the stream.
            ("XACKDEL x h IDS 1 1-2", "[(integer) 1]"),
            ("XPENDING x h", NONE),
        ],
        "MULTI; XDEL x 1-2; XACK x g 1-2; EXEC; XACK x h 1-2",
    );
    check(
        &[
            ("XACKDEL x g ACKED IDS 1 1-2", "[(integer) 2]"),
            ("XACKDEL x h ACKED IDS 1 1-2", "[(integer) 1]"),
            ("XLEN x", "(integer) 3"),
        ],
        "XACK x g 1-2; MULTI; XDEL x 1-2; XACK x h 1-2; EXEC",
    );
    check(
        &[
            ("XACKDEL x g DELREF IDS 1 1-2", "[(integer) 1]"),
            ("XPENDING x h", NONE),
            ("XACKDEL x nobody IDS 2 1-2 1-3", "[(integer) -1, (integer) -1]"),
            ("XACKDEL nothing g IDS 1 1-2", "[(integer) -1]"),
        ],
        "MULTI; XDEL x 1-2; XACK x g 1-2; XACK x h 1-2; EXEC",
    );
}

#[test]
fn a_trim_keeps_deletes_or_heeds_references() {
    check(
        &[("XTRIM x MAXLEN 1 DELREF", "(integer) 3"), ("XPENDING x g", NONE)],
        "MULTI; XTRIM x MAXLEN = 1; XACK x g 1-2 1-3; XACK x h 1-2; EXEC",
    );
    check(
        &[("XTRIM x MAXLEN 1 KEEPREF", "(integer) 3"), ("XPENDING x g", PENDING)],
        "XTRIM x MAXLEN = 1",
    );
    check(
        &[
            ("XTRIM x ACKED MAXLEN 1", "(integer) 1"),
            ("XTRIM x MINID 1-4 ACKED", "(integer) 0"),
            ("XACK x g 1-2", "(integer) 1"),
            ("XACK x h 1-2", "(integer) 1"),
            ("XTRIM x MINID 1-4 ACKED", "(integer) 1"),
            // `h` has not read the last two.
            ("XACK x g 1-3", "(integer) 1"),
            ("XTRIM x MINID 1-4 ACKED", "(integer) 0"),
            ("XLEN x", "(integer) 2"),
        ],
        "XDEL x 1-1; XACK x g 1-2; XACK x h 1-2; XDEL x 1-2; XACK x g 1-3",
    );
    check(
        &[
            ("XADD x ACKED MAXLEN 2 1-5 f e", "\"1-5\""),
            ("XLEN x", "(integer) 4"),
            ("XADD x DELREF MAXLEN = 1 1-6 f e", "\"1-6\""),
            ("XPENDING x g", NONE),
        ],
        "MULTI; XADD x 1-5 f e; XDEL x 1-1; EXEC; MULTI; XADD x MAXLEN = 1 1-6 f e; \
         XACK x g 1-2 1-3; XACK x h 1-2; EXEC",
    );
}

/// A stream of 250 entries that are pending in `g`, except one that was deleted before and whose
/// reference was kept.
fn long_stream() -> Client {
    let mut client = Client::new(&crate::support::engine());
    (1..=250).for_each(|n| drop(client.run(&format!("XADD x 1-{n} f v"))));
    client.run("XGROUP CREATE x g 0");
    client.run("XREADGROUP GROUP g alice STREAMS x >");
    client.run("XDEL x 1-50");
    client
}

#[test]
fn a_trim_of_whole_nodes_deletes_the_references_to_what_went() {
    let mut client = long_stream();
    let pending = |count: usize, first: usize| {
        format!("[(integer) {count}, \"1-{first}\", \"1-250\", [[\"alice\", \"{count}\"]]]")
    };
    for (line, gone, count, first) in [
        ("XTRIM x DELREF MAXLEN ~ 0 LIMIT 150", 99, 150, 101),
        ("XTRIM x DELREF MAXLEN ~ 149", 0, 150, 101),
        ("XTRIM x DELREF MINID ~ 1-202", 100, 50, 201),
        ("XTRIM x DELREF MINID 1-202", 1, 49, 202),
    ] {
        client.check(line, &format!("(integer) {gone}"));
        client.check("XPENDING x g", &pending(count, first));
    }
    client.check("XTRIM x DELREF MAXLEN 0", "(integer) 49");
    client.check("XPENDING x g", NONE);
}

#[test]
fn a_trim_deletes_the_references_to_what_had_been_deleted_before() {
    let left = "[(integer) 1, \"1-3\", \"1-3\", [[\"alice\", \"1\"]]]";
    for (trim, reply, pending) in [
        ("XTRIM x MAXLEN 2 DELREF", "(integer) 1", left),
        ("XTRIM x MAXLEN 1 DELREF", "(integer) 2", NONE),
        // Nothing is deleted.
        ("XTRIM x MAXLEN 3 DELREF", "(integer) 0", PENDING),
        ("XTRIM x MINID ~ 1-3 DELREF", "(integer) 0", PENDING),
        ("XTRIM x MINID 1-2 DELREF", "(integer) 1", PENDING),
        ("XTRIM x MINID 1-3 DELREF", "(integer) 1", left),
        ("XADD x DELREF MINID 1-3 1-5 f e", "\"1-5\"", left),
        ("XADD x DELREF MAXLEN 1 1-5 f e", "\"1-5\"", NONE),
    ] {
        let (mut client, _) = server();
        client.check("XDEL x 1-2", "(integer) 1");
        client.check(trim, reply);
        client.check("XPENDING x g", pending);
    }
    // All entries are deleted, and one reference has no entry.
    check(
        &[
            ("XDEL x 1-1 1-2 1-3 1-4", "(integer) 4"),
            ("XTRIM x MINID 1-3 DELREF", "(integer) 0"),
            ("XPENDING x g", left),
            ("XTRIM x MAXLEN 0 DELREF", "(integer) 0"),
            ("XPENDING x g", left),
        ],
        "XDEL x 1-1 1-2 1-3 1-4; MULTI; XACK x g 1-2; XACK x h 1-2; EXEC",
    );
}

/// Of 249 entries 27 of the first 29 are pending: not the 20th and the 25th.
#[test]
fn a_limit_bounds_how_far_a_trim_looks_for_acknowledged_entries() {
    let mut client = long_stream();
    let ids =
        |all: &mut dyn Iterator<Item = usize>| all.map(|n| format!(" 1-{n}")).collect::<String>();
    let done = ids(&mut [20, 25].into_iter().chain(30..=250));
    client.run(&format!("XACK x g{done}"));
    for (line, gone) in [
        ("XTRIM x ACKED MAXLEN ~ 0 LIMIT 4", 0),
        ("XTRIM x ACKED MAXLEN ~ 0 LIMIT 5", 1),
        ("XTRIM x ACKED MAXLEN ~ 0 LIMIT 6", 1),
        ("XTRIM x ACKED MAXLEN ~ 0 LIMIT 7", 1),
        ("XTRIM x ACKED MINID ~ 1-40 LIMIT 8", 5),
        // Without a limit all are visited.
        ("XTRIM x ACKED MINID ~ 1-60 LIMIT 0", 23),
        ("XTRIM x ACKED MAXLEN 100", 118),
    ] {
        client.check(line, &format!("(integer) {gone}"));
    }
}

#[test]
fn what_is_wrong_is_refused() {
    let positive = "(error) ERR Number of IDs must be a positive integer";
    let number = "(error) ERR The `numids` parameter must match the number of arguments";
    let id = "(error) ERR Invalid stream ID specified as stream command argument";
    let wrong = "(error) WRONGTYPE Operation against a key holding the wrong kind of value";
    check(
        &[
            ("XDELEX x IDS 0 1-1", positive),
            ("XDELEX x IDS a 1-1", positive),
            ("XDELEX x IDS 2 1-1", number),
            ("XDELEX x IDS 1 1-1 1-2", SYNTAX),
            ("XDELEX x IDS 1 1-x", id),
            ("XDELEX x ACKED DELREF IDS 1 1-1", SYNTAX),
            ("XDELEX x ACKED 1-1 1-2", SYNTAX),
            ("XDELEX x IDS 1", "(error) ERR wrong number of arguments for \\'xdelex\\' command"),
            ("XACKDEL x g IDS -5 1-1", positive),
            ("XACKDEL x g IDS 3 1-1 1-2", number),
            ("XACKDEL x g KEEPREF ACKED IDS 1 1-1", SYNTAX),
            ("XACKDEL x g", "(error) ERR wrong number of arguments for \\'xackdel\\' command"),
            ("XTRIM x MAXLEN 1 DELREF ACKED", SYNTAX),
            ("SET s v", "OK"),
            ("XDELEX s IDS 1 1-1", wrong),
            ("XACKDEL s g IDS 1 1-1", wrong),
        ],
        "SET s v",
    );
}

#[test]
fn what_is_pending_for_long_is_claimed_by_who_reads() {
    let clock = TestClock::new(NOW);
    let options =
        EngineOptions { clock: clock.clone(), ..EngineOptions::new(volatile(4, 64 << 20)) };
    let mut client = Client::new(&Arc::new(Engine::new(options)));
    for n in 1..=5 {
        client.run(&format!("XADD x 1-{n} f {n}"));
    }
    client.run("XGROUP CREATE x g 0");
    client.run("XREADGROUP GROUP g alice COUNT 1 STREAMS x >");
    clock.advance_ms(50);
    client.run("XREADGROUP GROUP g alice COUNT 2 STREAMS x >");
    client.run("XDEL x 1-3");
    // The first was delivered later, too.
    client.run("XCLAIM x g alice 0 1-1");
    clock.advance_ms(100);
    let entry = |n: usize, idle: u64, count: u64| {
        format!("[\"1-{n}\", [\"f\", \"{n}\"], (integer) {idle}, (integer) {count}]")
    };
    let reply = |entries: &[String]| format!("[[\"x\", [{}]]]", entries.join(", "));
    // Of two entries that have waited equally long, the one with the lower ID comes first.
    client
        .check("XREADGROUP GROUP g bob COUNT 1 CLAIM 100 STREAMS x >", &reply(&[entry(1, 100, 2)]));
    client.check(
        "XREADGROUP GROUP g bob claim 100 COUNT 2 STREAMS x >",
        &reply(&[entry(2, 100, 1), entry(4, 0, 0)]),
    );
    let pending = |id: &str, who: &str, idle: u64, count: u64| {
        format!("[\"{id}\", \"{who}\", (integer) {idle}, (integer) {count}]")
    };
    let all = [
        pending("1-1", "bob", 0, 3),
        pending("1-2", "bob", 0, 2),
        pending("1-3", "alice", 100, 1),
        pending("1-4", "bob", 0, 1),
    ];
    client.check("XPENDING x g - + 9", &format!("[{}]", all.join(", ")));
    client.check(
        "XREADGROUP GROUP g bob CLAIM 9223372036854775807 NOACK STREAMS x >",
        &reply(&[entry(5, 0, 0)]),
    );
    clock.advance_ms(7);
    // NOACK applies only to new entries.
    client.check(
        "XREADGROUP GROUP g carol COUNT 1 CLAIM 7 NOACK STREAMS x >",
        &reply(&[entry(1, 7, 3)]),
    );
    client.check("XPENDING x g 1-1 1-1 9", &format!("[{}]", pending("1-1", "carol", 0, 4)));
    let integer = "(error) ERR min-idle-time is not an integer";
    for (line, expected) in [
        ("XREADGROUP GROUP g bob CLAIM 1000 STREAMS x >", "(nil)"),
        ("XREADGROUP GROUP g bob CLAIM 0 STREAMS x 1-3", "[[\"x\", [[\"1-4\", [\"f\", \"4\"]]]]]"),
        ("XREADGROUP GROUP g bob CLAIM x STREAMS x >", integer),
        ("XREADGROUP GROUP g bob CLAIM STREAMS x >", integer),
        (
            "XREADGROUP GROUP g bob CLAIM -1 STREAMS x >",
            "(error) ERR min-idle-time must be a positive integer",
        ),
        ("XREAD CLAIM 0 STREAMS x 0", SYNTAX),
    ] {
        client.check(line, expected);
    }
}

/// Five entries are pending, those with higher IDs for longer; the third has no entry.
#[test]
fn of_what_is_pending_the_oldest_is_claimed_first() {
    for (count, expected) in [
        ("COUNT 1", &["1-5"][..]),
        ("COUNT 2", &["1-5", "1-4"]),
        ("COUNT 3", &["1-5", "1-4", "1-2"]),
        ("COUNT 9", &["1-5", "1-4", "1-2", "1-1"]),
        ("", &["1-5", "1-4", "1-2", "1-1"]),
    ] {
        let clock = TestClock::new(NOW);
        let options =
            EngineOptions { clock: clock.clone(), ..EngineOptions::new(volatile(4, 64 << 20)) };
        let mut client = Client::new(&Arc::new(Engine::new(options)));
        (1..=5).for_each(|n| drop(client.run(&format!("XADD x 1-{n} f v"))));
        client.run("XGROUP CREATE x g 0");
        client.run("XREADGROUP GROUP g alice STREAMS x >");
        (1..=5).for_each(|n| {
            client.run(&format!("XCLAIM x g alice 0 1-{n} TIME {} JUSTID", NOW - n));
        });
        client.run("XDEL x 1-3");
        let reply = client.run(&format!("XREADGROUP GROUP g bob {count} CLAIM 1 STREAMS x >"));
        let ids: Vec<&str> = reply.split('"').filter(|word| word.starts_with("1-")).collect();
        assert_eq!(ids, expected, "{count}: {reply}");
    }
}

#[test]
fn what_is_pending_without_an_entry_is_not_claimed() {
    let mut client = Client::new(&crate::support::engine());
    client.run("XADD x 1-1 f v");
    client.run("XGROUP CREATE x g 0");
    client.run("XREADGROUP GROUP g alice STREAMS x >");
    client.run("XDEL x 1-1");
    client.check("XREADGROUP GROUP g bob CLAIM 0 STREAMS x >", "(nil)");
}
