//! `perdura import` and `perdura export`, between redis-server, Perdura, dumps and texts.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;
use testkit::{Client, Launch, Server};

use crate::common::check;

/// Makes a key of every type and encoding, in two databases, and a function library.
pub(crate) fn fill(client: &mut Client) {
    let long = "x".repeat(100);
    for line in [
        "SET text hello",
        "SET number 12345 PX 100000000",
        "SETRANGE large 70000 end",
        "RPUSH list a 1 -70000 c",
        "SADD ints 1 2 3",
        "SADD words a b 3",
        "ZADD small 1 a 2.5 b inf c",
        "HSET hash f v g 17",
        "XADD stream 1-1 f v g w",
        "XADD stream 2-7 f v",
        "XADD stream 3-1 other x",
        "XDEL stream 3-1",
        "XGROUP CREATE stream g 0",
        "XGROUP CREATE stream unread $",
        "XREADGROUP GROUP g alice COUNT 1 STREAMS stream >",
        "XREADGROUP GROUP g bob COUNT 1 STREAMS stream >",
        "XADD empty 5-5 f v",
        "XTRIM empty MAXLEN 0",
        "SELECT 3",
        "SET text in-3",
        "PEXPIRE text 200000000",
    ] {
        let reply = client.run(line);
        assert!(!reply.is_error(), "{line}: {reply:?}");
    }
    assert!(!client.call(&["SET", "bytes", "a\r\nb\0\\"]).is_error());
    for i in 0..300 {
        let (i, score) = (format!("{i}:{long}"), i.to_string());
        for words in [
            ["RPUSH", "long-list", &i].as_slice(),
            &["SADD", "table", &i],
            &["HSET", "long-hash", &i, "value"],
            &["ZADD", "tree", &score, &i],
            &["XADD", "long-stream", "*", "field", &i],
        ] {
            assert!(!client.call(words).is_error(), "{words:?}");
        }
    }
    let code = "#!lua name=lib\nredis.register_function('one', function() return 1 end)";
    assert!(!client.call(&["FUNCTION", "LOAD", code]).is_error());
}

fn filled(launch: Launch) -> (Server, Client) {
    let server = launch.start();
    let mut client = server.client();
    fill(&mut client);
    client.check("SELECT 0", "OK");
    (server, client)
}

fn address(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port())
}

pub(crate) fn perdura(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perdura"));
    command.args(arguments).output().expect("the program runs")
}

pub(crate) fn digest(client: &mut Client) -> String {
    format!("{:?}", client.run("DEBUG DIGEST"))
}

/// Checks that the data of `from` gets into an empty redis-server, directly or by way of Perdura.
fn moves(from: &str, expect: &str, through: bool) {
    let perdura_server = through.then(|| Launch::perdura_volatile().start());
    let mut from = from.to_owned();
    if let Some(server) = &perdura_server {
        let done = perdura(&["import", &from, "--to", &address(server)]);
        check(&done, 0, &["keys=17 libraries=1 kept=0"]);
        from = address(server);
    }
    let target = Launch::redis().start();
    let mut client = target.client();
    let done = perdura(&["import", &from, "--to", &address(&target)]);
    check(&done, 0, &["keys=17 libraries=1 kept=0"]);
    assert_eq!(digest(&mut client), expect);
    client.check("FCALL one 0", "(integer) 1");
}

#[test]
fn a_dump_and_a_running_server_arrive_as_they_were() {
    let (server, mut client) = filled(Launch::redis());
    let expect = digest(&mut client);
    client.check("SAVE", "OK");
    let file = server.folder().join("dump.rdb").display().to_string();
    moves(&file, &expect, false);
    moves(&file, &expect, true);
    moves(&address(&server), &expect, false);
    moves(&address(&server), &expect, true);
}

#[test]
fn commands_make_the_same_keys() {
    let (server, mut client) = filled(Launch::redis());
    let done = perdura(&["export", &address(&server), "--format", "resp"]);
    check(&Output { stdout: Vec::new(), ..done.clone() }, 0, &["exported: keys=17"]);
    let target = Launch::redis().start();
    let port = target.port().to_string();
    let mut pipe = Command::new("redis-cli");
    pipe.args(["-p", &port, "--pipe"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut pipe = pipe.spawn().expect("redis-cli runs");
    pipe.stdin.take().expect("a pipe").write_all(&done.stdout).expect("redis-cli reads");
    let said = pipe.wait_with_output().expect("it ends").stdout;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("errors: 0"), "{said}");
    assert_eq!(digest(&mut target.client()), digest(&mut client));
}

#[test]
fn json_has_a_line_for_each_key() {
    let (server, mut client) = filled(Launch::redis());
    client.check("SAVE", "OK");
    let out = server.folder().join("keys.json");
    let (file, to) = (server.folder().join("dump.rdb"), out.display().to_string());
    let export = |from: &str| perdura(&["export", from, "--out", &to]);
    check(&export(&file.display().to_string()), 0, &["exported: keys=17"]);
    let text = fs::read_to_string(&out).expect("the text");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 18);
    let of = |db: u64, key: &str| {
        let is = |line: &&Value| line["db"] == db && line["key"] == key;
        lines.iter().find(is).unwrap_or_else(|| panic!("{key}")).to_string()
    };
    let expect = |db, key: &str, part: &str| {
        assert!(of(db, key).contains(part), "{part} in {}", of(db, key));
    };
    expect(0, "text", r#""type":"string","value":"hello""#);
    expect(0, "text", r#""expires":null"#);
    expect(0, "list", r#""value":["a","1","-70000","c"]"#);
    expect(0, "small", r#"[["a",1.0],["b",2.5],["c","inf"]]"#);
    expect(0, "hash", r#"[["f","v"],["g","17"]]"#);
    expect(0, "stream", r#""entries":[["1-1",["f","v","g","w"]],["2-7",["f","v"]]]"#);
    expect(0, "stream", r#""name":"alice","pending":[["1-1","#);
    expect(0, "empty", r#""entries":[]"#);
    expect(3, "bytes", r#""a\r\nb\u0000\\""#);
    // It does not overwrite, and leaves nothing incomplete.
    check(&export(&file.display().to_string()), 2, &["is there already"]);
    let half = server.folder().join("half.rdb");
    let whole = fs::read(&file).expect("the dump");
    fs::write(&half, &whole[..whole.len() / 2]).expect("a shorter one");
    fs::remove_file(&out).expect("ours");
    check(&export(&half.display().to_string()), 2, &["half.rdb: the data is cut off at byte"]);
    assert!(
        !out.exists()
            && fs::read_dir(server.folder()).expect("the folder").all(|entry| {
                let name = entry.expect("an entry").file_name();
                !name.to_string_lossy().contains(".part")
            })
    );
}

#[test]
fn a_value_comes_with_the_time_to_live_that_belongs_to_it() {
    let server = Launch::perdura_volatile().start();
    let mut writer = server.client();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                for value in ["kept", "limited EX 100000"] {
                    for key in 0..64 {
                        writer.check(&format!("SET key-{key} {value}"), "OK");
                    }
                }
            }
        });
        let mut seen = [0, 0];
        while seen[0].min(seen[1]) < 100 {
            let done = perdura(&["export", &address(&server)]);
            for line in String::from_utf8_lossy(&done.stdout).lines() {
                let line: Value = serde_json::from_str(line).expect("JSON");
                let is_limited = line["value"] == "limited";
                if is_limited == line["expires"].is_null() {
                    is_done.store(true, Ordering::Relaxed);
                    panic!("{line}");
                }
                seen[usize::from(is_limited)] += 1;
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn keys_that_exist_are_kept_unless_they_are_to_be_replaced() {
    let (server, _client) = filled(Launch::redis());
    let target = Launch::perdura_volatile().start();
    let mut client = target.client();
    client.check("SET text mine", "OK");
    let import = |more: &[&str]| {
        let (from, to) = (address(&server), address(&target));
        perdura(&[&["import", &from, "--to", &to], more].concat())
    };
    check(&import(&[]), 1, &["keys=16 libraries=1 kept=1", "--replace overwrites"]);
    client.check("GET text", "\"mine\"");
    check(&import(&["--replace", "--json"]), 0, &["\"keys\": 17", "\"kept\": 0"]);
    client.check("GET text", "\"hello\"");
    client.check("SELECT 3", "OK");
    client.check("GET text", "\"in-3\"");
    // One database into another.
    let (from, to) = (address(&server) + "/3", address(&target) + "/5");
    check(&perdura(&["import", &from, "--to", &to]), 1, &["keys=7 libraries=0 kept=1"]);
}

#[test]
fn keys_that_the_server_refuses_are_named_and_the_others_are_imported() {
    let source = Launch::perdura_volatile().start();
    let mut client = source.client();
    client.check("MSET a 1 z 2", "OK");
    client.check("HSETEX h EX 1000 FIELDS 1 f v", "(integer) 1");
    client.check("SELECT 9", "OK");
    client.check("MSET b 1 c 2", "OK");
    client.check("SELECT 1", "OK");
    client.check("SET d 1", "OK");
    // A server without field expiration, and with fewer databases.
    let target = Launch::redis().args(["--databases", "2"]).start();
    let import = |more: &[&str]| {
        let (from, to) = (address(&source), address(&target));
        perdura(&[&["import", &from, "--to", &to], more].concat())
    };
    let says = [
        "keys=3 libraries=0 kept=0 refused=3 ",
        "refused: database 0, key \"h\": ERR DUMP payload version",
        "refused: database 9, key \"b\": ERR DB index is out of range",
        "refused: database 9, key \"c\": ",
        "not complete: the server refused 3 keys",
        "--format resp | redis-cli",
        "raise its directive `databases`",
    ];
    check(&import(&[]), 2, &says);
    let mut there = target.client();
    there.check("MGET a z", "[\"1\", \"2\"]");
    there.check("DBSIZE", "(integer) 2");
    there.check("SELECT 1", "OK");
    there.check("KEYS *", "[\"d\"]");
    let json = import(&["--replace", "--json"]);
    check(&json, 2, &["\"refused\": 3", "\"key\": \"h\"", "\"keys\": 3"]);
}

/// Loading by Valkey 9 was tested manually with 9.1.2; its bytes are compared next to the code that
/// writes them.
#[test]
fn a_dump_for_valkey_has_the_times_of_fields() {
    let source = Launch::perdura_volatile().start();
    let mut client = source.client();
    client.check("HSET h g w", "(integer) 1");
    client.check("HSETEX h PXAT 4000000000123 FIELDS 1 f v", "(integer) 1");
    client.check("RPUSH l 1 2 3", "(integer) 3");
    client.check("XADD x 1-1 f v", "\"1-1\"");
    client.check("SET s v PXAT 4000000000456", "OK");
    let folder = testkit::Medium::Disk.scratch();
    let path = folder.path().join("valkey.rdb").display().to_string();
    let form = ["--format", "rdb", "--for", "valkey-9", "--out", &path];
    check(&perdura(&[&["export", &address(&source)], &form[..]].concat()), 0, &["keys=4"]);
    assert!(fs::read(&path).expect("the dump").starts_with(b"VALKEY080"));
    check(&perdura(&["rdb", &path]), 0, &["Valkey"]);
    let target = Launch::perdura_volatile().start();
    check(&perdura(&["import", &path, "--to", &address(&target)]), 0, &["keys=4"]);
    let mut there = target.client();
    there.check("HPEXPIRETIME h FIELDS 2 f g", "[(integer) 4000000000123, (integer) -1]");
    there.check("HMGET h f g", "[\"v\", \"w\"]");
    there.check("LRANGE l 0 -1", "[\"1\", \"2\", \"3\"]");
    there.check("PEXPIRETIME s", "(integer) 4000000000456");
    there.check("XLEN x", "(integer) 1");
}

/// For a server before Redis 7, which does not know PEXPIRETIME, its clock and PTTL are used.
#[test]
fn an_older_server_s_times_to_live_arrive() {
    let old = Launch::redis().args(["--rename-command", "PEXPIRETIME", ""]).start();
    let mut client = old.client();
    client.check("SET s v PXAT 4000000000456", "OK");
    client.check("SET forever v", "OK");
    assert!(client.run("PEXPIRETIME s").is_error());
    let target = Launch::perdura_volatile().start();
    check(&perdura(&["import", &address(&old), "--to", &address(&target)]), 0, &["keys=2"]);
    let mut there = target.client();
    there.check("PEXPIRETIME forever", "(integer) -1");
    let at = there.run("PEXPIRETIME s").to_string();
    let at: i64 = at.trim_start_matches("(integer) ").parse().expect("a time");
    // Between TIME and PTTL the server may be interrupted.
    assert!((at - 4_000_000_000_456).abs() < 1000, "{at}");
}

#[test]
fn what_cannot_be_done_is_said() {
    let none = "redis://:secret@127.0.0.1:1";
    let folder = testkit::Medium::Disk.scratch();
    let path = |name: &str| folder.path().join(name).display().to_string();
    check(&perdura(&["import", none, "--to", none]), 2, &["redis://127.0.0.1:1: "]);
    check(&perdura(&["export", &path("missing")]), 2, &["missing: No such file"]);
    check(&perdura(&["export", &path("")]), 2, &["no append-only file is there"]);
    fs::write(path("text"), "no dump at all, whatever it is").expect("a file");
    check(&perdura(&["export", &path("text")]), 2, &["this is no RDB file"]);
    assert!(!Path::new(&path("text.part")).exists());
}

fn path_in(server: &Server, name: &str) -> String {
    server.folder().join(name).display().to_string()
}

/// Returns the files of a directory, with their content.
fn content(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.extend(content(&path));
        } else {
            all.push((path.display().to_string(), fs::read(&path).expect("a file")));
        }
    }
    all.sort();
    all
}

/// Logs of Redis and of Perdura, with a dump as base and with commands, rewritten or not, are
/// imported into a server and into a pool; none of their files is changed.
#[test]
fn a_log_is_imported_into_a_server_and_into_a_pool() {
    let redis = |preamble| {
        let always = ["--appendonly", "yes", "--appendfsync", "always"];
        Launch::redis().args(always).args(["--aof-use-rdb-preamble", preamble])
    };
    let ours = |preamble| {
        let launch = Launch::perdura_aof("always").args(["--aof-use-rdb-preamble", preamble]);
        launch.args(["--enable-debug-command", "local"])
    };
    for (launch, rewrites) in [
        (redis("yes"), true),
        (redis("no"), true),
        (redis("yes"), false),
        (ours("yes"), true),
        (ours("no"), false),
    ] {
        let (mut server, mut client) = filled(launch);
        if rewrites {
            client.run("BGREWRITEAOF");
            while client.info("persistence")["aof_rewrite_in_progress"] != "0" {}
        }
        client.check("SET after rewrite", "OK");
        client.check("MULTI", "OK");
        client.check("INCR number", "QUEUED");
        client.check("DEL large", "QUEUED");
        assert_eq!(client.run("EXEC").items().len(), 2);
        let original = Launch::perdura_volatile().args(["--enable-debug-command", "local"]).start();
        let done = perdura(&["import", &address(&server), "--to", &address(&original)]);
        check(&done, 0, &["keys=17 libraries=1"]);
        let expect = digest(&mut original.client());
        server.kill();
        let folder = server.folder().join("appendonlydir");
        // A command that a crash cut short.
        let last = content(&folder).into_iter().rfind(|(name, _)| name.contains(".incr."));
        let (last, bytes) = last.expect("an increment");
        fs::write(&last, [bytes.as_slice(), b"*3\r\n$3\r\nSET\r\n$1"].concat()).expect("the log");
        let before = content(&folder);
        let target = Launch::perdura_volatile().args(["--enable-debug-command", "local"]).start();
        let from = folder.display().to_string();
        let done = perdura(&["import", &from, "--to", &address(&target)]);
        check(&done, 0, &["keys=17 libraries=1 kept=0"]);
        assert_eq!(digest(&mut target.client()), expect);
        // The server's directory.
        let (from, pool) = (path_in(&server, ""), path_in(&server, "new.pool"));
        let done = perdura(&["import", &from, "--to", &pool]);
        check(&done, 0, &["keys=17 libraries=1", "the last 15 bytes of"]);
        let dump = path_in(&server, "of-log.rdb");
        let done = perdura(&["export", &from, "--format", "rdb", "--out", &dump]);
        check(&done, 0, &["keys=17"]);
        assert!(before == content(&folder), "the log was changed");
        let (mut second, mut third) = (target.client(), original.client());
        second.check("FLUSHALL", "OK");
        second.check("FUNCTION FLUSH", "OK");
        third.check("FLUSHALL", "OK");
        third.check("FUNCTION FLUSH", "OK");
        for (from, to, client) in [(&pool, &target, &mut second), (&dump, &original, &mut third)] {
            let done = perdura(&["import", from, "--to", &address(to)]);
            check(&done, 0, &["keys=17 libraries=1 kept=0"]);
            assert_eq!(digest(client), expect);
        }
    }
}

/// The data in a server's directory goes into a pool in a new directory: the append-only file if
/// there is one, as in Redis, else the dump.
#[test]
fn a_server_s_directory_becomes_a_pool_in_a_new_directory() {
    let mut server =
        Launch::redis().args(["--appendonly", "yes", "--appendfsync", "always"]).start();
    let mut client = server.client();
    client.check("SET in-both 1", "OK");
    client.check("SAVE", "OK");
    client.check("SET in-log 1", "OK");
    server.kill();
    let before = content(server.folder());
    let (from, both) = (path_in(&server, ""), "the append-only file is read, as Redis does");
    let made = perdura(&["import", &from, "--to", &path_in(&server, "perdura/perdura.pool")]);
    check(&made, 0, &["keys=2 libraries=0", both]);
    let mode = fs::metadata(server.folder().join("perdura")).expect("a folder").permissions();
    assert_eq!(mode.mode() & 0o777, 0o700);
    // The dump is older than the unreadable log, so it is not used.
    let log = server.folder().join("appendonlydir");
    fs::remove_file(log.join("appendonly.aof.manifest")).expect("the manifest");
    let refused = perdura(&["import", &from, "--to", &path_in(&server, "none/perdura.pool")]);
    check(&refused, 2, &["appendonlydir: files of an append-only file without their manifest"]);
    fs::remove_dir_all(log).expect("the log");
    let made = perdura(&["import", &from, "--to", &path_in(&server, "second/perdura.pool")]);
    check(&made, 0, &["keys=1 libraries=0"]);
    assert!(!String::from_utf8_lossy(&made.stderr).contains(both));
    let dump = |files: Vec<(String, Vec<u8>)>| {
        files.into_iter().find(|(name, _)| name.ends_with("/dump.rdb")).expect("the dump")
    };
    assert!(dump(before) == dump(content(server.folder())), "the dump was changed");
    let nested = path_in(&server, "no/such/perdura.pool");
    check(&perdura(&["import", &from, "--to", &nested]), 2, &["No such file or directory"]);
}

#[test]
fn an_old_log_is_imported_and_not_moved() {
    let folder = testkit::Medium::Disk.scratch();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let text = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n";
    fs::write(path("appendonly.aof"), text).expect("a log");
    let done = perdura(&["import", &path("appendonly.aof"), "--to", &path("a.pool")]);
    check(&done, 0, &["keys=1 libraries=0"]);
    check(&perdura(&["import", &path(""), "--to", &path("b.pool")]), 0, &["keys=1 libraries=0"]);
    assert_eq!(fs::read_to_string(path("appendonly.aof")).expect("the log"), text);
    let unknown = "*1\r\n$4\r\nNONE\r\n";
    fs::write(path("appendonly.aof"), unknown).expect("a log");
    let done = perdura(&["import", &path(""), "--to", &path("c.pool")]);
    check(&done, 2, &["Unknown command 'NONE'"]);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 3, "two pools and the log");
}

/// redis-server 7.0 and its checker accept Perdura's exports.
#[test]
fn an_exported_dump_is_loaded_by_redis() {
    let (mut server, mut client) = filled(Launch::perdura_pmem());
    client.check("SELECT 0", "OK");
    // Another way to the same data: key by key.
    let original = Launch::redis().start();
    let done = perdura(&["import", &address(&server), "--to", &address(&original)]);
    check(&done, 0, &["keys=17 libraries=1"]);
    let expect = digest(&mut original.client());
    let (live, closed) = (path_in(&server, "live.rdb"), path_in(&server, "closed.rdb"));
    let export = |from: &str, to: &str| perdura(&["export", from, "--format", "rdb", "--out", to]);
    check(&export(&address(&server), &live), 0, &["exported: keys=17"]);
    let piped = perdura(&["export", &address(&server), "--format", "rdb"]);
    check(&Output { stdout: Vec::new(), ..piped.clone() }, 0, &["exported: keys=17"]);
    assert!(server.terminate().success());
    check(&export(&path_in(&server, "perdura.pool"), &closed), 0, &["exported: keys=17"]);
    let out = path_in(&server, "piped.rdb");
    fs::write(&out, piped.stdout).expect("a file");
    for dump in [live, closed, out] {
        let said = Command::new("redis-check-rdb").arg(&dump).output().expect("redis-check-rdb");
        check(&said, 0, &["RDB looks OK!"]);
        let mut redis = Launch::redis().start();
        redis.kill();
        fs::copy(&dump, redis.folder().join("dump.rdb")).expect("a copy");
        redis.start_again();
        assert_eq!(digest(&mut redis.client()), expect, "{dump}");
    }
}
