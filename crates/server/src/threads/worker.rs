//! A worker: what the tasks of one of the threads that serve connections share.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::durability::commit_barrier::{CommitBarrier, FinishedWait, WaitedFor};
use crate::net::meter::Meter;
use crate::shared::Shared;

/// State that a worker's tasks share.
pub(crate) struct Worker {
    pub(crate) number: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) commit_barrier: Arc<CommitBarrier>,
    /// Signals that blocked clients are to be served when others have unlocked a shard.
    locked: Notify,
    /// Signals that a connection waits for space in the journal,
    wants_space: Notify,
    /// ... and that there is some.
    has_space: Notify,
}

impl Worker {
    pub(crate) fn new(number: usize, shared: &Arc<Shared>) -> Arc<Worker> {
        Arc::new(Worker {
            number,
            shared: Arc::clone(shared),
            commit_barrier: Arc::default(),
            locked: Notify::new(),
            wants_space: Notify::new(),
            has_space: Notify::new(),
        })
    }

    /// Schedules serving the blocked clients that could not be served because others had locked a
    /// shard.
    #[inline]
    pub(crate) fn serve_soon(&self) {
        if self.shared.engine.blocked_clients().must_retry_locked() {
            self.locked.notify_one();
        }
    }

    pub(crate) async fn is_to_serve_soon(&self) {
        self.locked.notified().await;
    }

    /// Waits until the journal has space for a write, or may have: many may wait, and each looks
    /// again.
    pub(crate) fn space(&self) -> impl Future<Output = ()> {
        let mut given = Box::pin(self.has_space.notified());
        // Registered before it is asked for, so that the signal is not missed.
        given.as_mut().enable();
        self.wants_space.notify_one();
        given
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.shared.meters[self.number]
    }
}

/// Lets connections go on that wait for space in the journal, once there is some.
pub(crate) async fn give_space(worker: Arc<Worker>) {
    let Some(journal) = &worker.shared.journal else { return };
    loop {
        worker.wants_space.notified().await;
        journal.wait_for_space().await;
        worker.has_space.notify_waiters();
    }
}

/// Serves the commit barrier once there is a log, or a journal.
pub(crate) async fn flush(worker: Arc<Worker>) {
    let shared = &worker.shared;
    let mut opened = shared.log_opened.subscribe();
    let waited_for = match &shared.journal {
        Some(journal) => WaitedFor::Journal(Arc::clone(journal)),
        None if opened.wait_for(|open| *open).await.is_err() => return,
        None => match shared.log.get() {
            Some(log) => WaitedFor::Log(Arc::clone(log)),
            None => return,
        },
    };
    let took = |FinishedWait { event, time }| shared.engine.observe_latency(event, time);
    Arc::clone(&worker.commit_barrier).flush(waited_for, took).await;
}
