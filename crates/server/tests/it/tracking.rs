//! Client-side caching over real connections on several threads, compared with redis-server if
//! replies are deterministic.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use testkit::{Client, Launch, Server};

fn start() -> Server {
    let arguments = ["--threads", "3", "--enable-debug-command", "local"];
    Launch::perdura_volatile().args(arguments).start()
}

fn newer(server: &Server) -> Client {
    let mut client = server.client();
    client.run("HELLO 3");
    client
}

fn heard(client: &mut Client) -> String {
    client.receive().expect("a reply").to_string()
}

/// Returns what comes back for a line, replies and messages. If commands are queued, there is one
/// reply.
fn all_of(client: &mut Client, line: &str, queues: bool) -> Vec<String> {
    let words: Vec<&str> = line.split(' ').collect();
    client.send(&words).expect("sent");
    let reply = heard(client);
    if queues {
        return vec![reply];
    }
    // Redis broadcasts when it has executed everything that has arrived: what is sent later is
    // executed later.
    client.send(&["PING", "the end"]).expect("sent");
    let reported = std::iter::repeat_with(|| heard(client));
    [reply].into_iter().chain(reported.take_while(|text| !text.contains("the end"))).collect()
}

/// Conversations of one client with one possible outcome each.
const CONVERSATIONS: &[&[&str]] = &[
    &[
        "CLIENT TRACKING",
        "CLIENT TRACKING maybe",
        "CLIENT TRACKING on REDIRECT",
        "CLIENT TRACKING on REDIRECT 99999999",
        "CLIENT TRACKING on REDIRECT x",
        "CLIENT TRACKING on PREFIX a",
        "CLIENT TRACKING on BCAST OPTIN",
        "CLIENT TRACKING on OPTIN OPTOUT",
        "CLIENT TRACKING off NOLOOP",
        "CLIENT TRACKINGINFO",
        "CLIENT GETREDIR",
        "CLIENT CACHING yes",
        "CLIENT CACHING maybe",
    ],
    &[
        "CLIENT TRACKING on",
        "CLIENT TRACKINGINFO",
        "CLIENT GETREDIR",
        "CLIENT TRACKING on BCAST",
        "CLIENT CACHING yes",
        "SET k 1",
        "GET k",
        "INCR k",
        "INCR k",
        "GET k",
        "GET missing",
        "MSET k 1 missing 2",
        "GET k",
        "CLIENT TRACKING off",
        "SET k 2",
    ],
    &[
        "CLIENT TRACKING on NOLOOP",
        "CLIENT TRACKINGINFO",
        "GET k",
        "SET k 1",
        "CLIENT TRACKING on",
        "GET k",
        "EXPIRE k 100",
        "GET k",
        "RENAME k l",
        "GET l",
        "DEL l",
    ],
    &[
        "CLIENT TRACKING on",
        "GET c",
        "MULTI",
        "MSET a 1 b 1 c 1",
        "GET a",
        "MGET b c",
        "INCR b",
        "EXEC",
        "MSET a 2 b 2 c 2",
        "PFADD h 1 2 3",
        "PFCOUNT h",
        "PFADD h 4",
        "PFCOUNT h",
        "PFCOUNT h",
    ],
    &[
        "CLIENT TRACKING on OPTIN",
        "CLIENT TRACKING on OPTOUT",
        "CLIENT CACHING no",
        "GET k",
        "SET k 1",
        "CLIENT CACHING yes",
        "CLIENT TRACKINGINFO",
        "GET k",
        "CLIENT TRACKINGINFO",
        "SET k 2",
        "CLIENT CACHING yes",
        "MULTI",
        "GET k",
        "GET l",
        "EXEC",
        "MSET k 1 l 2",
        "GET l",
        "SET l 3",
    ],
    &[
        "CLIENT TRACKING on OPTOUT",
        "CLIENT CACHING yes",
        "CLIENT CACHING no",
        "CLIENT TRACKINGINFO",
        "GET",
        "GET k",
        "SET k 1",
        "CLIENT CACHING no",
        "GET k",
        "SET k 1",
        "GET k",
        "SET k 2",
    ],
    &[
        "CLIENT TRACKING on BCAST PREFIX ab PREFIX cd",
        "CLIENT TRACKING on BCAST PREFIX a",
        "CLIENT TRACKING on BCAST PREFIX x PREFIX xy",
        "CLIENT TRACKING on BCAST PREFIX ef",
        "CLIENT TRACKINGINFO",
        "CLIENT TRACKING on",
        "SET ab1 1",
        "SET other 1",
        "MULTI",
        "SET cd2 1",
        "SET ef1 1",
        "SET cd1 1",
        "SET x 1",
        "INCR cd1",
        "EXEC",
        "CLIENT TRACKING on BCAST NOLOOP",
        "RESET",
    ],
    &[
        "CLIENT TRACKING on BCAST",
        "CLIENT TRACKINGINFO",
        "SET a 1",
        "LPUSH l 1 2",
        "LPOP l",
        "DEL a l",
        "RESET",
        "CLIENT TRACKINGINFO",
    ],
    &[
        "CLIENT TRACKING on",
        "HGET h f",
        "HSET h f 1",
        "ZRANGE z 0 -1",
        "ZADD z 1 a",
        "GET k",
        "FLUSHDB",
        "SET k 1",
        "GET k",
        "MULTI",
        "FLUSHALL",
        "GET k",
        "EXEC",
        "SET k 2",
        // Earlier changes come before, and no client has the keys that are changed after.
        "MGET k l m",
        "MULTI",
        "SET k 1",
        "SET l 1",
        "FLUSHDB",
        "SET m 1",
        "EXEC",
        "MGET k l m",
        "MULTI",
        "FLUSHDB",
        "FLUSHDB",
        "SET k 1",
        "EXEC",
        "EVAL redis.call('set',KEYS[1],1)redis.call('flushdb')redis.call('set',KEYS[2],1) 2 k l",
    ],
    &["CLIENT TRACKING on BCAST", "MULTI", "SET k 1", "FLUSHDB", "SET l 1", "EXEC", "RESET"],
];

#[test]
fn one_client_gets_what_redis_sends() {
    let (ours, theirs) = (start(), Launch::redis().start());
    for lines in CONVERSATIONS {
        let (mut our, mut their) = (newer(&ours), newer(&theirs));
        our.run("FLUSHALL");
        their.run("FLUSHALL");
        let mut queues = false;
        for line in *lines {
            queues = *line == "MULTI" || queues && *line != "EXEC";
            let [ours, theirs] = [&mut our, &mut their].map(|client| all_of(client, line, queues));
            assert_eq!(ours, theirs, "{line} of {lines:?}");
        }
    }
}

#[test]
fn another_client_is_notified_in_the_old_protocol() {
    let server = start();
    let (mut reader, mut listener, mut writer) =
        (server.client(), server.client(), server.client());
    let id = listener.run("CLIENT ID").int().expect("a number");
    listener.run("SUBSCRIBE __redis__:invalidate");
    reader.check(&format!("CLIENT TRACKING on REDIRECT {id}"), "OK");
    reader.run("MGET a b");
    let line = reader.run("CLIENT INFO").text();
    assert!(line.contains(" flags=t ") && line.contains(&format!(" redir={id} ")), "{line}");
    writer.run("MSET a 1 b 2 c 3");
    assert_eq!(heard(&mut listener), "[\"message\", \"__redis__:invalidate\", [\"a\"]]");
    assert_eq!(heard(&mut listener), "[\"message\", \"__redis__:invalidate\", [\"b\"]]");
    writer.run("FLUSHALL");
    assert_eq!(heard(&mut listener), "[\"message\", \"__redis__:invalidate\", (nil)]");

    reader.run("HELLO 3");
    reader.run("GET a");
    drop(listener);
    let begin = Instant::now();
    while writer.run("CLIENT LIST").text().contains(&format!("id={id} ")) {
        assert!(begin.elapsed() < Duration::from_secs(10), "who is gone stays in the list");
    }
    writer.run("SET a 2");
    assert_eq!(heard(&mut reader), format!(">[\"tracking-redir-broken\", (integer) {id}]"));
    assert!(reader.run("CLIENT INFO").text().contains(" flags=tR "));
}

#[test]
fn expiry_and_eviction_are_reported_to() {
    let server = start();
    let (mut reader, mut writer) = (newer(&server), server.client());
    reader.check("CLIENT TRACKING on NOLOOP", "OK");
    reader.check("MULTI", "OK");
    reader.check("SET brief 1 PX 50", "QUEUED");
    reader.check("GET brief", "QUEUED");
    reader.check("EXEC", "[OK, \"1\"]");
    assert_eq!(heard(&mut reader), ">[\"invalidate\", [\"brief\"]]");

    writer.run("SETEX volatile 1000 1");
    reader.check("GET volatile", "\"1\"");
    writer.run("CONFIG SET maxmemory-policy volatile-random");
    writer.run("CONFIG SET maxmemory 1");
    writer.run("SET more 1");
    assert_eq!(heard(&mut reader), ">[\"invalidate\", [\"volatile\"]]");
}

#[test]
fn what_is_remembered_has_a_bound_and_ends_with_the_client() {
    let server = start();
    let (mut reader, mut other) = (newer(&server), server.client());
    reader.check("CLIENT TRACKING on", "OK");
    for n in 0..20 {
        reader.run(&format!("GET key:{n}"));
    }
    let stats = other.info("stats");
    assert_eq!([&stats["tracking_total_keys"], &stats["tracking_total_items"]], ["20", "20"]);
    other.check("CONFIG SET tracking-table-max-keys 5", "OK");
    let mut reported: Vec<String> = (0..15).map(|_| heard(&mut reader)).collect();
    reported.sort();
    reported.dedup();
    assert_eq!(reported.len(), 15, "{reported:?}");
    assert_eq!(other.info("stats")["tracking_total_keys"], "5");
    reader.send(&["GET", "one more"]).expect("sent");
    let both = [heard(&mut reader), heard(&mut reader)];
    assert!(both[0] == "(nil)" && both[1].contains("invalidate"), "{both:?}");

    let mut listener = newer(&server);
    listener.check("CLIENT TRACKING on BCAST PREFIX a PREFIX b", "OK");
    let counts = |client: &mut Client| {
        let clients = client.info("clients")["tracking_clients"].clone();
        [clients, client.info("stats")["tracking_total_prefixes"].clone()]
    };
    assert_eq!(counts(&mut other), ["2", "2"]);
    drop((reader, listener));
    let begin = Instant::now();
    while counts(&mut other) != ["0", "0"] {
        assert!(begin.elapsed() < Duration::from_secs(10), "who is gone is told on");
    }
}

#[test]
fn messages_are_not_lost_with_replies_that_are_not_wanted() {
    let server = start();
    let mut client = newer(&server);
    let words = |line: &&str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let lines = ["CLIENT TRACKING on", "GET k", "SET k 1", "CLIENT REPLY OFF", "GET k", "SET k 2"];
    let lines: Vec<Vec<String>> = lines.iter().map(words).collect();
    client.send_pipeline(&lines).expect("sent");
    client.send(&["CLIENT", "REPLY", "ON"]).expect("sent");
    let reported = ">[\"invalidate\", [\"k\"]]";
    assert_eq!(
        [(); 6].map(|()| heard(&mut client)),
        ["OK", "(nil)", "OK", reported, reported, "OK"]
    );
}

#[test]
fn a_change_is_reported_once_where_others_waited_for_it() {
    let server = start();
    let (mut waiter, mut writer, mut listener) = (server.client(), newer(&server), newer(&server));
    writer.check("CLIENT TRACKING on BCAST NOLOOP", "OK");
    listener.check("CLIENT TRACKING on BCAST", "OK");
    waiter.send(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"]).expect("sent");
    while listener.info("clients")["blocked_clients"] != "1" {}
    writer.check("XADD s 1-1 f v", "\"1-1\"");
    assert!(heard(&mut waiter).contains("1-1"));
    writer.check("PING", "PONG");
    assert_eq!(heard(&mut listener), ">[\"invalidate\", [\"s\"]]");
    listener.check("PING", "PONG");

    writer.check("DEBUG POPULATE 250", "OK");
    let reported: usize = (0..3).map(|_| heard(&mut listener).matches("key:").count()).sum();
    assert_eq!(reported, 250);
}

/// A reader on one thread and a writer on another access the same key again and again: the copy
/// that the reader keeps in the end is what the writer left.
#[test]
fn no_change_is_missed() {
    const ROUNDS: usize = 3000;
    let server = start();
    let (meeting, mut writer) = (Barrier::new(2), server.client());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                meeting.wait();
                writer.check(&format!("SET key {round}"), "OK");
                meeting.wait();
            }
        });
        let mut reader = newer(&server);
        reader.check("CLIENT TRACKING on", "OK");
        let (mut copy, mut stale) = (None, Vec::new());
        for round in 0..ROUNDS {
            meeting.wait();
            // Every other time as part of a run.
            let run = vec![vec!["GET", "key"]; 1 + round % 2];
            reader.send_pipeline(&run).expect("sent");
            run.iter().for_each(|_| copy = Some(reply(&mut reader, &mut copy)));
            meeting.wait();
            reader.send(&["PING"]).expect("sent");
            reply(&mut reader, &mut copy);
            let left = format!("\"{round}\"");
            stale.extend(
                copy.iter().filter(|copy| **copy != left).map(|copy| (round, copy.clone())),
            );
        }
        assert_eq!(stale, [], "copies that nobody took away");
    });
}

/// Returns the next reply. The messages before it invalidate the copy.
fn reply(client: &mut Client, copy: &mut Option<String>) -> String {
    loop {
        let text = heard(client);
        if !text.starts_with(">[\"invalidate\"") {
            return text;
        }
        *copy = None;
    }
}
