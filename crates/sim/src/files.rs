//! Two files on a simulated disk, a pool's and its journal's, as a power loss leaves them.
//!
//! A write goes to the page cache, where the same and the next process see it, and is certain to be
//! on the medium after a successful sync of its file. Until then each of its sectors may or may not
//! have arrived. A failed sync makes nothing certain, and the kernel considers what it could not
//! write clean: no later sync writes it, unless it is written again.
//!
//! A disk with longer physical sectors may lose all of a block that it is writing:
//! [`FilesState::after_torn_blocks`].
//!
//! The journal's file may be persistent memory ([`SimulatedFiles::with_lines`]). The same and the
//! next process see what is stored to its lines. A store is certain after a fence: of the thread
//! that stored it past the cache, or of a thread that wrote the line back after the store. Until
//! then each of its words may or may not have arrived, as in the strict model of [`crate::Crash`].
//! A sync of the file writes all lines back, as the kernel does.
//!
//! A sync makes certain what had been written when it began. Later writes need another sync, and a
//! second sync of the same file waits for the first. The kernel reports only once what it could not
//! write: the second sync succeeds.
//!
//! The journal's file has a name, which is certain after a sync of its folder: until then the whole
//! file may be gone.
//!
//! All writes and syncs are recorded, so that crashes before and after each can be examined. Under
//! the scheduler another thread may be chosen at each call, and each call may take time.

use crate::clock::SimulatedClock;
use crate::file_calls::{Counted, Failure, Failures, FileCall};
use crate::pages::Pages;
use crate::scheduler::{self, At};
use crate::simulated_lines::SimulatedLines;
use pmem::{LINE, MappedLines, Storage};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The error of a failing call, if no other was requested.
const EIO: i32 = 5;

/// Bytes that arrive together or not at all.
const SECTOR: usize = 512;
/// Bytes that arrive together if they are stored to lines.
const WORD: usize = 8;
/// Bytes that a disk may write at once.
const BLOCK: usize = 4096;
/// Filler left by a torn write of a block.
const TORN: u8 = 0xa5;

/// One of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// The pool's.
    Pool,
    /// The journal's.
    Journal,
}

/// An event in the history of the files.
#[derive(Clone, Debug)]
pub enum FileEvent {
    /// Bytes were written at an offset.
    Write(Named, u64, Vec<u8>),
    /// The file grew to this length.
    Grow(Named, u64),
    /// The file was truncated to this length.
    Cut(Named, u64),
    /// A sync began,
    SyncBegin(Named),
    /// ... and ended, successfully or not.
    Sync(Named, bool),
    /// The name of the journal's file was synced.
    SyncName,
    /// Bytes were stored to the journal's lines: past the cache by this thread, or into the cache.
    Store(u64, Vec<u8>, Option<u32>),
    /// A thread wrote back the lines of some bytes.
    WriteBack(u32, u64, u64),
    /// A thread fenced.
    Fence(u32),
    /// A mark of the explorer.
    Mark(usize),
}

/// A part of a write, in one sector.
#[derive(Clone, Debug)]
struct Piece {
    at: usize,
    bytes: Vec<u8>,
}

/// A part of a store to lines, in one word.
#[derive(Clone, Debug)]
struct Stored {
    piece: Piece,
    /// The thread that stored it past the cache, if one did.
    streamed_by: Option<u32>,
    /// Threads that have written its line back and have not fenced since.
    written_back_by: BTreeSet<u32>,
}

impl Stored {
    fn word(&self) -> usize {
        self.piece.at / WORD
    }
}

/// One file: what is certain, and what is not.
#[derive(Clone, Debug, Default)]
struct FileState {
    durable: Pages,
    cached: Pages,
    /// Writes that the next sync makes certain,
    dirty: Vec<Piece>,
    /// ... those of the sync under way, and the file's length when it began.
    syncing: Vec<Piece>,
    syncing_len: usize,
    /// Writes that a failed sync left.
    forgotten: Vec<Piece>,
    /// Stores to its lines that are not certain, in order.
    stored: Vec<Stored>,
}

/// Both files.
#[derive(Clone, Debug, Default)]
pub struct FilesState {
    files: [FileState; 2],
    /// Whether the name of the journal's file is certain.
    is_named: bool,
}

/// Cuts bytes at the boundaries of units of this size.
fn pieces(at: u64, bytes: &[u8], unit: usize) -> impl Iterator<Item = Piece> {
    let (mut at, mut rest) = (at as usize, bytes);
    std::iter::from_fn(move || {
        let (first, after) = rest.split_at(rest.len().min(unit - at % unit));
        let piece = Piece { at, bytes: first.to_vec() };
        (at, rest) = (at + first.len(), after);
        (!first.is_empty()).then_some(piece)
    })
}

fn put(file: &mut Pages, piece: &Piece) {
    file.put(piece.at, &piece.bytes);
}

impl FileState {
    fn write(&mut self, at: u64, bytes: &[u8]) {
        for piece in pieces(at, bytes, SECTOR) {
            put(&mut self.cached, &piece);
            self.dirty.push(piece);
        }
    }

    fn store(&mut self, at: u64, bytes: &[u8], streamed_by: Option<u32>) {
        for piece in pieces(at, bytes, WORD) {
            put(&mut self.cached, &piece);
            self.stored.push(Stored { piece, streamed_by, written_back_by: BTreeSet::new() });
        }
    }

    fn write_back(&mut self, thread: u32, at: u64, len: u64) {
        let line = LINE as usize;
        let lines = at as usize / line..(at + len).div_ceil(LINE) as usize;
        for stored in self.stored.iter_mut().filter(|one| one.streamed_by.is_none()) {
            if lines.contains(&(stored.piece.at / line)) {
                stored.written_back_by.insert(thread);
            }
        }
    }

    /// Makes certain what a thread streamed or wrote back, and earlier stores to the same words.
    fn fence(&mut self, thread: u32) {
        let mut certain = BTreeMap::new();
        for (n, one) in self.stored.iter().enumerate() {
            if one.streamed_by == Some(thread) || one.written_back_by.contains(&thread) {
                certain.insert(one.word(), n);
            }
        }
        for (n, one) in std::mem::take(&mut self.stored).into_iter().enumerate() {
            match certain.get(&one.word()) {
                Some(last) if n <= *last => put(&mut self.durable, &one.piece),
                _ => self.stored.push(one),
            }
        }
    }

    fn cut(&mut self, len: usize) {
        self.cached.resize(len.min(self.cached.len()));
        for pieces in [&mut self.dirty, &mut self.syncing, &mut self.forgotten] {
            pieces.retain(|piece| piece.at + piece.bytes.len() <= len);
        }
    }

    fn begin_sync(&mut self) {
        self.syncing.append(&mut self.dirty);
        self.syncing_len = self.cached.len();
    }

    fn sync(&mut self, well: bool) {
        if !well {
            self.forgotten.append(&mut self.syncing);
            return;
        }
        for piece in std::mem::take(&mut self.syncing) {
            // The whole sector is written, including the parts that were forgotten.
            let sector = piece.at / SECTOR;
            let (same, others): (Vec<_>, Vec<_>) =
                self.forgotten.drain(..).partition(|other| other.at / SECTOR == sector);
            self.forgotten = others;
            same.iter().for_each(|piece| put(&mut self.durable, piece));
            put(&mut self.durable, &piece);
        }
        self.stored.drain(..).for_each(|one| put(&mut self.durable, &one.piece));
        let longest = self.syncing_len.max(self.durable.len()).min(self.cached.len());
        self.durable.resize(longest);
    }

    fn after_power_loss(&self, mut arrives: impl FnMut() -> bool) -> Pages {
        let mut left = self.durable.clone();
        if arrives() {
            left.resize(self.cached.len());
        }
        let stored = self.stored.iter().map(|one| &one.piece);
        let uncertain = self.forgotten.iter().chain(&self.syncing).chain(&self.dirty).chain(stored);
        for piece in uncertain.filter(|_| arrives()) {
            put(&mut left, piece);
        }
        left
    }
}

impl FilesState {
    fn file(&mut self, name: Named) -> &mut FileState {
        &mut self.files[name as usize]
    }

    /// Updates the state by an event.
    pub fn apply(&mut self, event: &FileEvent) {
        match event {
            FileEvent::Write(name, at, bytes) => self.file(*name).write(*at, bytes),
            FileEvent::Grow(name, len) => self.file(*name).cached.resize(*len as usize),
            FileEvent::Cut(name, len) => self.file(*name).cut(*len as usize),
            FileEvent::SyncBegin(name) => self.file(*name).begin_sync(),
            FileEvent::Sync(name, well) => self.file(*name).sync(*well),
            FileEvent::SyncName => self.is_named = true,
            FileEvent::Store(at, bytes, streamed_by) => {
                self.file(Named::Journal).store(*at, bytes, *streamed_by);
            }
            FileEvent::WriteBack(thread, at, len) => {
                self.file(Named::Journal).write_back(*thread, *at, *len);
            }
            FileEvent::Fence(thread) => self.file(Named::Journal).fence(*thread),
            FileEvent::Mark(_) => {}
        }
    }

    /// Returns what the end of the process leaves: uncertain writes stay uncertain, and threads of
    /// that process fence no more. A sync that was under way makes nothing certain.
    pub fn after_process_end(&self) -> FilesState {
        let mut left = self.clone();
        for file in &mut left.files {
            let written_meanwhile = std::mem::take(&mut file.dirty);
            file.dirty = std::mem::take(&mut file.syncing);
            file.dirty.extend(written_meanwhile);
        }
        for one in left.files.iter_mut().flat_map(|file| &mut file.stored) {
            one.streamed_by = None;
            one.written_back_by.clear();
        }
        left
    }

    /// Returns the files of somebody who copied one of them now, and the other one at the moment of
    /// `later`.
    #[must_use]
    pub fn copied_with(&self, name: Named, later: &FilesState) -> FilesState {
        let mut copy = self.clone();
        copy.files[name as usize] = later.files[name as usize].clone();
        copy.is_named = copy.is_named && later.is_named;
        copy.after_process_end()
    }

    /// Returns what a power loss leaves: `arrives` decides for each uncertain part.
    pub fn after_power_loss(&self, mut arrives: impl FnMut() -> bool) -> FilesState {
        let mut files = self.files.each_ref().map(|file| {
            let durable = file.after_power_loss(&mut arrives);
            FileState { cached: durable.clone(), durable, ..FileState::default() }
        });
        let is_named = self.is_named || arrives();
        if !is_named {
            files[Named::Journal as usize] = FileState::default();
        }
        FilesState { is_named: is_named && files[Named::Journal as usize].cached.len() > 0, files }
    }
}

impl FilesState {
    /// Returns what a power loss leaves if it tears the disk's own writes of blocks in one of the
    /// files: `tears` decides for each block that has unsynced writes. What the kernel gave up is
    /// not written.
    pub fn after_torn_blocks(
        &self,
        name: Named,
        arrives: impl FnMut() -> bool,
        mut tears: impl FnMut() -> bool,
    ) -> FilesState {
        let mut left = self.after_power_loss(arrives);
        let FileState { dirty, syncing, .. } = &self.files[name as usize];
        let written = syncing.iter().chain(dirty).map(|piece| piece.at / BLOCK * BLOCK);
        let written: BTreeSet<_> = written.collect();
        let FileState { durable, cached, .. } = left.file(name);
        for at in written.into_iter().filter(|_| tears()) {
            durable.fill(at, BLOCK, TORN);
        }
        cached.clone_from(durable);
        left
    }
}

/// Returns how long a call takes, for a file and a number of bytes.
type TimeOf = dyn Fn(Named, FileCall, usize) -> Duration + Send + Sync;

#[derive(Default)]
struct Recorded {
    state: FilesState,
    events: Vec<FileEvent>,
    failures: Failures,
    /// Which files have a sync under way.
    syncing: [bool; 2],
    available: Option<u64>,
    times: Option<(SimulatedClock, Arc<TimeOf>)>,
    /// Set if the journal's file is persistent memory; whether whole lines are stored past the
    /// cache.
    lines: Option<bool>,
}

/// The files of one incarnation.
#[derive(Clone, Default)]
pub struct SimulatedFiles(Arc<Mutex<Recorded>>);

impl SimulatedFiles {
    /// Creates the files as an earlier incarnation left them.
    pub fn new(state: FilesState) -> SimulatedFiles {
        let recorded = Recorded { state, ..Recorded::default() };
        SimulatedFiles(Arc::new(Mutex::new(recorded)))
    }

    /// Makes the journal's file persistent memory; with `streams` the processor stores whole lines
    /// past its cache.
    #[must_use]
    pub fn with_lines(self, streams: bool) -> SimulatedFiles {
        self.recorded().lines = Some(streams);
        self
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event, and updates the state.
    pub(crate) fn record(&self, event: FileEvent) {
        self.recorded().record(event);
    }

    /// Returns one of the files.
    pub fn storage(&self, name: Named) -> Arc<dyn Storage> {
        Arc::new(SimulatedFile { name, files: self.clone() })
    }

    /// Sets a mark in the record.
    pub fn mark(&self, mark: usize) {
        self.recorded().events.push(FileEvent::Mark(mark));
    }

    /// Makes each call take time on a clock.
    #[must_use]
    pub fn with_times(
        self,
        clock: &SimulatedClock,
        time: impl Fn(Named, FileCall, usize) -> Duration + Send + Sync + 'static,
    ) -> SimulatedFiles {
        self.recorded().times = Some((clock.clone(), Arc::new(time)));
        self
    }

    /// Sets how many bytes the disk has left, as it reports.
    pub fn leave(&self, bytes: u64) {
        self.recorded().available = Some(bytes);
    }

    /// Makes the write, sync or allocation after this many fail.
    pub fn fail_after(&self, calls: u64) {
        self.fail_with(calls, Counted::Changing, EIO);
    }

    /// Makes the call after this many fail, with this system error. A failing write writes a part.
    pub fn fail_with(&self, calls: u64, counted: Counted, errno: i32) {
        self.recorded().failures.plan(Failure { calls, counted, errno, for_good: false });
    }

    /// Makes all calls after this many fail, with this system error.
    pub fn fail_for_good(&self, calls: u64, counted: Counted, errno: i32) {
        self.recorded().failures.plan(Failure { calls, counted, errno, for_good: true });
    }

    /// Returns how many calls have failed.
    pub fn failed(&self) -> usize {
        self.recorded().failures.failed()
    }

    /// Returns how many of them asked for space.
    pub fn refused(&self) -> usize {
        self.recorded().failures.refused()
    }

    /// Returns how many calls are still to fail.
    pub fn failures_left(&self) -> usize {
        self.recorded().failures.left()
    }

    /// Takes the recorded events.
    pub fn take_events(&self) -> Vec<FileEvent> {
        std::mem::take(&mut self.recorded().events)
    }

    /// Returns the present state of the files.
    pub fn state(&self) -> FilesState {
        self.recorded().state.clone()
    }
}

impl Recorded {
    fn record(&mut self, event: FileEvent) {
        self.state.apply(&event);
        self.events.push(event);
    }
}

struct SimulatedFile {
    name: Named,
    files: SimulatedFiles,
}

impl SimulatedFile {
    /// Makes a call: another thread may be chosen before and after it, and while it takes its time.
    fn call<R>(&self, call: FileCall, len: usize, make: impl FnOnce(&mut Recorded) -> R) -> R {
        scheduler::pause(At::Fence);
        let times = self.files.recorded().times.clone();
        if let Some((clock, time)) = times {
            clock.pass(time(self.name, call, len));
        }
        let made = make(&mut self.files.recorded());
        scheduler::pause(At::Fence);
        made
    }

    /// Changes the file by an event, unless the call fails.
    fn change(&self, call: FileCall, event: impl FnOnce(&Recorded) -> FileEvent) -> io::Result<()> {
        self.call(call, 0, |recorded| {
            recorded.failures.of(call).map_or(Ok(()), Err)?;
            let event = event(recorded);
            recorded.record(event);
            Ok(())
        })
    }

    fn len(&self, recorded: &Recorded) -> u64 {
        recorded.state.files[self.name as usize].cached.len() as u64
    }

    /// Begins a sync when none of the file is under way; returns the error if it should fail.
    fn begin_sync(&self) -> Option<io::Error> {
        loop {
            let mut recorded = self.files.recorded();
            if !recorded.syncing[self.name as usize] {
                recorded.syncing[self.name as usize] = true;
                recorded.record(FileEvent::SyncBegin(self.name));
                return recorded.failures.of(FileCall::Sync);
            }
            drop(recorded);
            if !scheduler::wait() {
                std::thread::yield_now();
            }
        }
    }
}

impl Storage for SimulatedFile {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.call(FileCall::Read, bytes.len(), |recorded| {
            recorded.failures.of(FileCall::Read).map_or(Ok(()), Err)?;
            let is_read = recorded.state.file(self.name).cached.read(bytes, at as usize);
            is_read.then_some(()).ok_or(io::ErrorKind::UnexpectedEof.into())
        })
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.call(FileCall::Write, bytes.len(), |recorded| {
            let failure = recorded.failures.of(FileCall::Write);
            let half = if bytes.len() > SECTOR { bytes.len() / 2 } else { 0 };
            let written = if failure.is_some() { &bytes[..half] } else { bytes };
            recorded.record(FileEvent::Write(self.name, at, written.to_vec()));
            failure.map_or(Ok(()), Err)
        })
    }

    fn sync(&self) -> io::Result<()> {
        scheduler::pause(At::Fence);
        let failure = self.begin_sync();
        self.call(FileCall::Sync, 0, |recorded| {
            recorded.syncing[self.name as usize] = false;
            recorded.record(FileEvent::Sync(self.name, failure.is_none()));
        });
        failure.map_or(Ok(()), Err)
    }

    fn size(&self) -> io::Result<u64> {
        self.call(FileCall::Size, 0, |recorded| {
            recorded.failures.of(FileCall::Size).map_or(Ok(()), Err)?;
            Ok(self.len(recorded))
        })
    }

    /// It is unknown what has been written.
    fn written_up_to(&self, from: u64) -> io::Result<u64> {
        Ok(from)
    }

    fn allocate(&self, _from: u64, to: u64) -> io::Result<()> {
        let grown = |recorded: &Recorded| FileEvent::Grow(self.name, self.len(recorded).max(to));
        self.change(FileCall::Allocate, grown)
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.change(FileCall::Cut, |_| FileEvent::Cut(self.name, len))
    }

    fn sync_name(&self) -> io::Result<()> {
        self.change(FileCall::SyncName, |_| FileEvent::SyncName)
    }

    fn available(&self) -> Option<u64> {
        self.files.recorded().available
    }

    fn may_grow(&self) -> bool {
        self.files.recorded().lines.is_none()
    }

    fn map(&self) -> io::Result<Option<Box<dyn MappedLines>>> {
        let size = self.size()?;
        let streams = self.files.recorded().lines.filter(|_| self.name == Named::Journal);
        Ok(streams.map(|streams| {
            let files = self.files.clone();
            Box::new(SimulatedLines::new(files, size, streams)) as Box<dyn MappedLines>
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::thread;

    fn images(state: &FilesState) -> Vec<Vec<u8>> {
        let mut found: Vec<_> = (0..64)
            .map(|bits| {
                let mut rest: u32 = bits;
                let left = state.after_power_loss(|| {
                    let arrives = rest & 1 == 1;
                    rest >>= 1;
                    arrives
                });
                left.files[0].durable.to_vec()
            })
            .collect();
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn a_write_may_arrive_by_sectors_until_a_sync_that_ends_well() {
        let files = SimulatedFiles::default();
        let pool = files.storage(Named::Pool);
        pool.allocate(0, 1024).unwrap();
        pool.sync().unwrap();
        pool.write_at(&[1; 2], 511).unwrap();
        assert_eq!(images(&files.state()).len(), 4);
        pool.sync().unwrap();
        assert_eq!(images(&files.state()).len(), 1);
        pool.write_at(&[2; 2], 511).unwrap();
        files.fail_after(0);
        assert!(pool.sync().is_err());
        pool.sync().unwrap();
        assert_eq!(images(&files.state()).len(), 4, "the kernel forgot it");
        let mut cached = [0; 2];
        pool.read_at(&mut cached, 511).unwrap();
        assert_eq!(cached, [2; 2]);
        pool.write_at(&[2; 2], 511).unwrap();
        pool.sync().unwrap();
        assert_eq!(images(&files.state()).len(), 1);
    }

    #[test]
    fn a_torn_block_loses_all_of_its_bytes_and_others_none() {
        let files = SimulatedFiles::default();
        let journal = files.storage(Named::Journal);
        journal.write_at(&[1; 3 * BLOCK], 0).unwrap();
        journal.sync().unwrap();
        journal.sync_name().unwrap();
        journal.write_at(&[2; 2], BLOCK as u64 + 700).unwrap();
        let left = |tears: bool| {
            let mut state = files.state().after_torn_blocks(Named::Journal, || false, || tears);
            state.file(Named::Journal).cached.to_vec()
        };
        assert_eq!(left(false), [1; 3 * BLOCK]);
        let torn = left(true);
        assert_eq!(torn[..BLOCK], [1; BLOCK]);
        assert_eq!(torn[BLOCK..2 * BLOCK], [TORN; BLOCK]);
        assert_eq!(torn[2 * BLOCK..], [1; BLOCK]);
    }

    #[test]
    fn a_file_may_be_gone_until_its_name_is_synced_and_a_sync_covers_what_was_before_it() {
        let files = SimulatedFiles::default();
        let journal = files.storage(Named::Journal);
        journal.write_at(&[1; 100], 0).unwrap();
        journal.sync().unwrap();
        let left = |files: &SimulatedFiles| {
            let mut left = files.state().after_power_loss(|| false);
            left.file(Named::Journal).durable.to_vec()
        };
        assert_eq!(left(&files), []);
        journal.sync_name().unwrap();
        assert_eq!(left(&files), [1; 100]);
        let mut recorded = files.recorded();
        recorded.record(FileEvent::SyncBegin(Named::Journal));
        recorded.record(FileEvent::Write(Named::Journal, 0, vec![2; 200]));
        recorded.record(FileEvent::Sync(Named::Journal, true));
        drop(recorded);
        assert_eq!(left(&files), [1; 100], "what was written meanwhile");
        journal.cut(10).unwrap();
        assert_eq!(left(&files), [1; 100]);
        journal.sync().unwrap();
        assert_eq!(left(&files), [1; 10]);
    }

    /// Creates a journal of two lines, which are mapped.
    fn mapped(streams: bool) -> (SimulatedFiles, Box<dyn MappedLines>) {
        let files = SimulatedFiles::default().with_lines(streams);
        let journal = files.storage(Named::Journal);
        journal.allocate(0, 128).unwrap();
        journal.sync().unwrap();
        journal.sync_name().unwrap();
        assert!(files.storage(Named::Pool).map().unwrap().is_none());
        let lines = journal.map().unwrap().unwrap();
        (files, lines)
    }

    /// Returns the possible values of the first and the ninth byte after a power loss.
    fn words(files: &SimulatedFiles) -> BTreeSet<(u8, u8)> {
        let words = |bits: u32| {
            let mut rest = bits;
            let left = files.state().after_power_loss(|| {
                let arrives = rest & 1 == 1;
                rest >>= 1;
                arrives
            });
            let bytes = left.files[1].durable.to_vec();
            (bytes[0], bytes[8])
        };
        (0..1 << 12).map(words).collect()
    }

    #[test]
    fn what_is_streamed_may_arrive_by_words_until_a_fence_of_its_thread() {
        let (files, lines) = mapped(true);
        lines.stream(&[1; 64], 0);
        let apart = BTreeSet::from([(0, 0), (0, 1), (1, 0), (1, 1)]);
        assert_eq!(words(&files), apart);
        std::thread::scope(|scope| scope.spawn(|| lines.fence()).join().unwrap());
        assert_eq!(words(&files), apart, "the fence of another thread");
        lines.write_back(0, 64);
        let dead = SimulatedFiles::new(files.state().after_process_end());
        dead.recorded().record(FileEvent::Fence(thread()));
        assert_eq!(words(&dead), apart, "the fence of another process");
        lines.fence();
        assert_eq!(words(&files), BTreeSet::from([(1, 1)]));
    }

    #[test]
    fn what_is_stored_is_certain_after_it_was_written_back_and_fenced() {
        let (files, lines) = mapped(false);
        lines.store(&[1; 16], 0);
        lines.fence();
        assert_eq!(words(&files).len(), 4, "nobody wrote it back");
        lines.write_back(15, 1);
        lines.store(&[2; 8], 8);
        assert_eq!(words(&files).len(), 6);
        lines.fence();
        assert_eq!(words(&files), BTreeSet::from([(1, 1), (1, 2)]), "what came after it");
        files.storage(Named::Journal).sync().unwrap();
        assert_eq!(words(&files), BTreeSet::from([(1, 2)]));
    }
}
