//! A place for files in memory that knows what a power cut would leave, and fails when told to.
//!
//! A file's bytes are durable up to its last sync; a name is durable after its directory was
//! synced. A cut may leave any part of the rest, so images are made with none of it and with all of
//! it, for names and bytes separately. Every operation that changes something is numbered: a test
//! can inspect the state after each, or make one fail.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use aof::{Entry, Fsync, LoadError, Loader, LogFile, Options, Storage};

/// ENOSPC.
const FULL: i32 = 28;

#[derive(Clone, Debug, Default)]
struct Inode {
    bytes: Vec<u8>,
    durable: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
pub struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    dirs: BTreeSet<PathBuf>,
    operations: usize,
    fail_at: Option<usize>,
    /// Bytes that a failing write takes before it fails.
    short: usize,
    /// Whether nothing works from the failing operation on.
    dead: bool,
    /// Bytes that can still be written before the medium is full.
    space: Option<usize>,
    history: Option<Vec<(State, u64)>>,
    acknowledged: u64,
    syncs_held: bool,
    writes_held: bool,
    holding: usize,
}

#[derive(Clone, Default)]
pub struct Medium {
    state: Arc<Mutex<State>>,
    changed: Arc<Condvar>,
}

struct Open {
    medium: Medium,
    inode: usize,
}

impl State {
    fn step(&mut self) -> io::Result<()> {
        let number = self.operations;
        self.operations += 1;
        if self.fail_at == Some(number) || (self.dead && self.fail_at < Some(number)) {
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(())
    }

    fn remember(&mut self) {
        if let Some(mut history) = self.history.take() {
            history.push((self.clone(), self.acknowledged));
            self.history = Some(history);
        }
    }

    /// Returns a state that a power cut may leave.
    pub fn after_power_cut(&self, all_names: bool, all_bytes: bool) -> Medium {
        let names = if all_names { &self.names } else { &self.durable_names };
        let inodes = self.inodes.iter().map(|inode| {
            let bytes = if all_bytes { &inode.bytes } else { &inode.durable };
            Inode { bytes: bytes.clone(), durable: bytes.clone() }
        });
        Medium::with(State {
            inodes: inodes.collect(),
            names: names.clone(),
            durable_names: names.clone(),
            dirs: self.dirs.clone(),
            ..State::default()
        })
    }
}

impl Medium {
    fn with(state: State) -> Medium {
        Medium { state: Arc::new(Mutex::new(state)), changed: Arc::default() }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics inside of the medium")
    }

    /// Keeps the state after each later operation.
    pub fn keep_history(&self) {
        self.lock().history = Some(Vec::new());
    }

    /// Returns the states after all operations, with what had been acknowledged then.
    pub fn history(&self) -> Vec<(State, u64)> {
        self.lock().history.take().unwrap_or_default()
    }

    pub fn now(&self) -> State {
        self.lock().clone()
    }

    pub fn acknowledge(&self, count: u64) {
        self.lock().acknowledged = count;
    }

    pub fn acknowledged(&self) -> u64 {
        self.lock().acknowledged
    }

    pub fn operations(&self) -> usize {
        self.lock().operations
    }

    /// Makes the operation this many from now fail, after `short` bytes if it is a write; with
    /// `dead`, all later ones too.
    pub fn fail_at(&self, number: usize, short: usize, dead: bool) {
        let mut state = self.lock();
        state.fail_at = Some(state.operations + number);
        state.short = short;
        state.dead = dead;
    }

    pub fn stop_failing(&self) {
        let mut state = self.lock();
        state.fail_at = None;
        state.dead = false;
    }

    /// Limits the bytes that can still be written, as on a disk that fills up; no limit for `None`.
    pub fn limit_space(&self, bytes: Option<usize>) {
        self.lock().space = bytes;
    }

    /// Blocks syncs until they are released.
    pub fn hold_syncs(&self, yes: bool) {
        self.lock().syncs_held = yes;
        self.changed.notify_all();
    }

    /// Blocks writes until they are released.
    pub fn hold_writes(&self, yes: bool) {
        self.lock().writes_held = yes;
        self.changed.notify_all();
    }

    /// Waits until a sync or a write is blocked.
    pub fn wait_for_held(&self) {
        let (state, limit) = (self.lock(), Duration::from_secs(20));
        let waits = |state: &mut State| state.holding == 0;
        let waited = self.changed.wait_timeout_while(state, limit, waits);
        let (_state, timeout) = waited.expect("no test panics inside of the medium");
        assert!(!timeout.timed_out(), "nobody writes or syncs");
    }

    pub fn file(&self, name: &str) -> Vec<u8> {
        let state = self.lock();
        state.inodes[state.names[&path(name)]].bytes.clone()
    }

    pub fn durable_file(&self, name: &str) -> Vec<u8> {
        let state = self.lock();
        state.inodes[state.names[&path(name)]].durable.clone()
    }

    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.lock();
        let inode = Inode { bytes: bytes.to_vec(), durable: bytes.to_vec() };
        let number = state.inodes.len();
        state.inodes.push(inode);
        state.names.insert(path(name), number);
        state.durable_names.insert(path(name), number);
    }

    pub fn files(&self) -> Vec<String> {
        let state = self.lock();
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        state.names.keys().map(name).collect()
    }

    pub fn options(&self, fsync: Fsync) -> Options {
        let storage = Arc::new(self.clone());
        Options { fsync, storage, ..Options::new("/") }
    }

    /// Reads the whole log.
    pub fn load(&self, fsync: Fsync) -> Result<(Loader, Vec<Words>), LoadError> {
        let mut loader = Loader::open(self.options(fsync))?;
        let mut commands = Vec::new();
        while let Some(entry) = loader.next()? {
            if let Entry::Command(command) = entry {
                commands.push(command.words().map(<[u8]>::to_vec).collect());
            }
        }
        Ok((loader, commands))
    }
}

fn path(name: &str) -> PathBuf {
    Path::new("/appendonlydir").join(name)
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl LogFile for Open {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.medium.lock();
        state.holding += 1;
        self.medium.changed.notify_all();
        while state.writes_held {
            state = self.medium.changed.wait(state).expect("no test panics inside of the medium");
        }
        state.holding -= 1;
        let space = state.space.unwrap_or(usize::MAX);
        if space == 0 && !bytes.is_empty() {
            return Err(io::Error::from_raw_os_error(FULL));
        }
        let done = state.step();
        let taken = match &done {
            Ok(()) => bytes.len().min(space),
            Err(_) => state.short.min(bytes.len()).min(space),
        };
        state.space = state.space.map(|space| space - taken);
        state.inodes[self.inode].bytes.extend_from_slice(&bytes[..taken]);
        state.remember();
        match done {
            Err(error) if taken == 0 => Err(error),
            Err(_) => {
                // A short write; the next one has the error.
                state.fail_at = Some(state.operations);
                state.short = 0;
                Ok(taken)
            }
            Ok(()) => Ok(taken),
        }
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.medium.lock();
        let covered = state.inodes[self.inode].bytes.clone();
        state.holding += 1;
        self.medium.changed.notify_all();
        while state.syncs_held {
            state = self.medium.changed.wait(state).expect("no test panics inside of the medium");
        }
        state.holding -= 1;
        state.step()?;
        state.inodes[self.inode].durable = covered;
        state.remember();
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut state = self.medium.lock();
        state.step()?;
        let bytes = &mut state.inodes[self.inode].bytes;
        let freed = bytes.len().saturating_sub(len as usize);
        bytes.truncate(len as usize);
        state.space = state.space.map(|space| space + freed);
        state.remember();
        Ok(())
    }
}

impl Storage for Medium {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.step()?;
        state.dirs.insert(path.to_owned());
        state.remember();
        Ok(())
    }

    fn is_dir(&self, path: &Path) -> bool {
        self.lock().dirs.contains(path)
    }

    fn len(&self, path: &Path) -> io::Result<Option<u64>> {
        let state = self.lock();
        Ok(state.names.get(path).map(|inode| state.inodes[*inode].bytes.len() as u64))
    }

    fn append_to(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        if self.len(path)?.is_none() {
            return self.create(path);
        }
        let inode = self.lock().names[path];
        Ok(Arc::new(Open { medium: self.clone(), inode }))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let mut state = self.lock();
        state.step()?;
        let inode = match state.names.get(path) {
            Some(inode) => {
                let inode = *inode;
                state.inodes[inode].bytes.clear();
                inode
            }
            None => {
                state.inodes.push(Inode::default());
                let inode = state.inodes.len() - 1;
                state.names.insert(path.to_owned(), inode);
                inode
            }
        };
        state.remember();
        Ok(Arc::new(Open { medium: self.clone(), inode }))
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        let state = self.lock();
        let inode = *state.names.get(path).ok_or_else(missing)?;
        Ok(Box::new(io::Cursor::new(state.inodes[inode].bytes.clone())))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.step()?;
        let inode = state.names.remove(from).ok_or_else(missing)?;
        state.names.insert(to.to_owned(), inode);
        state.remember();
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.step()?;
        state.names.remove(path).ok_or_else(missing)?;
        state.remember();
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.step()?;
        let State { names, durable_names, .. } = &mut *state;
        durable_names.retain(|name, _| name.parent() != Some(path));
        let here = names.iter().filter(|(name, _)| name.parent() == Some(path));
        durable_names.extend(here.map(|(name, inode)| (name.clone(), *inode)));
        state.remember();
        Ok(())
    }
}

/// The words of a command.
pub type Words = Vec<Vec<u8>>;

/// Returns one encoded command: SET to a number.
pub fn number(n: u64) -> Vec<u8> {
    let mut out = Vec::new();
    aof::encode(&mut out, &[b"SET", n.to_string().as_bytes()]);
    out
}

/// Returns the numbers that commands set, in order.
pub fn numbers(commands: &[Words]) -> Vec<u64> {
    let sets = commands.iter().filter(|words| words[0] == b"SET");
    sets.map(|words| String::from_utf8_lossy(&words[1]).parse().expect("a number")).collect()
}
