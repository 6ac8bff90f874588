//! Partial resynchronization: a replica that was away continues where it was, if it can.

use testkit::{Client, Server};

use super::fake::{CAPABLE, Fake};
use super::{info, primary, replica, wait_for_replicas, wait_until};

const FOREIGN: &str = "0123456789012345678901234567890123456789";

/// Asks to continue after `offset`. Returns the connection and the reply.
fn ask(server: &Server, capa: &str, id: &str, offset: u64) -> (Fake, String) {
    let mut fake = Fake::connect(server);
    fake.check(capa, "+OK");
    fake.send(&format!("PSYNC {id} {}", offset + 1));
    let line = fake.line();
    (fake, line)
}

/// A primary with a replica that left at an offset, after which there is more.
struct Left {
    server: Server,
    client: Client,
    /// Gets everything.
    witness: Fake,
    id: String,
    offset: u64,
}

impl Left {
    fn start() -> Left {
        let server = primary().start();
        let mut client = server.client();
        let (mut gone, mut witness) = (replica(&server), replica(&server));
        client.check("SET a 1", "OK");
        gone.catch_up(&mut client);
        let (id, offset) = (gone.id.clone(), gone.offset);
        drop(gone);
        wait_for_replicas(&mut client, 1);
        for number in 0..1000 {
            client.check(&format!("SET b {number}"), "OK");
        }
        witness.catch_up(&mut client);
        Left { server, client, witness, id, offset }
    }
}

#[test]
fn a_replica_continues_at_its_exact_offset() {
    let Left { server, mut client, witness, id, offset } = Left::start();
    let begin = witness.offset - witness.received.len() as u64;
    let continues = format!("+CONTINUE {id}");
    for (capa, expected) in [(CAPABLE, continues.as_str()), ("REPLCONF capa eof", "+CONTINUE")] {
        // In the middle of a command too: the replica has the rest of it.
        for after in [offset, offset + 1, offset + 100, witness.offset - 1, witness.offset] {
            let (mut fake, reply) = ask(&server, capa, &id, after);
            assert_eq!(reply, expected);
            wait_until("it is online at once", || {
                info(&mut client, "slave1").contains("state=online")
            });
            let missing = witness.received[(after - begin) as usize..].to_vec();
            assert_eq!(fake.bytes(missing.len()), missing);
            drop(fake);
            wait_for_replicas(&mut client, 1);
        }
    }
    let (mut fake, _) = ask(&server, CAPABLE, &id, witness.offset);
    client.check("SET c 1", "OK");
    assert_eq!(fake.command(), "SET c 1", "the database is selected");
    let upper = id.to_uppercase();
    let (mut fake, reply) = ask(&server, CAPABLE, &upper, offset);
    assert!(reply.starts_with(if upper == id { "+CONTINUE" } else { "+FULLRESYNC" }), "{reply}");
    fake.take_payload();
}

#[test]
fn a_replica_that_cannot_continue_gets_a_dump() {
    let Left { server, mut client, witness, id, .. } = Left::start();
    let end = witness.offset;
    let first: u64 =
        info(&mut client, "repl_backlog_first_byte_offset").parse().expect("an offset");
    let mut cases = vec![(FOREIGN, end), (&id, end + 1), (&id, u64::MAX / 4)];
    if first > 1 {
        cases.push((&id, first - 2));
    }
    for (asked, after) in cases {
        let (mut fake, reply) = ask(&server, CAPABLE, asked, after);
        assert_eq!(reply, format!("+FULLRESYNC {id} {end}"), "{asked} after {after}");
        fake.take_payload();
        fake.send("REPLCONF ACK 0");
    }
    for (asked, number) in
        [(id.as_str(), "0"), (&id, "-1"), (&id, "-9223372036854775808"), ("x", "1")]
    {
        let mut fake = Fake::connect(&server);
        fake.check(CAPABLE, "+OK");
        fake.send(&format!("PSYNC {asked} {number}"));
        assert_eq!(fake.line(), format!("+FULLRESYNC {id} {end}"), "{asked} {number}");
    }
    let mut fake = Fake::connect(&server);
    fake.check(&format!("PSYNC {id} x"), "-ERR value is not an integer or out of range");
    fake.check(&format!("PSYNC {id}"), "-ERR wrong number of arguments for 'psync' command");
    fake.check("PING", "+PONG");
}

#[test]
fn a_replica_from_before_the_backlog_gets_a_dump() {
    let server = primary().args(["--repl-backlog-size", "16kb"]).start();
    let mut client = server.client();
    let mut gone = replica(&server);
    client.check("SET a 1", "OK");
    gone.catch_up(&mut client);
    let (id, offset) = (gone.id.clone(), gone.offset);
    drop(gone);
    wait_for_replicas(&mut client, 0);
    wait_until("the size is known", || info(&mut client, "repl_backlog_size") == "16384");
    let value = "x".repeat(10_000);
    for _ in 0..40 {
        assert!(client.call(&["SET", "a", &value]).is_ok());
    }
    let first: u64 =
        info(&mut client, "repl_backlog_first_byte_offset").parse().expect("an offset");
    let held: u64 = info(&mut client, "repl_backlog_histlen").parse().expect("a length");
    assert!(first > offset + 1 && (16_384..200_000).contains(&held), "{first}, {held}");
    for (after, continues) in [(offset, false), (first - 2, false), (first - 1, true)] {
        let (_fake, reply) = ask(&server, CAPABLE, &id, after);
        let expected = if continues { "+CONTINUE" } else { "+FULLRESYNC" };
        assert!(reply.starts_with(expected), "after {after}, kept from {first}: {reply}");
    }
    // A larger one keeps more from now on.
    client.check("CONFIG SET repl-backlog-size 10mb", "OK");
    wait_until("the size is known", || info(&mut client, "repl_backlog_size") == "10485760");
    for _ in 0..100 {
        assert!(client.call(&["SET", "a", &value]).is_ok());
    }
    let (_fake, reply) = ask(&server, CAPABLE, &id, first + held - 1);
    assert!(reply.starts_with("+CONTINUE"), "{reply}");
}

#[test]
fn the_backlog_ends_when_nobody_has_needed_it_for_long() {
    let server = primary().args(["--repl-backlog-ttl", "1"]).start();
    let mut client = server.client();
    assert_eq!(info(&mut client, "repl_backlog_active"), "0");
    let mut fake = replica(&server);
    client.check("SET a 1", "OK");
    fake.catch_up(&mut client);
    assert_eq!(info(&mut client, "repl_backlog_active"), "1");
    let (id, offset) = (fake.id.clone(), fake.offset);
    drop(fake);
    wait_until("the backlog ends", || info(&mut client, "repl_backlog_active") == "0");
    assert_ne!(info(&mut client, "master_replid"), id, "what follows is another history");
    assert_eq!(info(&mut client, "repl_backlog_histlen"), "0");
    client.check("SET a 2", "OK");
    let (mut fake, reply) = ask(&server, CAPABLE, &id, offset);
    assert!(reply.starts_with("+FULLRESYNC") && !reply.contains(&id), "{reply}");
    fake.take_payload();
    fake.send("REPLCONF ACK 0");
    client.check("SET a 3", "OK");
    assert_eq!(fake.command(), "SELECT 0");
    assert_eq!(fake.command(), "SET a 3");
}

/// A replica whose link is cut in the middle of a dump begins again; one that left in the middle of
/// the stream continues, while others write.
#[test]
fn links_that_are_cut_at_any_moment_lose_and_repeat_nothing() {
    let server = primary().start();
    let mut client = server.client();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (stop, mut client) = (&stop, server.client());
                scope.spawn(move || {
                    let mut number = 0;
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        assert!(
                            client
                                .call(&["SET", &format!("w{writer}"), &number.to_string()])
                                .is_ok()
                        );
                        number += 1;
                    }
                })
            })
            .collect();
        let mut fake = Fake::connect(&server);
        fake.check(CAPABLE, "+OK");
        fake.send("PSYNC ? -1");
        fake.line();
        drop(fake);
        let mut fake = replica(&server);
        let mut next: [Option<u64>; 2] = [None; 2];
        for round in 0..30 {
            for _ in 0..round * 7 {
                note(&fake.command(), &mut next);
            }
            let (id, offset) = (fake.id.clone(), fake.offset);
            let (again, reply) = ask(&server, CAPABLE, &id, offset);
            assert_eq!(reply, format!("+CONTINUE {id}"));
            fake = again;
            (fake.id, fake.offset) = (id, offset);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
        let end = super::end(&mut client);
        while fake.offset < end {
            note(&fake.command(), &mut next);
        }
        for (writer, next) in next.into_iter().enumerate() {
            let last = client.run(&format!("GET w{writer}")).int().expect("a number");
            assert_eq!(next, Some(last as u64 + 1));
        }
    });
}

/// Checks that a writer's numbers follow each other.
#[track_caller]
fn note(command: &str, next: &mut [Option<u64>; 2]) {
    let words: Vec<&str> = command.split(' ').collect();
    let ["SET", key, number] = words[..] else { return };
    let number: u64 = number.parse().expect("a number");
    let next = &mut next[usize::from(key == "w1")];
    assert_eq!(next.unwrap_or(number), number, "{command}");
    *next = Some(number + 1);
}
