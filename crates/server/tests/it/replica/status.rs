//! INFO and ROLE of a replica in each state of its link: as redis-server shows them.

use std::collections::BTreeSet;
use std::time::Instant;

use testkit::{Client, Server, free_port};

use super::fake::{Fake, dump, header};
use super::{PATIENCE, check_equal, follow, info, redis, start_replica, volatile};
use super::{wait_for_link, wait_until};

/// Returns the names of the lines of INFO's section about replication.
fn names(client: &mut Client) -> BTreeSet<String> {
    client.info("replication").into_keys().collect()
}

/// Compares the names of all lines, and ROLE, with redis-server's, which may differ in the
/// primary's port alone.
#[track_caller]
fn check_alike(what: &str, [redis, perdura]: [(&Server, u16); 2]) {
    let of = |(server, port): (&Server, u16)| {
        let mut client = server.client();
        let role = client.run("ROLE").to_string().replace(&port.to_string(), "PORT");
        (names(&mut client), role)
    };
    let began = Instant::now();
    loop {
        let (theirs, ours) = (of(redis), of(perdura));
        if ours == theirs {
            return;
        }
        // Between two tries of a link that is down both are connecting for a moment.
        if began.elapsed() > PATIENCE {
            assert_eq!(ours.1, theirs.1, "ROLE: {what}");
            assert_eq!(ours.0, theirs.0, "INFO: {what}");
        }
    }
}

#[test]
fn each_state_of_the_link_is_shown_as_redis_does() {
    let servers = [redis().start(), volatile().start()];
    let alike = |what: &str, ports: [u16; 2]| {
        check_alike(what, [(&servers[0], ports[0]), (&servers[1], ports[1])]);
    };
    alike("a primary", [0, 0]);
    // Each has a primary that does what it is told.
    let fakes = [Fake::listen(), Fake::listen()];
    let ports = [fakes[0].port(), fakes[1].port()];
    for (server, port) in servers.iter().zip(ports) {
        follow(&mut server.client(), port);
    }
    let mut peers = [fakes[0].accept(), fakes[1].accept()];
    for (peer, server) in peers.iter_mut().zip(&servers) {
        assert_eq!(peer.read(), ["PING"]);
        wait_until("it does not connect", || {
            server.client().run("ROLE").to_string().contains("\"handshake\"")
        });
    }
    alike("it waits for an answer", ports);
    let whole = dump(&["SET a 1"]);
    for (peer, server) in peers.iter_mut().zip(&servers) {
        peer.send(b"+PONG\r\n");
        assert_eq!(peer.handshake()[0], "PSYNC");
        peer.send(&header(77, whole.len()));
        peer.send(&whole[..20]);
        wait_until("it does not receive", || {
            info(&mut server.client(), "master_sync_in_progress") == "1"
        });
    }
    alike("it receives a dump", ports);
    for (peer, server) in peers.iter_mut().zip(&servers) {
        peer.send(&whole[20..]);
        wait_for_link(&mut server.client());
        peer.wait_for_acknowledgement(77);
    }
    alike("it is linked", ports);
    for server in &servers {
        let fields = server.client().info("replication");
        for (name, value) in [
            ("role", "slave"),
            ("master_host", "127.0.0.1"),
            ("slave_read_repl_offset", "77"),
            ("slave_repl_offset", "77"),
            ("master_repl_offset", "77"),
            ("slave_priority", "100"),
            ("slave_read_only", "1"),
            ("replica_announced", "1"),
            ("repl_backlog_active", "1"),
            ("repl_backlog_first_byte_offset", "78"),
            ("repl_backlog_histlen", "0"),
        ] {
            assert_eq!(fields[name], value, "{name}");
        }
    }
    for peer in &mut peers {
        peer.send_commands(&["SELECT 0", "SET b 1"]);
        peer.wait_for_acknowledgement(
            77 + super::fake::commands(&["SELECT 0", "SET b 1"]).len() as u64,
        );
    }
    alike("it has received something", ports);
    drop(peers);
    drop(fakes);
    for server in &servers {
        wait_until("the link is still up", || {
            server.client().run("ROLE").to_string().contains("\"connect\"")
        });
    }
    alike("the link is lost", ports);
    for server in &servers {
        server.client().check("REPLICAOF NO ONE", "OK");
    }
    alike("a primary again", [0, 0]);
}

#[test]
fn what_was_never_linked_says_so() {
    let servers = [redis().start(), volatile().start()];
    let port = free_port();
    for server in &servers {
        follow(&mut server.client(), port);
        wait_until("it still connects", || {
            server.client().run("ROLE").to_string().contains("\"connect\"")
        });
        let fields = server.client().info("replication");
        assert_eq!(fields["master_link_status"], "down");
        assert_eq!(fields["master_last_io_seconds_ago"], "-1");
        assert_eq!(fields["master_link_down_since_seconds"], "-1");
        assert_eq!(fields["master_sync_in_progress"], "0");
    }
    check_alike("a closed port", [(&servers[0], port), (&servers[1], port)]);
}

#[test]
fn a_primary_shows_where_its_replica_is_reached() {
    for primary in [redis(), volatile()] {
        let primary = primary.start();
        let mut client = primary.client();
        client.check("SET a 1", "OK");
        let replica = start_replica(volatile(), &primary);
        check_equal(&mut client, &mut replica.client());
        let end = info(&mut client, "master_repl_offset");
        let here = format!("ip=127.0.0.1,port={},state=online,offset={end},lag=", replica.port());
        wait_until("no acknowledgement", || info(&mut client, "slave0").starts_with(&here));
        drop(replica);
        let announced = ["--replica-announce-ip", "10.1.2.3", "--replica-announce-port", "777"];
        let replica = start_replica(volatile().args(announced), &primary);
        wait_until("it is not shown", || {
            (0..2).any(|n| {
                info(&mut client, &format!("slave{n}")).starts_with("ip=10.1.2.3,port=777,")
            })
        });
        drop(replica);
    }
}

#[test]
fn replicaof_takes_what_redis_takes() {
    let servers = [redis().start(), volatile().start()];
    for line in [
        "REPLICAOF",
        "REPLICAOF a",
        "REPLICAOF a b",
        "REPLICAOF a -1",
        "REPLICAOF a 65536",
        "REPLICAOF no one",
        "SLAVEOF NO ONE",
        "REPLICAOF 127.0.0.1 1",
        "REPLICAOF 127.0.0.1 1",
        "SLAVEOF 127.0.0.1 1",
        "CONFIG GET replicaof",
        "CONFIG SET replicaof \"127.0.0.1 2\"",
        "SLAVEOF 127.0.0.1 2",
        "CONFIG GET replicaof",
        "MULTI",
        "REPLICAOF no one",
        "EXEC",
        "CONFIG GET replicaof",
        "EVAL \"return redis.pcall('replicaof', 'no', 'one')\" 0",
    ] {
        let [theirs, ours] = servers.each_ref().map(|server| server.client().run(line).to_string());
        assert_eq!(ours, theirs, "reply to {line}");
    }
}
