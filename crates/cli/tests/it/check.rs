//! `perdura check` as a program: its output, its exit status, and that it changes nothing unless
//! told to.

use crate::common::check;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use heap::{CreateOptions, Geometry, Heap};
use keyspace::{Db, Expire, Keyspace};
use pmem::{DomainRequest, MapOptions, Region};
use serde_json::Value;

const KEYS: usize = 2000;

struct Pool {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

/// Returns the machine's boot id, since these pools do not survive a restart of it.
fn boot_id() -> [u8; 16] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("the boot's number");
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16).expect("32 digits").to_be_bytes()
}

fn open(path: &Path) -> Keyspace {
    let mut options = MapOptions::new(1 << 30);
    options.domain = DomainRequest::Process;
    let region = Region::open(path, &options).expect("a region");
    let geometry = Geometry { shards: 4, zone_spans: 64, ..Geometry::default() };
    let heap = if Heap::is_blank(&region) {
        let options = CreateOptions { geometry, boot_id: boot_id(), ..CreateOptions::default() };
        Heap::create(region, &options).expect("a pool")
    } else {
        Heap::open(region, boot_id()).expect("a pool").0
    };
    Keyspace::new(heap, 0)
}

impl Pool {
    /// Makes a pool with some keys; closed cleanly, or as a killed process leaves it.
    fn new(closed: bool) -> Pool {
        let folder = tempfile::tempdir().expect("a folder");
        let pool = Pool { path: folder.path().join("a.pool"), _folder: folder };
        let keyspace = open(&pool.path);
        let db = Db::new(0).expect("a database");
        for i in 0..KEYS {
            let name = format!("key:{i}");
            let key = keyspace.key(name.as_bytes());
            let mut txn = keyspace.begin_one(key.shard(), 0);
            let value = format!("the value of key {i}.");
            txn.strings().set(db, &key, value.as_bytes(), Expire::Clear).expect("free memory");
            txn.commit().expect("a commit");
        }
        if closed {
            keyspace.heap().close().expect("a clean close");
        }
        pool
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perdura"));
        command.arg("check").arg(&self.path).args(more);
        command
    }

    fn check(&self, more: &[&str]) -> Output {
        self.command(more).output().expect("the program runs")
    }

    fn flip(&self, text: &str) {
        let bytes = fs::read(&self.path).expect("the pool");
        let at = bytes.windows(text.len()).rposition(|part| part == text.as_bytes());
        let at = at.expect("the text");
        let file = OpenOptions::new().write(true).open(&self.path).expect("the pool");
        file.write_all_at(&[bytes[at] ^ 1], at as u64).expect("a write");
    }
}

#[test]
fn a_sound_pool_is_sound_and_keeps_every_byte() {
    for closed in [true, false] {
        let pool = Pool::new(closed);
        let before = fs::read(&pool.path).expect("the pool");
        check(&pool.check(&[]), 0, &["sound", "keys=2000", "problems=0"]);
        check(&pool.check(&["--threads", "1", "--quiet"]), 0, &["keys=2000"]);
        assert!(before == fs::read(&pool.path).expect("the pool"), "the file was changed");
    }
}

#[test]
fn damage_is_named_and_the_file_is_left_alone() {
    let pool = Pool::new(true);
    pool.flip("the value of key 77.");
    let before = fs::read(&pool.path).expect("the pool");
    let says =
        ["database 0, key \"key:77\": damaged value at offset", "damaged: keys=2000", "problems=1"];
    check(&pool.check(&[]), 1, &says);
    assert!(before == fs::read(&pool.path).expect("the pool"), "the file was changed");
}

#[test]
fn a_result_that_cannot_be_written_is_an_error_and_one_that_nobody_reads_is_none() {
    let pool = Pool::new(true);
    let run = |stdout: Stdio| pool.command(&[]).stdout(stdout).output().expect("it runs");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    assert_eq!(run(writer.into()).status.code(), Some(0));
    let full = OpenOptions::new().write(true).open("/dev/full").expect("there is one");
    let refused = run(full.into());
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("standard output: No space left on device"), "{error}");
}

#[test]
fn a_repair_cuts_out_the_damaged_key_and_says_so() {
    let pool = Pool::new(true);
    pool.flip("the value of key 78.");
    check(&pool.check(&["--repair"]), 3, &["cut out: database 0, key \"key:78\"", "repaired"]);
    check(&pool.check(&[]), 0, &["keys=1999", "problems=0"]);
    check(&pool.check(&["--repair"]), 0, &["sound", "keys=1999"]);
}

#[test]
fn a_pool_that_was_stopped_is_repaired_and_takes_writes_again() {
    let pool = Pool::new(true);
    let bytes = fs::read(&pool.path).expect("the pool");
    let text = b"the value of key 79.";
    let at = bytes.windows(text.len()).position(|part| part == text).expect("the text") as u64;
    // The page with the bitmap of its span is cut off under the mapping.
    let page = at & !0xffff;
    let keyspace = open(&pool.path);
    let file = OpenOptions::new().write(true).open(&pool.path).expect("the pool");
    file.set_len(page).expect("a shorter file");
    keyspace.heap().region().load(page);
    let after = page + 4096;
    file.write_all_at(&bytes[after as usize..], after).expect("what comes after it");
    keyspace.resolve_losses();
    assert!(keyspace.stopped().is_some_and(|why| why.contains("bitmap")));
    drop(keyspace);
    check(&pool.check(&[]), 1, &["stopped: the medium lost a part of a span's bitmap", "damaged"]);
    check(&pool.check(&["--repair"]), 3, &["allocated again", "cut out", "repaired"]);
    check(&pool.check(&[]), 0, &["sound"]);
    assert_eq!(open(&pool.path).stopped(), None);
}

#[test]
fn a_repair_leaves_alone_what_it_cannot_repair() {
    let pool = Pool::new(true);
    let zones = (12288u64 + 4 * 2048 + 4 * 8 * 32768).next_multiple_of(65536);
    let file = OpenOptions::new().write(true).open(&pool.path).expect("the pool");
    file.write_all_at(&[0xff, 0xff], zones + 9).expect("a write");
    check(&pool.check(&[]), 1, &["span 1: its word in the span table"]);
    check(&pool.check(&["--repair"]), 1, &["not repaired: cannot be repaired: span 1"]);
}

#[test]
fn the_result_can_be_had_as_json() {
    let json = |output: &Output| -> Value {
        serde_json::from_slice(&output.stdout).expect("one JSON object")
    };
    let pool = Pool::new(true);
    pool.flip("the value of key 79.");
    let found = json(&pool.check(&["--json"]));
    assert_eq!((&found["verdict"], &found["keys"]), (&"damaged".into(), &KEYS.into()));
    let key = &found["problems"][0];
    assert_eq!((&key["key"], &key["key_hex"]), (&"key:79".into(), &"6b65793a3739".into()));
    let repaired = json(&pool.check(&["--json", "--repair"]));
    assert_eq!(repaired["verdict"], "repaired");
    assert_eq!(repaired["repair"]["cut"][0]["key"], "key:79");
    assert_eq!(repaired["left"], serde_json::json!([]));
}

#[test]
fn one_damaged_header_is_named_and_written_again_by_a_repair() {
    let pool = Pool::new(true);
    let file = OpenOptions::new().write(true).open(&pool.path).expect("the pool");
    file.write_all_at(&[7; 8], 4096 + 40).expect("a write");
    check(&pool.check(&[]), 1, &["the copy of the pool's header at offset 0x1000 is damaged"]);
    check(&pool.check(&["--repair"]), 3, &["repaired"]);
    check(&pool.check(&[]), 0, &["sound"]);
    for at in [0, 4096] {
        file.write_all_at(&[7; 8], at + 40).expect("a write");
    }
    check(&pool.check(&[]), 1, &["both copies of the pool's header are damaged"]);
}

#[test]
fn what_cannot_be_looked_at_is_distinguished_from_what_is_damaged() {
    let pool = Pool::new(true);
    let held = open(&pool.path);
    check(&pool.check(&[]), 2, &["is in use by another process"]);
    check(&pool.check(&["--repair"]), 2, &["is in use by another process"]);
    drop(held);
    fs::write(&pool.path, vec![1; 20_000]).expect("a file");
    check(&pool.check(&[]), 2, &["not a Perdura pool"]);
    fs::write(&pool.path, []).expect("a file");
    check(&pool.check(&[]), 2, &["no pool was made in it"]);
    fs::remove_file(&pool.path).expect("the file");
    check(&pool.check(&[]), 2, &["No such file"]);
    check(&pool.check(&["--repair"]), 2, &["No such file"]);
    assert!(!pool.path.exists(), "a repair makes no pool");
}

#[test]
fn a_pool_that_was_cut_short_is_damaged() {
    let pool = Pool::new(true);
    let file = OpenOptions::new().write(true).open(&pool.path).expect("the pool");
    let len = file.metadata().expect("a file").len();
    file.set_len(len - 4096).expect("a shorter file");
    check(&pool.check(&[]), 1, &["the pool was cut short"]);
}

#[test]
fn the_help_reports_how_it_ends() {
    let help = |words: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_perdura")).args(words).output().expect("the program runs")
    };
    check(&help(&["--help"]), 0, &["check", "Looks after pools"]);
    check(
        &help(&["check", "--help"]),
        0,
        &["Exit status", "--repair", "the pool is sound", "Examples"],
    );
    check(&help(&["--version"]), 0, &["perdura 0"]);
    check(&help(&["mend"]), 2, &["unrecognized subcommand"]);
}
