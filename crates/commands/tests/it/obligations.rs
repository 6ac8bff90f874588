//! Every change of the data has its consequences, whoever makes it: a command by itself, a
//! pipelined run, an EXEC, a script, the operation of a blocked client that is served, expiry,
//! eviction, or a reader that finds an expired key.
//!
//! Each way of changing a key is combined with each consequence. The source is searched, too: only
//! `src/execute` begins and commits transactions of the keyspace, so that there is no other way.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::{Client, MemoryLog, TestClock, journaled, volatile};
use commands::{Engine, EngineOptions, ReplyLog};
use keyspace::{Eviction, Keyspace, Policy};

const NOW: u64 = 1_700_000_000_000;
/// The time at which the key of the cases has expired.
const LATER: u64 = 1000;

/// The way in which `k` is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Single,
    Run,
    Exec,
    Script,
    /// A script that does not declare the key.
    Undeclared,
    /// The operation of a client that was blocked.
    Served,
    /// A reader finds the key expired.
    Reader,
    Expiry,
    Eviction,
}

const WAYS: [Way; 9] = [
    Way::Single,
    Way::Run,
    Way::Exec,
    Way::Script,
    Way::Undeclared,
    Way::Served,
    Way::Reader,
    Way::Expiry,
    Way::Eviction,
];

impl Way {
    /// Returns true if it deletes the key; the others add to it.
    fn deletes(self) -> bool {
        matches!(self, Way::Reader | Way::Expiry | Way::Eviction)
    }
}

/// An engine with clients, for before and after the change.
struct Stage {
    engine: Arc<Engine>,
    log: Arc<MemoryLog>,
    clock: Arc<TestClock>,
    actor: Client,
    /// The client that was blocked until it changed the key.
    mover: Client,
    way: Way,
}

impl Stage {
    /// `k` holds what its way needs: a list to which an element is added, or the value made by
    /// `lines`.
    fn new(way: Way, lines: &[&str]) -> Stage {
        let log = Arc::new(MemoryLog::default());
        let given = log.clone();
        let set_log = move |engine: &Engine| engine.set_log(given);
        Stage::over(volatile(4, 64 << 20), set_log, log, way, lines)
    }

    /// The same with a pool on a disk, whose journal replies wait for.
    fn journaled(folder: &Path, way: Way) -> Stage {
        let keyspace = journaled(&folder.join("pool"), 4);
        let journal = Arc::new(Journal(Arc::clone(&keyspace)));
        let set_journal = move |engine: &Engine| engine.set_journal(journal);
        Stage::over(keyspace, set_journal, Arc::default(), way, LIST)
    }

    fn over(
        keyspace: Arc<Keyspace>,
        set_log: impl FnOnce(&Engine) -> bool,
        log: Arc<MemoryLog>,
        way: Way,
        lines: &[&str],
    ) -> Stage {
        let clock = TestClock::new(NOW);
        let options = EngineOptions { clock: clock.clone(), ..EngineOptions::new(keyspace) };
        let engine = Arc::new(Engine::new(options));
        assert!(set_log(&engine));
        let (actor, mover) = (Client::new(&engine), Client::patient(&engine));
        let mut stage = Stage { engine, log, clock, actor, mover, way };
        if way.deletes() {
            lines.iter().for_each(|line| _ = stage.actor.run(line));
        }
        if matches!(way, Way::Reader | Way::Expiry) {
            stage.actor.check("PEXPIRE k 500", "(integer) 1");
        }
        if way == Way::Served {
            stage.mover.check("BLMOVE source k LEFT RIGHT 0", "(blocked)");
        }
        stage.log.clear();
        stage
    }

    /// Changes `k`.
    fn act(&mut self) {
        match self.way {
            Way::Single => self.actor.check("RPUSH k v", "(integer) 1"),
            Way::Run => {
                let requests = ["RPUSH k v", "RPUSH other v"].map(|line| line.split(' ').collect());
                let replies = self.actor.pipeline(&requests).expect("a run");
                assert_eq!(replies, b":1\r\n:1\r\n");
            }
            Way::Exec => {
                self.actor.check("MULTI", "OK");
                self.actor.check("RPUSH k v", "QUEUED");
                self.actor.check("EXEC", "[(integer) 1]");
            }
            Way::Script => {
                let script = "return redis.call('rpush', KEYS[1], 'v')";
                assert_eq!(self.actor.raw(&["EVAL", script, "1", "k"]), b":1\r\n");
            }
            Way::Undeclared => {
                let script = "return redis.call('rpush', 'k', 'v')";
                assert_eq!(self.actor.raw(&["EVAL", script, "1", "other"]), b":1\r\n");
            }
            Way::Served => {
                self.actor.check("RPUSH source v", "(integer) 1");
                assert_eq!(self.mover.unblocked().as_deref(), Some("\"v\""));
            }
            Way::Reader => {
                self.clock.advance_ms(LATER);
                self.actor.check("TOUCH k", "(integer) 0");
            }
            Way::Expiry => {
                self.clock.advance_ms(LATER);
                (0..4).for_each(|shard| _ = self.engine.expire_step(shard, 100));
            }
            Way::Eviction => {
                let before = self.engine.keyspace().eviction();
                let tight = Eviction { maxmemory: 1, policy: Policy::AllkeysRandom, ..before };
                self.engine.keyspace().set_eviction(tight, NOW);
                assert!(self.actor.run("SET other v").contains("OOM"));
                self.engine.keyspace().set_eviction(before, NOW);
            }
        }
    }
}

/// The journal of a pool.
struct Journal(Arc<Keyspace>);

impl ReplyLog for Journal {
    fn end(&self) -> u64 {
        self.0.heap().region().appended()
    }

    fn is_synchronous(&self) -> bool {
        true
    }

    fn failure(&self) -> Option<String> {
        None
    }

    fn is_on(&self) -> bool {
        true
    }

    fn is_synced(&self, offset: u64) -> bool {
        self.0.heap().region().synced() >= offset
    }

    fn sync_to(&self, offset: u64) -> bool {
        self.0.heap().region().sync_up_to(offset).is_ok()
    }
}

const LIST: &[&str] = &["RPUSH k u"];

#[test]
fn every_change_is_logged() {
    for way in WAYS {
        let mut stage = Stage::new(way, LIST);
        stage.act();
        let lines = stage.log.lines();
        let expected = if way.deletes() { "DEL k" } else { "k" };
        let names = |line: &String| line.contains(expected) && line.split(' ').any(|w| w == "k");
        assert!(lines.iter().any(names), "{way:?}: {lines:?}");
    }
}

#[test]
fn every_change_is_waited_for_by_those_who_read_the_key_afterwards() {
    for way in WAYS {
        let mut stage = Stage::new(way, LIST);
        stage.act();
        let end = stage.log.bytes().len() as u64;
        let mut reader = Client::new(&stage.engine);
        reader.run("EXISTS k");
        assert_eq!(reader.outcome.reply_after, end, "{way:?}");
        assert!(end > 0, "{way:?}");
    }
}

#[test]
fn the_journal_has_every_change_where_its_readers_and_its_writer_wait_for_it() {
    for way in WAYS {
        let folder = tempfile::tempdir().expect("a folder");
        let mut stage = Stage::journaled(folder.path(), way);
        let engine = Arc::clone(&stage.engine);
        let region = || engine.keyspace().heap().region();
        let before = region().appended();
        stage.act();
        let mut reader = Client::new(&stage.engine);
        let seen = reader.run("EXISTS k");
        let waits = reader.outcome.reply_after;
        assert!(waits > before && waits <= region().appended(), "{way:?}: {waits} after {before}");
        let writer = match way {
            Way::Single | Way::Run | Way::Exec | Way::Script | Way::Undeclared => &stage.actor,
            Way::Served => &stage.mover,
            Way::Reader | Way::Expiry | Way::Eviction => &reader,
        };
        assert!(writer.outcome.reply_after > before, "{way:?}");
        // The files after a sync up to this point contain what the reader saw.
        region().sync_up_to(waits).expect("a sync");
        let copy = tempfile::tempdir().expect("a folder");
        for name in ["pool", "pool.journal"] {
            fs::copy(folder.path().join(name), copy.path().join(name)).expect("a copy");
        }
        let engine = Arc::new(Engine::new(EngineOptions {
            clock: stage.clock.clone(),
            ..EngineOptions::new(journaled(&copy.path().join("pool"), 4))
        }));
        Client::new(&engine).check("EXISTS k", &seen);
    }
}

#[test]
fn with_a_journal_too_readers_of_untouched_shards_wait_for_nothing_new() {
    let folder = tempfile::tempdir().expect("a folder");
    let stage = Stage::journaled(folder.path(), Way::Single);
    let shard = |key: &str| stage.engine.keyspace().key(key.as_bytes()).shard();
    assert_ne!(shard("k"), shard("to"));
    let (mut reader, mut writer) = (Client::new(&stage.engine), Client::new(&stage.engine));
    writer.check("SADD k u", "(integer) 1");
    reader.run("EXISTS k");
    let before = reader.outcome.reply_after;
    writer.check("SUNIONSTORE to k", "(integer) 1");
    let end = writer.outcome.reply_after;
    assert!(end > before && before > 0);
    reader.run("EXISTS k");
    assert_eq!(reader.outcome.reply_after, before);
    reader.run("EXISTS to");
    assert_eq!(reader.outcome.reply_after, end);
    let is_elsewhere = |key: &String| ![shard("k"), shard("to")].contains(&shard(key));
    let other = (0..).map(|n: u32| n.to_string()).find(is_elsewhere).expect("four shards");
    writer.check(&format!("EXISTS {other}"), "(integer) 0");
    assert_eq!(writer.outcome.reply_after, 0);
}

#[test]
fn a_change_is_not_waited_for_by_readers_of_a_key_that_it_only_read() {
    let apart = ["COPY k to", "SUNIONSTORE to k", "MULTI|GET other|EXISTS k|SADD to x|EXEC"];
    for lines in apart {
        let stage = Stage::new(Way::Single, &[]);
        let shard = |key: &str| stage.engine.keyspace().key(key.as_bytes()).shard();
        assert_ne!(shard("k"), shard("to"));
        let (mut reader, mut writer) = (Client::new(&stage.engine), Client::new(&stage.engine));
        writer.run("DEL k to");
        writer.check("SADD k u", "(integer) 1");
        let before = stage.log.bytes().len() as u64;
        lines.split('|').for_each(|line| _ = writer.run(line));
        let end = stage.log.bytes().len() as u64;
        assert!(end > before);
        reader.run("EXISTS k");
        assert_eq!(reader.outcome.reply_after, before, "{lines}");
        reader.run("EXISTS to");
        assert_eq!(reader.outcome.reply_after, end, "{lines}");
    }
}

#[test]
fn swapped_databases_are_waited_for_in_every_shard() {
    let stage = Stage::new(Way::Single, &[]);
    let mut client = Client::new(&stage.engine);
    client.run("SET other v");
    client.check("SWAPDB 0 1", "OK");
    let end = stage.log.bytes().len() as u64;
    for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        client.run(&format!("EXISTS {key}"));
        assert_eq!(client.outcome.reply_after, end, "{key}");
    }
}

#[test]
fn databases_swapped_in_an_exec_that_commits_in_parts_are_waited_for() {
    let stage = Stage::new(Way::Single, &[]);
    let mut client = Client::new(&stage.engine);
    for database in [1, 0] {
        client.check(&format!("SELECT {database}"), "OK");
        client.check("DEBUG POPULATE 100", "OK");
    }
    let commands = ["MULTI", "SWAPDB 0 1", "DEBUG POPULATE 100", "EXEC"];
    commands.iter().for_each(|command| drop(client.run(command)));
    let end = stage.log.bytes().len() as u64;
    for number in 0..100 {
        client.check(&format!("EXISTS key:{number}"), "(integer) 1");
        assert_eq!(client.outcome.reply_after, end, "{number}");
    }
}

#[test]
fn whoever_changed_a_key_waits_for_the_log() {
    for way in [Way::Single, Way::Run, Way::Exec, Way::Served] {
        let mut stage = Stage::new(way, LIST);
        stage.act();
        let end = stage.log.bytes().len() as u64;
        let client = if way == Way::Served { &stage.mover } else { &stage.actor };
        assert_eq!(client.outcome.reply_after, end, "{way:?}");
    }
}

#[test]
fn every_change_breaks_a_watch() {
    for way in WAYS {
        let mut stage = Stage::new(way, LIST);
        let mut watcher = Client::new(&stage.engine);
        watcher.check("WATCH k", "OK");
        stage.act();
        watcher.check("MULTI", "OK");
        watcher.check("PING", "QUEUED");
        watcher.check("EXEC", "(nil)");
    }
}

#[test]
fn every_change_is_sent_to_those_who_track_the_key() {
    for way in WAYS {
        let mut stage = Stage::new(way, LIST);
        let mut reader = Client::new(&stage.engine);
        reader.run("HELLO 3");
        reader.check("CLIENT TRACKING ON", "OK");
        reader.run("LRANGE k 0 -1");
        stage.act();
        let mut pushed = Vec::new();
        let _ = reader.session.client.take_pushes(&mut pushed);
        let expected = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
        assert_eq!(String::from_utf8_lossy(&pushed), expected, "{way:?}");
    }
}

#[test]
fn every_change_ends_the_wait_for_the_key() {
    for way in WAYS.into_iter().filter(|way| *way != Way::Run) {
        let mut stage = Stage::new(way, &["XADD k 1-1 f v", "XGROUP CREATE k g $"]);
        let mut waiter = Client::patient(&stage.engine);
        if way.deletes() {
            waiter.check("XREADGROUP GROUP g c BLOCK 0 STREAMS k >", "(blocked)");
        } else {
            waiter.check("BLPOP k 0", "(blocked)");
        }
        stage.act();
        let reply = waiter.unblocked();
        assert!(reply.is_some(), "{way:?}");
        let mut reader = Client::new(&stage.engine);
        reader.check("EXISTS k", "(integer) 0");
    }
}

/// A run leaves such a key to single commands.
#[test]
fn a_run_does_not_fill_a_key_for_which_somebody_waits() {
    let mut stage = Stage::new(Way::Run, LIST);
    let mut waiter = Client::patient(&stage.engine);
    waiter.check("BLPOP k 0", "(blocked)");
    let requests = ["RPUSH k v", "RPUSH other v"].map(|line| line.split(' ').collect());
    assert_eq!(stage.actor.pipeline(&requests), None);
    stage.actor.check("RPUSH k v", "(integer) 1");
    assert!(waiter.unblocked().is_some());
}

/// The sources below a folder, with their text before the unit tests.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else {
            let text = fs::read_to_string(&path).expect("a source file");
            let body = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
            found.push((path, body));
        }
    }
    found
}

#[test]
fn transactions_begin_and_end_in_one_place() {
    const ALONE: [&str; 16] = [
        ".commit()",
        "txn.commit(",
        "keyspace.begin(",
        "keyspace().begin(",
        ".begin_one(",
        ".begin_all(",
        ".try_begin(",
        ".try_begin_as(",
        ".try_begin_one(",
        ".try_stage_expiry(",
        "keyspace.expire_step(",
        "keyspace().expire_step(",
        ".evict_step(",
        ".stage_eviction_if_over_limit(",
        ".stage_eviction(",
        ".delete_lazily_expired(",
    ];
    // A dump is loaded before any client is served, so its changes have no such consequences; and a
    // save reads how a key was used.
    const OF_DUMPS: [&str; 4] = [
        "commands/src/load/mod.rs",
        "commands/src/load/batch.rs",
        "commands/src/keys/dump/store.rs",
        "commands/src/save/mod.rs",
    ];
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of crates");
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for (path, text) in
        ["engine/src", "commands/src", "server/src"].iter().flat_map(|f| sources(&crates.join(f)))
    {
        if OF_DUMPS.iter().any(|file| path.ends_with(file)) {
            continue;
        }
        let is_inside = path.starts_with(crates.join("engine/src/execute"));
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for what in ALONE.into_iter().filter(|what| line.contains(what)) {
                let place = format!("{}: {}", path.display(), line.trim());
                if is_inside { inside.push((what, place)) } else { outside.push(place) }
            }
        }
    }
    assert!(outside.is_empty(), "outside of engine/src/execute:\n{}", outside.join("\n"));
    let commits: Vec<_> = inside.iter().filter(|(what, _)| *what == ".commit()").collect();
    assert_eq!(commits.len(), 1, "{commits:?}");
    assert!(commits[0].1.contains("commit.rs"), "{commits:?}");
}
