//! Connections that wait before their next command: those that wrote, until their turn comes; with
//! a write, until the journal has space; while clients are paused.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::Connection;

impl Connection {
    /// Waits for its turn, after commands that wrote.
    pub(super) async fn give_way(&mut self, turn: Instant) {
        if let Some(journal) = &self.worker.shared.journal {
            journal.wait_for_turn(turn).await;
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.worker.shared.engine.admin().paused_until_ms() != 0
    }

    /// Waits until the pool's journal has space for a write, or this client is killed.
    pub(super) async fn wait_for_space(&mut self) {
        let worker = Arc::clone(&self.worker);
        let mut space = pin!(worker.space());
        let client = Arc::clone(&self.client);
        client.blocked.store(true, Relaxed);
        poll_fn(|cx| {
            self.store_waker(cx);
            // Earlier replies leave meanwhile.
            let _ = self.try_write(cx);
            if self.client.killed.load(Relaxed) {
                return Poll::Ready(());
            }
            space.as_mut().poll(cx)
        })
        .await;
        client.blocked.store(false, Relaxed);
    }

    /// Waits until clients are no longer paused, or this one is killed.
    pub(super) async fn paused(&mut self) {
        let until = self.worker.shared.engine.admin().paused_until_ms();
        let ended = self.worker.shared.engine.admin().ended_pauses();
        let wait = Duration::from_millis(until.saturating_sub(self.now_ms()) + 1);
        let client = Arc::clone(&self.client);
        let mut first = true;
        let woken = poll_fn(|cx| {
            self.store_waker(cx);
            let admin = self.worker.shared.engine.admin();
            let over = admin.ended_pauses() != ended
                || admin.paused_until_ms() == 0
                || self.client.killed.load(Relaxed);
            if over && !first {
                return Poll::Ready(());
            }
            first = false;
            // Earlier replies leave during the pause.
            let _ = self.try_write(cx);
            if over { Poll::Ready(()) } else { Poll::Pending }
        });
        client.blocked.store(true, Relaxed);
        let _ = tokio::time::timeout(wait, woken).await;
        client.blocked.store(false, Relaxed);
    }
}
