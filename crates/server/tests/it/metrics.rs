//! The endpoint for monitoring: scrapes, probes, and other input.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::time::Duration;

use testkit::{Client, Launch, Medium, Server, free_port};

/// An answer of the endpoint.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

fn parse(bytes: &[u8]) -> Answer {
    let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Answer { status: status.expect("a status"), head: head.to_owned(), body: body.to_owned() }
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the endpoint accepts");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    stream
}

/// Sends bytes, and returns all that comes back until the end of the stream.
fn exchange(port: u16, request: &[u8]) -> Vec<u8> {
    let mut stream = connect(port);
    stream.write_all(request).expect("sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    bytes
}

pub(crate) fn get(port: u16, path: &str) -> Answer {
    parse(&exchange(port, format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()))
}

/// Starts a server with an endpoint.
pub(crate) fn start(launch: Launch) -> (Server, u16) {
    let port = free_port();
    (launch.args(["--metrics-port", &port.to_string()]).start(), port)
}

/// The samples of a page, by series.
pub(crate) type Samples = BTreeMap<String, f64>;

/// Parses a page, strictly: each family has help and type and comes once, with its samples after
/// them; no series comes twice; buckets grow up to the count.
pub(crate) fn samples(page: &str) -> Samples {
    let (mut samples, mut families) = (Samples::new(), BTreeSet::new());
    let (mut family, mut kind) = (String::new(), String::new());
    let mut last_bucket: Option<(String, f64)> = None;
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("help");
            assert!(families.insert(name.to_owned()), "{name} comes twice");
            assert!(!help.is_empty() && name.len() > 8, "{line}");
            family = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, of) = rest.split_once(' ').expect("a type");
            assert_eq!(name, family, "{line}");
            assert!(["counter", "gauge", "histogram"].contains(&of), "{line}");
            assert_eq!(of == "counter", name.ends_with("_total"), "{line}");
            kind = of.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a sample");
            let value: f64 = value.parse().unwrap_or_else(|e| panic!("{line}: {e}"));
            let name = series.split('{').next().expect("a name");
            let end = name.strip_prefix(&*family).unwrap_or_else(|| panic!("{line} in {family}"));
            let ends: &[&str] =
                if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(ends.contains(&end), "{line}");
            assert!(samples.insert(series.to_owned(), value).is_none(), "{series} comes twice");
            if end == "_bucket" {
                let labels = series.split(",le=").next().expect("labels").to_owned();
                match &last_bucket {
                    Some((of, before)) if *of == labels => assert!(value >= *before, "{line}"),
                    _ => {}
                }
                last_bucket = Some((labels, value));
            } else if end == "_count" {
                let (_, all) = last_bucket.take().expect("buckets");
                assert_eq!(value, all, "{line}");
            }
        }
    }
    samples
}

/// Scrapes the endpoint.
pub(crate) fn scrape(port: u16) -> Samples {
    let answer = get(port, "/metrics");
    assert_eq!(answer.status, 200, "{}", answer.head);
    assert!(answer.head.contains("text/plain; version=0.0.4"), "{}", answer.head);
    samples(&answer.body)
}

#[test]
fn a_scrape_says_what_info_says() {
    let (server, port) = start(Launch::perdura_volatile());
    let mut client = server.client();
    // The client that waited for the start has left, but may still be counted.
    while client.info("clients")["connected_clients"] != "1" {
        std::thread::sleep(Duration::from_millis(5));
    }
    client.check("SET k v", "OK");
    client.check("SET t v EX 1000", "OK");
    client.check("GET k", "\"v\"");
    client.check("GET missing", "(nil)");
    client.check("SELECT 3", "OK");
    client.check("LPUSH l 1 2 3", "(integer) 3");
    assert!(client.run("INCR l").is_error());
    assert!(client.run("GET").is_error());
    let all = scrape(port);
    let check = |series: &str, expect: f64| {
        let got = all.get(series).unwrap_or_else(|| panic!("no {series} in {all:#?}"));
        assert_eq!(*got, expect, "{series}");
    };
    check("perdura_commands_total{cmd=\"set\"}", 2.0);
    check("perdura_commands_total{cmd=\"get\"}", 2.0);
    check("perdura_commands_latency_seconds_count{cmd=\"get\"}", 2.0);
    check("perdura_commands_latency_seconds_bucket{cmd=\"get\",le=\"+Inf\"}", 2.0);
    check("perdura_commands_failed_calls_total{cmd=\"incr\"}", 1.0);
    check("perdura_commands_rejected_calls_total{cmd=\"get\"}", 1.0);
    check("perdura_errors_total{err=\"WRONGTYPE\"}", 1.0);
    check("perdura_db_keys{db=\"db0\"}", 2.0);
    check("perdura_db_keys_expiring{db=\"db0\"}", 1.0);
    check("perdura_db_keys{db=\"db3\"}", 1.0);
    check("perdura_keyspace_hits_total", 1.0);
    check("perdura_keyspace_misses_total", 1.0);
    check("perdura_connected_clients", 1.0);
    check("perdura_loading", 0.0);
    let info = client.info("memory");
    check("perdura_memory_used_bytes", info["used_memory_dataset"].parse().expect("a number"));
    check("perdura_memory_other_bytes", info["used_memory_overhead"].parse().expect("a number"));
    let time = all["perdura_commands_duration_seconds_total{cmd=\"set\"}"];
    let sum = all["perdura_commands_latency_seconds_sum{cmd=\"set\"}"];
    assert!(time > 0.0 && (sum / time - 1.0).abs() < 0.02, "{time} {sum}");
    let info = all.keys().find(|series| series.starts_with("perdura_persistence_info"));
    assert!(info.is_some_and(|series| series.contains("survives=\"nothing\"")), "{info:?}");
    client.check("CONFIG RESETSTAT", "OK");
    assert!(!scrape(port).contains_key("perdura_commands_total{cmd=\"set\"}"));
    client.check("CONFIG SET latency-tracking no", "OK");
    client.check(
        "GET l",
        "(error) WRONGTYPE Operation against a key holding the wrong kind of value",
    );
    let page = get(port, "/metrics").body;
    assert!(!page.contains("latency_seconds"), "{page}");
}

/// Returns the series that names the durability in force.
fn durability(all: &Samples) -> String {
    let info = all.keys().find(|series| series.starts_with("perdura_persistence_info"));
    info.expect("the durability").clone()
}

#[test]
fn the_durability_in_force_is_a_label() {
    let check = |launch: Launch, expect: &[&str]| {
        let (_server, port) = start(launch);
        let all = scrape(port);
        let info = durability(&all);
        for label in expect {
            assert!(info.contains(label), "{label} in {info}");
        }
        all
    };
    let all = check(
        Launch::perdura_journal("always"),
        &["backend=\"journal\"", "survives=\"power loss\""],
    );
    assert_eq!(all["perdura_journal_size_bytes"], 65536.0);
    check(Launch::perdura_journal("everysec"), &["survives=\"process crash\""]);
    check(Launch::perdura_emulated(), &["domain=\"clwb\"", "survives=\"process crash\""]);
    let in_memory = Launch::perdura_journal("always").on(testkit::Medium::Memory);
    check(in_memory, &["backend=\"journal\"", "survives=\"process crash\""]);
    let all = check(Launch::perdura_aof("always"), &["backend=\"aof\"", "survives=\"power loss\""]);
    assert_eq!(all["perdura_aof_enabled"], 1.0);
    let emulated = ["--journal", "tail.journal", "--journal-size", "1mb", "--emulate-pmem", "yes"];
    check(
        Launch::perdura_journal("always").args(emulated),
        &["emulated=\"yes\"", "survives=\"process crash\""],
    );
}

#[test]
fn the_durability_of_a_log_that_was_switched_on_is_a_label() {
    let (server, port) = start(Launch::perdura_volatile().args(["--appendfsync", "always"]));
    let mut client = server.client();
    let says = |expect: &str| durability(&scrape(port)).contains(expect);
    assert!(says("survives=\"nothing\""));
    client.check("CONFIG SET appendonly yes", "OK");
    // The log holds all data once it has been rewritten.
    while durability(&scrape(port)).contains("survives the end of the process") {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(says("survives=\"power loss\""));
    client.check("CONFIG SET appendfsync everysec", "OK");
    assert!(says("survives=\"process crash\""));
    client.check("CONFIG SET appendonly no", "OK");
    assert!(says("survives=\"nothing\""));
}

/// Checks the four places that report whether writes are refused.
fn check_refusal(client: &mut Client, port: u16, expect: Option<&str>) {
    let (info, ready) = (client.info("persistence"), get(port, "/readyz"));
    let refused = f64::from(u8::from(expect.is_some()));
    assert_eq!(scrape(port)["perdura_writes_refused"], refused, "{info:?}");
    assert_eq!(ready.status, if expect.is_some() { 503 } else { 200 }, "{}", ready.body);
    match expect {
        Some(why) => assert!(info["writes_refused"].contains(why) && ready.body.contains(why)),
        None => assert_eq!(info["writes_refused"], ""),
    }
    assert_eq!(get(port, "/healthz").status, 200);
}

#[test]
fn a_full_pool_is_shown_until_there_is_space() {
    let (server, port) = start(Launch::perdura_pmem().args(["--pool-size", "16mb"]));
    let mut client = server.client();
    check_refusal(&mut client, port, None);
    let value = "v".repeat(60_000);
    let is_taken = |n: &usize| client.call(&["SET", &n.to_string(), &value]).to_string() == "OK";
    let stored = (0..1000).take_while(is_taken).count();
    assert!(stored < 1000, "the pool is full");
    check_refusal(&mut client, port, Some("the store is full"));
    for n in 0..stored {
        client.call(&["DEL", &n.to_string()]);
    }
    client.check("SET k v", "OK");
    while !client.info("persistence")["writes_refused"].is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
    check_refusal(&mut client, port, None);
}

#[test]
fn refused_writes_are_shown_whatever_the_reason() {
    let launch = Launch::perdura_volatile().args(["--save", "3600 1000000"]);
    let (server, port) = start(launch.longest_file(16));
    let mut client = server.client();
    check_refusal(&mut client, port, None);
    client.check("CONFIG SET rdbcompression no", "OK");
    client.check(&format!("SET k {}", "v".repeat(60_000)), "OK");
    client.check("BGSAVE", "Background saving started");
    while client.info("persistence")["rdb_last_bgsave_status"] != "err" {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(client.run("SET k w").is_error());
    check_refusal(&mut client, port, Some("stop-writes-on-bgsave-error"));
    client.check("CONFIG SET stop-writes-on-bgsave-error no", "OK");
    check_refusal(&mut client, port, None);
    client.check("CONFIG SET min-replicas-to-write 1", "OK");
    check_refusal(&mut client, port, Some("Not enough good replicas"));
    client.check("CONFIG SET min-replicas-to-write 0", "OK");
    check_refusal(&mut client, port, None);
}

#[test]
fn a_pool_that_was_moved_is_shown_as_refused_writes() {
    let (server, port) = start(Launch::perdura_pmem());
    let mut client = server.client();
    let (here, there) = (server.folder().join("perdura.pool"), server.folder().join("elsewhere"));
    std::fs::rename(&here, &there).expect("a new name");
    while !client.run("SET k v").is_error() {
        std::thread::sleep(Duration::from_millis(10));
    }
    check_refusal(&mut client, port, Some("move it back there"));
    std::fs::rename(&there, &here).expect("the old name");
    while client.run("SET k v").is_error() {
        std::thread::sleep(Duration::from_millis(10));
    }
    check_refusal(&mut client, port, None);
}

#[test]
fn whatever_is_sent_to_the_endpoint_is_answered() {
    let (server, port) = start(Launch::perdura_volatile());
    let check = |request: &[u8], status: u16| {
        let answer = parse(&exchange(port, request));
        assert_eq!(answer.status, status, "{}", answer.head);
        answer
    };
    let page = check(b"GET /metrics HTTP/1.1\r\n\r\n", 200);
    let head = check(b"HEAD /metrics HTTP/1.1\r\n\r\n", 200);
    assert!(head.body.is_empty() && !page.body.is_empty());
    check(b"GET /metrics?a=b HTTP/1.0\r\n\r\n", 200);
    check(b"GET /nothing HTTP/1.1\r\n\r\n", 404);
    let refused = check(b"POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 405);
    assert!(refused.head.contains("Allow: GET, HEAD"), "{}", refused.head);
    check(b"*1\r\n$4\r\nPING\r\n", 400);
    check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400);
    check(b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", 400);
    check(&[b'A'; 8192], 431);
    check(format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100)).as_bytes(), 431);
    // Longer than the endpoint reads: whether the answer arrives does not depend on the server.
    let mut stream = connect(port);
    let _ = stream.write_all(&vec![b'x'; 1 << 20]);
    // A request cut off in the middle, and an empty one.
    let mut stream = connect(port);
    stream.write_all(b"GET /metr").expect("sent");
    stream.shutdown(Shutdown::Write).expect("shut down");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    assert_eq!(parse(&bytes).status, 400);
    drop(connect(port));
    assert_eq!(get(port, "/healthz").status, 200);
    server.client().check("PING", "PONG");
}

#[test]
fn silent_clients_of_the_endpoint_are_bounded_and_disconnected() {
    let (server, port) = start(Launch::perdura_volatile());
    let silent: Vec<TcpStream> = (0..200).map(|_| connect(port)).collect();
    server.client().check("SET k v", "OK");
    // They block no probe, and no scrape.
    assert_eq!(get(port, "/healthz").status, 200);
    assert_eq!(get(port, "/metrics").status, 200);
    // The oldest are closed at once, the others when their time is up: all are answered.
    let answers: Vec<u16> = silent
        .into_iter()
        .map(|mut stream| {
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).expect("an answer");
            parse(&bytes).status
        })
        .collect();
    let number = |of| answers.iter().filter(|status| **status == of).count();
    assert_eq!(number(503) + number(408), 200, "{answers:?}");
    assert!(number(408) <= 16, "{answers:?}");
    assert!(answers[..184].iter().all(|status| *status == 503), "{answers:?}");
}

#[test]
fn without_a_port_there_is_no_endpoint_and_a_taken_one_is_named() {
    let server = Launch::perdura_volatile().start();
    let mut client = server.client();
    client.check("CONFIG GET metrics-port", "[\"metrics-port\", \"0\"]");
    assert!(client.run("CONFIG SET metrics-port 1").is_error());
    let taken = server.port().to_string();
    let folder = Medium::Disk.scratch();
    let pidfile = folder.path().join("pid").display().to_string();
    let check = |arguments: [&str; 4], expect: &str| {
        let launch = Launch::perdura_volatile().args(arguments).args(["--pidfile", &pidfile]);
        let ended = launch.run_to_end();
        assert!(!ended.status.success(), "{}", ended.log);
        assert!(ended.log.contains(expect), "{}", ended.log);
        // No client was served.
        assert!(!Path::new(&pidfile).exists(), "{}", ended.log);
    };
    let expect = format!("Could not create server TCP listening socket 127.0.0.1:{taken}");
    check(["--metrics-port", &taken, "--metrics-bind", "127.0.0.1"], &expect);
    // A port without an address, or with an address that this machine lacks.
    let free = free_port().to_string();
    for bind in ["", "-192.0.2.1"] {
        let expect = format!("metrics-port is {free}, and metrics-bind '{bind}' names no address");
        check(["--metrics-port", &free, "--metrics-bind", bind], &expect);
    }
}

/// A sync is in the histogram; unsynced writes have an age, synced ones have none.
#[test]
fn syncs_have_their_times_and_what_is_not_synced_has_an_age() {
    for (launch, of) in
        [(Launch::perdura_journal("always"), "journal"), (Launch::perdura_aof("always"), "aof")]
    {
        let (server, port) = start(launch);
        let mut client = server.client();
        client.check("SET k v", "OK");
        let all = scrape(port);
        let syncs = all[&format!("perdura_{of}_sync_duration_seconds_count")];
        let seconds = all[&format!("perdura_{of}_sync_duration_seconds_sum")];
        assert!(syncs >= 1.0 && seconds > 0.0, "{of}: {syncs} syncs, {seconds} s");
        assert_eq!(all["perdura_unsynced_age_seconds"], 0.0, "{of}");
        for place in ["dir", "pool"] {
            let left = all.get(&format!("perdura_filesystem_avail_bytes{{of=\"{place}\"}}"));
            let size = all.get(&format!("perdura_filesystem_size_bytes{{of=\"{place}\"}}"));
            assert_eq!(left.is_some(), place == "dir" || of == "journal", "{of}: {place}");
            assert!(left <= size, "{of}: {place}: {left:?} of {size:?}");
        }
        assert_eq!(all["perdura_backup_last_timestamp_seconds"], 0.0, "{of}");
        client.check("SAVE", "OK");
        assert!(scrape(port)["perdura_backup_last_timestamp_seconds"] > 1e9, "{of}");
    }
    for launch in [Launch::perdura_journal("no"), Launch::perdura_aof("no")] {
        let (server, port) = start(launch);
        server.client().check("SET k v", "OK");
        let begin = std::time::Instant::now();
        while scrape(port)["perdura_unsynced_age_seconds"] == 0.0 {
            assert!(begin.elapsed() < Duration::from_secs(20), "what was written has no age");
        }
    }
    let (_server, port) = start(Launch::perdura_pmem());
    assert!(!scrape(port).contains_key("perdura_unsynced_age_seconds"), "domain process");
}

/// Waits until a series has a value.
fn wait_for(port: u16, series: &str, expect: f64) -> Samples {
    for _ in 0..2000 {
        let all = scrape(port);
        if all.get(series) == Some(&expect) {
            return all;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{series} is not {expect} in {:#?}", scrape(port));
}

#[test]
fn replication_is_shown_on_both_sides() {
    let options = ["--min-replicas-to-write", "1", "--repl-ping-replica-period", "3600"];
    let (primary, of_primary) = start(Launch::perdura_volatile().args(options));
    let all = scrape(of_primary);
    assert_eq!(all["perdura_instance_info{role=\"master\"}"], 1.0);
    let names = [
        "perdura_connected_slaves",
        "perdura_min_slaves_good_slaves",
        "perdura_repl_backlog_is_active",
    ];
    assert_eq!(names.map(|name| all[name]), [0.0; 3]);
    assert!(!all.keys().any(|series| series.starts_with("perdura_master_link")), "{all:#?}");
    let (replica, of_replica) = start(Launch::perdura_volatile());
    let mut client = replica.client();
    client.check(&format!("REPLICAOF 127.0.0.1 {}", primary.port()), "OK");
    wait_for(of_primary, "perdura_min_slaves_good_slaves", 1.0);
    let mut writer = primary.client();
    // Writes are taken a moment after the replica counts.
    while writer.run("SET k v").is_error() {
        std::thread::sleep(Duration::from_millis(10));
    }
    writer.check("WAIT 1 0", "(integer) 1");
    let labels = format!(
        "{{slave_ip=\"127.0.0.1\",slave_port=\"{}\",slave_state=\"online\"}}",
        replica.port()
    );
    let all = wait_for(of_primary, &format!("perdura_connected_slave_lag_bytes{labels}"), 0.0);
    let info = writer.info("replication");
    let offset: f64 = info["master_repl_offset"].parse().expect("a number");
    assert_eq!(info["min_slaves_good_slaves"], "1");
    assert_eq!(all[&format!("perdura_connected_slave_offset_bytes{labels}")], offset);
    assert!(all[&format!("perdura_connected_slave_lag_seconds{labels}")] <= 10.0);
    for (series, expect) in [
        ("perdura_connected_slaves", 1.0),
        ("perdura_min_slaves_to_write", 1.0),
        ("perdura_master_repl_offset", offset),
        ("perdura_repl_backlog_is_active", 1.0),
        ("perdura_repl_backlog_history_bytes", offset),
        ("perdura_replication_backlog_bytes", f64::from(64 << 20)),
        ("perdura_replica_resyncs_full_total", 1.0),
        ("perdura_replica_partial_resync_accepted_total", 0.0),
        ("perdura_replica_partial_resync_denied_total", 0.0),
    ] {
        assert_eq!(all[series], expect, "{series}");
    }
    let all = wait_for(of_replica, "perdura_slave_repl_offset", offset);
    assert_eq!(get(of_replica, "/readyz").status, 200, "it serves reads");
    let up = format!(
        "perdura_master_link_up{{master_host=\"127.0.0.1\",master_port=\"{}\"}}",
        primary.port()
    );
    for (series, expect) in [
        ("perdura_instance_info{role=\"slave\"}", 1.0),
        (&*up, 1.0),
        ("perdura_master_link_down_since_seconds", 0.0),
        ("perdura_master_sync_in_progress", 0.0),
        ("perdura_slave_behind_bytes", 0.0),
        ("perdura_writes_refused", 0.0),
    ] {
        assert_eq!(all[series], expect, "{series}");
    }
    assert!(all["perdura_master_last_io_seconds_ago"] >= 0.0);
    // One that says no port, and the same once more, are two replicas at one address.
    let mut others = [primary.port(); 2].map(connect);
    for other in &mut others {
        other.write_all(b"SYNC\r\n").expect("sent");
    }
    wait_for(of_primary, "perdura_connected_slaves", 3.0);
    drop((writer, others, primary));
    let all = wait_for(of_replica, &up, 0.0);
    assert!(all["perdura_master_link_down_since_seconds"] >= 0.0);
    assert_eq!(all["perdura_master_last_io_seconds_ago"], -1.0);
    client.check("REPLICAOF NO ONE", "OK");
    assert_eq!(scrape(of_replica)["perdura_instance_info{role=\"master\"}"], 1.0);
}
