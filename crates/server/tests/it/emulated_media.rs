//! Emulation of a slower medium: the counts that commands are charged for. Only in a build with the
//! feature, and run separately, since other tests build the server without it into the same place:
//! `cargo test -p perdura-server --features emulate-media --test it emulated_media::`.

#![cfg(feature = "emulate-media")]
use heap::{CreateOptions, Geometry, Heap};
use keyspace::{Db, Expire, Keyspace};
use pmem::{Charged, Counters, DomainRequest, Emulation, MapOptions, Model, Region};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const NOW: u64 = 1_700_000_000_000;

/// Makes a keyspace on a medium that counts but delays nothing, with a simulated cache of this many
/// bytes.
fn keyspace(pool: &Path, cache: u64) -> Keyspace {
    let map =
        MapOptions { domain: DomainRequest::Clwb, emulate: true, ..MapOptions::new(64 << 20) };
    let region = Region::open(pool, &map).expect("a mapping");
    let region = region.emulating(Emulation::new(Model::COUNTING, cache));
    let geometry = Geometry { shards: 1, ring_parts: 8, ring_part: 32 << 10, zone_spans: 64 };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    let heap = if Heap::is_blank(&region) {
        Heap::create(region, &options).expect("a new pool")
    } else {
        Heap::open(region, [0; 16]).expect("the same pool").0
    };
    Keyspace::new(heap, NOW)
}

/// Returns what `work` was charged for, and what it flushed by the counters of every build.
fn charged(work: impl FnOnce()) -> (Charged, Counters) {
    let (before, counters) = (pmem::charged(), pmem::counters());
    work();
    (pmem::charged().since(&before), pmem::counters().since(&counters))
}

fn set(ks: &Keyspace, key: &str, len: usize) {
    let mut txn = ks.begin_all(NOW);
    let key = txn.key(key.as_bytes());
    txn.strings().set(Db::default(), &key, &vec![b'v'; len], Expire::Clear).expect("free memory");
    txn.commit().expect("a commit");
}

fn get(ks: &Keyspace, key: &str) -> usize {
    let mut txn = ks.begin_all(NOW);
    let key = txn.key(key.as_bytes());
    let entry = txn.find(Db::default(), &key).expect("the key");
    let mut bytes = Vec::new();
    txn.strings().read(&entry).expect("a string").append_to(&mut bytes).expect("sound");
    bytes.len()
}

#[test]
fn a_write_is_charged_for_each_line_that_it_flushes_or_streams() {
    let dir = tempfile::tempdir().expect("a directory");
    let ks = keyspace(&dir.path().join("pool"), 1 << 20);
    for len in [32, 500, 4096, 20_000] {
        let (charged, counters) = charged(|| set(&ks, "key", len));
        assert!(counters.lines + counters.streamed / 64 >= len as u64 / 64);
        assert_eq!(charged.written, counters.lines + counters.streamed / 64, "{len} bytes");
    }
}

#[test]
fn a_read_is_charged_for_the_lines_that_no_cache_holds_and_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let pool = dir.path().join("pool");
    let ks = keyspace(&pool, 1 << 20);
    for key in ["other", "key"] {
        let len = if key == "key" { 4096 } else { 32 };
        (0..2).for_each(|_| set(&ks, key, len));
    }
    let (_, record) = charged(|| set(&ks, "other", 32));
    // Streamed bytes are on the medium only; the rest of the entry is in the cache that it was
    // flushed from. The log is streamed too, with the same size of record for a short value as for
    // a long one.
    let (_, counters) = charged(|| set(&ks, "key", 4096));
    let value = counters.streamed - record.streamed;
    assert!(value >= 62 * 64, "{counters:?} {record:?}");
    let (first, _) = charged(|| assert_eq!(get(&ks, "key"), 4096));
    assert_eq!(first.read(), value / 64);
    assert_eq!((first.random, first.written), (1, 0));
    let (second, _) = charged(|| assert_eq!(get(&ks, "key"), 4096));
    assert_eq!(second.read(), 0);
    ks.heap().close().expect("a close");
    drop(ks);
    // After reopening, nothing is in the cache: neither the bucket nor the entry.
    let ks = keyspace(&pool, 1 << 20);
    let (cold, _) = charged(|| assert_eq!(get(&ks, "other"), 32));
    assert!((2..=6).contains(&cold.read()), "{cold:?}");
    let (again, _) = charged(|| assert_eq!(get(&ks, "other"), 32));
    assert_eq!(again.read(), 0);
}

#[test]
fn lines_that_were_not_used_for_long_are_charged_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let ks = keyspace(&dir.path().join("pool"), 16 << 10);
    let keys: Vec<String> = (0..12).map(|n| format!("key{n}")).collect();
    keys.iter().for_each(|key| set(&ks, key, 4096));
    let round = || keys.iter().for_each(|key| assert_eq!(get(&ks, key), 4096));
    round();
    let (charged, _) = charged(round);
    assert!(charged.read() >= 12 * 60, "{charged:?}");
}

#[test]
fn what_the_read_cache_holds_is_not_read_from_the_medium() {
    let dir = tempfile::tempdir().expect("a directory");
    let ks = keyspace(&dir.path().join("pool"), 16 << 10);
    ks.heap().set_read_cache(1 << 20);
    let keys: Vec<String> = (0..12).map(|n| format!("key{n}")).collect();
    keys.iter().for_each(|key| set(&ks, key, 4096));
    let round = || keys.iter().for_each(|key| assert_eq!(get(&ks, key), 4096));
    round();
    let (charged, _) = charged(round);
    // The index and the heads of the entries are.
    assert!(charged.read() <= 12 * 4, "{charged:?}");
    assert_eq!(ks.heap().read_cache_stats().hits, 12);
}

/// The server of this build; `testkit` starts one without the feature.
struct Playing(Child);

impl Drop for Playing {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_says_what_it_plays() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("socket");
    let mut server = Command::new(env!("CARGO_BIN_EXE_perdura-server"));
    server.arg("--dir").arg(dir.path()).arg("--unixsocket").arg(&socket);
    server.args(["--port", "0", "--backend", "pmem", "--domain", "process"]);
    server.args(["--emulate-media", "optane", "--emulate-cache", "1mb"]);
    let mut server = Playing(server.stdout(Stdio::piped()).spawn().expect("a server"));
    let mut log = BufReader::new(server.0.stdout.take().expect("its log")).lines();
    let mut line = |wanted: &str| {
        let found = log.find(|line| line.as_ref().is_ok_and(|line| line.contains(wanted)));
        found.unwrap_or_else(|| panic!("no line with {wanted:?}")).expect("text")
    };
    let reported = line("emulated medium");
    assert!(reported.contains("optane, emulated: random read 305 ns"), "{reported}");
    assert!(reported.contains("behind 1024 KiB of simulated cache"), "{reported}");
    line("domain=process media=optane (emulated)");
    line("Ready to accept connections");
    let mut client = UnixStream::connect(socket).expect("a connection");
    client.write_all(b"SET k v\r\nGET k\r\nINFO persistence\r\nQUIT\r\n").expect("requests");
    let mut replies = String::new();
    client.read_to_string(&mut replies).expect("replies");
    assert!(replies.starts_with("+OK\r\n$1\r\nv\r\n"), "{replies}");
    assert!(replies.contains("\r\nemulated_media:optane\r\n"), "{replies}");
}
