//! The main job, done as its user does it: with redis-cli and redis-benchmark.
//!
//! Start, write, kill -9, start again, read. This test does not use the protocol itself.

use std::process::Command;
use testkit::{Launch, Server};

fn run(server: &Server, program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(["-h", "127.0.0.1", "-p", &server.port().to_string()]).args(arguments);
    let output =
        command.output().unwrap_or_else(|e| panic!("{program}: {e} (`make packages` installs it)"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    assert_eq!(errors, "", "{command:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn check(server: &Server, line: &[&str], expected: &str) {
    assert_eq!(run(server, "redis-cli", line).trim_end(), expected, "{line:?}");
}

fn benchmark(server: &Server) {
    let report = run(
        server,
        "redis-benchmark",
        &["-t", "set,get", "-n", "200000", "-r", "100000", "-P", "16", "-q"],
    );
    for test in ["SET", "GET"] {
        let done = report.contains(&format!("{test}: ")) && report.contains("requests per second");
        assert!(done, "redis-benchmark reports no {test}:\n{report}");
    }
}

fn pass_smoke_test(launch: Launch) {
    let mut server = launch.start();
    check(&server, &["set", "greeting", "hello"], "OK");
    benchmark(&server);
    let keys = run(&server, "redis-cli", &["dbsize"]);
    server.kill();
    server.start_again();
    check(&server, &["get", "greeting"], "hello");
    check(&server, &["dbsize"], keys.trim_end());
    check(&server, &["incrby", "visits", "7"], "7");
    assert!(server.terminate().success(), "SIGTERM is no clean end\n{}", server.log());
    server.start_again();
    check(&server, &["get", "visits"], "7");
    check(
        &server,
        &["dbsize"],
        &(keys.trim_end().parse::<u64>().expect("a number") + 1).to_string(),
    );
}

#[test]
fn a_pool_passes_the_smoke_test() {
    pass_smoke_test(Launch::perdura_pmem());
}

#[test]
fn a_pool_with_a_journal_passes_the_smoke_test() {
    pass_smoke_test(Launch::perdura_journal("everysec"));
}

#[test]
fn a_pool_with_flushes_and_fences_passes_the_smoke_test() {
    pass_smoke_test(Launch::perdura_emulated());
}

#[test]
fn an_append_only_file_passes_the_smoke_test() {
    pass_smoke_test(Launch::perdura_aof("always"));
}

#[test]
fn redis_passes_the_smoke_test() {
    pass_smoke_test(Launch::redis().args(["--appendonly", "yes", "--appendfsync", "always"]));
}

/// Facts that a user must see at a glance: where the data is, what it survives, what was recovered.
#[test]
fn the_start_says_what_is_durable() {
    let mut server = Launch::perdura_pmem().start();
    check(&server, &["mset", "a", "1", "b", "2"], "OK");
    server.kill();
    server.start_again();
    let log = server.log();
    for said in ["backend=pmem", "domain=process", "durability=", "keys=2", "recovery="] {
        assert!(log.contains(said), "the log does not say {said}:\n{log}");
    }
    let info = server.client().info("persistence");
    assert_eq!(info.get("backend").map(String::as_str), Some("pmem"));
    assert_eq!(info.get("domain").map(String::as_str), Some("process"));
    assert!(info["durability"].contains("process"), "{}", info["durability"]);
}

#[test]
fn an_emulated_medium_says_so_everywhere() {
    let server = Launch::perdura_emulated().start();
    let said = "emulated: survives a process crash only";
    assert!(server.log().contains(said), "{}", server.log());
    let info = run(&server, "redis-cli", &["info", "persistence"]);
    assert!(info.contains(said), "{info}");
}
