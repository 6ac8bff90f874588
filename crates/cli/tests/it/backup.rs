//! `perdura backup` and `perdura restore`: complete copies of pools and servers, also of running
//! ones, and no file of the final name after a failure.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use testkit::{Client, Launch, Server};

use crate::common::check;
use crate::transfer::{digest, fill, perdura};

fn path(server: &Server, name: &str) -> String {
    server.folder().join(name).display().to_string()
}

fn at(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port())
}

/// Returns a server that answers DEBUG DIGEST.
fn debugged(launch: Launch) -> Server {
    launch.args(["--enable-debug-command", "local"]).start()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Opens a pool with a server, and returns its digest.
fn digest_of_pool(pool: &str) -> String {
    let launch = Launch::perdura_pmem().args(["--pool", pool, "--other-stores", "ignore"]);
    let server = debugged(launch);
    let mut client = server.client();
    client.check("FCALL one 0", "(integer) 1");
    digest(&mut client)
}

#[test]
fn everything_comes_through_each_way() {
    let mut server = debugged(Launch::perdura_pmem());
    let mut client = server.client();
    fill(&mut client);
    client.check("SELECT 0", "OK");
    client.check("HSET fields a 1 b 2", "(integer) 2");
    client.check("HPEXPIRE fields 100000000 FIELDS 1 a", "[(integer) 1]");
    let expect = digest(&mut client);
    let (dump, copy) = (path(&server, "live.rdb"), path(&server, "live.pool"));
    let said = ["is verified: keys=18 libraries=1 expired=0"];
    check(&perdura(&["backup", "--from", &at(&server), "--to", &dump]), 0, &said);
    check(&perdura(&["backup", "--from", &at(&server), "--to", &copy, "--as", "pool"]), 0, &said);
    let pool = path(&server, "perdura.pool");
    let from_pool = ["backup", "--from", &pool, "--to", &path(&server, "x"), "--as", "pool"];
    check(&perdura(&from_pool), 2, &["in use by another process"]);
    // As after a crash, and closed.
    server.kill();
    let killed = path(&server, "killed.rdb");
    check(&perdura(&["backup", "--from", &pool, "--to", &killed]), 0, &said);
    server.start_again();
    assert!(server.terminate().success());
    let before = fs::read(&pool).expect("the pool");
    let closed = path(&server, "closed.pool");
    check(&perdura(&["backup", "--from", &pool, "--to", &closed, "--as", "pool"]), 0, &said);
    assert!(before == fs::read(&pool).expect("the pool"), "the file was changed");
    for (n, from) in [&dump, &copy, &killed, &closed].into_iter().enumerate() {
        let to = path(&server, &format!("restored-{n}.pool"));
        check(&perdura(&["restore", from, "--to", &to]), 0, &said);
        check(&perdura(&["check", &to]), 0, &["sound: keys=18"]);
        assert_eq!(digest_of_pool(&to), expect, "{from}");
    }
    assert_eq!(digest_of_pool(&closed), expect);
    // Into a running server.
    let target = debugged(Launch::perdura_volatile());
    check(&perdura(&["restore", &dump, "--to", &at(&target)]), 0, &["keys=18 libraries=1 kept=0"]);
    assert_eq!(digest(&mut target.client()), expect);
}

#[test]
fn how_keys_were_used_comes_through() {
    let server = Launch::perdura_pmem().args(["--maxmemory-policy", "allkeys-lfu"]).start();
    let mut client = server.client();
    let folder = testkit::Medium::Disk.scratch();
    let dump = folder.path().join("dump.rdb").display().to_string();
    client.check("SET used x", "OK");
    for _ in 0..2000 {
        client.run("GET used");
    }
    let used = client.run("OBJECT FREQ used").int().expect("a number");
    assert!(used > 6, "{used}");
    check(&perdura(&["backup", "--from", &at(&server), "--to", &dump]), 0, &["keys=1"]);
    let bytes = fs::read(&dump).expect("the dump");
    assert!(bytes.windows(2).any(|pair| pair == [0xf9, used as u8]), "the counter is in the dump");
    let target = Launch::perdura_volatile().args(["--maxmemory-policy", "allkeys-lfu"]);
    let target = target.start_in(folder);
    assert_eq!(target.client().run("OBJECT FREQ used").int(), Some(used));
}

/// Writers change pairs of keys together while backups are made: each backup has a pair as it was
/// at one moment, and has everything that was there before it began.
#[test]
fn a_backup_under_writes_is_of_one_moment() {
    const PAIRS: usize = 500;
    let server = Launch::perdura_pmem().start();
    let mut client = server.client();
    for i in 0..PAIRS {
        let words = ["MSET", &format!("a:{i}"), "0", &format!("b:{i}"), "0"];
        assert!(client.call(&words).is_ok());
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (mut client, stop) = (server.client(), &stop);
            scope.spawn(move || {
                let mut n = 0;
                while !stop.load(Relaxed) {
                    n += 1;
                    let pair = (n * 7 + writer) % PAIRS;
                    let value = format!("{n}:{}", "v".repeat(n % 300));
                    let words =
                        ["MSET", &format!("a:{pair}"), &value, &format!("b:{pair}"), &value];
                    assert!(client.call(&words).is_ok());
                }
            });
        }
        for n in 0..5 {
            let form = ["rdb", "pool"][n % 2];
            let to = path(&server, &format!("{n}.{form}"));
            let done = perdura(&["backup", "--from", &at(&server), "--to", &to, "--as", form]);
            check(&done, 0, &["is verified: keys=1000"]);
            let pairs = perdura(&["export", &to, "--format", "resp"]);
            assert_pairs(&pairs, PAIRS);
        }
        stop.store(true, Relaxed);
    });
}

fn assert_pairs(exported: &Output, pairs: usize) {
    let target = Launch::perdura_volatile().start();
    let mut client: Client = target.client();
    client.send_raw(&exported.stdout).expect("the commands");
    // A SELECT, and a SET for each key.
    for _ in 0..=2 * pairs {
        assert!(client.receive().expect("a reply").is_ok());
    }
    for i in 0..pairs {
        let pair = client.call(&["MGET", &format!("a:{i}"), &format!("b:{i}")]);
        assert_eq!(pair.items()[0], pair.items()[1], "pair {i}");
        assert!(pair.items()[0].bytes().is_some(), "pair {i}");
    }
}

#[test]
fn a_running_redis_is_backed_up_too() {
    for diskless in ["yes", "no"] {
        let server = Launch::redis()
            .args(["--repl-diskless-sync", diskless, "--repl-diskless-sync-delay", "0"])
            .args(["--requirepass", "secret"])
            .start();
        let mut client = server.client();
        client.check("AUTH secret", "OK");
        fill(&mut client);
        let expect = digest(&mut client);
        let (pool, back) = (path(&server, "redis.pool"), path(&server, "back.rdb"));
        let address = format!("redis://:secret@127.0.0.1:{}", server.port());
        let done = perdura(&["backup", "--from", &address, "--to", &pool, "--as", "pool"]);
        check(&done, 0, &["is verified: keys=17 libraries=1"]);
        // The two programs compute digests differently.
        check(&perdura(&["export", &pool, "--format", "rdb", "--out", &back]), 0, &["keys=17"]);
        drop(client);
        let mut server = server;
        server.kill();
        fs::rename(&back, path(&server, "dump.rdb")).expect("its dump");
        server.start_again();
        let mut client = server.client();
        client.check("AUTH secret", "OK");
        assert_eq!(digest(&mut client), expect);
        client.check("FCALL one 0", "(integer) 1");
    }
}

#[test]
fn what_fails_leaves_nothing_under_the_name() {
    let mut server = Launch::perdura_pmem().start();
    let mut client = server.client();
    for i in 0..2000_u64 {
        // Values that do not compress.
        let hash =
            |n: u64| format!("{:016x}", (i * 100 + n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let value: String = (0..40).map(hash).collect();
        assert!(client.call(&["SET", &format!("key:{i}"), &value]).is_ok());
    }
    let folder = testkit::Medium::Disk.scratch();
    let to = folder.path().join("backup").display().to_string();
    let address = at(&server);
    // A disk that fills.
    for form in ["rdb", "pool"] {
        let script = "ulimit -S -f 200; exec \"$0\" \"$@\"";
        let mut limited = Command::new("sh");
        limited.args(["-c", script, env!("CARGO_BIN_EXE_perdura")]);
        limited.args(["backup", "--from", &address, "--to", &to, "--as", form]);
        check(&limited.output().expect("it runs"), 2, &["perdura backup: "]);
        assert_eq!(names(folder.path()), Vec::<String>::new());
    }
    // Existing files are not overwritten.
    fs::write(&to, "mine").expect("a file");
    check(&perdura(&["backup", "--from", &address, "--to", &to]), 2, &["is there already"]);
    assert_eq!(fs::read(&to).expect("the file"), b"mine");
    fs::remove_file(&to).expect("mine");
    // The program is killed, or the server.
    client.check("CONFIG SET rdb-key-save-delay 10000", "OK");
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perdura"));
        command.args(["backup", "--from", &address, "--to", &to, "--quiet"]);
        command.stderr(std::process::Stdio::piped()).spawn().expect("it runs")
    };
    let mut killed = start();
    while client.info("persistence")["rdb_bgsave_in_progress"] != "1"
        || names(folder.path()).is_empty()
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    killed.kill().expect("it is ours");
    killed.wait().expect("it ended");
    assert!(!Path::new(&to).exists());
    while client.info("persistence")["rdb_bgsave_in_progress"] != "0" {
        std::thread::sleep(Duration::from_millis(1));
    }
    let left = names(folder.path());
    assert_eq!(left.len(), 1, "{left:?}");
    // The files of dead runs are removed by the next one, but not those that another process is
    // making.
    let of_another = format!("backup.{}.part", std::process::id());
    let of_others = [of_another.as_str(), "backup.part", "backup.x.part", "other.1.part"];
    for name in of_others {
        fs::write(folder.path().join(name), "of another").expect("a file");
    }
    client.check("CONFIG SET rdb-key-save-delay 0", "OK");
    let done = perdura(&["backup", "--from", &address, "--to", &to, "--quiet"]);
    check(&done, 0, &["is verified", &format!("{} was left by a run that was killed", left[0])]);
    for name in ["backup"].into_iter().chain(of_others) {
        fs::remove_file(folder.path().join(name)).expect("it is there");
    }
    assert_eq!(names(folder.path()), Vec::<String>::new());
    client.check("CONFIG SET rdb-key-save-delay 10000", "OK");
    let running = start();
    while client.info("persistence")["rdb_bgsave_in_progress"] != "1" {
        std::thread::sleep(Duration::from_millis(1));
    }
    server.kill();
    let output = running.wait_with_output().expect("it ends");
    check(&output, 2, &["perdura backup: "]);
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[test]
fn a_journal_at_a_place_of_its_own_is_read() {
    let elsewhere = testkit::Medium::Disk.scratch();
    let journal = elsewhere.path().join("own.journal").display().to_string();
    let mut server = Launch::perdura_journal("always").args(["--journal", &journal]).start();
    let mut client = server.client();
    client.check("MSET a 1 b 2", "OK");
    server.kill();
    let (pool, dump) = (path(&server, "perdura.pool"), path(&server, "x.rdb"));
    let to = ["backup", "--from", &pool, "--to", &dump];
    check(&perdura(&to), 2, &["journal"]);
    assert!(!Path::new(&dump).exists());
    check(&perdura(&[&to[..], &["--journal", &journal]].concat()), 0, &["keys=2"]);
    check(&perdura(&["rdb", &dump]), 0, &["keys=2"]);
    let copy = path(&server, "copy.pool");
    for (n, verb) in ["import", "restore"].into_iter().enumerate() {
        let copy = format!("{copy}.{n}");
        let words = [verb, &pool, "--to", &copy, "--journal", &journal];
        check(&perdura(&words), 0, &["keys=2"]);
        check(&perdura(&["check", &copy]), 0, &["sound: keys=2"]);
    }
    let exported = perdura(&["export", &pool, "--journal", &journal]);
    check(&exported, 0, &["\"key\""]);
    check(&perdura(&["export", &dump, "--journal", &journal]), 2, &["is no pool: --journal"]);
}

#[test]
fn damage_is_not_backed_up() {
    let mut server = Launch::perdura_pmem().start();
    let mut client = server.client();
    client.check("SET key value", "OK");
    let dump = path(&server, "good.rdb");
    check(&perdura(&["backup", "--from", &at(&server), "--to", &dump]), 0, &["keys=1"]);
    assert!(server.terminate().success());
    let whole = fs::read(&dump).expect("the dump");
    let (bad, to) = (path(&server, "bad.rdb"), path(&server, "new.pool"));
    for (len, flipped, says) in [
        (whole.len() - 1, 0, "the data is cut off at byte"),
        (whole.len(), 1, "Wrong RDB checksum"),
    ] {
        let mut bytes = whole[..len].to_vec();
        let last = bytes.len() - 1;
        bytes[last] ^= flipped;
        fs::write(&bad, bytes).expect("a file");
        check(&perdura(&["restore", &bad, "--to", &to]), 2, &[says]);
        check(&perdura(&["backup", "--from", &bad, "--to", &to]), 2, &["bad.rdb: "]);
        assert!(!Path::new(&to).exists());
    }
    let none = path(&server, "none");
    check(&perdura(&["restore", &none, "--to", &to]), 2, &["none: No such file"]);
    check(&perdura(&["backup", "--from", "127.0.0.1:1", "--to", &to]), 2, &["127.0.0.1:1: "]);
    let left = names(server.folder());
    assert!(!left.iter().any(|name| name.contains("part") || name.contains("new")), "{left:?}");
}

#[test]
fn a_server_without_the_permission_says_so() {
    let server = Launch::redis().start();
    server.client().check("ACL SETUSER few on >word ~* +info +auth +select +ping", "OK");
    let address = format!("redis://few:word@127.0.0.1:{}", server.port());
    let to = path(&server, "x.rdb");
    check(&perdura(&["backup", "--from", &address, "--to", &to]), 2, &["NOPERM"]);
}
