//! A store on an ordinary disk: what survives after a call has returned, under each durability, and
//! what a failing disk costs.
//!
//! Some tests start this program again, as a child that is killed or that has a limit on the length
//! of its files.

use perdura::prelude::*;
use perdura::{Domain, DomainRequest, Durability, Error, OpenError, Options, Perdura};
use std::collections::HashMap;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const ALL: [Durability; 3] =
    [Durability::Immediate, Durability::Interval(Duration::from_millis(20)), Durability::Os];
const RING: u64 = 1 << 20;

fn options(pool: &Path) -> Options {
    Options::new(pool).domain(DomainRequest::Journal).limit(64 << 20).journal_size(RING)
}

/// Returns options with a ring that is longer than what is written before the limit on the files'
/// length.
fn long_ring(pool: &Path) -> Options {
    options(pool).journal_size(48 << 20)
}

struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    fn new() -> Folder {
        Folder { folder: tempfile::tempdir().expect("a folder") }
    }

    fn pool(&self) -> PathBuf {
        self.folder.path().join("pool")
    }

    fn open(&self, durability: Durability) -> Perdura {
        Perdura::open(options(&self.pool()).durability(durability)).expect("a store")
    }

    /// Copies both files as the kernel has them: what a killed process leaves. The journal comes
    /// first, since batches are applied meanwhile.
    fn copied(&self) -> Folder {
        let copy = Folder::new();
        for name in ["pool.journal", "pool"] {
            let from = self.folder.path().join(name);
            fs::copy(from, copy.folder.path().join(name)).expect("a copy");
        }
        copy
    }
}

fn integer(store: &Perdura, key: &str) -> i64 {
    let value = store.get(key).expect("a value").unwrap_or_else(|| b"0".to_vec());
    String::from_utf8(value).expect("text").parse().expect("a number")
}

#[test]
fn an_ordinary_file_gets_a_journal_and_another_domain_opens_it_when_it_was_closed() {
    let folder = Folder::new();
    // If this folder's file system is persistent memory, there is no journal.
    let store = Perdura::open(Options::new(folder.pool()).limit(64 << 20)).expect("a store");
    assert!(matches!(store.domain(), Domain::Journal | Domain::Clwb | Domain::Eadr));
    store.close().expect("a clean close");

    for domain in [DomainRequest::Journal, DomainRequest::Msync, DomainRequest::Process] {
        let options = options(&folder.pool()).domain(domain);
        let store = Perdura::open(options).expect("what was closed opens");
        store.increment("openings", 1).expect("free memory");
        store.close().expect("a clean close");
    }
    let store = folder.open(Durability::Immediate);
    assert_eq!(integer(&store, "openings"), 3);
    store.increment("openings", 1).expect("free memory");
    drop(store);
    let refused = Perdura::open(options(&folder.pool()).domain(DomainRequest::Process));
    let Err(OpenError::Journal(error)) = refused else { panic!("it opened without its journal") };
    assert!(error.to_string().contains("open it with domain journal"), "{error}");
    assert_eq!(integer(&folder.open(Durability::Os), "openings"), 4);
}

#[test]
fn what_returned_is_in_the_files_under_each_durability() {
    for durability in ALL {
        let folder = Folder::new();
        let store = folder.open(durability);
        let large = vec![7; 300_000];
        for n in 1..=50 {
            store.increment("n", 1).expect("free memory");
            store.set("large", &large).expect("free memory");
            store
                .transaction(&["a", "b"], |tx| {
                    tx.increment("a", -1)?;
                    tx.increment("b", 1)
                })
                .expect("free memory");
            if n % 10 == 0 {
                let copy = folder.copied().open(durability);
                let found = ["n", "a", "b"].map(|key| integer(&copy, key));
                assert_eq!(found, [n, -n, n], "{durability:?}");
                assert_eq!(copy.get("large").expect("a value"), Some(large.clone()));
            }
        }
        store.flush().expect("a disk that does not fail");
        assert_eq!(store.journal_failure(), None);
        let inside = store.transaction(&["n"], |_| store.flush());
        assert_eq!(inside, Err(Error::Reentrant));
    }
    Perdura::open(Options::volatile()).expect("a store").flush().expect("nothing to wait for");
}

/// Starts this program again to run one test; `what` tells the test what to do.
fn child(test: &str, what: &str, pool: &Path, limit: Option<u64>) -> Child {
    let mut command = match limit {
        None => Command::new(env::current_exe().expect("this program")),
        Some(bytes) => {
            // A write beyond the limit is an error, not a signal. The limit is in units of 512
            // bytes.
            let mut shell = Command::new("sh");
            let limit = format!("trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"", bytes / 512);
            shell.arg("-c").arg(limit).arg(env::current_exe().expect("this program"));
            shell
        }
    };
    command
        .args([test, "--exact", "--nocapture"])
        .env("JOURNAL_CHILD", what)
        .env("JOURNAL_POOL", pool)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child")
}

/// Returns a child's messages, one after the other.
fn says(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let output = child.stdout.take().expect("its output");
    let lines = BufReader::new(output).lines().map(|line| line.expect("a line"));
    lines.filter_map(|line| Some(line.split_once("child: ")?.1.to_owned()))
}

fn say(text: impl std::fmt::Display) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "child: {text}").expect("a parent that listens");
    output.flush().expect("a parent that listens");
}

fn the_child() -> Option<(String, PathBuf)> {
    Some((env::var("JOURNAL_CHILD").ok()?, PathBuf::from(env::var_os("JOURNAL_POOL")?)))
}

#[test]
fn what_a_killed_child_acknowledged_is_there() {
    if let Some((what, pool)) = the_child() {
        let durability = ALL[what.parse::<usize>().expect("a number")];
        let store = Perdura::open(options(&pool).durability(durability)).expect("a store");
        // More than the journal holds, so that it is applied meanwhile.
        for n in 1.. {
            store
                .transaction(&["n", "text"], |tx| {
                    tx.set("text", format!("{n} ").repeat(500))?;
                    tx.increment("n", 1)
                })
                .expect("free memory");
            say(n);
        }
    }
    for (number, durability) in ALL.into_iter().enumerate() {
        let folder = Folder::new();
        let mut base = 0;
        for kills in [30, 700] {
            let test = "journal::what_a_killed_child_acknowledged_is_there";
            let mut child = child(test, &number.to_string(), &folder.pool(), None);
            let mut acknowledged = 0;
            for line in says(&mut child) {
                acknowledged = line.parse().expect("a number");
                if acknowledged == kills {
                    child.kill().expect("a child");
                }
            }
            child.wait().expect("a child");
            assert!(acknowledged >= kills, "{durability:?}: the child ended by itself");
            let store = folder.open(durability);
            let found = integer(&store, "n");
            assert!(found >= base + acknowledged, "{durability:?}: {found} of {acknowledged}");
            let text = store.get("text").expect("a value").expect("a text");
            let n = (found - base).to_string() + " ";
            assert_eq!(text, n.repeat(500).into_bytes(), "half a transaction");
            base = found;
        }
    }
}

#[test]
fn a_journal_that_fails_is_named_by_every_later_write_and_loses_nothing_acknowledged() {
    if let Some((_, pool)) = the_child() {
        let store = Perdura::open(long_ring(&pool)).expect("a store");
        let text = vec![3; 50_000];
        for n in 1.. {
            let done = store.transaction(&["n", "text"], |tx| {
                tx.set("text", &text)?;
                tx.increment("n", 1)
            });
            match done {
                Ok(_) => say(n),
                Err(error) => {
                    assert_eq!(error, Error::JournalFailed);
                    break;
                }
            }
        }
        for n in 0..10 {
            assert_eq!(store.set(format!("later{n}"), "no"), Err(Error::JournalFailed));
            assert_eq!(store.increment("n", 1), Err(Error::JournalFailed));
        }
        assert_eq!(store.flush(), Err(Error::JournalFailed));
        assert_eq!(store.get("durable"), Ok(Some(b"yes".to_vec())));
        say(store.journal_failure().expect("a cause"));
        assert!(store.close().is_err());
        return;
    }
    let folder = Folder::new();
    let store = Perdura::open(long_ring(&folder.pool())).expect("a store");
    // Most likely in another shard than the others: what is seen there is durable.
    store.set("durable", "yes").expect("free memory");
    store.close().expect("a clean close");
    // Such a ring does not grow.
    let journal = fs::File::options().write(true).open(folder.folder.path().join("pool.journal"));
    journal.and_then(|file| file.set_len((48 << 20) + 8192)).expect("the journal");

    let test = "journal::a_journal_that_fails_is_named_by_every_later_write_and_loses_nothing_acknowledged";
    let mut child = child(test, "", &folder.pool(), Some(24 << 20));
    let said: Vec<String> = says(&mut child).collect();
    assert!(child.wait().expect("a child").success());
    let (cause, acknowledged) = said.split_last().expect("a cause");
    assert!(cause.contains("write to the journal: File too large"), "{cause}");
    let acknowledged: i64 = acknowledged.last().expect("a write").parse().expect("a number");

    let store = Perdura::open(long_ring(&folder.pool())).expect("a store");
    let found = integer(&store, "n");
    assert!((acknowledged..=acknowledged + 1).contains(&found), "{found} of {acknowledged}");
    assert_eq!(store.get("later0"), Ok(None));
    store.set("later0", "yes").expect("it takes writes again");
}

#[test]
fn a_pool_that_cannot_grow_refuses_what_needs_space_and_nothing_else() {
    if let Some((_, pool)) = the_child() {
        let store = Perdura::open(options(&pool).limit(1 << 30)).expect("a store");
        let text = vec![3; 100_000];
        let full = (0..).find_map(|n| store.set(format!("text{n}"), &text).err().map(|e| (n, e)));
        let (count, error) = full.expect("an end");
        assert_eq!(error, Error::Full);
        assert_eq!(store.get("text0"), Ok(Some(text.clone())));
        assert_eq!(store.increment("n", 1), Ok(1));
        assert!(store.delete("text0").expect("a delete needs no space"));
        assert_eq!(store.journal_failure(), None);
        say(count);
        store.close().expect("a clean close");
        return;
    }
    let folder = Folder::new();
    folder.open(Durability::Immediate).close().expect("a clean close");
    let length = fs::metadata(folder.pool()).expect("the pool").len();
    let test = "journal::a_pool_that_cannot_grow_refuses_what_needs_space_and_nothing_else";
    let mut child = child(test, "", &folder.pool(), Some(length + (8 << 20)));
    let said: Vec<String> = says(&mut child).collect();
    assert!(child.wait().expect("a child").success());
    let count: u64 = said.last().expect("a count").parse().expect("a number");
    let store = folder.open(Durability::Immediate);
    assert_eq!(store.len(), count - 1 + 1);
}

#[test]
fn what_threads_of_a_killed_child_acknowledged_and_read_is_there() {
    if let Some((what, pool)) = the_child() {
        let durability = ALL[what.parse::<usize>().expect("a number")];
        let store = Perdura::open(options(&pool).durability(durability)).expect("a store");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let store = &store;
                scope.spawn(move || {
                    for _ in 0.. {
                        let key = format!("n{thread}");
                        let n = store.increment(&key, 1).expect("free memory");
                        say(format!("{key} {n}"));
                        // A value that another thread wrote and that may not be acknowledged yet.
                        let key = format!("n{}", (thread + 1) % 4);
                        say(format!("{key} {}", integer(store, &key)));
                    }
                });
            }
        });
    }
    for (number, durability) in ALL.into_iter().enumerate() {
        let folder = Folder::new();
        let test = "journal::what_threads_of_a_killed_child_acknowledged_and_read_is_there";
        let mut child = child(test, &number.to_string(), &folder.pool(), None);
        let mut said = HashMap::new();
        let mut is_killed = false;
        for (count, line) in says(&mut child).enumerate() {
            let (key, n) = line.split_once(' ').expect("a key and a number");
            let n: i64 = n.parse().expect("a number");
            let most = said.entry(key.to_owned()).or_insert(0);
            *most = n.max(*most);
            // A thread may begin late.
            if count >= 1000 && said.len() == 4 && !is_killed {
                child.kill().expect("a child");
                is_killed = true;
            }
        }
        child.wait().expect("a child");
        let store = folder.open(durability);
        assert_eq!(said.len(), 4);
        for (key, n) in said {
            assert!(integer(&store, &key) >= n, "{durability:?}: {key}");
        }
    }
}

#[test]
fn a_journal_has_the_size_and_the_place_that_were_chosen() {
    let folder = Folder::new();
    let elsewhere = folder.folder.path().join("elsewhere");
    let chosen = |size: u64| {
        Perdura::open(options(&folder.pool()).journal(&elsewhere).journal_size(size))
            .expect("a store")
    };
    let len = || fs::metadata(&elsewhere).expect("the journal").len() - 8192;
    // The minimum, the next multiple, and a change.
    chosen(0).close().expect("a clean close");
    assert_eq!(len(), 64 << 10);
    let store = chosen((1 << 20) + 5000);
    store.set("text", vec![1; 3 << 20]).expect("more than the journal holds");
    store.close().expect("a clean close");
    assert_eq!(len(), (1 << 20) + 4096);
    assert!(!folder.folder.path().join("pool.journal").exists());
    let store = chosen(64 << 10);
    store.set("text", vec![2; 3 << 20]).expect("more than the journal holds");
    drop(store);
    let store = chosen(1 << 20);
    assert_eq!(store.get("text").expect("a value"), Some(vec![2; 3 << 20]));
}

/// The pool's file and its memory keep their size for later writes.
#[test]
fn a_purge_frees_what_deletes_left_and_gives_nothing_back() {
    let folder = Folder::new();
    let store = Perdura::open(options(&folder.pool())).expect("a store");
    let before = store.usage();
    (0..20).for_each(|n| store.set(n.to_string(), vec![7; 1 << 20]).expect("free memory"));
    let full = store.usage();
    assert!(full.used > before.used + (20 << 20), "{full:?}");
    assert!((0..20).all(|n| store.delete(n.to_string()) == Ok(true)));
    assert_eq!(store.purge(), 0);
    let purged = store.usage();
    assert!(purged.used < before.used + (1 << 20), "{purged:?}");
    assert_eq!(purged.size, full.size);
    // The background may have taken space ahead of need since.
    assert!(purged.space >= full.space, "{purged:?}, {full:?}");
}
