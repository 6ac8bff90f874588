//! Limits of a replica, and writes that are refused without replicas.

use std::fs;

use testkit::{Client, Server};

use super::fake::{CAPABLE, Fake};
use super::{info, primary, replica, wait_for_replicas, wait_until};

const REFUSED: &str = "(error) NOREPLICAS Not enough good replicas to write.";

#[test]
fn writes_are_refused_while_too_few_replicas_are_heard() {
    let server =
        primary().args(["--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"]).start();
    let mut client = server.client();
    client.check("SET a 1", REFUSED);
    client.check("GET a", "(nil)");
    client.check("EVAL \"return redis.call('get','a')\" 0", "(nil)");
    let mut fake = Fake::connect(&server);
    fake.check(CAPABLE, "+OK");
    fake.send("PSYNC ? -1");
    fake.take_dump();
    client.check("SET a 1", REFUSED);
    assert_eq!(info(&mut client, "min_slaves_good_slaves"), "0");
    fake.acknowledge();
    wait_until("it counts when it has its dump", || client.run("SET a 1").is_ok());
    for _ in 0..2 {
        wait_until("it is silent", || client.run("SET a 2").to_string() == REFUSED);
        client.check("MULTI", "OK");
        client.check("SET a 3", REFUSED);
        assert!(client.run("EXEC").is_error());
        assert_eq!(info(&mut client, "connected_slaves"), "1", "it is not closed");
        fake.acknowledge();
        wait_until("it is heard", || client.run("SET a 2").is_ok());
    }
    client.check("CONFIG SET min-replicas-to-write 2", "OK");
    client.check("SET a 4", REFUSED);
    let mut other = replica(&server);
    wait_until("there are two", || {
        fake.acknowledge();
        other.acknowledge();
        client.run("SET a 4").is_ok()
    });
    assert_eq!(info(&mut client, "min_slaves_good_slaves"), "2");
    drop(other);
    wait_until("one is gone", || client.run("SET a 5").to_string() == REFUSED);
    client.check("CONFIG SET min-replicas-max-lag 0", "OK");
    client.check("SET a 5", "OK");
    assert_eq!(info(&mut client, "min_slaves_good_slaves"), "", "none are needed");
}

#[test]
fn replicas_are_listed_and_killed_by_their_type() {
    let server = primary().start();
    let mut client = server.client();
    let mut fake = replica(&server);
    wait_for_replicas(&mut client, 1);
    let list = client.run("CLIENT LIST TYPE replica").text();
    assert_eq!(list.lines().count(), 1, "{list}");
    assert!(list.contains(" flags=S "), "{list}");
    let normal = client.run("CLIENT LIST TYPE normal").text();
    assert!(normal.lines().count() == 1 && normal.contains(" flags=N "), "{normal}");
    client.check("CLIENT KILL TYPE normal", "(integer) 0");
    client.check("CLIENT KILL TYPE pubsub", "(integer) 0");
    assert_eq!(info(&mut client, "connected_slaves"), "1");
    client.check("CLIENT KILL TYPE replica", "(integer) 1");
    fake.rest();
    wait_for_replicas(&mut client, 0);
    assert_eq!(client.run("CLIENT LIST TYPE slave").text(), "");
    // While its dump is made.
    for number in 0..200 {
        client.check(&format!("SET key:{number} x"), "OK");
    }
    client.check("CONFIG SET rdb-key-save-delay 100000", "OK");
    let mut fake = Fake::connect(&server);
    fake.send("PSYNC ? -1");
    wait_for_replicas(&mut client, 1);
    client.check("CLIENT KILL TYPE replica", "(integer) 1");
    fake.rest();
    wait_for_replicas(&mut client, 0);
    client.check("CONFIG SET rdb-key-save-delay 0", "OK");
}

/// Bytes of memory that a server's process has.
fn resident(server: &Server) -> u64 {
    let statm = fs::read_to_string(format!("/proc/{}/statm", server.pid())).expect("a process");
    let pages: u64 = statm.split(' ').nth(1).expect("pages").parse().expect("a number");
    pages * 4096
}

/// Writes `mib` MiB to one key; others are served.
fn write(client: &mut Client, mib: usize) {
    let value = "x".repeat(64 << 10);
    for _ in 0..mib * 16 {
        assert!(client.call(&["SET", "key", &value]).is_ok());
    }
}

#[test]
fn a_replica_that_reads_nothing_is_closed_at_its_limit_and_its_memory_is_freed() {
    let server = primary()
        .args(["--client-output-buffer-limit", "replica 8mb 0 0"])
        .args(["--repl-backlog-size", "1mb"])
        .start();
    let mut client = server.client();
    let mut fast = replica(&server);
    let mut stuck = replica(&server);
    wait_for_replicas(&mut client, 2);
    write(&mut client, 1);
    let before = resident(&server);
    let mut written = 0;
    wait_until("the one that reads nothing is closed", || {
        written += 1;
        write(&mut client, 1);
        fast.catch_up(&mut client);
        fast.received.clear();
        written > 256 && info(&mut client, "connected_slaves") == "1"
    });
    let grown = resident(&server).saturating_sub(before);
    assert!(grown < 128 << 20, "{grown} bytes more");
    let rest = stuck.rest();
    assert!(rest.len() < 100 << 20, "{}", rest.len());
    let log = server.log();
    assert!(log.contains("too far behind"), "{log}");
    // In the middle of a dump it is closed as well, and gets another one when it comes again.
    let mut again = replica(&server);
    client.check("SET key 1", "OK");
    assert_eq!(again.command(), "SELECT 0");
}

#[test]
fn a_replica_over_the_soft_limit_for_too_long_is_closed() {
    let server = primary().args(["--client-output-buffer-limit", "replica 0 1mb 1"]).start();
    let mut client = server.client();
    let _stuck = replica(&server);
    wait_for_replicas(&mut client, 1);
    // More than the sockets hold.
    write(&mut client, 64);
    wait_for_replicas(&mut client, 0);
    assert!(server.log().contains("client-output-buffer-limit replica"), "{}", server.log());
}

#[test]
fn a_silent_replica_is_closed_whether_or_not_it_is_sent_something() {
    for writes in [false, true] {
        let server = primary().args(["--repl-timeout", "1"]).start();
        let mut client = server.client();
        let mut fake = replica(&server);
        wait_for_replicas(&mut client, 1);
        std::thread::scope(|scope| {
            // It reads all, and says nothing.
            scope.spawn(|| while fake.try_command().is_ok() {});
            wait_until("it is closed", || {
                if writes {
                    client.check("SET a 1", "OK");
                }
                info(&mut client, "connected_slaves") == "0"
            });
        });
        assert!(server.log().contains("has said nothing for"), "{}", server.log());
    }
}

/// A replica sends newlines while it loads its dump, which may take longer than the timeout.
#[test]
fn a_replica_that_loads_is_not_silent() {
    let server = primary().args(["--repl-timeout", "2"]).start();
    let mut client = server.client();
    let mut quiet = Fake::connect(&server);
    let mut loads = Fake::connect(&server);
    for fake in [&mut quiet, &mut loads] {
        fake.check(CAPABLE, "+OK");
        fake.send("PSYNC ? -1");
        fake.take_dump();
    }
    wait_until("the one that says nothing is closed", || {
        loads.try_send(b"\n").expect("the other is not");
        info(&mut client, "connected_slaves") == "1"
    });
    loads.acknowledge();
    client.check("SET a 1", "OK");
    assert_eq!(loads.command(), "SELECT 0");
}

#[test]
fn a_pause_of_clients_is_none_of_replicas() {
    let server = primary().start();
    let mut client = server.client();
    let mut fake = replica(&server);
    wait_for_replicas(&mut client, 1);
    client.check("SET a 1", "OK");
    client.check("CLIENT PAUSE 1000 ALL", "OK");
    fake.acknowledge();
    fake.send("REPLCONF ACK 777777");
    // It waits for the end of the pause.
    client.check("GET a", "\"1\"");
    wait_until("it was heard", || info(&mut client, "slave0").contains("offset=777777"));
    assert_eq!(fake.command(), "SELECT 0");
    assert_eq!(fake.command(), "SET a 1");
}
