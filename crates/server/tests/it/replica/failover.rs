//! FAILOVER: a primary and one of its replicas exchange their roles. No acknowledged write is lost,
//! and nobody needs a dump.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use testkit::{Client, Launch, Server, free_port};

use super::proxy::Proxy;
use super::{check_equal, follow, info, quiet, redis, start_replica, volatile, wait_for_link};
use super::{wait_for_log, wait_for_reply, wait_until};

const REJECTED: &str = "Failover target rejected psync request";

fn state(client: &mut Client) -> String {
    info(client, "master_failover_state")
}

#[track_caller]
fn wait_for_state(client: &mut Client, expected: &str) {
    let mut last = String::new();
    wait_until(&format!("the state is not {expected}"), || {
        last = state(client);
        last == expected
    });
}

/// Returns how many replicas got a dump, and how many continued.
fn syncs(server: &Server) -> [u64; 2] {
    let stats = server.client().info("stats");
    ["sync_full", "sync_partial_ok"].map(|field| stats[field].parse().expect("a count"))
}

/// A primary with two replicas.
struct Three {
    old: Server,
    new: Server,
    other: Server,
}

impl Three {
    fn start(old: Launch, new: Launch, other: Launch) -> Three {
        let old = old.start();
        old.client().check("SET before 1", "OK");
        let [new, other] = [new, other].map(|launch| start_replica(launch, &old));
        for replica in [&new, &other] {
            check_equal(&mut old.client(), &mut replica.client());
        }
        Three { old, new, other }
    }

    fn failover(&self, more: &str) -> String {
        let port = self.new.port();
        self.old.client().run(&format!("FAILOVER TO 127.0.0.1 {port}{more}")).to_string()
    }

    /// Checks that roles were exchanged without a dump.
    #[track_caller]
    fn check_exchanged(&self, before: [u64; 2]) {
        let (mut old, mut new) = (self.old.client(), self.new.client());
        assert_eq!(info(&mut new, "role"), "master");
        assert_eq!(info(&mut old, "role"), "slave");
        wait_for_link(&mut old);
        follow(&mut self.other.client(), self.new.port());
        wait_for_link(&mut self.other.client());
        new.check("SET after 1", "OK");
        for replica in [&self.old, &self.other] {
            wait_for_reply(&mut replica.client(), "GET after", "\"1\"");
            check_equal(&mut new, &mut replica.client());
        }
        assert_eq!(syncs(&self.new), [before[0], before[1] + 2], "{}", self.new.log());
    }
}

/// Counts a key up until that is refused. Returns how often that was acknowledged.
fn count_up(client: &mut Client, key: &str, total: &AtomicU64) -> u64 {
    let mut count = 0;
    loop {
        match client.run(&format!("INCR {key}")) {
            reply if reply.is_error() => {
                assert!(reply.to_string().contains("READONLY"), "{reply}");
                return count;
            }
            reply => {
                count += 1;
                total.fetch_add(1, SeqCst);
                assert_eq!(reply.int(), Some(count as i64));
            }
        }
    }
}

#[track_caller]
fn check_under_load(old: Launch, new: Launch) {
    let three = Three::start(old, new, volatile());
    let before = syncs(&three.new);
    let total = AtomicU64::new(0);
    let counts: Vec<u64> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|number| {
                let (mut client, total) = (three.old.client(), &total);
                scope.spawn(move || count_up(&mut client, &format!("n:{number}"), total))
            })
            .collect();
        wait_until("nothing is written", || total.load(SeqCst) > 1000);
        assert_eq!(three.failover(""), "OK");
        wait_for_state(&mut three.old.client(), "no-failover");
        writers.into_iter().map(|writer| writer.join().expect("a count")).collect()
    });
    let mut client = three.new.client();
    for (number, count) in counts.iter().enumerate() {
        client.check(&format!("GET n:{number}"), &format!("\"{count}\""));
    }
    three.check_exchanged(before);
}

#[test]
fn perdura_hands_over_to_perdura_under_load() {
    check_under_load(volatile(), volatile());
}

#[test]
fn perdura_hands_over_to_redis_under_load() {
    check_under_load(volatile(), redis());
}

#[test]
fn redis_hands_over_to_perdura_under_load() {
    check_under_load(redis(), volatile());
}

#[test]
fn a_pool_hands_over_to_a_log_under_load() {
    check_under_load(
        quiet(Launch::perdura_journal("everysec")),
        quiet(Launch::perdura_aof("everysec")),
    );
}

#[test]
fn roles_go_round_while_clients_write() {
    let servers = [volatile().start(), volatile().start()];
    follow(&mut servers[1].client(), servers[0].port());
    wait_for_link(&mut servers[1].client());
    let mut written = 0;
    for round in 0..6 {
        let (old, new) = (&servers[round % 2], &servers[(round + 1) % 2]);
        wait_until("the replica does not come", || {
            info(&mut old.client(), "slave0").contains("state=online")
        });
        let total = AtomicU64::new(0);
        let key = format!("round:{round}");
        std::thread::scope(|scope| {
            let (mut client, total, key) = (old.client(), &total, &key);
            let writer = scope.spawn(move || count_up(&mut client, key, total));
            wait_until("nothing is written", || total.load(SeqCst) > 100);
            old.client().check("FAILOVER", "OK");
            written = writer.join().expect("a count");
        });
        wait_for_state(&mut old.client(), "no-failover");
        new.client().check(&format!("GET {key}"), &format!("\"{written}\""));
        wait_for_link(&mut old.client());
        check_equal(&mut new.client(), &mut old.client());
    }
    assert_eq!((syncs(&servers[0]), syncs(&servers[1])), ([1, 3], [0, 3]));
}

#[test]
fn wrong_calls_are_refused_as_by_redis() {
    let check = |launch: fn() -> Launch| {
        let (primary, replica) = (launch().start(), launch().start());
        let (mut client, mut admin) = (primary.client(), replica.client());
        client.check("FAILOVER", "(error) ERR FAILOVER requires connected replicas.");
        client.check("FAILOVER ABORT", "(error) ERR No failover in progress.");
        follow(&mut admin, primary.port());
        wait_for_link(&mut admin);
        wait_until("it is not online", || info(&mut client, "slave0").contains("state=online"));
        let port = replica.port();
        let to = format!("TO 127.0.0.1 {port}");
        let not_one = "(error) ERR FAILOVER target HOST and PORT is not a replica.";
        let both = "(error) ERR FAILOVER with force option requires both a timeout and target HOST and IP.";
        let (number, syntax) =
            ("(error) ERR value is not an integer or out of range", "(error) ERR syntax error");
        let checks = [
            (format!("TO invalidhost {port}"), not_one),
            (format!("TO 127.0.0.1 {}", primary.port()), not_one),
            ("TO 127.0.0.1 invalidport".to_owned(), number),
            ("TIMEOUT x".to_owned(), number),
            ("TIMEOUT 0".to_owned(), "(error) ERR FAILOVER timeout must be greater than 0"),
            ("FORCE TIMEOUT 100".to_owned(), both),
            (format!("{to} FORCE"), both),
            (format!("{to} {to}"), syntax),
            ("TO 127.0.0.1".to_owned(), syntax),
            ("TIMEOUT 1 TIMEOUT 1".to_owned(), syntax),
            ("FORCE FORCE".to_owned(), syntax),
            ("ABORT TIMEOUT 1".to_owned(), syntax),
        ];
        for (words, expected) in checks {
            client.check(&format!("FAILOVER {words}"), expected);
        }
        let of_replica = "(error) ERR FAILOVER is not valid when server is a replica.";
        admin.check(&format!("FAILOVER {to}"), of_replica);
        let id = info(&mut client, "master_replid");
        let of_primary = "(error) ERR PSYNC FAILOVER can't be sent to a master.";
        client.check(&format!("PSYNC {id} 1 FAILOVER"), of_primary);
        let of_other = "(error) ERR PSYNC FAILOVER replid must match my replid.";
        admin.check(&format!("PSYNC {} 1 FAILOVER", "0".repeat(40)), of_other);
        assert_eq!(info(&mut admin, "role"), "slave");
        assert_eq!(state(&mut client), "no-failover");
    };
    check(redis);
    check(volatile);
}

/// Lets the replica's process stand still, so that it does not catch up.
#[test]
fn a_failover_ends_by_its_timeout_or_by_abort() {
    let three = Three::start(volatile(), volatile(), volatile());
    let (mut client, before) = (three.old.client(), syncs(&three.old));
    three.new.pause();
    client.check("SET lag 1", "OK");
    assert_eq!(three.failover(" TIMEOUT 300"), "OK");
    assert_eq!(state(&mut client), "waiting-for-sync");
    client.check("SET late 1", "OK");
    assert_eq!(state(&mut client), "no-failover", "the write has waited for that");
    wait_for_log(&three.old, "aborted: Replica never caught up before timeout");

    assert_eq!(three.failover(""), "OK");
    let in_progress = "(error) ERR FAILOVER already in progress.";
    client.check("FAILOVER", in_progress);
    client.check("REPLICAOF NO ONE", "(error) ERR REPLICAOF not allowed while failing over.");
    let failing = "(error) NOMASTERLINK Can't SYNC while failing over";
    three.old.client().check("PSYNC ? -1", failing);
    client.check("GET lag", "\"1\"");
    client.check("CLIENT UNPAUSE", "OK");
    let mut writer = three.old.client();
    writer.send(&["SET", "held", "1"]).expect("it is sent");
    client.check("EXISTS held", "(integer) 0");
    assert_eq!(state(&mut client), "waiting-for-sync");
    client.check("FAILOVER ABORT", "OK");
    assert_eq!(writer.receive().expect("a reply").to_string(), "OK");
    assert_eq!(state(&mut client), "no-failover");
    three.new.resume();
    for replica in [&three.new, &three.other] {
        check_equal(&mut client, &mut replica.client());
    }
    assert_eq!(info(&mut client, "role"), "master");
    assert_eq!(syncs(&three.old), before);
}

#[test]
fn a_forced_failover_takes_a_replica_that_did_not_catch_up() {
    let three = Three::start(volatile(), volatile(), volatile());
    let (mut client, before) = (three.old.client(), syncs(&three.new));
    three.new.pause();
    client.check("SET lag 1", "OK");
    assert_eq!(three.failover(" TIMEOUT 100 FORCE"), "OK");
    wait_for_state(&mut client, "failover-in-progress");
    assert_eq!(info(&mut client, "role"), "slave", "there are never two primaries");
    three.new.resume();
    wait_for_state(&mut client, "no-failover");
    wait_for_log(&three.old, "time out exceeded, failing over.");
    // What was on its way is executed before.
    three.new.client().check("GET lag", "\"1\"");
    three.check_exchanged(before);
}

#[test]
fn a_forced_failover_to_nobody_can_be_aborted() {
    let mut three = Three::start(volatile(), volatile(), volatile());
    let mut client = three.old.client();
    let id = info(&mut client, "master_replid");
    three.new.pause();
    client.check("SET lag 1", "OK");
    assert_eq!(three.failover(" TIMEOUT 100 FORCE"), "OK");
    wait_for_state(&mut client, "failover-in-progress");
    three.new.kill();
    client.check("FAILOVER ABORT", "OK");
    assert_eq!(
        (info(&mut client, "role"), state(&mut client)),
        ("master".into(), "no-failover".into())
    );
    assert_eq!(info(&mut client, "master_replid2"), id);
    client.check("SET more 1", "OK");
    check_equal(&mut client, &mut three.other.client());
    assert_eq!(syncs(&three.old), [2, 1]);
}

#[test]
fn a_target_that_refuses_leaves_the_primary_in_its_role() {
    for launch in [volatile(), redis()] {
        let three = Three::start(volatile(), launch, volatile());
        let (mut client, mut admin) = (three.old.client(), three.new.client());
        let before = syncs(&three.old);
        admin.check("ACL SETUSER default -psync", "OK");
        assert_eq!(three.failover(""), "OK");
        wait_for_log(&three.old, REJECTED);
        wait_for_state(&mut client, "no-failover");
        admin.check("ACL SETUSER default +psync", "OK");
        client.check("SET more 1", "OK");
        for replica in [&three.new, &three.other] {
            check_equal(&mut client, &mut replica.client());
        }
        assert_eq!(info(&mut client, "role"), "master");
        assert_eq!(syncs(&three.old), [before[0], before[1] + 2]);
        assert_eq!(three.old.log().matches(REJECTED).count(), 1);
    }
}

#[test]
fn a_target_that_crashes_before_it_is_asked_leaves_the_primary_in_its_role() {
    let old = volatile().start();
    let mut client = old.client();
    // Nobody listens at the port that the replica names.
    let port = free_port();
    let named = port.to_string();
    let launch = quiet(Launch::perdura_journal("everysec"));
    let launch = launch.args(["--replica-announce-port", &named]);
    let launch = launch.args(["--replicaof", &format!("127.0.0.1 {}", old.port())]);
    let mut new = launch.start();
    wait_for_link(&mut new.client());
    client.check("SET before 1", "OK");
    wait_until("it is not online", || info(&mut client, "slave0").contains("state=online"));
    client.check(&format!("FAILOVER TO 127.0.0.1 {port}"), "OK");
    wait_for_state(&mut client, "failover-in-progress");
    new.kill();
    new.start_again();
    let _way = Proxy::at(port, new.port());
    wait_for_state(&mut client, "no-failover");
    wait_for_log(&old, "Failover target has lost a part of the stream");
    assert_eq!(info(&mut client, "role"), "master");
    client.check("SET after 1", "OK");
    check_equal(&mut client, &mut new.client());
}
