//! Sequences: requests generated from the command table, with restarts in between.

#[path = "../../crates/commands/tests/generate/mod.rs"]
mod request;

use commands::spec::{CommandSpec, Group};
use commands::{Engine, EngineOptions, Run};
use fastrand::Rng;
use heap::{CreateOptions, Geometry, Heap};
use keyspace::Keyspace;
use std::fmt;
use std::sync::Arc;

/// The maximum number of steps in a sequence.
const STEPS: usize = 120;

/// Commands that answer differently each time, that show facts about the process or the memory, or
/// that end the connection.
const LEFT_OUT: &[&str] = &[
    "randomkey", // chosen by chance
    "dbsize",    // an expired key counts until it is deleted
    "refcount",  // nothing is shared here
    "idletime",  // in whole seconds of another clock
    "freq",      // grows by chance
    "dump",      // in the order of a table
    "scan",      // other cursors
    "hscan",     // likewise
    "hrandfield",
    "sscan",
    "srandmember",
    "spop",
    "zrandmember",
    "zscan",
    "hello", // tells the server's name and the connection's number
    "quit",
    "shutdown",
    "lolwut",
    "wait",
    "migrate",   // connects to whatever server is named
    "subscribe", // these have a reply for each name, or a mode of their own
    "unsubscribe",
    "psubscribe",
    "punsubscribe",
    "ssubscribe",
    "sunsubscribe",
    "info",
    "debug", // SCRIPT DEBUG: refused in a pipeline, where there is a debugger
    "docs",  // subcommands come in the order of a hash table
];
/// Commands of the group `server` that are about data; the others are about the process.
const DATA: &[&str] = &["flushall", "flushdb", "swapdb"];
/// Commands that would leave little data if they were as frequent as the others.
const RARE: &[&str] = &["flushall", "flushdb", "swapdb", "reset", "select", "discard"];

/// The commands sent to both servers.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    /// The version of RESP.
    pub(crate) protocol: u8,
    /// The number of commands that are sent before replies are read.
    pub(crate) burst: usize,
    pub(crate) ops: Vec<Op>,
}

/// A step of a sequence.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Call(Vec<Vec<u8>>),
    /// kill -9 of Perdura, and a new start.
    Kill,
    /// SIGTERM, and a new start.
    Terminate,
}

impl Op {
    /// The words of a command.
    pub(crate) fn words(&self) -> Option<&Vec<Vec<u8>>> {
        match self {
            Op::Call(words) => Some(words),
            Op::Kill | Op::Terminate => None,
        }
    }

    pub(crate) fn is_call(&self) -> bool {
        self.words().is_some()
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Kill => f.write_str("-- kill -9, start --"),
            Op::Terminate => f.write_str("-- SIGTERM, start --"),
            Op::Call(words) => {
                let shown = |word: &Vec<u8>| match word.len() {
                    0..=60 => format!("\"{}\"", word.escape_ascii()),
                    length => format!("<{length} bytes>"),
                };
                f.write_str(&words.iter().map(shown).collect::<Vec<_>>().join(" "))
            }
        }
    }
}

/// Makes sequences.
pub(crate) struct Generator {
    commands: Vec<(Option<&'static CommandSpec>, &'static CommandSpec)>,
}

fn engine() -> Engine {
    let geometry = Geometry { shards: 1, ..Geometry::default() };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    let heap = Heap::volatile(1 << 30, &options).expect("a heap in memory");
    Engine::new(EngineOptions::new(Arc::new(Keyspace::new(heap, 0))))
}

impl Generator {
    pub(crate) fn new() -> Generator {
        let engine = engine();
        let asked = |spec: &CommandSpec| match spec.group {
            Group::Server => DATA.contains(&spec.name),
            // Commands that are newer than the server.
            _ if spec.since.starts_with(['8', '9']) || ["7.2.0", "7.4.0"].contains(&spec.since) => {
                false
            }
            _ => !LEFT_OUT.contains(&spec.name),
        };
        let all = engine.table().all().iter();
        let commands = all
            .filter(|c| !matches!(c.spec.run, Run::Container) && asked(c.spec))
            .filter(|c| c.parent.is_none_or(|p| !["client", "command"].contains(&p.name)))
            .map(|c| (c.parent, c.spec));
        Generator { commands: commands.collect() }
    }

    /// The sequence of a seed.
    pub(crate) fn sequence(&self, seed: u64) -> Sequence {
        let mut random = Rng::with_seed(seed);
        let protocol = if random.bool() { 2 } else { 3 };
        let burst = if random.bool() { 1 } else { random.usize(2..40) };
        let steps = random.usize(STEPS / 4..STEPS);
        let mut ops = Vec::new();
        while ops.len() < steps {
            if random.u8(..50) == 0 {
                ops.push(if random.bool() { Op::Kill } else { Op::Terminate });
                continue;
            }
            let (container, spec) = self.commands[random.usize(..self.commands.len())];
            if RARE.contains(&spec.name) && random.u8(..) > 24 {
                continue;
            }
            let mut words = match container {
                Some(container) => request::sub_request(container, spec, &mut random),
                None => request::request(spec, &mut random),
            };
            words.iter_mut().for_each(|word| request::lengthen(word, &mut random));
            if spec.name.starts_with("sort") {
                // Otherwise a SORT there mistakes the error left by an earlier number out of range
                // for its own.
                let words = ["ZADD", "nothing", "XX", "0.5", "m"];
                ops.push(Op::Call(words.map(|word| word.as_bytes().to_vec()).into()));
            }
            ops.push(Op::Call(words));
        }
        Sequence { protocol, burst, ops }
    }
}
