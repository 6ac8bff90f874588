//! A primary with a pool that is killed by kill -9 while clients write: its replicas continue
//! without a dump, also one that is behind, or has a replica itself, or is killed at the same time.

use std::path::PathBuf;

use fastrand::Rng;
use testkit::{Launch, Server};

use super::restart::{journal, kept_place, pmem, syncs};
use super::writes::{try_to_write_some, wait_for_bytes, while_running, write_some};
use super::{check_equal, count_in_log, start_replica, volatile, wait_for_link, wait_until};

const FULL: &str = "Full resync from master";

/// Returns a launch of a primary on persistent memory whose lines are flushed.
fn emulated() -> Launch {
    super::quiet(Launch::perdura_emulated())
}

/// Runs `then` while clients write, until their connections end.
fn while_writing(server: &mut Server, then: impl FnOnce(&mut Server)) {
    let seed = Rng::new().u64(..1 << 40);
    println!("seed {seed}");
    let writers: Vec<_> = (0..3)
        .map(|number| {
            let (mut client, mut random) = (server.client(), Rng::with_seed(seed + number));
            let mut is_there = true;
            move || {
                is_there = is_there && try_to_write_some(&mut client, &mut random);
                if !is_there {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            }
        })
        .collect();
    while_running(writers, || then(server));
}

/// Waits until the primary keeps its place, and a crash cannot take that back: the ring gets its
/// name after that.
#[track_caller]
fn wait_for_place(primary: &Server) {
    wait_until("no place is kept", || kept_place(primary) >= 0);
    wait_until("no ring is kept", || {
        ring_of(primary)
            .is_some_and(|ring| std::fs::metadata(ring).is_ok_and(|ring| ring.len() > 0))
    });
}

#[track_caller]
fn check(launch: Launch, replicas: [Launch; 2]) {
    let mut primary = launch.args(["--repl-durable-size", "16mb"]).start();
    primary.client().check("SET before 1", "OK");
    let [first, second] = replicas;
    let first = start_replica(first, &primary);
    let mut second = second.args(["--replicaof", &format!("127.0.0.1 {}", primary.port())]).start();
    wait_for_link(&mut second.client());
    let sub = start_replica(volatile(), &first);
    wait_for_place(&primary);
    let before = [&first, &second, &sub].map(|server| count_in_log(server, FULL));
    let mut random = Rng::new();
    for round in 0..6 {
        wait_for_place(&primary);
        while_writing(&mut primary, |primary| {
            wait_for_bytes(&mut primary.client(), random.u64(1..100_000));
            if round == 2 {
                // It is behind: it takes nothing more, while the others do.
                second.stop(true);
                wait_for_bytes(&mut primary.client(), 200_000);
                primary.kill();
                second.stop(false);
            } else if round == 4 {
                second.kill();
                primary.kill();
                second.start_again();
            } else {
                primary.kill();
            }
        });
        primary.start_again();
        for replica in [&first, &second, &sub] {
            wait_for_link(&mut replica.client());
        }
        primary.client().check("SET after 1", "OK");
        for replica in [&first, &second, &sub] {
            check_equal(&mut primary.client(), &mut replica.client());
        }
        assert_eq!(syncs(&primary)[0], 0, "round {round}: {}", primary.log());
    }
    let after = [&first, &second, &sub].map(|server| count_in_log(server, FULL));
    // The log of the second was begun anew.
    assert_eq!([after[0], after[1], after[2]], [before[0], 0, before[2]]);
}

#[test]
fn replicas_of_a_primary_with_a_journal_continue() {
    check(journal(), [volatile(), pmem()]);
}

#[test]
fn replicas_of_a_primary_whose_journal_is_always_synced_continue() {
    check(journal().args(["--appendfsync", "always"]), [pmem(), journal()]);
}

#[test]
fn replicas_of_a_primary_on_persistent_memory_continue() {
    check(pmem(), [volatile(), pmem()]);
}

#[test]
fn replicas_of_a_primary_whose_lines_are_flushed_continue() {
    check(emulated(), [volatile(), emulated()]);
}

#[test]
fn no_command_loses_the_place() {
    let primary = emulated().args(["--repl-durable-size", "1000000"]).start();
    let mut client = primary.client();
    client.check("SET before 1", "OK");
    let replica = start_replica(volatile(), &primary);
    wait_for_place(&primary);
    let mut random = Rng::new();
    for _ in 0..400 {
        write_some(&mut client, &mut random);
        assert!(kept_place(&primary) >= 0);
    }
    check_equal(&mut client, &mut replica.client());
}

/// Returns the file with the end of the primary's stream.
fn ring_of(primary: &Server) -> Option<PathBuf> {
    let is_ring = |path: &PathBuf| path.extension().is_some_and(|end| end == "stream");
    let files = std::fs::read_dir(primary.folder()).expect("a folder");
    files.map(|file| file.expect("a file").path()).find(is_ring)
}

/// Kills the primary, and checks that its replica needs no dump.
#[track_caller]
fn check_continues(primary: &mut Server, replica: &Server) {
    let before = count_in_log(replica, FULL);
    primary.kill();
    primary.start_again();
    wait_for_link(&mut replica.client());
    primary.client().check("SET after 1", "OK");
    check_equal(&mut primary.client(), &mut replica.client());
    assert_eq!(count_in_log(replica, FULL), before, "{}", primary.log());
}

#[test]
fn a_ring_that_cannot_be_replaced_goes_on() {
    let mut primary = journal().args(["--repl-durable-size", "16m"]).start();
    let mut client = primary.client();
    let replica = start_replica(volatile(), &primary);
    wait_for_place(&primary);
    let mut next = ring_of(&primary).expect("a ring").into_os_string();
    next.push(".next");
    std::fs::create_dir(&next).expect("a folder in the way");
    client.check("CONFIG SET repl-durable-size 2mb", "OK");
    let told = "Replicas cannot continue after a crash of this server";
    wait_until("no other ring is tried", || count_in_log(&primary, told) > 0);
    client.check("SET k v", "OK");
    assert!(kept_place(&primary) >= 0);
    check_continues(&mut primary, &replica);
}

#[test]
fn a_ring_whose_file_takes_nothing_is_replaced() {
    for launch in [journal(), emulated()] {
        let mut primary = launch.args(["--repl-durable-size", "16mb"]).start();
        let mut client = primary.client();
        let replica = start_replica(volatile(), &primary);
        wait_for_place(&primary);
        std::fs::File::create(ring_of(&primary).expect("a ring")).expect("the ring is cut short");
        client.check(&format!("SET large {}", "x".repeat(3 << 20)), "OK");
        let told = "does not take what is written";
        assert!(count_in_log(&primary, told) > 0, "{}", primary.log());
        client.check("SET k v", "OK");
        wait_for_place(&primary);
        check_continues(&mut primary, &replica);
    }
}
