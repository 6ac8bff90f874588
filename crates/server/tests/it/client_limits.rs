//! A client's share of the machine: memory for its requests, its replies and its watches; and the
//! likelihood that the kernel kills the server.

use std::time::{Duration, Instant};

use testkit::{Client, Launch, Server};

fn start(more: &[&str]) -> Server {
    Launch::perdura_volatile().args(more.iter().copied()).start()
}

/// Sends commands until the server closes the connection. Returns true if it does.
fn is_closed(client: &mut Client, command: impl Fn(usize) -> Vec<String>) -> bool {
    let began = Instant::now();
    for number in (0..).step_by(100) {
        let batch: Vec<Vec<String>> = (number..number + 100).map(&command).collect();
        if client.pipeline(&batch).is_err() {
            return true;
        }
        if began.elapsed() > Duration::from_secs(60) {
            break;
        }
    }
    false
}

#[test]
fn a_reply_over_the_hard_limit_is_not_sent() {
    let server = start(&["--client-output-buffer-limit", "normal", "100000", "0", "0"]);
    let mut client = server.client();
    let push = |client: &mut Client, key: &str, elements: usize| {
        let words = ["RPUSH".to_owned(), key.to_owned()].into_iter();
        let words: Vec<String> = words.chain((0..elements).map(|_| "x".repeat(1000))).collect();
        assert_eq!(client.call(&words).int(), Some(elements as i64));
    };
    push(&mut client, "small", 90);
    push(&mut client, "large", 150);
    assert_eq!(client.run("LRANGE small 0 -1").items().len(), 90);
    // Executed commands keep their effects.
    let requests: Vec<Vec<&str>> = vec![
        vec!["MULTI"],
        vec!["SET", "before", "1"],
        vec!["LRANGE", "large", "0", "-1"],
        vec!["SET", "after", "2"],
        vec!["EXEC"],
    ];
    let mut other = server.client();
    assert!(other.pipeline(&requests).is_err(), "it is closed and gets nothing");
    client.check("MGET before after", "[\"1\", \"2\"]");
    assert!(server.log().contains("closed for overcoming of output buffer limits"));
    assert!(server.client().try_call(&["LRANGE", "large", "0", "-1"]).is_err());
    client.check("CONFIG SET client-output-buffer-limit \"normal 0 0 0\"", "OK");
    assert_eq!(client.run("LRANGE large 0 -1").items().len(), 150);
}

#[test]
fn a_request_over_the_limit_of_all_clients_evicts_its_client() {
    let server = start(&["--maxmemory-clients", "3000000"]);
    let mut client = server.client();
    let value = "v".repeat(1_000_000);
    assert!(client.call(&["MSET", "k", "v", "k2", &value]).is_ok());
    let large = "v".repeat(3_000_000);
    assert!(client.try_call(&["MSET", "k", "w", "k2", &large]).is_err(), "it is evicted");
    let mut client = server.client();
    client.check("GET k", "\"v\"");
    assert_eq!(client.info("stats")["evicted_clients"], "1");
    client.check("CLIENT NO-EVICT on", "OK");
    assert!(client.call(&["MSET", "k", "w", "k2", &large]).is_ok());
}

#[test]
fn what_a_client_watches_counts_as_its_memory() {
    let server = start(&["--maxmemory-clients", "200000"]);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let watch = |i: usize| words(&["WATCH", &i.to_string()]);
    assert!(is_closed(&mut server.client(), watch), "WATCH");
    for kind in ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"] {
        let subscribe = |i: usize| words(&[kind, &i.to_string()]);
        assert!(is_closed(&mut server.client(), subscribe), "{kind}");
    }
    let track =
        |i: usize| words(&["CLIENT", "TRACKING", "on", "PREFIX", &format!("{i:012}"), "BCAST"]);
    assert!(is_closed(&mut server.client(), track), "CLIENT TRACKING");
}

#[test]
fn oom_score_adj_reaches_the_kernel() {
    let server = start(&[]);
    let mut client = server.client();
    let file = format!("/proc/{}/oom_score_adj", server.pid());
    let score = || -> i64 {
        std::fs::read_to_string(&file).expect("read").trim().parse().expect("a number")
    };
    let base = score();
    client.check("CONFIG SET oom-score-adj-values \"9 20 30\"", "OK");
    assert_eq!(score(), base, "only where it is asked for");
    client.check("CONFIG SET oom-score-adj yes", "OK");
    assert_eq!(score(), (base + 9).min(1000));
    client.check("CONFIG SET oom-score-adj-values \"15 20 30\"", "OK");
    assert_eq!(score(), (base + 15).min(1000));
    client.check("REPLICAOF 127.0.0.1 1", "OK");
    assert_eq!(score(), (base + 20).min(1000), "it is a replica");
    client.check("REPLICAOF NO ONE", "OK");
    assert_eq!(score(), (base + 15).min(1000));
    client.check("CONFIG SET oom-score-adj absolute oom-score-adj-values \"900 0 0\"", "OK");
    assert_eq!(score(), 900);
    client.check("CONFIG SET oom-score-adj no", "OK");
    assert_eq!(score(), base);
    let server = start(&["--oom-score-adj", "absolute", "--oom-score-adj-values", "901 0 0"]);
    let file = format!("/proc/{}/oom_score_adj", server.pid());
    assert_eq!(std::fs::read_to_string(file).expect("read").trim(), "901");
}
