//! Commands of Redis 7.2, which comparisons with Redis 7.0 leave out: CLIENT NO-TOUCH, CLIENT
//! SETINFO, WAITAOF.

use std::sync::Arc;

use crate::support::{Client, MemoryLog, TestClock, emulated, engine, volatile};
use commands::{Engine, EngineOptions};

#[track_caller]
fn check(client: &mut Client, lines: &[(&str, &str)]) {
    lines.iter().for_each(|(line, expected)| client.check(line, expected));
}

#[test]
fn keys_that_are_read_without_touch_stay_idle() {
    let clock = TestClock::new(1_700_000_000_000);
    let options =
        EngineOptions { clock: clock.clone(), ..EngineOptions::new(volatile(4, 64 << 20)) };
    let engine = Arc::new(Engine::new(options));
    let (mut client, mut other) = (Client::new(&engine), Client::new(&engine));
    let idle = |client: &mut Client, seconds: u32| {
        client.check("OBJECT IDLETIME k", &format!("(integer) {seconds}"));
    };
    client.run("RPUSH k a");
    client.check("CLIENT NO-TOUCH ON", "OK");
    clock.advance_ms(5000);
    check(&mut client, &[("LLEN k", "(integer) 1"), ("LSET k 0 b", "OK")]);
    check(&mut client, &[("MULTI", "OK"), ("LLEN k", "QUEUED"), ("EXEC", "[(integer) 1]")]);
    idle(&mut client, 5);
    let requests = [vec!["LLEN", "k"], vec!["LLEN", "k"]];
    assert_eq!(client.pipeline(&requests).as_deref(), Some(&b":1\r\n:1\r\n"[..]));
    idle(&mut client, 5);
    client.check("TOUCH k", "(integer) 1");
    idle(&mut client, 0);
    clock.advance_ms(3000);
    other.check("LLEN k", "(integer) 1");
    idle(&mut client, 0);
    for forget in ["CLIENT NO-TOUCH OFF", "RESET"] {
        clock.advance_ms(2000);
        client.check("CLIENT NO-TOUCH ON", "OK");
        client.run(forget);
        client.check("LLEN k", "(integer) 1");
        idle(&mut client, 0);
    }
    client.check(
        "CLIENT NO-TOUCH",
        "(error) ERR wrong number of arguments for \\'client|no-touch\\' command",
    );
    client.check("CLIENT NO-TOUCH x", "(error) ERR syntax error");
}

#[test]
fn a_client_says_what_library_it_is() {
    let mut client = Client::new(&engine());
    check(
        &mut client,
        &[
            ("CLIENT SETINFO LIB-NAME redis-py", "OK"),
            ("CLIENT SETINFO lib-ver 5.0.1", "OK"),
            ("CLIENT SETINFO lib x", "(error) ERR Unrecognized option \\'lib\\'"),
            ("CLIENT NO-TOUCH ON", "OK"),
        ],
    );
    for (name, words) in [("LIB-NAME", "a b"), ("lib-ver", "a\nb"), ("Lib-Ver", "\u{e4}")] {
        let error =
            format!("-ERR {name} cannot contain spaces, newlines or special characters.\r\n");
        assert_eq!(client.raw(&["CLIENT", "SETINFO", name, words]), error.as_bytes());
    }
    let line = client.run("CLIENT INFO");
    assert!(line.contains(" lib-name=redis-py lib-ver=5.0.1"), "{line}");
    assert!(line.contains(" flags=T "), "{line}");
    client.check("CLIENT SETINFO LIB-NAME \"\"", "OK");
    let line = client.run("CLIENT LIST");
    assert!(line.contains(" lib-name= lib-ver=5.0.1"), "{line}");
}

#[test]
fn what_was_written_is_known_to_be_durable() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = EngineOptions::new(emulated(&folder.path().join("pool"), 2));
    let log = Some(Arc::new(MemoryLog::default()) as Arc<dyn commands::CommandLog>);
    let logged = EngineOptions { log, ..EngineOptions::new(volatile(2, 64 << 20)) };
    for options in [pool, logged] {
        let mut client = Client::new(&Arc::new(Engine::new(options)));
        let durable = "[(integer) 1, (integer) 0]";
        check(
            &mut client,
            &[
                ("SET k v", "OK"),
                ("WAITAOF 1 0 0", durable),
                ("WAITAOF 0 0 0", durable),
                // No replica appears: the command times out.
                ("WAITAOF 1 1 50", durable),
                ("MULTI", "OK"),
                ("WAITAOF 1 1 0", "QUEUED"),
                ("EXEC", "[[(integer) 1, (integer) 0]]"),
            ],
        );
    }
    let not_kept =
        "(error) ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
    check(
        &mut Client::new(&engine()),
        &[
            ("WAITAOF 1 0 0", not_kept),
            ("WAITAOF 0 0 0", "[(integer) 0, (integer) 0]"),
            ("WAITAOF 2 0 0", "(error) ERR value is out of range, value must between 0 and 1"),
            ("WAITAOF x 0 0", "(error) ERR value is not an integer or out of range"),
            ("WAITAOF 0 -1 0", "(error) ERR value is out of range, must be positive"),
            ("WAITAOF 0 0 -1", "(error) ERR timeout is negative"),
        ],
    );
}
