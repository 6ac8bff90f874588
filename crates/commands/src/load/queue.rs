//! Passes batches from the thread that reads a dump to those that store them.
//!
//! The batches that wait or are being stored have a bounded number of bytes in total: the reader
//! waits until there is space. A thread returns each batch that it has stored, and the reader fills
//! it again. If several batches fail, the first one in the dump counts: those before it are stored
//! all the same, and those after it dropped, so that the error does not depend on which thread was
//! quicker.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::batch::LoadBatch;
use super::error::LoadDumpError;

/// The maximum number of stored batches that are kept to be filled again.
const SPARE: usize = 4;

#[derive(Default)]
struct State {
    waiting: VecDeque<LoadBatch>,
    spare: Vec<LoadBatch>,
    /// Bytes of the batches that wait or are being stored.
    bytes: usize,
    is_closed: bool,
    /// True if a thread has ended by a panic.
    is_abandoned: bool,
    failed: Option<(u64, LoadDumpError)>,
}

impl State {
    /// Returns true if no more batches need to be read.
    fn is_stopped(&self) -> bool {
        self.failed.is_some() || self.is_abandoned
    }
}

pub(super) struct BatchQueue {
    state: Mutex<State>,
    /// Signals that a batch waits, or that no other will come.
    filled: Condvar,
    /// Signals that there is space, or that none is needed.
    drained: Condvar,
    most_bytes: usize,
}

impl BatchQueue {
    pub(super) fn new(most_bytes: usize) -> BatchQueue {
        BatchQueue {
            state: Mutex::default(),
            filled: Condvar::new(),
            drained: Condvar::new(),
            most_bytes,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a batch when there is space for it. Returns false if a batch failed.
    pub(super) fn push(&self, batch: LoadBatch) -> bool {
        let is_full = |state: &mut State| {
            let is_over = state.bytes + batch.len() > self.most_bytes;
            is_over && state.bytes > 0 && !state.is_stopped()
        };
        let waited = self.drained.wait_while(self.state(), is_full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.is_stopped() {
            return false;
        }
        state.bytes += batch.len();
        state.waiting.push_back(batch);
        drop(state);
        self.filled.notify_one();
        true
    }

    /// Announces that no other batch will come.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.filled.notify_all();
    }

    /// Waits for the next batch to store; `None` when no other will come.
    pub(super) fn pop(&self) -> Option<LoadBatch> {
        let is_idle = |state: &mut State| state.waiting.is_empty() && !state.is_closed;
        let waited = self.filled.wait_while(self.state(), is_idle);
        waited.unwrap_or_else(PoisonError::into_inner).waiting.pop_front()
    }

    /// Returns true if the batch of this number need not be stored: one before it failed.
    pub(super) fn is_dropped(&self, number: u64) -> bool {
        self.state().failed.as_ref().is_some_and(|(first, _)| *first < number)
    }

    /// Takes back a batch that was stored, or that failed.
    pub(super) fn give_back(&self, batch: LoadBatch, done: Result<(), LoadDumpError>) {
        let mut state = self.state();
        state.bytes -= batch.len();
        if let Err(error) = done
            && state.failed.as_ref().is_none_or(|(first, _)| batch.number() < *first)
        {
            state.failed = Some((batch.number(), error));
        }
        if state.spare.len() < SPARE {
            state.spare.push(batch);
        }
        drop(state);
        self.drained.notify_one();
    }

    /// Returns a stored batch, to be filled again.
    pub(super) fn spare(&self) -> Option<LoadBatch> {
        self.state().spare.pop()
    }

    /// Records that a thread ends without having returned its batch.
    pub(super) fn abandon(&self) {
        self.state().is_abandoned = true;
        self.drained.notify_one();
    }

    /// Returns the error of the first batch that failed.
    pub(super) fn failure(self) -> Option<LoadDumpError> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.failed.map(|(_, error)| error)
    }
}
