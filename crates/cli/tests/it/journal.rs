//! Pools with a journal, as a killed process leaves them: `perdura check` and `perdura salvage`
//! read the journal too, and report its damage.

use crate::common::check;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use heap::{CreateOptions, Geometry, Heap};
use keyspace::{Db, Expire, Keyspace};
use pmem::{DomainRequest, MapOptions, Region};
use serde_json::Value;

const KEYS: usize = 600;
/// Keys after which the journal is synced.
const EACH: usize = 50;
/// Keys that are in the pool's file.
const APPLIED: usize = 200;
const BLOCK: usize = 4096;

struct Pool {
    folder: tempfile::TempDir,
    path: PathBuf,
    journal: PathBuf,
}

fn region(path: &Path, domain: DomainRequest) -> Region {
    let options = MapOptions { domain, journal_size: 4 << 20, ..MapOptions::new(1 << 30) };
    Region::open(path, &options).expect("a region")
}

fn open(path: &Path, domain: DomainRequest) -> Keyspace {
    let heap = Heap::open(region(path, domain), pmem::boot_id()).expect("a pool").0;
    Keyspace::new(heap, 0)
}

fn put(keyspace: &Keyspace, i: usize) {
    let name = format!("key:{i}");
    let key = keyspace.key(name.as_bytes());
    let mut txn = keyspace.begin_one(key.shard(), 0);
    let value = format!("the value of key {i}.");
    txn.strings().set(Db::default(), &key, value.as_bytes(), Expire::Clear).expect("free memory");
    txn.commit().expect("a commit");
}

fn sync(keyspace: &Keyspace) {
    let region = keyspace.heap().region();
    region.sync_up_to(region.appended()).expect("a disk that does not fail");
}

impl Pool {
    /// Makes a pool with keys, the first of them applied, all of them synced.
    fn new() -> Pool {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, journal) = (folder.path().join("a.pool"), folder.path().join("a.pool.journal"));
        let geometry = Geometry { shards: 4, zone_spans: 64, ..Geometry::default() };
        let options = CreateOptions::random(geometry).expect("random bytes");
        let heap = Heap::create(region(&path, DomainRequest::Journal), &options).expect("a pool");
        let keyspace = Keyspace::new(heap, 0);
        for i in 0..KEYS {
            put(&keyspace, i);
            if (i + 1) % EACH == 0 {
                sync(&keyspace);
            }
            if i + 1 == APPLIED {
                keyspace.heap().region().checkpoint().expect("a disk that does not fail");
            }
        }
        drop(keyspace);
        Pool { folder, path, journal }
    }

    fn run(&self, command: &str, more: &[&str]) -> Output {
        let mut program = Command::new(env!("CARGO_BIN_EXE_perdura"));
        program.arg(command).arg(&self.path).args(more).output().expect("the program runs")
    }

    fn salvage(&self, more: &[&str]) -> Output {
        let to = self.new_path();
        fs::remove_file(&to).ok();
        fs::remove_file(to.with_extension("pool.damage")).ok();
        let to = to.to_str().expect("a name");
        self.run("salvage", &[&["--to", to], more].concat())
    }

    fn new_path(&self) -> PathBuf {
        self.folder.path().join("new.pool")
    }

    /// Returns how many keys the new pool has, each with its value.
    fn salvaged(&self) -> usize {
        let keyspace = open(&self.new_path(), DomainRequest::Process);
        let kept = |i: &usize| {
            let name = format!("key:{i}");
            let key = keyspace.key(name.as_bytes());
            let mut txn = keyspace.begin_one(key.shard(), 0);
            let Some(entry) = txn.find(Db::default(), &key) else { return false };
            let value = txn.string(&entry).and_then(|value| value.to_vec()).expect("a string");
            assert_eq!(value, format!("the value of key {i}.").as_bytes());
            true
        };
        let kept = (0..KEYS).filter(kept).count();
        keyspace.heap().close().expect("a clean close");
        kept
    }

    fn files(&self) -> (Vec<u8>, Option<Vec<u8>>) {
        (fs::read(&self.path).expect("the pool"), fs::read(&self.journal).ok())
    }

    /// Changes the journal.
    fn damage(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(&self.journal).expect("the journal");
        change(&mut bytes);
        fs::write(&self.journal, bytes).expect("the journal");
    }

    /// Runs a command that must change nothing.
    #[track_caller]
    fn check_unchanged(&self, status: i32, says: &[&str]) {
        let before = self.files();
        check(&self.run("check", &[]), status, says);
        assert!(before == self.files(), "a file was changed");
    }
}

/// Returns the positions of a journal's batches, by ascending number.
fn batches(journal: &[u8]) -> Vec<usize> {
    let is_batch = |at: &usize| journal[*at..].starts_with(b"PJBATCH\0");
    let mut all: Vec<usize> = (0..journal.len()).step_by(BLOCK).filter(is_batch).collect();
    all.sort_by_key(|at| u64::from_le_bytes(journal[at + 24..at + 32].try_into().expect("8")));
    all
}

#[test]
fn a_pool_that_was_killed_is_checked_with_its_journal_and_neither_file_changes() {
    let pool = Pool::new();
    let says = ["sound: keys=600", "journal: batches=8 bytes=", "ring=524288", "problems=0"];
    pool.check_unchanged(0, &says);
    let json: Value = serde_json::from_slice(&pool.run("check", &["--json"]).stdout).expect("JSON");
    assert_eq!((&json["verdict"], &json["journal"]["batches"]), (&"sound".into(), &8.into()));

    let held = open(&pool.path, DomainRequest::Journal);
    check(&pool.run("check", &[]), 2, &["is in use by another process"]);
    check(&pool.salvage(&[]), 2, &["is in use by another process"]);
    held.heap().close().expect("a clean close");
    drop(held);
    let closed = pool.run("check", &[]);
    check(&closed, 0, &["sound: keys=600"]);
    assert!(!String::from_utf8_lossy(&closed.stdout).contains("journal"));
}

#[test]
fn a_journal_may_be_elsewhere_and_is_not_a_pool() {
    let pool = Pool::new();
    let elsewhere = pool.folder.path().join("elsewhere");
    fs::rename(&pool.journal, &elsewhere).expect("the journal");
    pool.check_unchanged(2, &["a.pool.journal is missing", "say where it is"]);
    let path = elsewhere.to_str().expect("a name");
    check(&pool.run("check", &["--journal", path]), 0, &["sound: keys=600", "batches=8"]);
    check(&pool.salvage(&["--journal", path]), 0, &["everything was copied: keys=600"]);
    assert_eq!(pool.salvaged(), KEYS);
    let mut command = Command::new(env!("CARGO_BIN_EXE_perdura"));
    let output = command.arg("check").arg(&elsewhere).output().expect("the program runs");
    check(&output, 2, &["is the journal of a pool: name the pool"]);
}

#[test]
fn each_problem_of_a_journal_is_named_with_a_way_on() {
    let pool = Pool::new();
    let (_, journal) = pool.files();
    let journal = journal.expect("the journal");
    type Case<'c> = (&'c dyn Fn(&mut Vec<u8>), i32, &'c str);
    let cases: [Case<'_>; 6] = [
        (&|bytes| bytes.truncate(30_000), 1, "cut short: expected 532480 bytes, found 30000"),
        (&|bytes| bytes[..8192].fill(0), 1, "superblock are damaged"),
        (&|bytes| bytes.fill(7), 2, "no journal"),
        (&|bytes| (bytes[8] += 1, bytes[BLOCK + 8] += 1).0, 2, "has format 6"),
        (&|bytes| bytes[batches(&journal)[6] + 100] ^= 1, 1, "is not whole, though it was synced"),
        (&|bytes| bytes.clear(), 1, "superblock are damaged"),
    ];
    for (damage, status, says) in cases {
        pool.damage(damage);
        pool.check_unchanged(status, &[says, "`perdura salvage POOL --to NEW`"]);
        check(&pool.run("check", &["--repair"]), status, &[says]);
        fs::write(&pool.journal, &journal).expect("the journal");
    }
    let other = Pool::new();
    fs::copy(&other.journal, &pool.journal).expect("the journal");
    pool.check_unchanged(2, &["belongs to another pool", "put the pool's own back"]);
    fs::write(&pool.journal, &journal).expect("the journal");
    pool.check_unchanged(0, &["sound"]);
}

#[test]
fn copies_that_do_not_belong_together_are_named() {
    let pool = Pool::new();
    let (_, journal) = pool.files();
    open(&pool.path, DomainRequest::Journal).heap().close().expect("a clean close");
    let (closed, _) = pool.files();
    let keyspace = open(&pool.path, DomainRequest::Journal);
    put(&keyspace, KEYS);
    sync(&keyspace);
    drop(keyspace);
    let (newer, newer_journal) = pool.files();
    // An older copy of the journal, and then of the pool.
    fs::write(&pool.journal, journal.expect("the journal")).expect("the journal");
    pool.check_unchanged(2, &["another incarnation of the pool", "put back the two that belong"]);
    fs::write(&pool.journal, newer_journal.expect("the journal")).expect("the journal");
    fs::write(&pool.path, closed).expect("the pool");
    pool.check_unchanged(2, &["another incarnation of the pool: expected journal 0"]);
    check(&pool.salvage(&[]), 1, &["another incarnation", "keys=600"]);
    fs::write(&pool.path, newer).expect("the pool");
    pool.check_unchanged(0, &["sound: keys=601"]);
}

#[test]
fn a_repair_brings_the_pool_up_to_date_with_its_journal() {
    let pool = Pool::new();
    let mut bytes = fs::read(&pool.path).expect("the pool");
    let text = b"the value of key 77.";
    let at = bytes.windows(text.len()).rposition(|part| part == text).expect("the text");
    bytes[at] ^= 1;
    fs::write(&pool.path, bytes).expect("the pool");
    pool.check_unchanged(1, &["key \"key:77\": damaged value", "damaged: keys=600", "batches=8"]);
    let repaired = pool.run("check", &["--repair"]);
    check(&repaired, 3, &["cut out: database 0, key \"key:77\"", "repaired", "batches=8"]);
    // The pool is complete without the journal.
    fs::remove_file(&pool.journal).expect("the journal");
    check(&pool.run("check", &[]), 0, &["sound: keys=599"]);
    let keyspace = open(&pool.path, DomainRequest::Process);
    assert_eq!(keyspace.count(Db::default()).0, 599);
}

#[test]
fn a_salvage_takes_what_the_journal_gives_before_the_damage() {
    let pool = Pool::new();
    check(&pool.salvage(&[]), 0, &["everything was copied: keys=600"]);
    assert_eq!(pool.salvaged(), KEYS);
    let (_, journal) = pool.files();
    let journal = journal.expect("the journal");

    // Three batches after the applied ones are intact.
    let missing = batches(&journal).len() - 5;
    pool.damage(|bytes| bytes[batches(&journal)[missing] + 100] ^= 1);
    let before = pool.files();
    let says = ["is not whole", "what was written after that is missing, or older", "keys=350"];
    check(&pool.salvage(&[]), 1, &says);
    assert!(before == pool.files(), "a file was changed");
    assert_eq!(pool.salvaged(), APPLIED + 3 * EACH);
    pool.damage(|bytes| bytes.truncate(batches(&journal)[missing]));
    check(&pool.salvage(&[]), 1, &["the journal was cut short", "keys=350"]);

    fs::remove_file(&pool.journal).expect("the journal");
    check(&pool.salvage(&[]), 2, &["a.pool.journal is missing", "(--without-journal)"]);
    let says = ["the pool's journal was left out", "keys=200"];
    check(&pool.salvage(&["--without-journal"]), 1, &says);
    assert_eq!(pool.salvaged(), APPLIED);
}
