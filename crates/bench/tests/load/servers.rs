//! What real servers do with each kind of load, and what is counted of it.

use crate::{outcome, small, whole};
use bench::load::{
    Command, Commands, Kind, Options, Outcome, Protocol, Ratio, Requests, Ycsb, memtier_driver,
};
use std::time::{Duration, Instant};
use testkit::{Launch, Server};

/// A server of Perdura's, and redis-server where it is installed.
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
        key_pattern: "P:P".parse().expect("patterns"),
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
            // `*3 SET memtier-NN x..x` is 69 bytes, or 68 with one digit, `+OK` is 5.
            assert_eq!(set.received, 500 * 5);
            assert!(set.sent > 500 * 68 && set.sent < 500 * 69, "{}", set.sent);
            assert!(get.latency.p50 > 0.0 && get.latency.p50 <= get.latency.p99_9);
            let seconds: u64 = set.series.iter().map(|second| second.operations).sum();
            assert_eq!(seconds, 500);
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
        let filled = Options { data_size: Some(70_000), random_data: true, ..fill(server.port()) };
        whole(&filled);
        assert_eq!(server.client().run("STRLEN memtier-7").int(), Some(70_000));
        let many = Options {
            multi_key_get: Some(8),
            ratio: Ratio(0, 8),
            requests: Some(Requests::Each(10)),
            pipeline: 3,
            ..small(server.port())
        };
        let outcome = whole(&many);
        assert_eq!(outcome.classes[1].hits, 800);
        assert!(outcome.classes[1].received > 800 * 70_000);
    }
}

#[test]
fn resp3_replies_are_understood() {
    for server in servers() {
        let commands = ["SADD {__key__} __data__", "SMEMBERS {__key__}", "GET none"];
        let commands = Commands(commands.map(Command::new).into());
        let options = Options { protocol: Protocol::Resp3, commands, ..small(server.port()) };
        // Perdura has no sets yet: whatever it replies must at least be understood.
        let outcome = outcome(&options);
        let replies = outcome.totals.operations + outcome.error_count();
        assert_eq!((replies, outcome.ended == bench::load::Ended::Done), (2000, true));
        assert_eq!(outcome.classes[2].misses, outcome.classes[2].operations);
        let resp2 = Options { protocol: Protocol::Resp2, ..small(server.port()) };
        whole(&resp2);
    }
}

#[test]
fn a_unix_socket_serves_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let launch = Launch::perdura_volatile();
    let server = launch.args(["--unixsocket".as_ref(), path.as_os_str()]).start();
    whole(&Options { unix_socket: Some(path), ..small(server.port()) });
    assert!(server.client().run("DBSIZE").int() > Some(0));
}

#[test]
fn credentials_and_databases_are_used() {
    let server = Launch::perdura_volatile().args(["--requirepass", "secret"]).start();
    let open = Options { authenticate: Some("secret".into()), select_db: 3, ..fill(server.port()) };
    whole(&open);
    let mut client = server.client();
    client.check("AUTH secret", "OK");
    assert_eq!(client.run("DBSIZE").int(), Some(0));
    client.check("SELECT 3", "OK");
    assert_eq!(client.run("DBSIZE").int(), Some(100));
}

#[test]
fn connections_are_rebuilt_when_asked() {
    let server = Launch::perdura_volatile().start();
    let before = server.client().info("stats")["total_connections_received"].clone();
    let options = Options { reconnect_interval: Some(50), pipeline: 3, ..small(server.port()) };
    assert_eq!(whole(&options).totals.operations, 2000);
    let after = server.client().info("stats")["total_connections_received"].clone();
    let number = |text: String| text.parse::<u64>().expect("a number");
    // Ten connections, each made again three times, and one to ask.
    assert_eq!(number(after) - number(before), 41);
}

/// Ten connections with 100 requests a second each. A machine that stalls makes a run slower, and
/// none faster.
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
        // The last requests are due then.
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

#[test]
fn both_backends_take_the_load() {
    for launch in [Launch::perdura_emulated(), Launch::perdura_aof("always")] {
        let server = launch.start();
        let options = Options {
            data_size: Some(4096),
            pipeline: 6,
            ratio: Ratio(3, 7),
            ..small(server.port())
        };
        assert_eq!(whole(&options).totals.operations, 2000);
    }
}

/// Where memtier_benchmark is installed: what it did comes back in the same form.
#[test]
fn memtier_benchmark_can_drive_instead() {
    if !memtier_driver::is_installed() {
        eprintln!("memtier_benchmark is not installed");
        return;
    }
    let server = Launch::perdura_volatile().start();
    let options = Options { ratio: Ratio(1, 3), pipeline: 2, ..small(server.port()) };
    let cancel = std::sync::atomic::AtomicBool::new(false);
    let theirs = memtier_driver::run(&options, &cancel).unwrap_or_else(|error| panic!("{error}"));
    let ours = whole(&options);
    assert!(theirs.is_whole(), "{:?} {:?}", theirs.ended, theirs.errors);
    let counts = |outcome: &Outcome| {
        let classes = outcome.classes.iter();
        classes.map(|class| (class.name.clone(), class.operations)).collect::<Vec<_>>()
    };
    assert_eq!(counts(&theirs), counts(&ours));
    let (a, b) = (theirs.totals.sent as f64, ours.totals.sent as f64);
    assert!((a / b - 1.0).abs() < 0.02, "{a} and {b} bytes");
    assert!(theirs.totals.latency.p50 > 0.0 && theirs.generator.cpu_seconds > 0.0);
    let wrong = Options { commands: Commands(vec![Command::new("NOSUCH __key__")]), ..options };
    let errors = memtier_driver::run(&wrong, &cancel).expect("an outcome").errors;
    assert!(errors.keys().any(|text| text.contains("unknown command")), "{errors:?}");
}
