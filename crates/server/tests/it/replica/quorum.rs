//! Replies that wait for replicas: what a client has received, of its own writes or of others', is
//! there after a failover to the replica that has most.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use testkit::{Client, Launch};

use super::{info, redis, start_replica, volatile, wait_until};

const CLIENTS: usize = 4;

/// Lets clients count up and read each other's counters until the server is gone. Returns the
/// highest value of each counter that any of them has received.
fn count_while(clients: Vec<Client>, run: impl FnOnce(&AtomicU64)) -> Vec<u64> {
    let highest: Vec<AtomicU64> = clients.iter().map(|_| AtomicU64::new(0)).collect();
    let replies = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for (own, mut client) in clients.into_iter().enumerate() {
            let (highest, replies) = (&highest, &replies);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(own as u64);
                loop {
                    let other = random.usize(..highest.len());
                    let requests = [
                        vec!["INCR".to_owned(), format!("counter{own}")],
                        vec!["GET".to_owned(), format!("counter{other}")],
                    ];
                    let Ok(answers) = client.pipeline(&requests) else { return };
                    let values = answers.iter().map(|reply| reply.text().parse().unwrap_or(0));
                    for (counter, value) in [own, other].into_iter().zip(values) {
                        highest[counter].fetch_max(value, Relaxed);
                    }
                    replies.fetch_add(1, Relaxed);
                }
            });
        }
        run(&replies);
    });
    highest.into_iter().map(AtomicU64::into_inner).collect()
}

/// Kills a primary while clients work, and makes the replica the primary that has received most.
fn check(primary: Launch, replicas: [Launch; 2], quorum: &str) {
    let mut old = primary.args(["--repl-acknowledge", quorum]).start();
    let replicas = replicas.map(|launch| start_replica(launch, &old));
    let clients = (0..CLIENTS).map(|_| old.client()).collect();
    let highest = count_while(clients, |replies| {
        wait_until("clients get replies", || replies.load(Relaxed) > 3000);
        old.kill();
    });
    let mut clients = replicas.each_ref().map(|server| server.client());
    for client in &mut clients {
        wait_until("the link is down", || info(client, "master_link_status") == "down");
    }
    let mut offset = |at: usize| -> u64 {
        info(&mut clients[at], "slave_repl_offset").parse().expect("an offset")
    };
    let best = usize::from(offset(1) > offset(0));
    let client = &mut clients[best];
    client.check("REPLICAOF NO ONE", "OK");
    for (counter, highest) in highest.iter().enumerate() {
        let reply = client.run(&format!("GET counter{counter}")).text();
        let value: u64 = reply.parse().unwrap_or(0);
        assert!(
            value >= *highest,
            "counter {counter} is {value} after a client had received {highest}"
        );
    }
}

#[test]
fn a_failover_takes_nothing_back_that_a_client_has_received() {
    for quorum in ["1", "2"] {
        check(volatile(), [volatile(), volatile()], quorum);
    }
    check(volatile(), [redis(), redis()], "1");
    check(Launch::perdura_pmem(), [Launch::perdura_pmem(), volatile()], "1");
}

#[test]
fn a_durable_acknowledgement_comes_from_what_is_durable() {
    let primary = volatile().args(["--repl-acknowledge", "1"]);
    let primary = primary.args(["--repl-acknowledge-durable", "yes"]).start();
    let forgetful = start_replica(volatile(), &primary);
    let mut waiting = primary.client();
    waiting.send(&["SET", "key", "value"]).expect("it is sent");
    let mut admin = primary.client();
    wait_until("the replica has it", || {
        forgetful.client().run("GET key").text() == "value"
            && info(&mut admin, "replies_waiting_for_replicas") == "1"
    });
    let _durable = start_replica(Launch::perdura_journal("always"), &primary);
    assert!(waiting.receive().expect("a reply").is_ok());
}

#[test]
fn a_command_whose_end_arrives_while_the_one_before_it_waits_is_executed() {
    let primary = volatile().args(["--repl-acknowledge", "1"]).start();
    let (mut client, mut admin) = (primary.client(), primary.client());
    let part = b"*3\r\n$3\r\nSET\r\n$3\r\none\r\n$1\r\n1\r\n*3\r\n$3\r\nSET\r\n$5\r\nother\r\n";
    client.send_raw(part).expect("it is sent");
    wait_until("it waits", || info(&mut admin, "replies_waiting_for_replicas") == "1");
    let mut read = || -> u64 {
        admin.info("stats")["total_net_input_bytes"].parse().expect("a number of bytes")
    };
    let (first, mut last) = (read(), read());
    let own = last - first;
    client.send_raw(b"$1\r\n2\r\n").expect("it is sent");
    wait_until("the rest is not read", || {
        let before = std::mem::replace(&mut last, read());
        last > before + own
    });
    let _replica = start_replica(volatile(), &primary);
    for _ in 0..2 {
        assert!(client.receive().expect("a reply").is_ok());
    }
}

#[test]
fn a_replica_that_is_killed_keeps_what_it_has_acknowledged() {
    let launches: [fn() -> Launch; 3] = [
        || Launch::perdura_journal("everysec"),
        || Launch::perdura_aof("everysec"),
        Launch::perdura_emulated,
    ];
    for launch in launches {
        let primary = volatile().args(["--repl-acknowledge", "1"]).start();
        let mut replica = start_replica(launch(), &primary);
        let mut client = primary.client();
        client.check("SET first 1", "OK");
        // After a dump a log keeps nothing until it was written again.
        client.check("WAITAOF 0 1 60000", "[(integer) 0, (integer) 1]");
        for number in 0..300 {
            client.check(&format!("SET key:{number} {number}"), "OK");
        }
        replica.kill();
        replica.start_as(launch());
        replica.client().check("DBSIZE", "(integer) 301");
    }
}
