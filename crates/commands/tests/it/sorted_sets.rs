//! Large sorted sets compared with those of a real server, and properties that a comparison cannot
//! show: random picks, results of scans, and additions of later versions of Redis.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::wire::{Remote, Reply, describe, parse};
use crate::support::{Client, engine};
use fastrand::Rng;
use testkit::Launch;

fn text(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(_, Some(bytes)) => String::from_utf8(bytes.clone()).expect("text"),
        other => describe(other),
    }
}

fn strings(reply: &Reply) -> Vec<String> {
    match reply {
        Reply::Many(_, Some(items)) => items.iter().map(text).collect(),
        other => panic!("no array: {other:?}"),
    }
}

fn ask(client: &mut Client, line: &str) -> Reply {
    parse(&client.raw(&line.split(' ').collect::<Vec<_>>()))
}

/// A bound of a range of scores.
fn bound(random: &mut Rng) -> String {
    match random.u8(..8) {
        0 => "-inf".into(),
        1 => "+inf".into(),
        2 => format!("({}", random.i32(-50..50)),
        3 => random.f64().to_string(),
        _ => random.i32(-50..50).to_string(),
    }
}

fn name(random: &mut Rng) -> String {
    match random.u8(..8) {
        0 => "-".into(),
        1 => "+".into(),
        side => format!("{}m{}", if side < 4 { '[' } else { '(' }, random.u16(..3000)),
    }
}

fn limit(random: &mut Rng) -> String {
    let (offset, count) = (random.i32(-1..100), random.i32(-1..50));
    if random.bool() { format!(" LIMIT {offset} {count}") } else { String::new() }
}

/// A request on a sorted set whose members have scores near zero or, for `z2`, equal scores.
fn request(random: &mut Rng) -> String {
    let member = format!("m{}", random.u16(..3000));
    let (from, to) = (random.i32(-3100..3100), random.i32(-3100..3100));
    let (min, max, limit) = (bound(random), bound(random), limit(random));
    let (low, high) = (name(random), name(random));
    match random.u8(..26) {
        0..5 => format!("ZADD z {} {member}", f64::from(random.i32(-200..200)) / 4.0),
        5 => format!(
            "ZADD z {} CH {} {member}",
            ["NX", "XX", "GT", "LT"][random.usize(..4)],
            min.trim_start_matches('(')
        ),
        6 => format!("ZINCRBY z {} {member}", random.i32(-9..9)),
        7 => format!("ZREM z {member} m1 m2"),
        8 => format!("ZRANK z {member}"),
        9 => format!("ZREVRANK z {member}"),
        10 => format!("ZRANGE z {from} {to} WITHSCORES"),
        11 => format!("ZRANGE z {from} {to} REV"),
        12 => format!("ZRANGEBYSCORE z {min} {max} WITHSCORES{limit}"),
        13 => format!("ZREVRANGEBYSCORE z {max} {min}{limit}"),
        14 => format!("ZCOUNT z {min} {max}"),
        15 => format!("ZRANGEBYLEX z2 {low} {high}{limit}"),
        16 => format!("ZREVRANGEBYLEX z2 {high} {low}{limit}"),
        17 => format!("ZLEXCOUNT z2 {low} {high}"),
        18 => format!("ZREMRANGEBYRANK z {from} {}", from + random.i32(0..4)),
        19 => format!("ZREMRANGEBYSCORE z {} ({}", random.i32(-50..50), random.i32(-50..50)),
        20 => format!("ZREMRANGEBYLEX z2 [{member} ({member}5"),
        21 => format!("ZPOPMIN z {}", random.u8(..3)),
        22 => format!("ZPOPMAX z {}", random.u8(..3)),
        23 => format!("ZMPOP 2 none z MAX COUNT {}", random.u8(1..4)),
        24 => format!("ZRANGESTORE z3 z {min} {max} BYSCORE{limit}"),
        _ => format!("ZMSCORE z {member} m5 m6"),
    }
}

#[test]
fn a_large_sorted_set_replies_as_redis_does() {
    let server = Launch::redis().start();
    let (mut ours, mut theirs) = (Client::new(&engine()), Remote::connect(server.address()));
    let mut random = Rng::with_seed(5);
    let mut both = |line: &str| {
        let ours = ask(&mut ours, line);
        let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let theirs = theirs.call(&words);
        assert!(
            ours == theirs,
            "{line}\n  ours   {}\n  theirs {}",
            describe(&ours),
            describe(&theirs)
        );
    };
    for n in 0..2500 {
        both(&format!("ZADD z {} m{n}", f64::from(random.i32(-200..200)) / 4.0));
        both(&format!("ZADD z2 0 m{n}"));
    }
    for _ in 0..3000 {
        both(&request(&mut random));
    }
    both("ZRANGE z 0 -1 WITHSCORES");
    both("ZRANGE z2 0 -1 WITHSCORES");
    both("ZRANGE z3 0 -1 WITHSCORES");
    both("OBJECT ENCODING z");
}

/// A sorted set with this many members, as a listpack or as a table with a tree.
fn client(count: usize) -> Client {
    let mut client = Client::new(&engine());
    for n in 0..count {
        client.run(&format!("ZADD z {n} member{n}"));
    }
    client
}

const SIZES: [usize; 4] = [1, 10, 70, 3000];

#[test]
fn a_positive_count_picks_different_members_and_a_negative_one_any() {
    for size in SIZES {
        let mut client = client(size);
        for count in [1, 5, size / 10 + 1, size / 2 + 1, size, size + 10] {
            let picked = strings(&ask(&mut client, &format!("ZRANDMEMBER z {count}")));
            let different: BTreeSet<_> = picked.iter().collect();
            assert_eq!((picked.len(), different.len()), (count.min(size), count.min(size)));
            let pairs = strings(&ask(&mut client, &format!("ZRANDMEMBER z -{count} WITHSCORES")));
            assert_eq!(pairs.len(), 2 * count);
            assert!(pairs.chunks(2).all(|pair| pair[0] == format!("member{}", pair[1])));
        }
        let one = client.run("ZRANDMEMBER z");
        assert!(one.contains("member"), "{one}");
    }
}

#[test]
fn a_scan_finds_every_member_that_stays() {
    for size in SIZES {
        let mut client = client(size);
        let (mut cursor, mut found) = ("0".to_owned(), BTreeSet::new());
        loop {
            let Reply::Many(_, Some(reply)) =
                ask(&mut client, &format!("ZSCAN z {cursor} COUNT 20"))
            else {
                panic!("a pair")
            };
            let pairs = strings(&reply[1]);
            assert!(pairs.chunks(2).all(|pair| pair[0] == format!("member{}", pair[1])));
            found.extend(pairs.chunks(2).map(|pair| pair[0].clone()));
            // Other members are added and removed meanwhile.
            client.run(&format!("ZADD z 0 other{cursor}"));
            client.run(&format!("ZREM z other{cursor}"));
            cursor = text(&reply[0]);
            if cursor == "0" {
                break;
            }
        }
        let stayed = found.iter().filter(|name| name.starts_with("member")).count();
        assert_eq!(stayed, size);
    }
}

/// A sorted set as the server shows it, with scores.
fn shown(members: &BTreeMap<String, f64>) -> Vec<String> {
    let mut all: Vec<(&String, f64)> = members.iter().map(|(name, score)| (name, *score)).collect();
    all.sort_by(|(name, score), (other, its)| score.total_cmp(its).then_with(|| name.cmp(other)));
    all.into_iter().flat_map(|(name, score)| [name.clone(), score.to_string()]).collect()
}

/// Adds these members, a thousand at a time.
fn add(client: &mut Client, command: &str, members: &BTreeMap<String, f64>, scored: bool) {
    for some in members.iter().collect::<Vec<_>>().chunks(1000) {
        let words = some.iter().map(|(name, score)| match scored {
            true => format!(" {score} {name}"),
            false => format!(" {name}"),
        });
        client.check(&(command.to_owned() + &words.collect::<String>()), "(integer) 1000");
    }
}

#[test]
fn large_sorted_sets_unite_intersect_and_differ_as_small_ones_do() {
    let mut client = Client::new(&engine());
    let named = |range: std::ops::Range<u32>, score: fn(u32) -> f64| -> BTreeMap<String, f64> {
        range.map(|number| (format!("member:{number}"), score(number))).collect()
    };
    // Many have the same score; the third is a set.
    let a = named(0..6000, |n| f64::from(n % 10));
    let b = named(4000..9000, |n| f64::from(n) / 4.0);
    let c = named(1000..5000, |_| 1.0);
    add(&mut client, "ZADD {z}a", &a, true);
    add(&mut client, "ZADD {z}b", &b, true);
    add(&mut client, "SADD {z}c", &c, false);
    let all: BTreeSet<&String> = a.keys().chain(b.keys()).chain(c.keys()).collect();
    let of = |name: &String| [a.get(name), b.get(name), c.get(name)].map(|score| score.copied());
    let made = |make: &dyn Fn([Option<f64>; 3]) -> Option<f64>| -> Vec<String> {
        let made = all.iter().filter_map(|&name| Some((name.clone(), make(of(name))?)));
        shown(&made.collect())
    };
    let sum = |scores: [Option<f64>; 3]| Some(scores.into_iter().flatten().sum());
    let weighed = |[a, b, c]: [Option<f64>; 3]| {
        let scores = [a.map(|a| a * 2.0), b.map(|b| b * 3.0), c.map(|c| -c)];
        scores.into_iter().flatten().reduce(f64::max)
    };
    let least = |[a, b, c]: [Option<f64>; 3]| Some(a?.min(b?).min(c?));
    let apart = |[a, b, c]: [Option<f64>; 3]| a.filter(|_| b.is_none() && c.is_none());
    for (command, options, expected) in [
        ("ZUNION", "", made(&sum)),
        ("ZUNION", " WEIGHTS 2 3 -1 AGGREGATE MAX", made(&weighed)),
        ("ZINTER", " AGGREGATE MIN", made(&least)),
        ("ZDIFF", "", made(&apart)),
    ] {
        let line = format!("{command} 3 {{z}}a {{z}}b {{z}}c{options} WITHSCORES");
        assert!(strings(&ask(&mut client, &line)) == expected, "{line}");
        let stored = format!("(integer) {}", expected.len() / 2);
        // The target may be one of the sources.
        client.check("COPY {z}a {z}t REPLACE", "(integer) 1");
        client.check(&format!("{command}STORE {{z}}t 3 {{z}}t {{z}}b {{z}}c{options}"), &stored);
        let kept = strings(&ask(&mut client, "ZRANGE {z}t 0 -1 WITHSCORES"));
        assert!(kept == expected, "{command}STORE{options}");
        // A value that was stored at once can be changed like any other.
        client.check("ZADD {z}t -1000 new", "(integer) 1");
        client.check("ZRANK {z}t new", "(integer) 0");
        client.check(&format!("ZSCORE {{z}}t {}", expected[0]), &format!("{:?}", expected[1]));
    }
    client.check("ZINTERCARD 2 {z}a {z}b LIMIT 7", "(integer) 7");
    client.check("ZRANGESTORE {z}t {z}b 0 -1 REV", "(integer) 5000");
    assert!(strings(&ask(&mut client, "ZRANGE {z}t 0 -1 WITHSCORES")) == shown(&b));
}

#[test]
fn ranks_come_with_scores_as_redis_7_2_has_it() {
    let mut client = client(3);
    for (request, expected) in [
        ("ZRANK z member1 WITHSCORE", "[(integer) 1, \"1\"]"),
        ("ZREVRANK z member0 withscore", "[(integer) 2, \"0\"]"),
        ("ZRANK z nobody WITHSCORE", "(nil)"),
        ("ZRANK none member1 WITHSCORE", "(nil)"),
        ("ZRANK z member1 SCORE", "(error) ERR syntax error"),
        (
            "ZRANK z member1 WITHSCORE x",
            "(error) ERR wrong number of arguments for \\'zrank\\' command",
        ),
    ] {
        assert_eq!(client.run(request), expected, "{request}");
    }
}
