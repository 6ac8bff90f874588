//! Transactions of commands, crashed at every fence and between: EXEC, MSET, RENAME and pipelined runs are found whole
//! or not at all.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use commands::{Engine, EngineOptions};
use heap::{CreateOptions, Geometry, Heap};
use keyspace::Keyspace;
use pmem::Region;
use sim::{Crash, Effort, Subject, explore};
use support::{Client, TestClock};

const NOW: u64 = 1_700_000_000_000;
const KEYS: &[&str] = &["a", "b", "c", "d", "{a}2"];
const ZONES: usize = 3;

/// Rings that wrap often.
fn geometry() -> Geometry {
    Geometry { shards: 3, ring_parts: 3, ring_part: 512, zone_spans: 16 }
}

type State = BTreeMap<String, String>;

/// Commands that become durable together.
#[derive(Debug)]
enum Plan {
    Exec(Vec<Vec<String>>),
    One(Vec<String>),
    Pipelined(Vec<Vec<String>>),
}

struct Commands;

fn engine(heap: Heap) -> Arc<Engine> {
    let keyspace = Arc::new(Keyspace::new(heap, NOW));
    let options = EngineOptions { clock: TestClock::new(NOW), ..EngineOptions::new(keyspace) };
    Arc::new(Engine::new(options))
}

impl Subject for Commands {
    type State = State;
    type Plan = Plan;
    type Store = Client;

    fn reserve(&self) -> usize {
        geometry().zone_spans * 65536 * (ZONES + 1) - 1
    }

    fn empty(&self) -> State {
        State::new()
    }

    fn open(&self, region: Region) -> Result<Client, String> {
        let heap = if Heap::is_blank(&region) {
            let options = CreateOptions { geometry: geometry(), ..CreateOptions::default() };
            Heap::create(region, &options).map_err(|error| error.to_string())?
        } else {
            Heap::open(region, [0; 16]).map_err(|error| error.to_string())?.0
        };
        Ok(Client::new(&engine(heap)))
    }

    fn read(&self, client: &mut Client) -> Result<State, String> {
        client.engine.keyspace().check().map_err(|error| error.to_string())?;
        let values = KEYS.iter().map(|key| (key.to_string(), client.run(&format!("GET {key}"))));
        Ok(values.filter(|(_, value)| value != "(nil)").collect())
    }

    fn plan(&self, state: &State, random: &mut fastrand::Rng) -> (Plan, State) {
        let mut after = state.clone();
        let many = 2 + random.usize(..4);
        let plan = match random.u8(..3) {
            0 => Plan::One(draw(random)),
            1 => Plan::Exec((0..many).map(|_| draw(random)).collect()),
            _ => Plan::Pipelined((0..many).map(|_| draw(random)).collect()),
        };
        match &plan {
            Plan::One(words) => apply(&mut after, words),
            Plan::Exec(all) | Plan::Pipelined(all) => {
                all.iter().for_each(|words| apply(&mut after, words));
            }
        }
        (plan, after)
    }

    fn close(&self, client: &mut Client) -> Result<(), String> {
        client.engine.keyspace().heap().close().map_err(|error| error.to_string())
    }

    fn run(&self, client: &mut Client, plan: &Plan) -> Result<bool, String> {
        let refused = |reply: &[u8]| reply.windows(4).any(|w| w == b"-OOM" || w == b"-MIS");
        let reply = match plan {
            Plan::One(words) => client.raw(words),
            Plan::Exec(all) => {
                client.raw(&["MULTI"]);
                all.iter().for_each(|words| drop(client.raw(words)));
                client.raw(&["EXEC"])
            }
            Plan::Pipelined(all) => client.pipeline(all).ok_or("a run was not taken")?,
        };
        if refused(&reply) {
            return Err(format!("no room: {}", reply.escape_ascii()));
        }
        Ok(true)
    }
}

fn draw(random: &mut fastrand::Rng) -> Vec<String> {
    let key = |random: &mut fastrand::Rng| KEYS[random.usize(..KEYS.len())].to_owned();
    let value = |random: &mut fastrand::Rng| {
        let len = [1, 20, 50, 300][random.usize(..4)];
        char::from(b'f' + random.u8(..16)).to_string().repeat(len)
    };
    let mut words = match random.u8(..8) {
        0..3 => vec!["SET".into(), key(random), value(random)],
        3 => vec!["DEL".into(), key(random), key(random)],
        4 => vec!["RENAME".into(), key(random), key(random)],
        5 => vec!["APPEND".into(), key(random), value(random)],
        // Fails on all these values: it must leave nothing behind, and the others whole.
        6 => vec!["INCR".into(), KEYS[0].to_owned()],
        _ => vec!["MSET".into()],
    };
    if words.len() == 1 {
        KEYS[1..4].iter().for_each(|key| words.extend([key.to_string(), value(random)]));
    }
    words
}

/// What a command does, in a model of strings as replies show them.
fn apply(state: &mut State, words: &[String]) {
    let quoted = |text: &str| format!("\"{text}\"");
    match words[0].as_str() {
        "SET" => drop(state.insert(words[1].clone(), quoted(&words[2]))),
        "DEL" => words[1..].iter().for_each(|key| drop(state.remove(key))),
        "RENAME" => {
            if let Some(value) = state.remove(&words[1]) {
                state.insert(words[2].clone(), value);
            }
        }
        "APPEND" => {
            let old = state.get(&words[1]).map_or("", |value| value.trim_matches('"'));
            let new = quoted(&format!("{old}{}", words[2]));
            state.insert(words[1].clone(), new);
        }
        "MSET" => words[1..].chunks(2).for_each(|pair| {
            state.insert(pair[0].clone(), quoted(&pair[1]));
        }),
        "INCR" if !state.contains_key(&words[1]) => {
            state.insert(words[1].clone(), quoted("1"));
        }
        "INCR" => {
            let value = state[&words[1]].trim_matches('"');
            if let Ok(number) = value.parse::<i64>() {
                state.insert(words[1].clone(), quoted(&(number + 1).to_string()));
            }
        }
        other => unreachable!("{other}"),
    }
}

fn check(crash: Crash, seed: u64) {
    let effort = Effort { transactions: 30, images: 10, ..Effort::new(crash, seed) };
    match explore(&Commands, effort) {
        Ok(counts) => assert!(counts.images > 200, "{counts:?}"),
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn a_crash_leaves_whole_transactions_in_the_strict_model() {
    (0..2).for_each(|seed| check(Crash::Strict, seed));
}

#[test]
fn a_crash_leaves_whole_transactions_in_the_x86_model() {
    (2..4).for_each(|seed| check(Crash::X86, seed));
}
