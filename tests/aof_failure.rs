//! A log that can no longer be written: nothing more is acknowledged, the client is told why, and what was
//! acknowledged before comes back.
//!
//! A full disk is a limit on the size of files. `tests/kill` kills servers under load whose disk is full;
//! `crates/commands/tests/log_failure.rs` lets writes, syncs and renames of an engine's log fail.

#![forbid(unsafe_code)]

use testkit::{Client, Launch, Server};

const FULL: &str = "(error) MISCONF Errors writing to the AOF file: File too large";

/// Sets one key after the other until that is refused; how many were acknowledged, and the refusal.
fn write_until_refused(server: &Server) -> (u32, String) {
    let mut client = server.client();
    for n in 0..100_000 {
        let key = format!("key{n}");
        match client.try_call(&["SET", &key, "some value of some length"]) {
            Ok(reply) if reply.to_string() == "OK" => {}
            Ok(reply) => return (n, reply.to_string()),
            Err(error) => return (n, error.to_string()),
        }
    }
    panic!("a file of 64 KiB took 100000 commands");
}

/// Every write is refused, and everything else goes on.
#[track_caller]
fn check_refuses(client: &mut Client, policy: &str, refusal: &str) {
    client.check("SET another value", refusal);
    client.check("DEL key0", refusal);
    client.check("CONFIG GET appendfsync", &format!("[\"appendfsync\", \"{policy}\"]"));
    assert_eq!(client.info("persistence")["aof_last_write_status"], "err", "{policy}");
}

fn check_full(policy: &str) {
    let launch = Launch::perdura_aof(policy);
    let mut server = launch.clone().longest_file(64).start();
    let (acknowledged, refusal) = write_until_refused(&server);
    assert!(acknowledged > 500, "{policy}: refused after {acknowledged}: {refusal}");
    assert!(refusal.contains("MISCONF Errors writing to the AOF file"), "{policy}: {refusal}");
    check_refuses(&mut server.client(), policy, FULL);

    server.kill();
    server.start_as(launch);
    let mut client = server.client();
    let found = client.run("DBSIZE").int().expect("a number");
    assert!(found >= i64::from(acknowledged), "{policy}: {found} of {acknowledged} came back");
    for n in 0..acknowledged {
        client.check(&format!("GET key{n}"), "\"some value of some length\"");
    }
    client.check("SET another value", "OK");
}

#[test]
fn a_log_that_is_synced_always_acknowledges_nothing_that_it_could_not_write() {
    check_full("always");
}

#[test]
fn a_log_that_is_synced_every_second_stops_when_it_cannot_be_written() {
    check_full("everysec");
}

#[test]
fn a_log_that_is_not_synced_stops_when_it_cannot_be_written() {
    check_full("no");
}
