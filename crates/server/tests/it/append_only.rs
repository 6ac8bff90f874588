//! An append-only file that is switched on and rewritten while it is off: data in memory, served
//! without one.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::{Client, Launch, Server};

fn without_log() -> Launch {
    let launch = Launch::perdura_aof("always").args(["--appendonly", "no", "--save", ""]);
    launch.args(["--enable-debug-command", "local"])
}

fn with_log() -> Launch {
    Launch::perdura_aof("always").args(["--save", ""])
}

#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
fn rewrite(client: &mut Client) {
    client.check("BGREWRITEAOF", "Background append only file rewriting started");
    wait_until("the rewrite ends", || client.info("persistence")["aof_rewrite_in_progress"] == "0");
    assert_eq!(client.info("persistence")["aof_last_bgrewrite_status"], "ok");
}

fn is_on(client: &mut Client) -> bool {
    client.info("persistence")["durability"].starts_with("a write is synced to the log")
}

fn restarted(server: &mut Server) -> Client {
    server.kill();
    server.start_as(with_log());
    server.client()
}

#[test]
fn a_log_that_is_off_is_written_and_stays_off() {
    let mut server = without_log().start();
    let mut client = server.client();
    client.check("DEBUG LOADAOF", "(error) ERR there is no append only file to load");
    client.check("RPUSH list a b c", "(integer) 3");
    rewrite(&mut client);
    let info = client.info("persistence");
    assert_eq!(info["aof_enabled"], "0");
    assert!(info["durability"].starts_with("only what was saved in an RDB file"), "{info:?}");
    let says = "a start with --appendonly no is refused";
    wait_until("the log says what this means", || server.log().contains(says));
    client.check("SET later 1", "OK");
    client.check("DEBUG LOADAOF", "OK");
    client.check("EXISTS list later", "(integer) 1");
    client.check("CONFIG SET aof-use-rdb-preamble no", "OK");
    client.check("SADD set a", "(integer) 1");
    rewrite(&mut client);
    client.check("SET later 1", "OK");
    let mut client = restarted(&mut server);
    client.check("EXISTS list set later", "(integer) 2");
    client.check("CONFIG SET appendonly no", "OK");
    client.check("SET between 1", "OK");
    rewrite(&mut client);
    client.check("SET later 1", "OK");
    restarted(&mut server).check("EXISTS list set between later", "(integer) 3");
}

#[test]
fn data_in_memory_gets_a_log_while_it_is_written() {
    let mut server = without_log().start();
    let mut client = server.client();
    client.check("SET before 1", "OK");
    let ends = AtomicBool::new(false);
    let acknowledged: Vec<i64> = thread::scope(|scope| {
        let write = |n: usize| {
            let mut client = server.client();
            let ends = &ends;
            scope.spawn(move || {
                let mut last = 0;
                while !ends.load(Ordering::Relaxed) {
                    last = client.call(&["INCR", &format!("counter:{n}")]).int().expect("a number");
                }
                last
            })
        };
        let writers: Vec<_> = (0..4).map(write).collect();
        client.check("CONFIG SET appendonly yes", "OK");
        client.check("CONFIG GET appendonly", "[\"appendonly\", \"yes\"]");
        wait_until("the log is on", || is_on(&mut client));
        client.check("SET later 1", "OK");
        ends.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().expect("no panic")).collect()
    });
    assert_eq!(client.info("persistence")["aof_enabled"], "1");
    let mut client = restarted(&mut server);
    client.check("EXISTS before later", "(integer) 2");
    for (n, last) in acknowledged.into_iter().enumerate() {
        assert_eq!(client.call(&["GET", &format!("counter:{n}")]).text(), last.to_string());
    }
}

#[test]
fn what_a_log_held_stays_until_the_new_one_is_complete() {
    let mut server = with_log().start();
    server.client().check("SET old 1", "OK");
    server.kill();
    server.start_as(without_log().args(["--other-stores", "ignore"]));
    let mut client = server.client();
    client.check("SET new 1", "OK");
    // The new base cannot be made.
    let temporary = server.folder().join("appendonlydir/temp-rewriteaof-bg.aof");
    fs::create_dir(&temporary).expect("a directory in its place");
    client.check("CONFIG SET appendonly yes", "OK");
    let failed = "aof_last_bgrewrite_status";
    wait_until("a rewrite fails", || client.info("persistence")[failed] == "err");
    assert!(!is_on(&mut client));
    client.check("SET new 2", "OK");
    restarted(&mut server).check("MGET old new", "[\"1\", (nil)]");
    server.kill();
    server.start_as(without_log().args(["--other-stores", "ignore"]));
    let mut client = server.client();
    client.check("SET new 3", "OK");
    client.check("CONFIG SET appendonly yes", "OK");
    fs::remove_dir(&temporary).ok();
    wait_until("the log is on", || is_on(&mut client));
    restarted(&mut server).check("MGET old new", "[(nil), \"3\"]");
}

#[test]
fn what_is_written_while_a_file_is_written_is_in_the_log_that_is_then_switched_on() {
    let mut server = without_log().start();
    let mut client = server.client();
    (0..100).for_each(|i| assert!(client.run(&format!("SET key:{i} v")).is_ok()));
    client.check("CONFIG SET rdb-key-save-delay 10000000", "OK");
    client.check("BGREWRITEAOF", "Background append only file rewriting started");
    wait_until("the cut is made", || client.info("persistence")["snapshot_in_progress"] == "1");
    client.check("SET meanwhile 1", "OK");
    client.check("CONFIG SET appendonly yes", "OK");
    client.check("INCR later", "(integer) 1");
    assert_eq!(client.info("persistence")["aof_rewrite_in_progress"], "1", "it still goes on");
    client.check("CONFIG SET rdb-key-save-delay 0", "OK");
    wait_until("the log is on", || is_on(&mut client));
    restarted(&mut server).check("MGET meanwhile later key:99", "[\"1\", \"1\", \"v\"]");
}

#[test]
fn a_log_that_is_switched_on_has_the_policy_of_that_moment() {
    let server = without_log().args(["--appendfsync", "everysec"]).start();
    let mut client = server.client();
    rewrite(&mut client);
    client.check("CONFIG SET appendfsync always", "OK");
    client.check("CONFIG SET appendonly yes", "OK");
    wait_until("the log is on", || is_on(&mut client));
    let syncs = |client: &mut Client| -> u64 {
        client.info("persistence")["aof_syncs"].parse().expect("a number")
    };
    let before = syncs(&mut client);
    (0..50).for_each(|_| client.check("SET k v", "OK"));
    assert!(syncs(&mut client) >= before + 50, "one for each reply");
}

#[test]
fn a_rewrite_follows_one_that_is_given_up() {
    let server = with_log().args(["--enable-debug-command", "local"]).start();
    let mut client = server.client();
    client.check("MSET a 1 b 2", "OK");
    client.check("CONFIG SET rdb-key-save-delay 10000000", "OK");
    client.check("BGREWRITEAOF", "Background append only file rewriting started");
    client.check(
        "BGREWRITEAOF",
        "(error) ERR Background append only file rewriting already in progress",
    );
    client.check("CONFIG SET appendonly no rdb-key-save-delay 0", "OK");
    client.check("SET c 3", "OK");
    rewrite(&mut client);
    client.check("FLUSHALL", "OK");
    client.check("DEBUG LOADAOF", "OK");
    client.check("EXISTS a b c", "(integer) 3");
}

#[test]
fn a_full_disk_keeps_the_log_off_and_writes_are_served() {
    let mut server = without_log().longest_file(1 << 20).start();
    let mut client = server.client();
    (0..20).for_each(|i| assert!(client.run(&format!("SET key:{i} v")).is_ok()));
    server.set_limit(64);
    client.check("CONFIG SET rdb-key-save-delay 10000000", "OK");
    client.check("CONFIG SET appendonly yes", "OK");
    wait_until("the cut is made", || client.info("persistence")["snapshot_in_progress"] == "1");
    // More than the length limit of the file.
    let large = "x".repeat(10_000);
    for i in 0..20 {
        assert!(client.call(&["SET", &format!("large:{i}"), &large]).is_ok());
    }
    client.check("CONFIG SET rdb-key-save-delay 0", "OK");
    let failed = "aof_last_bgrewrite_status";
    wait_until("the rewrite fails", || client.info("persistence")[failed] == "err");
    assert!(!is_on(&mut client));
    assert!(server.log().contains("The append-only file stays off"), "{}", server.log());
    client.check("SET k v", "OK");
    client.check("CONFIG SET appendonly no", "OK");
    client.check("CONFIG SET appendonly yes", "OK");
    server.lift_limit();
    wait_until("the log is on", || is_on(&mut client));
    let mut client = restarted(&mut server);
    client.check("MGET k key:19", "[\"v\", \"v\"]");
    client.check("STRLEN large:19", "(integer) 10000");
}

/// The base and the increments, in this order.
fn log_files(server: &Server) -> Vec<Vec<u8>> {
    let folder = server.folder().join("appendonlydir");
    let manifest = fs::read_to_string(folder.join("appendonly.aof.manifest")).expect("a manifest");
    let name = |line: &str| line.split(' ').nth(1).expect("a name").to_owned();
    manifest.lines().map(|line| fs::read(folder.join(name(line))).expect("a file")).collect()
}

#[test]
fn a_log_with_timestamps_goes_back_to_one_of_them() {
    let has_timestamp = |file: &[u8]| file.starts_with(b"#TS:");
    let mut server = with_log().args(["--aof-timestamp-enabled", "yes"]).start();
    let mut client = server.client();
    client.check("SET before 1", "OK");
    let last = log_files(&server).pop().expect("an increment");
    assert!(has_timestamp(&last), "{}", String::from_utf8_lossy(&last));

    // The base of a rewrite has one too, and so does the file after it, unless that was switched
    // off.
    client.check("CONFIG SET aof-use-rdb-preamble no", "OK");
    rewrite(&mut client);
    client.check("CONFIG SET aof-timestamp-enabled no", "OK");
    client.check("SET unmarked 1", "OK");
    let [base, unmarked] = log_files(&server).try_into().expect("a base and an increment");
    assert!(has_timestamp(&base) && !has_timestamp(&unmarked));
    client.check("CONFIG SET aof-timestamp-enabled yes", "OK");
    client.check("SET marked 1", "OK");
    let kept_until = unix_seconds();
    wait_until("the next second", || unix_seconds() > kept_until);
    client.check("SET mistake 1", "OK");

    server.kill();
    let manifest = server.folder().join("appendonlydir/appendonly.aof.manifest");
    let cut = std::process::Command::new("redis-check-aof")
        .args(["--truncate-to-timestamp", &kept_until.to_string()])
        .arg(manifest)
        .output()
        .expect("redis-check-aof runs");
    assert!(cut.status.success(), "{}", String::from_utf8_lossy(&cut.stdout));
    let mut client = restarted(&mut server);
    client.check("EXISTS before unmarked marked", "(integer) 3");
    client.check("EXISTS mistake", "(integer) 0");
}

fn unix_seconds() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs()
}
