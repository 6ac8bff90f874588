//! A primary with several shards, to which threads commit at the same time, crashes at any step:
//! what its ring says then is the stream of exactly the commits that the crash has left, with every
//! byte that was sent.
//!
//! Lines of persistent memory that were not made durable are lost or not, word by word. Where the
//! medium outlives the process, all are there. With a journal, all bytes of the ring are there too,
//! while the last commits may be lost though they have ended: nothing of them was sent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use replication::commands::StreamReader;
use replication::ring::{Beginning, LEAST_SIZE, Medium, Place, Recovered, Ring, recover};
use replication::stream::Reserved;
use replication::{Cursor, Id, PING, Position, Stream};

const SHARDS: usize = 3;
const THREADS: usize = 4;
/// The bytes of a frame's head, by which the write-backs of heads are told apart.
const HEAD: usize = 24;

/// What is done wrongly, to show that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    ShowBeforeCommit,
    WriteAfterCommit,
    LeaveVoid,
    CountByGreatest,
    LoseHeads,
    FenceNothingFree,
    SendUnsettled,
}

/// What a crash leaves of the bytes of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    /// All of them.
    Process,
    /// Those that were made durable, and any of the others.
    Power,
    /// The same; and the record of a commit may be there before its fence.
    PowerEarly,
    /// All of them, but not the last commits: the journal has their records in the process.
    Journal,
}

/// The bytes of the medium.
#[derive(Default)]
struct Bytes {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// The thread that runs.
    thread: usize,
    /// For each thread, the lines that it has begun to write back.
    begun: BTreeMap<usize, Vec<Line>>,
    /// How many lines were written back, and when each was made durable last, in this measure.
    count: usize,
    last: BTreeMap<usize, usize>,
    loses_heads: bool,
    fences_nothing: bool,
}

/// A line that is written back, as it was then.
struct Line {
    at: usize,
    bytes: Vec<u8>,
    count: usize,
}

impl Bytes {
    fn fence(&mut self) {
        for Line { at, bytes, count } in self.begun.remove(&self.thread).unwrap_or_default() {
            // Another thread may have made it durable as it was later.
            if self.last.get(&at).is_none_or(|last| *last < count) {
                self.durable[at..at + bytes.len()].copy_from_slice(&bytes);
                self.last.insert(at, count);
            }
        }
    }

    /// Returns what a crash leaves.
    fn after(&self, model: Model, random: &mut Rng) -> Vec<u8> {
        if matches!(model, Model::Process | Model::Journal) {
            return self.now.clone();
        }
        let mut left = self.durable.clone();
        for (at, word) in left.chunks_exact_mut(8).enumerate() {
            if random.bool() {
                word.copy_from_slice(&self.now[at * 8..][..8]);
            }
        }
        left
    }
}

#[derive(Clone)]
struct Simulated(Arc<Mutex<Bytes>>);

impl Simulated {
    fn bytes(&self) -> MutexGuard<'_, Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Medium for Simulated {
    fn write(&mut self, at: u64, bytes: &[u8]) {
        self.bytes().now[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn write_back(&mut self, at: u64, len: usize) {
        let mut all = self.bytes();
        if all.loses_heads && len == HEAD {
            return;
        }
        let (from, to) = (at as usize & !63, (at as usize + len).next_multiple_of(64));
        for at in (from..to).step_by(64) {
            all.count += 1;
            let (thread, count) = (all.thread, all.count);
            let bytes = all.now[at..at + 64].to_vec();
            all.begun.entry(thread).or_default().push(Line { at, bytes, count });
        }
    }

    fn fence(&mut self) {
        let mut all = self.bytes();
        if !all.fences_nothing {
            all.fence();
        }
    }
}

type Data = BTreeMap<(u32, String), Vec<String>>;

/// A thread in the middle of a commit.
struct Commit<'s> {
    shard: usize,
    db: u32,
    token: String,
    reserved: Reserved<'s>,
    has_committed: bool,
}

struct Primary {
    medium: Simulated,
    /// What the commits have left.
    left: Left,
    /// What each number of commits has left, from those on that are in the file of the journal.
    earlier: Vec<Left>,
    sent: Vec<u8>,
}

/// The offset in the word of each shard, and the data.
#[derive(Clone, Default)]
struct Left {
    shards: [u64; SHARDS],
    data: Data,
}

fn id() -> Id {
    Id::from_random([5; 20])
}

const FLUSH: &[u8] = b"*1\r\n$7\r\nFLUSHDB\r\n";

fn command(shard: usize, token: &str) -> Vec<u8> {
    format!("*3\r\n$5\r\nRPUSH\r\n$1\r\n{shard}\r\n${}\r\n{token}\r\n", token.len()).into_bytes()
}

/// Returns the data after these commands.
fn replay(bytes: &[u8]) -> Data {
    let mut reader = StreamReader::new(0, 1 << 20);
    reader.push(bytes);
    while reader.parse().expect("commands") {}
    let (mut data, mut db) = (Data::new(), None);
    for item in reader.items() {
        let words: Vec<String> =
            item.words().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        match words[0].as_str() {
            "PING" => {}
            "SELECT" => db = words[1].parse().ok(),
            "RPUSH" => {
                let key = (db.expect("a database is selected"), words[1].clone());
                data.entry(key).or_default().push(words[2].clone());
            }
            "FLUSHDB" => {
                let emptied = db.expect("a database is selected");
                data.retain(|(db, _), _| *db != emptied);
            }
            other => panic!("{other}"),
        }
    }
    let end = reader.items().last().map_or(0, |item| item.offset());
    assert_eq!(end, bytes.len() as u64, "the last command is whole");
    data
}

impl Primary {
    fn begin(stream: &Stream, fault: Fault) -> Primary {
        let bytes = Bytes {
            now: vec![0; LEAST_SIZE as usize],
            durable: vec![0; LEAST_SIZE as usize],
            loses_heads: fault == Fault::LoseHeads,
            fences_nothing: fault == Fault::FenceNothingFree,
            ..Bytes::default()
        };
        let medium = Simulated(Arc::new(Mutex::new(bytes)));
        let ring = |position: &Position, kept: &[u8]| {
            let Position { id, end: begun, .. } = *position;
            let beginning = Beginning { id, begun, kept, boot: [0; 16], key: 77 };
            Ring::begin(Box::new(medium.clone()), LEAST_SIZE, &beginning)
        };
        stream.switch_on();
        assert!(stream.begin_ring(0, ring).is_some());
        medium.bytes().fence();
        let left = Left::default();
        Primary { medium, earlier: vec![left.clone()], left, sent: Vec::new() }
    }

    /// Makes a commit durable, with what its thread has begun to write back.
    fn commit(&mut self, shard: usize, db: u32, token: &str, end: u64) {
        self.medium.bytes().fence();
        self.count(shard, db, token, end);
    }

    fn count(&mut self, shard: usize, db: u32, token: &str, end: u64) {
        self.left.shards[shard] = end;
        self.left.data.entry((db, shard.to_string())).or_default().push(token.to_owned());
        self.earlier.push(self.left.clone());
    }

    /// Executes a FLUSHDB, for which all shards are locked. One that removes nothing is in no
    /// commit, and has no home.
    fn flush(&mut self, stream: &Stream, db: u32) {
        let keys = self.left.data.keys().filter(|(of, _)| *of == db);
        let Some(home) = keys.filter_map(|(_, key)| key.parse::<usize>().ok()).min() else {
            stream.append(db, db, FLUSH);
            return;
        };
        let reserved = stream.reserve(home, db, db, FLUSH).expect("a ring");
        self.medium.bytes().fence();
        self.left.shards[home] = reserved.end();
        self.left.data.retain(|(of, _), _| *of != db);
        self.earlier.push(self.left.clone());
        reserved.publish();
    }

    /// Sends what is shown, once its commits are settled: of those in a journal, once they are in
    /// its file, whenever that may be.
    fn send(&mut self, cursor: &mut Cursor, model: Model, fault: Fault, random: &mut Rng) {
        if model == Model::Journal && fault != Fault::SendUnsettled {
            if random.u8(..5) > 0 {
                return;
            }
            self.earlier.drain(..self.earlier.len() - 1);
        }
        while cursor.read(u64::MAX, &mut self.sent).expect("a place") > 0 {}
    }

    /// Checks what a crash leaves.
    fn check(&self, model: Model, fault: Fault, random: &mut Rng) -> Result<(), String> {
        let image = self.medium.bytes().after(model, random);
        let Left { shards, data } = match model {
            Model::Journal => &self.earlier[random.usize(..self.earlier.len())],
            _ => &self.left,
        };
        let end = shards.iter().copied().max().unwrap_or(0);
        let shards = match fault {
            Fault::CountByGreatest => [end; SHARDS],
            _ => *shards,
        };
        let place = Place { id: id(), begun: 0, end, shards: &shards };
        let Some(Recovered { end: recovered, until, bytes }) = recover(&image, &place, u64::MAX)
        else {
            return match model {
                // The record is there, and its frame is not: nothing of that was sent.
                Model::PowerEarly if end >= self.sent.len() as u64 => Ok(()),
                _ => Err("nothing is recovered".into()),
            };
        };
        let (start, sent) = (recovered - bytes.len() as u64, self.sent.len() as u64);
        if start > 0 && model == Model::PowerEarly && sent <= start {
            // Its head is there, and its bytes are not.
            return Ok(());
        }
        if start > 0 {
            return Err(format!("{} bytes up to {recovered}", bytes.len()));
        }
        if until < sent {
            return Err("a replica that has what was sent is refused".into());
        }
        if !bytes.starts_with(&self.sent) {
            return Err("bytes that were sent are not there".into());
        }
        let replayed = replay(&bytes);
        if replayed != *data {
            return Err(format!("{replayed:?} instead of {data:?}"));
        }
        Ok(())
    }
}

/// Lets threads commit for some steps, and crashes.
fn run(seed: u64, model: Model, fault: Fault) -> Result<(), String> {
    let mut random = Rng::with_seed(seed);
    let stream = Arc::new(Stream::new(id(), 1 << 20));
    let mut primary = Primary::begin(&stream, fault);
    let (_, mut cursor) = stream.cut();
    let mut threads: [Option<Commit<'_>>; THREADS] = [const { None }; THREADS];
    let steps = random.usize(1..60);
    for step in 0..steps {
        let thread = random.usize(..THREADS);
        primary.medium.bytes().thread = thread;
        let Some(mut commit) = threads[thread].take() else {
            let shard = random.usize(..SHARDS);
            let is_alone = threads.iter().all(Option::is_none);
            if random.u8(..8) == 0 {
                stream.append_free(PING);
            } else if is_alone && random.u8(..6) == 0 {
                primary.flush(&stream, random.u32(..3));
            } else if !threads.iter().flatten().any(|commit| commit.shard == shard) {
                let db = if random.u8(..4) == 0 { random.u32(..3) } else { 0 };
                let token = format!("{step}{}", "x".repeat(random.usize(..90)));
                let command = command(shard, &token);
                let mut has_committed = false;
                if fault == Fault::WriteAfterCommit {
                    // Its place is known before it is written.
                    let place = stream.appended() + command.len() as u64;
                    primary.commit(shard, db, &token, place);
                    has_committed = true;
                }
                let reserved = stream.reserve(shard, db, db, &command).expect("a ring");
                if has_committed {
                    primary.left.shards[shard] = reserved.end();
                }
                threads[thread] = Some(Commit { shard, db, token, reserved, has_committed });
            }
            primary.send(&mut cursor, model, fault, &mut random);
            continue;
        };
        let Commit { shard, db, token, .. } = &commit;
        if commit.has_committed {
            commit.reserved.publish();
        } else if random.u8(..6) == 0 {
            match fault {
                Fault::LeaveVoid => commit.reserved.leave_open(),
                _ => commit.reserved.make_void(),
            }
        } else if fault == Fault::ShowBeforeCommit {
            commit.reserved.publish();
        } else {
            primary.commit(*shard, *db, token, commit.reserved.end());
            commit.has_committed = true;
            threads[thread] = Some(commit);
        }
        primary.send(&mut cursor, model, fault, &mut random);
    }
    if model == Model::PowerEarly
        && let Some(commit) = threads.iter().flatten().find(|commit| !commit.has_committed)
    {
        let Commit { shard, db, token, reserved, .. } = commit;
        primary.count(*shard, *db, token, reserved.end());
    }
    let checked = primary.check(model, fault, &mut random);
    threads.into_iter().flatten().for_each(|commit| commit.reserved.leave_open());
    checked
}

#[test]
fn a_crash_leaves_the_stream_of_the_commits_that_it_leaves() {
    for model in [Model::Process, Model::Power, Model::PowerEarly, Model::Journal] {
        for seed in 0..20_000 {
            if let Err(error) = run(seed, model, Fault::None) {
                panic!("{model:?}, seed {seed}: {error}");
            }
        }
    }
}

#[test]
fn every_fault_is_found() {
    let faults = [
        (Fault::ShowBeforeCommit, Model::Process),
        (Fault::WriteAfterCommit, Model::Power),
        (Fault::LeaveVoid, Model::Process),
        (Fault::CountByGreatest, Model::Process),
        (Fault::LoseHeads, Model::Power),
        (Fault::FenceNothingFree, Model::Power),
        (Fault::SendUnsettled, Model::Journal),
    ];
    for (fault, model) in faults {
        let found = (0..2000).filter(|seed| run(*seed, model, fault).is_err()).count();
        assert!(found > 0, "{fault:?} is not found");
        println!("{fault:?}: {found} of 2000 histories");
    }
}
