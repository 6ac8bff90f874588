//! Each kind of load on real servers, and what is counted.

use crate::{small, whole};
use bench::load::{Kind, Options, Pattern, Ratio, Requests, Size, Ycsb};
use std::time::{Duration, Instant};
use testkit::{Launch, Server};

/// Returns a Perdura server, and redis-server if it is installed.
fn servers() -> Vec<Server> {
    let mut servers = vec![Launch::perdura_volatile().start()];
    let redis = std::process::Command::new("redis-server").arg("--version").output();
    if redis.is_ok() {
        servers.push(Launch::redis().start());
    }
    servers
}

fn fill(port: u16) -> Options {
    Options {
        ratio: Ratio(1, 0),
        key_pattern: Pattern::Parallel,
        requests: Some(Requests::AllKeys),
        ..small(port)
    }
}

#[test]
fn every_request_is_counted_once() {
    for server in servers() {
        for pipeline in [1, 6] {
            server.client().check("FLUSHALL", "OK");
            let outcome = whole(&Options { pipeline, ratio: Ratio(1, 3), ..small(server.port()) });
            let (set, get) = (&outcome.classes[0], &outcome.classes[1]);
            assert_eq!((set.operations, get.operations), (500, 1500));
            assert_eq!((outcome.totals.operations, outcome.totals.histogram.count()), (2000, 2000));
            assert_eq!(get.hits + get.misses, 1500);
            assert!(get.hits > 0 && get.misses > 0, "{} hits", get.hits);
            // `*3 SET memtier-NN x..x` is 69 bytes, or 67 with one digit; `+OK` is 5.
            assert_eq!(set.received, 500 * 5);
            assert!(set.sent > 500 * 68 && set.sent < 500 * 69, "{}", set.sent);
            assert!(get.latency.p50 > 0.0 && get.latency.p50 <= get.latency.p999);
            assert!(outcome.generator.cpu_seconds > 0.0);
            assert_eq!(outcome.of_kind(Kind::Write).operations, 500);
        }
    }
}

#[test]
fn all_keys_are_written_once() {
    for server in servers() {
        let outcome = whole(&Options { pipeline: 4, ..fill(server.port()) });
        assert_eq!(outcome.totals.operations, 100);
        assert_eq!(server.client().run("DBSIZE").int(), Some(100));
        let reads = Options { ratio: Ratio(0, 1), ..small(server.port()) };
        assert_eq!(whole(&reads).classes[1].misses, 0);
    }
}

#[test]
fn values_are_as_long_as_asked() {
    for server in servers() {
        let size = Size::fixed(70_000);
        whole(&Options { data_size: size, random_data: true, ..fill(server.port()) });
        assert_eq!(server.client().run("STRLEN memtier-7").int(), Some(70_000));
        let reads = Options { ratio: Ratio(0, 1), pipeline: 3, ..small(server.port()) };
        let outcome = whole(&reads);
        assert_eq!(outcome.classes[1].hits, 2000);
        assert!(outcome.classes[1].received > 2000 * 70_000);
    }
}

#[test]
fn commands_are_counted_by_name() {
    for server in servers() {
        let commands = ["SADD {__key__} __data__", "SMEMBERS {__key__}", "GET none"];
        let commands = commands.map(str::to_owned).to_vec();
        let outcome = whole(&Options { commands, ..small(server.port()) });
        let counts: Vec<_> = outcome.classes.iter().map(|class| class.operations).collect();
        assert_eq!(counts.iter().sum::<u64>(), 2000);
        assert_eq!(outcome.classes[2].misses, counts[2]);
    }
}

#[test]
fn credentials_are_used() {
    let server = Launch::perdura_volatile().args(["--requirepass", "secret"]).start();
    whole(&Options { authenticate: Some("secret".into()), ..fill(server.port()) });
    let mut client = server.client();
    client.check("AUTH secret", "OK");
    assert_eq!(client.run("DBSIZE").int(), Some(100));
}

/// Ten connections with 100 requests a second each. A machine that stalls makes a run slower, never
/// faster.
#[test]
fn a_rate_is_kept() {
    let server = Launch::perdura_volatile().start();
    let options = Options {
        rate_limiting: Some(100),
        requests: Some(Requests::Each(100)),
        ..small(server.port())
    };
    let mut rates = Vec::new();
    while rates.last().is_none_or(|rate| *rate < 700.0) {
        assert!(rates.len() < 3, "{rates:?}");
        let began = Instant::now();
        let outcome = whole(&options);
        // The last requests are due at this time.
        assert!(began.elapsed() >= Duration::from_millis(990), "{:?}", began.elapsed());
        assert_eq!(outcome.totals.operations, 1000);
        rates.push(outcome.totals.per_second);
    }
}

#[test]
fn every_ycsb_workload_runs() {
    for server in servers() {
        whole(&fill(server.port()));
        for ycsb in [Ycsb::A, Ycsb::B, Ycsb::C, Ycsb::D, Ycsb::E, Ycsb::F] {
            let outcome = whole(&Options { ycsb: Some(ycsb), pipeline: 2, ..small(server.port()) });
            assert_eq!(outcome.totals.operations, 2000, "{ycsb:?}");
            assert!(outcome.classes.iter().all(|class| class.operations > 0), "{ycsb:?}");
            if matches!(ycsb, Ycsb::A | Ycsb::B | Ycsb::C | Ycsb::F) {
                assert_eq!(outcome.totals.misses, 0, "{ycsb:?}");
            }
        }
    }
}
