//! One thread and one store, opened again and again: each call is made on the store and on the
//! model.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use perdura::{DomainRequest, Durability, Operations, Options, Perdura, Snapshot};
use tempfile::TempDir;

use super::draw::Draw;
use super::state::{Checked, Db, same};
use super::{
    bits, collections, content, costs, handles, iterators, ranked, streams, strings, tables,
    watchers,
};

/// Unix time in milliseconds, advanced by the session alone.
static CLOCK: AtomicU64 = AtomicU64::new(0);
const START: u64 = 1_700_000_000_000;

pub(crate) fn clock() -> u64 {
    CLOCK.load(Relaxed)
}

/// Databases that are used.
pub(crate) const DATABASES: [usize; 3] = [0, 3, 15];

/// The medium of the store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Medium {
    Memory,
    Process,
    /// A file with the instructions of persistent memory.
    Clwb,
    Journal(Durability),
}

impl Medium {
    /// Chooses by the number of a round: memory most often, since files cost ten times as much.
    fn of_round(round: u64) -> Medium {
        match round % 16 {
            1 | 9 => Medium::Process,
            3 => Medium::Clwb,
            5 | 11 => Medium::Journal(Durability::Immediate),
            7 => Medium::Journal(Durability::Os),
            // Never, for the duration of the test.
            13 => Medium::Journal(Durability::Interval(Duration::from_secs(3600))),
            _ => Medium::Memory,
        }
    }

    /// Returns the steps of a round.
    fn steps(self) -> usize {
        if self == Medium::Memory { 1000 } else { 350 }
    }

    fn options(self, pool: PathBuf) -> Options {
        let options = match self {
            Medium::Memory => Options::volatile(),
            Medium::Process => Options::new(pool).domain(DomainRequest::Process),
            Medium::Clwb => Options::new(pool).domain(DomainRequest::Clwb).emulate_pmem(true),
            Medium::Journal(durability) => {
                Options::new(pool).domain(DomainRequest::Journal).durability(durability)
            }
        };
        options.limit(192 << 20).journal_size(4 << 20).background(false).clock(clock)
    }
}

/// Maximum number of commits of an opening.
const OPENING_COMMITS: u64 = 32;

pub(crate) type Dbs = Vec<Db>;

pub(crate) struct Session {
    pub(crate) medium: Medium,
    pub(crate) store: Arc<Perdura>,
    /// By index in [`DATABASES`].
    pub(crate) dbs: Dbs,
    pub(crate) draw: Draw,
    pub(crate) snapshots: Vec<(Snapshot<Arc<Perdura>>, Dbs)>,
    pub(crate) folder: TempDir,
    files: usize,
    /// None in most sessions: calls take another way while somebody waits.
    watchers: Option<watchers::Watchers>,
}

/// Runs one of the operations that a store, a database and a transaction have.
pub(crate) fn step<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw) -> Checked {
    let now = clock();
    db.at(now);
    let done = match draw.below(40) {
        0..5 => strings::keys(on, db, draw),
        5..10 => strings::step(on, db, draw),
        10..13 => bits::step(on, db, draw),
        13 => bits::sketches(on, db, draw),
        14..17 => collections::lists(on, db, draw),
        17..20 => collections::hashes(on, db, draw),
        20..22 => collections::sets(on, db, draw),
        22..24 => collections::sorting(on, db, draw),
        24..28 => ranked::step(on, db, draw),
        28..30 => ranked::geo(on, db, draw),
        30..32 => streams::step(on, db, draw),
        32..35 => streams::groups(on, db, draw),
        _ => tables::step(on, db, draw),
    };
    db.at(now);
    done
}

impl Session {
    fn new(seed: u64) -> Result<Session, String> {
        CLOCK.store(START, Relaxed);
        let medium = Medium::of_round(seed);
        let memory = Path::new("/dev/shm");
        let folder =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let folder = folder.map_err(|error| error.to_string())?;
        let options = medium.options(folder.path().join("0.pool"));
        let store = Perdura::open(options).map_err(|error| format!("opening: {error}"))?;
        let db = Db { now: START, ..Db::default() };
        Ok(Session {
            medium,
            store: Arc::new(store),
            dbs: vec![db; DATABASES.len()],
            draw: Draw::new(seed, medium != Medium::Journal(Durability::Immediate)),
            snapshots: Vec::new(),
            folder,
            files: 0,
            watchers: matches!(seed % 16, 2 | 6 | 9 | 14).then(Default::default),
        })
    }

    /// Advances the clock, for the model too.
    pub(crate) fn tick(&mut self) {
        let by = self.draw.of(&[0, 1, 1, 1, 1, 2, 4, 5, 999, 1000, 3_600_000]);
        let now = CLOCK.fetch_add(by, Relaxed) + by;
        self.dbs.iter_mut().for_each(|db| db.at(now));
    }

    /// Makes one call of the store or a database, and checks its cost.
    pub(crate) fn call(&mut self) -> Checked {
        if self.draw.one_in(5) {
            self.tick();
        }
        let n = if self.draw.below(3) > 0 { 0 } else { self.draw.below(DATABASES.len()) };
        let (store, watch) = (Arc::clone(&self.store), costs::Watch::begin(self, n));
        let (db, draw) = (&mut self.dbs[n], &mut self.draw);
        if n == 0 && draw.rng.bool() {
            step(&*store, db, draw)?;
        } else {
            let database = store.database(DATABASES[n]).map_err(|error| error.to_string())?;
            step(&database, db, draw)?;
        }
        watch.map_or(Ok(()), |watch| watch.end(self, n))
    }

    /// Compares everything.
    pub(crate) fn check(&mut self, what: &str) -> Checked {
        let now = clock();
        self.dbs.iter_mut().for_each(|db| db.at(now));
        for (number, db) in DATABASES.into_iter().zip(&self.dbs) {
            let database = self.store.database(number).map_err(|error| error.to_string())?;
            let what = format!("{what}: database {number}");
            content::check(&what, &database, database.keys(), db)?;
        }
        match self.store.check() {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(unsound)) => Err(format!("{what}: the store is unsound: {unsound}")),
            Err(error) => Err(format!("{what}: {error}")),
        }
    }

    /// Compares a snapshot with the data at the time when it was taken.
    pub(crate) fn check_snapshot(&mut self) -> Checked {
        if self.snapshots.is_empty() {
            return Ok(());
        }
        let (snapshot, dbs) = &self.snapshots[self.draw.below(self.snapshots.len())];
        for (number, db) in DATABASES.into_iter().zip(dbs) {
            let view = snapshot.database(number).map_err(|error| error.to_string())?;
            let what = format!("a snapshot's database {number}");
            content::check(&what, &view, view.keys(), db)?;
            same(&what, view.number(), number)?;
            let least = db.keys.len() as u64;
            let most = least + db.gone.len() as u64;
            match view.len() {
                Ok(len) if (least..=most).contains(&len) => {}
                len => return Err(format!("{what}: len() is {len:?}, and not {least} to {most}")),
            }
        }
        Ok(())
    }

    /// Closes the store, or kills it, and opens it again.
    fn reopen(&mut self) -> Checked {
        if self.medium == Medium::Memory {
            return Ok(());
        }
        self.snapshots.clear();
        self.watchers.iter_mut().for_each(watchers::Watchers::clear);
        let is_closed = self.draw.rng.bool();
        self.draw.call(if is_closed { "close".into() } else { "kill".into() });
        let at = |files: usize| self.folder.path().join(format!("{files}.pool"));
        let (old, new) = (at(self.files), at(self.files + 1));
        let memory = Perdura::open(Options::volatile().limit(32 << 20).background(false));
        let memory = Arc::new(memory.map_err(|error| error.to_string())?);
        let store = std::mem::replace(&mut self.store, memory);
        if is_closed {
            let store = Arc::into_inner(store).ok_or("somebody has the store still")?;
            store.close().map_err(|error| format!("closing: {error}"))?;
        } else {
            // The files as the kernel has them: the journal first, since batches are applied
            // meanwhile.
            let journal = |pool: &PathBuf| PathBuf::from(format!("{}.journal", pool.display()));
            if matches!(self.medium, Medium::Journal(_)) {
                fs::copy(journal(&old), journal(&new)).map_err(|error| error.to_string())?;
            }
            fs::copy(&old, &new).map_err(|error| error.to_string())?;
            drop(store);
            let _ = fs::remove_file(journal(&old));
            fs::remove_file(&old).map_err(|error| error.to_string())?;
            self.files += 1;
        }
        let options = self.medium.options(at(self.files));
        let store = Perdura::open(options).map_err(|error| format!("opening again: {error}"))?;
        // An opening commits little by itself.
        let (commits, most) = (store.statistics().commits, OPENING_COMMITS);
        let most = if self.medium == Medium::Process { 0 } else { most };
        if commits > most {
            return Err(format!("{commits} commits of a store that was just opened"));
        }
        self.store = Arc::new(store);
        self.check(if is_closed { "after a close" } else { "after a kill" })
    }

    fn take_snapshot(&mut self) -> Checked {
        if self.snapshots.len() == 3 {
            let at = self.draw.below(3);
            self.snapshots.remove(at);
        }
        self.draw.call("snapshot".into());
        let snapshot =
            self.store.shared_snapshot().map_err(|error| format!("snapshot: {error}"))?;
        let now = clock();
        self.dbs.iter_mut().for_each(|db| db.at(now));
        self.snapshots.push((snapshot, self.dbs.clone()));
        Ok(())
    }

    fn act(&mut self) -> Checked {
        self.step()?;
        let Some(watchers) = &mut self.watchers else { return Ok(()) };
        let now = clock();
        self.dbs.iter_mut().for_each(|db| db.at(now));
        watchers.check(&self.store, &self.dbs)
    }

    fn step(&mut self) -> Checked {
        match self.draw.below(100) {
            0..55 => self.call(),
            55..75 => handles::step(self),
            75..85 => iterators::step(self),
            85..88 => self.take_snapshot(),
            88..93 => self.check_snapshot(),
            93 | 94 => self.check("now"),
            95 if self.draw.one_in(2) => self.reopen(),
            _ => handles::transaction(self),
        }
    }
}

/// Runs a session.
pub(crate) fn round(seed: u64) -> Checked {
    let mut session = Session::new(seed)?;
    for n in 0..session.medium.steps() {
        session.act().map_err(|what| {
            let trace = &session.draw.trace;
            let last: Vec<&str> = trace.iter().rev().take(12).map(String::as_str).collect();
            let medium = session.medium;
            format!("{what}\n  on {medium:?}, step {n}, after (the last first) {}", last.join("; "))
        })?;
    }
    session.snapshots.clear();
    session.check("at the end")?;
    session.reopen()
}
