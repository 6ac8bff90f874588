//! Blocked clients with real connections: the right ones are served, and nothing is lost or taken
//! twice.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use testkit::{Client, Launch, Reply, Server};

const THREADS: [&str; 2] = ["--threads", "3"];

fn start() -> Server {
    Launch::perdura_volatile().args(THREADS).start()
}

/// Lets this process open as many connections as the system allows.
fn allow_many_clients() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("the hard limit");
}

/// Waits until this many clients are blocked.
#[track_caller]
fn await_blocked(client: &mut Client, count: usize) {
    let begin = Instant::now();
    while client.info("clients")["blocked_clients"] != count.to_string() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{count} clients never blocked");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns connections that wait for these commands, in this order.
fn blocked<const N: usize>(server: &Server, admin: &mut Client, lines: [&str; N]) -> [Client; N] {
    let mut count = 0;
    lines.map(|line| {
        let mut client = server.client();
        let words: Vec<&str> = line.split(' ').collect();
        client.send(&words).expect("sent");
        count += 1;
        await_blocked(admin, count);
        client
    })
}

fn heard(client: &mut Client) -> String {
    client.receive().expect("a reply").to_string()
}

#[test]
fn clients_of_all_threads_are_served_in_the_order_in_which_they_came() {
    let server = start();
    let mut admin = server.client();
    let waiting = blocked(&server, &mut admin, ["BLPOP k 0"; 9]);
    admin.check("RPUSH k 0 1 2 3 4 5 6 7 8", "(integer) 9");
    admin.check("EXISTS k", "(integer) 0");
    for (n, mut client) in waiting.into_iter().enumerate() {
        assert_eq!(heard(&mut client), format!("[\"k\", \"{n}\"]"));
    }
    await_blocked(&mut admin, 0);
}

#[test]
fn what_follows_a_blocking_command_waits_for_its_reply() {
    let server = start();
    let mut admin = server.client();
    let mut client = server.client();
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let pipeline = ["PING", "BLPOP k 0", "GET x", "BLPOP k 0", "PING"].map(words);
    client.send_pipeline(&pipeline).expect("sent");
    assert_eq!(heard(&mut client), "PONG");
    await_blocked(&mut admin, 1);
    // Input that arrives while it is blocked, including half a command.
    client.send_raw(b"*2\r\n$4\r\nECHO\r\n$5\r\nhe").expect("sent");
    admin.check("SET x 1", "OK");
    admin.check("RPUSH k a", "(integer) 1");
    assert_eq!([(); 2].map(|()| heard(&mut client)), ["[\"k\", \"a\"]", "\"1\""]);
    await_blocked(&mut admin, 1);
    client.send_raw(b"llo\r\n").expect("sent");
    admin.check("RPUSH k b", "(integer) 1");
    assert_eq!([(); 3].map(|()| heard(&mut client)), ["[\"k\", \"b\"]", "PONG", "\"hello\""]);
}

#[test]
fn a_wait_ends_with_its_time() {
    let server = start();
    let mut client = server.client();
    let begin = Instant::now();
    client.check("BLPOP k 0.1", "(nil array)");
    client.check("BLMOVE k l LEFT RIGHT 0.05", "(nil array)");
    client.check("WAIT 1 50", "(integer) 0");
    assert!(begin.elapsed() >= Duration::from_millis(200));
    client.check("RPUSH k 1", "(integer) 1");
    client.check("LLEN k", "(integer) 1");
    client.run("HELLO 3");
    client.check("BLPOP j 0.01", "(nil)");
}

#[test]
fn a_connection_that_ends_while_it_waits_takes_nothing() {
    let server = start();
    let mut admin = server.client();
    let lines = ["BLPOP k 0", "BRPOP k 0", "BLPOP k 0"];
    let [gone, killed, mut left] = blocked(&server, &mut admin, lines);
    drop(gone);
    await_blocked(&mut admin, 2);
    let list = admin.run("CLIENT LIST").text();
    let line = list.lines().find(|line| line.contains("cmd=brpop")).expect("a blocked client");
    assert!(line.contains(" flags=b "), "{line}");
    let id = line.split([' ', '=']).nth(1).expect("an id");
    admin.check(&format!("CLIENT KILL ID {id}"), "(integer) 1");
    await_blocked(&mut admin, 1);
    drop(killed);
    admin.check("RPUSH k 1 2", "(integer) 2");
    assert_eq!(heard(&mut left), "[\"k\", \"1\"]");
    admin.check("LRANGE k 0 -1", "[\"2\"]");
}

/// Returns true if a client whose wait ended at `since` or later is still connected when it speaks
/// again, somewhat before its timeout of a second. It may be gone only if it spoke too late.
#[track_caller]
fn speaks_again(client: &mut Client, since: Instant, lines: &str) -> bool {
    std::thread::sleep(Duration::from_millis(850));
    let reply = client.send_raw(lines.as_bytes()).and_then(|()| client.receive());
    let silent = since.elapsed();
    match &reply {
        Ok(reply) => assert_eq!(reply.to_string(), "PONG"),
        Err(error) => {
            assert_ne!(error.kind(), ErrorKind::WouldBlock, "no reply");
            assert!(silent > Duration::from_millis(950), "closed after {silent:?}");
        }
    }
    reply.is_ok()
}

#[test]
fn a_client_that_waited_long_is_not_taken_for_a_silent_one() {
    const LONG: Duration = Duration::from_millis(2200);
    let server = Launch::perdura_volatile().args(["--timeout", "1"]).start();
    let stays = || {
        let mut client = server.client();
        let begin = Instant::now();
        client.check("BLPOP k 2.2", "(nil array)");
        if !speaks_again(&mut client, begin + LONG, "PING\r\nBLPOP k 0\r\n") {
            return false;
        }
        std::thread::sleep(LONG);
        let begin = Instant::now();
        server.client().check("RPUSH k 1", "(integer) 1");
        assert_eq!(heard(&mut client), "[\"k\", \"1\"]");
        speaks_again(&mut client, begin, "PING\r\n")
    };
    assert!((0..10).any(|_| stays()), "it never speaks in time");
}

#[test]
fn a_thousand_clients_wait_for_one_key() {
    allow_many_clients();
    let server = start();
    let mut admin = server.client();
    let mut waiting: Vec<Client> = (0..1000).map(|_| server.client()).collect();
    for client in &mut waiting {
        client.send(&["BLPOP", "k", "0"]).expect("sent");
    }
    await_blocked(&mut admin, 1000);
    let mut values = vec!["RPUSH".to_owned(), "k".to_owned()];
    values.extend((0..500).map(|n| n.to_string()));
    assert_eq!(admin.call(&values), Reply::Int(500));
    await_blocked(&mut admin, 500);
    for n in 500..1000 {
        admin.check(&format!("RPUSH k {n}"), "(integer) 1");
    }
    admin.check("EXISTS k", "(integer) 0");
    let got: BTreeSet<i64> = waiting
        .iter_mut()
        .map(|client| client.receive().expect("a reply").items()[1].int().expect("a number"))
        .collect();
    assert!(got.into_iter().eq(0..1000), "each element once");
}

#[test]
fn a_client_that_wants_no_reply_gets_none_when_it_is_served() {
    let server = start();
    let mut admin = server.client();
    let mut client = server.client();
    client.send_raw(b"CLIENT REPLY SKIP\r\nBLPOP k 0\r\nPING\r\n").expect("sent");
    await_blocked(&mut admin, 1);
    admin.check("RPUSH k 1", "(integer) 1");
    assert_eq!(heard(&mut client), "PONG");
    client.send_raw(b"CLIENT REPLY OFF\r\nBLPOP k 0\r\nCLIENT REPLY ON\r\n").expect("sent");
    await_blocked(&mut admin, 1);
    admin.check("RPUSH k 1", "(integer) 1");
    assert_eq!(heard(&mut client), "OK");
    admin.check("EXISTS k", "(integer) 0");
}

/// Some clients pop, others push, and some waits time out: each element comes out once.
#[test]
fn elements_are_neither_lost_nor_taken_twice_while_waits_time_out() {
    const EACH: usize = 300;
    let server = start();
    let poppers: Vec<_> = (0..6)
        .map(|_| {
            let mut client = server.client();
            std::thread::spawn(move || {
                let mut got = Vec::new();
                loop {
                    let reply = client.run("BLPOP a b end 0.002");
                    match reply.items() {
                        [_, element] if element.text() == "end" => return got,
                        [_, element] => got.push(element.text()),
                        _ => {}
                    }
                }
            })
        })
        .collect();
    let pushers: Vec<_> = (0..3)
        .map(|number| {
            let mut client = server.client();
            std::thread::spawn(move || {
                for n in 0..EACH {
                    let key = if n % 2 == 0 { "a" } else { "b" };
                    client.run(&format!("RPUSH {key} {number}:{n}"));
                }
            })
        })
        .collect();
    pushers.into_iter().for_each(|pusher| pusher.join().expect("no panic"));
    server.client().run("RPUSH end end end end end end end");
    let mut got: Vec<String> =
        poppers.into_iter().flat_map(|popper| popper.join().expect("no panic")).collect();
    assert_eq!(got.len(), 3 * EACH);
    got.sort_unstable();
    got.dedup();
    assert_eq!(got.len(), 3 * EACH);
}

#[test]
fn on_one_thread_clients_are_served_in_the_order_in_which_they_came() {
    const CLIENTS: usize = 300;
    allow_many_clients();
    let server = Launch::perdura_volatile().args(["--threads", "1"]).start();
    let mut giver = server.client();
    let mut waiting: Vec<Client> = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = server.client();
        client.send(&["BLPOP", "fair", "0"]).expect("sent");
        waiting.push(client);
    }
    await_blocked(&mut giver, CLIENTS);
    let numbers: Vec<String> = (0..CLIENTS).map(|n| n.to_string()).collect();
    giver.run(&format!("RPUSH fair {}", numbers.join(" ")));
    let mut ids = Vec::new();
    for (client, number) in waiting.iter_mut().zip(&numbers) {
        assert_eq!(heard(client), format!("[\"fair\", \"{number}\"]"));
        ids.extend(client.run("CLIENT ID").int());
    }
    assert!(ids.len() == CLIENTS && ids.is_sorted(), "{ids:?}");
}

#[test]
fn of_clients_that_find_one_large_element_those_who_are_late_wait_on() {
    let server = start();
    let mut admin = server.client();
    let large = "v".repeat(3 << 20);
    for _ in 0..10 {
        let mut clients = [(); 4].map(|()| server.client());
        let [forever, other, silent, hasty] = &mut clients;
        admin.check(&format!("RPUSH k {large}"), "(integer) 1");
        for client in [&mut *forever, &mut *other] {
            client.send(&["BLPOP", "k", "0"]).expect("sent");
        }
        silent.send_raw(b"CLIENT REPLY SKIP\r\nBLPOP k 0\r\nPING\r\n").expect("sent");
        hasty.send(&["BLPOP", "k", "0.05"]).expect("sent");
        let got_late = heard(hasty);
        let hasty_got = usize::from(got_late != "(nil array)");
        await_blocked(&mut admin, 2 + hasty_got);
        // Whichever client got the large one, each gets one, in any order.
        admin.run(&format!("RPUSH k {}", "small ".repeat(2 + hasty_got).trim_end()));
        let mut got = [forever, other].map(|client| heard(client).len()).to_vec();
        assert_eq!(heard(silent), "PONG");
        got.push(got_late.len());
        let count = got.iter().filter(|len| **len > large.len()).count();
        assert!(count <= 1, "{got:?}");
        await_blocked(&mut admin, 0);
        admin.check("EXISTS k", "(integer) 0");
    }
}
