//! SORT: cases that the random comparison with a real server reaches only by chance, and effects
//! that it cannot show: locks, served clients and notifications.

use std::sync::Arc;

use crate::support::wire::{Remote, describe, parse};
use crate::support::{self, Client, MemoryLog, TestClock, engine, volatile};
use commands::{Engine, EngineOptions};
use testkit::Launch;

const DATA: &[&str] = &[
    "RPUSH l 3 1 10 2 2",
    "RPUSH words pear apple fig apple",
    "SADD t 3 1 10 2",
    "SADD names pear apple fig",
    "ZADD z 3 a 1 b 2 c 2 d",
    "MSET w_1 5 w_2 4 w_3 3 w_10 nan w_a x w_b y w_c x n_1 one n_3 three",
    "HSET o_1 f 30 g one",
    "HSET o_2 f 20",
    "HSET o_3 f 10 g three",
    "MSET {u}1 9 {u}2 8 {u}3 7",
    "HSET o_1-> f 1",
    "MSET x:1-> arrow x:2 2",
    "SET text hello",
];

const LINES: &[&str] = &[
    "SORT l",
    "SORT l DESC",
    "SORT l DESC ASC LIMIT 1 2",
    "SORT l ALPHA",
    "SORT l ALPHA DESC LIMIT 0 3",
    "SORT l LIMIT -5 2",
    "SORT l LIMIT 2 -1",
    "SORT l LIMIT 9 2",
    "SORT l LIMIT 0 0",
    "SORT l LIMIT 0 1 LIMIT 1 1",
    "SORT l LIMIT 0 9223372036854775807",
    "SORT l LIMIT 1 9223372036854775807",
    "SORT l LIMIT 0 9223372036854775808",
    "SORT l LIMIT a 1",
    "SORT l LIMIT 1",
    "SORT l BY nosort",
    "SORT l BY nosort DESC LIMIT 1 2",
    "SORT l BY nosort BY w_*",
    "SORT l BY w_* BY nosort",
    "SORT l BY",
    "SORT l BY w_*",
    "SORT l BY {u}* GET # GET {u}*",
    "SORT l BY o_*->f GET # GET o_*->g GET n_* GET nothing",
    "SORT l BY o_*->f DESC LIMIT 1 2 GET o_*->f",
    "SORT l BY {u}* LIMIT 1 2",
    "SORT l BY x:*->",
    "SORT l BY nosort GET x:*->",
    "SORT l BY text* GET text GET #",
    "SORT l BY * GET *",
    "SORT l STORE",
    "SORT l STORE r",
    "LRANGE r 0 -1",
    "SORT words",
    "SORT words ALPHA",
    "SORT words BY nothing_*",
    "SORT words ALPHA BY nothing_*",
    "SORT words ALPHA DESC STORE r",
    "LRANGE r 0 -1",
    "SORT l BY {u}* GET n_* GET # STORE r",
    "LRANGE r 0 -1",
    "OBJECT ENCODING r",
    "EXPIRE r 100",
    "SORT l STORE r",
    "TTL r",
    "SORT l BY nosort DESC STORE r STORE r2",
    "LRANGE r2 0 -1",
    "SORT l STORE l",
    "LRANGE l 0 -1",
    "SORT t",
    "SORT t ALPHA DESC",
    "SORT t BY nosort STORE r",
    "LRANGE r 0 -1",
    "SORT names BY nosort STORE r",
    "LRANGE r 0 -1",
    "SORT names BY nosort DESC LIMIT 0 2 GET # GET w_* STORE r",
    "LRANGE r 0 -1",
    "SORT z",
    "SORT z ALPHA",
    "SORT z BY nosort",
    "SORT z BY nosort DESC LIMIT 1 2",
    "SORT z BY nosort LIMIT 3 7",
    "SORT z BY nosort LIMIT 4 7",
    "SORT z BY nothing_* DESC",
    "SORT z BY w_* ALPHA LIMIT 0 1",
    "SORT text",
    "SORT o_1",
    "SORT text STORE r",
    "SORT text LIMIT x 1",
    "SORT text NONSENSE",
    "SORT nothing",
    "SORT nothing BY w_* GET #",
    "EXISTS r",
    "SORT nothing STORE r",
    "EXISTS r",
    "SORT nothing STORE r",
    "SORT_RO l",
    "SORT_RO l BY {u}* GET #",
    "SORT_RO l STORE r",
    "SORT",
    "SORT_RO",
    "COMMAND GETKEYS SORT abc STORE def",
    "COMMAND GETKEYS SORT abc STORE invalid STORE stillbad STORE def",
    "COMMAND GETKEYS SORT abc LIMIT STORE a GET STORE BY STORE STORE def",
    "COMMAND GETKEYSANDFLAGS SORT abc STORE def",
    "COMMAND GETKEYS SORT abc STORE",
    "COMMAND GETKEYS SORT_RO abc STORE def",
];

#[test]
fn replies_are_those_of_redis() {
    let server = Launch::redis().start();
    let engine = engine();
    let (mut ours, mut theirs) = (Client::new(&engine), Remote::connect(server.address()));
    for protocol in ["2", "3"] {
        for line in [&["HELLO", protocol].join(" ")[..], "FLUSHALL"].iter().chain(DATA).chain(LINES)
        {
            let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.into()).collect();
            let (ours, theirs) = (parse(&ours.raw(&words)), theirs.call(&words));
            if !line.starts_with("HELLO") {
                assert_eq!(describe(&ours), describe(&theirs), "{line}");
            }
        }
    }
}

#[test]
fn numbers_are_what_strtod_reads_all_of() {
    let server = Launch::redis().start();
    let engine = engine();
    let (mut ours, mut theirs) = (Client::new(&engine), Remote::connect(server.address()));
    let texts: [&[u8]; 16] = [
        b"",
        b" 5",
        b"5 ",
        b"0x10",
        b"+7",
        b"-0",
        b"1e3",
        b"1e",
        b"inf",
        b"-infinity",
        b"nan",
        b"1e400",
        b"1e-400",
        b"1e-310",
        b"7\0x",
        b"\t\n3",
    ];
    for text in texts {
        let words = |line: &str| line.split(' ').map(|word| word.into()).collect::<Vec<Vec<u8>>>();
        let push = [words("RPUSH l 4"), vec![text.to_vec()]].concat();
        for words in [words("DEL l"), push, words("SORT l")] {
            let (ours, theirs) = (parse(&ours.raw(&words)), theirs.call(&words));
            assert_eq!(describe(&ours), describe(&theirs), "{}", text.escape_ascii());
        }
        // It sets no error number.
        theirs.call(&[b"INCRBYFLOAT".to_vec(), b"n".to_vec(), b"1".to_vec()]);
    }
}

/// More elements than are read at once, in each encoding of a value.
#[test]
fn large_values_are_sorted_piece_by_piece() {
    let engine = engine();
    let mut client = Client::new(&engine);
    for n in 0..5000 {
        let number = (n * 7919) % 5000;
        client.run(&format!("RPUSH l {number}"));
        client.run(&format!("SADD t {number}"));
        client.run(&format!("ZADD z {n} {number}"));
        client.run(&format!("SET w_{number} {}", 5000 - number));
    }
    let line = |numbers: &mut dyn Iterator<Item = i32>| {
        numbers.map(|n| n.to_string()).collect::<Vec<_>>().join(" ")
    };
    for key in ["l", "t", "z"] {
        let shown = |client: &mut Client, request: &str| {
            client.run(&format!("{request} STORE r"));
            client.run("LRANGE r 0 -1").replace(['[', ']', ',', '"'], "")
        };
        let expected = line(&mut (0..5000));
        assert_eq!(shown(&mut client, &format!("SORT {key}")), expected, "{key}");
        let expected = line(&mut (0..5000).rev());
        assert_eq!(shown(&mut client, &format!("SORT {key} BY w_*")), expected, "{key}");
        let expected = line(&mut (100..110));
        assert_eq!(shown(&mut client, &format!("SORT {key} LIMIT 100 10")), expected, "{key}");
    }
}

#[test]
fn a_blocked_client_is_served_from_what_is_stored() {
    let engine = engine();
    let (mut blocked, mut client) = (Client::patient(&engine), Client::new(&engine));
    client.run("RPUSH source 2 1");
    blocked.check("BLPOP target 0", "(blocked)");
    client.check("SORT source BY w_* STORE target", "(integer) 2");
    let reply = blocked.unblocked().expect("a reply");
    assert!(reply.contains('1'), "{reply}");
    client.check("LLEN target", "(integer) 1");
}

#[test]
fn a_watch_sees_what_is_stored_and_what_goes() {
    let engine = engine();
    let (mut watcher, mut client) = (Client::new(&engine), Client::new(&engine));
    client.run("RPUSH source 2 1");
    for request in ["SORT source STORE target", "SORT nothing STORE target"] {
        watcher.run("WATCH target");
        client.run(request);
        watcher.run("MULTI");
        watcher.run("PING");
        watcher.check("EXEC", "(nil)");
    }
}

/// Keys that have expired when they are read are deleted in the log first, since nothing expires in
/// a replay.
#[test]
fn a_replay_of_the_log_stores_the_same() {
    let (clock, log) = (TestClock::new(1_000_000), Arc::new(MemoryLog::default()));
    let options = EngineOptions::new(volatile(4, 64 << 20));
    let engine = Arc::new(Engine::new(EngineOptions {
        clock: clock.clone(),
        log: Some(log.clone()),
        ..options
    }));
    let mut client = Client::new(&engine);
    client.run("RPUSH source 1 2 3");
    client.run("MSET w_1 30 w_2 20 w_3 10 n_1 one");
    client.run("PEXPIRE w_3 100");
    client.run("PEXPIRE n_1 100");
    client.run("RPUSH late 1");
    client.run("PEXPIRE late 100");
    clock.advance_ms(200);
    client.check("SORT source BY w_* GET n_* GET # STORE target", "(integer) 6");
    client.check("SORT late STORE other", "(integer) 0");
    let lines = log.lines();
    let at = |text: &str| lines.iter().position(|line| line.contains(text)).expect(text);
    assert!(at("DEL w_3") < at("SORT source"), "{lines:?}");
    assert!(at("DEL n_1") < at("SORT source"), "{lines:?}");
    assert!(at("DEL late") > at("SORT source"), "{lines:?}");

    let replayed = Arc::new(Engine::new(EngineOptions::new(volatile(2, 64 << 20))));
    let mut replay = Client::of(&replayed, replayed.connect_replay());
    for request in support::requests(&log.bytes()) {
        let reply = replay.raw(&request);
        assert!(!reply.starts_with(b"-"), "{}", reply.escape_ascii());
    }
    let mut reader = Client::new(&replayed);
    assert_eq!(reader.run("LRANGE target 0 -1"), client.run("LRANGE target 0 -1"));
    reader.check("EXISTS other", "(integer) 0");
}

/// As above: more fields of one hash than are deleted at once.
#[test]
fn a_replay_of_the_log_reads_no_field_that_had_expired() {
    const FIELDS: usize = 1000;
    let names: Vec<String> = (0..FIELDS).map(|n| format!("f{n}")).collect();
    for read in ["f0", "f1", "f250", "f500", "f750", "f998", "f999"] {
        let (clock, log) = (TestClock::new(1_000_000), Arc::new(MemoryLog::default()));
        let options = EngineOptions::new(volatile(4, 64 << 20));
        let options = EngineOptions { clock: clock.clone(), log: Some(log.clone()), ..options };
        let mut client = Client::new(&Arc::new(Engine::new(options)));
        client.run(&format!("HSET h1 stays v {} v", names.join(" v ")));
        client.run(&format!("HPEXPIRE h1 100 FIELDS {FIELDS} {}", names.join(" ")));
        client.run("RPUSH source 1");
        clock.advance_ms(200);
        client.check(&format!("SORT source GET h*->{read} STORE target"), "(integer) 1");

        let replayed = Arc::new(Engine::new(EngineOptions::new(volatile(2, 64 << 20))));
        let mut replay = Client::of(&replayed, replayed.connect_replay());
        for request in support::requests(&log.bytes()) {
            let reply = replay.raw(&request);
            assert!(!reply.starts_with(b"-"), "{}", reply.escape_ascii());
        }
        for client in [&mut client, &mut Client::new(&replayed)] {
            client.check("LRANGE target 0 -1", "[\"\"]");
        }
    }
}

/// In EXEC, too, all shards are locked if patterns may lead anywhere.
#[test]
fn patterns_lead_to_any_shard_in_a_transaction_too() {
    let engine = engine();
    let mut client = Client::new(&engine);
    client.run("RPUSH source 1 2 3 4 5 6 7 8");
    (1..9).for_each(|n| _ = client.run(&format!("SET w_{n} {}", 9 - n)));
    client.run("MULTI");
    client.run("SORT source BY w_* GET w_* STORE target");
    client.check("EXEC", "[(integer) 8]");
    let values = client.run("LRANGE target 0 -1").replace(['[', ']', ',', '"'], "");
    assert_eq!(values, "1 2 3 4 5 6 7 8");
}
