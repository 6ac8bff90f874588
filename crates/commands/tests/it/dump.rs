//! DUMP and RESTORE compared with redis-server: each restores the dumps of the other, to the same
//! value.

use std::sync::Arc;

use crate::support::{Client, MemoryLog, TestClock, engine, requests, volatile, wire};
use commands::{Engine, EngineOptions};
use testkit::{Launch, Reply};

const NOW: u64 = 1_700_000_000_000;

/// Lines that make values of every type and encoding, at the limits of each: `%` represents 65
/// bytes, `@` for 20000.
const VALUES: &[&str] = &[
    "SET string hello",
    "SET int -70000",
    "SET long @",
    "SET large 9223372036854775808",
    "SETRANGE zeros 100000 x",
    "RPUSH list a 1 % b @ c",
    "RPUSH list a -5 -70000 \"\" %",
    "SADD ints 1 70000 -5 9223372036854775807",
    "SADD set a b 1 % \"\"",
    "HSET hash f v g 12 \"\" \"\"",
    "HSET large-hash f % g 12 h @",
    "ZADD sorted 1 a 2.5 b -inf c inf d 1e20 e 0.1 f",
    "ZADD large-sorted 1 % 2.5 b -inf c inf d 1e20 e 0.1 f -0 g",
    "XADD stream 1-1 f v g 12",
    "XADD stream 1-2 f w g 13",
    "XADD stream 5-0 other % f w",
    "XADD stream 6-0 f @ g \"\"",
    "XDEL stream 1-2",
    "XGROUP CREATE stream group 0",
    "XGROUP CREATE stream empty $",
    "XGROUP CREATECONSUMER stream group idle",
    "XREADGROUP GROUP group alice COUNT 2 STREAMS stream >",
    "XREADGROUP GROUP group bob COUNT 1 STREAMS stream >",
    "XCLAIM stream group bob 0 1-1 TIME 1234 RETRYCOUNT 9",
    "XGROUP CREATE drained group 0 MKSTREAM",
    "PFADD counter a b c",
    "GEOADD places 13.36 38.11 Palermo",
];

const KEYS: &[&str] = &[
    "string",
    "int",
    "long",
    "large",
    "zeros",
    "list",
    "ints",
    "set",
    "hash",
    "large-hash",
    "sorted",
    "large-sorted",
    "stream",
    "drained",
    "counter",
    "places",
    "many-ints",
    "many-members",
    "many-fields",
    "many-scored",
    "many-elements",
    "many-entries",
];

fn values() -> Vec<Vec<Vec<u8>>> {
    let word = |word: &str| match word {
        "\"\"" => Vec::new(),
        "%" => vec![b'x'; 65],
        "@" => (0..20_000u32).map(|n| (n / 7 % 251) as u8).collect(),
        word => word.as_bytes().to_vec(),
    };
    let mut lines: Vec<Vec<Vec<u8>>> =
        VALUES.iter().map(|line| line.split(' ').map(word).collect()).collect();
    for n in 0..3000 {
        let many = |line: String| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        lines.push(many(format!("SADD many-ints {}", n * 7)));
        lines.push(many(format!("SADD many-members member:{n}")));
        lines.push(many(format!("HSET many-fields field:{n} {n}")));
        lines.push(many(format!("ZADD many-scored {} member:{n}", n % 100)));
        lines.push(many(format!("RPUSH many-elements element:{n}")));
        lines.push(many(format!("XADD many-entries {n}-1 field {n}")));
    }
    lines
}

fn bulk(reply: &[u8]) -> Vec<u8> {
    match wire::read(&mut &reply[..]) {
        wire::Reply::Bulk(_, Some(bytes)) => bytes,
        other => panic!("{other:?}"),
    }
}

fn dump(client: &mut Client, key: &str) -> Vec<u8> {
    bulk(&client.raw(&["DUMP", key]))
}

fn restore(client: &mut Client, key: &str, payload: &[u8]) -> String {
    let words: [&[u8]; 5] = [b"RESTORE", key.as_bytes(), b"0", payload, b"REPLACE"];
    wire::show(&client.raw(&words))
}

fn digest(redis: &mut testkit::Client, key: &str) -> String {
    redis.call(&["DEBUG", "DIGEST-VALUE", key]).items()[0].text()
}

/// A redis-server with all the values, and a client of it.
fn redis() -> (testkit::Server, testkit::Client) {
    let server = Launch::redis().start();
    let mut client = server.client();
    for reply in client.pipeline(&values()).expect("replies") {
        assert!(!reply.is_error(), "{reply}");
    }
    (server, client)
}

#[test]
fn what_redis_dumps_is_restored_and_dumped_for_redis_again() {
    let (_server, mut redis) = redis();
    let mut client = Client::new(&engine());
    for key in KEYS {
        let Reply::Bulk(theirs) = redis.call(&["DUMP", key]) else { continue };
        assert_eq!(restore(&mut client, key, &theirs), "OK", "{key}");
        let ours = dump(&mut client, key);
        let words: [&[u8]; 4] = [b"RESTORE", b"copy", b"0", &ours];
        assert!(redis.call(&words).is_ok(), "{key}");
        assert_eq!(digest(&mut redis, "copy"), digest(&mut redis, key), "{key}");
        let encoding = bulk(&client.raw(&["OBJECT", "ENCODING", key]));
        assert_eq!(redis.run("OBJECT ENCODING copy").text().as_bytes(), encoding, "{key}");
        redis.run("DEL copy");
    }
}

#[test]
fn the_same_commands_are_dumped_as_the_same_bytes() {
    let (_server, mut redis) = redis();
    let mut client = Client::new(&engine());
    for words in values() {
        client.raw(&words);
    }
    for key in KEYS {
        let Reply::Bulk(theirs) = redis.call(&["DUMP", key]) else { continue };
        let ours = dump(&mut client, key);
        match *key {
            // These are in the order of a table, with a tombstone, or with times of delivery.
            "set" | "large-hash" | "many-ints" | "many-members" | "many-fields" => {
                assert_eq!((ours[0], ours.len()), (theirs[0], theirs.len()), "{key}");
            }
            "stream" => assert_eq!(ours[0], theirs[0], "{key}"),
            _ => assert!(ours == theirs, "{key}"),
        }
    }
}

#[test]
fn groups_come_back_whole() {
    let mut client = Client::new(&engine());
    for words in values() {
        client.raw(&words);
    }
    let payload = dump(&mut client, "stream");
    assert_eq!(restore(&mut client, "copy", &payload), "OK");
    for line in
        ["XINFO STREAM # FULL COUNT 0", "XPENDING # group - + 10", "XRANGE # - +", "XINFO GROUPS #"]
    {
        let of = |client: &mut Client, key| client.run(&line.replace('#', key));
        // Idle times may differ by the time between the two.
        let (source, copy) = (of(&mut client, "stream"), of(&mut client, "copy"));
        // Dumps of this version do not record that a consumer was never active.
        let never = "\"active-time\", (integer) -";
        let text = |reply: &str| {
            let reply = reply.replace(never, never.trim_end_matches('-'));
            reply.chars().filter(|c| !c.is_ascii_digit()).collect::<String>()
        };
        assert_eq!(text(&source), text(&copy), "{line}");
    }
}

fn at_a_time() -> (Arc<Engine>, Arc<MemoryLog>, Arc<TestClock>) {
    let (log, clock) = (Arc::new(MemoryLog::default()), TestClock::new(NOW));
    let options = EngineOptions {
        log: Some(log.clone()),
        clock: clock.clone(),
        ..EngineOptions::new(volatile(4, 256 << 20))
    };
    (Arc::new(Engine::new(options)), log, clock)
}

#[test]
fn fields_keep_their_ttls_and_expired_ones_stay_away() {
    let (engine, _, clock) = at_a_time();
    let mut client = Client::new(&engine);
    client.run("HSET hash a 1 b 2 c 3");
    client.run("HPEXPIREAT hash 1700000005000 FIELDS 1 a");
    client.run("HPEXPIREAT hash 1700000009000 FIELDS 1 b");
    let payload = dump(&mut client, "hash");
    assert_eq!(restore(&mut client, "copy", &payload), "OK");
    client.check(
        "HPEXPIRETIME copy FIELDS 3 a b c",
        "[(integer) 1700000005000, (integer) 1700000009000, (integer) -1]",
    );
    client.check("HGET copy b", "\"2\"");
    clock.advance_ms(6000);
    assert_eq!(restore(&mut client, "copy", &payload), "OK");
    client.check("HLEN copy", "(integer) 2");
    client.check(
        "HPEXPIRETIME copy FIELDS 3 a b c",
        "[(integer) -2, (integer) 1700000009000, (integer) -1]",
    );
}

#[test]
fn errors_are_those_of_redis() {
    let mut client = Client::new(&engine());
    client.run("SET k v");
    client.run("RPUSH list a");
    let payload = dump(&mut client, "k");
    let mut run = |words: &[&[u8]]| {
        let words: Vec<&[u8]> = [&[b"RESTORE".as_slice()], words].concat();
        wire::show(&client.raw(&words))
    };
    let mut check = |words: &[&[u8]], expected: &str| assert_eq!(run(words), expected);
    check(&[b"k", b"0", &payload], "(error) BUSYKEY Target key name already exists.");
    check(&[b"k", b"x", &payload], "(error) BUSYKEY Target key name already exists.");
    check(&[b"l", b"x", &payload], "(error) ERR value is not an integer or out of range");
    check(&[b"l", b"-1", &payload], "(error) ERR Invalid TTL value, must be >= 0");
    let bad_footer = "(error) ERR DUMP payload version or checksum are wrong";
    check(&[b"l", b"0", b""], bad_footer);
    check(&[b"l", b"0", &payload[..payload.len() - 1]], bad_footer);
    check(&[b"l", b"0", &payload, b"NOPE"], "(error) ERR syntax error");
    check(&[b"l", b"0", &payload, b"IDLETIME"], "(error) ERR syntax error");
    check(&[b"l", b"0", &payload, b"IDLETIME", b"1", b"FREQ", b"1"], "(error) ERR syntax error");
    let idle = "(error) ERR Invalid IDLETIME value, must be >= 0";
    check(&[b"l", b"0", &payload, b"IDLETIME", b"-1"], idle);
    let frequency = "(error) ERR Invalid FREQ value, must be >= 0 and <= 255";
    check(&[b"l", b"0", &payload, b"FREQ", b"256"], frequency);
    let bad = "(error) ERR Bad data format";
    for value in [
        &b"\x02\x02\x01a\x01a"[..],
        b"\x04\x02\x01a\x01b\x01a\x01c",
        b"\x02\x00",
        b"\x63",
        b"\x02\x05\x01a",
        b"",
    ] {
        let mut payload = value.to_vec();
        rdb::payload::append_footer(&mut payload, rdb::VERSION);
        check(&[b"list", b"0", &payload, b"REPLACE"], bad);
    }
    client.check("LRANGE list 0 -1", "[\"a\"]");
    client.check("DUMP nothing", "(nil)");
}

#[test]
fn times_and_uses_are_restored() {
    let (engine, log, clock) = at_a_time();
    let mut client = Client::new(&engine);
    client.run("SET k v");
    let payload = dump(&mut client, "k");
    let mut run = |words: &[&[u8]]| {
        let words: Vec<&[u8]> = [&[b"RESTORE".as_slice()], words].concat();
        assert_eq!(wire::show(&client.raw(&words)), "OK");
    };
    run(&[b"a", b"5000", &payload]);
    run(&[b"b", b"1700000009000", &payload, b"ABSTTL", b"IDLETIME", b"1000"]);
    run(&[b"c", b"0", &payload]);
    run(&[b"c", b"1600000000000", &payload, b"ABSTTL", b"REPLACE"]);
    run(&[b"d", b"1600000000000", &payload, b"ABSTTL"]);
    client.check("PEXPIRETIME a", "(integer) 1700000005000");
    client.check("PEXPIRETIME b", "(integer) 1700000009000");
    client.check("OBJECT IDLETIME b", "(integer) 1000");
    client.check("EXISTS c d", "(integer) 0");
    let logged = requests(&log.bytes());
    let words: Vec<Vec<&[u8]>> =
        logged.iter().map(|words| words.iter().map(Vec::as_slice).collect()).collect();
    let expected: [&[&[u8]]; 4] = [
        &[b"RESTORE", b"a", b"1700000005000", &payload, b"ABSTTL"],
        &[b"RESTORE", b"b", b"1700000009000", &payload, b"ABSTTL", b"IDLETIME", b"1000"],
        &[b"RESTORE", b"c", b"0", &payload],
        &[b"DEL", b"c"],
    ];
    assert_eq!(words[2..], expected);
    clock.advance_ms(5001);
    client.check("EXISTS a b", "(integer) 1");
}

#[test]
fn watchers_and_blocked_clients_see_a_restored_key() {
    let engine = engine();
    let (mut client, mut other) = (Client::new(&engine), Client::patient(&engine));
    client.run("RPUSH list a b");
    let payload = dump(&mut client, "list");
    client.run("WATCH key");
    client.run("MULTI");
    client.run("SET seen no");
    other.check("BLPOP key 0", "(blocked)");
    let mut third = Client::new(&engine);
    assert_eq!(restore(&mut third, "key", &payload), "OK");
    assert_eq!(other.unblocked().as_deref(), Some("[\"key\", \"a\"]"));
    client.check("EXEC", "(nil)");
}

/// The payload of a hash with these fields.
fn hash_of(fields: impl ExactSizeIterator<Item = u32>) -> Vec<u8> {
    let mut writer = rdb::Writer::new(Vec::new(), true);
    let write = || {
        writer.kind(rdb::Kind::Hash)?;
        writer.length(fields.len() as u64)?;
        for field in fields {
            writer.string(format!("field:{field}").as_bytes())?;
            writer.string(b"value")?;
        }
        std::io::Result::Ok(())
    };
    write().expect("memory takes everything");
    let mut payload = writer.into_inner();
    rdb::payload::append_footer(&mut payload, rdb::VERSION);
    payload
}

#[test]
fn a_large_value_is_stored_as_a_whole_or_not_at_all() {
    let mut client = Client::new(&engine());
    assert_eq!(restore(&mut client, "key", &hash_of(0..50_000)), "OK");
    client.check("HLEN key", "(integer) 50000");
    // The last field is a duplicate, after tens of batches.
    let fields: Vec<u32> = (0..60_000).chain([7]).collect();
    let bad = hash_of(fields.into_iter());
    assert_eq!(restore(&mut client, "key", &bad), "(error) ERR Bad data format");
    client.check("HLEN key", "(integer) 50000");
    client.check("HGET key field:49999", "\"value\"");
}

#[test]
fn a_checksum_counts_unless_it_is_switched_off() {
    let mut client = Client::new(&engine());
    client.run("SET k value");
    let mut payload = dump(&mut client, "k");
    *payload.last_mut().expect("a checksum") ^= 1;
    let wrong = "(error) ERR DUMP payload version or checksum are wrong";
    assert_eq!(restore(&mut client, "other", &payload), wrong);
    client.run("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1");
    assert_eq!(restore(&mut client, "other", &payload), "OK");
    assert_eq!(client.run("GET other"), "\"value\"");
    client.run("DEBUG SET-SKIP-CHECKSUM-VALIDATION 0");
    assert_eq!(restore(&mut client, "third", &payload), wrong);
}
