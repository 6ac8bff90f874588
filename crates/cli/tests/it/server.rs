//! Damage under a running server: its clients, its log, INFO, and `perdura check` afterwards.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::{Client, Launch, Server};

const KEYS: usize = 2000;

fn key(i: usize) -> String {
    format!("key:{i:05}")
}

fn value(i: usize) -> String {
    format!("the value of {} as it was set", key(i))
}

fn start(scrub: bool) -> (Server, Client) {
    let rate = if scrub { "1gb" } else { "0" };
    let launch = Launch::perdura_pmem().args(["--scrub-rate", rate, "--scrub-every", "0"]);
    let server = launch.start();
    let mut client = server.client();
    for i in 0..KEYS {
        assert!(client.call(&["SET", &key(i), &value(i)]).is_ok());
    }
    (server, client)
}

fn pool(server: &Server) -> PathBuf {
    server.folder().join("perdura.pool")
}

/// Flips a bit of the bytes that occur once in the pool.
fn flip(pool: &Path, text: &str) {
    let bytes = fs::read(pool).expect("the pool");
    let at = bytes.windows(text.len()).rposition(|part| part == text.as_bytes());
    let at = at.expect("the text stands in the pool");
    let file = OpenOptions::new().write(true).open(pool).expect("the pool");
    file.write_all_at(&[bytes[at] ^ 1], at as u64).expect("a write");
}

fn check(pool: &Path, more: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perdura"));
    let output = command.arg("check").arg(pool).args(more).output().expect("the program runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().expect("a status"), String::from_utf8_lossy(&text).into_owned())
}

fn number(client: &mut Client, name: &str) -> u64 {
    client.info("persistence")[name].parse().expect("a number")
}

fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn error(client: &mut Client, line: &str) -> String {
    format!("{:?}", client.run(line))
}

#[test]
fn a_flipped_bit_is_found_reported_and_repaired_by_writing() {
    let (mut server, mut client) = start(true);
    flip(&pool(&server), &value(77));
    wait_for("the scrub finds it", || number(&mut client, "damaged_keys") == 1);
    for line in ["GET key:00077", "APPEND key:00077 x", "INCR key:00077", "GETRANGE key:00077 0 1"]
    {
        let reply = error(&mut client, line);
        assert!(
            reply.contains("MEDIAERR the value of this key is damaged (pool offset 0x"),
            "{line}: {reply}"
        );
    }
    client.check("MULTI", "OK");
    client.check("GET key:00077", "QUEUED");
    client.check("SET other x", "QUEUED");
    let reply = error(&mut client, "EXEC");
    assert!(reply.contains("MEDIAERR"), "{reply}");
    client.check("GET other", "\"x\"");
    for i in (0..KEYS).filter(|i| *i != 77) {
        assert_eq!(client.call(&["GET", &key(i)]).bytes(), Some(value(i).as_bytes()));
    }
    let log = server.log();
    assert!(
        log.contains("Media error: database 0, key \"key:00077\": damaged value at offset"),
        "{log}"
    );
    let (status, text) = check(&pool(&server), &[]);
    assert_eq!(status, 2, "{text}");
    assert!(text.contains("in use by another process"), "{text}");
    assert!(client.info("errorstats").contains_key("errorstat_MEDIAERR"));
    client.check("SET key:00077 again", "OK");
    client.check("GET key:00077", "\"again\"");
    wait_for("another pass", || {
        let passes = number(&mut client, "scrub_passes");
        wait_for("a pass ends", || number(&mut client, "scrub_passes") > passes + 1);
        true
    });
    assert_eq!(number(&mut client, "damaged_keys"), 1);
    assert!(number(&mut client, "scrub_bytes") > 0);
    assert!(server.terminate().success());
    let (status, text) = check(&pool(&server), &[]);
    assert_eq!(status, 0, "{text}");
}

#[test]
fn a_damaged_key_is_cut_out_by_a_repair() {
    let (mut server, mut client) = start(false);
    client.check("CONFIG SET scrub-rate 100mb", "OK");
    let path = pool(&server);
    drop(client);
    server.kill();
    flip(&path, &value(78));
    let (status, text) = check(&path, &[]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("database 0, key \"key:00078\": damaged value at offset 0x"), "{text}");
    let (status, text) = check(&path, &["--repair"]);
    assert_eq!(status, 3, "{text}");
    assert!(text.contains("cut out: database 0, key \"key:00078\""), "{text}");
    server.start_again();
    let mut client = server.client();
    client.check("GET key:00078", "(nil)");
    client.check("DBSIZE", &format!("(integer) {}", KEYS - 1));
}
