//! A history: steps of one client, of waiting clients, of the clock and of the background.

use std::collections::BTreeMap;
use std::sync::Arc;

use commands::spec::Group;
use commands::{Engine, Settings};
use fastrand::Rng;
use keyspace::{Content, Eviction, Policy};

use super::dense;
use super::requests::{self, Requests, Wait, Words, Writes};
use super::world::{World, shown};
use crate::generate;
use crate::support::Client;
use crate::support::data::Data;
use crate::support::wire::{Reply, describe, parse};

/// The maximum number of steps of a history.
const STEPS: usize = 120;
/// The number of clients that may wait.
const WAITING: usize = 3;
/// The body of a script: its arguments are requests, each after its number of words. If the first
/// argument says so, the last request is called such that its error ends the script.
pub(super) const CALLS: &str = "local raises, at = ARGV[1] == '1', 2
while ARGV[at] do
    local count = tonumber(ARGV[at])
    local from, to = at + 1, at + count
    at = to + 1
    if raises and not ARGV[at] then
        redis.call(unpack(ARGV, from, to))
    else
        redis.pcall(unpack(ARGV, from, to))
    end
end";

/// The groups of commands that histories focus on, one after another.
const GROUPS: &[Group] = &[
    Group::String,
    Group::String,
    Group::Bitmap,
    Group::Hyperloglog,
    Group::Hash,
    Group::Hash,
    Group::Set,
    Group::List,
    Group::SortedSet,
    Group::Geo,
    Group::Stream,
    Group::Stream,
    Group::Stream,
    Group::Generic,
];

/// A client that waits, or that may.
struct Waiting {
    client: Client,
    is_blocked: bool,
    /// The requests that unblock it.
    fill: Words,
}

impl Waiting {
    fn new(engine: &Arc<Engine>) -> Waiting {
        Waiting { client: Client::patient(engine), is_blocked: false, fill: Vec::new() }
    }
}

pub(super) struct History {
    world: World,
    requests: Requests,
    steps: u64,
    logged: u64,
    kinds: BTreeMap<&'static str, u64>,
    /// True if the log omits a step sometimes.
    pub(super) forgets: bool,
}

/// The state of one history.
struct Run<'a> {
    history: &'a mut History,
    random: Rng,
    /// The group of most requests.
    focus: Group,
    client: Client,
    waiting: Vec<Waiting>,
    /// The commands of the group that are next.
    deck: Vec<Writes>,
    /// True if the last step made a large value.
    is_large: bool,
    /// The results of DUMP.
    payloads: Vec<Vec<u8>>,
    /// The result of FUNCTION DUMP.
    dump: Vec<u8>,
}

impl History {
    pub(super) fn new() -> History {
        let world = World::new();
        let requests = Requests::new(&world.engine);
        let kinds = BTreeMap::new();
        History { world, requests, steps: 0, logged: 0, kinds, forgets: false }
    }

    pub(super) fn figures(&self) -> String {
        let History { steps, logged, kinds, .. } = self;
        format!("{steps} steps, {logged} commands in the log, {kinds:?}")
    }

    /// Runs the history of a seed. Returns the first violation.
    pub(super) fn run(&mut self, seed: u64) -> Result<(), String> {
        self.world.clear();
        let engine = Arc::clone(&self.world.engine);
        let client = || Client::new(&engine);
        let mut random = Rng::with_seed(seed);
        let focus = GROUPS[seed as usize % GROUPS.len()];
        engine.config().store(settings(&mut random));
        let mut run = Run {
            history: self,
            random,
            focus,
            client: client(),
            waiting: (0..WAITING).map(|_| Waiting::new(&engine)).collect(),
            deck: Vec::new(),
            is_large: false,
            payloads: Vec::new(),
            dump: Vec::new(),
        };
        for _ in 0..4 {
            let made = run.history.requests.made(focus, &mut run.random);
            made.iter().for_each(|words| drop(run.client.raw(words)));
        }
        let mut before = run.history.world.data();
        let mut done = Vec::new();
        let result = (0..STEPS).try_for_each(|n| {
            let (kind, what, mut wrong, after) = run.step(&before);
            before = after;
            if n + 1 == STEPS {
                wrong.extend(run.history.world.differences(true));
            }
            *run.history.kinds.entry(kind).or_default() += 1;
            done.push(what);
            let last = done.len().saturating_sub(4);
            match wrong.first() {
                None => Ok(()),
                Some(first) => Err(format!(
                    "{first}\n    by {kind}: {}\n    ({} violations)",
                    done[last..].join("\n    then "),
                    wrong.len()
                )),
            }
        });
        let Run { mut client, waiting, .. } = run;
        engine.disconnect(&mut client.session);
        waiting.into_iter().for_each(|mut one| engine.disconnect(&mut one.client.session));
        result
    }
}

/// A step: its kind, what was done and logged, the violations, and the data after it.
type Step = (&'static str, String, Vec<String>, Data);

impl Run<'_> {
    /// Takes a step and checks its effects.
    fn step(&mut self, before: &Data) -> Step {
        // Keys that expire here are found by the requests of the step.
        let later = match self.random.u8(..6) {
            0 => {
                self.history.world.clock.advance_ms([3, 61, 2001][self.random.usize(..3)]);
                Some(self.history.world.data())
            }
            _ => None,
        };
        let before = later.as_ref().unwrap_or(before);
        let watched = self.watch(before);
        let (kind, mut what) = self.act();
        self.serve(&mut what);
        let world = &mut self.history.world;
        let logged = world.logged();
        let forgotten = self.history.forgets && self.random.u8(..5) == 0;
        world.replay(if forgotten { &[] } else { &logged });
        let after = world.data();
        let is_silent = logged.is_empty();
        // If nothing was logged and nothing changed, both sides are as they were compared before.
        let is_idle = is_silent && before == &after && kind != "libraries";
        let of_libraries = kind == "libraries"
            || logged.iter().any(|words| words[0].eq_ignore_ascii_case(b"FUNCTION"));
        let mut wrong = if is_idle { Vec::new() } else { world.differences(of_libraries) };
        // Neither here nor in Redis does a watch break when PFDEBUG changes the encoding of a
        // HyperLogLog.
        let is_respelled = logged.iter().any(|words| words[0].eq_ignore_ascii_case(b"PFDEBUG"));
        if kind != "time" && !is_respelled {
            wrong.extend(
                watched.into_iter().filter_map(|watched| watched.violation(before, &after)),
            );
        }
        if is_silent && before != &after && kind != "time" {
            wrong.push("keys changed, and nothing was logged".to_owned());
        }
        self.history.steps += 1;
        self.history.logged += logged.len() as u64;
        let lines: Vec<String> = logged.iter().take(12).map(|words| shown(words)).collect();
        (kind, format!("{what}\n        logs {}", lines.join("; ")), wrong, after)
    }

    /// Watches some keys, of which one exists.
    fn watch(&mut self, before: &Data) -> Vec<Watched> {
        let there = before.keys().nth(self.random.usize(..before.len().max(1)));
        let names: Vec<&str> = generate::keys_of_requests().collect();
        let name = names[self.random.usize(..names.len())];
        let any = (self.random.usize(..2), name.as_bytes().to_vec());
        there.into_iter().chain([&any]).map(|place| self.watched(place)).collect()
    }

    fn watched(&self, place: &(usize, Vec<u8>)) -> Watched {
        let mut client = Client::new(&self.history.world.engine);
        client.run(&format!("SELECT {}", place.0));
        client.raw(&[b"WATCH", &place.1[..]]);
        Watched { place: place.clone(), client }
    }

    fn act(&mut self) -> (&'static str, String) {
        if std::mem::take(&mut self.is_large) {
            let reply = self.client.run("DEL t1 t2 h1 l1 z1");
            return ("a large value", format!("which is deleted -> {reply}"));
        }
        match self.random.u8(..40) {
            0 if self.random.u8(..4) == 0 => self.large(),
            0..=17 => self.one_by_one(),
            18..=21 => self.transaction(),
            22..=25 => self.pipeline(),
            26..=29 => self.script(),
            30..=32 => self.wait(),
            33 if self.random.u8(..4) == 0 => self.libraries(),
            33 => self.one_by_one(),
            34..=36 => {
                let ms = [1, 50, 1000, 20_000, 110_000][self.random.usize(..5)];
                self.history.world.clock.advance_ms(ms);
                ("time", format!("{ms} ms"))
            }
            37 => self.give_up(),
            38 => {
                let engine = Arc::clone(&self.history.world.engine);
                let shard = self.random.usize(..4);
                engine.expire_step(shard, 1000);
                ("expiry", format!("of shard {shard}"))
            }
            _ => self.evict(),
        }
    }

    /// Requests one by one, often after others that made their key's value. They are compared
    /// together, since a comparison takes as long as many of them.
    fn one_by_one(&mut self) -> (&'static str, String) {
        let mut what = Vec::new();
        for _ in 0..self.random.usize(1..10) {
            let made = self.made();
            made.iter().for_each(|words| drop(self.client.raw(words)));
            let words = self.request();
            let reply = self.call(&words);
            let made = if made.is_empty() { String::new() } else { format!("{} | ", all(&made)) };
            what.push(format!("{made}{} -> {reply:.80}", shown(&words)));
        }
        ("requests", what.join(" | "))
    }

    /// Requests that make a value, or none.
    fn made(&mut self) -> Vec<Words> {
        let now = self.history.world.now();
        match self.random.u8(..3) {
            0 => dense::made(self.focus, now, &mut self.random),
            _ => Vec::new(),
        }
    }

    /// Makes a large value, takes elements of it, and deletes it.
    fn large(&mut self) -> (&'static str, String) {
        let requests = requests::large(&mut self.random);
        self.is_large = true;
        requests.iter().for_each(|words| drop(self.client.raw(words)));
        ("a large value", all(&requests))
    }

    fn request(&mut self) -> Words {
        if self.random.u8(..6) == 0
            && let Some(one) = self.waiting.iter().find(|one| one.is_blocked)
        {
            return one.fill.clone();
        }
        let Run { history, deck, focus, random, .. } = self;
        let (now, requests) = (history.world.now(), &history.requests);
        let next = |random: &mut Rng| {
            let group = match random.u8(..8) {
                0..6 => *focus,
                6 => Group::Generic,
                _ => return requests.any_of_all(random),
            };
            if group != *focus || deck.is_empty() {
                let mut all = requests.shuffled(group, random);
                let first = all.pop();
                if group == *focus {
                    *deck = all;
                }
                return first.expect("a command");
            }
            deck.pop().expect("a command")
        };
        let words = requests.any(*focus, now, next, random);
        // `^key` stands for the result of DUMP.
        words.into_iter().map(|word| self.dumped(word)).collect()
    }

    fn dumped(&mut self, word: Vec<u8>) -> Vec<u8> {
        let Some(key) = word.strip_prefix(b"^") else { return word };
        if let Reply::Bulk(_, Some(payload)) = parse(&self.client.raw(&[b"DUMP", key])) {
            self.payloads.push(payload);
        }
        // Often an older one, of which something may have expired.
        let older = self.random.usize(..3).min(self.payloads.len().saturating_sub(1));
        let kept = self.payloads.iter().rev().nth(older);
        kept.cloned().unwrap_or_else(|| b"nothing".to_vec())
    }

    fn call(&mut self, words: &Words) -> String {
        describe(&parse(&self.client.raw(words)))
    }

    fn several(&mut self) -> Vec<Words> {
        if self.random.u8(..4) == 0 {
            return self.history.requests.made(self.focus, &mut self.random);
        }
        let mut requests = self.made();
        for _ in 0..self.random.usize(1..8) {
            if self.random.u8(..6) == 0 {
                let number = self.random.u8(..2).to_string().into_bytes();
                requests.push(vec![b"SELECT".to_vec(), number]);
            }
            requests.push(self.request());
        }
        requests
    }

    fn transaction(&mut self) -> (&'static str, String) {
        let requests = self.several();
        self.client.run("MULTI");
        requests.iter().for_each(|words| drop(self.client.raw(words)));
        let reply = self.client.run("EXEC");
        ("a transaction", format!("{} -> {reply:.200}", all(&requests)))
    }

    fn pipeline(&mut self) -> (&'static str, String) {
        let requests = match self.random.u8(..16) {
            0 => Requests::long_stream(&mut self.random),
            // Several of the same command may be executed as one change.
            1..4 => vec![self.request(); self.random.usize(2..5)],
            _ => self.several(),
        };
        if self.client.pipeline(&requests).is_none() {
            requests.iter().for_each(|words| drop(self.client.raw(words)));
        }
        ("a run", all(&requests))
    }

    /// A script or a function, which declares its keys or does not.
    fn script(&mut self) -> (&'static str, String) {
        let requests = self.several();
        let text = |text: &str| text.as_bytes().to_vec();
        let mut words = match self.random.bool() {
            true => vec![text("EVAL"), text(CALLS)],
            false => vec![text("FCALL"), text(["one", "two"][self.random.usize(..2)])],
        };
        let keys: Vec<&str> = match self.random.bool() {
            true => generate::keys_of_requests().collect(),
            false => Vec::new(),
        };
        words.push(keys.len().to_string().into_bytes());
        words.extend(keys.iter().map(|key| text(key)));
        words.push(self.random.u8(..2).to_string().into_bytes());
        for request in &requests {
            words.push(request.len().to_string().into_bytes());
            words.extend(request.iter().cloned());
        }
        if self.random.u8(..4) == 0 {
            self.client.run("MULTI");
            self.client.raw(&words);
            let reply = self.client.run("EXEC");
            return ("a script in a transaction", format!("{} -> {reply:.80}", all(&requests)));
        }
        let reply = self.call(&words);
        ("a script", format!("{} -> {reply:.80}", all(&requests)))
    }

    /// Lets a client wait for a key that another one will fill.
    fn wait(&mut self) -> (&'static str, String) {
        let Wait { before, request: words, fill } = self.history.requests.waiting(&mut self.random);
        let Some(one) = self.waiting.iter_mut().find(|one| !one.is_blocked) else {
            return ("nothing", String::new());
        };
        one.client.run(&format!("SELECT {}", self.random.u8(..2)));
        before.iter().for_each(|words| drop(one.client.raw(words)));
        one.client.raw(&words);
        one.is_blocked = one.client.outcome.next == commands::Next::Block;
        one.fill = fill;
        ("a client that may wait", format!("{} waits: {}", shown(&words), one.is_blocked))
    }

    /// Collects the replies of clients that were served.
    fn serve(&mut self, what: &mut String) {
        for one in self.waiting.iter_mut().filter(|one| one.is_blocked) {
            if let Some(reply) = one.client.unblocked() {
                one.is_blocked = false;
                what.push_str(&format!(", which serves one that waited: {reply:.80}"));
                *self.history.kinds.entry("(served)").or_default() += 1;
            }
        }
    }

    /// Ends the connection of a waiting client.
    fn give_up(&mut self) -> (&'static str, String) {
        let engine = Arc::clone(&self.history.world.engine);
        if let Some(one) = self.waiting.iter_mut().find(|one| one.is_blocked) {
            engine.disconnect(&mut one.client.session);
            *one = Waiting::new(&engine);
        }
        ("a connection ends", String::new())
    }

    fn libraries(&mut self) -> (&'static str, String) {
        let words = self.history.requests.of_libraries(&self.dump, &mut self.random);
        let reply = self.call(&words);
        if self.random.bool()
            && let Reply::Bulk(_, Some(dump)) = parse(&self.client.raw(&["FUNCTION", "DUMP"]))
        {
            self.dump = dump;
        }
        ("libraries", format!("{} -> {reply:.80}", shown(&words)))
    }

    fn evict(&mut self) -> (&'static str, String) {
        if self.random.u8(..3) > 0 {
            return ("nothing", String::new());
        }
        let world = &self.history.world;
        let before = world.engine.keyspace().eviction();
        let policies = [Policy::AllkeysRandom, Policy::VolatileTtl, Policy::AllkeysLru];
        let policy = policies[self.random.usize(..policies.len())];
        let tight = Eviction { maxmemory: 1, policy, ..before };
        world.engine.keyspace().set_eviction(tight, world.now());
        world.engine.evict_if_over_limit();
        world.engine.keyspace().set_eviction(before, world.now());
        ("eviction", String::new())
    }
}

/// Settings of a history: values change their encoding, and streams their node, after a few
/// elements or after many.
fn settings(random: &mut Rng) -> Settings {
    let usual = Settings::DEFAULT;
    let mut few = |usual: usize| [usual, 3][random.usize(..2)];
    Settings {
        stream_node_max_entries: few(usual.stream_node_max_entries),
        hash_max_listpack_entries: few(usual.hash_max_listpack_entries),
        zset_max_listpack_entries: few(usual.zset_max_listpack_entries),
        set_max_intset_entries: few(usual.set_max_intset_entries),
        ..usual
    }
}

fn all(requests: &[Words]) -> String {
    requests.iter().take(8).map(|words| shown(words)).collect::<Vec<_>>().join(" | ")
}

/// A key that a client of its own watches.
struct Watched {
    place: (usize, Vec<u8>),
    client: Client,
}

impl Watched {
    /// Returns what is wrong with the watch, if anything.
    fn violation(mut self, before: &Data, after: &Data) -> Option<String> {
        self.client.run("MULTI");
        let is_broken = self.client.run("EXEC") == "(nil)";
        let engine = Arc::clone(&self.client.engine);
        engine.disconnect(&mut self.client.session);
        let [old, new] = [before, after].map(|data| data.get(&self.place));
        // Changes of groups and consumers break no watch, as in Redis.
        let is_stream = |value: &Option<&(Content, Option<u64>)>| {
            matches!(value, Some((Content::Stream(_), _)))
        };
        let is_untold = is_stream(&old) && is_stream(&new);
        let key = self.place.1.escape_ascii();
        if old != new && !is_broken && !is_untold {
            return Some(format!(
                "{key} in database {} changed, and its watch holds",
                self.place.0
            ));
        }
        None
    }
}
