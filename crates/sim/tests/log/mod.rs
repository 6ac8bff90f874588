//! A command log that is rewritten while several threads append to it, and is crashed between any
//! two operations on its files.
//!
//! Each thread sends transactions with numbers. Odd ones change three keys in two databases, in
//! MULTI and EXEC; even ones append to a list. None of them has the same result if it is executed
//! twice. Another thread rewrites the log again and again, and gives up some of the rewrites;
//! another does what the server does once a second. The seed determines which of them runs at every
//! lock and at every operation on a file.
//!
//! A restart loads, for each thread, all transactions up to some number, each exactly once: the
//! number is between the last one acknowledged, if that promise covers the crash, and the last one
//! sent.

mod files;

use aof::{Aof, Fsync, Loader, Options};
use commands::{Engine, EngineOptions, Next, Peer, Session};
use fastrand::Rng;
use files::{Event, Files, Image, Moment};
use heap::{CreateOptions, Geometry, Heap};
use keyspace::{Content, Keyspace, Type};
use resp::{Protocol, Writer};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The number of threads that send transactions.
const WRITERS: usize = 2;
const TRANSACTIONS: u64 = 14;
const REWRITES: usize = 3;
const TICKS: usize = 4;
/// The number of power losses at one moment.
const CUTS: usize = 3;
/// One image in this many is opened for writing, and crashed again.
const OPENED_ONE_IN: usize = 24;

/// What was explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Explored {
    pub(crate) images: u64,
    /// Moments at which a log of several incremental files was found.
    pub(crate) divided: u64,
    /// Rewrites that were completed, and those that were not.
    pub(crate) rewritten: usize,
    pub(crate) given_up: usize,
    /// Transactions that were executed while a rewrite was under way.
    pub(crate) during_rewrite: u64,
}

impl std::ops::AddAssign for Explored {
    fn add_assign(&mut self, other: Explored) {
        self.images += other.images;
        self.divided += other.divided;
        self.rewritten += other.rewritten;
        self.given_up += other.given_up;
        self.during_rewrite += other.during_rewrite;
    }
}

/// A kind of incarnation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rewriting {
    pub(crate) seed: u64,
    pub(crate) fsync: Fsync,
    /// Whether some writes fail.
    pub(crate) faults: bool,
}

impl Rewriting {
    /// Returns the kind for this seed.
    pub(crate) fn of(seed: u64) -> Rewriting {
        let fsync = [Fsync::Always, Fsync::EverySecond, Fsync::Always, Fsync::No];
        Rewriting { seed, fsync: fsync[seed as usize % 4], faults: seed % 3 == 2 }
    }

    /// Runs an incarnation, and crashes at every moment; the first violation is the error.
    pub(crate) fn explore(&self) -> Result<Explored, String> {
        let mut explored = Explored::default();
        let trace = self.run_incarnation(&mut explored)?;
        self.crash_everywhere(&trace, &mut explored).map_err(|what| format!("{self:?}: {what}"))?;
        Ok(explored)
    }

    fn options(&self, files: &Files) -> Options {
        Options { fsync: self.fsync, storage: Arc::new(files.clone()), ..Options::new("/") }
    }

    /// Runs several threads at once; returns the events.
    fn run_incarnation(&self, explored: &mut Explored) -> Result<Vec<Event>, String> {
        let mut rng = Rng::with_seed(self.seed);
        let files = Files::default();
        let log = open(self.options(&files))?;
        if self.faults {
            files.fail_one_in(rng.usize(6..40), rng.u64(..));
        }
        let shards = rng.usize(1..4);
        let engine = engine(shards, Some(Arc::clone(&log)))?;
        let incarnation = Incarnation {
            engine: &engine,
            log: &log,
            files: &files,
            acknowledged: [const { AtomicU64::new(0) }; WRITERS],
            writing: AtomicUsize::new(WRITERS),
            rewriting: AtomicBool::new(false),
            during_rewrite: AtomicU64::new(0),
            rewritten: AtomicUsize::new(0),
            given_up: AtomicUsize::new(0),
        };
        let incarnation = &incarnation;
        let mut bodies: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for thread in 0..WRITERS {
            bodies.push(Box::new(move || incarnation.write(thread)));
        }
        let (of_rewrites, of_ticks) = (rng.fork(), rng.fork());
        bodies.push(Box::new(move || incarnation.rewrite(of_rewrites)));
        bodies.push(Box::new(move || incarnation.tick(of_ticks)));
        sim::run_scheduled(rng.u64(..), bodies);
        explored.during_rewrite += incarnation.during_rewrite.load(Relaxed);
        explored.rewritten += incarnation.rewritten.load(Relaxed);
        explored.given_up += incarnation.given_up.load(Relaxed);
        let trace = files.take();
        drop(engine);
        Ok(trace)
    }

    fn crash_everywhere(&self, trace: &[Event], explored: &mut Explored) -> Result<(), String> {
        let mut rng = Rng::with_seed(self.seed ^ 0xc4a5);
        let mut moment = Moment::default();
        let (mut sent, mut describe, mut durable) = ([0; WRITERS], [0; WRITERS], [0; WRITERS]);
        for (at, event) in trace.iter().enumerate() {
            moment.apply(at, event);
            match event {
                Event::Begun(thread, number) => sent[*thread] = *number,
                Event::Acknowledged(thread, number) => describe[*thread] = *number,
                Event::Durable(counts) => durable.copy_from_slice(counts),
                _ => {}
            }
            let after = |what| format!("{what}, after event {at} of {} ({event:?})", trace.len());
            let exit = Promise { least: describe, most: sent };
            let found = self.look(&moment.after_exit(), &exit, explored);
            found.map_err(|what| after(format!("the process ended: {what}")))?;
            let least = if self.fsync == Fsync::Always { describe } else { durable };
            let loss = Promise { least, ..exit };
            for _ in 0..CUTS {
                let image = moment.after_power_loss(&mut rng);
                let found = self.look(&image, &loss, explored);
                let found = found.map_err(|what| after(format!("the power was lost: {what}")))?;
                if rng.usize(..OPENED_ONE_IN) == 0 {
                    let opened = self.crash_opening(&image, found, &mut rng, explored);
                    opened.map_err(|what| after(format!("lost again in the opening: {what}")))?;
                }
            }
        }
        Ok(())
    }

    /// Checks that the log of this image holds what was promised; returns its content.
    fn look(
        &self,
        image: &Image,
        promise: &Promise,
        explored: &mut Explored,
    ) -> Result<[u64; WRITERS], String> {
        explored.images += 1;
        let increments = image.keys().filter(|path| path.to_string_lossy().contains(".incr."));
        explored.divided += u64::from(increments.count() > 1);
        let found = self.load(image).map_err(|what| format!("{what}\n{}", describe(image)))?;
        for (thread, found) in found.iter().enumerate() {
            let allowed = promise.least[thread]..=promise.most[thread];
            if !allowed.contains(found) {
                let describe = describe(image);
                return Err(format!("{found} of {allowed:?} of thread {thread}\n{describe}"));
            }
        }
        Ok(found)
    }

    /// Opens the log for appending, and loses power meanwhile.
    fn crash_opening(
        &self,
        image: &Image,
        found: [u64; WRITERS],
        rng: &mut Rng,
        explored: &mut Explored,
    ) -> Result<(), String> {
        let files = Files::of(image);
        let log = open(self.options(&files))?;
        let trace = files.take();
        drop(log);
        let mut moment = Moment::of(image);
        let same = Promise { least: found, most: found };
        for (at, event) in trace.iter().enumerate() {
            moment.apply(at, event);
            self.look(&moment.after_power_loss(rng), &same, explored)?;
        }
        Ok(())
    }

    /// Returns how many transactions of each thread a restart loads, each whole and once.
    fn load(&self, image: &Image) -> Result<[u64; WRITERS], String> {
        let engine = engine(1, None)?;
        let files = Files::of(image);
        let mut loader = Loader::open(self.options(&files)).map_err(|error| error.to_string())?;
        commands::replay(&engine, &mut loader, &mut |_| {}).map_err(|error| error.to_string())?;
        let mut lists: Vec<Vec<String>> = vec![Vec::new(); WRITERS + 1];
        let mut counts = vec![String::from("0"); WRITERS];
        let txn = engine.keyspace().begin_all(0);
        for db in keyspace::Db::all().filter(|db| txn.database(*db).count() > 0) {
            let mut failed = None;
            txn.database(db).for_each(&mut |key, entry| {
                let thread = db.number().checked_sub(1).unwrap_or(WRITERS);
                match txn.content(entry) {
                    Ok(Content::Elements(Type::List, all)) if key == b"list" => {
                        lists[thread] = all.iter().map(|one| text(one)).collect();
                    }
                    Ok(Content::String(count)) if key == b"count" => counts[thread] = text(&count),
                    other => failed = Some(format!("{db:?} {}: {other:?}", text(key))),
                }
            });
            if let Some(what) = failed {
                return Err(what);
            }
        }
        let mut found = [0; WRITERS];
        for thread in 0..WRITERS {
            let own = &lists[thread];
            let expected = (1..=own.len() as u64).map(|n| n.to_string());
            let odd = (1..=own.len() as u64).step_by(2).map(|n| format!("{thread}:{n}"));
            let prefix = format!("{thread}:");
            let common = lists[WRITERS].iter().filter(|one| one.starts_with(&prefix));
            let count = own.len().div_ceil(2).to_string();
            if !expected.eq(own.iter().cloned())
                || !odd.eq(common.cloned())
                || counts[thread] != count
            {
                return Err(format!(
                    "not each once, or not whole: thread {thread} has {own:?}, \
                     common {:?}, count {}",
                    lists[WRITERS], counts[thread]
                ));
            }
            found[thread] = own.len() as u64;
        }
        Ok(found)
    }
}

/// What may be found for each thread.
#[derive(Clone, Copy)]
struct Promise {
    least: [u64; WRITERS],
    most: [u64; WRITERS],
}

/// The shared state of all threads.
struct Incarnation<'l> {
    engine: &'l Engine,
    log: &'l Arc<Aof>,
    files: &'l Files,
    acknowledged: [AtomicU64; WRITERS],
    /// The number of threads that still send.
    writing: AtomicUsize,
    rewriting: AtomicBool,
    during_rewrite: AtomicU64,
    rewritten: AtomicUsize,
    given_up: AtomicUsize,
}

impl Incarnation<'_> {
    fn write(&self, thread: usize) {
        let mut client = Client::new(self.engine);
        let mut number = 1;
        // Transactions that were refused while the log could not be written are sent again.
        for _ in 0..4 * TRANSACTIONS {
            if number > TRANSACTIONS {
                break;
            }
            self.files.record(Event::Begun(thread, number));
            let during_rewrite = self.rewriting.load(Relaxed);
            if !client.transaction(thread, number) {
                self.log.tick();
                continue;
            }
            self.during_rewrite
                .fetch_add(u64::from(during_rewrite && self.rewriting.load(Relaxed)), Relaxed);
            if self.log.sync_up_to(client.reply_after).is_ok() {
                self.acknowledged[thread].store(number, Relaxed);
                self.files.record(Event::Acknowledged(thread, number));
            }
            number += 1;
        }
        self.writing.fetch_sub(1, Relaxed);
    }

    fn rewrite(&self, mut rng: Rng) {
        for _ in 0..REWRITES {
            let steps = if rng.usize(..4) == 0 { rng.usize(..3) } else { usize::MAX };
            let left = AtomicUsize::new(steps);
            let go_on = || left.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)).is_ok();
            self.rewriting.store(true, Relaxed);
            let done = commands::rewrite_log(self.engine, self.log, false, &go_on, None);
            self.rewriting.store(false, Relaxed);
            match done {
                Ok(Some(_)) => self.rewritten.fetch_add(1, Relaxed),
                Ok(None) | Err(_) => self.given_up.fetch_add(1, Relaxed),
            };
        }
    }

    /// What is acknowledged before a sync begins is durable when it has ended, if the log is
    /// healthy then.
    fn tick(&self, mut rng: Rng) {
        for _ in 0..TICKS {
            (0..rng.usize(..12)).for_each(|_| sim::yield_now());
            let before: Vec<u64> = self.acknowledged.iter().map(|n| n.load(Relaxed)).collect();
            self.log.tick();
            if self.log.status().is_ok() && self.log.durable() >= self.log.written() {
                self.files.record(Event::Durable(before));
            }
        }
    }
}

/// A connection.
struct Client<'e> {
    engine: &'e Engine,
    session: Session,
    writer: Writer,
    reply_after: u64,
}

impl<'e> Client<'e> {
    fn new(engine: &'e Engine) -> Client<'e> {
        let session = engine.connect(Peer::default(), 0);
        Client { engine, session, writer: Writer::new(Protocol::Resp2), reply_after: 0 }
    }

    /// Returns true if it was executed.
    fn run(&mut self, line: &str) -> bool {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let outcome = self.engine.execute(&mut self.session, &words, &mut self.writer);
        debug_assert!(outcome.next != Next::Block);
        self.reply_after = outcome.reply_after;
        !self.writer.take().starts_with(b"-")
    }

    fn transaction(&mut self, thread: usize, number: u64) -> bool {
        self.run(&format!("SELECT {}", thread + 1));
        if number.is_multiple_of(2) {
            return self.run(&format!("RPUSH list {number}"));
        }
        self.run("MULTI");
        self.run(&format!("RPUSH list {number}"));
        self.run("SELECT 0");
        self.run(&format!("RPUSH list {thread}:{number}"));
        self.run(&format!("SELECT {}", thread + 1));
        self.run("INCR count");
        self.run("EXEC")
    }
}

fn open(options: Options) -> Result<Arc<Aof>, String> {
    let mut loader = Loader::open(options).map_err(|error| error.to_string())?;
    while loader.next().map_err(|error| error.to_string())?.is_some() {}
    loader.into_log().map(Arc::new).map_err(|error| error.to_string())
}

fn engine(shards: usize, log: Option<Arc<Aof>>) -> Result<Engine, String> {
    let geometry = Geometry { shards, ring_parts: 3, ring_part: 4096, zone_spans: 16 };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    let heap = Heap::volatile(4 << 20, &options).map_err(|error| error.to_string())?;
    let log = log.map(|log| log as Arc<dyn commands::CommandLog>);
    let keyspace = Arc::new(Keyspace::new(heap, 0));
    Ok(Engine::new(EngineOptions { log, ..EngineOptions::new(keyspace) }))
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// Describes the files of an image, for the reader of a failure.
fn describe(image: &Image) -> String {
    let mut all = String::new();
    for (path, bytes) in image {
        let _ = writeln!(all, "{}: {} bytes", path.display(), bytes.len());
        if path.to_string_lossy().ends_with(".manifest") {
            all.push_str(&String::from_utf8_lossy(bytes));
        }
    }
    all
}
