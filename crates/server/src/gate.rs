//! Replies that wait for the command log: one write, and one sync, for all connections of a worker.
//!
//! A connection whose replies depend on the log up to some offset enters the gate and sleeps. Its entry
//! wakes the worker's flusher, a task that stands in the queue behind all connections that were ready
//! at the same time; so it runs when they all have executed and entered. It asks the log to do what its
//! policy demands (`always`: write and sync; else: write), right there on the worker's thread, since a
//! hop to another thread costs more than it would save, and wakes everybody. Workers meet in the log
//! itself, which lets one of them sync for all that wait.
//!
//! Invariant: a reply leaves only if the log said that its offset was settled. After a failure nobody
//! passes any more.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use aof::{Aof, Fsync};

/// The log failed: nothing is acknowledged any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogFailed;

#[derive(Default)]
struct Waiting {
    wakers: Vec<Waker>,
    wanted: u64,
    flusher: Option<Waker>,
}

/// A worker's gate.
#[derive(Default)]
pub(crate) struct Gate {
    waiting: Mutex<Waiting>,
    settled: AtomicU64,
    failed: AtomicBool,
}

impl Gate {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when the log is settled up to `offset`.
    pub(crate) async fn pass(&self, offset: u64) -> Result<(), LogFailed> {
        poll_fn(|cx| {
            if self.failed.load(Relaxed) {
                return Poll::Ready(Err(LogFailed));
            }
            if self.settled.load(Relaxed) >= offset {
                return Poll::Ready(Ok(()));
            }
            let mut waiting = self.waiting();
            waiting.wakers.push(cx.waker().clone());
            waiting.wanted = waiting.wanted.max(offset);
            if let Some(flusher) = waiting.flusher.take() {
                flusher.wake();
            }
            Poll::Pending
        })
        .await
    }

    /// Looks at the sockets again as long as that brings more connections to the gate: a sync takes some hundred
    /// times as long as a look, and those who come too late for it wait for the next one.
    async fn gather(&self) {
        let mut before = 0;
        loop {
            let now = self.waiting().wakers.len();
            if now <= before {
                return;
            }
            before = now;
            tokio::task::yield_now().await;
        }
    }

    /// The flusher: settles for those who wait, for ever, and tells how long it took.
    pub(crate) async fn flush(self: Arc<Gate>, log: Arc<Aof>, took: impl Fn(Duration)) {
        loop {
            poll_fn(|cx| {
                let mut waiting = self.waiting();
                if waiting.wakers.is_empty() {
                    waiting.flusher = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                Poll::Ready(())
            })
            .await;
            if log.fsync() == Fsync::Always {
                self.gather().await;
            }
            let (wanted, wakers) = {
                let mut waiting = self.waiting();
                (waiting.wanted, std::mem::take(&mut waiting.wakers))
            };
            let begin = Instant::now();
            let settled = log.settle(wanted);
            took(begin.elapsed());
            match settled {
                Ok(()) => self.settled.store(wanted, Relaxed),
                Err(failure) => {
                    if !self.failed.swap(true, Relaxed) {
                        tracing::warn!(
                            "The append only file failed: {failure}. Writes are refused"
                        );
                    }
                }
            }
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}
