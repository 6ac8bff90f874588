//! A worker: what the tasks of one of the threads that serve connections share.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::commit_barrier::{CommitBarrier, FinishedWait, WaitedFor};
use crate::meter::Meter;
use crate::shared::Shared;

/// State that a worker's tasks share.
pub(crate) struct Worker {
    pub(crate) number: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) commit_barrier: Arc<CommitBarrier>,
    /// Signals that blocked clients are to be served when others have unlocked a shard.
    locked: Notify,
}

impl Worker {
    pub(crate) fn new(number: usize, shared: &Arc<Shared>) -> Arc<Worker> {
        let (shared, locked) = (Arc::clone(shared), Notify::new());
        Arc::new(Worker { number, shared, commit_barrier: Arc::default(), locked })
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

    pub(crate) fn meter(&self) -> &Meter {
        &self.shared.meters[self.number]
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
