//! Commands on a keyspace, executed by the engine itself, and everything else that a server does.
//!
//! An incarnation is a list of actions drawn from the command table. A reference, an engine in DRAM
//! that is fed the same, tells what a crash may leave. See [`journal`] for the order in which
//! things take effect.

pub(crate) mod act;
mod damage;
pub(crate) mod generate;
pub(crate) mod journal;
mod replies;
pub(crate) mod scripts;
pub(crate) mod state;

use act::{Action, Actor, Draw, Snapshots};
use commands::{Engine, EngineOptions};
use generate::Taste;
use heap::{CreateOptions, Geometry, Heap};
use journal::{Journal, TestClock, act_as};
use keyspace::{Eviction, Keyspace, Policy};
use pmem::Region;
use sim::{Incarnation, Left, Promises, Workload, run_scheduled};
use state::State;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// When the first incarnation begins.
const BEGIN: u64 = 1_700_000_000_000;
/// This many actions fill a pool in which indexes should split.
const FILLS: usize = 10;
/// Connections of each thread; one more waits for long scripts.
const CONNECTIONS: usize = 3;

/// A kind of pool, and how it is used.
#[derive(Debug)]
pub(crate) struct Commands {
    pub(crate) geometry: Geometry,
    pub(crate) zones: u64,
    /// Several run under the scheduler. Without a log each has its own keys: nothing else tells in
    /// which order they acted.
    pub(crate) threads: usize,
    /// Whether there is a command log, as with the AOF backend.
    pub(crate) log: bool,
    /// The number of bytes from which keys are evicted to make space for a write; with a log.
    pub(crate) maxmemory: u64,
    pub(crate) taste: Taste,
    /// The size of the read cache in bytes, 0 for none. With one, every key is read through it
    /// after each action.
    pub(crate) read_cache: u64,
    /// The limit of a snapshot.
    snapshot_limit: u64,
    /// How many times each command, by name, changed anything.
    pub(crate) changed: Mutex<BTreeMap<&'static str, u64>>,
}

impl Commands {
    /// Returns the kind for this seed: shards, space, threads, keys and values vary.
    pub(crate) fn of(seed: u64) -> Commands {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x5eed);
        let threads = [1, 1, 3][rng.usize(..3)];
        let is_apart = threads > 1 && seed % 2 == 1;
        let log = !is_apart && (threads > 1 || rng.bool());
        let wide = seed.is_multiple_of(7);
        let taste = Taste {
            keys: if wide { 800 } else { [3, 8, 20][rng.usize(..3)] },
            repeats: if wide { 24 } else { 3 },
            many: if seed % 6 == 4 { 1550 } else { 0 },
            large_one_in: [12, 40, 200][rng.usize(..3)],
            filled_at_first: wide,
            owner: None,
        };
        let shards = if wide { 1 } else { [1, 2, 3, 4][rng.usize(..4)] };
        let geometry = Geometry {
            shards,
            ring_parts: 3,
            ring_part: [512, 512, 1024, 4096][rng.usize(..4)],
            zone_spans: [8, 12, 16][rng.usize(..3)],
        };
        let maxmemory = if log && !wide && rng.bool() { 40_000 } else { 0 };
        let zones = rng.u64(1..4);
        let read_cache = [0, 40_000 * shards as u64, 1 << 20][rng.usize(..3)];
        let changed = Mutex::default();
        // Some are given up soon, some never.
        let snapshot_limit = [u64::MAX, u64::MAX, 60_000, 200_000][rng.usize(..4)];
        Commands {
            geometry,
            zones,
            threads,
            log,
            maxmemory,
            taste,
            read_cache,
            snapshot_limit,
            changed,
        }
    }

    /// Several threads that pipeline, on a pool without a log.
    #[allow(dead_code, reason = "a search draws them from its seeds")]
    pub(crate) fn pipelining(seed: u64) -> Commands {
        let kind = Commands::of(seed);
        let filled =
            Taste { filled_at_first: false, keys: [3, 8, 20][seed as usize % 3], ..kind.taste };
        let threads = 2 + seed as usize % 2;
        Commands { threads, log: false, maxmemory: 0, taste: filled, ..kind }
    }

    fn engine(
        &self,
        keyspace: &Arc<Keyspace>,
        clock: &Arc<TestClock>,
        journal: &Arc<Journal>,
    ) -> Arc<Engine> {
        if self.maxmemory > 0 {
            let policy = Policy::AllkeysRandom;
            let maxmemory = self.maxmemory;
            keyspace.set_eviction(Eviction { maxmemory, policy, ..Eviction::default() }, 0);
        }
        keyspace.heap().set_read_cache(self.read_cache);
        keyspace.heap().set_snapshot_limit(self.snapshot_limit);
        let engine = Arc::new(Engine::new(EngineOptions {
            clock: clock.clone(),
            threads: self.threads,
            ..EngineOptions::new(Arc::clone(keyspace))
        }));
        scripts::let_them_move(&engine);
        if self.log {
            engine.set_log(journal.clone());
        }
        engine
    }

    /// Draws the actions of an incarnation: what, when and by which thread and connection.
    fn actions(
        &self,
        engine: &Engine,
        state: &State,
        incarnation: &Incarnation<'_>,
    ) -> Vec<(usize, usize, Action)> {
        let filled = state.keys.len() > 300;
        let writers = generate::writers(engine.table());
        let of = |owner: Option<u8>| Draw {
            writers: &writers,
            taste: Taste { owner, ..self.taste },
            shards: self.geometry.shards,
            may_pause: self.maxmemory == 0,
        };
        let is_apart = self.threads > 1 && !self.log;
        let mut now = state.now;
        let mut actions = Vec::new();
        for n in (0..incarnation.actions).filter(|n| incarnation.has(*n)) {
            let mut rng = incarnation.rng_of(n);
            let (thread, connection) = (rng.usize(..self.threads), rng.usize(..CONNECTIONS));
            let draw = of(is_apart.then_some(thread as u8));
            let action = match self.taste.filled_at_first && n < FILLS && !filled {
                true => draw.filling(n),
                false => draw.action(now, &mut rng),
            };
            if let Action::Tick(ms) = action {
                now += ms;
            }
            incarnation.record(n, || format!("{thread}.{connection} {action:?}"));
            actions.push((thread, connection, action));
        }
        actions
    }
}

impl Workload for Commands {
    type State = State;
    type Store = Arc<Keyspace>;

    fn reserve(&self) -> usize {
        self.geometry.zone_spans * 65536 * (self.zones as usize + 1) - 1
    }

    fn empty(&self) -> State {
        State { now: BEGIN, keys: Arc::default() }
    }

    fn open(&self, region: Region) -> Result<Arc<Keyspace>, String> {
        let heap = if Heap::is_blank(&region) {
            let options = CreateOptions { geometry: self.geometry, ..CreateOptions::default() };
            Heap::create(region, &options).map_err(|error| error.to_string())?
        } else {
            Heap::open(region, [0; 16]).map_err(|error| error.to_string())?.0
        };
        Ok(Arc::new(Keyspace::new(heap, BEGIN)))
    }

    fn read(&self, keyspace: &mut Arc<Keyspace>) -> Result<State, String> {
        keyspace.check().map_err(|error| error.to_string())?;
        match keyspace.heap().damaged() {
            0 => Ok(state::read(keyspace, BEGIN)),
            damaged => Err(format!("{damaged} damaged references met")),
        }
    }

    fn accept(&self, found: &State, promised: &State) -> Option<State> {
        let now = promised.now;
        found.agrees(promised, now).then(|| State { now, keys: Arc::clone(&found.keys) })
    }

    fn run_incarnation(
        &self,
        store: &mut Arc<Keyspace>,
        state: State,
        incarnation: &Incarnation<'_>,
    ) -> Result<Promises<State>, String> {
        let clock = TestClock::at(state.now);
        let journal = Arc::new(Journal::new(incarnation, clock.clone()));
        let engine = self.engine(store, &clock, &journal);
        let actions = self.actions(&engine, &state, incarnation);
        let snapshots = Mutex::default();
        self.act(&engine, &journal, &clock, incarnation, &actions, &snapshots)?;
        let states = journal.states(state, &self.changed)?;
        let snapshots = snapshots.into_inner().expect("no panic");
        snapshots.done.into_iter().try_for_each(|taken| taken.check(&states))?;
        let promises = journal.promises(&states);
        self.count(&engine, &journal);
        drop(engine);
        let (now, last) = (clock.now(), &states[states.len() - 1]);
        let found = self.read(store)?;
        if !found.agrees(last, now) {
            let last = State { now, ..last.clone() };
            return Err(format!("without a crash:{}", state::difference(&found, &last)));
        }
        if incarnation.rng.clone().usize(..3) == 0 {
            store.heap().close().map_err(|error| error.to_string())?;
        }
        Ok(promises)
    }

    fn damage(&self, left: &Left<'_, State>, rng: &mut fastrand::Rng) -> Result<u64, String> {
        damage::flip_bits(self, left, rng)
    }

    fn difference(&self, found: &State, allowed: &[State]) -> String {
        let mut text = String::from("what was found is none of what may be:");
        for (n, state) in allowed.iter().enumerate() {
            let name = if n == 0 { "acknowledged" } else { "under way" };
            text += &format!("\n  {name}:{}", state::difference(found, state));
        }
        text
    }
}

impl Commands {
    /// Adds the outcomes of scripts to the counts.
    fn count(&self, engine: &Engine, journal: &Journal) {
        let mut changed = self.changed.lock().expect("no panic");
        for (what, count) in journal.counted.lock().expect("no panic").iter() {
            *changed.entry(what).or_default() += count;
        }
        *changed.entry("a script that was run again").or_default() += engine.script_reruns();
    }

    fn act(
        &self,
        engine: &Engine,
        journal: &Journal,
        clock: &TestClock,
        incarnation: &Incarnation<'_>,
        actions: &[(usize, usize, Action)],
        snapshots: &Mutex<Snapshots>,
    ) -> Result<(), String> {
        let connections = |thread| thread * (CONNECTIONS + 1)..(thread + 1) * (CONNECTIONS + 1);
        let new = |thread| {
            Actor::new(engine, journal, clock, incarnation, connections(thread), snapshots)
        };
        let mut actors: Vec<Actor<'_>> = (0..self.threads).map(new).collect();
        if self.threads == 1 {
            act_as(0);
            let actor = &mut actors[0];
            return actions.iter().try_for_each(|(_, at, action)| {
                actor.act(*at, action).map_err(|what| format!("{what}\nin {action:?}"))
            });
        }
        // Time passes while nothing is under way.
        let mut seed = incarnation.rng.clone();
        for round in actions.chunk_by(|_, next| !matches!(next.2, Action::Tick(_))) {
            let failed = Mutex::new(None);
            let bodies: Vec<_> = actors
                .iter_mut()
                .enumerate()
                .map(|(thread, actor)| {
                    let failed = &failed;
                    move || {
                        act_as(thread);
                        let mut own = round.iter().filter(|(of, _, action)| {
                            *of == thread && !matches!(action, Action::Tick(_))
                        });
                        let done = own.try_for_each(|(_, at, action)| {
                            actor.act(*at, action).map_err(|what| format!("{what}\nin {action:?}"))
                        });
                        if let Err(what) = done {
                            *failed.lock().expect("no panic") = Some(what);
                        }
                    }
                })
                .collect();
            if let Some((_, _, Action::Tick(ms))) = round.first() {
                clock.0.fetch_add(*ms, std::sync::atomic::Ordering::Relaxed);
            }
            run_scheduled(seed.u64(..), bodies);
            if let Some(what) = failed.into_inner().expect("no panic") {
                return Err(what);
            }
        }
        Ok(())
    }
}
