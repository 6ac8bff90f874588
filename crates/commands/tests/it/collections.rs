//! Properties of hashes and sets that a comparison with a real server cannot show: random picks,
//! and what a scan returns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::support::wire::{Reply, parse};
use crate::support::{Client, MemoryLog, engine, volatile};
use commands::{Engine, EngineOptions};

fn bytes(reply: &Reply) -> Vec<u8> {
    match reply {
        Reply::Bulk(_, Some(bytes)) => bytes.clone(),
        other => panic!("no string: {other:?}"),
    }
}

fn items(reply: &Reply) -> Vec<Reply> {
    match reply {
        Reply::Many(_, Some(items)) => items.clone(),
        other => panic!("no array: {other:?}"),
    }
}

fn strings(client: &mut Client, line: &str) -> Vec<Vec<u8>> {
    let words: Vec<&str> = line.split(' ').collect();
    items(&parse(&client.raw(&words))).iter().map(bytes).collect()
}

/// A hash and a set with this many members, as listpacks or as tables.
fn client(count: usize) -> Client {
    let mut client = Client::new(&engine());
    for n in 0..count {
        client.run(&format!("HSET h field{n} value{n}"));
        client.run(&format!("SADD s member{n}"));
    }
    client
}

const SIZES: [usize; 4] = [1, 10, 70, 3000];

#[test]
fn a_positive_count_picks_different_members_and_a_negative_one_any() {
    for size in SIZES {
        let mut client = client(size);
        for count in [1, 5, size / 10 + 1, size / 2 + 1, size, size + 10] {
            let picked = strings(&mut client, &format!("SRANDMEMBER s {count}"));
            let different: BTreeSet<_> = picked.iter().collect();
            assert_eq!((picked.len(), different.len()), (count.min(size), count.min(size)));
            let picked = strings(&mut client, &format!("HRANDFIELD h {count}"));
            let different: BTreeSet<_> = picked.iter().collect();
            assert_eq!((picked.len(), different.len()), (count.min(size), count.min(size)));
            assert_eq!(strings(&mut client, &format!("SRANDMEMBER s -{count}")).len(), count);
            let pairs = strings(&mut client, &format!("HRANDFIELD h -{count} WITHVALUES"));
            assert_eq!(pairs.len(), 2 * count);
            for pair in pairs.chunks(2) {
                let value = String::from_utf8_lossy(&pair[0]).replace("field", "value");
                assert_eq!(pair[1], value.as_bytes());
            }
        }
    }
    let mut client = client(3);
    client.check("HRANDFIELD nothing", "(nil)");
    client.check("HRANDFIELD nothing 3", "[]");
    client.check("SRANDMEMBER s 0", "[]");
}

#[test]
fn each_member_is_as_likely_as_any_other() {
    // Chi-square of 20 members: beyond 60 once in 300,000 runs.
    const PICKS: usize = 20_000;
    for extra in ["", "x", &"x".repeat(2000)] {
        let mut client = Client::new(&engine());
        let members = (0..20).map(|n| format!("{n}{extra}")).collect::<Vec<_>>().join(" ");
        client.run(&format!("SADD s {members}"));
        for count in ["1", "5", "-5", "-1"] {
            let mut seen: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
            let mut picks = 0;
            while picks < PICKS {
                for member in strings(&mut client, &format!("SRANDMEMBER s {count}")) {
                    *seen.entry(member).or_default() += 1;
                    picks += 1;
                }
            }
            let expected = picks as f64 / 20.0;
            let chi: f64 = seen.values().map(|n| (*n as f64 - expected).powi(2) / expected).sum();
            assert!(seen.len() == 20 && chi < 60.0, "{count}: {chi}");
        }
    }
}

#[test]
fn members_that_are_popped_are_gone() {
    for size in SIZES {
        let mut client = client(size);
        let mut popped = BTreeSet::new();
        while client.run("SCARD s") != "(integer) 0" {
            popped.extend(strings(&mut client, "SPOP s 7"));
            if let Reply::Bulk(_, Some(member)) = parse(&client.raw(&["SPOP", "s"])) {
                assert!(popped.insert(member), "popped twice");
            }
        }
        assert_eq!(popped.len(), size);
        client.check("EXISTS s", "(integer) 0");
        client.check("SPOP s", "(nil)");
        client.check("SPOP s 3", "[]");
    }
}

#[test]
fn a_scan_finds_what_stays_while_others_come_and_go() {
    for size in SIZES {
        let mut client = client(size);
        for (command, key, prefix) in [("HSCAN", "h", "field"), ("SSCAN", "s", "member")] {
            let (mut cursor, mut found, mut n) = (b"0".to_vec(), BTreeSet::new(), 0);
            loop {
                let text = String::from_utf8_lossy(&cursor).into_owned();
                let reply = items(&parse(&client.raw(&[command, key, &text, "COUNT", "20"])));
                let step = if command == "HSCAN" { 2 } else { 1 };
                found.extend(items(&reply[1]).iter().step_by(step).map(bytes));
                cursor = bytes(&reply[0]);
                if cursor == b"0" {
                    break;
                }
                n += 1;
                client.run(&format!("HSET h other{n} v"));
                client.run(&format!("SADD s other{n}"));
                client.run(&format!("HDEL h other{}", n - 1));
                client.run(&format!("SREM s other{}", n - 1));
            }
            let own = |name: &&Vec<u8>| name.starts_with(prefix.as_bytes());
            assert_eq!(found.iter().filter(own).count(), size, "{command}");
            let matched = client.run(&format!("{command} {key} 0 MATCH {prefix}0 COUNT 100000"));
            assert!(matched.contains(&format!("\"{prefix}0\"")), "{matched}");
            assert!(!matched.contains(&format!("\"{prefix}1\"")), "{matched}");
        }
    }
    let mut client = client(1);
    client.check("HSCAN h x", "(error) ERR invalid cursor");
    client.check("HSCAN nothing 0 COUNT 0", "[\"0\", []]");
    client.check("HSCAN h 0 COUNT 0", "(error) ERR syntax error");
    client.check("HSCAN h 0 TYPE string", "(error) ERR syntax error");
    client.check(
        "SSCAN h 0",
        "(error) WRONGTYPE Operation against a key holding the wrong kind of value",
    );
}

#[test]
fn what_was_picked_or_rounded_is_logged_as_it_came_out() {
    let log = Arc::new(MemoryLog::default());
    let options =
        EngineOptions { log: Some(log.clone()), ..EngineOptions::new(volatile(1, 64 << 20)) };
    let mut client = Client::new(&Arc::new(Engine::new(options)));
    for line in [
        "SADD s a",
        "SADD s a",
        "SREM s b",
        "SPOP s",
        "SADD s a b",
        "SPOP s 2",
        "SPOP s 2",
        "SADD s a b",
        "SMOVE s s a",
        "SMOVE s t c",
        "SINTERSTORE u nothing s",
        "HINCRBYFLOAT h f 1.5",
        "HDEL h g",
        "HSETNX h f 2",
        "HINCRBY h n 2",
    ] {
        client.run(line);
    }
    let expected = "SELECT 0; SADD s a; DEL s; SADD s a b; DEL s; SADD s a b; HSET h f 1.5; \
                    HINCRBY h n 2";
    assert_eq!(log.lines().join("; "), expected);
    client.run("SPOP s");
    let last = log.lines().pop();
    assert!(last == Some("SREM s a".into()) || last == Some("SREM s b".into()), "{last:?}");
}

#[test]
fn large_sets_unite_intersect_and_differ_as_small_ones_do() {
    let engine = engine();
    let mut client = Client::new(&engine);
    let names = |range: std::ops::Range<usize>| -> BTreeSet<Vec<u8>> {
        range.map(|number| format!("member:{number}").into_bytes()).collect()
    };
    let sets = [("{s}a", names(0..6000)), ("{s}b", names(4000..9000)), ("{s}c", names(100..5000))];
    for (key, members) in &sets {
        for some in members.iter().collect::<Vec<_>>().chunks(2500) {
            let words = some.iter().map(|name| String::from_utf8_lossy(name).into_owned());
            let line = format!("SADD {key} {}", words.collect::<Vec<_>>().join(" "));
            client.check(&line, &format!("(integer) {}", some.len()));
        }
    }
    let [a, b, c] = sets.map(|(_, members)| members);
    let all: BTreeSet<_> = a.iter().chain(&b).chain(&c).cloned().collect();
    let common: BTreeSet<_> =
        a.iter().filter(|m| b.contains(*m) && c.contains(*m)).cloned().collect();
    let left: BTreeSet<_> =
        a.iter().filter(|m| !b.contains(*m) && !c.contains(*m)).cloned().collect();
    for (name, expected) in [("SUNION", all), ("SINTER", common), ("SDIFF", left)] {
        let shown = strings(&mut client, &format!("{name} {{s}}a {{s}}b {{s}}c"));
        assert_eq!(shown.len(), expected.len(), "{name}");
        assert_eq!(BTreeSet::from_iter(shown), expected, "{name}");
        // The target may be one of the sources.
        client.check("COPY {s}a {s}t REPLACE", "(integer) 1");
        let stored = format!("(integer) {}", expected.len());
        client.check(&format!("{name}STORE {{s}}t {{s}}t {{s}}b {{s}}c"), &stored);
        client.check("SCARD {s}t", &stored);
        let stored = strings(&mut client, "SMEMBERS {s}t");
        assert_eq!(BTreeSet::from_iter(stored), expected, "{name}STORE");
    }
    client.check("SINTERCARD 2 {s}a {s}b LIMIT 7", "(integer) 7");
}
