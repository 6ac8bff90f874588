//! Wrong input from outside: requests, connections, files, options.
//!
//! Each is answered by a clear error (in Redis's words if Redis has them), affects no other client,
//! and loses nothing. Where possible redis-server is asked too, so that the expected replies are
//! Redis's and not ours.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;
use testkit::{Launch, Medium, Server};

/// Marks a conversation that the server ends.
const CLOSED: &str = " closed";

/// Sends raw bytes and reads until the server closes, or until this many bytes have arrived.
fn converse(server: &Server, bytes: &[u8], awaited: usize) -> String {
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    let _ = stream.write_all(bytes);
    let mut reply = Vec::new();
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time limit");
    let _ = (&stream).take(awaited as u64).read_to_end(&mut reply);
    stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a time limit");
    let closed = stream.read_to_end(&mut reply).is_ok();
    format!("{}{}", String::from_utf8_lossy(&reply), if closed { CLOSED } else { "" })
}

/// Malformed requests, each with the whole reply.
const MALFORMED: &[(&str, &str)] = &[
    (
        "*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n",
        "-ERR Protocol error: expected '$', got 'f'\r\n closed",
    ),
    ("*-10\r\nPING\r\n", "+PONG\r\n"),
    ("*3000000000\r\n", "-ERR Protocol error: invalid multibulk length\r\n closed"),
    ("*abc\r\n", "-ERR Protocol error: invalid multibulk length\r\n closed"),
    ("*1\r\n$-3\r\n", "-ERR Protocol error: invalid bulk length\r\n closed"),
    ("*1\r\n$2000000000\r\n", "-ERR Protocol error: invalid bulk length\r\n closed"),
    ("*1\r\n$x\r\n", "-ERR Protocol error: invalid bulk length\r\n closed"),
    ("*1\r\n*1\r\n$4\r\nPING\r\n", "-ERR Protocol error: expected '$', got '*'\r\n closed"),
    ("SET \"unbalanced\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n closed"),
    ("*2\r\n$3\r\nGET\r\n$1\r\nx", ""),
    ("\r\n\r\nPING\r\n", "+PONG\r\n"),
    ("*0\r\n*1\r\n$4\r\nPING\r\n", "+PONG\r\n"),
    ("*1\r\n$0\r\n\r\n", "-ERR unknown command '', with args beginning with: \r\n"),
];

fn requests_are_answered(launch: Launch) {
    let server = launch.start();
    let mut witness = server.client();
    witness.check("SET kept value", "OK");
    for (sent, expected) in MALFORMED {
        let awaited = if expected.ends_with(CLOSED) { usize::MAX } else { expected.len() };
        assert_eq!(converse(&server, sent.as_bytes(), awaited), *expected, "{sent:?}");
    }
    let endless = vec![b'a'; 70_000];
    let reply = converse(&server, &endless, usize::MAX);
    assert!(reply.starts_with("-ERR Protocol error: too big inline request"), "{reply}");
    let mut header = b"*1\r\n$".to_vec();
    header.extend(vec![b'1'; 70_000]);
    let reply = converse(&server, &header, usize::MAX);
    assert!(reply.starts_with("-ERR Protocol error: too big bulk count string"), "{reply}");
    let nested = b"*1\r\n".repeat(100_000);
    let reply = converse(&server, &nested, usize::MAX);
    assert!(reply.starts_with("-ERR Protocol error: expected '$', got '*'"), "{reply}");
    witness.check("GET kept", "\"value\"");
}

#[test]
fn malformed_requests_are_answered() {
    requests_are_answered(Launch::perdura_pmem());
}

#[test]
fn redis_answers_malformed_requests_the_same() {
    requests_are_answered(Launch::redis());
}

#[test]
fn half_a_command_keeps_nobody_waiting() {
    let server = Launch::perdura_pmem().start();
    let mut silent: Vec<TcpStream> = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(server.address()).expect("a connection");
        stream.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\nthe beginning").expect("sent");
        silent.push(stream);
    }
    let mut client = server.client();
    for n in 1..=1000 {
        client.check("INCR n", &format!("(integer) {n}"));
    }
    client.check("EXISTS k", "(integer) 0");
}

#[test]
fn connections_come_and_go_by_thousands() {
    let server = Launch::perdura_pmem().start();
    let mut witness = server.client();
    for n in 0..10_000 {
        let mut stream = TcpStream::connect(server.address()).expect("a connection");
        if n % 3 == 0 {
            stream.write_all(b"*1\r\n$4\r\nPI").expect("sent");
        }
    }
    witness.check("SET kept value", "OK");
    let clients =
        || server.client().info("clients")["connected_clients"].parse::<u64>().expect("a number");
    let gone = (0..1200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        clients() <= 2
    });
    assert!(gone, "{} clients are still there", clients());
}

#[test]
fn binary_keys_and_values_are_kept() {
    let mut server = Launch::perdura_pmem().start();
    let all: Vec<u8> = (0..=255).collect();
    let mut client = server.client();
    for key in [&b""[..], b"\0", b"\r\n", &all] {
        assert!(client.call(&[b"SET", key, &all]).is_ok());
    }
    server.crash();
    let mut client = server.client();
    for key in [&b""[..], b"\0", b"\r\n", &all] {
        assert_eq!(client.call(&[b"GET", key]).bytes(), Some(&all[..]), "{}", key.escape_ascii());
    }
}

/// A pool after some writes and a clean shutdown, in a directory of its own.
fn pool() -> Server {
    let mut server = Launch::perdura_pmem().start();
    let mut client = server.client();
    for n in 0..1000 {
        client.check(&format!("SET key{n} value{n}"), "OK");
    }
    assert!(server.terminate().success());
    server
}

/// Starts over a damaged pool; the start is refused, and names what was found.
#[track_caller]
fn refused(server: &Server, launch: &Launch, said: &str) {
    let ended = launch.run_to_end_in(server.folder());
    assert!(!ended.status.success(), "the server took it\n{}", ended.log);
    assert!(ended.status.code().is_some(), "a crash is no refusal: {}", ended.status);
    assert!(!ended.log.contains("panicked"), "{}", ended.log);
    assert!(ended.log.contains(said), "the log does not say {said:?}:\n{}", ended.log);
}

fn change(pool: &Path, at: u64, bytes: &[u8]) {
    let file = fs::OpenOptions::new().write(true).open(pool).expect("the pool");
    file.write_all_at(bytes, at).expect("written");
}

#[test]
fn a_file_that_is_no_pool_is_refused() {
    let server = pool();
    let path = server.folder().join("perdura.pool");
    fs::write(&path, b"#!/bin/sh\necho this is a script\n".repeat(1000)).expect("written");
    refused(&server, &Launch::perdura_pmem(), "magic");
    let kept = fs::read(&path).expect("the file is still there");
    assert!(kept.starts_with(b"#!/bin/sh"), "a file that is no pool was written to");
}

#[test]
fn a_pool_cut_short_is_refused() {
    let server = pool();
    let path = server.folder().join("perdura.pool");
    let length = fs::metadata(&path).expect("the pool").len();
    let file = fs::OpenOptions::new().write(true).open(&path).expect("the pool");
    file.set_len(length / 2).expect("cut");
    refused(&server, &Launch::perdura_pmem(), "expected");
}

#[test]
fn one_damaged_header_is_survived_and_two_are_refused() {
    let mut server = pool();
    let path = server.folder().join("perdura.pool");
    change(&path, 100, &[0xff; 16]);
    server.start_again();
    server.client().check("GET key7", "\"value7\"");
    assert!(server.terminate().success());
    change(&path, 100, &[0xff; 16]);
    change(&path, 4096 + 100, &[0xff; 16]);
    refused(&server, &Launch::perdura_pmem(), "checksum");
}

#[test]
fn a_pool_in_use_is_refused() {
    let server = Launch::perdura_pmem().start();
    server.client().check("SET kept value", "OK");
    refused(&server, &Launch::perdura_pmem(), "another process");
    server.client().check("GET kept", "\"value\"");
}

#[test]
fn flipped_bytes_never_bring_the_server_down() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..8 {
        let mut server = pool();
        let path = server.folder().join("perdura.pool");
        let length = fs::metadata(&path).expect("the pool").len();
        for _ in 0..200 {
            change(&path, random.u64(..length.min(4 << 20)), &[random.u8(..)]);
        }
        let ended = server.try_start_again();
        let log = server.log();
        assert!(!log.contains("panicked"), "{log}");
        if ended.is_some_and(|status| status.code().is_some()) {
            continue;
        }
        let mut client = server.client();
        for n in 0..1000 {
            let reply = client.call(&["GET", &format!("key{n}")]);
            let right = reply.text() == format!("value{n}")
                || reply.is_error()
                || reply == testkit::Reply::Nil;
            assert!(right, "key{n} is {reply}");
        }
        assert!(!server.log().contains("panicked"), "{}", server.log());
    }
}

#[track_caller]
fn refuses(arguments: &[&str], said: &str) {
    let ended = Launch::perdura().args(arguments.to_vec()).run_to_end();
    assert!(!ended.status.success(), "{arguments:?} was taken\n{}", ended.log);
    assert!(
        ended.log.contains(said),
        "{arguments:?}: the log does not say {said:?}:\n{}",
        ended.log
    );
}

#[test]
fn options_that_cannot_be_fulfilled_are_refused_by_name() {
    refuses(&["--no-such-directive", "1"], "no-such-directive");
    refuses(&["--backend", "floppy"], "floppy");
    refuses(&["--maxclients", "many"], "maxclients");
    refuses(&["/nowhere/perdura.conf"], "/nowhere/perdura.conf");
    refuses(&["--dir", "/nowhere/at/all"], "/nowhere/at/all");
    refuses(
        &["--backend", "pmem", "--domain", "clwb", "--pool", "p.pool"],
        "emulate persistent memory",
    );
    refuses(
        &["--backend", "pmem", "--domain", "eadr", "--pool", "p.pool"],
        "emulate persistent memory",
    );
    refuses(&["--backend", "pmem", "--domain", "auto", "--pool", "p.pool"], "process");
}

#[test]
fn a_full_pool_answers_oom_and_loses_nothing() {
    let launch =
        Launch::perdura().on(Medium::Memory).args(["--backend", "pmem", "--domain", "process"]);
    let mut server = launch.args(["--pool", "perdura.pool", "--pool-size", "128mb"]).start();
    let mut client = server.client();
    let value = "v".repeat(10_000);
    let mut written = 0;
    let refusal = loop {
        let reply = client.call(&["SET", &format!("key{written}"), &value]);
        if !reply.is_ok() {
            break reply.to_string();
        }
        written += 1;
        assert!(written < 100_000, "128 MiB never fill up");
    };
    assert!(refusal.starts_with("(error) OOM the store is full"), "{refusal}");
    for _ in 0..10 {
        assert!(!client.call(&["SET", &format!("key{written}"), &value]).is_ok());
    }
    let info = client.run("INFO persistence").text();
    assert!(info.contains("full_refused_commands:11\r\n"), "{info}");
    let reported = server.log().matches("The store is full and refuses writes with OOM").count();
    assert_eq!(reported, 1, "the log is told once");
    client.check("DBSIZE", &format!("(integer) {written}"));
    server.crash();
    let mut client = server.client();
    for n in 0..written {
        assert_eq!(client.call(&["GET", &format!("key{n}")]).text(), value, "key{n}");
    }
    for n in 0..written {
        client.check(&format!("DEL key{n}"), "(integer) 1");
    }
    client.check("SET again value", "OK");
}
