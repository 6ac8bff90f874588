//! Publish and subscribe over real connections on several threads, compared with redis-server if
//! replies are deterministic.

use std::time::{Duration, Instant};

use testkit::{Client, Launch, Server};

fn start(arguments: &[&str]) -> Server {
    Launch::perdura_volatile().args(["--threads", "3"]).args(arguments.iter().copied()).start()
}

fn heard(client: &mut Client) -> String {
    client.receive().expect("a reply").to_string()
}

/// Sends lines of one connection and collects all that comes back, up to the answer to a last PING.
/// Its subscriptions end before the next session.
fn session(server: &Server, lines: &[&str]) -> Vec<String> {
    let mut client = server.client();
    let words = |line: &&str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let commands: Vec<Vec<String>> = lines.iter().map(words).collect();
    client.send_pipeline(&commands).expect("sent");
    client.send(&["PING", "the end"]).expect("sent");
    let mut all = Vec::new();
    loop {
        let reply = heard(&mut client);
        if reply.contains("the end") {
            client.check("RESET", "RESET");
            return all;
        }
        all.push(reply);
    }
}

/// Conversations of one client, each with one possible reply.
const CONVERSATIONS: &[&[&str]] = &[
    &[
        "SUBSCRIBE a b a",
        "UNSUBSCRIBE x",
        "PING",
        "PING hi",
        "GET k",
        "CLIENT GETNAME",
        "UNSUBSCRIBE a b",
        "GET k",
    ],
    &[
        "PSUBSCRIBE a* b*",
        "SUBSCRIBE c",
        "PUNSUBSCRIBE a*",
        "PUNSUBSCRIBE",
        "UNSUBSCRIBE",
        "UNSUBSCRIBE",
        "PUNSUBSCRIBE",
        // In the order of subscription.
        "PSUBSCRIBE z y 10 9 x",
        "PUNSUBSCRIBE 10",
        "PSUBSCRIBE 10 z a",
        "PUNSUBSCRIBE",
    ],
    &[
        "SSUBSCRIBE a",
        "SUBSCRIBE a",
        "SSUBSCRIBE b",
        "SUNSUBSCRIBE a",
        "SUNSUBSCRIBE",
        "SUNSUBSCRIBE",
        "UNSUBSCRIBE a",
        "GET k",
    ],
    &[
        "SUBSCRIBE",
        "PUBLISH a",
        "PUBSUB",
        "PUBSUB NONSENSE",
        "PUBSUB CHANNELS a b",
        "PUBSUB NUMPAT x",
        "PUBSUB HELP",
    ],
    &["SUBSCRIBE a", "MULTI", "EXEC", "RESET", "GET k", "PUBSUB NUMSUB a"],
    &["SUBSCRIBE a", "HELLO 3", "PING a b", "SET k v"],
    &[
        "MULTI",
        "SUBSCRIBE a",
        "SSUBSCRIBE s",
        "PSUBSCRIBE p*",
        "GET k",
        "PING",
        "EXEC",
        "GET k",
        "PING",
        "UNSUBSCRIBE",
    ],
    &[
        "PUBLISH nobody m",
        "SPUBLISH nobody m",
        "PUBSUB NUMSUB",
        "PUBSUB NUMSUB a b",
        "PUBSUB SHARDNUMSUB a",
        "PUBSUB NUMPAT",
        "PUBSUB CHANNELS",
        "PUBSUB SHARDCHANNELS *",
    ],
    &["CLIENT REPLY OFF", "SUBSCRIBE a", "GET k", "UNSUBSCRIBE a", "CLIENT REPLY ON"],
    &["CLIENT REPLY SKIP", "SUBSCRIBE a", "UNSUBSCRIBE a", "GET k"],
];
/// The same in RESP3, where replies and messages can be told apart.
const NEWER: &[&[&str]] = &[
    &[
        "SUBSCRIBE a",
        "SET k v",
        "GET k",
        "PUBLISH a hello",
        "PUBLISH b hello",
        "UNSUBSCRIBE a",
        "PUBLISH a x",
    ],
    &["PSUBSCRIBE a* b*", "SUBSCRIBE aa", "PUBSUB NUMPAT", "PUBLISH aa 1", "PING", "PING x"],
    &[
        "SSUBSCRIBE a",
        "SUBSCRIBE a",
        "SPUBLISH a 1",
        "PUBLISH a 2",
        "PUBSUB SHARDCHANNELS",
        "PUBSUB CHANNELS",
    ],
    &["SUBSCRIBE a", "RESET", "PUBLISH a x"],
];

#[test]
fn one_client_hears_what_it_hears_of_redis() {
    let (ours, theirs) = (start(&[]), Launch::redis().start());
    let mut hello = vec!["HELLO 3"];
    for lines in CONVERSATIONS {
        assert_eq!(session(&ours, lines), session(&theirs, lines), "{lines:?}");
    }
    for lines in CONVERSATIONS.iter().chain(NEWER).filter(|lines| !lines.contains(&"HELLO 3")) {
        hello.truncate(1);
        hello.extend(*lines);
        assert_eq!(session(&ours, &hello)[1..], session(&theirs, &hello)[1..], "{hello:?}");
    }
}

#[test]
fn messages_reach_every_thread_in_the_order_of_their_publisher() {
    let server = start(&[]);
    let mut listeners: Vec<Client> = (0..9).map(|_| server.client()).collect();
    for (n, client) in listeners.iter_mut().enumerate() {
        match n % 3 {
            0 => client.check("SUBSCRIBE news", "[\"subscribe\", \"news\", (integer) 1]"),
            1 => client.check("PSUBSCRIBE n?ws", "[\"psubscribe\", \"n?ws\", (integer) 1]"),
            _ => {
                client.run("HELLO 3");
                client.check("SUBSCRIBE news", ">[\"subscribe\", \"news\", (integer) 1]");
            }
        }
    }
    let mut publisher = server.client();
    let commands: Vec<Vec<String>> =
        (0..500).map(|n| vec!["PUBLISH".into(), "news".into(), n.to_string()]).collect();
    let replies = publisher.pipeline(&commands).expect("replies");
    assert!(replies.iter().all(|reply| reply.int() == Some(9)));
    for (which, client) in listeners.iter_mut().enumerate() {
        for n in 0..500 {
            let expected = match which % 3 {
                0 => format!("[\"message\", \"news\", \"{n}\"]"),
                1 => format!("[\"pmessage\", \"n?ws\", \"news\", \"{n}\"]"),
                _ => format!(">[\"message\", \"news\", \"{n}\"]"),
            };
            assert_eq!(heard(client), expected);
        }
    }
    publisher.check("PUBSUB NUMSUB news", "[\"news\", (integer) 6]");
    let list = publisher.run("CLIENT LIST TYPE pubsub").text();
    assert_eq!(list.lines().count(), 9);
    assert!(list.lines().all(|line| line.contains(" flags=P ")), "{list}");
    let both = [" sub=1 psub=0 ssub=0 ", " sub=0 psub=1 ssub=0 "];
    assert_eq!(both.map(|what| list.matches(what).count()), [6, 3]);
    let info = publisher.info("stats");
    assert_eq!([&info["pubsub_channels"], &info["pubsub_patterns"]], ["1", "1"]);
    drop(listeners);
    let begin = Instant::now();
    while publisher.run("PUBLISH news x").int() != Some(0) {
        assert!(begin.elapsed() < Duration::from_secs(10), "who is gone listens on");
    }
    publisher.check("PUBSUB CHANNELS", "[]");
}

#[test]
fn a_client_that_blocks_hears_messages_meanwhile() {
    let server = start(&[]);
    let (mut client, mut other) = (server.client(), server.client());
    client.run("HELLO 3");
    client.run("SUBSCRIBE a");
    client.send(&["BLPOP", "k", "0"]).expect("sent");
    while other.info("clients")["blocked_clients"] != "1" {}
    other.check("PUBLISH a now", "(integer) 1");
    assert_eq!(heard(&mut client), ">[\"message\", \"a\", \"now\"]");
    other.check("RPUSH k 1", "(integer) 1");
    assert_eq!(heard(&mut client), "[\"k\", \"1\"]");
}

#[test]
fn a_client_that_never_reads_is_closed_and_hurts_nobody() {
    let server = start(&["--client-output-buffer-limit", "pubsub", "1mb", "0", "0"]);
    let (mut deaf, mut reader, mut publisher) = (server.client(), server.client(), server.client());
    for client in [&mut deaf, &mut reader] {
        client.check("SUBSCRIBE a", "[\"subscribe\", \"a\", (integer) 1]");
    }
    let message = "m".repeat(100_000);
    let begin = Instant::now();
    while publisher.call(&["PUBLISH", "a", &message]).int() == Some(2) {
        assert_eq!(reader.receive().expect("a message").items()[2].text(), message);
        assert!(begin.elapsed() < Duration::from_secs(30), "nobody closes it");
    }
    assert_eq!(reader.receive().expect("a message").items()[2].text(), message);
    publisher.check("PUBSUB NUMSUB a", "[\"a\", (integer) 1]");
    assert!(server.log().contains("closed for overcoming of output buffer limits"));
}
