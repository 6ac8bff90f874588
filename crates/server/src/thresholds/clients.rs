//! Limits of connections: idle time, waiting bytes in either direction, their number, pauses.

use super::ground::{Ground, Guest};
use super::{Above, At, Row, row};
use crate::net::listen::admit;
use crate::net::socket::UnregisteredSocket;
use crate::waits::wire::request;

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering::Relaxed;

use commands::Peer;
use tokio::sync::mpsc::unbounded_channel;

/// Requests that put a client into a class of `client-output-buffer-limit`.
const CLASSES: [(&str, &[&str]); 3] = [
    ("normal", &[]),
    ("pubsub", &["HELLO 3", "SUBSCRIBE channel"]),
    ("pubsub", &["HELLO 3", "PSUBSCRIBE channel*"]),
];

pub(super) fn rows() -> Vec<Row> {
    let mut rows = silence();
    for (class, before) in CLASSES {
        rows.extend(output(class, before));
        rows.extend(output_again(class, before));
    }
    rows.extend(input());
    rows.extend(before_auth());
    rows.extend(memory());
    rows.extend(others());
    rows
}

/// `timeout`, and the clients that it spares.
fn silence() -> Vec<Row> {
    let silent = |ground: &Ground, limit: u64, amount: u64| {
        let client = ground.client();
        ground.set("timeout", limit);
        client.ask("PING");
        ground.advance(amount);
        client.is_closed()
    };
    let asks_meanwhile = |ground: &Ground, limit: u64, amount: u64| {
        ground.set("timeout", limit);
        let client = ground.client();
        ground.advance(limit * 500);
        client.ask("PING");
        ground.advance(amount);
        client.is_closed()
    };
    let buffers = |ground: &Ground, _: u64, amount: u64| {
        ground.set("timeout", 0);
        let client = ground.client();
        client.ask("PING");
        ground.advance(amount);
        client.face().query_buffer_free.load(Relaxed) == 0
    };
    let excused = |ground: &Ground, limit: u64, amount: u64| {
        ground.set("timeout", limit);
        let clients = ["SUBSCRIBE a", "PSUBSCRIBE a", "SSUBSCRIBE a", "MONITOR", "BLPOP none 0"]
            .map(|line| (line, ground.client()));
        clients.iter().for_each(|(line, client)| client.say(line));
        ground.advance(amount);
        for (line, client) in &clients {
            assert!(!client.is_closed(), "timeout closes a client of {line}");
        }
        amount > limit * 1000
    };
    vec![
        row("timeout", (1, 400), 1000, Above, silent),
        row("timeout, after a request", (2, 400), 1000, Above, asks_meanwhile),
        row("timeout, for clients that wait", (1, 400), 1000, Above, excused),
        row("silence after which buffers are given up", (2000, 2000), 1, Above, buffers),
    ]
}

/// Sets the limits of all classes so that only one has an effect.
fn limit_output(ground: &Ground, class: &str, hard: u64, soft: u64, seconds: u64) {
    let other = if class == "normal" { "pubsub" } else { "normal" };
    // The smallest limit, or none.
    let least = ground.now_ms() % 2;
    let rest = format!("{other} {least} {least} {least} {class} {hard} {soft} {seconds}");
    let client = ground.client();
    // There are no clients of the other class while this is set.
    let _ = client.ask_words(&["CONFIG", "SET", "client-output-buffer-limit", &rest]);
}

fn unlimited(ground: &Ground) {
    ground.set("client-output-buffer-limit", "normal 0 0 0 pubsub 0 0 0");
}

/// Connects a client of a class.
fn of_class<'g>(ground: &'g Ground, before: &[&str]) -> Guest<'g> {
    let client = ground.client();
    before.iter().for_each(|line| client.say(line));
    client
}

/// `client-output-buffer-limit` of a class: bytes, and seconds.
fn output(class: &'static str, before: &'static [&str]) -> Vec<Row> {
    let hard = move |ground: &Ground, limit: u64, amount: u64| {
        unlimited(ground);
        let client = of_class(ground, before);
        client.fill();
        limit_output(ground, class, client.waiting() + limit, 0, 0);
        client.take(amount);
        let closed = client.is_closed();
        unlimited(ground);
        closed
    };
    let soft = move |ground: &Ground, limit: u64, amount: u64| {
        unlimited(ground);
        let client = of_class(ground, before);
        client.fill();
        limit_output(ground, class, 0, client.waiting() + limit, 3);
        client.take(amount);
        ground.advance(3001);
        ground.advance(3001);
        let closed = client.is_closed();
        unlimited(ground);
        closed
    };
    let seconds = move |ground: &Ground, limit: u64, amount: u64| {
        unlimited(ground);
        let client = of_class(ground, before);
        client.fill();
        limit_output(ground, class, 0, client.waiting(), limit);
        client.take(200);
        ground.advance(amount);
        let closed = client.is_closed();
        unlimited(ground);
        closed
    };
    // One reply, before the socket takes a part of it.
    let at_once = move |ground: &Ground, limit: u64, amount: u64| {
        unlimited(ground);
        let client = of_class(ground, before);
        limit_output(ground, class, limit, 0, 0);
        client.send(&request(&["ECHO", &"x".repeat(amount as usize - 10)]));
        let closed = client.is_closed();
        unlimited(ground);
        closed
    };
    let name = |what: &str| format!("client-output-buffer-limit {class} of {before:?}: {what}");
    vec![
        row(&name("hard, by one reply"), (20_000, 90_000), 1, At, at_once),
        row(&name("hard"), (110, 900), 1, At, hard),
        row(&name("soft"), (110, 900), 1, At, soft),
        row(&name("seconds"), (1, 100), 1000, Above, seconds),
    ]
}

/// The soft limit's time ends when a client reads all, or enough that little waits, and begins
/// again later.
fn output_again(class: &'static str, before: &'static [&str]) -> Vec<Row> {
    let read_all = move |ground: &Ground, limit: u64, amount: u64| {
        unlimited(ground);
        let client = of_class(ground, before);
        limit_output(ground, class, 0, 1, limit);
        client.fill();
        ground.advance(limit * 1000);
        client.read_all();
        ground.advance(limit * 1000);
        client.fill();
        ground.advance(amount);
        let closed = client.is_closed();
        unlimited(ground);
        closed
    };
    let read_some = move |ground: &Ground, limit: u64, amount: u64| {
        unlimited(ground);
        let client = of_class(ground, before);
        client.fill();
        client.send(&request(&["ECHO", &"x".repeat(500_000)]));
        limit_output(ground, class, 0, 100_000, limit);
        ground.advance(limit * 1000);
        while client.waiting() >= 100_000 {
            client.read(20_000);
        }
        ground.advance(limit * 1000);
        assert!(!client.is_closed(), "a client that has read is closed");
        client.send(&request(&["ECHO", &"x".repeat(500_000)]));
        ground.advance(amount);
        let closed = client.is_closed();
        unlimited(ground);
        closed
    };
    let name = |what: &str| format!("client-output-buffer-limit {class} of {before:?}: {what}");
    vec![
        row(&name("seconds after all was read"), (2, 100), 1000, Above, read_all),
        row(&name("seconds after much was read"), (2, 100), 1000, Above, read_some),
    ]
}

/// Limits of input.
fn input() -> Vec<Row> {
    let arriving = |ground: &Ground, limit: u64, amount: u64| {
        let client = ground.client();
        ground.set("client-query-buffer-limit", limit);
        let head = b"*2\r\n$4\r\nECHO\r\n$8000000\r\n";
        client.send(head);
        client.send(&vec![b'x'; amount as usize - head.len()]);
        let closed = client.is_closed();
        ground.set("client-query-buffer-limit", 1 << 30);
        closed
    };
    let blocked = |ground: &Ground, limit: u64, amount: u64| {
        let client = ground.client();
        ground.set("client-query-buffer-limit", limit);
        // The waiting request counts.
        let asked = request(&["BLPOP", "nothing", "0"]);
        client.send(&asked);
        client.send(&vec![b'x'; amount as usize - asked.len()]);
        let closed = client.is_closed();
        ground.set("client-query-buffer-limit", 1 << 30);
        closed
    };
    let announced = |ground: &Ground, limit: u64, amount: u64| {
        let client = ground.client();
        ground.set("proto-max-bulk-len", limit);
        client.send(format!("*2\r\n$4\r\nECHO\r\n${amount}\r\n").as_bytes());
        let refused = client.received().contains("invalid bulk length");
        ground.set("proto-max-bulk-len", 512 << 20);
        refused
    };
    let inline = |ground: &Ground, _: u64, amount: u64| {
        let client = ground.client();
        client.send(&vec![b'x'; amount as usize]);
        client.received().contains("too big inline request")
    };
    vec![
        row("client-query-buffer-limit", (1 << 20, 2 << 20), 1, Above, arriving),
        row("client-query-buffer-limit while blocked", (1 << 20, 1 << 21), 1, Above, blocked),
        row("proto-max-bulk-len of an argument", (1 << 20, 1 << 40), 1, Above, announced),
        row("bytes of an inline request", (64 << 10, 64 << 10), 1, Above, inline),
    ]
}

/// Limits of input and output before authentication.
fn before_auth() -> Vec<Row> {
    let unknown = |ground: &Ground, bytes: &str| {
        ground.set("requirepass", "secret");
        let visitor = &mut ground.stage.visit(0);
        ground.stage.send(visitor, bytes.as_bytes());
        let refused = String::from_utf8_lossy(visitor.received()).contains("unauthenticated");
        // This client has authenticated.
        let mut maker = ground.stage.visit(0);
        ground.stage.send(&mut maker, b"AUTH secret\r\nCONFIG SET requirepass \"\"\r\n");
        refused
    };
    let arguments =
        move |ground: &Ground, _: u64, amount: u64| unknown(ground, &format!("*{amount}\r\n"));
    let bulk = move |ground: &Ground, _: u64, amount: u64| {
        unknown(ground, &format!("*2\r\n$4\r\nECHO\r\n${amount}\r\n"))
    };
    let replies = |ground: &Ground, _: u64, amount: u64| {
        let client = ground.client();
        client.fill();
        ground.set("requirepass", "secret");
        let wanted = amount - 8 - client.waiting();
        client.take(wanted);
        assert!(!client.is_closed(), "one who has authenticated has no such limit");
        client.send(b"RESET\r\n");
        let closed = client.is_closed();
        let mut maker = ground.stage.visit(0);
        ground.stage.send(&mut maker, b"AUTH secret\r\nCONFIG SET requirepass \"\"\r\n");
        closed
    };
    vec![
        row("arguments before AUTH", (10, 10), 1, Above, arguments),
        row("bytes of an argument before AUTH", (16384, 16384), 1, Above, bulk),
        row("bytes of replies before AUTH", (1024, 1024), 1, Above, replies),
    ]
}

/// `maxmemory-clients`, in bytes and as a share of `maxmemory`.
fn memory() -> Vec<Row> {
    const ONE: u64 = 50_000;
    let share = |percent: Option<u64>| {
        move |ground: &Ground, limit: u64, amount: u64| {
            let client = ground.client();
            client.send(b"*2\r\n$4\r\nECHO\r\n$8000000\r\n");
            client.send(&[b'x'; 300_000]);
            let all = client.face().memory() as u64;
            // One unit of the amount is more than the other clients take.
            let most = (all + limit * ONE - amount * ONE).saturating_sub(ONE / 2);
            if let Some(percent) = percent {
                ground.set("maxmemory", most * 100 / percent);
                ground.set("maxmemory-clients", format!("{percent}%"));
            } else {
                ground.set("maxmemory-clients", most);
            }
            let closed = client.is_closed();
            ground.set("maxmemory-clients", 0);
            ground.set("maxmemory", 0);
            closed
        }
    };
    vec![
        row("maxmemory-clients", (1, 1), 1, At, share(None)),
        row("maxmemory-clients in percent", (1, 1), 1, At, share(Some(20))),
    ]
}

fn others() -> Vec<Row> {
    let admitted = |ground: &Ground, limit: u64, amount: u64| {
        ground.set("maxclients", limit);
        let shared = &ground.stage.shared;
        let here = shared.meters[0].serving.swap(amount as usize - 1, Relaxed);
        let there = shared.meters[1].serving.swap(0, Relaxed);
        let ((socket, mut client), (sender, _receiver)) =
            (UnixStream::pair().expect("two sockets"), unbounded_channel());
        let peer = Peer { local: true, ..Peer::default() };
        admit(shared, &[sender], UnregisteredSocket::Unix(socket), peer);
        shared.meters[0].serving.store(here, Relaxed);
        shared.meters[1].serving.store(there, Relaxed);
        client.set_nonblocking(true).expect("a flag");
        let mut said = [0; 64];
        client.read(&mut said).is_ok_and(|read| read > 0)
    };
    let waiting = |ground: &Ground, limit: u64, amount: u64| {
        let client = ground.client();
        // A shorter pause changes nothing.
        ground.ask(&format!("CLIENT PAUSE {limit} WRITE"));
        ground.ask(&format!("CLIENT PAUSE {} WRITE", limit.div_ceil(2)));
        client.say("SET key value");
        ground.pass(amount);
        let replied = client.received() == "+OK\r\n";
        ground.ask("CLIENT UNPAUSE");
        replied
    };
    let arriving = |ground: &Ground, limit: u64, amount: u64| {
        let client = ground.client();
        ground.client().say(&format!("CLIENT PAUSE {limit}"));
        ground.pass(amount);
        client.say("SET key value");
        let replied = client.received() == "+OK\r\n";
        ground.pass(limit + 2);
        replied
    };
    let age = |field: &'static str| {
        move |ground: &Ground, limit: u64, amount: u64| {
            let client = ground.client();
            client.ask("PING");
            ground.pass(amount);
            let list = ground.ask("CLIENT LIST");
            let line =
                list.lines().find(|line| line.contains(&format!("id={} ", client.face().id)));
            let shown = line.and_then(|line| line.split(&format!(" {field}=")).nth(1));
            let shown = shown.and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
            shown.expect("a field") >= limit
        }
    };
    let house = |ground: &Ground, _: u64, amount: u64| {
        ground.keep_house();
        ground.pass(amount);
        crate::metrics::health::is_healthy(&ground.stage.shared).is_err()
    };
    vec![
        row("maxclients", (2, 900), 1, Above, admitted),
        row("CLIENT PAUSE, for one that waits", (1, 3000), 1, Above, waiting),
        row("CLIENT PAUSE, for one that comes", (1, 3000), 1, Above, arriving),
        row("CLIENT LIST idle", (1, 300), 1000, At, age("idle")),
        row("CLIENT LIST age", (1, 300), 1000, At, age("age")),
        row("silence of the housekeeping for /healthz", (60, 60), 1000, Above, house),
    ]
}
