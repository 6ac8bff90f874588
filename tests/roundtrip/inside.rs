//! Ways that need no server: they are cheap, so many more values go through them.
//!
//! Commands make the data in an engine of this process that has a pool and writes a log, both in
//! files; engines in this process and the program `perdura` continue from there.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use commands::{Engine, SaveOptions, StreamPoint};
use testkit::Medium;

use crate::copied;
use crate::dumps::{self, Done, check, send};
use crate::engine::{self, Smallness};
use crate::files;
use crate::shapes;
use crate::state::{self, Asked, Rules, State};
use crate::values::{Data, Maker};
use crate::walk::{self, Form};

/// Rounds without a time limit.
pub(crate) const ROUNDS: u64 = 1;
/// The number of rounds among which cheap shapes are distributed.
const SETS: usize = 16;

const ASKED: Asked = Asked { field_times: true, is_lfu: false };

/// Takes one of the sets of data through all ways.
pub(crate) fn round(seed: u64) -> Done {
    let smallness = [Smallness::Most, Smallness::Least, Smallness::Usual][seed as usize % 3];
    let data = Maker::new(seed, dumps::now(), false).make(&shapes::dealt(seed, SETS));
    let folder = Medium::Memory.scratch();
    let log = engine::log(folder.path());
    let pool = folder.path().join("perdura.pool");
    let engine = engine::over_pool(&pool, Some(log.clone()), smallness);
    let expected = fill(&engine, &data)?;
    let round = Round { smallness, expected, engine };
    round.payloads()?;
    round.dump()?;
    log.sync_all().map_err(|error| error.to_string())?;
    let near = Rules { near: true, ..Rules::ALL };
    round.log(folder.path(), "a log", near)?;
    round.rewritten(&log, folder.path(), true)?;
    round.rewritten(&log, folder.path(), false)?;
    drop(log);
    round.killed(&pool, folder.path())?;
    giants(seed)
}

/// Takes values that are larger than any step through the ways that have steps.
fn giants(seed: u64) -> Done {
    let data = Maker::new(seed, dumps::now(), false).giants();
    let folder = Medium::Memory.scratch();
    let log = engine::log(folder.path());
    let smallness = Smallness::Usual;
    let engine = engine::in_memory(1, Some(log.clone()), smallness);
    let round = Round { smallness, expected: fill(&engine, &data)?, engine };
    round.dump()?;
    round.payloads()?;
    round.rewritten(&log, folder.path(), false)
}

fn fill(engine: &Arc<Engine>, data: &Data) -> Result<State, String> {
    let mut client = engine::connect(engine);
    send(&mut client, &data.requests, false)?;
    send(&mut client, &data.later, false)?;
    let mut expected = state::read(&mut client, ASKED);
    expected.keys.values_mut().for_each(|fields| drop(fields.remove("use")));
    Ok(expected)
}

struct Round {
    smallness: Smallness,
    expected: State,
    engine: Arc<Engine>,
}

impl Round {
    fn in_memory(&self) -> Arc<Engine> {
        engine::in_memory(3, None, self.smallness)
    }

    fn check(&self, way: &str, found: &Arc<Engine>, rules: Rules) -> Done {
        let found = state::read(&mut engine::connect(found), ASKED);
        // Servers compare the usage of keys.
        let rules = Rules { usage: false, ..rules };
        check(&format!("{way}, in a process ({:?})", self.smallness), &self.expected, &found, rules)
    }

    fn payloads(&self) -> Done {
        let folder = Medium::Memory.scratch();
        let log = engine::log(folder.path());
        let there = engine::in_memory(3, Some(log.clone()), self.smallness);
        let (mut from, mut to) = (engine::connect(&self.engine), engine::connect(&there));
        dumps::restore(&mut from, &mut to, &self.expected, &[])?;
        let rules = Rules { near_expiry: true, ..Rules::DUMP };
        self.check("DUMP and RESTORE", &there, rules)?;
        log.sync_all().map_err(|error| error.to_string())?;
        self.log(folder.path(), "a log of RESTORE", rules)
    }

    fn dump(&self) -> Done {
        for (is_for_valkey, threads) in [(true, 1), (false, 3)] {
            let compresses = !is_for_valkey;
            let stream = || Some(StreamPoint { db: 9, history: None, second: None });
            let options =
                SaveOptions { stream: &stream, is_for_valkey, compresses, ..save_options(false) };
            let saved = commands::save(&self.engine, Vec::new(), &options, || ());
            let bytes = saved.map_err(|error| format!("saving: {error}"))?;
            let form = Form { smallness: self.smallness, is_for_valkey, compresses };
            let walked = walk::walk(&bytes, form)
                .map_err(|what| format!("saved (for Valkey: {is_for_valkey}): {what}"))?;
            copied::check_walked(&self.expected, &walked)?;
            let loaded = copied::Loaded { threads, smallness: self.smallness };
            let there = loaded.load(&bytes, true, copied::counts(&bytes, &walked))?;
            let way = format!("saved (for Valkey: {is_for_valkey}), loaded by {threads} threads");
            self.check(&way, &there, Rules::DUMP)?;
            drop(there);
            let (bytes, expected, counts) = copied::changed(&bytes, &walked, &self.expected);
            let there = loaded.load(&bytes, false, counts)?;
            let found = state::read(&mut engine::connect(&there), ASKED);
            let rules = Rules { usage: false, active: true, ..Rules::DUMP };
            check(&format!("{way}, with other times"), &expected, &found, rules)?;
        }
        Ok(())
    }

    fn log(&self, folder: &Path, way: &str, rules: Rules) -> Done {
        let there = engine::replayed(folder, self.smallness);
        self.check(way, &there.map_err(|error| format!("{way}: {error}"))?, rules)
    }

    fn rewritten(&self, log: &aof::Aof, folder: &Path, as_dump: bool) -> Done {
        let options = save_options(true);
        let dump = as_dump.then_some(&options);
        let done = commands::rewrite_log(&self.engine, log, false, &|| true, dump);
        done.map_err(|error| format!("rewriting a log: {error}"))?;
        log.sync_all().map_err(|error| error.to_string())?;
        match as_dump {
            true => self.log(folder, "a log rewritten as a dump", Rules::DUMP),
            false => self.log(folder, "a log rewritten as commands", Rules::COMMANDS),
        }
    }

    /// The pool after the process has ended, and copies of it made by `perdura`.
    fn killed(mut self, pool: &Path, folder: &Path) -> Done {
        // It is not closed.
        self.engine = self.in_memory();
        let name = files::text(pool);
        let (dump, backup) = (folder.join("b.rdb"), folder.join("backup.pool"));
        let (dump, backup) = (files::text(&dump), files::text(&backup));
        let usual = self.smallness == Smallness::Usual;
        // The program knows only the default limits.
        let kept = Rules { encodings: usual, ..Rules::POOL };
        files::perdura(&["backup", "--quiet", "--from", &name, "--to", &dump])?;
        let restored = folder.join("restored.pool");
        files::perdura(&["restore", "--quiet", &dump, "--to", &files::text(&restored)])?;
        self.check_pool("perdura backup and restore", &restored, kept)?;
        files::perdura(&["backup", "--quiet", "--from", &name, "--as", "pool", "--to", &backup])?;
        self.check_pool("perdura backup as a pool", Path::new(&backup), kept)?;
        let exported = files::perdura(&["export", "--quiet", &name, "--format", "resp"])?;
        let there = self.in_memory();
        files::feed(&mut engine::connect(&there), &exported)?;
        let commands = Rules { encodings: usual, ..Rules::COMMANDS };
        self.check("perdura export as commands", &there, commands)?;
        self.check_pool("the pool opened again", pool, Rules::ALL)
    }

    fn check_pool(&self, way: &str, pool: &Path, rules: Rules) -> Done {
        self.check(way, &engine::over_pool(pool, None, self.smallness), rules)
    }
}

fn save_options(is_base: bool) -> SaveOptions<'static> {
    SaveOptions {
        stream: &|| None,
        compresses: true,
        has_checksum: true,
        is_base,
        is_for_valkey: false,
        is_background: false,
        backend: "test",
        spool: &|| Ok(Box::new(Cursor::new(Vec::new()))),
        go_on: &|_| true,
    }
}
