//! The engine with a log, the engine into which the log is replayed, and their comparison.

use std::sync::Arc;

use crate::support::data::{Data, data, differences};
use crate::support::wire::{describe, parse, show};
use crate::support::{Client, MemoryLog, TestClock, requests, volatile};
use commands::{Clock, CommandLog, Engine, EngineOptions};

/// The time at which histories begin.
pub(super) const NOW: u64 = 1_700_000_000_000;
/// How far the clock of the copy is ahead: the log must not contain relative times.
const AHEAD: u64 = 5000;

/// A clock that shows a later time than another.
struct Ahead(Arc<TestClock>);

impl Clock for Ahead {
    fn unix_ns(&self) -> u64 {
        self.0.unix_ns() + AHEAD * 1_000_000
    }
}

pub(super) struct World {
    pub(super) engine: Arc<Engine>,
    pub(super) clock: Arc<TestClock>,
    log: Arc<MemoryLog>,
    copy: Arc<Engine>,
    replay: Client,
    /// Logged commands that were not accepted.
    refused: Vec<String>,
}

impl World {
    pub(super) fn new() -> World {
        let (log, clock) = (Arc::new(MemoryLog::default()), TestClock::new(NOW));
        let engine = |shards, log: Option<Arc<dyn CommandLog>>, clock| {
            let options = EngineOptions::new(volatile(shards, 256 << 20));
            Arc::new(Engine::new(EngineOptions { log, clock, ..options }))
        };
        let copy = engine(2, None, Arc::new(Ahead(clock.clone())) as Arc<dyn Clock>);
        let replay = Client::of(&copy, copy.connect_replay());
        World {
            engine: engine(4, Some(log.clone()), clock.clone()),
            clock,
            log,
            copy,
            replay,
            refused: Vec::new(),
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.unix_ns() / 1_000_000
    }

    /// Deletes all data.
    pub(super) fn clear(&mut self) {
        for engine in [&self.engine, &self.copy] {
            let mut client = Client::new(engine);
            client.run("FLUSHALL");
            client.run("FUNCTION FLUSH");
        }
        self.log.clear();
        self.refused.clear();
        self.replay = Client::of(&self.copy, self.copy.connect_replay());
    }

    /// The engine's data.
    pub(super) fn data(&self) -> Data {
        data(self.engine.keyspace(), self.now())
    }

    /// The commands logged since the last call.
    pub(super) fn logged(&self) -> Vec<Vec<Vec<u8>>> {
        let bytes = self.log.bytes();
        self.log.clear();
        requests(&bytes)
    }

    /// Replays logged commands.
    pub(super) fn replay(&mut self, logged: &[Vec<Vec<u8>>]) {
        for words in logged {
            let reply = describe(&parse(&self.replay.raw(words)));
            if reply.starts_with("(error)") {
                let what = format!("the log's {:.200} answers {reply:.100}", shown(words));
                self.refused.push(what);
            }
        }
    }

    /// Describes how the replayed data differs, and the libraries if they are asked for.
    pub(super) fn differences(&mut self, of_libraries: bool) -> Vec<String> {
        let mut wrong = std::mem::take(&mut self.refused);
        let later = self.now() + AHEAD;
        let (kept, copied) =
            (data(self.engine.keyspace(), later), data(self.copy.keyspace(), later));
        let gives = |what: String| format!("the log gives another value: {what:.400}");
        wrong.extend(differences(&kept, &copied).into_iter().map(gives));
        if !of_libraries {
            return wrong;
        }
        let libraries = [&self.engine, &self.copy].map(libraries);
        if libraries[0] != libraries[1] {
            wrong.push(format!("libraries {:.200}, not {:.200}", libraries[1], libraries[0]));
        }
        wrong
    }
}

/// The libraries of an engine in order.
fn libraries(engine: &Arc<Engine>) -> String {
    let reply = Client::new(engine).raw(&["FUNCTION", "LIST", "WITHCODE"]);
    let crate::support::wire::Reply::Many(_, Some(items)) = parse(&reply) else {
        return show(&reply);
    };
    let mut items: Vec<String> = items.iter().map(describe).collect();
    items.sort();
    items.join(" ")
}

/// A request as a readable line.
pub(super) fn shown(words: &[Vec<u8>]) -> String {
    let word = |word: &Vec<u8>| match word.len() {
        0 => "\"\"".to_owned(),
        1..=60 => word.escape_ascii().to_string(),
        length => format!("<{length} bytes>"),
    };
    let shown = words.iter().take(14).map(word).collect::<Vec<_>>().join(" ");
    if words.len() > 14 { format!("{shown} ... {} words", words.len()) } else { shown }
}
