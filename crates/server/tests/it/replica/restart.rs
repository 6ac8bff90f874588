//! Restarts: whoever ends by SIGTERM or SHUTDOWN, and those who follow it, continue without a dump,
//! and so does a replica with a pool after kill -9, and those who follow a primary with a pool. If
//! anything was changed without the stream, all data is sent.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use testkit::{Client, Launch, Server};

use super::writes::while_running;
use super::{check_equal, count_in_log, follow, info, quiet, redis, start_replica, volatile};
use super::{wait_for_link, wait_for_log, wait_for_reply, wait_until};

const PARTIAL: &str = "Successful partial resynchronization with master.";
const FULL: &str = "Full resync from master";

/// Returns a launch in memory whose data is saved at its end.
fn saved() -> Launch {
    volatile().args(["--save", "3600 1"])
}

pub(super) fn journal() -> Launch {
    quiet(Launch::perdura_journal("everysec")).args(["--journal-size", "16mb"])
}

pub(super) fn pmem() -> Launch {
    quiet(Launch::perdura_pmem())
}

/// Returns how many replicas got a dump, and how many continued.
pub(super) fn syncs(server: &Server) -> [u64; 2] {
    let stats = server.client().info("stats");
    ["sync_full", "sync_partial_ok"].map(|field| stats[field].parse().expect("a count"))
}

/// Returns where replicas would continue after a crash, -1 if with a dump.
pub(super) fn kept_place(server: &Server) -> i64 {
    let place = server.client().info("persistence")["pool_stream_offset"].parse();
    place.expect("an offset")
}

/// Writes until the connection ends, some of it with short times.
struct Writer {
    client: Option<Client>,
    number: u64,
}

impl Writer {
    fn new(client: Client) -> Writer {
        Writer { client: Some(client), number: 0 }
    }

    fn write(&mut self, written: &AtomicU64) {
        let Some(client) = &mut self.client else {
            return std::thread::sleep(Duration::from_millis(1));
        };
        let (number, key) = (self.number, self.number % 50);
        let line = match number % 6 {
            0 => format!("SET key:{key} {number} PX 40"),
            1 => format!("RPUSH list:{key} {number}"),
            2 => format!("PEXPIRE list:{key} 30"),
            3 => format!("SELECT {}", number % 3),
            4 => "PUBLISH channel message".to_owned(),
            _ => format!("INCR n:{key}"),
        };
        let words: Vec<&str> = line.split(' ').collect();
        if client.try_call(&words).is_err() {
            self.client = None;
            return;
        }
        self.number += 1;
        written.fetch_add(1, SeqCst);
    }
}

/// Runs `then` when much is being written.
fn while_written<R>(server: &mut Server, then: impl FnOnce(&mut Server) -> R) -> R {
    let written = AtomicU64::new(0);
    let writers: Vec<_> = (0..3)
        .map(|_| {
            let (mut writer, written) = (Writer::new(server.client()), &written);
            move || writer.write(written)
        })
        .collect();
    while_running(writers, || {
        wait_until("nothing is written", || written.load(SeqCst) > 3000);
        then(server)
    })
}

#[track_caller]
fn check_primary(primary: Launch, has_pool: bool, replica: Launch) {
    let mut primary = primary.start();
    primary.client().check("SET before 1", "OK");
    let replica = start_replica(replica, &primary);
    let sub = start_replica(volatile(), &replica);
    let mut reader = replica.client();
    for _ in 0..2 {
        let status = while_written(&mut primary, |primary| {
            let id = info(&mut primary.client(), "master_replid");
            assert!(primary.terminate().success(), "{}", primary.log());
            assert!(primary.log().contains("1 of 1 replicas are in sync"), "{}", primary.log());
            id
        });
        primary.start_again();
        let mut client = primary.client();
        assert_eq!(info(&mut client, "master_replid2"), status);
        wait_for_link(&mut reader);
        client.check("SELECT 2", "OK");
        client.check("RPUSH list:7 after", "(integer) 1");
        client.check("DEL list:7", "(integer) 1");
        client.check("SELECT 0", "OK");
        client.check("SET after 1", "OK");
        check_equal(&mut client, &mut reader);
        check_equal(&mut client, &mut sub.client());
        assert_eq!(syncs(&primary), [0, 1], "{}", primary.log());
    }
    assert_eq!((count_in_log(&replica, FULL), count_in_log(&sub, FULL)), (1, 1));
    // A crash.
    if has_pool {
        wait_for_log(&primary, "Replicas can continue after a crash of this server");
        wait_until("no place is kept", || kept_place(&primary) >= 0);
    }
    primary.crash();
    primary.client().check("SET crashed 1", "OK");
    wait_for_link(&mut reader);
    check_equal(&mut primary.client(), &mut reader);
    assert_eq!(syncs(&primary), if has_pool { [0, 1] } else { [1, 0] });
}

#[test]
fn a_primary_with_a_journal_continues() {
    check_primary(journal(), true, volatile());
}

#[test]
fn a_primary_on_persistent_memory_continues() {
    check_primary(pmem(), true, redis());
}

#[test]
fn a_primary_with_a_dump_continues() {
    check_primary(saved(), false, redis());
}

#[track_caller]
fn check_replica(primary: Launch, replica: Launch) {
    let mut primary = primary.args(["--repl-backlog-size", "64mb"]).start();
    primary.client().check("SET before 1", "OK");
    let follows = replica.args(["--replicaof", &format!("127.0.0.1 {}", primary.port())]);
    let mut replica = follows.start();
    wait_for_link(&mut replica.client());
    let sub = start_replica(volatile(), &replica);
    while_written(&mut primary, |primary| {
        for restarts in 1..4 {
            assert!(replica.terminate().success(), "{}", replica.log());
            replica.start_again();
            wait_for_link(&mut replica.client());
            assert_eq!(syncs(primary), [1, restarts], "{}", replica.log());
            assert_eq!(count_in_log(&replica, PARTIAL), 1);
            wait_until("the other does not continue", || {
                count_in_log(&sub, PARTIAL) == restarts as usize
            });
        }
        assert_eq!(count_in_log(&sub, FULL), 1, "{}", sub.log());
        for crashes in 1..6 {
            replica.crash();
            wait_for_link(&mut replica.client());
            assert_eq!(syncs(primary), [1, 3 + crashes], "{}", replica.log());
        }
    });
    primary.client().check("SET after 1", "OK");
    check_equal(&mut primary.client(), &mut replica.client());
    check_equal(&mut primary.client(), &mut sub.client());
}

#[test]
fn a_replica_with_a_journal_continues() {
    check_replica(volatile(), journal());
}

#[test]
fn a_replica_of_redis_on_persistent_memory_continues() {
    check_replica(redis(), pmem());
}

#[test]
fn a_replica_with_a_dump_continues() {
    // Its dump is older than what it had, and says so.
    check_replica(redis(), saved());
}

#[test]
fn a_replica_that_starts_as_a_primary_is_one_for_its_replicas() {
    for launch in [journal(), saved()] {
        let primary = volatile().start();
        primary.client().check("SET before 1", "OK");
        let mut middle = start_replica(launch, &primary);
        let sub = start_replica(volatile(), &middle);
        check_equal(&mut primary.client(), &mut sub.client());
        let id = info(&mut middle.client(), "master_replid");
        assert!(middle.terminate().success());
        middle.start_again();
        let mut client = middle.client();
        assert_eq!(
            (info(&mut client, "role"), info(&mut client, "master_replid2")),
            ("master".into(), id)
        );
        client.check("SET own 1", "OK");
        check_equal(&mut client, &mut sub.client());
        assert_eq!(syncs(&middle), [0, 1]);
        // And as a primary with a history of its own it is no replica that could continue.
        assert!(middle.terminate().success());
        middle.start_again();
        follow(&mut middle.client(), primary.port());
        wait_for_link(&mut middle.client());
        middle.client().check("EXISTS own", "(integer) 0");
        check_equal(&mut primary.client(), &mut middle.client());
        assert_eq!(count_in_log(&middle, FULL), 1, "{}", middle.log());
    }
}

#[test]
fn a_start_without_replication_makes_the_place_void() {
    let primary = volatile().start();
    primary.client().check("SET before 1", "OK");
    let follows = ["--replicaof", &format!("127.0.0.1 {}", primary.port())];
    let mut replica = journal().args(follows).start();
    wait_for_link(&mut replica.client());
    assert!(replica.terminate().success());
    // It is opened and changed by one that ends by a crash.
    replica.start_as(journal());
    replica.client().check("SET own 1", "OK");
    replica.kill();
    replica.start_as(journal().args(follows));
    wait_for_link(&mut replica.client());
    assert_eq!(count_in_log(&replica, FULL), 1, "{}", replica.log());
    replica.client().check("EXISTS own", "(integer) 0");
    check_equal(&mut primary.client(), &mut replica.client());
}

/// Lets a replica with a pool crash after `then`, and returns whether it gets a dump afterwards.
fn needs_a_dump_after(launch: &Launch, then: impl FnOnce(&mut Client, &mut Client)) -> bool {
    let primary = volatile().start();
    let mut writer = primary.client();
    writer.check("SET before 1", "OK");
    let follows = ["--replicaof", &format!("127.0.0.1 {}", primary.port())];
    let mut replica = launch.clone().args(follows).start();
    let mut client = replica.client();
    wait_for_link(&mut client);
    then(&mut writer, &mut client);
    replica.crash();
    wait_for_link(&mut replica.client());
    check_equal(&mut writer, &mut replica.client());
    count_in_log(&replica, FULL) == 1
}

#[test]
fn a_replica_that_crashes_continues_after_whatever_its_primary_did() {
    let value = "v".repeat(300_000);
    let large = format!("SET large {value}");
    let library = "#!lua name=l\nredis.register_function('f', function() return 1 end)";
    for launch in [journal(), pmem()] {
        let is_dumped = needs_a_dump_after(&launch, |writer, replica| {
            writer.check("MULTI", "OK");
            for line in ["INCR n", "SELECT 3", "INCR n", "RPUSH list a b c"] {
                writer.check(line, "QUEUED");
            }
            writer.check("EXEC", "[(integer) 1, OK, (integer) 1, (integer) 3]");
            writer.check("INCR n", "(integer) 2");
            writer.check("SWAPDB 0 3", "OK");
            writer.check(&large, "OK");
            assert!(!writer.call(&["FUNCTION", "LOAD", library]).is_error());
            writer.check("PFADD hll a b c", "(integer) 1");
            writer.check("SELECT 5", "OK");
            writer.check("INCR n", "(integer) 1");
            check_equal(writer, replica);
            // A reader changes nothing, though it counts what it has not counted yet.
            replica.check("SELECT 3", "OK");
            replica.check("PFCOUNT hll", "(integer) 3");
            writer.check("FLUSHDB", "OK");
            writer.check("INCR n", "(integer) 1");
            check_equal(writer, replica);
        });
        assert!(!is_dumped);
    }
}

#[test]
fn a_replica_whose_data_was_changed_otherwise_gets_all_after_a_crash() {
    for launch in [journal().args(["--appendfsync", "always"]), pmem()] {
        let by_client = needs_a_dump_after(&launch, |writer, replica| {
            replica.check("CONFIG SET replica-read-only no", "OK");
            replica.check("SET own 1", "OK");
            replica.check("CONFIG SET replica-read-only yes", "OK");
            writer.check("SET before 2", "OK");
        });
        let before_a_cut = needs_a_dump_after(&launch, |writer, replica| {
            replica.check("CONFIG SET replica-read-only no", "OK");
            replica.check("INCR own", "(integer) 1");
            writer.check("CLIENT KILL TYPE replica", "(integer) 1");
            wait_until("it does not come back", || writer.info("stats")["sync_partial_ok"] == "1");
            wait_for_link(replica);
            writer.check("INCR own", "(integer) 1");
        });
        let as_primary = needs_a_dump_after(&launch, |writer, replica| {
            replica.check("REPLICAOF NO ONE", "OK");
            replica.check("SET own 1", "OK");
            writer.check("SET before 2", "OK");
        });
        let by_expiry = needs_a_dump_after(&launch, |writer, replica| {
            writer.check("DEBUG SET-ACTIVE-EXPIRE 0", "OK");
            writer.check("SET short 1 PX 20", "OK");
            check_equal(writer, replica);
            replica.check("REPLICAOF NO ONE", "OK");
            wait_until("it does not expire", || replica.run("DBSIZE").to_string() == "(integer) 1");
        });
        assert_eq!([by_client, before_a_cut, as_primary, by_expiry], [true; 4]);
    }
}

/// Commands that change no data take a place in the stream, too.
#[test]
fn a_replica_that_crashes_after_many_messages_continues() {
    let message = "m".repeat(20_000);
    let is_dumped = needs_a_dump_after(&pmem(), |writer, replica| {
        writer.check("CONFIG SET repl-backlog-size 200kb", "OK");
        for _ in 0..20 {
            writer.check(&format!("PUBLISH channel {message}"), "(integer) 0");
        }
        let end: u64 = info(writer, "master_repl_offset").parse().expect("a number");
        wait_until("the place does not follow", || {
            let kept = replica.info("persistence")["pool_stream_offset"].clone();
            kept.parse::<u64>().is_ok_and(|kept| kept + (64 << 10) >= end)
        });
    });
    assert!(!is_dumped);
}

#[test]
fn a_start_that_fails_leaves_the_place_where_it_was() {
    for launch in [journal(), pmem()] {
        let mut primary = launch.clone().start();
        primary.client().check("SET before 1", "OK");
        let follows = ["--replicaof", &format!("127.0.0.1 {}", primary.port())];
        let mut replica = launch.clone().args(follows).start();
        wait_for_link(&mut replica.client());
        check_equal(&mut primary.client(), &mut replica.client());
        let fails = |server: &mut Server, launch: Launch| {
            assert!(server.terminate().success());
            let launch = launch.args(["--unixsocket", "/no/such/folder/socket"]);
            for _ in 0..2 {
                let failed = launch.run_to_end_in(server.folder());
                assert_eq!(failed.status.code(), Some(1), "{}", failed.log);
            }
            server.start_again();
        };
        fails(&mut primary, launch.clone());
        wait_for_link(&mut replica.client());
        fails(&mut replica, launch.clone().args(follows));
        wait_for_link(&mut replica.client());
        primary.client().check("SET after 1", "OK");
        check_equal(&mut primary.client(), &mut replica.client());
        assert_eq!(syncs(&primary), [0, 2], "{}", primary.log());
    }
}

#[test]
fn the_end_waits_for_replicas_no_longer_than_its_timeout() {
    let mut primary = journal().args(["--shutdown-timeout", "1"]).start();
    let mut client = primary.client();
    client.check("SET k 1", "OK");
    let replica = start_replica(volatile(), &primary);
    check_equal(&mut client, &mut replica.client());
    replica.pause();
    client.check("INCR k", "(integer) 2");
    let began = Instant::now();
    assert!(primary.terminate().success());
    assert!(began.elapsed() >= Duration::from_secs(1));
    let log = primary.log();
    assert!(
        log.contains("Lagging replica") && log.contains("0 of 1 replicas are in sync"),
        "{log}"
    );
    replica.resume();
    primary.start_again();
    wait_for_link(&mut replica.client());
    check_equal(&mut primary.client(), &mut replica.client());
}

#[test]
fn shutdown_waits_for_replicas_and_can_be_aborted() {
    let mut primary = journal().args(["--shutdown-timeout", "300"]).start();
    let mut client = primary.client();
    client.check("SET k 1", "OK");
    client.check("SHUTDOWN ABORT", "(error) ERR No shutdown in progress.");
    let replica = start_replica(volatile(), &primary);
    check_equal(&mut client, &mut replica.client());
    let shutdown = || {
        let mut waiting = primary.client();
        waiting.send(&["SHUTDOWN"]).expect("it is sent");
        waiting
    };
    replica.pause();
    client.check("INCR k", "(integer) 2");
    let mut both = [shutdown(), shutdown()];
    wait_until("it does not wait", || client.info("clients")["blocked_clients"] == "2");
    wait_for_log(&primary, "Waiting for replicas before shutting down.");
    assert_ne!(client.info("server")["shutdown_in_milliseconds"], "0");
    let mut writer = primary.client();
    writer.send(&["INCR", "k"]).expect("it is sent");
    client.check("GET k", "\"2\"");
    client.check("SHUTDOWN ABORT", "OK");
    for waiting in &mut both {
        let reply = waiting.receive().expect("a reply").to_string();
        assert_eq!(reply, "(error) ERR Errors trying to SHUTDOWN. Check logs.");
        waiting.check("PING", "PONG");
    }
    assert_eq!(writer.receive().expect("a reply").int(), Some(3));
    wait_for_log(&primary, "Shutdown manually aborted");
    let _waiting = shutdown();
    wait_until("it does not wait", || client.info("clients")["blocked_clients"] == "1");
    replica.resume();
    assert!(primary.wait().success());
    wait_for_reply(&mut replica.client(), "GET k", "\"3\"");
    primary.start_again();
    wait_for_link(&mut replica.client());
    check_equal(&mut primary.client(), &mut replica.client());
    assert_eq!(syncs(&primary), [0, 1]);
}

#[test]
fn a_promoted_replica_that_restarts_says_whose_successor_it_is() {
    for launch in [journal(), volatile().args(["--save", "3600 1"])] {
        let primary = volatile().start();
        primary.client().check("SET k 1", "OK");
        let mut replica = start_replica(launch, &primary);
        check_equal(&mut primary.client(), &mut replica.client());
        let mut client = replica.client();
        assert_eq!(info(&mut client, "master_replid3"), "");
        let [id, end] =
            ["master_replid", "master_repl_offset"].map(|field| info(&mut client, field));
        client.check("REPLICAOF NO ONE", "OK");
        client.check("SET own 1", "OK");
        let second = info(&mut client, "master_replid");
        assert!(replica.terminate().success(), "{}", replica.log());
        replica.start_again();
        let mut client = replica.client();
        client.check("GET own", "\"1\"");
        assert_eq!(info(&mut client, "master_replid2"), second);
        assert_eq!(info(&mut client, "master_replid3"), id);
        let end: u64 = end.parse().expect("an offset");
        assert_eq!(info(&mut client, "third_repl_offset"), (end + 1).to_string());
    }
}

#[test]
fn shutdown_now_ends_a_wait_for_replicas_at_once() {
    let mut primary = journal().args(["--shutdown-timeout", "300"]).start();
    let mut client = primary.client();
    let replica = start_replica(volatile(), &primary);
    replica.pause();
    client.check("SET k 1", "OK");
    let mut waiting = primary.client();
    waiting.send(&["SHUTDOWN"]).expect("it is sent");
    wait_for_log(&primary, "Waiting for replicas before shutting down.");
    let began = Instant::now();
    client.send(&["SHUTDOWN", "NOW"]).expect("it is sent");
    assert!(primary.wait().success());
    assert!(began.elapsed() < Duration::from_secs(60));
    assert!(waiting.receive().is_err(), "the server has ended");
    let log = primary.log();
    assert!(log.contains("0 of 1 replicas are in sync") && !log.contains("aborted"), "{log}");
    replica.resume();
    primary.start_again();
    primary.client().check("GET k", "\"1\"");
}

#[test]
fn an_end_that_no_longer_waits_for_replicas_is_not_aborted() {
    for has_replica in [false, true] {
        let mut primary = volatile().args(["--save", "3600 1"]).start();
        let mut client = primary.client();
        client.check("SET k 1", "OK");
        let replica = has_replica.then(|| start_replica(volatile(), &primary));
        client.check("CONFIG SET rdb-key-save-delay 300000000", "OK");
        primary.ask_to_end();
        wait_until("it saves", || client.info("persistence")["rdb_bgsave_in_progress"] == "1");
        client.check("SHUTDOWN ABORT", "(error) ERR No shutdown in progress.");
        client.check("CONFIG SET rdb-key-save-delay 0", "OK");
        assert!(primary.wait().success());
        drop(replica);
    }
}

#[test]
fn dumps_of_redis_and_of_perdura_say_where_the_other_continues() {
    let primary = volatile().start();
    let mut client = primary.client();
    client.check("SET before 1", "OK");
    let to = format!("127.0.0.1 {}", primary.port());
    let on = |launch: Launch| launch.args(["--save", "3600 1", "--replicaof", &to]);
    let mut replica = on(redis()).start();
    wait_for_link(&mut replica.client());
    for (restarts, launch) in [volatile(), redis(), volatile()].into_iter().enumerate() {
        client.check(&format!("SELECT {restarts}"), "OK");
        client.check("RPUSH list a b", "(integer) 2");
        check_equal(&mut client, &mut replica.client());
        assert!(replica.terminate().success(), "{}", replica.log());
        client.check("RPUSH list c", "(integer) 3");
        replica.start_as(on(launch));
        wait_for_link(&mut replica.client());
        check_equal(&mut client, &mut replica.client());
        assert_eq!(syncs(&primary), [1, restarts as u64 + 1], "{}", replica.log());
    }
}
