//! Files of a command log in memory: every operation is recorded, and a crash between any two of
//! them leaves images.
//!
//! A file's bytes are durable up to the start of its last sync that has returned; of what was
//! appended or truncated since then any prefix may have arrived. A name is durable when its
//! directory was synced; of the changes of names since then any may have arrived. If only the
//! process ends, nothing is lost.
//!
//! Another thread may be chosen at every operation. An append may be made to fail, after a part of
//! its bytes.

use aof::{LogFile, Storage};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bytes of each file.
pub(crate) type Image = BTreeMap<PathBuf, Vec<u8>>;

/// One thing that happened.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Append(usize, Vec<u8>),
    Cut(usize, usize),
    /// All of a file's changes before the event of this number are durable.
    Sync(usize, usize),
    /// A name refers to this file, or to none, and another name no longer does.
    Name(PathBuf, Option<usize>, Option<PathBuf>),
    SyncNames,
    /// A thread is about to send the transaction of this number.
    Begun(usize, u64),
    /// It learned that all up to this number are kept.
    Acknowledged(usize, u64),
    /// How much of each thread is kept even if the power fails.
    Durable(Vec<u64>),
}

#[derive(Default)]
struct State {
    bytes: Vec<Vec<u8>>,
    names: BTreeMap<PathBuf, usize>,
    trace: Vec<Event>,
    /// One append in this many fails; 0 for none.
    faults_one_in: usize,
    /// The next append to this file fails.
    failing: Option<usize>,
    rng: Rng,
}

/// The files.
#[derive(Clone, Default)]
pub(crate) struct Files(Arc<Mutex<State>>);

struct Open {
    files: Files,
    number: usize,
}

impl Files {
    /// Creates the files of an image, all of them durable.
    pub(crate) fn of(image: &Image) -> Files {
        let files = Files::default();
        let mut state = files.state();
        for (path, bytes) in image {
            let number = state.bytes.len();
            state.bytes.push(bytes.clone());
            state.names.insert(path.clone(), number);
        }
        drop(state);
        files
    }

    /// Makes one append in this many fail.
    pub(crate) fn fail_one_in(&self, count: usize, seed: u64) {
        let mut state = self.state();
        state.faults_one_in = count;
        state.rng = Rng::with_seed(seed);
    }

    pub(crate) fn record(&self, event: Event) {
        self.state().trace.push(event);
    }

    /// Takes the events so far; recording starts again.
    pub(crate) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.state().trace)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something as one step; another thread may be chosen before and after it.
    fn step<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        sim::yield_now();
        let done = work(&mut self.state());
        sim::yield_now();
        done
    }
}

impl LogFile for Open {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.files.step(|state| {
            if state.failing == Some(self.number) {
                state.failing = None;
                return Err(io::ErrorKind::StorageFull.into());
            }
            let mut taken = bytes.len();
            if state.faults_one_in > 0 && state.rng.usize(..state.faults_one_in) == 0 {
                taken = state.rng.usize(..=bytes.len());
                if taken == 0 {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                // A short write; the next one reports why.
                state.failing = (taken < bytes.len()).then_some(self.number);
            }
            state.bytes[self.number].extend_from_slice(&bytes[..taken]);
            state.trace.push(Event::Append(self.number, bytes[..taken].to_vec()));
            Ok(taken)
        })
    }

    fn sync(&self) -> io::Result<()> {
        let from = self.files.step(|state| state.trace.len());
        self.files.step(|state| state.trace.push(Event::Sync(self.number, from)));
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.files.step(|state| state.cut(self.number, len as usize));
        Ok(())
    }
}

impl State {
    fn cut(&mut self, number: usize, len: usize) {
        self.bytes[number].truncate(len);
        self.trace.push(Event::Cut(number, len));
    }

    fn name(&mut self, path: &Path, number: Option<usize>, from: Option<&Path>) {
        match number {
            Some(number) => drop(self.names.insert(path.to_owned(), number)),
            None => drop(self.names.remove(path)),
        }
        from.map(|from| self.names.remove(from));
        self.trace.push(Event::Name(path.to_owned(), number, from.map(Path::to_owned)));
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Storage for Files {
    fn create_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn is_dir(&self, _path: &Path) -> bool {
        true
    }

    fn len(&self, path: &Path) -> io::Result<Option<u64>> {
        let state = self.state();
        Ok(state.find(path).ok().map(|number| state.bytes[number].len() as u64))
    }

    fn append_to(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let number = self.step(|state| {
            state.find(path).unwrap_or_else(|_| {
                state.bytes.push(Vec::new());
                let number = state.bytes.len() - 1;
                state.name(path, Some(number), None);
                number
            })
        });
        Ok(Arc::new(Open { files: self.clone(), number }))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let file = self.append_to(path)?;
        file.truncate(0)?;
        Ok(file)
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        let state = self.state();
        let number = state.find(path)?;
        Ok(Box::new(io::Cursor::new(state.bytes[number].clone())))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(|state| {
            let number = state.find(from)?;
            state.name(to, Some(number), Some(from));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step(|state| {
            state.find(path)?;
            state.name(path, None, None);
            Ok(())
        })
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        self.step(|state| state.trace.push(Event::SyncNames));
        Ok(())
    }
}

/// The files at one moment of a trace: what is durable, and what may be.
#[derive(Default)]
pub(crate) struct Moment {
    durable: Vec<Vec<u8>>,
    /// Changes of each file that may not have arrived, each with the number of its event.
    pending: Vec<Vec<(usize, Event)>>,
    names: BTreeMap<PathBuf, usize>,
    pending_names: Vec<Event>,
}

impl Moment {
    /// Creates the moment of an image, all of it durable.
    pub(crate) fn of(image: &Image) -> Moment {
        Moment {
            durable: image.values().cloned().collect(),
            pending: vec![Vec::new(); image.len()],
            names: image.keys().cloned().zip(0..).collect(),
            pending_names: Vec::new(),
        }
    }

    /// Applies the event of this number.
    pub(crate) fn apply(&mut self, at: usize, event: &Event) {
        match event {
            Event::Append(number, _) | Event::Cut(number, _) => {
                self.pending[*number].push((at, event.clone()));
            }
            Event::Sync(number, from) => {
                let all = std::mem::take(&mut self.pending[*number]);
                let (covered, later) = all.into_iter().partition(|(at, _)| at < from);
                self.pending[*number] = later;
                let covered: Vec<_> = covered;
                covered
                    .iter()
                    .for_each(|(_, event)| change(&mut self.durable[*number], event, None));
            }
            Event::Name(_, number, _) => {
                let files = number.map_or(0, |number| number + 1).max(self.durable.len());
                self.durable.resize(files, Vec::new());
                self.pending.resize(files, Vec::new());
                self.pending_names.push(event.clone());
            }
            Event::SyncNames => {
                let all = std::mem::take(&mut self.pending_names);
                all.iter().for_each(|event| rename(&mut self.names, event));
            }
            Event::Begun(..) | Event::Acknowledged(..) | Event::Durable(_) => {}
        }
    }

    /// Returns what the end of the process leaves: everything.
    pub(crate) fn after_exit(&self) -> Image {
        self.image(&mut |_| true, &mut |count| (count, None))
    }

    /// Returns what a power loss leaves: what is durable, and some of the rest.
    pub(crate) fn after_power_loss(&self, rng: &mut Rng) -> Image {
        let (names, bytes) = (rng.usize(..3), rng.usize(..4));
        let mut of_names = rng.fork();
        let mut is_there = |_| match names {
            0 => false,
            1 => true,
            _ => of_names.bool(),
        };
        let mut arrived = |count| match bytes {
            0 => (0, None),
            1 => (count, None),
            _ => (rng.usize(..=count), Some(rng.f64())),
        };
        self.image(&mut is_there, &mut arrived)
    }

    /// Returns the image in which these changes of names have arrived and, for each file, this many
    /// changes and a part of the next.
    fn image(
        &self,
        is_there: &mut dyn FnMut(usize) -> bool,
        arrived: &mut dyn FnMut(usize) -> (usize, Option<f64>),
    ) -> Image {
        let mut names = self.names.clone();
        for (at, event) in self.pending_names.iter().enumerate() {
            if is_there(at) {
                rename(&mut names, event);
            }
        }
        let files: Vec<Vec<u8>> = std::iter::zip(&self.durable, &self.pending)
            .map(|(durable, pending)| {
                let (whole, part) = arrived(pending.len());
                let mut bytes = durable.clone();
                pending[..whole].iter().for_each(|(_, event)| change(&mut bytes, event, None));
                if let (Some((_, event)), Some(part)) = (pending.get(whole), part) {
                    change(&mut bytes, event, Some(part));
                }
                bytes
            })
            .collect();
        names.into_iter().map(|(name, number)| (name, files[number].clone())).collect()
    }
}

/// Changes a file, or appends only a part.
fn change(bytes: &mut Vec<u8>, event: &Event, part: Option<f64>) {
    match event {
        Event::Append(_, more) => {
            let len = part.map_or(more.len(), |part| (more.len() as f64 * part) as usize);
            bytes.extend_from_slice(&more[..len]);
        }
        Event::Cut(_, len) if part.is_none() => bytes.truncate(*len),
        _ => {}
    }
}

fn rename(names: &mut BTreeMap<PathBuf, usize>, event: &Event) {
    let Event::Name(path, number, from) = event else { return };
    match number {
        Some(number) => drop(names.insert(path.clone(), *number)),
        None => drop(names.remove(path)),
    }
    from.as_ref().map(|from| names.remove(from));
}
