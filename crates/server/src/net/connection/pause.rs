//! Connections that wait before their next command: those that wrote, until their turn comes; with
//! a write, until the journal has space; while clients are paused.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::Connection;

/// The pause between two looks whether a client that waits has closed its end.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Why a connection waits for space no longer.
enum Waited {
    HasSpace,
    /// Pushes for the client are to be sent when the log is settled.
    Pushes,
    /// The client is gone or must go.
    Gone,
}

impl Connection {
    /// Waits for its turn, after commands that wrote. Returns false when the client must go.
    pub(super) async fn give_way(&mut self, turn: Instant) -> bool {
        let worker = Arc::clone(&self.worker);
        let Some(journal) = &worker.shared.journal else { return true };
        let mut turn = pin!(journal.wait_for_turn(turn));
        poll_fn(|cx| {
            self.store_waker(cx);
            match self.client.killed.load(Relaxed) {
                true => Poll::Ready(false),
                false => turn.as_mut().poll(cx).map(|()| true),
            }
        })
        .await
    }

    pub(super) fn is_paused(&self) -> bool {
        self.worker.shared.engine.admin().paused_until_ms() != 0
    }

    /// Waits until the pool's journal has space for a write. Returns false when the client is gone
    /// or must go: its input is not read meanwhile, so that it cannot send more and more.
    pub(super) async fn wait_for_space(&mut self) -> bool {
        let (worker, client) = (Arc::clone(&self.worker), Arc::clone(&self.client));
        let mut space = pin!(worker.space());
        client.blocked.store(true, Relaxed);
        let goes_on = loop {
            let woken = poll_fn(|cx| self.poll_space(space.as_mut(), cx));
            match tokio::time::timeout(POLL_INTERVAL, woken).await {
                Ok(Waited::HasSpace) => break true,
                Ok(Waited::Gone) => break false,
                Ok(Waited::Pushes) => {
                    let end = std::mem::take(&mut self.log_end);
                    if worker.commit_barrier.pass(end).await.is_err() {
                        break false;
                    }
                    self.output.note_passed();
                }
                Err(_) if self.stream.is_closed() => break false,
                Err(_) => {}
            }
        };
        client.blocked.store(false, Relaxed);
        goes_on
    }

    /// Sends earlier replies, and pushes, while there is no space.
    fn poll_space(
        &mut self,
        space: Pin<&mut impl Future<Output = ()>>,
        cx: &mut Context<'_>,
    ) -> Poll<Waited> {
        self.store_waker(cx);
        if self.client.killed.load(Relaxed) {
            return Poll::Ready(Waited::Gone);
        }
        if space.poll(cx).is_ready() {
            return Poll::Ready(Waited::HasSpace);
        }
        if self.take_pushes() {
            return Poll::Ready(Waited::Pushes);
        }
        if self.try_write(cx) { Poll::Pending } else { Poll::Ready(Waited::Gone) }
    }

    /// Waits until clients are no longer paused, or this one is killed. Returns false when it is
    /// gone: its command is not executed then.
    pub(super) async fn paused(&mut self) -> bool {
        let until = self.worker.shared.engine.admin().paused_until_ms();
        let ended = self.worker.shared.engine.admin().ended_pauses();
        let client = Arc::clone(&self.client);
        client.blocked.store(true, Relaxed);
        let stays = loop {
            let left = Duration::from_millis(until.saturating_sub(self.now_ms()) + 1);
            let woken = poll_fn(|cx| self.poll_pause(ended, cx));
            match tokio::time::timeout(left.min(POLL_INTERVAL), woken).await {
                Ok(()) => break true,
                Err(_) if self.stream.is_closed() => break false,
                Err(_) if self.now_ms() > until => break true,
                Err(_) => {}
            }
        };
        client.blocked.store(false, Relaxed);
        stays
    }

    /// Sends earlier replies during a pause, the one after `ended` others.
    fn poll_pause(&mut self, ended: u64, cx: &mut Context<'_>) -> Poll<()> {
        self.store_waker(cx);
        let _ = self.try_write(cx);
        let admin = self.worker.shared.engine.admin();
        let is_over = admin.ended_pauses() != ended
            || admin.paused_until_ms() == 0
            || self.client.killed.load(Relaxed);
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    }
}
