//! MULTI, EXEC and WATCH: as a whole or not at all, for other clients and for the clients
//! themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Client, TestClock, engine, volatile};
use commands::{Engine, EngineOptions};

#[track_caller]
fn check(client: &mut Client, lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        client.check(line, expected);
    }
}

#[test]
fn queued_commands_run_at_exec() {
    let engine = engine();
    let (mut one, mut other) = (Client::new(&engine), Client::new(&engine));
    check(
        &mut one,
        &[("MULTI", "OK"), ("SET a 1", "QUEUED"), ("INCR a", "QUEUED"), ("DBSIZE", "QUEUED")],
    );
    other.check("GET a", "(nil)");
    one.check("EXEC", "[OK, (integer) 2, (integer) 1]");
    other.check("GET a", "\"2\"");
    check(
        &mut one,
        &[
            ("MULTI", "OK"),
            ("SET a 5", "QUEUED"),
            ("DISCARD", "OK"),
            ("GET a", "\"2\""),
            ("EXEC", "(error) ERR EXEC without MULTI"),
            ("DISCARD", "(error) ERR DISCARD without MULTI"),
        ],
    );
}

#[test]
fn a_command_that_fails_inside_exec_leaves_the_others() {
    let mut client = Client::new(&engine());
    check(
        &mut client,
        &[
            ("SET a x", "OK"),
            ("MULTI", "OK"),
            ("SET b 1", "QUEUED"),
            ("INCR a", "QUEUED"),
            ("SET c 1", "QUEUED"),
            ("EXEC", "[OK, (error) ERR value is not an integer or out of range, OK]"),
            ("MGET a b c", "[\"x\", \"1\", \"1\"]"),
        ],
    );
}

#[test]
fn the_queue_counts_as_memory_of_the_client() {
    let mut client = Client::new(&engine());
    let memory = |client: &Client| {
        let shared = &client.session.client;
        (shared.multi_mem.load(Ordering::Relaxed), shared.memory())
    };
    let (none, base) = memory(&client);
    assert_eq!(none, 0);
    for end in ["EXEC", "DISCARD"] {
        client.check("MULTI", "OK");
        let value = "v".repeat(100_000);
        for count in 1..=10 {
            client.check(&format!("SET k {value}"), "QUEUED");
            let (queued, total) = memory(&client);
            assert!((100_000 * count..110_000 * count).contains(&queued), "{queued} of {count}");
            assert_eq!(total, base + queued);
        }
        for _ in 0..10_000 {
            client.check("PING", "QUEUED");
        }
        let (queued, _) = memory(&client);
        assert!((1_200_000..2_000_000).contains(&queued), "{queued} bytes");
        client.run(end);
        assert_eq!(memory(&client), (0, base), "{end}");
    }
}

#[test]
fn a_refused_command_spoils_the_transaction() {
    let mut client = Client::new(&engine());
    check(
        &mut client,
        &[
            ("MULTI", "OK"),
            ("SET b 1", "QUEUED"),
            ("SET b", "(error) ERR wrong number of arguments for \\'set\\' command"),
            ("EXEC", "(error) EXECABORT Transaction discarded because of previous errors."),
            ("EXISTS b", "(integer) 0"),
            ("MULTI", "OK"),
            ("MULTI", "(error) ERR MULTI calls can not be nested"),
            ("WATCH a", "(error) ERR WATCH inside MULTI is not allowed"),
            ("EXEC", "[]"),
        ],
    );
}

/// The commands of another client between WATCH and EXEC, and whether EXEC then runs.
#[track_caller]
fn check_watch(before: &str, between: &str, runs: bool) {
    let engine = engine();
    let (mut one, mut other) = (Client::new(&engine), Client::new(&engine));
    other.run(before);
    check(&mut one, &[("WATCH k l", "OK"), ("GET k", &other.run("GET k"))]);
    for line in between.split(';') {
        other.run(line);
    }
    check(&mut one, &[("MULTI", "OK"), ("SET done 1", "QUEUED")]);
    one.check("EXEC", if runs { "[OK]" } else { "(nil)" });
    one.check("EXISTS done", if runs { "(integer) 1" } else { "(integer) 0" });
    check(&mut one, &[("MULTI", "OK"), ("SET done 2", "QUEUED"), ("EXEC", "[OK]")]);
}

#[test]
fn exec_fails_when_a_watched_key_changed() {
    check_watch("SET k 1", "GET k", true);
    check_watch("SET k 1", "SET other 1", true);
    check_watch("SET k 1", "SET k 1", false);
    check_watch("SET k 1", "SELECT 1;SET k 1", true);
    check_watch("SET k 1", "SET l 1", false);
    check_watch("SET k 1", "DEL k", false);
    check_watch("SET k 1", "EXPIRE k 100", false);
    check_watch("SET k 1", "DEL nothing", true);
    check_watch("SET k 1", "FLUSHALL", false);
    check_watch("SET other 1", "FLUSHALL", true);
    check_watch("SET k 1", "SWAPDB 0 1", false);
    check_watch("SET k 1", "RENAME k m", false);
    check_watch("SET m 1", "RENAME m k", false);
    check_watch("SET k 1", "MULTI;SET k 2;EXEC", false);
    check_watch("SET k 1", "MULTI;SET k 2;DISCARD", true);
}

#[test]
fn exec_fails_when_a_watched_key_expired() {
    let clock = TestClock::new(1_700_000_000_000);
    let options =
        EngineOptions { clock: clock.clone(), ..EngineOptions::new(volatile(4, 64 << 20)) };
    let engine = Arc::new(Engine::new(options));
    let mut client = Client::new(&engine);
    check(&mut client, &[("SET k 1 PX 10", "OK"), ("WATCH k", "OK"), ("MULTI", "OK")]);
    clock.advance_ms(20);
    check(&mut client, &[("SET done 1", "QUEUED"), ("EXEC", "(nil)")]);
    check(
        &mut client,
        &[("WATCH k", "OK"), ("MULTI", "OK"), ("PING", "QUEUED"), ("EXEC", "[PONG]")],
    );
}

#[test]
fn unwatch_and_reset_forget_watches() {
    let engine = engine();
    let (mut one, mut other) = (Client::new(&engine), Client::new(&engine));
    for forget in ["UNWATCH", "RESET"] {
        one.run("WATCH k");
        other.run("INCR k");
        one.run(forget);
        check(&mut one, &[("MULTI", "OK"), ("PING", "QUEUED"), ("EXEC", "[PONG]")]);
    }
}

#[test]
fn to_watch_a_key_takes_as_long_however_many_are_watched() {
    const KEYS: usize = 120_000;
    let engine = engine();
    let mut client = Client::new(&engine);
    let begin = Instant::now();
    for part in 0..KEYS / 1000 {
        let keys: Vec<String> = (0..1000).map(|key| format!("k{}", part * 1000 + key)).collect();
        client.check(&format!("WATCH {}", keys.join(" ")), "OK");
        client.check("WATCH k0 k1", "OK");
    }
    check(&mut client, &[("MULTI", "OK"), ("INCR k0", "QUEUED"), ("EXEC", "[(integer) 1]")]);
    // It would take minutes if each were compared with all others.
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[test]
fn nobody_sees_half_of_a_transaction() {
    const ROUNDS: usize = 2000;
    let engine = engine();
    let done = Arc::new(AtomicBool::new(false));
    let reader = {
        let (engine, done) = (Arc::clone(&engine), Arc::clone(&done));
        std::thread::spawn(move || {
            let mut client = Client::new(&engine);
            while !done.load(Ordering::Relaxed) {
                let seen = client.run("MGET a b c");
                let values: Vec<&str> = seen.trim_matches(['[', ']']).split(", ").collect();
                assert!(values.iter().all(|v| *v == values[0]), "half of a transaction: {seen}");
            }
        })
    };
    let mut client = Client::new(&engine);
    for n in 0..ROUNDS {
        client.run("MULTI");
        for key in ["a", "b", "c"] {
            client.run(&format!("SET {key} {n}"));
        }
        client.check("EXEC", "[OK, OK, OK]");
    }
    done.store(true, Ordering::Relaxed);
    reader.join().expect("the reader saw whole transactions");
}
