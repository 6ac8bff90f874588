//! The process ends while a media error is being resolved: at each step, for a page of each kind.
//!
//! A page is lost by truncating the file under its mapping; until it is written again it is lost in
//! each incarnation. The end of the process is a panic: it unwinds through code that writes nothing
//! to the pool. What must be found afterwards: each key has its value, or reading it reports the
//! damage; a stopped store takes no writes; one that was not stopped can be written to, and loses
//! nothing by it.

use heap::{CreateOptions, Geometry, Heap, OpenError};
use keyspace::{Db, Expire, Keyspace};
use pmem::{DomainRequest, MapOptions, Region, panic_after};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

const PAGE: u64 = 4096;
/// The file's content for a page that cannot be read.
const BAD: u8 = 0xaa;
const KEYS: usize = 200;
const GEOMETRY: Geometry = Geometry { shards: 1, ring_parts: 4, ring_part: 4096, zone_spans: 12 };
/// In the area of the only shard, the hint that says which record was fenced.
const HINT: u64 = 3 * PAGE + 64;
const RING: u64 = 16384;
const ZONES: u64 = 65536;

fn region(path: &Path) -> Region {
    let domain = DomainRequest::Clwb;
    let options = MapOptions { domain, emulate: true, ..MapOptions::new(64 << 20) };
    Region::open(path, &options).expect("a mapping")
}

fn name(i: usize) -> String {
    format!("key:{i:05}")
}

fn value(i: usize) -> String {
    format!("the value of key {i}, which is a bit longer")
}

fn set(ks: &Keyspace, i: usize) -> bool {
    let (name, value) = (name(i), value(i));
    let key = ks.key(name.as_bytes());
    let mut txn = ks.begin_one(key.shard(), 0);
    let done = txn.strings().set(Db::default(), &key, value.as_bytes(), Expire::Clear);
    done.is_ok() && txn.commit().is_ok()
}

/// Reads like a server; returns an error if the damage is reported.
fn get(ks: &Keyspace, i: usize) -> Result<Option<String>, ()> {
    loop {
        let losses = ks.losses();
        let name = name(i);
        let key = ks.key(name.as_bytes());
        if ks.key_damage(Db::default(), &key).is_some() {
            return Err(());
        }
        let mut txn = ks.begin_one(key.shard(), 0);
        let entry = txn.find(Db::default(), &key);
        let text = entry.map(|entry| txn.string(&entry).and_then(|text| text.to_vec()));
        drop(txn);
        if !ks.has_lost_since(losses) {
            let text = text.transpose().map_err(|_| ())?;
            return Ok(text.map(|text| String::from_utf8_lossy(&text).into_owned()));
        }
        ks.resolve_losses();
    }
}

/// A pool in use, whose process is about to end.
struct Incarnation {
    path: PathBuf,
    ks: Keyspace,
}

/// Loses a page of a mapped pool.
fn lose(path: &Path, region: &Region, page: u64) {
    let mut bytes = fs::read(path).expect("the pool");
    bytes[page as usize..][..PAGE as usize].fill(BAD);
    let file = OpenOptions::new().write(true).open(path).expect("the pool");
    file.set_len(page).expect("a shorter file");
    region.load(page);
    file.write_all_at(&bytes[page as usize..], page).expect("what cannot be read, and the rest");
    assert!(region.has_unresolved_losses());
}

impl Incarnation {
    /// Opens a pool on a medium with a page that may still be bad.
    fn open(path: &Path, page: u64) -> Result<Incarnation, OpenError> {
        let region = region(path);
        let bytes = fs::read(path).expect("the pool");
        if bytes[page as usize..][..PAGE as usize] == [BAD; PAGE as usize] {
            lose(path, &region, page);
        }
        let (heap, _) = Heap::open(region, [0; 16])?;
        Ok(Incarnation { path: path.to_owned(), ks: Keyspace::new(heap, 0) })
    }

    fn lose(&self, page: u64) {
        lose(&self.path, self.ks.heap().region(), page);
    }

    /// Resolves the loss, and ends at the `place`th step of that; returns true if it got that far.
    fn ends_at(self, place: u64) -> bool {
        panic_after(Some(place));
        let done = catch_unwind(AssertUnwindSafe(|| self.ks.resolve_losses()));
        panic_after(None);
        done.is_err()
    }

    /// Checks what a client finds; `what` is for messages.
    fn check(&self, what: &str) {
        self.ks.resolve_losses();
        for i in 0..KEYS {
            let found = get(&self.ks, i);
            assert!(found.is_err() || found == Ok(Some(value(i))), "{what}: key {i} is {found:?}");
        }
        if self.ks.stopped().is_some() {
            return assert!(!set(&self.ks, KEYS), "{what}: a stopped store took a write");
        }
        assert!((KEYS..2 * KEYS).all(|i| set(&self.ks, i)), "{what}: a write was refused");
        for i in 0..2 * KEYS {
            let found = get(&self.ks, i);
            let is_reported = found.is_err() && i < KEYS;
            assert!(is_reported || found == Ok(Some(value(i))), "{what}: key {i} became {found:?}");
        }
    }
}

/// Creates a pool with keys, left by the end of its process.
fn pool(path: &Path) -> Vec<u8> {
    let options = CreateOptions { geometry: GEOMETRY, ..CreateOptions::default() };
    let heap = Heap::create(region(path), &options).expect("a pool");
    let ks = Keyspace::new(heap, 0);
    assert!((0..KEYS).all(|i| set(&ks, i)));
    drop(ks);
    fs::read(path).expect("the pool")
}

/// Returns one page of each kind: what it holds, and whether a store that lost it takes no more
/// writes.
fn pages(pool: &[u8]) -> Vec<(&'static str, u64, bool)> {
    let entry = |i: usize| {
        let text = format!("{}the value", name(i));
        let found = pool.windows(text.len()).position(|bytes| bytes == text.as_bytes());
        found.expect("the key") as u64 & !(PAGE - 1)
    };
    let is_slot = |word: &&[u8]| word[6] != 0 && word[7] != 0 && word[4..6] == [0, 0];
    let slots = |page: &[u8]| page.chunks(8).filter(is_slot).count();
    let index = (ZONES / PAGE..pool.len() as u64 / PAGE)
        .filter(|page| page % 16 != 0)
        .max_by_key(|page| slots(&pool[(page * PAGE) as usize..][..PAGE as usize]));
    vec![
        ("a header", 0, false),
        ("the other header", PAGE, false),
        ("the number of zones", 2 * PAGE, false),
        ("a shard's roots", 3 * PAGE, true),
        ("a log", RING, false),
        ("the span table", ZONES, true),
        ("a bitmap", entry(0) & !0xffff, true),
        ("entries", entry(KEYS / 2), false),
        ("an index", index.expect("pages") * PAGE, false),
    ]
}

/// The process ends at every `stride`th step of the resolution, and in every second case once more
/// in the next one's.
pub(crate) fn a_loss_is_resolved_or_recorded_whenever_the_process_ends(stride: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let bytes = pool(&path);
    for (kind, page, stops) in pages(&bytes) {
        for place in (0..).step_by(stride as usize) {
            let what = format!("the process ended at step {place} after the loss of {kind}");
            fs::write(&path, &bytes).expect("the pool");
            let incarnation = Incarnation::open(&path, page).expect("a pool");
            assert!(set(&incarnation.ks, 0), "what the log has to keep");
            incarnation.lose(page);
            let ended = incarnation.ends_at(place);
            if place % 2 == 1
                && let Ok(incarnation) = Incarnation::open(&path, page)
            {
                incarnation.ends_at(place / 2);
            }
            match Incarnation::open(&path, page) {
                Ok(incarnation) => {
                    let is_stopped = incarnation.ks.stopped().is_some();
                    assert!(ended || is_stopped == stops, "{what}: stopped is {is_stopped}");
                    incarnation.check(&what);
                }
                // The log may have continued in the lost bytes: that is reported too.
                Err(OpenError::LostLog { .. } | OpenError::DamagedLog { .. })
                    if ended && (page == RING || page == 3 * PAGE) => {}
                Err(error) => panic!("{what}: {error}"),
            }
            if !ended {
                break;
            }
        }
    }
}

/// Each page of the log is lost once, one of them with the newest record. The loss is resolved, and
/// the process ends; the hint that the record was fenced is not there either.
pub(crate) fn a_log_that_lost_its_newest_record_is_opened_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let bytes = pool(&path);
    for page in (RING..RING + 4 * PAGE).step_by(PAGE as usize) {
        let what = format!("the page of the log at {page:#x} was lost");
        fs::write(&path, &bytes).expect("the pool");
        let incarnation = Incarnation::open(&path, page).expect("a pool");
        // More than a page of records, so that others are left.
        assert!((0..KEYS).all(|i| set(&incarnation.ks, i)));
        incarnation.lose(page);
        assert!(!incarnation.ends_at(u64::MAX), "{what}: the resolution ended early");
        let file = OpenOptions::new().write(true).open(&path).expect("the pool");
        file.write_all_at(&[0; 8], HINT).expect("a pool without a hint");
        match Incarnation::open(&path, page) {
            Ok(incarnation) => incarnation.check(&what),
            Err(error) => panic!("{what}: {error}"),
        }
    }
}
