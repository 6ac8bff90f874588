//! The work of an administrator: clients, slow log, latency, monitoring, logs, the end.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};
use testkit::{Client, Launch, Server};

pub(crate) fn start(arguments: &[&str]) -> Server {
    Launch::perdura_volatile().args(arguments.iter().copied()).start()
}

pub(crate) fn error(client: &mut Client, line: &str, text: &str) {
    client.check(line, &format!("(error) {text}"));
}

/// Returns a field of a line of CLIENT LIST.
pub(crate) fn field(line: &str, name: &str) -> String {
    let start = format!("{name}=");
    let found = line.split(' ').find_map(|word| word.strip_prefix(&start));
    found.unwrap_or_else(|| panic!("no {name} in {line}")).to_owned()
}

#[track_caller]
fn wait_for_field(client: &mut Client, name: &str, value: &str) {
    let begin = Instant::now();
    while client.info("clients")[name] != value {
        assert!(begin.elapsed() < Duration::from_secs(20), "{name} never became {value}");
    }
}

#[test]
fn clients_are_listed_named_and_killed() {
    let server = start(&[]);
    let (mut one, mut two) = (server.client(), server.client());
    one.check("CLIENT SETNAME first", "OK");
    one.check("CLIENT GETNAME", "\"first\"");
    error(
        &mut one,
        "CLIENT SETNAME \"a b\"",
        "ERR Client names cannot contain spaces, newlines or special characters.",
    );
    two.check("SELECT 3", "OK");
    let ids = [&mut one, &mut two].map(|client| client.run("CLIENT ID").int().expect("an id"));
    let list = one.run(&format!("CLIENT LIST ID {} {}", ids[0], ids[1])).text();
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 2, "{list}");
    assert!(one.run("CLIENT LIST").text().lines().count() >= 2);
    assert_eq!(field(lines[0], "name"), "first");
    assert_eq!(field(lines[0], "cmd"), "client|list");
    assert_eq!(field(lines[1], "db"), "3");
    let (id, addr) = (field(lines[1], "id"), field(lines[1], "addr"));
    assert_eq!(two.run("CLIENT ID").int(), id.parse().ok());
    error(&mut one, "CLIENT KILL 1.2.3.4:5", "ERR No such client");
    one.check(&format!("CLIENT KILL ID 99 ADDR {addr}"), "(integer) 0");
    one.check(&format!("CLIENT KILL ADDR {addr}"), "(integer) 1");
    assert!(two.try_call(&["PING"]).is_err(), "a killed client is gone");
    one.check(&format!("CLIENT KILL SKIPME no ID {}", ids[0]), "(integer) 1");
    assert!(one.try_call(&["PING"]).is_err(), "it killed itself after its reply");
}

#[test]
fn a_pause_holds_writes_back() {
    let server = start(&[]);
    let (mut one, mut two) = (server.client(), server.client());
    one.check("CLIENT PAUSE 100000 WRITE", "OK");
    two.check("GET k", "(nil)");
    two.send(&["SET", "k", "v"]).expect("sent");
    two.set_patience(Duration::from_millis(200)).expect("set");
    assert!(two.receive().is_err(), "the write waits");
    one.check("GET k", "(nil)");
    one.check("CLIENT UNPAUSE", "OK");
    two.set_patience(Duration::from_secs(20)).expect("set");
    assert_eq!(two.receive().expect("a reply").text(), "OK");
    one.check("GET k", "\"v\"");
    one.check("CLIENT PAUSE 50", "OK");
    one.check("GET k", "\"v\"");
}

/// As in Redis: its command is not executed when the pause ends.
#[test]
fn a_client_that_goes_during_a_pause_is_noticed() {
    let server = start(&[]);
    let mut one = server.client();
    one.check("CLIENT PAUSE 600000 WRITE", "OK");
    for closes_all in [true, false] {
        let mut other = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
        other.write_all(b"SET k v\r\n").expect("sent");
        wait_for_field(&mut one, "blocked_clients", "1");
        if !closes_all {
            other.shutdown(Shutdown::Write).expect("half of it closed");
            other.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
            assert_eq!(other.read(&mut [0; 8]).expect("the server closes it"), 0);
        }
        drop(other);
        wait_for_field(&mut one, "connected_clients", "1");
    }
    one.check("CLIENT UNPAUSE", "OK");
    one.check("GET k", "(nil)");
}

/// It waits for longer than the time after which it is looked at.
#[test]
fn a_client_that_stays_is_served_when_a_pause_ends() {
    let server = start(&[]);
    let (mut one, mut other) = (server.client(), server.client());
    one.check("CLIENT PAUSE 2500 WRITE", "OK");
    let begin = Instant::now();
    other.check("SET k v", "OK");
    assert!(begin.elapsed() > Duration::from_secs(2), "{:?}", begin.elapsed());
}

#[test]
fn what_is_no_command_does_not_wait_for_the_end_of_a_pause() {
    let server = start(&[]);
    let mut other = server.client();
    server.client().check("CLIENT PAUSE 600000 ALL", "OK");
    let refused = other.run("NOSUCH");
    assert!(refused.text().starts_with("ERR unknown command 'NOSUCH'"), "{refused}");
    other.send_raw(b"POST / HTTP/1.1\r\n").expect("sent");
    assert_eq!(other.receive().expect_err("closed").kind(), std::io::ErrorKind::UnexpectedEof);
}

/// Data that would go to a replica waits with the writes, even if it is no write.
#[test]
fn a_pause_of_writes_holds_back_messages_too() {
    let server = start(&[]);
    let (mut one, mut queueing) = (server.client(), server.client());
    queueing.check("MULTI", "OK");
    queueing.check("PUBLISH a b", "QUEUED");
    one.check("CLIENT PAUSE 100000 WRITE", "OK");
    queueing.send(&["EXEC"]).expect("sent");
    let [mut publish, mut shard, mut count] =
        [&["PUBLISH", "a", "b"][..], &["SPUBLISH", "a", "b"], &["PFCOUNT", "k"]].map(|words| {
            let mut client = server.client();
            client.send(words).expect("sent");
            client
        });
    wait_for_field(&mut one, "blocked_clients", "4");
    one.check("CLIENT UNPAUSE", "OK");
    for client in [&mut publish, &mut shard, &mut count] {
        assert_eq!(client.receive().expect("a reply").int(), Some(0));
    }
    assert_eq!(queueing.receive().expect("a reply").to_string(), "[(integer) 0]");
}

#[test]
fn replies_can_be_switched_off() {
    let server = start(&[]);
    let mut client = server.client();
    let lines = [
        "CLIENT REPLY SKIP",
        "SET a 1",
        "GET a",
        "CLIENT REPLY OFF",
        "SET a 2",
        "CLIENT REPLY ON",
        "GET a",
    ];
    for line in lines {
        client.send(&line.split(' ').collect::<Vec<_>>()).expect("sent");
    }
    let replies: Vec<String> = (0..3).map(|_| client.receive().expect("a reply").text()).collect();
    assert_eq!(replies, ["1", "OK", "2"]);
}

#[test]
fn a_monitor_sees_commands_and_no_passwords() {
    let server = start(&[]);
    let (mut monitor, mut client) = (server.client(), server.client());
    monitor.check("MONITOR", "OK");
    client.check("SELECT 2", "OK");
    client.check("SET k \"a\\nb\"", "OK");
    client.run("AUTH secret");
    client.check("CONFIG SET requirepass secret", "OK");
    client.check("PING", "PONG");
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line: &String| !line.contains("PING")) {
        lines.push(monitor.receive().expect("a line").text());
    }
    let all = lines.join("\n");
    assert!(
        lines[1].contains("[2 127.0.0.1:") && lines[1].ends_with("\"SET\" \"k\" \"a\\nb\""),
        "{all}"
    );
    assert!(!all.contains("secret"), "{all}");
}

#[test]
fn slow_commands_are_logged() {
    let server = start(&["--slowlog-log-slower-than", "0", "--slowlog-max-len", "3"]);
    let mut client = server.client();
    client.check("SLOWLOG RESET", "OK");
    client.check("SET k v", "OK");
    client.check("GET k", "\"v\"");
    let log = client.run("SLOWLOG GET");
    let words = |entry: usize| log.items()[entry].items()[3].items()[0].text();
    assert_eq!((words(0), words(1)), ("GET".into(), "SET".into()));
    client.check("SLOWLOG LEN", "(integer) 3");
    for count in ["-2", "abc"] {
        let refused = "(error) ERR count should be greater than or equal to -1";
        client.check(&format!("SLOWLOG GET {count}"), refused);
    }
    client.check("CONFIG SET slowlog-log-slower-than -1", "OK");
    client.check("SLOWLOG RESET", "OK");
    client.check("SLOWLOG LEN", "(integer) 0");
}

#[test]
fn slow_expiry_and_eviction_are_events() {
    const KEYS: usize = 50_000;
    let server = start(&["--latency-monitor-threshold", "1", "--enable-debug-command", "yes"]);
    let mut client = server.client();
    let fill = |client: &mut Client, more: &[&str]| {
        let keys: Vec<String> = (0..KEYS).map(|i| format!("key:{i}")).collect();
        let requests: Vec<Vec<&[u8]>> = keys
            .iter()
            .map(|key| [&["SET", key, "value"], more].concat())
            .map(|words| words.into_iter().map(str::as_bytes).collect())
            .collect();
        client.pipeline(&requests).expect("replies");
    };
    client.check("DEBUG SET-ACTIVE-EXPIRE 0", "OK");
    fill(&mut client, &["PX", "1"]);
    client.check("DEBUG SET-ACTIVE-EXPIRE 1", "OK");
    while client.run("DBSIZE").to_string() != "(integer) 0" {
        std::thread::sleep(Duration::from_millis(10));
    }
    fill(&mut client, &[]);
    client.check("CONFIG SET maxmemory-policy allkeys-random", "OK");
    client.check("CONFIG SET maxmemory 1", "OK");
    while client.run("DBSIZE").to_string() != "(integer) 0" {
        std::thread::sleep(Duration::from_millis(10));
    }
    let events = client.run("LATENCY LATEST").to_string();
    for event in ["expire-cycle", "eviction-cycle"] {
        assert!(events.contains(event), "{event}: {events}");
    }
}

#[test]
fn latency_is_kept() {
    let server = start(&["--latency-monitor-threshold", "10", "--enable-debug-command", "yes"]);
    let mut client = server.client();
    client.check("DEBUG SLEEP 0.05", "OK");
    let latest = client.run("LATENCY LATEST");
    // A stall within a fast command is an event of its own.
    let command = latest.items().iter().find(|event| event.items()[0].text() == "command");
    assert!(command.expect("the event").items()[3].int() >= Some(50));
    assert!(client.run("LATENCY GRAPH command").text().contains("all time high"));
    assert!(client.run("LATENCY DOCTOR").text().starts_with("Dave, I have observed"));
    client.check("LATENCY RESET command", "(integer) 1");
    client.check("SET k v", "OK");
    let histogram = client.run("LATENCY HISTOGRAM set");
    assert_eq!(histogram.items()[0].text(), "set");
    let stats = client.info("latencystats");
    assert!(stats["latency_percentiles_usec_set"].starts_with("p50="), "{stats:?}");
}

#[test]
fn debugging_is_off_unless_allowed() {
    let server = start(&[]);
    let text = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, otherwise you need to set this option in the configuration file, and then restart the server.";
    error(&mut server.client(), "DEBUG SLEEP 0", text);

    let server = start(&["--enable-debug-command", "local"]);
    let mut client = server.client();
    client.check("DEBUG POPULATE 1000 k 20", "OK");
    client.check("DBSIZE", "(integer) 1000");
    client.check("STRLEN k:7", "(integer) 20");
    let digest = client.run("DEBUG DIGEST").text();
    client.check("SET k:7 x", "OK");
    assert_ne!(client.run("DEBUG DIGEST").text(), digest);
    client.check("DEBUG PROTOCOL array", "[(integer) 0, (integer) 1, (integer) 2]");
    error(&mut client, "DEBUG LOADAOF", "ERR there is no append only file to load");
    client.check("DEBUG SET-ACTIVE-EXPIRE 0", "OK");
    client.check("SET gone v PX 1", "OK");
    std::thread::sleep(Duration::from_millis(400));
    client.check("DBSIZE", "(integer) 1001");
    client.check("DEBUG SET-ACTIVE-EXPIRE 1", "OK");
    let begin = Instant::now();
    while client.run("DBSIZE").int() != Some(1000) {
        assert!(begin.elapsed() < Duration::from_secs(20), "what has expired stays");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn information_has_its_sections() {
    let server = start(&[]);
    let mut client = server.client();
    client.check("SET k v", "OK");
    client.run("NOSUCH");
    assert_eq!(client.info("server")["redis_version"], "7.0.15");
    assert_ne!(client.info("clients")["connected_clients"], "0");
    assert_eq!(client.info("keyspace")["db0"], "keys=1,expires=0,avg_ttl=0");
    assert_eq!(client.info("errorstats")["errorstat_ERR"], "count=1");
    assert!(client.info("commandstats")["cmdstat_set"].starts_with("calls=1,usec="));
    assert_eq!(client.info("persistence")["backend"], "volatile");
    assert_eq!(
        client.info("persistence")["durability"],
        "only what was saved in an RDB file survives the end of the process"
    );
    assert!(!client.info("").contains_key("cmdstat_set"));
    assert!(client.info("everything").contains_key("cmdstat_set"));
    client.check("CONFIG RESETSTAT", "OK");
    assert!(!client.info("commandstats").contains_key("cmdstat_set"));
}

#[test]
fn what_does_not_exist_is_refused_by_name() {
    let server = start(&[]);
    let mut client = server.client();
    for (line, start) in [
        ("SHUTDOWN ABORT", "ERR No shutdown in progress."),
        ("CONFIG SET appendonly maybe", "ERR CONFIG SET failed"),
    ] {
        let reply = client.run(line).text();
        assert!(reply.contains(start), "{line}: {reply}");
    }
    client.check("ROLE", "[\"master\", (integer) 0, []]");
}

#[test]
fn shutdown_ends_the_server_without_a_reply() {
    let mut server = Launch::perdura_pmem().start();
    let mut client = server.client();
    client.check("SET k v", "OK");
    assert!(client.try_call(&["SHUTDOWN", "NOSAVE"]).is_err());
    assert!(server.wait().success());
    server.start_again();
    let mut client = server.client();
    client.check("GET k", "\"v\"");
    assert_eq!(client.info("persistence")["recovery_clean"], "1");
}

#[test]
fn there_are_as_many_databases_as_asked_for() {
    let server = start(&["--databases", "4"]);
    let mut client = server.client();
    client.check("SELECT 3", "OK");
    error(&mut client, "SELECT 4", "ERR DB index is out of range");
    error(&mut client, "SWAPDB 0 4", "ERR DB index is out of range");
    client.check("SET k v", "OK");
    error(&mut client, "MOVE k 4", "ERR DB index is out of range");
    let refused = Launch::perdura_volatile().args(["--databases", "0"]).run_to_end();
    assert!(refused.log.contains("argument must be between 1 and 2147483647"), "{}", refused.log);
}

#[test]
fn a_start_that_asks_for_more_databases_than_a_store_has_is_refused_with_the_reason() {
    let refused = Launch::perdura_volatile().args(["--databases", "17"]).run_to_end();
    let why = "databases 17: a store has 16 databases, since the format of pools";
    assert!(refused.log.contains(why), "{}", refused.log);
    start(&["--databases", "16"]).client().check("SELECT 15", "OK");
}

#[test]
fn a_killed_server_goes_on_with_its_pool() {
    let mut server = Launch::perdura_emulated().start();
    server.client().check("SET k v", "OK");
    server.crash();
    let mut client = server.client();
    client.check("GET k", "\"v\"");
    let facts = client.info("persistence");
    assert_eq!(facts["recovery_clean"], "0");
    assert_eq!(facts["durability"], "emulated: survives a process crash only");
}

/// A value that is long enough for the read cache.
fn long(byte: &str) -> String {
    byte.repeat(1000)
}

#[test]
fn a_read_cache_is_sized_and_counted() {
    let mut server = Launch::perdura_emulated().args(["--read-cache", "4mb"]).start();
    let mut client = server.client();
    client.check("CONFIG GET read-cache", "[\"read-cache\", \"4194304\"]");
    client.check(&format!("SET k {}", long("a")), "OK");
    for _ in 0..3 {
        client.check("GET k", &format!("\"{}\"", long("a")));
    }
    let facts = client.info("stats");
    assert_eq!(facts["read_cache_size"], "4194304");
    assert_eq!(
        (facts["read_cache_hits"].as_str(), facts["read_cache_misses"].as_str()),
        ("2", "1")
    );
    assert_eq!(
        (facts["read_cache_entries"].as_str(), facts["read_cache_bytes"].as_str()),
        ("1", "1096")
    );
    client.check(&format!("SET k {}", long("b")), "OK");
    client.check("GET k", &format!("\"{}\"", long("b")));
    client.check("CONFIG RESETSTAT", "OK");
    assert_eq!(client.info("stats")["read_cache_misses"], "0");
    // A transaction that holds every shard also changes the size.
    client.check("MULTI", "OK");
    client.check("CONFIG SET read-cache 0", "QUEUED");
    client.check("DBSIZE", "QUEUED");
    client.check("EXEC", "[OK, (integer) 1]");
    let facts = client.info("stats");
    assert_eq!(
        (facts["read_cache_size"].as_str(), facts["read_cache_entries"].as_str()),
        ("0", "0")
    );
    client.check("CONFIG SET read-cache 256mb", "OK");
    client.check("GET k", &format!("\"{}\"", long("b")));
    server.crash();
    let mut client = server.client();
    client.check("GET k", &format!("\"{}\"", long("b")));
    assert_eq!(client.info("stats")["read_cache_misses"], "1");
}

#[test]
fn without_a_pool_there_is_nothing_to_cache() {
    let server = start(&["--read-cache", "1mb"]);
    let mut client = server.client();
    client.check("CONFIG GET read-cache", "[\"read-cache\", \"0\"]");
    error(
        &mut client,
        "CONFIG SET read-cache 1mb",
        "ERR CONFIG SET failed (possibly related to argument 'read-cache') - a read cache is DRAM in front of persistent memory, and here all data is in DRAM",
    );
    client.check("CONFIG SET read-cache 0", "OK");
}

#[test]
#[cfg(not(feature = "emulate-media"))]
fn a_build_that_plays_no_media_says_how_to_make_one() {
    let refused = Launch::perdura_emulated().args(["--emulate-media", "optane"]).run_to_end();
    let how = "cargo build --release -p perdura-server --features emulate-media";
    assert!(refused.log.contains(how), "{}", refused.log);
}

#[test]
fn a_pool_answers_what_is_asked_of_an_append_only_file() {
    let server = Launch::perdura_pmem().args(["--enable-debug-command", "yes"]).start();
    let mut client = server.client();
    client.check("SET k v EX 1000", "OK");
    error(
        &mut client,
        "CONFIG SET appendonly yes",
        "ERR CONFIG SET failed (possibly related to argument 'appendonly') - a pool is durable by \
         itself and has no append only file; start with --backend aof for a store that has one",
    );
    client.check("CONFIG SET appendonly no", "OK");
    client.check("CONFIG GET appendonly", "[\"appendonly\", \"no\"]");
    let text = "The pool is durable by itself: there is no append only file to rewrite";
    client.check("BGREWRITEAOF", text);
    for line in ["DEBUG LOADAOF", "DEBUG RELOAD"] {
        client.check(line, "OK");
        client.check("GET k", "\"v\"");
        assert!(client.run("TTL k").int() > Some(900));
    }
    assert_eq!(client.info("persistence")["aof_enabled"], "0");
}

#[test]
fn writes_that_would_reach_too_few_replicas_are_refused() {
    let server = start(&[]);
    let (mut client, mut other) = (server.client(), server.client());
    let text = "NOREPLICAS Not enough good replicas to write.";
    client.check("SET k 1", "OK");
    client.check("MULTI", "OK");
    client.check("INCR k", "QUEUED");
    other.check("CONFIG SET min-replicas-to-write 2", "OK");
    error(
        &mut client,
        "EXEC",
        "EXECABORT Transaction discarded because of: NOREPLICAS Not enough good replicas to write.",
    );
    error(&mut client, "SET k 2", text);
    client.check("GET k", "\"1\"");
    client.check("CONFIG SET min-replicas-max-lag 0", "OK");
    client.check("SET k 2", "OK");
    client.check("CONFIG SET min-replicas-max-lag 10 min-replicas-to-write 0", "OK");
    client.check("SET k 3", "OK");
}

#[test]
fn an_append_only_file_is_switched_off_and_on_while_serving() {
    let mut server = Launch::perdura_aof("always").start();
    let mut client = server.client();
    client.check("SET kept 1", "OK");
    client.check("CONFIG SET appendonly no", "OK");
    client.check("CONFIG GET appendonly", "[\"appendonly\", \"no\"]");
    assert_eq!(client.info("persistence")["aof_enabled"], "0");
    assert!(client.info("persistence")["durability"].starts_with("nothing that was written since"));
    client.check("SET lost 1", "OK");
    server.kill();
    server.start_again();

    let mut client = server.client();
    client.check("MGET kept lost", "[\"1\", (nil)]");
    client.check("CONFIG SET appendonly no", "OK");
    client.check("SET between 2", "OK");
    client.check("CONFIG SET appendonly yes", "OK");
    let is_whole = |client: &mut Client| {
        client.info("persistence")["durability"].starts_with("a write is synced")
    };
    while !is_whole(&mut client) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(client.info("persistence")["aof_enabled"], "1");
    client.check("SET later 3", "OK");
    server.kill();
    server.start_again();
    server.client().check("MGET kept between later", "[\"1\", \"2\", \"3\"]");
}

#[test]
fn what_a_client_wrote_is_synced_when_it_asks_for_it() {
    let server = Launch::perdura_aof("no").start();
    let mut client = server.client();
    let syncs = |client: &mut Client| client.info("persistence")["aof_syncs"].parse::<u64>();
    client.check("SET k v", "OK");
    let before = syncs(&mut client).expect("a number");
    client.check("WAITAOF 1 0 0", "[(integer) 1, (integer) 0]");
    assert_eq!(syncs(&mut client), Ok(before + 1));
    client.check("WAITAOF 1 0 0", "[(integer) 1, (integer) 0]");
    assert_eq!(syncs(&mut client), Ok(before + 1));
    client.check("CONFIG SET appendonly no", "OK");
    let off = "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
    error(&mut client, "WAITAOF 1 0 0", off);
}

#[test]
fn scripts_forge_no_line_of_info_or_of_the_log_and_secrets_are_not_shown() {
    let server = Launch::perdura_volatile().start();
    let mut client = server.client();
    let forged = "return redis.error_reply('MY\\r\\nused_memory:1 x')";
    assert!(client.call(&["EVAL", forged, "0"]).is_error());
    let info = client.run("INFO everything").text();
    assert!(!info.lines().any(|line| line == "used_memory:1"), "{info}");
    let log = "redis.log(redis.LOG_WARNING, 'one\\n1:M forged')";
    client.call(&["EVAL", log, "0"]);
    assert!(server.log().contains("one\\n1:M forged"), "{}", server.log());
    client.check("CONFIG SET slowlog-log-slower-than 0", "OK");
    for name in ["tls-key-file-pass", "TLS-client-key-file-pass"] {
        let _ = client.call(&["CONFIG", "SET", name, "hidden-word"]);
    }
    let shown = client.run("SLOWLOG GET 10").to_string();
    assert!(shown.contains("(redacted)") && !shown.contains("hidden-word"), "{shown}");
}
