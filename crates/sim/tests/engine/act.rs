//! The actions on a keyspace: requests of several connections, transactions, pipelined runs, and
//! everything that a server does in the background.

use super::generate::{self, DATABASES, Taste};
use super::journal::{Feed, Journal, TestClock, Words};
use super::replies::{bulk, elements, is_error, replies};
use super::scripts::{self, Script};
use super::state::{self, State, brief};
use commands::spec::Group;
use commands::{CommandSpec, Engine, Next, OneByOne, Peer, Session};
use fastrand::Rng;
use keyspace::{
    Compaction, Content, Defragmentation, Error, Event, Eviction, Item, Policy, Snapshot,
    SnapshotLost, SnapshotWalk,
};
use resp::{Protocol, Writer};
use sim::Incarnation;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, atomic::Ordering::Relaxed};

/// Number of keys of a request that fills the pool.
const KEYS_AT_ONCE: usize = 70;

/// One action.
pub(crate) enum Action {
    Request(Words, &'static str),
    /// All in one MULTI and EXEC.
    Exec(Vec<Part>),
    Script(Script),
    /// Sent without waiting for replies.
    Pipeline(Vec<(Words, &'static str)>),
    Select(usize),
    Tick(u64),
    Expire(usize),
    Reclaim(usize),
    Defragment(usize),
    /// Takes this many steps of compaction: making space out of sparsely used spans.
    Compact(usize),
    Evict(u64),
    Snapshot,
    Grow,
}

/// A part of an EXEC.
pub(crate) enum Part {
    Request(Words, &'static str),
    Script(Script),
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
            Action::Exec(all) => {
                let parts = all.iter().map(|part| match part {
                    Part::Request(words, _) => line(words),
                    Part::Script(script) => format!("{script:?}"),
                });
                write!(f, "MULTI; {}; EXEC", parts.collect::<Vec<_>>().join("; "))
            }
            Action::Script(script) => write!(f, "{script:?}"),
            Action::Pipeline(all) => write!(f, "pipelined: {}", lines(all)),
            Action::Select(db) => write!(f, "SELECT {db}"),
            Action::Tick(ms) => write!(f, "{ms} ms pass"),
            Action::Expire(shard) => write!(f, "expire in shard {shard}"),
            Action::Reclaim(shard) => write!(f, "reclaim in shard {shard}"),
            Action::Defragment(shard) => write!(f, "defragment shard {shard}"),
            Action::Compact(steps) => write!(f, "compact in {steps} steps"),
            Action::Evict(seed) => write!(f, "evict ({seed})"),
            Action::Snapshot => f.write_str("snapshot"),
            Action::Grow => f.write_str("grow"),
        }
    }
}

/// Draws every command that writes, in turn and at random.
pub(crate) struct Draw<'a> {
    pub(crate) writers: &'a [(Vec<&'static str>, &'static CommandSpec)],
    pub(crate) taste: Taste,
    pub(crate) shards: usize,
    /// Scripts may take long. (While one does, nothing is evicted.)
    pub(crate) may_pause: bool,
}

impl Draw<'_> {
    pub(crate) fn action(&self, now: u64, rng: &mut Rng) -> Action {
        let is_owned = self.taste.owner.is_some();
        if is_owned && rng.bool() {
            let requests = (0..rng.usize(2..9)).map(|_| self.request(now, rng));
            return Action::Pipeline(requests.collect());
        }
        match self.any_action(now, rng) {
            // Keys of others must not be deleted, and a snapshot of them could not be compared with
            // what they did meanwhile.
            Action::Evict(_) | Action::Snapshot if is_owned => Action::Grow,
            action => action,
        }
    }

    fn any_action(&self, now: u64, rng: &mut Rng) -> Action {
        let shard = rng.usize(..self.shards);
        match rng.usize(..100) {
            0..8 => Action::Exec((0..rng.usize(1..5)).map(|_| self.part(now, rng)).collect()),
            8..18 => {
                Action::Pipeline((0..rng.usize(2..6)).map(|_| self.request(now, rng)).collect())
            }
            18..22 => Action::Select(rng.usize(..DATABASES)),
            22..26 => Action::Tick(rng.u64(1..1500)),
            26..29 => Action::Expire(shard),
            29..33 => Action::Reclaim(shard),
            33..35 => Action::Defragment(shard),
            35..37 => Action::Compact(rng.usize(1..30)),
            37..39 => Action::Evict(rng.u64(..)),
            39..43 => Action::Snapshot,
            43 => Action::Grow,
            44..53 => Action::Script(self.script(now, rng)),
            53..56 => {
                let (words, name) = self.of_libraries(now, rng);
                Action::Request(words, name)
            }
            _ => {
                let (words, name) = self.request(now, rng);
                Action::Request(words, name)
            }
        }
    }

    /// Returns a request for many keys at once, others for each `n`.
    pub(crate) fn filling(&self, n: usize) -> Action {
        let keys = (0..KEYS_AT_ONCE).map(|key| format!("s{}", n * KEYS_AT_ONCE + key));
        let pairs = keys.flat_map(|key| [key.into_bytes(), b"first".to_vec()]);
        Action::Request([b"MSET".to_vec()].into_iter().chain(pairs).collect(), "mset")
    }

    fn part(&self, now: u64, rng: &mut Rng) -> Part {
        match rng.usize(..6) {
            0 => Part::Script(self.script(now, rng)),
            1 => {
                let (words, name) = self.of_libraries(now, rng);
                Part::Request(words, name)
            }
            _ => {
                let (words, name) = self.request(now, rng);
                Part::Request(words, name)
            }
        }
    }

    fn script(&self, now: u64, rng: &mut Rng) -> Script {
        let commands = (0..rng.usize(1..6)).map(|_| self.request(now, rng)).collect();
        Script::draw(commands, &self.taste, self.may_pause, rng)
    }

    /// Returns a change of the function libraries. Changes of all libraries are left to threads
    /// that share them.
    fn of_libraries(&self, now: u64, rng: &mut Rng) -> (Words, &'static str) {
        let others = ["delete", "restore", "flush"];
        let most = if self.taste.owner.is_some() { 1 } else { others.len() };
        let name = if rng.bool() { "load" } else { others[rng.usize(..most)] };
        let is_it = |spec: &CommandSpec| spec.group == Group::Scripting && spec.name == name;
        let found = self.writers.iter().find(|(_, spec)| is_it(spec));
        let (words, spec) = found.expect("a command of FUNCTION");
        (generate::request(words, spec, now, &self.taste, rng), name)
    }

    fn request(&self, now: u64, rng: &mut Rng) -> (Words, &'static str) {
        let (words, spec) = loop {
            let (words, spec) = &self.writers[rng.usize(..self.writers.len())];
            if spec.group == Group::Scripting {
                continue;
            }
            // A command that empties whole databases would leave nothing to do for the others.
            let is_owned = self.taste.owner.is_some();
            if !spec.keys.is_empty() || (!is_owned && rng.usize(..6) == 0) {
                break (words, spec);
            }
        };
        // A quarter are SET and APPEND: other commands need something to work on.
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

/// The connections and background work of one thread.
pub(crate) struct Actor<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) journal: &'a Journal,
    pub(crate) clock: &'a TestClock,
    pub(crate) incarnation: &'a Incarnation<'a>,
    /// The last one waits for scripts that are moved.
    pub(crate) sessions: Vec<Session>,
    /// The number of its first connection among those of all threads.
    first: usize,
    /// Receives the messages of its scripts, on a separate channel.
    listener: Session,
    channel: String,
    pub(crate) writer: Writer,
    pub(crate) defragmentation: BTreeMap<usize, Defragmentation>,
    pub(crate) compaction: Compaction,
    pub(crate) snapshots: &'a Mutex<Snapshots>,
}

/// The snapshot that is being read, and earlier ones: from which position, and their content.
#[derive(Default)]
pub(crate) struct Snapshots {
    current: Option<(SnapshotWalk<Snapshot>, Taken)>,
    pub(crate) done: Vec<Taken>,
}

/// The position of a snapshot, the time at its cut, and its content.
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
        let (first, channel) = (connections.start, format!("scripts {}", connections.start));
        let mut sessions: Vec<Session> =
            connections.map(|n| engine.connect(Peer::default(), n)).collect();
        if let Some(patient) = sessions.last_mut() {
            patient.set_can_block();
            patient.set_can_walk();
        }
        let (mut listener, mut writer) =
            (engine.connect(Peer::default(), first), Writer::new(Protocol::Resp2));
        listener.set_can_block();
        let subscribe: [&[u8]; 2] = [b"SUBSCRIBE", channel.as_bytes()];
        // Any command may evict keys that an earlier incarnation left.
        journal.begun(vec!["subscribe"]);
        let _ = engine.execute(&mut listener, &subscribe, &mut writer);
        journal.acknowledged();
        let _ = listener.client.take_pushes(&mut writer.take());
        Actor {
            engine,
            journal,
            clock,
            incarnation,
            first,
            sessions,
            listener,
            channel,
            writer,
            defragmentation: BTreeMap::new(),
            compaction: Compaction::default(),
            snapshots,
        }
    }

    /// Runs an action as this connection of its thread.
    pub(crate) fn act(&mut self, connection: usize, action: &Action) -> Result<(), String> {
        let keyspace = self.engine.keyspace();
        match action {
            Action::Tick(ms) => drop(self.clock.0.fetch_add(*ms, Relaxed)),
            Action::Select(db) => {
                let select = vec![b"SELECT".to_vec(), db.to_string().into_bytes()];
                self.journal.begun(vec!["select"]);
                self.request(connection, &select);
                if self.engine.log().is_none() {
                    self.journal.effective(Feed::Requests(self.first + connection, vec![select]));
                }
                self.journal.acknowledged();
            }
            Action::Request(words, name) => self.alone(connection, words, vec![name]),
            Action::Exec(all) => self.exec(connection, all)?,
            Action::Script(script) => self.script(connection, script)?,
            Action::Pipeline(all) => self.pipeline(connection, all),
            Action::Expire(shard) => self.background_step("expiry", |actor| {
                let losses = keyspace.losses();
                // Whoever has the shard locked does not wait for this.
                if let Some((mut txn, _)) = keyspace.try_stage_expiry(*shard, 20, actor.clock.now())
                {
                    actor.engine.commit_step(&mut txn, losses);
                }
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
            Action::Compact(steps) => self.background_step("compaction", |actor| {
                for _ in 0..*steps {
                    keyspace.compact_step(&mut actor.compaction).map_err(text_of)?;
                }
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
        let outcome = self.engine.execute(session, &words, &mut self.writer);
        if outcome.next == Next::Block {
            scripts::run_moved(self.engine, session, &mut self.writer);
        }
        scripts::end_request();
        let reply = self.writer.take();
        if reply.starts_with(b"-OOM") {
            self.incarnation.refused();
        }
        reply
    }

    /// Runs one request as one transaction.
    fn alone(&mut self, connection: usize, words: &Words, names: Vec<&'static str>) {
        self.journal.begun(names);
        let reply = self.request(connection, words);
        if self.engine.log().is_none() && !is_error(&reply) {
            let done = vec![as_done(words, &reply)];
            self.journal.effective(Feed::Requests(self.first + connection, done));
        }
        self.journal.acknowledged();
    }

    fn exec(&mut self, connection: usize, all: &[Part]) -> Result<(), String> {
        let names = all.iter().flat_map(|part| match part {
            Part::Request(_, name) => vec![*name],
            Part::Script(script) => script.names().collect(),
        });
        self.journal.begun(names.chain(["exec"]).collect());
        let scripts = || {
            all.iter().filter_map(|part| match part {
                Part::Script(script) => Some(script),
                Part::Request(..) => None,
            })
        };
        let long = scripts().find(|script| script.pauses());
        let connection = if long.is_some() { self.sessions.len() - 1 } else { connection };
        self.request(connection, &vec![b"MULTI".to_vec()]);
        for part in all {
            match part {
                Part::Request(words, _) => self.request(connection, words),
                Part::Script(script) => self.request(connection, &script.words(&self.channel)),
            };
        }
        if let Some(long) = long {
            long.set_up();
        }
        let reply = self.request(connection, &vec![b"EXEC".to_vec()]);
        let (mut done, mut messages) = (Vec::new(), 0);
        if reply.first() == Some(&b'*') {
            for (part, reply) in all.iter().zip(elements(&reply)) {
                match part {
                    Part::Request(words, _) if !is_error(reply) => done.push(as_done(words, reply)),
                    Part::Request(..) => {}
                    Part::Script(script) => {
                        messages += usize::from(self.add_done(script, reply, &mut done));
                    }
                }
            }
            if self.engine.log().is_none() {
                self.journal.effective(Feed::Requests(self.first + connection, done));
            }
        }
        self.journal.acknowledged();
        self.check_messages(messages)
    }

    fn script(&mut self, connection: usize, script: &Script) -> Result<(), String> {
        self.journal.begun(script.names().collect());
        let connection = if script.pauses() { self.sessions.len() - 1 } else { connection };
        let words = script.words(&self.channel);
        script.set_up();
        let reply = self.request(connection, &words);
        let mut done = Vec::new();
        let counts = self.add_done(script, &reply, &mut done);
        if counts && self.engine.log().is_none() {
            self.journal.effective(Feed::Requests(self.first + connection, done));
        }
        self.journal.acknowledged();
        self.check_messages(usize::from(counts))
    }

    /// Adds what a script with this reply did. Returns false if none of it counts.
    fn add_done(&self, script: &Script, reply: &[u8], done: &mut Vec<Words>) -> bool {
        self.journal.count(script.outcome(reply));
        let Some(commands) = script.done(reply) else { return false };
        done.extend(commands.into_iter().map(|(words, reply)| as_done(words, reply)));
        true
    }

    /// Checks that each script that counts has sent its message once.
    fn check_messages(&mut self, expected: usize) -> Result<(), String> {
        let mut pushes = Vec::new();
        let _ = self.listener.client.take_pushes(&mut pushes);
        let found = pushes.windows(8).filter(|bytes| bytes == b"a script").count();
        match found == expected {
            true => Ok(()),
            false => Err(format!("{found} messages of {expected} scripts")),
        }
    }

    /// Executes requests like the server when they arrive together: runs share a transaction if
    /// possible.
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
                        let both = rest[..count].iter().zip(&mut replies);
                        let done = both.filter(|(_, reply)| !is_error(reply));
                        let done = done.map(|((words, _), reply)| as_done(words, reply)).collect();
                        if self.engine.log().is_none() {
                            let feed = Feed::Requests(self.first + connection, done);
                            self.journal.effective(feed);
                        }
                        rest = &rest[count..];
                        0
                    }
                    Err(OneByOne(count)) => count,
                };
                self.journal.acknowledged();
            }
            let (now, later) = rest.split_at(alone.min(rest.len()));
            now.iter().for_each(|(words, name)| self.alone(connection, words, vec![name]));
            rest = later;
        }
    }

    /// Lowers the limit for a moment, so that a key or two must be evicted.
    fn evict(&mut self, seed: u64) -> Result<(), String> {
        let keyspace = self.engine.keyspace();
        let before = keyspace.eviction();
        let mut rng = Rng::with_seed(seed);
        let policies = [Policy::AllkeysRandom, Policy::AllkeysLru, Policy::VolatileTtl];
        let policy = policies[rng.usize(..policies.len())];
        let maxmemory = (keyspace.heap().used() * rng.u64(5..10) / 10).max(1);
        keyspace.set_eviction(Eviction { maxmemory, policy, ..before }, self.clock.now());
        let evicted = keyspace.stage_eviction_if_over_limit(2, self.clock.now(), seed);
        keyspace.set_eviction(before, self.clock.now());
        let mut txn = match evicted {
            Ok(Some(txn)) => txn,
            // Others hold the shards of all keys that could be evicted: it waits for none.
            Ok(None) | Err(Error::Locked(_)) => return Ok(()),
            Err(error) => return Err(text_of(error)),
        };
        if self.engine.log().is_some() {
            self.engine.commit_step(&mut txn, keyspace.losses());
        } else {
            txn.commit().map_err(text_of)?;
            let all = txn.changes().filter(|change| change.event != Event::FieldExpired);
            let gone = all.map(|change| (change.db, change.key.to_vec())).collect();
            self.journal.effective(Feed::Deleted(gone));
        }
        Ok(())
    }

    /// Takes a snapshot, or continues to read the one that was taken.
    fn snapshot(&mut self) -> Result<(), String> {
        let mut snapshots = pmem::lock(self.snapshots).expect("no panic");
        let (journal, now) = (self.journal, self.clock.now());
        let Some((mut walk, mut taken)) = snapshots.current.take() else {
            drop(snapshots);
            let made = self.engine.keyspace().snapshot(|| journal.position());
            // Another thread may be reading one.
            let Ok((snapshot, position)) = made else { return Ok(()) };
            let mut taken = Taken { position, now, keys: state::Keys::new() };
            // Before the keys: a shard is released when its last key has been read.
            let shown = snapshot.for_each_library(|code| {
                let library = (state::LIBRARIES, scripts::name_in(code));
                taken.keys.insert(library, (Content::String(code.to_vec()), 0));
                Ok::<(), SnapshotLost>(())
            });
            match shown {
                Err(SnapshotLost::Released) => return Err("it was released too early".into()),
                // Its content is discarded.
                Err(_) => return Ok(()),
                Ok(()) => {}
            }
            pmem::lock(self.snapshots).expect("no panic").current = Some((snapshot.walk(), taken));
            return Ok(());
        };
        drop(snapshots);
        let mut items = Vec::new();
        let mut more = true;
        for _ in 0..3 {
            more = more
                && match walk.next(&mut items) {
                    Err(SnapshotLost::Released) => return Err("it was released too early".into()),
                    // Its content is discarded.
                    Err(_) => return Ok(()),
                    Ok(more) => more,
                };
            items.drain(..).for_each(|item| taken.add(item));
        }
        let mut snapshots = pmem::lock(self.snapshots).expect("no panic");
        if more {
            snapshots.current = Some((walk, taken));
        } else {
            snapshots.done.push(taken);
        }
        Ok(())
    }
}

impl Taken {
    /// Adds a key, or more elements of one.
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

    /// Checks that the snapshot gave what the keyspace held at its cut.
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

/// Returns a request that another engine, which draws other random numbers, can repeat.
fn as_done(words: &Words, reply: &[u8]) -> Words {
    let members: Words = match reply.first() {
        Some(b'$') if !reply.starts_with(b"$-1") => vec![bulk(reply).to_vec()],
        Some(b'*') => elements(reply).map(|member| bulk(member).to_vec()).collect(),
        _ => Vec::new(),
    };
    if words[0] != b"spop" || members.is_empty() {
        return words.clone();
    }
    [b"SREM".to_vec(), words[1].clone()].into_iter().chain(members).collect()
}

fn text_of(error: impl fmt::Display) -> String {
    error.to_string()
}
