//! `perdura salvage` as a program: a remedy for each error of opening, its output, its exit status,
//! and that it changes nothing.

use crate::common::check;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use heap::{CreateOptions, Geometry, Heap, OpenError};
use keyspace::{Db, Expire, Keyspace};
use pmem::{DomainRequest, MapOptions, Region};
use serde_json::Value;

const KEYS: usize = 500;
const LATER: u64 = 1 << 45;
const AREAS: usize = 12288;
const RINGS: usize = AREAS + 4 * 2048;
const RING: usize = 8 * 32768;
const ZONES: usize = (RINGS + 4 * RING).next_multiple_of(65536);

fn region(path: &Path) -> Region {
    let options = MapOptions { domain: DomainRequest::Process, ..MapOptions::new(1 << 30) };
    Region::open(path, &options).expect("a region")
}

struct Pool {
    folder: tempfile::TempDir,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Pool {
    /// Makes a pool with some keys; closed, or as a killed process leaves it; of this boot of the
    /// machine, or of another.
    fn new(closed: bool, boot: [u8; 16]) -> Pool {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.pool");
        let geometry = Geometry { shards: 4, zone_spans: 64, ..Geometry::default() };
        let options = CreateOptions::random(geometry).expect("random bytes");
        let options = CreateOptions { boot_id: boot, ..options };
        let keyspace = Keyspace::new(Heap::create(region(&path), &options).expect("a pool"), 0);
        for i in 0..KEYS {
            let name = format!("key:{i}");
            let key = keyspace.key(name.as_bytes());
            let expire = if i % 5 == 0 { Expire::At(LATER) } else { Expire::Clear };
            let mut txn = keyspace.begin_one(key.shard(), 0);
            let value = format!("the value of key {i}.");
            txn.strings().set(Db::default(), &key, value.as_bytes(), expire).expect("free memory");
            txn.commit().expect("a commit");
        }
        if closed {
            keyspace.heap().close().expect("a clean close");
        }
        drop(keyspace);
        let bytes = fs::read(&path).expect("the pool");
        Pool { folder, path, bytes }
    }

    fn damage(&self, damage: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.bytes.clone();
        damage(&mut bytes);
        fs::write(&self.path, bytes).expect("the pool");
    }

    fn new_path(&self) -> PathBuf {
        self.folder.path().join("new.pool")
    }

    fn remove_new(&self) {
        fs::remove_file(self.new_path()).expect("the new pool");
        // There is no list if nothing was damaged.
        fs::remove_file(self.folder.path().join("new.pool.damage")).ok();
    }

    fn salvage(&self, more: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perdura"));
        command.arg("salvage").arg(&self.path).arg("--to").arg(self.new_path()).args(more);
        command.output().expect("the program runs")
    }

    fn check_new(&self, says: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perdura"));
        check(&command.arg("check").arg(self.new_path()).output().expect("a run"), 0, says);
    }

    /// Returns why the pool is refused.
    fn refusal(&self) -> OpenError {
        let copy = self.folder.path().join("copy");
        fs::copy(&self.path, &copy).expect("a copy");
        let refused = Heap::open(region(&copy), pmem::boot_id()).expect_err("a damaged pool");
        fs::remove_file(copy).expect("the copy");
        refused
    }

    /// Returns how many keys are in the new pool with their value and expiry time; checks that
    /// there are no others.
    fn kept(&self) -> usize {
        let heap = Heap::open(region(&self.new_path()), pmem::boot_id()).expect("a pool").0;
        let keyspace = Keyspace::new(heap, 0);
        let mut kept = 0;
        for i in 0..KEYS {
            let name = format!("key:{i}");
            let key = keyspace.key(name.as_bytes());
            let mut txn = keyspace.begin_one(key.shard(), 0);
            let Some(entry) = txn.find(Db::default(), &key) else { continue };
            let value = txn.string(&entry).and_then(|value| value.to_vec()).expect("a string");
            assert_eq!(value, format!("the value of key {i}.").as_bytes());
            assert_eq!(txn.properties(&entry).expiry(), (i % 5 == 0).then_some(LATER));
            kept += 1;
        }
        assert_eq!(keyspace.count(Db::default()).0, kept as u64);
        keyspace.heap().close().expect("a clean close");
        kept
    }
}

/// Changes both copies of the header, and their checksums with them.
fn rewrite(bytes: &mut [u8], change: impl Fn(&mut [u8])) {
    for copy in [0, 4096] {
        change(&mut bytes[copy..copy + 192]);
        let crc = heap::crc32c(&bytes[copy + 16..copy + 192]);
        bytes[copy + 12..copy + 16].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Records that a page was lost, like a process before it repairs one.
fn lose(bytes: &mut [u8], at: usize) {
    let (number, lines) = ((at / 4096) as u64, u64::MAX);
    let mut entry = [0; 16];
    entry[..8].copy_from_slice(&number.to_le_bytes());
    entry[8..].copy_from_slice(&lines.to_le_bytes());
    let word = 1 << 63 | u64::from(heap::crc32c(&entry) >> 9) << 40 | number;
    bytes[768..776].copy_from_slice(&word.to_le_bytes());
    bytes[776..784].copy_from_slice(&lines.to_le_bytes());
    bytes[at..at + 4096].fill(0);
}

/// Returns the end of the log of shard 0.
fn log_end(bytes: &[u8]) -> usize {
    let ring = &bytes[RINGS..RINGS + RING];
    RINGS + ring.iter().rposition(|byte| *byte != 0).expect("a record")
}

#[test]
fn a_sound_pool_is_copied_and_keeps_every_byte() {
    for closed in [true, false] {
        let pool = Pool::new(closed, pmem::boot_id());
        check(&pool.salvage(&[]), 0, &["everything was copied: keys=500 expiring=100", "lost=0"]);
        assert!(pool.bytes == fs::read(&pool.path).expect("the pool"), "the file was changed");
        pool.check_new(&["sound", "keys=500"]);
        assert_eq!(pool.kept(), KEYS);
        let left = fs::read_dir(pool.folder.path()).expect("the folder").count();
        assert_eq!(left, 2, "the pool and the new one");
    }
}

/// The remedy in each error's text is tried: one that loses keys says so, and the others are kept.
#[test]
fn every_error_of_opening_has_a_way_out_that_works() {
    type Damage = fn(&mut Vec<u8>);
    let boot = pmem::boot_id();
    let (closed, killed) = (Pool::new(true, boot), Pool::new(false, boot));
    let elsewhere = Pool::new(false, [7; 16]);
    let all: [(&str, &Pool, Damage, i32); 10] = [
        ("Magic", &closed, |bytes| [0, 4096].into_iter().for_each(|at| bytes[at] = b'X'), 0),
        ("NoHeader", &closed, |bytes| bytes[..8192].fill(0), 1),
        (
            "HeaderChecksum",
            &closed,
            |bytes| [16, 80, 4112, 4176].into_iter().for_each(|at| bytes[at] ^= 9),
            1,
        ),
        ("Truncated", &closed, |bytes| bytes.truncate(ZONES + 30 * 65536), 0),
        ("DamagedZones", &closed, |bytes| bytes[8192..8200].fill(0), 0),
        ("OtherBoot", &elsewhere, |_| {}, 1),
        (
            "DamagedLog",
            &killed,
            |bytes| {
                let end = log_end(bytes) & !63;
                bytes[end - 640..end - 320].fill(0);
            },
            0,
        ),
        (
            "LostLog",
            &killed,
            |bytes| {
                let page = log_end(bytes) / 4096 * 4096 + 4096;
                lose(bytes, page);
            },
            1,
        ),
        ("DamagedTail", &closed, |bytes| bytes[AREAS..AREAS + 8].fill(0xff), 0),
        ("Exhausted", &closed, |bytes| rewrite(bytes, |header| header[72..76].fill(0xff)), 0),
    ];
    for (name, pool, damage, status) in all {
        pool.damage(damage);
        let refused = pool.refusal();
        let variant = format!("{refused:?}");
        assert!(variant.starts_with(name), "{name}: {variant}");
        assert!(refused.to_string().contains("`perdura salvage POOL --to NEW`"), "{refused}");
        let done = pool.salvage(&[]);
        assert_eq!(done.status.code(), Some(status), "{name}: {done:?}");
        check(&done, status, &["keys=500", "lost=0"]);
        pool.check_new(&["sound", "keys=500"]);
        assert_eq!(pool.kept(), KEYS, "{name}");
        pool.remove_new();
    }
}

#[test]
fn a_pool_of_another_program_is_left_to_that() {
    type Change = fn(&mut [u8]);
    let pool = Pool::new(true, pmem::boot_id());
    let all: [(&str, Change, &str); 5] = [
        ("Version", |header| header[8] = 1, "the program that made it"),
        ("Version", |header| header[8] = 99, "use a newer program"),
        ("Features", |header| header[32] = 4, "use a newer program"),
        ("Reserved", |header| header[109] = 1, "a newer program"),
        ("Geometry", |header| header[56] = 0, "a newer program"),
    ];
    for (name, change, way) in all {
        pool.damage(|bytes| rewrite(bytes, change));
        let refused = pool.refusal();
        assert!(format!("{refused:?}").starts_with(name), "{refused:?}");
        assert!(refused.to_string().contains(way), "{refused}");
        check(&pool.salvage(&[]), 2, &[way]);
        assert!(!pool.new_path().exists());
    }
    // A copy may be read.
    pool.damage(|bytes| rewrite(bytes, |header| header[24] = 1));
    assert!(matches!(pool.refusal(), OpenError::ReadOnly { .. }));
    check(&pool.salvage(&[]), 0, &["keys=500"]);
}

#[test]
fn what_is_lost_is_named_and_reported_as_json() {
    let pool = Pool::new(true, pmem::boot_id());
    let text = b"the value of key 77.";
    let at = pool.bytes.windows(text.len()).rposition(|part| part == text).expect("the text");
    pool.damage(|bytes| bytes[at] ^= 1);
    let says = [
        "lost: database 0, key \"key:77\": damaged value at offset",
        "something is lost: keys=499",
        "lost=1",
    ];
    check(&pool.salvage(&[]), 1, &says);
    assert_eq!(pool.kept(), KEYS - 1);
    pool.remove_new();
    let output = pool.salvage(&["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&printed["verdict"], &printed["keys"]), (&"lost".into(), &499.into()));
    let finding = &printed["findings"][0];
    assert_eq!((&finding["kind"], &finding["key"]), (&"key".into(), &"key:77".into()));
}

#[test]
fn a_long_list_is_written_to_a_file_and_summed_up() {
    let pool = Pool::new(true, pmem::boot_id());
    pool.damage(|bytes| {
        for n in 100..150 {
            let text = format!("the value of key {n}.");
            let at = bytes.windows(text.len()).rposition(|part| part == text.as_bytes());
            bytes[at.expect("the text")] ^= 1;
        }
    });
    let list = pool.folder.path().join("new.pool.damage");
    let output = pool.salvage(&[]);
    check(&output, 1, &["... and 30 more", "damaged: 50 (key=50); the whole list: ", "lost=50"]);
    let shown = String::from_utf8_lossy(&output.stderr).lines().count();
    assert_eq!(shown, 22, "twenty of the list, and two lines of the summary");
    let text = fs::read_to_string(&list).expect("the list");
    assert_eq!(text.lines().filter(|line| line.starts_with("lost: database 0, key ")).count(), 50);
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&list).expect("it").permissions());
    assert_eq!(mode & 0o777, 0o600);
    fs::remove_file(pool.new_path()).expect("the new pool");
    // Nothing is begun that could not be reported.
    check(&pool.salvage(&[]), 2, &["new.pool.damage: it is there already"]);
    assert!(!pool.new_path().exists());
    let other = pool.folder.path().join("list").display().to_string();
    check(&pool.salvage(&["--list", &other]), 1, &["the whole list: "]);
    assert_eq!(fs::read_to_string(other).expect("the list"), text);
}

#[test]
fn keys_of_unknown_databases_go_where_the_command_line_says() {
    let pool = Pool::new(true, pmem::boot_id());
    // Without its root words and counts, the databases of a shard's keys are unknown.
    pool.damage(|bytes| bytes[AREAS + 1024..AREAS + 2048].fill(0));
    let says = ["its root words are lost", "which database it is of", "--unplaced N puts"];
    check(&pool.salvage(&[]), 1, &says);
    assert!(pool.kept() < KEYS);
    pool.remove_new();
    check(&pool.salvage(&["--unplaced", "0"]), 1, &["put into database 0", "keys=500"]);
    assert_eq!(pool.kept(), KEYS);
    check(&pool.salvage(&["--unplaced", "16"]), 2, &["16 is not in 0..16"]);
}

#[test]
fn what_cannot_be_done_is_refused_and_leaves_nothing() {
    let pool = Pool::new(true, pmem::boot_id());
    fs::write(pool.new_path(), "something").expect("a file");
    check(&pool.salvage(&[]), 2, &["new.pool: it is there already"]);
    assert_eq!(fs::read(pool.new_path()).expect("the file"), b"something");
    fs::remove_file(pool.new_path()).expect("the file");
    let held = region(&pool.path);
    check(&pool.salvage(&[]), 2, &["in use by another process"]);
    drop(held);
    pool.damage(|bytes| bytes.fill(0));
    check(&pool.salvage(&[]), 2, &["it is empty: no pool was made in it"]);
    pool.damage(|bytes| bytes.fill(b'x'));
    check(&pool.salvage(&[]), 2, &["not a Perdura pool", "looks like the spans of a pool"]);
    fs::remove_file(&pool.path).expect("the pool");
    check(&pool.salvage(&[]), 2, &["No such file"]);
    let left = fs::read_dir(pool.folder.path()).expect("the folder").count();
    assert_eq!(left, 0, "nothing is left");
}
