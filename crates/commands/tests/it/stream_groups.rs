//! Consumer groups: their requests and replies, and their command log.

use std::sync::Arc;

use crate::support::{Client, MemoryLog, TestClock, requests, volatile};
use commands::{Engine, EngineOptions};
use fastrand::Rng;

const NOW: u64 = 1_700_000_000_000;

/// Executes the lines and asserts the replies.
#[track_caller]
fn check(script: &[(&str, &str)]) {
    let options =
        EngineOptions { clock: TestClock::new(NOW), ..EngineOptions::new(volatile(4, 256 << 20)) };
    let mut client = Client::new(&Arc::new(Engine::new(options)));
    for (line, expected) in script {
        assert_eq!(client.run(line), *expected, "{line}");
    }
}

/// A stream of three entries and a group that has read nothing.
const MADE: [(&str, &str); 4] = [
    ("XADD x 1-1 f a", "\"1-1\""),
    ("XADD x 1-2 f b", "\"1-2\""),
    ("XADD x 1-3 f c", "\"1-3\""),
    ("XGROUP CREATE x g 0", "OK"),
];

#[track_caller]
fn check_made(script: &[(&str, &str)]) {
    check(&[&MADE[..], script].concat());
}

#[test]
fn entries_are_delivered_once_and_pending_until_they_are_acknowledged() {
    check_made(&[
        (
            "XREADGROUP GROUP g alice COUNT 2 STREAMS x >",
            "[[\"x\", [[\"1-1\", [\"f\", \"a\"]], [\"1-2\", [\"f\", \"b\"]]]]]",
        ),
        ("XREADGROUP GROUP g bob STREAMS x >", "[[\"x\", [[\"1-3\", [\"f\", \"c\"]]]]]"),
        ("XREADGROUP GROUP g bob STREAMS x >", "(nil)"),
        ("XPENDING x g", "[(integer) 3, \"1-1\", \"1-3\", [[\"alice\", \"2\"], [\"bob\", \"1\"]]]"),
        ("XREADGROUP GROUP g alice STREAMS x 1-1", "[[\"x\", [[\"1-2\", [\"f\", \"b\"]]]]]"),
        ("XACK x g 1-1 1-1 1-3 9-9", "(integer) 2"),
        ("XPENDING x g", "[(integer) 1, \"1-2\", \"1-2\", [[\"alice\", \"1\"]]]"),
        ("XREADGROUP GROUP g bob STREAMS x 0", "[[\"x\", []]]"),
    ]);
}

#[test]
fn an_entry_that_is_gone_stays_pending() {
    check_made(&[
        (
            "XREADGROUP GROUP g alice STREAMS x >",
            "[[\"x\", [[\"1-1\", [\"f\", \"a\"]], [\"1-2\", [\"f\", \"b\"]], [\"1-3\", [\"f\", \"c\"]]]]]",
        ),
        ("XDEL x 1-2", "(integer) 1"),
        (
            "XREADGROUP GROUP g alice COUNT 2 STREAMS x 0",
            "[[\"x\", [[\"1-1\", [\"f\", \"a\"]], [\"1-2\", (nil)]]]]",
        ),
        ("XCLAIM x g bob 0 1-1 1-2 JUSTID", "[\"1-1\"]"),
        ("XDEL x 1-3", "(integer) 1"),
        ("XAUTOCLAIM x g bob 0 0", "[\"0-0\", [[\"1-1\", [\"f\", \"a\"]]], [\"1-3\"]]"),
        ("XPENDING x g", "[(integer) 1, \"1-1\", \"1-1\", [[\"bob\", \"1\"]]]"),
    ]);
}

#[test]
fn what_was_not_acknowledged_is_claimed() {
    check_made(&[
        (
            "XREADGROUP GROUP g alice NOACK COUNT 1 STREAMS x >",
            "[[\"x\", [[\"1-1\", [\"f\", \"a\"]]]]]",
        ),
        ("XPENDING x g", "[(integer) 0, (nil), (nil), (nil)]"),
        ("XCLAIM x g bob 0 1-1", "[]"),
        ("XCLAIM x g bob 0 1-1 FORCE RETRYCOUNT 7 JUSTID", "[\"1-1\"]"),
        ("XCLAIM x g bob 1000000 1-1 JUSTID", "[]"),
        ("XCLAIM x g alice 0 1-1 LASTID 1-2", "[[\"1-1\", [\"f\", \"a\"]]]"),
        ("XREADGROUP GROUP g bob STREAMS x >", "[[\"x\", [[\"1-3\", [\"f\", \"c\"]]]]]"),
        ("XPENDING x g - + 1 bob", "[[\"1-3\", \"bob\", (integer) 0, (integer) 1]]"),
        ("XGROUP DELCONSUMER x g bob", "(integer) 1"),
        ("XGROUP DELCONSUMER x g bob", "(integer) 0"),
        ("XCLAIM x g bob 0 1-1 NOSUCH", "(error) ERR Unrecognized XCLAIM option \\'NOSUCH\\'"),
        ("XAUTOCLAIM x g bob 0 - COUNT 0", "(error) ERR COUNT must be > 0"),
    ]);
}

#[test]
fn groups_come_and_go() {
    check(&[
        (
            "XGROUP CREATE x g 0",
            "(error) ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.",
        ),
        ("XGROUP CREATE x g $ MKSTREAM", "OK"),
        ("XGROUP CREATE x g $ MKSTREAM", "(error) BUSYGROUP Consumer Group name already exists"),
        (
            "XGROUP CREATE x h 5 ENTRIESREAD -2",
            "(error) ERR value for ENTRIESREAD must be positive or -1",
        ),
        ("XGROUP CREATECONSUMER x g alice", "(integer) 1"),
        ("XGROUP CREATECONSUMER x g alice", "(integer) 0"),
        (
            "XGROUP CREATECONSUMER x h alice",
            "(error) NOGROUP No such consumer group \\'h\\' for key name \\'x\\'",
        ),
        (
            "XREADGROUP GROUP h alice STREAMS x >",
            "(error) NOGROUP No such key \\'x\\' or consumer group \\'h\\' in XREADGROUP with GROUP option",
        ),
        (
            "XREADGROUP GROUP g alice STREAMS x $",
            "(error) ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
        ),
        (
            "XREADGROUP COUNT 1 BLOCK 1 STREAMS x >",
            "(error) ERR Missing GROUP option for XREADGROUP",
        ),
        (
            "XREAD GROUP g alice STREAMS x 0",
            "(error) ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
        ),
        ("XGROUP SETID x g 7", "OK"),
        (
            "XGROUP SETID x g 7 JUNK",
            "(error) ERR unknown subcommand or wrong number of arguments for \\'SETID\\'. Try XGROUP HELP.",
        ),
        (
            "XINFO GROUPS x",
            "[[\"name\", \"g\", \"consumers\", (integer) 1, \"pending\", (integer) 0, \"last-delivered-id\", \"7-0\", \"entries-read\", (nil), \"lag\", (integer) 0]]",
        ),
        ("XGROUP DESTROY x g", "(integer) 1"),
        ("XGROUP DESTROY x g", "(integer) 0"),
        ("EXISTS x", "(integer) 1"),
    ]);
}

#[test]
fn what_a_group_has_read_is_counted_as_far_as_it_is_known() {
    let lag = |last: &str, read: &str, lag: &str| {
        format!(
            "[[\"name\", \"g\", \"consumers\", (integer) 1, \"pending\", (integer) 0, \"last-delivered-id\", \"{last}\", \"entries-read\", {read}, \"lag\", {lag}]]"
        )
    };
    let first = "[[\"x\", [[\"1-1\", [\"f\", \"a\"]]]]]";
    let last = "[[\"x\", [[\"1-3\", [\"f\", \"c\"]]]]]";
    check_made(&[
        ("XREADGROUP GROUP g a NOACK COUNT 1 STREAMS x >", first),
        ("XINFO GROUPS x", &lag("1-1", "(integer) 1", "(integer) 2")),
        ("XDEL x 1-2", "(integer) 1"),
        ("XINFO GROUPS x", &lag("1-1", "(integer) 1", "(nil)")),
        ("XREADGROUP GROUP g a NOACK STREAMS x >", last),
        ("XINFO GROUPS x", &lag("1-3", "(integer) 2", "(integer) 1")),
    ]);
}

struct Logged {
    engine: Arc<Engine>,
    log: Arc<MemoryLog>,
    clock: Arc<TestClock>,
}

fn logged() -> Logged {
    let (log, clock) = (Arc::new(MemoryLog::default()), TestClock::new(NOW));
    let options = EngineOptions {
        log: Some(log.clone()),
        clock: clock.clone(),
        ..EngineOptions::new(volatile(2, 256 << 20))
    };
    Logged { engine: Arc::new(Engine::new(options)), log, clock }
}

/// A request that usually changes something.
fn request(random: &mut Rng, n: usize) -> String {
    let (key, group) = (["x", "y"][random.usize(..2)], ["g", "h"][random.usize(..2)]);
    let consumer = ["alice", "bob", "carol"][random.usize(..3)];
    let (count, idle, id) = (random.u8(1..9), random.u8(..3), random.usize(..n + 1));
    match random.u8(..24) {
        0..6 => format!("XADD {key} {n}-1 f v"),
        6 => format!("XGROUP CREATE {key} {group} 0 MKSTREAM"),
        7 => format!("XGROUP SETID {key} {group} {id}-1"),
        8 => format!("XDEL {key} {id}-1 {}-1", id / 2),
        9 => format!("XCLAIM {key} {group} {consumer} {idle} {id}-1 FORCE IDLE {idle}"),
        10 => format!("XGROUP CREATECONSUMER {key} {group} {consumer}"),
        11 if random.u8(..3) == 0 => format!("XGROUP DELCONSUMER {key} {group} {consumer}"),
        12 if random.u8(..9) == 0 => format!("XGROUP DESTROY {key} {group}"),
        11..14 => format!("XAUTOCLAIM {key} {group} {consumer} {idle} 0 COUNT {count}"),
        14..16 => format!("XREADGROUP GROUP {group} {consumer} COUNT {count} STREAMS {key} 0"),
        16 => format!("XREADGROUP GROUP {group} {consumer} NOACK COUNT 1 STREAMS {key} >"),
        17 => format!("XACK {key} {group} {id}-1 {}-1 {}-1", id / 2, id / 3),
        18 => format!("XTRIM {key} MAXLEN 40"),
        _ => format!("XREADGROUP GROUP {group} {consumer} COUNT {count} STREAMS {key} >"),
    }
}

#[test]
fn a_consumer_is_active_when_entries_become_pending_of_it() {
    let logged = logged();
    let mut client = Client::new(&logged.engine);
    let times = |client: &mut Client, name: &str| {
        let reply = client.run("XINFO CONSUMERS s g");
        let (_, of_it) = reply.split_once(&format!("\"{name}\", ")).expect("a consumer");
        let (_, times) = of_it.split_once("\"idle\", ").expect("times");
        let (times, _) = times.split_once(']').expect("an end");
        times.replace("(integer) ", "").replace("\"inactive\", ", "")
    };
    client.run("XGROUP CREATE s g $ MKSTREAM");
    client.run("XGROUP CREATECONSUMER s g alice");
    for (words, alice) in [
        ("XREADGROUP GROUP g alice STREAMS s >", "10, -1"),
        ("XADD s 1-1 f v", "20, -1"),
        ("XREADGROUP GROUP g alice STREAMS s >", "0, 0"),
        ("XREADGROUP GROUP g alice STREAMS s 0", "0, 10"),
        ("XADD s 2-1 f v", "10, 20"),
        ("XREADGROUP GROUP g alice NOACK STREAMS s >", "0, 30"),
        ("XCLAIM s g bob 0 1-1 JUSTID", "10, 40"),
        ("XAUTOCLAIM s g alice 0 0", "0, 0"),
    ] {
        logged.clock.advance_ms(10);
        client.run(words);
        assert_eq!(times(&mut client, "alice"), alice, "{words}");
    }
    assert_eq!(times(&mut client, "bob"), "10, 10");
    let full = client.run("XINFO STREAM s FULL");
    assert_eq!(full.matches("\"active-time\"").count(), 2, "{full}");
}

/// All properties of groups, except when a consumer was seen.
fn dump(engine: &Arc<Engine>) -> Vec<String> {
    let mut client = Client::new(engine);
    let mut described = Vec::new();
    for key in ["x", "y"] {
        described.push(client.run(&format!("XRANGE {key} - +")));
        described.push(client.run(&format!("XINFO GROUPS {key}")));
        for group in ["g", "h"] {
            described.push(client.run(&format!("XPENDING {key} {group} - + 100000")));
            let consumers = client.run(&format!("XINFO CONSUMERS {key} {group}"));
            described.extend(
                consumers
                    .split("\"idle\"")
                    .map(|part| part.trim_start_matches(|c| c != '[').into()),
            );
        }
    }
    described
}

#[test]
fn a_log_says_what_became_of_groups_and_so_does_its_rewrite() {
    let logged = logged();
    let mut client = Client::new(&logged.engine);
    let mut random = Rng::with_seed(5);
    for n in 1..3000 {
        client.run(&request(&mut random, n));
        logged.clock.advance_ms(random.u64(..3));
    }
    let options = || EngineOptions {
        clock: logged.clock.clone(),
        ..EngineOptions::new(volatile(1, 256 << 20))
    };
    let original = dump(&logged.engine);
    assert!(original.concat().len() > 4000, "there is something to compare");
    let copy = Arc::new(Engine::new(options()));
    let mut replay = Client::of(&copy, copy.connect_replay());
    for request in requests(&logged.log.bytes()) {
        let reply = replay.raw(&request);
        assert!(!reply.starts_with(b"-"), "{}", String::from_utf8_lossy(&reply));
    }
    assert_eq!(dump(&copy), original);
    // Consumers were seen when the log was loaded.
    let loaded = Client::new(&copy).run("XINFO CONSUMERS x g");
    let idle = loaded.split("\"idle\", ").skip(1);
    assert!(idle.clone().count() > 0 && idle.clone().all(|rest| rest.starts_with("(integer) 0,")));

    let rewritten = Arc::new(Engine::new(options()));
    let mut replay = Client::of(&rewritten, rewritten.connect_replay());
    let mut walk = logged.engine.keyspace().snapshot(|| ()).expect("a cut").0.walk();
    let mut items = Vec::new();
    while walk.next(&mut items).expect("it is held") {
        for item in &items {
            let done: Result<(), ()> = commands::commands_of(&item.key, &item.value, |words| {
                let reply = replay.raw(words);
                assert!(!reply.starts_with(b"-"), "{}", String::from_utf8_lossy(&reply));
                Ok(())
            });
            done.expect("nothing fails");
        }
    }
    assert_eq!(dump(&rewritten), original);
}

#[test]
fn a_delivery_is_logged_as_what_came_of_it() {
    let logged = logged();
    let mut client = Client::new(&logged.engine);
    for line in [
        "XADD x 1-1 f v",
        "XGROUP CREATE x g 0",
        "XREADGROUP GROUP g alice STREAMS x >",
        "XREADGROUP GROUP g alice STREAMS x >",
        "XACK x g 5-5",
        "XAUTOCLAIM x g alice 5 0",
    ] {
        client.run(line);
    }
    let lines = logged.log.lines();
    let expected = [
        "SELECT 0",
        "XADD x 1-1 f v",
        "XGROUP CREATE x g 0",
        "MULTI",
        "XGROUP CREATECONSUMER x g alice",
        "XCLAIM x g alice 0 1-1 TIME 1700000000000 RETRYCOUNT 1 FORCE JUSTID LASTID 1-1",
        "XGROUP SETID x g 1-1 ENTRIESREAD 1",
        "EXEC",
    ];
    assert_eq!(lines, expected);
}
