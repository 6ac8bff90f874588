//! Additions of Valkey 8 and 9, and the claimed version: CLIENT CAPA and IMPORT-SOURCE, CLIENT KILL
//! with MAXAGE (Redis 7.4), SCRIPT SHOW, COMMANDLOG, `redis-version`.

use std::sync::Arc;

use crate::support::{Client, TestClock, engine, volatile};
use commands::{Engine, EngineOptions};

#[track_caller]
fn check(client: &mut Client, lines: &[(&str, &str)]) {
    lines.iter().for_each(|(line, expected)| client.check(line, expected));
}

#[test]
fn a_client_claims_what_it_can() {
    let mut client = Client::new(&engine());
    let import = "(error) ERR Server is not in import mode";
    check(
        &mut client,
        &[
            ("CLIENT CAPA redirect", "OK"),
            ("CLIENT CAPA one other", "OK"),
            ("CLIENT CAPA", "(error) ERR wrong number of arguments for \\'client|capa\\' command"),
            ("CLIENT IMPORT-SOURCE ON", import),
            ("CLIENT IMPORT-SOURCE x", import),
            ("CLIENT IMPORT-SOURCE off", "OK"),
        ],
    );
}

#[test]
fn clients_are_killed_by_their_age() {
    let clock = TestClock::new(1_700_000_000_000);
    let options =
        EngineOptions { clock: clock.clone(), ..EngineOptions::new(volatile(4, 64 << 20)) };
    let engine = Arc::new(Engine::new(options));
    let _old = Client::new(&engine);
    clock.advance_ms(10_000);
    let (_young, mut client) = (Client::new(&engine), Client::new(&engine));
    clock.advance_ms(1_000);
    check(
        &mut client,
        &[
            ("CLIENT KILL MAXAGE 12", "(integer) 0"),
            ("CLIENT KILL MAXAGE 11", "(integer) 1"),
            ("CLIENT KILL MAXAGE 1 TYPE normal", "(integer) 2"),
            ("CLIENT KILL MAXAGE 0", "(error) ERR maxage should be greater than 0"),
            ("CLIENT KILL MAXAGE x", "(error) ERR maxage is not an integer or out of range"),
        ],
    );
}

/// Checks which of the clients a, b and c a CLIENT LIST with this filter shows.
#[track_caller]
fn found(client: &mut Client, filter: &str, expected: &str) {
    let list = client.run(&format!("CLIENT LIST {filter}"));
    let names: String = ["a", "b", "c"]
        .into_iter()
        .filter(|name| list.contains(&format!(" name={name} ")))
        .collect();
    assert_eq!(names, expected, "{filter}: {list}");
}

#[test]
fn clients_are_found_by_what_they_are() {
    let clock = TestClock::new(1_700_000_000_000);
    let options =
        EngineOptions { clock: clock.clone(), ..EngineOptions::new(volatile(4, 64 << 20)) };
    let engine = Arc::new(Engine::new(options));
    let mut clients = [(); 3].map(|()| Client::new(&engine));
    for (client, name) in clients.iter_mut().zip(["a", "b", "c"]) {
        client.check(&format!("CLIENT SETNAME {name}"), "OK");
    }
    clock.advance_ms(5_000);
    let [a, b, c] = &mut clients;
    let ids =
        [&mut *a, &mut *b, &mut *c].map(|client| client.run("CLIENT ID").replace("(integer) ", ""));
    check(b, &[("CLIENT SETINFO LIB-NAME lib", "OK"), ("CLIENT SETINFO LIB-VER 1", "OK")]);
    check(b, &[("CLIENT CAPA redirect", "OK"), ("CLIENT NO-TOUCH on", "OK"), ("SELECT 3", "OK")]);
    check(c, &[("ACL SETUSER who on nopass +@all", "OK"), ("AUTH who x", "OK"), ("MULTI", "OK")]);
    clock.advance_ms(2_000);
    a.check("PING", "PONG");
    for (filter, expected) in [
        ("", "abc"),
        ("NAME b", "b"),
        ("NOT-NAME b", "ac"),
        ("NAME nobody", ""),
        ("USER who", "c"),
        ("NOT-USER who", "ab"),
        ("LIB-NAME lib LIB-VER 1", "b"),
        ("NOT-LIB-NAME lib", "ac"),
        ("NOT-LIB-VER 1 NOT-NAME a", "c"),
        ("DB 3", "b"),
        ("NOT-DB 3 NOT-DB 0", "b"),
        ("FLAGS x", "c"),
        ("FLAGS N", "a"),
        ("NOT-FLAGS N", "bc"),
        ("CAPA r", "b"),
        ("NOT-CAPA r", "ac"),
        ("IDLE 2", "bc"),
        ("IDLE 3", ""),
        ("MAXAGE 7", "abc"),
        ("MAXAGE 8", ""),
        ("SKIPME yes", "bc"),
        ("TYPE normal NAME a", "a"),
        ("NOT-TYPE normal", ""),
        ("IP 1.2.3.4", ""),
        ("NOT-IP 1.2.3.4", "abc"),
        (&format!("ID {} {}", ids[0], ids[2]), "ac"),
        (&format!("ID {} {} NAME c", ids[0], ids[2]), "c"),
        (&format!("NOT-ID {} NOT-ID {}", ids[0], ids[2]), "b"),
    ] {
        found(a, filter, expected);
    }
    check(
        a,
        &[
            ("CLIENT LIST NAME", "(error) ERR syntax error"),
            ("CLIENT LIST NOT-MAXAGE 1", "(error) ERR syntax error"),
            ("CLIENT LIST FLAGS q", "(error) ERR Unknown flags found in the provided filter: q"),
            ("CLIENT LIST NOT-CAPA q", "(error) ERR Unknown capa found in the NOT-CAPA filter: q"),
            ("CLIENT LIST DB 16", "(error) ERR DB number should be between 0 and 15"),
            ("CLIENT LIST NOT-DB x", "(error) ERR NOT-DB is not an integer or out of range"),
            ("CLIENT KILL NOT-USER default DB 0", "(integer) 1"),
            ("CLIENT KILL NOT-NAME a NOT-NAME b", "(integer) 1"),
        ],
    );
}

#[test]
fn a_script_of_the_cache_is_shown() {
    let mut client = Client::new(&engine());
    let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    let missing = "(error) NOSCRIPT No matching script. Please use EVAL.";
    check(
        &mut client,
        &[
            (&format!("SCRIPT SHOW {sha}"), missing),
            ("SCRIPT SHOW x", missing),
            ("EVAL return(1) 0", "(integer) 1"),
        ],
    );
    client.raw(&["SCRIPT", "LOAD", "return 1"]);
    client.check(&format!("SCRIPT SHOW {sha}"), "\"return 1\"");
    client.check(&format!("SCRIPT SHOW {}", sha.to_uppercase()), "\"return 1\"");
}

/// Each request of a run is logged, not only its last one.
#[test]
fn pipelined_requests_are_logged_for_their_size() {
    // With SET and the key, the words have 8192 bytes; the request has more.
    let value = "x".repeat(8188);
    let many: Vec<&str> = ["RPUSH", "l"].into_iter().chain([""; 3000]).collect();
    for (least, request) in [(8193, vec!["SET", "k", &value]), (17_000, many)] {
        let engine = engine();
        let mut client = Client::new(&engine);
        let requests = [request.clone(), request];
        engine.admin().large_requests.set_slower_than(least);
        if client.pipeline(&requests).is_none() {
            requests.iter().for_each(|words| drop(client.raw(words)));
        }
        client.check("COMMANDLOG LEN large-request", "(integer) 2");
    }
    let small = vec![vec!["GET", "k"]; 2];
    assert!(Client::new(&engine()).pipeline(&small).is_some(), "a run");
}

#[test]
fn large_requests_and_replies_are_logged() {
    let engine = engine();
    let mut client = Client::new(&engine);
    let (admin, large) = (engine.admin(), "x".repeat(2000));
    admin.large_requests.set_slower_than(1000);
    admin.large_replies.set_slower_than(1500);
    admin.slow_log.set_slower_than(-1);
    client.run(&format!("SET k {large}"));
    client.run("GET k");
    // In one run with a small request.
    client.pipeline(&[vec!["GET", "other"], vec!["GET", "k"]]);
    let requests = [vec!["GET", "other"], vec!["GET", "k"]];
    for words in requests {
        client.raw(&words);
    }
    let kept = format!("\"{}... (1872 more bytes)\"", "x".repeat(128));
    let line = client.run("COMMANDLOG GET -1 large-request");
    // `*3`, `$3` SET, `$1` k, `$2000` and the value, each with its line ends.
    assert!(line.contains(&format!("(integer) 2029, [\"SET\", \"k\", {kept}]")), "{line}");
    let line = client.run("COMMANDLOG GET 1 LARGE-REPLY");
    assert!(line.contains("(integer) 2009, [\"GET\", \"k\"]"), "{line}");
    client.check("COMMANDLOG LEN large-request", "(integer) 1");
    client.check("COMMANDLOG LEN large-reply", "(integer) 2");
    check(
        &mut client,
        &[
            ("COMMANDLOG RESET large-reply", "OK"),
            ("COMMANDLOG LEN large-reply", "(integer) 0"),
            ("COMMANDLOG LEN slow", "(integer) 0"),
            ("SLOWLOG LEN", "(integer) 0"),
            (
                "COMMANDLOG LEN x",
                "(error) ERR type should be one of the following: slow, large-request, large-reply",
            ),
            ("COMMANDLOG GET -2 slow", "(error) ERR count should be greater than or equal to -1"),
            (
                "COMMANDLOG GET 1",
                "(error) ERR wrong number of arguments for \\'commandlog|get\\' command",
            ),
        ],
    );
    admin.large_replies.set_slower_than(-1);
    client.run("GET k");
    client.check("COMMANDLOG LEN large-reply", "(integer) 0");
    admin.slow_log.set_slower_than(0);
    client.run("PING");
    let line = client.run("COMMANDLOG GET 1 slow");
    assert!(line.contains("[\"PING\"]"), "{line}");
}

#[test]
fn another_version_is_claimed() {
    let engine = engine();
    engine.config().set_redis_version("8.4.2");
    let mut client = Client::new(&engine);
    assert!(client.run("INFO server").contains("redis_version:8.4.2\\r\\n"));
    assert!(client.run("HELLO 2").contains("\"version\", \"8.4.2\""));
    client.check("LOLWUT", "\"Redis ver. 8.4.2\\n\"");
    let script = "EVAL return{redis.REDIS_VERSION,redis.REDIS_VERSION_NUM} 0";
    client.check(script, "[\"8.4.2\", (integer) 525314]");
}

#[test]
fn fields_are_set_on_a_condition_of_the_key() {
    let mut client = Client::new(&engine());
    check(
        &mut client,
        &[
            ("HSETEX h XX FIELDS 1 f v", "(integer) 0"),
            ("EXISTS h", "(integer) 0"),
            ("HSETEX h NX EX 100 FIELDS 1 f v", "(integer) 1"),
            ("HSETEX h NX FIELDS 1 g v", "(integer) 0"),
            ("HSETEX h xx FNX FIELDS 1 g v", "(integer) 1"),
            ("HGETALL h", "[\"f\", \"v\", \"g\", \"v\"]"),
            (
                "HSETEX h NX XX FIELDS 1 g v",
                "(error) ERR Only one of NX or XX arguments can be specified",
            ),
        ],
    );
}

#[test]
fn items_are_found_in_a_polygon() {
    let mut client = Client::new(&engine());
    client.run("GEOADD g 1 1 a 3 3 b 9 9 c 0.5 3.5 d -179 0 e");
    let square = "BYPOLYGON 4 0 0 0 5 5 5 5 0";
    // A corner of it is missing, which contains b.
    let corner = "BYPOLYGON 6 0 0 4 0 4 2 2 2 2 4 0 4";
    let few = "(error) ERR GEOSEARCH BYPOLYGON must have at least 3 vertices";
    let syntax = "(error) ERR syntax error";
    for (line, expected) in [
        (format!("GEOSEARCH g {square} ASC"), "[\"b\", \"a\", \"d\"]"),
        (format!("GEOSEARCH g {square} DESC COUNT 1"), "[\"d\"]"),
        (format!("GEOSEARCH g {corner} ASC"), "[\"a\", \"d\"]"),
        ("GEOSEARCH g BYPOLYGON 4 -180 -80 180 -80 180 80 -180 80 ASC COUNT 9".into(), ""),
        (format!("GEOSEARCHSTORE to g {corner}"), "(integer) 2"),
        ("ZRANGE to 0 -1".into(), "[\"a\", \"d\"]"),
        ("GEOSEARCH nothing BYPOLYGON 3 0 0 0 5 5 5".into(), "[]"),
        ("GEOSEARCH g BYPOLYGON 2 0 0 0 5 5 5".into(), few),
        ("GEOSEARCH g BYPOLYGON 4 0 0 0 5 5 5".into(), few),
        ("GEOSEARCH g BYPOLYGON x 0 0 0 5 5 5".into(), "(error) ERR invalid number of vertices"),
        (format!("GEOSEARCH g FROMMEMBER a {square}"), syntax),
        (format!("GEOSEARCH g {square} BYRADIUS 1 m"), syntax),
        (
            "GEOSEARCH g BYPOLYGON 3 0 0 0 5 200 5".into(),
            "(error) ERR invalid longitude,latitude pair 200.000000,5.000000",
        ),
    ] {
        let found = client.run(&line);
        if expected.is_empty() {
            assert_eq!(found.matches('"').count(), 2 * 5, "{line}: {found}");
        } else {
            assert_eq!(found, expected, "{line}");
        }
    }
    // Distances are from the mean of the vertices, in metres.
    let around = client.run("GEOSEARCH g FROMLONLAT 2.5 2.5 BYRADIUS 300000 m ASC WITHDIST");
    client.check(&format!("GEOSEARCH g {square} ASC WITHDIST"), &around);
}
