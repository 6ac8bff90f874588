//! The append-only file between Perdura and redis-server, and after a crash.
//!
//! Each loads a directory that the other wrote: every key, value and expiry time must be the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use testkit::{Client, Launch, Reply, Server};

/// Keys with their values and expiry times.
type Contents = BTreeMap<(usize, Vec<u8>), (String, Option<i64>)>;

fn redis() -> Launch {
    let launch = Launch::redis().args(["--appendonly", "yes", "--appendfsync", "always"]);
    launch.args(["--aof-use-rdb-preamble", "no"])
}

fn perdura() -> Launch {
    Launch::perdura_aof("always")
}

fn contents(server: &Server) -> Contents {
    let mut client = server.client();
    let mut contents = Contents::new();
    for database in [0, 3] {
        client.check(&format!("SELECT {database}"), "OK");
        for key in client.run("KEYS *").items() {
            let key = key.bytes().expect("a key");
            let value = client.call(&[b"GET", key]).to_string();
            let expires = client.call(&[b"PEXPIRETIME", key]).int().filter(|at| *at >= 0);
            contents.insert((database, key.to_vec()), (value, expires));
        }
    }
    contents
}

/// Changes strings and keys in various ways.
fn change(client: &mut Client) {
    let binary: Vec<u8> = (0..=255).collect();
    assert!(client.call(&[b"SET", &binary[..], &binary]).is_ok());
    for n in 0..300 {
        client.check(&format!("SET key{n} value{n} PX {}", 10_000_000 + n), "OK");
    }
    client.check("MSET a 1 b 2 c \"three \\r\\n lines\"", "OK");
    client.check("INCRBY a 41", "(integer) 42");
    client.check("INCRBYFLOAT b 0.5", "\"2.5\"");
    client.check("APPEND c more", "(integer) 18");
    client.check("SETRANGE d 5 end", "(integer) 8");
    client.check("PEXPIREAT a 4102444800000", "(integer) 1");
    client.check("DEL key1 key2", "(integer) 2");
    client.check("RENAME key3 renamed", "OK");
    client.check("PERSIST key4", "(integer) 1");
    client.check("GETEX key5 EX 5000000", "\"value5\"");
    client.check("MULTI", "OK");
    client.check("INCR in:exec", "QUEUED");
    client.check("SET other:exec x", "QUEUED");
    client.check("EXEC", "[(integer) 1, OK]");
    client.check("SELECT 3", "OK");
    client.check("SET there value KEEPTTL", "OK");
    client.check("COPY there back DB 0", "(integer) 1");
    client.check("SELECT 0", "OK");
    client.check("MOVE key6 3", "(integer) 1");
    client.check("SET gone soon PX 1", "OK");
    std::thread::sleep(std::time::Duration::from_millis(5));
}

#[track_caller]
fn same_after(server: &mut Server, next: Launch) {
    let before = contents(server);
    assert!(before.len() > 290);
    assert!(server.terminate().success(), "{}", server.log());
    server.start_as(next);
    let after = contents(server);
    for (key, found) in &after {
        assert_eq!(before.get(key), Some(found), "{}", key.1.escape_ascii());
    }
    assert_eq!(before.len(), after.len());
}

fn rewrite(client: &mut Client) {
    let started = client.run("BGREWRITEAOF").text();
    assert!(started.contains("rewriting"), "{started}");
    for _ in 0..600 {
        let info = client.info("persistence");
        if info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0" {
            assert_eq!(info["aof_last_bgrewrite_status"], "ok");
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("the rewrite does not end");
}

#[test]
fn redis_loads_what_perdura_wrote() {
    let mut server = perdura().start();
    change(&mut server.client());
    same_after(&mut server, redis());
}

#[test]
fn redis_loads_what_perdura_rewrote() {
    let mut server = perdura().start();
    let mut client = server.client();
    change(&mut client);
    rewrite(&mut client);
    client.check("SET after rewrite", "OK");
    same_after(&mut server, redis());
}

#[test]
fn perdura_loads_what_redis_wrote() {
    let mut server = redis().start();
    change(&mut server.client());
    same_after(&mut server, perdura());
}

#[test]
fn perdura_loads_what_redis_rewrote() {
    let mut server = redis().start();
    let mut client = server.client();
    change(&mut client);
    rewrite(&mut client);
    client.check("SET after rewrite", "OK");
    same_after(&mut server, perdura());
}

#[test]
fn a_rewrite_under_load_misses_nothing() {
    let mut server = perdura().start();
    let mut client = server.client();
    change(&mut client);
    let mut counts = 0;
    for _ in 0..3 {
        client.run("BGREWRITEAOF");
        for _ in 0..200 {
            counts += 1;
            client.check("INCR n", &format!("(integer) {counts}"));
            client.check(
                &format!("APPEND log {},", counts % 10),
                &format!("(integer) {}", 2 * counts),
            );
        }
    }
    rewrite(&mut client);
    let before = contents(&server);
    server.crash();
    assert_eq!(contents(&server), before);
    assert_eq!(server.client().run("GET n").int(), Some(counts));
}

/// The newest incremental file.
fn incremental(folder: &Path) -> PathBuf {
    let folder = folder.join("appendonlydir");
    let names = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = names.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.to_string_lossy().contains(".incr."));
    files.sort();
    files.pop().expect("an incremental file")
}

/// Commands whose records are cut, with the results of `WHAT` after each.
const RECORDS: [&[&str]; 5] = [
    &["SET first one"],
    &["SELECT 3", "SET there value PXAT 4102444800000", "SELECT 0"],
    &["MULTI", "SET second two", "APPEND first more", "DEL third", "EXEC"],
    &["DEL first"],
    &["SET first again"],
];
const WHAT: [&str; 4] = ["MGET first second", "SELECT 3", "PEXPIRETIME there", "SELECT 0"];

fn what(client: &mut Client) -> Vec<String> {
    WHAT.iter().map(|line| client.run(line).to_string()).collect()
}

#[test]
fn a_log_cut_at_every_byte_of_its_last_records_loads_up_to_the_one_before() {
    let mut server = perdura().start();
    let mut client = server.client();
    client.check("SET third three", "OK");
    let length = |server: &Server| fs::metadata(incremental(server.folder())).expect("a log").len();
    let mut states = vec![(length(&server), what(&mut client))];
    for record in RECORDS {
        record.iter().for_each(|line| drop(client.run(line)));
        states.push((length(&server), what(&mut client)));
    }
    server.kill();
    let path = incremental(server.folder());
    let bytes = fs::read(&path).expect("the log");
    let mut cuts = 0;
    for cut in states[0].0..=bytes.len() as u64 {
        fs::write(&path, &bytes[..cut as usize]).expect("written");
        server.start_again();
        let mut client = server.client();
        let whole = states.iter().rev().find(|(end, _)| *end <= cut).expect("a record");
        assert_eq!(what(&mut client), whole.1, "cut at {cut} of {}", bytes.len());
        client.check("INCR written:behind:it", "(integer) 1");
        server.crash();
        server.client().check("GET written:behind:it", "\"1\"");
        server.kill();
        cuts += 1;
    }
    println!("{cuts} cuts");
    assert!(cuts > 200, "{cuts} cuts");
    fs::write(&path, &bytes[..bytes.len() - 3]).expect("written");
    let ended = perdura().args(["--aof-load-truncated", "no"]).run_to_end_in(server.folder());
    assert!(!ended.status.success(), "a truncated log was taken\n{}", ended.log);
}

#[test]
fn a_damaged_log_is_refused() {
    let mut server = perdura().start();
    let mut client = server.client();
    for n in 0..100 {
        client.check(&format!("SET key{n} value"), "OK");
    }
    server.kill();
    let path = incremental(server.folder());
    let mut bytes = fs::read(&path).expect("the log");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 10].fill(b'*');
    fs::write(&path, &bytes).expect("written");
    let ended = perdura().run_to_end_in(server.folder());
    assert!(!ended.status.success(), "a damaged log was taken\n{}", ended.log);
    assert!(ended.log.contains("Bad file format"), "{}", ended.log);
}

#[test]
fn a_key_that_expired_is_gone_after_a_restart() {
    let mut server = perdura().start();
    let mut client = server.client();
    client.check("SET gone soon PX 30", "OK");
    client.check("SET kept long PX 10000000", "OK");
    server.kill();
    std::thread::sleep(std::time::Duration::from_millis(40));
    server.start_again();
    let mut client = server.client();
    assert_eq!(client.run("GET gone"), Reply::Nil);
    client.check("GET kept", "\"long\"");
}

#[test]
fn a_log_is_loaded_again_while_the_server_runs() {
    let mut server = perdura().args(["--enable-debug-command", "yes"]).start();
    let mut client = server.client();
    change(&mut client);
    client.check("SELECT 0", "OK");
    client.check("SET gone x PXAT 1000", "OK");
    let before = contents(&server);
    assert!(before.len() > 290);
    client.check("DEBUG LOADAOF", "OK");
    assert_eq!(contents(&server), before);
    client.check("DEBUG RELOAD NOSAVE", "OK");
    assert_eq!(contents(&server), before);
    client.check("SET behind it", "OK");
    server.kill();
    server.start_again();
    let mut client = server.client();
    client.check("GET behind", "\"it\"");
    client.check("DEL behind", "(integer) 1");
    assert_eq!(contents(&server), before);
}

#[test]
fn whoever_waits_for_a_key_is_served_from_a_log_that_is_loaded_again() {
    let server = perdura().args(["--enable-debug-command", "yes"]).start();
    let mut client = server.client();
    client.check("SET kept value", "OK");
    let mut waiting = server.client();
    waiting.send(&["BLPOP", "filled", "0"]).expect("a request");
    while !client.call(&["INFO", "clients"]).to_string().contains("blocked_clients:1") {
        std::thread::yield_now();
    }
    let push = b"*3\r\n$5\r\nRPUSH\r\n$6\r\nfilled\r\n$1\r\nx\r\n";
    fs::write(incremental_file(&server), push).expect("written");
    client.check("DEBUG LOADAOF", "OK");
    let served = waiting.receive().expect("a reply").to_string();
    assert!(served.contains("filled") && served.contains('x'), "{served}");
    client.check("EXISTS filled kept", "(integer) 0");
}

/// The log's file to which the server appends.
fn incremental_file(server: &Server) -> PathBuf {
    let folder = server.folder().join("appendonlydir");
    let files = fs::read_dir(&folder).expect("the log").map(|file| file.expect("a file").path());
    let mut logs = files.filter(|path| path.to_string_lossy().ends_with(".incr.aof"));
    logs.next().expect("an incremental file")
}

#[test]
fn a_log_that_cannot_be_loaded_again_ends_the_server() {
    let mut server = perdura().args(["--enable-debug-command", "yes"]).start();
    server.client().check("SET kept value", "OK");
    let log = incremental_file(&server);
    let whole = fs::read(&log).expect("its bytes");
    fs::write(&log, [&whole[..], b"*2\r\n$4\r\nNONE\r\n$1\r\nx\r\n"].concat()).expect("written");
    let _ = server.client().try_call(&["DEBUG", "LOADAOF"]);
    server.wait();
    assert!(server.log().contains("Unknown command 'NONE'"), "{}", server.log());
    fs::write(&log, whole).expect("written");
    server.start_again();
    server.client().check("GET kept", "\"value\"");
}
