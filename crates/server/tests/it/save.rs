//! SAVE, BGSAVE and save points: redis-server can read the dumps, and a failed save leaves the
//! previous dump.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::{Client, Launch, Server};

use crate::administration::error;

const YEAR_2100: &str = "4102444800000";

/// Makes keys of every type in every encoding, in two databases, and a library of functions.
pub(crate) fn populate(client: &mut Client) {
    let mut lines: Vec<Vec<String>> = Vec::new();
    let mut add = |words: &[&str]| lines.push(words.iter().map(|w| (*w).to_owned()).collect());
    add(&["SET", "int", "12345"]);
    add(&["SET", "negative", "-9223372036854775808"]);
    add(&["SET", "text", "hello"]);
    add(&["SET", "empty", ""]);
    add(&["SET", "repeated", &"abc".repeat(5000)]);
    add(&["SET", "timed", "x", "PXAT", YEAR_2100]);
    add(&["SETRANGE", "sparse", "100000", "end"]);
    add(&["RPUSH", "list", "a", "1", "-5", "c"]);
    add(&["RPUSH", "plain-element", &"y".repeat(100_000), "z"]);
    add(&["SADD", "intset", "3", "1", "2", "-70000", "9000000000"]);
    add(&["SADD", "set", "a", "b", "1"]);
    add(&["HSET", "hash", "f", "v", "n", "7"]);
    add(&["HSET", "hash-long", "f", &"w".repeat(100)]);
    add(&["ZADD", "zset", "1", "a", "2.5", "b", "-inf", "c", "inf", "d"]);
    add(&["ZADD", "zset-long", "1", &"m".repeat(100), "0.1", "n"]);
    add(&["PFADD", "hll", "a", "b", "c"]);
    add(&["GEOADD", "geo", "13.361389", "38.115556", "Palermo"]);
    for n in 0..300 {
        let (n, text) = (n.to_string(), format!("member-{n}"));
        add(&["HSET", "hash-table", &text, &n]);
        add(&["SADD", "set-table", &text]);
        add(&["ZADD", "skiplist", &n, &text]);
        add(&["RPUSH", "quicklist", &format!("{text}-{}", "x".repeat(100))]);
        add(&["XADD", "stream", &format!("1-{}", n.parse::<u32>().unwrap_or(0) + 1), &text, &n]);
    }
    add(&["XDEL", "stream", "1-7", "1-300"]);
    add(&["XGROUP", "CREATE", "stream", "group", "0"]);
    add(&["XGROUP", "CREATE", "stream", "idle", "$", "ENTRIESREAD", "5"]);
    add(&["XADD", "stream-empty", "5-5", "a", "b"]);
    add(&["XTRIM", "stream-empty", "MAXLEN", "0"]);
    add(&["PEXPIREAT", "hash-table", YEAR_2100]);
    add(&["SELECT", "3"]);
    add(&["SET", "elsewhere", "1"]);
    add(&["SELECT", "0"]);
    add(&[
        "FUNCTION",
        "LOAD",
        "#!lua name=lib\nredis.register_function('f', function() return 7 end)",
    ]);
    for reply in client.pipeline(&lines).expect("replies") {
        assert!(!reply.is_error(), "{reply}");
    }
    client.run("XREADGROUP GROUP group alice COUNT 5 STREAMS stream >");
    client.run("XREADGROUP GROUP group bob COUNT 3 STREAMS stream >");
}

/// Makes collections that are not kept in memory while they are written.
pub(crate) fn populate_large(client: &mut Client) {
    let mut lines = Vec::new();
    for n in 1..=200_u64 {
        for (command, key) in
            [("RPUSH", "big-list"), ("SADD", "big-set"), ("HSET", "big-hash"), ("ZADD", "big-zset")]
        {
            let mut words = vec![command.to_owned(), key.to_owned()];
            for m in 0..50_u64 {
                let number = n * 50 + m;
                // A megabyte that does not compress well, and more.
                let text = format!(
                    "{number}-{:x}",
                    (number + 3).wrapping_mul(2_654_435_761) % 982_451_653
                );
                match command {
                    "HSET" => words.extend([text.clone(), text.repeat(12)]),
                    "ZADD" => words.extend([number.to_string(), text.repeat(8)]),
                    _ => words.push(text.repeat(12)),
                }
            }
            lines.push(words);
        }
        let (at, value) = (format!("{n}-1"), "value".repeat(300));
        let words = ["XADD", "big-stream", &at, "field", &value, &n.to_string(), "x"];
        lines.push(words.map(String::from).to_vec());
        lines.push(
            ["XADD", "big-stream", &format!("{n}-2"), "n", &n.to_string()]
                .map(String::from)
                .to_vec(),
        );
    }
    lines.push(["PEXPIREAT", "big-list", YEAR_2100].map(String::from).to_vec());
    for reply in client.pipeline(&lines).expect("replies") {
        assert!(!reply.is_error(), "{reply}");
    }
}

/// Returns the signature of all data, with consumer groups if the server's signature covers them.
pub(crate) fn digest(client: &mut Client) -> String {
    let full = client.run("DEBUG DIGEST FULL");
    if full.is_error() { client.run("DEBUG DIGEST").text() } else { full.text() }
}

fn dump(server: &Server) -> Vec<u8> {
    fs::read(server.folder().join("dump.rdb")).expect("a dump")
}

/// Returns what redis-check-rdb says of a file, which it must accept.
pub(crate) fn check_rdb(path: &Path) -> String {
    let output = Command::new("redis-check-rdb").arg(path).output().expect("redis-check-rdb");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("RDB looks OK!"), "{text}");
    text
}

/// Returns a redis-server that has loaded the dump of another server.
pub(crate) fn redis_with_dump_of(server: &Server) -> Server {
    let mut redis = Launch::redis().start();
    redis.kill();
    let copied = fs::copy(server.folder().join("dump.rdb"), redis.folder().join("dump.rdb"));
    copied.expect("a copy");
    redis.start_again();
    redis
}

/// Waits for a line of the log, which comes after the fields of INFO that say the same.
fn wait_for_line(server: &Server, line: &str) {
    for _ in 0..6000 {
        if server.log().contains(line) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the log has no line {line:?}:\n{}", server.log());
}

/// Waits until a field of INFO persistence has this value.
pub(crate) fn wait_for(client: &mut Client, field: &str, value: &str) {
    let began = Instant::now();
    loop {
        let found = client.info("persistence").remove(field).unwrap_or_default();
        if found == value {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{field} is {found}, not {value}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn with_debug(launch: Launch) -> Launch {
    launch.args(["--enable-debug-command", "yes"])
}

/// Checks that both servers have the same data: redis-server loads a dump of this one, and the
/// digests are equal.
fn check_saved(launch: Launch) {
    let server = with_debug(launch).start();
    let mut client = server.client();
    populate(&mut client);
    populate_large(&mut client);
    client.check("SAVE", "OK");
    let original = Launch::redis().start();
    let mut of_original = original.client();
    populate(&mut of_original);
    populate_large(&mut of_original);
    let text = check_rdb(&server.folder().join("dump.rdb"));
    assert!(text.contains("keys read"), "{text}");
    let redis = redis_with_dump_of(&server);
    let mut of_redis = redis.client();
    assert_eq!(digest(&mut of_redis), digest(&mut of_original));
    of_redis.check("FCALL f 0", "(integer) 7");
    of_redis.check("PEXPIRETIME big-list", &format!("(integer) {YEAR_2100}"));
    of_redis.check("XLEN big-stream", "(integer) 400");
    for group in ["XINFO STREAM stream FULL COUNT 0", "XPENDING stream group"] {
        let without_times = |reply: String| {
            let seen = |line: &&str| !line.contains("seen-time") && !line.contains("radix");
            reply.lines().filter(seen).collect::<Vec<_>>().join("\n").len()
        };
        let (here, there) = (client.run(group).text(), of_redis.run(group).text());
        assert_eq!(without_times(here), without_times(there), "{group}");
    }
    let leftovers = fs::read_dir(server.folder()).expect("a directory").filter(|entry| {
        let name = entry.as_ref().expect("an entry").file_name();
        let name = name.to_string_lossy();
        name.starts_with("temp-") || name.starts_with("spool-")
    });
    assert_eq!(leftovers.count(), 0);
}

#[test]
fn redis_reads_what_is_saved_of_memory() {
    check_saved(Launch::perdura_volatile());
}

#[test]
fn redis_reads_what_is_saved_of_a_pool() {
    check_saved(Launch::perdura_pmem());
}

#[test]
fn redis_reads_what_is_saved_next_to_a_log() {
    check_saved(Launch::perdura_aof("everysec"));
}

#[test]
fn bgsave_answers_as_redis_does_and_the_service_goes_on() {
    let server = with_debug(Launch::perdura_volatile()).start();
    let mut client = server.client();
    client.check("DEBUG POPULATE 2000", "OK");
    client.check("CONFIG SET rdb-key-save-delay 10000000", "OK");
    let before = client.run("LASTSAVE").int();
    client.check("BGSAVE", "Background saving started");
    error(&mut client, "BGSAVE", "ERR Background save already in progress");
    error(&mut client, "BGSAVE SCHEDULE", "ERR Background save already in progress");
    error(&mut client, "SAVE", "ERR Background save already in progress");
    error(&mut client, "BGSAVE now", "ERR syntax error");
    client.check("SET k v", "OK");
    let info = client.info("persistence");
    assert_eq!(info["rdb_bgsave_in_progress"], "1");
    assert_eq!(info["current_save_keys_total"], "2000");
    client.check("CONFIG SET rdb-key-save-delay 0", "OK");
    wait_for(&mut client, "rdb_bgsave_in_progress", "0");
    let info = client.info("persistence");
    assert_eq!(info["rdb_last_bgsave_status"], "ok");
    assert_eq!(info["rdb_saves"], "1");
    assert!(client.run("LASTSAVE").int() >= before);
    wait_for_line(&server, "Background saving terminated with success");
    check_rdb(&server.folder().join("dump.rdb"));
    client.check("SAVE", "OK");
    assert_eq!(client.info("persistence")["rdb_changes_since_last_save"], "0");
    client.check("SET k w", "OK");
    assert_eq!(client.info("persistence")["rdb_changes_since_last_save"], "1");
}

#[test]
fn a_save_waits_for_a_rewrite_of_the_log_and_the_other_way_round() {
    let server = with_debug(Launch::perdura_aof("everysec")).start();
    let mut client = server.client();
    client.check("DEBUG POPULATE 3000", "OK");
    client.check("CONFIG SET rdb-key-save-delay 10000000", "OK");
    client.check("BGSAVE", "Background saving started");
    client.check("BGREWRITEAOF", "Background append only file rewriting scheduled");
    assert_eq!(client.info("persistence")["aof_rewrite_scheduled"], "1");
    client.check("CONFIG SET rdb-key-save-delay 0", "OK");
    wait_for(&mut client, "aof_rewrites", "1");
    wait_for(&mut client, "aof_rewrite_in_progress", "0");
    let info = client.info("persistence");
    assert_eq!((&*info["rdb_saves"], &*info["aof_last_bgrewrite_status"]), ("1", "ok"));
}

#[test]
fn save_points_save_and_the_end_of_the_server_too() {
    let launch = Launch::perdura_volatile().args(["--save", "1 3"]);
    let mut server = launch.start();
    let mut client = server.client();
    client.check("CONFIG GET save", "[\"save\", \"1 3\"]");
    for line in ["SET a 1", "SET b 2", "SET c 3"] {
        client.check(line, "OK");
    }
    wait_for(&mut client, "rdb_saves", "1");
    assert!(server.log().contains("3 changes in 1 seconds. Saving..."), "{}", server.log());
    client.check("SET d 4", "OK");
    assert!(server.terminate().success());
    assert!(server.log().contains("DB saved on disk"), "{}", server.log());
    let text = check_rdb(&server.folder().join("dump.rdb"));
    assert!(text.contains("4 keys read"), "{text}");
}

#[test]
fn what_lives_in_memory_only_has_the_save_points_of_redis() {
    let presets = |launch: Launch| launch.start().client().run("CONFIG GET save").to_string();
    let memory = Launch::perdura().args(["--backend", "aof", "--appendonly", "no"]);
    assert_eq!(presets(memory), "[\"save\", \"3600 1 300 100 60 10000\"]");
    assert_eq!(presets(Launch::perdura_aof("no")), "[\"save\", \"\"]");
    assert_eq!(presets(Launch::perdura_pmem()), "[\"save\", \"\"]");
}

#[test]
fn shutdown_saves_if_asked_to() {
    for (line, saves) in [("SHUTDOWN SAVE", true), ("SHUTDOWN", false), ("SHUTDOWN NOSAVE", false)]
    {
        let mut server = Launch::perdura_volatile().start();
        let mut client = server.client();
        client.check("SET k v", "OK");
        assert!(client.try_call(&line.split(' ').collect::<Vec<_>>()).is_err());
        assert!(server.wait().success());
        assert_eq!(server.folder().join("dump.rdb").exists(), saves, "{line}");
    }
    let mut server = Launch::perdura_volatile().args(["--save", "900 1"]).start();
    let mut client = server.client();
    client.check("SET k v", "OK");
    assert!(client.try_call(&["SHUTDOWN", "NOSAVE"]).is_err());
    assert!(server.wait().success());
    assert!(!server.folder().join("dump.rdb").exists());
}

const MISCONF: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.";

/// The disk is full in the middle of a dump.
#[test]
fn a_dump_that_fails_leaves_the_one_before_and_the_service_goes_on() {
    let launch = with_debug(Launch::perdura_volatile()).args(["--save", "3600 1000000"]);
    let server = launch.longest_file(512).start();
    let mut client = server.client();
    client.check("SET k v", "OK");
    client.check("SAVE", "OK");
    let before = dump(&server);
    client.check("DEBUG POPULATE 100000", "OK");
    client.check("BGSAVE", "Background saving started");
    wait_for(&mut client, "rdb_last_bgsave_status", "err");
    assert_eq!(dump(&server), before);
    assert!(!server.folder().join("temp-dump.rdb").exists());
    client.check("GET k", "\"v\"");
    error(&mut client, "SET k w", MISCONF);
    error(&mut client, "PING", MISCONF);
    error(&mut client, "SAVE", "ERR");
    error(&mut client, "SHUTDOWN SAVE", "ERR Errors trying to SHUTDOWN. Check logs.");
    client.check("CONFIG SET stop-writes-on-bgsave-error no", "OK");
    client.check("SET k w", "OK");
    client.check("CONFIG SET stop-writes-on-bgsave-error yes", "OK");
    error(&mut client, "DEL k", MISCONF);
    // Without save points no client relies on dumps.
    client.check("CONFIG SET save \"\"", "OK");
    client.check("SET k x", "OK");
    client.check("CONFIG SET save \"3600 1000000\"", "OK");
    server.lift_limit();
    client.check("SAVE", "OK");
    client.check("SET k y", "OK");
    client.check("PING", "PONG");
    assert!(check_rdb(&server.folder().join("dump.rdb")).contains("100001 keys read"));
}

#[test]
fn a_server_that_cannot_save_at_its_end_goes_on() {
    let launch = with_debug(Launch::perdura_volatile()).args(["--save", "3600 1000000"]);
    let mut server = launch.longest_file(256).start();
    let mut client = server.client();
    client.check("DEBUG POPULATE 100000", "OK");
    let pid = server.pid().to_string();
    let killed = Command::new("kill").args(["-TERM", &pid]).status().expect("kill");
    assert!(killed.success());
    let began = Instant::now();
    while !server.log().contains("can't exit") {
        assert!(began.elapsed() < Duration::from_secs(60), "it does not say so");
        std::thread::sleep(Duration::from_millis(5));
    }
    // The log told who ended it; it does not concern clients.
    assert_eq!(client.info("persistence")["rdb_last_bgsave_status"], "ok");
    client.check("DBSIZE", "(integer) 100000");
    client.check("SET k v", "OK");
    client.check("DEL k", "(integer) 1");
    server.lift_limit();
    assert!(server.terminate().success());
    assert!(check_rdb(&server.folder().join("dump.rdb")).contains("100000 keys read"));
}

#[test]
fn what_cannot_take_the_place_of_the_dump_is_an_error() {
    let server = Launch::perdura_volatile().start();
    let mut client = server.client();
    fs::create_dir(server.folder().join("dump.rdb")).expect("a directory");
    error(&mut client, "SAVE", "ERR");
    assert_eq!(client.info("persistence")["rdb_last_bgsave_status"], "ok");
    assert!(!server.folder().join("temp-dump.rdb").exists());
    // Only a failed background save refuses writes.
    client.check("SET k v", "OK");
    client.check("CONFIG SET dir /nonexistent", "(error) ERR CONFIG SET failed (possibly related to argument 'dir') - can't set protected config");
}

#[test]
fn kill_9_in_the_middle_leaves_the_dump_before() {
    let mut server = with_debug(Launch::perdura_volatile()).start();
    let mut client = server.client();
    client.check("SET k v", "OK");
    client.check("SAVE", "OK");
    let before = dump(&server);
    client.check("DEBUG POPULATE 5000 key 1000", "OK");
    client.check("CONFIG SET rdb-key-save-delay 10000000", "OK");
    client.check("BGSAVE", "Background saving started");
    let began = Instant::now();
    while client.info("persistence")["current_save_keys_processed"] == "0" {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing was written");
        std::thread::sleep(Duration::from_millis(1));
    }
    server.kill();
    assert_eq!(dump(&server), before);
    check_rdb(&server.folder().join("dump.rdb"));
}

#[test]
fn a_server_that_ends_gives_up_a_dump() {
    let mut server = with_debug(Launch::perdura_volatile()).start();
    let mut client = server.client();
    client.check("DEBUG POPULATE 1000", "OK");
    client.check("CONFIG SET rdb-key-save-delay 10000000", "OK");
    client.check("BGSAVE", "Background saving started");
    assert!(server.terminate().success());
    assert!(!server.folder().join("dump.rdb").exists());
    assert!(!server.folder().join("temp-dump.rdb").exists());
}

#[test]
fn how_keys_were_used_is_saved_under_a_policy_that_asks_for_it() {
    for (policy, line) in [("allkeys-lru", "OBJECT IDLETIME k"), ("allkeys-lfu", "OBJECT FREQ k")] {
        let launch = with_debug(Launch::perdura_volatile());
        let server = launch.args(["--maxmemory-policy", policy, "--maxmemory", "1gb"]).start();
        let mut client = server.client();
        client.check("SET v text", "OK");
        let payload = client.call(&["DUMP", "v"]).bytes().expect("a payload").to_vec();
        let option: &[&[u8]] =
            if policy == "allkeys-lru" { &[b"IDLETIME", b"5000"] } else { &[b"FREQ", b"200"] };
        let restore: Vec<&[u8]> = [&[&b"RESTORE"[..], b"k", b"0", &payload], option].concat();
        assert!(!client.call(&restore).is_error());
        client.check("SAVE", "OK");
        let expected = client.run(line).int().expect("a number");
        let mut redis = Launch::redis().args(["--maxmemory-policy", policy]).start();
        redis.kill();
        fs::copy(server.folder().join("dump.rdb"), redis.folder().join("dump.rdb"))
            .expect("copied");
        redis.start_again();
        let found = redis.client().run(line).int().expect("a number");
        assert!((found - expected).abs() <= 15, "{line}: {found}, not {expected}");
    }
}

#[test]
fn a_copy_does_not_keep_the_store_that_it_was_saved_of_from_being_served() {
    let journal = Launch::perdura_journal("everysec");
    for launch in [Launch::perdura_aof("always"), Launch::perdura_pmem(), journal] {
        let mut server = launch.clone().start();
        let mut client = server.client();
        client.check("SET k v", "OK");
        client.check("SAVE", "OK");
        client.check("SET l w", "OK");
        server.crash();
        server.client().check("MGET k l", "[\"v\", \"w\"]");
        server.kill();
        // The copy alone would be data that is not served.
        for name in ["perdura.pool", "appendonlydir"] {
            let path = server.folder().join(name);
            let _ = fs::remove_file(&path);
            let _ = fs::remove_dir_all(&path);
        }
        let ended = launch.run_to_end_in(server.folder());
        assert!(!ended.status.success());
        assert!(ended.log.contains("dump.rdb is data that"), "{}", ended.log);
    }
}

#[test]
fn debug_reload_saves_first() {
    let journal = Launch::perdura_journal("everysec");
    for launch in [Launch::perdura_aof("always"), Launch::perdura_pmem(), journal] {
        let server = with_debug(launch).start();
        let mut client = server.client();
        populate(&mut client);
        let before = digest(&mut client);
        client.check("DEBUG RELOAD NOSAVE", "OK");
        assert!(!server.folder().join("dump.rdb").exists());
        client.check("DEBUG RELOAD", "OK");
        assert_eq!(digest(&mut client), before);
        let redis = redis_with_dump_of(&server);
        redis.client().check("DBSIZE", &client.run("DBSIZE").to_string());
    }
}

/// Writes after the reply to BGSAVE are not in its dump.
#[test]
fn a_dump_has_what_was_there_when_bgsave_was_answered() {
    let server = Launch::perdura_volatile().start();
    let mut client = server.client();
    for _ in 0..20 {
        client.check("MSET a 1 b 2", "OK");
        let both = [vec!["BGSAVE"], vec!["FLUSHDB"]];
        for reply in client.pipeline(&both).expect("replies") {
            assert!(!reply.is_error(), "{reply}");
        }
        wait_for(&mut client, "rdb_bgsave_in_progress", "0");
        let keys = check_rdb(&server.folder().join("dump.rdb"));
        assert!(keys.contains("2 keys read"), "{keys}");
    }
}

#[test]
fn flushall_ends_a_save_in_the_background_and_no_other() {
    let launch = Launch::perdura_pmem().args(["--rdb-key-save-delay", "1000000"]);
    let server = launch.start();
    let mut client = server.client();
    client.run("MSET a 1 b 2 c 3");
    client.run("BGSAVE");
    client.check("FLUSHDB", "OK");
    assert_eq!(client.info("persistence")["rdb_bgsave_in_progress"], "1");
    client.run("SET d 4");
    client.check("FLUSHALL", "OK");
    wait_for(&mut client, "rdb_bgsave_in_progress", "0");
    let info = client.info("persistence");
    assert!(!server.folder().join("dump.rdb").exists());
    assert_eq!((&*info["rdb_last_bgsave_status"], &*info["rdb_saves"]), ("ok", "0"));
    client.run("CONFIG SET rdb-key-save-delay 0");
    client.run("SET e 5");
    client.run("BGSAVE");
    wait_for(&mut client, "rdb_saves", "1");
}

#[test]
fn with_save_points_a_start_does_not_bring_back_what_flushall_deleted() {
    let launch = Launch::perdura_aof("no").args(["--appendonly", "no", "--save", "3600 1000000"]);
    let mut server = launch.start();
    let mut client = server.client();
    client.run("MSET a 1 b 2 c 3");
    client.check("SAVE", "OK");
    client.check("FLUSHALL", "OK");
    wait_for(&mut client, "rdb_saves", "2");
    server.kill();
    server.start_again();
    assert_eq!(server.client().run("DBSIZE").to_string(), "(integer) 0");
}

/// An endless script holds a shard. Taking a snapshot waits for it, and no client waits for that.
#[test]
fn a_snapshot_waits_for_a_script_that_runs_long_and_keeps_nobody_waiting() {
    let save = ("BGSAVE", "rdb_bgsave_in_progress", "rdb_last_bgsave_status");
    let rewrite = ("BGREWRITEAOF", "aof_rewrite_in_progress", "aof_last_bgrewrite_status");
    for (launch, (command, in_progress, status)) in
        [(Launch::perdura_volatile(), save), (Launch::perdura_aof("everysec"), rewrite)]
    {
        let server = launch.args(["--threads", "2", "--busy-reply-threshold", "500"]).start();
        let mut client = server.client();
        client.check("SET k v", "OK");
        let mut of_script = server.client();
        let script = "while true do redis.call('GET', KEYS[1]) end";
        of_script.send(&["EVAL", script, "1", "k"]).expect("sent");
        std::thread::sleep(Duration::from_millis(700));
        assert!(!client.run(command).is_error(), "{command}");
        // Each thread serves some of them, and maintains its shards meanwhile.
        std::thread::sleep(Duration::from_millis(300));
        let mut others: Vec<Client> = (0..8).map(|_| server.client()).collect();
        for (number, other) in others.iter_mut().enumerate() {
            other.check("PING", "PONG");
            let reply = other.run(&format!("SET key-{number} v"));
            assert!(reply.is_ok() || reply.text().starts_with("BUSY"), "{command}: {reply}");
        }
        let reply = client.run("SAVE").text();
        assert!(reply.starts_with("BUSY") || command == "BGSAVE", "{command}: {reply}");
        client.check("SCRIPT KILL", "OK");
        assert!(of_script.receive().expect("a reply").is_error());
        wait_for(&mut client, in_progress, "0");
        assert_eq!(client.info("persistence")[status], "ok", "{command}");
        client.check("SET k w", "OK");
    }
}
