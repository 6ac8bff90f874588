//! The same bytes to redis-server and to Perdura give the same bytes back.
//!
//! Streams of valid commands are damaged at random places: whatever the two servers make of them,
//! the replies must be the same up to the point where the connection is closed. A seed that finds a
//! difference is printed.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use testkit::{Launch, Server};

/// Commands whose replies depend only on what was sent on the same connection.
const COMMANDS: &[&[&str]] = &[
    &["PING"],
    &["PING", "a b"],
    &["ECHO", "x"],
    &["ECHO", ""],
    &["SET", "k", "1"],
    &["GET", "k"],
    &["GET", "none"],
    &["INCR", "k"],
    &["DEL", "k"],
    &["EXISTS", "k", "k"],
    &["MGET", "k", "none"],
    &["NOSUCH", "a"],
    &["GET"],
    &["SELECT", "99"],
    &["TYPE", "k"],
    &["MULTI"],
    &["EXEC"],
    &["DISCARD"],
    &["APPEND", "s", "more"],
    &["STRLEN", "s"],
    &["GETRANGE", "s", "0", "-1"],
    &["INCRBYFLOAT", "f", "0.1"],
    &["QUIT"],
];

fn stream(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut out = b"FLUSHALL\r\n".to_vec();
    for _ in 0..random.usize(1..8) {
        let command = COMMANDS[random.usize(..COMMANDS.len())];
        if random.u8(..4) == 0 {
            let words: Vec<String> = command.iter().map(|word| format!("\"{word}\"")).collect();
            out.extend_from_slice(words.join(" ").as_bytes());
            out.extend_from_slice(if random.bool() { b"\r\n" } else { b"\n" });
            continue;
        }
        out.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
        for word in command {
            out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
    }
    for _ in 0..random.usize(..3) {
        damage(&mut out, random);
    }
    out
}

/// Changes, drops, doubles or inserts a byte after the first line. Not a NUL: Redis waits forever
/// after one in a line.
fn damage(out: &mut Vec<u8>, random: &mut fastrand::Rng) {
    const BYTES: &[u8] = b"*$\r\n-+:0123 \"'\\xaP\xff";
    let at = random.usize(10..=out.len());
    let byte = BYTES[random.usize(..BYTES.len())];
    match random.u8(..4) {
        0 if at < out.len() => out[at] = byte,
        1 if at < out.len() => drop(out.remove(at)),
        2 if at < out.len() => out.insert(at, out[at]),
        _ => out.insert(at, byte),
    }
}

/// Returns all output of the server until it has read everything or closes.
fn says(server: &Server, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    let mut reply = Vec::new();
    let _ = stream.write_all(request);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read_to_end(&mut reply);
    reply.escape_ascii().to_string()
}

#[test]
fn damaged_streams_are_answered_as_redis_answers_them() {
    let (redis, perdura) = (Launch::redis().start(), Launch::perdura_volatile().start());
    for seed in 0..2000 {
        let request = stream(&mut fastrand::Rng::with_seed(seed));
        let shown = request.escape_ascii();
        assert_eq!(says(&perdura, &request), says(&redis, &request), "seed {seed}: {shown}");
    }
}
