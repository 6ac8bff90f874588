//! What is done with a keyspace: requests of several connections, transactions, pipelined runs, and
//! all that a server does in the background.

use super::generate::{self, DATABASES, Taste};
use super::journal::{Feed, Journal, TestClock, Words};
use super::state::{self, State, brief};
use commands::{CommandSpec, Engine, Peer, Session};
use fastrand::Rng;
use keyspace::{Content, Defragmentation, Event, Eviction, Item, Policy, Snapshot};
use resp::{Protocol, Writer};
use sim::Incarnation;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, atomic::Ordering::Relaxed};

/// Keys of a request that fills.
const KEYS_AT_ONCE: usize = 70;

/// A script that executes the commands in its arguments, each after the number of its words, and
/// returns their replies.
const SCRIPT: &str = "\
    local replies, at = {}, 1 \
    while at <= #ARGV do \
        local count = tonumber(ARGV[at]) \
        replies[#replies + 1] = redis.pcall(unpack(ARGV, at + 1, at + count)) \
        at = at + count + 1 \
    end \
    return replies";

/// One thing to do.
pub(crate) enum Action {
    Request(Words, &'static str),
    /// All in one MULTI and EXEC.
    Exec(Vec<(Words, &'static str)>),
    /// All in one script. The key that is declared, if any, is the first of the first command.
    Script(Vec<(Words, &'static str)>, bool),
    /// Sent without waiting for replies.
    Pipeline(Vec<(Words, &'static str)>),
    Select(usize),
    Tick(u64),
    Expire(usize),
    Reclaim(usize),
    Defragment(usize),
    Evict(u64),
    Snapshot,
    Grow,
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line =
            |words: &Words| words.iter().map(|word| brief(word)).collect::<Vec<_>>().join(" ");
        let lines = |all: &[(Words, &str)]| {
            all.iter().map(|(words, _)| line(words)).collect::<Vec<_>>().join("; ")
        };
        match self {
            Action::Request(words, _) => f.write_str(&line(words)),
            Action::Exec(all) => write!(f, "MULTI; {}; EXEC", lines(all)),
            Action::Script(all, declares) => {
                write!(f, "script, a key declared: {declares}: {}", lines(all))
            }
            Action::Pipeline(all) => write!(f, "pipelined: {}", lines(all)),
            Action::Select(db) => write!(f, "SELECT {db}"),
            Action::Tick(ms) => write!(f, "{ms} ms pass"),
            Action::Expire(shard) => write!(f, "expire in shard {shard}"),
            Action::Reclaim(shard) => write!(f, "reclaim in shard {shard}"),
            Action::Defragment(shard) => write!(f, "defragment shard {shard}"),
            Action::Evict(seed) => write!(f, "evict ({seed})"),
            Action::Snapshot => f.write_str("snapshot"),
            Action::Grow => f.write_str("grow"),
        }
    }
}

/// Every command that writes, in turn and at random.
pub(crate) struct Draw<'a> {
    pub(crate) writers: &'a [(Vec<&'static str>, &'static CommandSpec)],
    pub(crate) taste: Taste,
    pub(crate) shards: usize,
}

impl Draw<'_> {
    pub(crate) fn action(&self, now: u64, rng: &mut Rng) -> Action {
        let is_owned = self.taste.owner.is_some();
        if is_owned && rng.bool() {
            let requests = (0..rng.usize(2..9)).map(|_| self.request(now, rng));
            return Action::Pipeline(requests.collect());
        }
        match self.any_action(now, rng) {
            // What others own is not to be deleted, nor can be told apart from what they did
            // meanwhile.
            Action::Evict(_) | Action::Snapshot if is_owned => Action::Grow,
            action => action,
        }
    }

    fn any_action(&self, now: u64, rng: &mut Rng) -> Action {
        let shard = rng.usize(..self.shards);
        match rng.usize(..100) {
            0..8 => Action::Exec((0..rng.usize(1..5)).map(|_| self.request(now, rng)).collect()),
            8..18 => {
                Action::Pipeline((0..rng.usize(2..6)).map(|_| self.request(now, rng)).collect())
            }
            18..22 => Action::Select(rng.usize(..DATABASES)),
            22..26 => Action::Tick(rng.u64(1..1500)),
            26..29 => Action::Expire(shard),
            29..33 => Action::Reclaim(shard),
            33..37 => Action::Defragment(shard),
            37..39 => Action::Evict(rng.u64(..)),
            39..43 => Action::Snapshot,
            43 => Action::Grow,
            44..49 => {
                let requests = (0..rng.usize(1..6)).map(|_| self.request(now, rng));
                Action::Script(requests.collect(), rng.bool())
            }
            _ => {
                let (words, name) = self.request(now, rng);
                Action::Request(words, name)
            }
        }
    }

    /// Many keys at once, others for each `n`.
    pub(crate) fn filling(&self, n: usize) -> Action {
        let keys = (0..KEYS_AT_ONCE).map(|key| format!("s{}", n * KEYS_AT_ONCE + key));
        let pairs = keys.flat_map(|key| [key.into_bytes(), b"first".to_vec()]);
        Action::Request([b"MSET".to_vec()].into_iter().chain(pairs).collect(), "mset")
    }

    fn request(&self, now: u64, rng: &mut Rng) -> (Words, &'static str) {
        let (words, spec) = loop {
            let (words, spec) = &self.writers[rng.usize(..self.writers.len())];
            // What empties whole databases would leave nothing to do for the others.
            let is_owned = self.taste.owner.is_some();
            if !spec.keys.is_empty() || (!is_owned && rng.usize(..6) == 0) {
                break (words, spec);
            }
        };
        // A quarter are SET and APPEND: others need something to work on.
        let (words, spec) = match rng.usize(..4) {
            0 => self
                .writers
                .iter()
                .find(|(words, _)| words == &[if rng.usize(..4) == 0 { "append" } else { "set" }])
                .map_or((words, spec), |(words, spec)| (words, spec)),
            _ => (words, spec),
        };
        (generate::request(words, spec, now, &self.taste, rng), words[words.len() - 1])
    }
}

/// One thread's connections and errands.
pub(crate) struct Actor<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) journal: &'a Journal,
    pub(crate) clock: &'a TestClock,
    pub(crate) incarnation: &'a Incarnation<'a>,
    pub(crate) sessions: Vec<Session>,
    /// The number of its first connection among those of all threads.
    first: usize,
    pub(crate) writer: Writer,
    pub(crate) defragmentation: BTreeMap<usize, Defragmentation>,
    pub(crate) snapshots: &'a Mutex<Snapshots>,
}

/// A snapshot that is being read, and those that were: from which position, and what.
#[derive(Default)]
pub(crate) struct Snapshots {
    current: Option<(Snapshot, Taken)>,
    pub(crate) done: Vec<Taken>,
}

/// The position of a snapshot, the time at its cut, and what it gave.
pub(crate) struct Taken {
    pub(crate) position: usize,
    pub(crate) now: u64,
    pub(crate) keys: state::Keys,
}

impl<'a> Actor<'a> {
    pub(crate) fn new(
        engine: &'a Engine,
        journal: &'a Journal,
        clock: &'a TestClock,
        incarnation: &'a Incarnation<'a>,
        connections: std::ops::Range<usize>,
        snapshots: &'a Mutex<Snapshots>,
    ) -> Actor<'a> {
        Actor {
            engine,
            journal,
            clock,
            incarnation,
            first: connections.start,
            sessions: connections.map(|n| engine.connect(Peer::default(), n)).collect(),
            writer: Writer::new(Protocol::Resp2),
            defragmentation: BTreeMap::new(),
            snapshots,
        }
    }

    /// Does it, as this connection of its thread.
    pub(crate) fn act(&mut self, connection: usize, action: &Action) -> Result<(), String> {
        let keyspace = self.engine.keyspace();
        match action {
            Action::Tick(ms) => drop(self.clock.0.fetch_add(*ms, Relaxed)),
            Action::Select(db) => {
                let select = vec![b"SELECT".to_vec(), db.to_string().into_bytes()];
                self.request(connection, &select);
                if self.engine.log().is_none() {
                    self.journal.effective(Feed::Requests(self.first + connection, vec![select]));
                }
            }
            Action::Request(words, name) => self.alone(connection, words, vec![name]),
            Action::Exec(all) => self.exec(connection, all)?,
            Action::Script(all, declares) => self.script(connection, all, *declares),
            Action::Pipeline(all) => self.pipeline(connection, all),
            Action::Expire(shard) => self.background_step("expiry", |actor| {
                let now = actor.clock.now();
                let (mut txn, _) = keyspace.expire_step(*shard, 20, now).map_err(text_of)?;
                actor.engine.finish_step(&mut txn);
                Ok(())
            })?,
            Action::Reclaim(shard) => self.background_step("reclaiming", |_| {
                keyspace.reclaim_step(*shard, 3).map(drop).map_err(text_of)
            })?,
            Action::Defragment(shard) => self.background_step("defragmentation", |actor| {
                let from = actor.defragmentation.get(shard).copied().unwrap_or_default();
                let next = keyspace.defragment_step(*shard, from, 8).map_err(text_of)?;
                actor.defragmentation.insert(*shard, next.unwrap_or_default());
                Ok(())
            })?,
            Action::Evict(seed) => self.background_step("eviction", |actor| actor.evict(*seed))?,
            Action::Snapshot => self.background_step("snapshot", Actor::snapshot)?,
            Action::Grow => self.background_step("growth", |_| {
                keyspace.heap().grow_ahead();
                Ok(())
            })?,
        }
        state::read_through_cache(keyspace)
    }

    fn background_step(
        &mut self,
        name: &'static str,
        run: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        self.journal.begun(vec![name]);
        let done = run(self);
        self.journal.acknowledged();
        done
    }

    fn request(&mut self, connection: usize, words: &Words) -> Vec<u8> {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let session = &mut self.sessions[connection];
        let _ = self.engine.execute(session, &words, &mut self.writer);
        let reply = self.writer.take();
        if reply.starts_with(b"-OOM") {
            self.incarnation.refused();
        }
        reply
    }

    /// One request, one transaction.
    fn alone(&mut self, connection: usize, words: &Words, names: Vec<&'static str>) {
        self.journal.begun(names);
        let reply = self.request(connection, words);
        if self.engine.log().is_none() && !is_error(&reply) {
            self.journal.effective(Feed::Requests(self.first + connection, vec![words.clone()]));
        }
        self.journal.acknowledged();
    }

    fn exec(&mut self, connection: usize, all: &[(Words, &'static str)]) -> Result<(), String> {
        self.journal.begun(all.iter().map(|(_, name)| *name).chain(["exec"]).collect());
        self.request(connection, &vec![b"MULTI".to_vec()]);
        for (words, _) in all {
            self.request(connection, words);
        }
        let reply = self.request(connection, &vec![b"EXEC".to_vec()]);
        self.done_together(connection, all, &reply);
        Ok(())
    }

    /// As [`Actor::exec`], by a script.
    fn script(&mut self, connection: usize, all: &[(Words, &'static str)], declares: bool) {
        self.journal.begun(all.iter().map(|(_, name)| *name).chain(["eval"]).collect());
        let key = all.first().and_then(|(words, _)| words.get(1)).filter(|_| declares);
        let keys = if key.is_some() { "1" } else { "0" };
        let mut eval: Words = ["EVAL", SCRIPT, keys].map(|word| word.as_bytes().to_vec()).into();
        eval.extend(key.cloned());
        for (words, _) in all {
            eval.push(words.len().to_string().into_bytes());
            eval.extend(words.iter().cloned());
        }
        let reply = self.request(connection, &eval);
        self.done_together(connection, all, &reply);
    }

    /// Notes those of several commands in one transaction that came to something.
    fn done_together(&self, connection: usize, all: &[(Words, &'static str)], reply: &[u8]) {
        if self.engine.log().is_none() && reply.first() == Some(&b'*') {
            let mut replies = elements(reply);
            let done = all.iter().filter(|_| replies.next().is_some_and(|reply| !is_error(reply)));
            let done = done.map(|(words, _)| words.clone()).collect();
            self.journal.effective(Feed::Requests(self.first + connection, done));
        }
        self.journal.acknowledged();
    }

    /// As the server executes what arrived at once: runs share a transaction where they can.
    fn pipeline(&mut self, connection: usize, all: &[(Words, &'static str)]) {
        let names = |part: &[(Words, &'static str)]| part.iter().map(|(_, name)| *name).collect();
        let mut rest = all;
        while !rest.is_empty() {
            let mut alone = rest.len();
            if self.engine.joins_commands() {
                let words: Vec<Vec<&[u8]>> = rest
                    .iter()
                    .map(|(words, _)| words.iter().map(Vec::as_slice).collect())
                    .collect();
                let engine = self.engine;
                let mut batch = engine.batch();
                words.iter().for_each(|words| batch.push(words));
                batch.prefetch(&self.sessions[connection]);
                self.journal.begun([names(rest), vec!["pipeline"]].concat());
                let session = &mut self.sessions[connection];
                let done = self.engine.execute_run(session, &batch, 0, &mut self.writer);
                let reply = self.writer.take();
                alone = match done {
                    Ok(run) => {
                        let count = run.requests;
                        let mut replies = replies(&reply);
                        let done = rest[..count]
                            .iter()
                            .filter(|_| replies.next().is_some_and(|reply| !is_error(reply)));
                        let done = done.map(|(words, _)| words.clone()).collect();
                        if self.engine.log().is_none() {
                            let feed = Feed::Requests(self.first + connection, done);
                            self.journal.effective(feed);
                        }
                        rest = &rest[count..];
                        0
                    }
                    Err(count) => count,
                };
                self.journal.acknowledged();
            }
            let (now, later) = rest.split_at(alone.min(rest.len()));
            now.iter().for_each(|(words, name)| self.alone(connection, words, vec![name]));
            rest = later;
        }
    }

    /// Lowers the limit for a moment, so that a key or two must go.
    fn evict(&mut self, seed: u64) -> Result<(), String> {
        let keyspace = self.engine.keyspace();
        let before = keyspace.eviction();
        let mut rng = Rng::with_seed(seed);
        let policies = [Policy::AllkeysRandom, Policy::AllkeysLru, Policy::VolatileTtl];
        let policy = policies[rng.usize(..policies.len())];
        let maxmemory = (keyspace.heap().used() * rng.u64(5..10) / 10).max(1);
        keyspace.set_eviction(Eviction { maxmemory, policy, ..before }, self.clock.now());
        let evicted = keyspace.evict_step(2, self.clock.now(), seed).map_err(text_of);
        keyspace.set_eviction(before, self.clock.now());
        let Some(mut txn) = evicted? else { return Ok(()) };
        if self.engine.log().is_some() {
            self.engine.finish_step(&mut txn);
        } else {
            let all = txn.changes().filter(|change| change.event != Event::FieldExpired);
            let gone = all.map(|change| (change.db, change.key.to_vec())).collect();
            self.journal.effective(Feed::Deleted(gone));
        }
        Ok(())
    }

    /// Takes a snapshot, or reads on in the one that was taken.
    fn snapshot(&mut self) -> Result<(), String> {
        let mut snapshots = pmem::lock(self.snapshots).expect("no panic");
        let (journal, now) = (self.journal, self.clock.now());
        let Some((mut snapshot, mut taken)) = snapshots.current.take() else {
            let made = self.engine.keyspace().snapshot(|| journal.position());
            // Another thread may be reading one.
            let Ok((snapshot, position)) = made else { return Ok(()) };
            let taken = Taken { position, now, keys: state::Keys::new() };
            snapshots.current = Some((snapshot, taken));
            return Ok(());
        };
        drop(snapshots);
        let mut items = Vec::new();
        let mut more = true;
        for _ in 0..3 {
            more = more && snapshot.next(&mut items);
            items.drain(..).for_each(|item| taken.add(item));
        }
        let mut snapshots = pmem::lock(self.snapshots).expect("no panic");
        if more {
            snapshots.current = Some((snapshot, taken));
        } else {
            snapshots.done.push(taken);
        }
        Ok(())
    }
}

impl Taken {
    /// A key, or more elements of one.
    fn add(&mut self, item: Item) {
        let expiry = item.expiry.unwrap_or(0);
        let before = self.keys.remove(&(item.db.number(), item.key.clone()));
        let value = match (before, item.value) {
            (Some((Content::Elements(what, mut all), _)), Content::Elements(_, more)) => {
                all.extend(more);
                Content::Elements(what, all)
            }
            (Some((Content::Fields(mut all), _)), Content::Fields(more)) => {
                all.extend(more);
                Content::Fields(all)
            }
            (Some((Content::Stream(mut all), _)), Content::Stream(more)) => {
                all.extend(more);
                Content::Stream(all)
            }
            (_, value) => value,
        };
        self.keys.insert((item.db.number(), item.key), (value, expiry));
    }

    /// Returns whether it gave what the keyspace held at its cut.
    pub(crate) fn check(self, states: &[State]) -> Result<(), String> {
        let (now, expected) = (self.now, &states[self.position]);
        let keys = self.keys.into_iter();
        let sorted = keys.map(|(name, (value, expiry))| (name, (value.sorted(), expiry)));
        let found = State { now, keys: Arc::new(sorted.collect()) };
        if found.agrees(expected, now) {
            return Ok(());
        }
        let expected = State { now, ..expected.clone() };
        Err(format!("a snapshot differs from its cut:{}", state::difference(&found, &expected)))
    }
}

fn text_of(error: impl fmt::Display) -> String {
    error.to_string()
}

fn is_error(reply: &[u8]) -> bool {
    reply.first() == Some(&b'-')
}

/// The replies in a buffer.
fn replies(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let len = reply_len(rest)?;
        let (reply, following) = rest.split_at(len);
        rest = following;
        Some(reply)
    })
}

/// The replies in an array.
fn elements(array: &[u8]) -> impl Iterator<Item = &[u8]> {
    let line = array.iter().position(|byte| *byte == b'\n').map_or(array.len(), |at| at + 1);
    replies(&array[line..])
}

fn reply_len(bytes: &[u8]) -> Option<usize> {
    let line = bytes.iter().position(|byte| *byte == b'\n')? + 1;
    let number =
        || std::str::from_utf8(&bytes[1..line - 2]).ok().and_then(|text| text.parse::<i64>().ok());
    Some(match bytes[0] {
        b'$' => line + usize::try_from(number()?).map_or(0, |len| len + 2),
        b'*' => {
            let count = number()?.max(0) as usize;
            let mut end = line;
            for _ in 0..count {
                end += reply_len(&bytes[end..])?;
            }
            end
        }
        _ => line,
    })
}
