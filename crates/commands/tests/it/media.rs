//! The medium loses bytes under an engine: every command that finds a key which was lost with its
//! name reports the damage, and does not treat the key as absent.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Client, emulated, wire};
use commands::{Engine, EngineOptions, Next};
use keyspace::{Eviction, Keyspace, Policy};

const PAGE: usize = 4096;
const KEYS: usize = 2000;
const READERS: usize = 4;
const ROUNDS: usize = 20;

const LOST: &str = "(error) MEDIAERR the value of this key is damaged";

struct Pool {
    _folder: tempfile::TempDir,
    path: PathBuf,
    keyspace: Arc<Keyspace>,
    engine: Arc<Engine>,
}

fn name(i: usize) -> String {
    format!("key:{i:05}")
}

impl Pool {
    /// `set` is the command that creates each key, in database 1.
    fn new(set: &str) -> Pool {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let keyspace = emulated(&path, 1);
        let engine = Arc::new(Engine::new(EngineOptions::new(Arc::clone(&keyspace))));
        let mut client = Client::new(&engine);
        client.check("SELECT 1", "OK");
        for i in 0..KEYS {
            let reply = client.run(&set.replace("KEY", &name(i)));
            assert!(!reply.contains("error"), "{reply}");
        }
        Pool { _folder: folder, path, keyspace, engine }
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).expect("the pool")
    }

    /// The offset of a key's name.
    fn place(&self, i: usize) -> usize {
        let name = name(i);
        let at = self.bytes().windows(name.len()).position(|text| text == name.as_bytes());
        at.expect("the key")
    }

    /// The offset of the slot that leads to a key: its low bits are the entry's offset.
    fn slot(&self, i: usize) -> usize {
        let entry = (self.place(i) - 24) as u64;
        let leads = |word: &[u8]| {
            let word = u64::from_le_bytes(word.try_into().expect("a word"));
            word & ((1 << 48) - 1) == entry
        };
        8 * self.bytes().chunks(8).rposition(leads).expect("a slot")
    }

    /// Loses only the page at this offset; the first access finds the loss.
    fn lose(&self, place: usize) {
        let bytes = self.bytes();
        let page = place & !(PAGE - 1);
        let file = OpenOptions::new().write(true).open(&self.path).expect("the pool");
        file.set_len(page as u64).expect("a shorter file");
        self.keyspace.heap().region().load(page as u64);
        let next_page = page + PAGE;
        file.write_all_at(&bytes[next_page..], next_page as u64).expect("what follows");
        assert!(self.keyspace.has_unresolved_losses());
    }

    fn client(&self, db: usize) -> Client {
        let mut client = Client::new(&self.engine);
        client.check(&format!("SELECT {db}"), "OK");
        client
    }
}

#[track_caller]
fn check_lost(reply: &str) {
    assert!(reply.starts_with(LOST), "{reply}");
}

/// How a key is read.
#[derive(Clone, Copy, Debug)]
enum Way {
    Alone,
    InMulti,
}

fn ask(client: &mut Client, way: Way, i: usize) -> String {
    let get = ["GET", &name(i)];
    if let Way::Alone = way {
        return wire::show(&client.raw(&get));
    }
    client.check("MULTI", "OK");
    client.raw(&get);
    let reply = client.raw(&["EXEC"]);
    wire::show(reply.strip_prefix(b"*1\r\n").unwrap_or(&reply))
}

/// A page is lost while a transaction holds its shard, a second thread waits to resolve the loss,
/// and others wait to read a key.
fn lose_while_others_wait(way: Way) -> Vec<String> {
    let pool = Pool::new("SET KEY the-value-of-this-key,-which-is-a-bit-longer");
    let keyspace = &pool.keyspace;
    pool.lose(pool.place(KEYS / 2));
    std::thread::scope(|scope| {
        let held = keyspace.begin_one(0, 0);
        // The answer must be right whichever thread gets the lock first; usually it is the one that
        // waits longest.
        let waits = || std::thread::sleep(Duration::from_millis(5));
        scope.spawn(|| keyspace.resolve_losses());
        waits();
        let read = || ask(&mut pool.client(1), way, KEYS / 2);
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
        waits();
        drop(held);
        readers.into_iter().map(|reader| reader.join().expect("a reply")).collect()
    })
}

#[test]
fn a_key_that_is_lost_while_its_command_waits_is_not_one_that_never_was() {
    for way in [Way::Alone, Way::InMulti] {
        for _ in 0..ROUNDS {
            lose_while_others_wait(way).iter().for_each(|reply| check_lost(reply));
        }
    }
}

#[test]
fn what_blocks_is_answered_when_it_is_run_again() {
    let pool = Pool::new("RPUSH KEY x");
    let mut client = Client::patient(&pool.engine);
    client.check("SELECT 1", "OK");
    // Not the first page of a span, which records what is in use.
    let mut slots = (0..KEYS).map(|i| (i, pool.slot(i)));
    let (i, slot) = slots.find(|(_, slot)| slot % 65536 >= PAGE).expect("a slot");
    pool.lose(slot);
    client.check(&format!("BLPOP {} 0", name(i)), &format!("[\"{}\", \"x\"]", name(i)));
    assert_eq!(client.outcome.next, Next::Reply);
    let news = pool.keyspace.damage_news().join("\n");
    assert!(news.contains("was rebuilt"), "{news}");
    pool.lose(pool.place(KEYS / 2 + 1));
    check_lost(&client.run(&format!("BLPOP {} 0", name(KEYS / 2 + 1))));
    assert_eq!(client.outcome.next, Next::Reply);
}

#[test]
fn a_transaction_asks_in_the_database_that_it_selects() {
    let pool = Pool::new("SET KEY x");
    pool.lose(pool.place(KEYS / 2));
    let (mut client, key) = (pool.client(0), name(KEYS / 2));
    client.check("MULTI", "OK");
    client.check("SELECT 1", "QUEUED");
    client.check(&format!("GET {key}"), "QUEUED");
    check_lost(&client.run("EXEC"));
    client.check(&format!("GET {key}"), "(nil)");
}

#[test]
fn a_lost_key_is_no_free_place_in_another_database() {
    let pool = Pool::new("SET KEY x");
    pool.lose(pool.place(KEYS / 2));
    let (mut client, key) = (pool.client(0), name(KEYS / 2));
    pool.keyspace.resolve_losses();
    client.check(&format!("SET {key} y"), "OK");
    check_lost(&client.run(&format!("MOVE {key} 1")));
    check_lost(&client.run(&format!("COPY {key} {key} DB 1")));
    client.check(&format!("GET {key}"), "\"y\"");
}

#[test]
fn who_moves_elements_to_a_key_that_was_lost_meanwhile_is_reported() {
    let pool = Pool::new("RPUSH KEY x");
    let mut waiting = Client::patient(&pool.engine);
    waiting.check("SELECT 1", "OK");
    let target = name(KEYS / 2);
    waiting.check(&format!("BLMOVE source {target} LEFT LEFT 0"), "(blocked)");
    pool.lose(pool.place(KEYS / 2));
    pool.keyspace.resolve_losses();
    let mut client = pool.client(1);
    client.check("RPUSH source y", "(integer) 1");
    check_lost(&waiting.unblocked().expect("a reply"));
    client.check("LRANGE source 0 -1", "[\"y\"]");
    check_lost(&client.run(&format!("LRANGE {target} 0 -1")));
}

#[test]
fn who_waits_for_a_stream_is_not_notified_that_it_was_deleted() {
    let pool = Pool::new("XADD KEY 1-0 f v");
    let (mut waiting, key) = (Client::patient(&pool.engine), name(KEYS / 2));
    let mut client = pool.client(1);
    client.check(&format!("XGROUP CREATE {key} g $"), "OK");
    waiting.check("SELECT 1", "OK");
    waiting.check(&format!("XREADGROUP GROUP g c BLOCK 0 STREAMS {key} >"), "(blocked)");
    pool.lose(pool.place(KEYS / 2));
    pool.keyspace.resolve_losses();
    // A command that empties a database checks all waiting clients.
    client.check("SELECT 2", "OK");
    client.check("FLUSHDB", "OK");
    assert_eq!(waiting.unblocked(), None);
    client.check("SELECT 1", "OK");
    check_lost(&client.run(&format!("XLEN {key}")));
}

/// No span counts as free before the loss is resolved, but this does not make the store full.
#[test]
fn a_transaction_that_meets_a_loss_does_not_say_that_the_store_is_full() {
    let pool = Pool::new("SET KEY value");
    let eviction = Eviction { policy: Policy::AllkeysRandom, ..Eviction::default() };
    pool.keyspace.set_eviction(eviction, 0);
    let lost = name(KEYS / 2);
    pool.lose(pool.place(KEYS / 2));
    let mut client = Client::new(&pool.engine);
    client.check("SELECT 1", "OK");
    client.check("MULTI", "OK");
    client.check(&format!("STRLEN {lost}"), "QUEUED");
    let value = "v".repeat(30_000);
    for i in 0..32 {
        client.check(&format!("SET long:{i} {value}"), "QUEUED");
    }
    let replies = client.run("EXEC");
    assert!(!replies.contains("OOM"), "{replies:.200}");
    let (stats, full) = (client.run("INFO stats"), client.run("INFO persistence"));
    assert!(stats.contains("evicted_keys:0\\r"), "{stats}");
    assert!(full.contains("full_refused_commands:0\\r"), "{full}");
}
