//! Copies of an open store: of one moment, sound, and complete or absent.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use perdura::prelude::*;
use perdura::{BackupError, DomainRequest, Durability, Error, Options, Perdura, StreamId, Table};

const LIMIT: u64 = 64 << 20;

/// For tests that make temporary files, or count them.
static TEMPORARY: Mutex<()> = Mutex::new(());

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder");
    let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<_> =
        entries.map(|entry| name(entry).into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

fn all<T>(iter: impl Iterator<Item = Result<T, Error>>) -> Vec<T> {
    iter.collect::<Result<_, _>>().expect("no error")
}

/// Makes keys of each type and size, in two databases.
fn fill(store: &Perdura) {
    store.set("short", "v").expect("space");
    store.set("int", "12345").expect("space");
    store.set("long", (0..400_000_u32).map(|n| (n / 7) as u8).collect::<Vec<_>>()).expect("space");
    store.set_for("session", "token", Duration::from_secs(3600)).expect("space");
    let rows: Table<u32, String> = store.table("rows");
    for n in 0..3000_u32 {
        store.push_back("list", n.to_string()).expect("space");
        store.hash_set("hash", format!("f{n}"), n.to_string()).expect("space");
        store.set_add("set", n.to_string()).expect("space");
        store.sorted_set_add("scores", n.to_string(), f64::from(n) / 7.0).expect("space");
        store.append_entry("log", [("n", n.to_string())]).expect("space");
        rows.insert(n, &n.to_string()).expect("space");
    }
    store.hash_expire("hash", "f7", Duration::from_secs(3600)).expect("space");
    store.create_group("log", "workers", StreamId::MIN).expect("space");
    store.read_group("log", "workers", "anna", 10).expect("space");
    store.database(3).and_then(|three| three.set("elsewhere", "v")).expect("space");
}

/// Compares all keys that `fill` has made.
fn compare(one: &Perdura, other: &Perdura) {
    for key in ["short", "int", "long", "session"] {
        assert!(one.get(key) == other.get(key), "{key}");
    }
    let lasts =
        |store: &Perdura| store.ttl("session").map(|ttl| ttl.map(|ttl| ttl.as_secs() / 600));
    assert_eq!(lasts(one), lasts(other));
    let field = |store: &Perdura| store.hash_ttl("hash", "f7").map(|ttl| ttl.is_some());
    assert_eq!((field(one), field(other)), (Ok(true), Ok(true)));
    assert!(all(one.list_iter("list")) == all(other.list_iter("list")));
    let sorted = |store: &Perdura| {
        let (mut fields, mut members) = (all(store.hash_iter("hash")), all(store.set_iter("set")));
        fields.sort();
        members.sort();
        (fields, members)
    };
    assert!(sorted(one) == sorted(other));
    assert!(all(one.sorted_set_iter("scores")) == all(other.sorted_set_iter("scores")));
    assert!(all(one.sorted_set_iter("rows")) == all(other.sorted_set_iter("rows")));
    assert!(all(one.stream_iter("log", ..)) == all(other.stream_iter("log", ..)));
    assert!(all(one.pending_iter("log", "workers")) == all(other.pending_iter("log", "workers")));
    let elsewhere = |store: &Perdura| store.database(3).and_then(|three| three.get("elsewhere"));
    assert_eq!(elsewhere(one), elsewhere(other));
    assert_eq!(one.len(), other.len());
}

fn open(path: &Path) -> Perdura {
    let options = Options::new(path).domain(DomainRequest::Process).limit(2 * LIMIT);
    Perdura::open(options.background(false)).expect("a sound pool")
}

#[test]
fn a_store_of_any_domain_is_copied_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = |name: &str| Options::new(folder.path().join(name)).limit(LIMIT).background(false);
    let stores = [
        Options::volatile().limit(LIMIT).background(false),
        pool("clwb").domain(DomainRequest::Clwb).emulate_pmem(true),
        pool("journal").domain(DomainRequest::Journal).durability(Durability::Os),
    ];
    for (n, options) in stores.into_iter().enumerate() {
        let store = Perdura::open(options).expect("a store");
        fill(&store);
        let path = folder.path().join(format!("copy{n}"));
        let backup = store.backup(&path).expect("a copy");
        assert_eq!((backup.keys, backup.expired), (store.len() + 1, 0));
        assert_eq!(backup.bytes, fs::metadata(&path).expect("the copy").len());
        let copy = open(&path);
        compare(&store, &copy);
        assert_eq!(copy.check().expect("no transaction").expect("a sound copy").keys, backup.keys);
        // The same with a writer.
        let _alone = TEMPORARY.lock().expect("no panic");
        let mut bytes = Vec::new();
        assert_eq!(store.backup_to(&mut bytes).expect("a copy").keys, backup.keys);
        let written = folder.path().join(format!("written{n}"));
        fs::write(&written, &bytes).expect("space");
        compare(&store, &open(&written));
        // A copy of the copy, with the journal that an ordinary disk has.
        drop(copy);
        let opened = Perdura::open(Options::new(&path).domain(DomainRequest::Journal)).expect("it");
        compare(&store, &opened);
    }
}

#[test]
fn a_key_that_has_expired_and_is_not_deleted_yet_makes_no_copy_unsound() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::volatile().limit(LIMIT).background(false);
    let store = Perdura::open(options).expect("a store");
    store.set("kept", "value").expect("space");
    for key in ["short", "long"] {
        let value = "v".repeat(if key == "long" { 10_000 } else { 10 });
        store.set_for(key, &value, Duration::from_millis(1)).expect("space");
    }
    std::thread::sleep(Duration::from_millis(5));
    let backup = store.backup(folder.path().join("copy")).expect("a copy");
    assert_eq!(backup.keys + backup.expired, 3);
    let copy = open(&folder.path().join("copy"));
    assert_eq!(copy.get("kept"), Ok(Some(b"value".to_vec())));
    assert_eq!(copy.get("short"), Ok(None));
}

#[test]
fn a_copy_under_writes_is_of_one_moment() {
    const PAIRS: u64 = 300;
    let folder = tempfile::tempdir().expect("a folder");
    let store = Perdura::open(Options::volatile().limit(8 * LIMIT)).expect("a store");
    let put = |n: u64| {
        let keys = [format!("a:{}", n % PAIRS), format!("b:{}", n % PAIRS)];
        let value = format!("{n}:{}", "v".repeat(n as usize % 400));
        store.transaction(&keys, |tx| {
            tx.set(&keys[0], &value)?;
            tx.set(&keys[1], &value)
        })
    };
    (0..PAIRS).for_each(|n| put(n).expect("space"));
    let copies: Vec<_> = (0..4).map(|n| folder.path().join(format!("{n}.pool"))).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (stop, put) = (&stop, &put);
            scope.spawn(move || {
                (PAIRS..).take_while(|_| !stop.load(Relaxed)).for_each(|n| {
                    put(2 * n + writer).expect("no write is refused because of a copy");
                    std::thread::sleep(Duration::from_micros(20));
                });
            });
        }
        // Two at a time, while a snapshot is open too.
        let snapshot = store.snapshot().expect("none is open");
        for pair in copies.chunks(2) {
            let store = &store;
            let made: Vec<_> =
                pair.iter().map(|path| scope.spawn(move || store.backup(path))).collect();
            for backup in made {
                let backup = backup.join().expect("no panic").expect("a copy");
                assert_eq!(backup.keys, 2 * PAIRS);
            }
        }
        for path in copies.iter() {
            let copy = open(path);
            for n in 0..PAIRS {
                let [a, b] = [copy.get(format!("a:{n}")), copy.get(format!("b:{n}"))];
                assert!(a == b && a.is_ok_and(|a| a.is_some()), "pair {n}");
            }
        }
        let shown = snapshot.keys().count();
        stop.store(true, Relaxed);
        assert_eq!(shown as u64, 2 * PAIRS);
    });
    assert!(store.check().expect("no transaction").is_ok());
}

/// A writer that fails after some bytes.
struct Failing(usize);

impl Write for Failing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let len = bytes.len().min(self.0);
        self.0 -= len;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_fails_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Perdura::open(Options::volatile().limit(LIMIT)).expect("a store");
    store.set("key", "value").expect("space");
    let _alone = TEMPORARY.lock().expect("no panic");
    let full: [Box<dyn Write>; 3] = [
        Box::new(Failing(0)),
        Box::new(Failing(100_000)),
        Box::new(File::options().write(true).open("/dev/full").expect("a device")),
    ];
    let temporary = || {
        let of_this = |name: &String| name.contains(&format!(".{}.part", std::process::id()));
        names(&std::env::temp_dir()).into_iter().filter(of_this).count()
    };
    for to in full {
        let error = store.backup_to(to).expect_err("it fails");
        assert!(matches!(&error, BackupError::Io(why) if why.kind() == io::ErrorKind::StorageFull));
        assert_eq!(temporary(), 0);
    }
    // Existing files are not overwritten, nor if nothing can be made.
    let there = folder.path().join("there");
    fs::write(&there, "mine").expect("space");
    assert!(matches!(store.backup(&there), Err(BackupError::Exists(path)) if path == there));
    assert_eq!(fs::read(&there).expect("it"), b"mine");
    assert!(store.backup(folder.path().join("no/such/folder")).is_err());
    let inside = store.transact(|_| Ok(store.backup(folder.path().join("x")).is_err()));
    assert_eq!(inside, Ok(true));
    assert_eq!(names(folder.path()), ["there"]);
}

/// The part that runs with a limit on the length of files: started by the test after it.
#[test]
#[ignore = "run by another test"]
fn a_copy_where_files_are_limited() {
    let folder = std::env::var_os("BACKUP_FOLDER").expect("a folder");
    let path = Path::new(&folder).join("copy");
    let store = Perdura::open(Options::volatile().limit(LIMIT)).expect("a store");
    let random = (0..30_000_000_u32).map(|n| (n.wrapping_mul(0x9e37_79b1) >> 24) as u8);
    store.set("large", random.collect::<Vec<_>>()).expect("space");
    let error = store.backup(&path).expect_err("there is no space");
    println!("refused: {error}");
    assert_eq!(names(Path::new(&folder)), Vec::<String>::new());
    let again = store.get("large").expect("no error").expect("the value");
    assert_eq!(again.len(), 30_000_000, "the store goes on");
}

#[test]
fn a_file_system_without_space_leaves_nothing() {
    // Space for the beginning of a pool, or for none of it; in blocks of 512 bytes.
    for blocks in ["100", "20000", "40000"] {
        let folder = tempfile::tempdir().expect("a folder");
        let script = format!("trap '' XFSZ; ulimit -S -f {blocks}; exec \"$0\" \"$@\"");
        let mut limited = Command::new("sh");
        limited.args(["-c", &script]).arg(std::env::current_exe().expect("this program"));
        limited.args(["--exact", "backup::a_copy_where_files_are_limited", "--ignored"]);
        limited.args(["--nocapture"]).env("BACKUP_FOLDER", folder.path());
        let output = limited.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("refused: "), "{blocks}: {said}");
    }
}

/// Shards are checked one after the other while other threads write.
#[test]
fn an_open_store_is_checked_while_others_write() {
    let store = Perdura::open(Options::volatile().limit(LIMIT)).expect("a store");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in (0..2000_usize).cycle().take_while(|_| !stop.load(Relaxed)) {
                store.set(format!("k{n}"), vec![1; n]).expect("space");
                store.hash_set("hash", n.to_string(), "v").expect("space");
                store.delete(format!("k{}", n * 7 % 2000)).expect("a commit");
            }
        });
        let snapshot = store.snapshot().expect("none is open");
        for _ in 0..30 {
            store.check().expect("no transaction").expect("a sound store");
        }
        stop.store(true, Relaxed);
        drop(snapshot);
    });
}
