//! A connection: bytes in, commands executed, replies out.
//!
//! One task serves one connection. It reads whatever there is, parses all complete commands of it (up to
//! a bound), executes them one after the other, collects the replies in one buffer and writes them at
//! once: one read and one write per batch. Commands are executed where they were read, on any shard.
//! Replies leave when all connections that had sent something were read: a client that is woken by the first
//! reply finds the others there, instead of falling asleep and being woken for each.
//!
//! Who owns what: the task owns socket, buffers, parser and session; the engine's registry holds the
//! session's shared face, through which others kill, wake or write to the client.
//!
//! Invariants:
//! - replies leave in the order of their commands, and none before the log is settled as far as it needs;
//! - a batch is bounded, and a connection with more to do goes to the end of the queue, so that none
//!   starves another;
//! - `input[..filled]` are the bytes received and not yet released by the parser.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use commands::{Client, Peer, Session};
use resp::{BIG_BULK, Parser, Protocol, Writer};

use crate::batch::{self, Step};
use crate::meter::add;
use crate::stream::Stream;
use crate::worker::Worker;

/// Room for input that a connection keeps while it is idle, and the least that it reads into.
const ROOM: usize = 16 * 1024;
/// Room for input of a client that sends more at once than it is given room for.
const MORE_ROOM: usize = 64 * 1024;
/// Room that a large argument gets at once.
const CLAIM: usize = 64 * 1024;
/// Room for replies that a connection keeps.
const REPLY_ROOM: usize = 64 * 1024;
/// A connection that was silent for so long gives its larger buffers back.
const IDLE_MS: u64 = 2000;

/// A connection that is being served.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) worker: Arc<Worker>,
    pub(crate) session: Option<Session>,
    client: Arc<Client>,
    pub(crate) parser: Parser,
    pub(crate) input: Vec<u8>,
    pub(crate) filled: usize,
    /// Whether the last read filled all room.
    crowded: bool,
    /// Bytes that the command which is arriving still needs, where that is known.
    pub(crate) missing: usize,
    pub(crate) out: Writer,
    /// How much of `out` was sent.
    sent: usize,
    /// The command of the batch to go on with; a pause of clients stops in the middle of one.
    pub(crate) next: Option<usize>,
    /// Up to where the log must be settled before `out` may leave.
    pub(crate) log_end: u64,
    /// Since when the replies exceed their soft limit, unix ms.
    soft_since: Option<u64>,
    waker: Option<Waker>,
    /// The worker's count of reads after this connection's last one.
    reads: u64,
    /// Whether the worker served no other connection since.
    alone: bool,
}

impl Connection {
    pub(crate) fn new(stream: Stream, peer: Peer, worker: Arc<Worker>) -> Connection {
        let mut session = worker.shared.engine.connect(peer, worker.number);
        session.set_can_block();
        Connection {
            stream,
            client: Arc::clone(&session.client),
            session: Some(session),
            parser: Parser::new(),
            input: vec![0; ROOM],
            filled: 0,
            crowded: false,
            missing: 1,
            out: Writer::new(Protocol::Resp2),
            sent: 0,
            next: None,
            log_end: 0,
            soft_since: None,
            waker: None,
            reads: 0,
            alone: true,
            worker,
        }
    }

    /// Serves the client until either side ends it.
    pub(crate) async fn serve(mut self) {
        let mut closing = false;
        while !closing {
            if !self.alone && !self.out.is_empty() {
                tokio::task::yield_now().await;
            }
            if !poll_fn(|cx| self.poll_input(cx)).await {
                return;
            }
            loop {
                let step = batch::run(&mut self);
                if self.log_end > 0 {
                    let end = std::mem::take(&mut self.log_end);
                    if self.worker.gate.pass(end).await.is_err() {
                        self.fail();
                        closing = true;
                        break;
                    }
                }
                match step {
                    Step::Done => break,
                    Step::More => {
                        if !poll_fn(|cx| Poll::Ready(self.try_write(cx))).await {
                            return;
                        }
                        tokio::task::yield_now().await;
                    }
                    Step::Paused => self.paused().await,
                    Step::Blocked => {
                        if !self.blocked().await {
                            return;
                        }
                    }
                    Step::Close => {
                        closing = true;
                        break;
                    }
                    Step::Shutdown(request) => {
                        self.worker.shared.shutdown.request(request);
                        std::future::pending::<()>().await;
                    }
                }
                if self.client.killed.load(Relaxed) {
                    return;
                }
            }
        }
        poll_fn(|cx| self.poll_drain(cx)).await;
    }

    /// Drops what may not be acknowledged, and says why.
    fn fail(&mut self) {
        self.out.clear();
        self.sent = 0;
        self.out.error(
            "MISCONF Errors writing to the AOF file: the log failed before this was durable",
        );
    }

    /// Sends what there is to send, and takes what arrives; false when the client is gone or must go.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.keep_waker(cx);
        if self.client.killed.load(Relaxed) {
            return Poll::Ready(false);
        }
        self.client.take_mail(self.out.buffer());
        if !self.try_write(cx) {
            return Poll::Ready(false);
        }
        self.make_room();
        let arrived = self.poll_read(cx);
        if arrived.is_pending() {
            self.shrink();
        }
        arrived
    }

    /// Takes what arrives into the room that there is; false at the end of the stream.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        match self.stream.poll_read(cx, &mut self.input[self.filled..]) {
            Poll::Ready(Ok(0)) => Poll::Ready(false),
            Poll::Ready(Ok(read)) => {
                self.filled += read;
                self.crowded = self.filled == self.input.len();
                let meter = self.worker.meter();
                add(&meter.reads, 1);
                let reads = meter.reads.load(Relaxed);
                self.alone = reads == self.reads + 1;
                self.reads = reads;
                add(&meter.bytes_in, read as u64);
                Poll::Ready(true)
            }
            Poll::Ready(Err(error)) => {
                tracing::debug!("Reading from client: {error}");
                Poll::Ready(false)
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Registers the task with the client's face, so that others can wake it.
    fn keep_waker(&mut self, cx: &Context<'_>) {
        if self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            return;
        }
        let waker = cx.waker().clone();
        self.waker = Some(waker.clone());
        self.client.set_waker(Box::new(move || waker.wake_by_ref()));
    }

    /// Writes as much as the socket takes; false when the connection is to end.
    fn try_write(&mut self, cx: &mut Context<'_>) -> bool {
        while self.sent < self.out.len() {
            match self.stream.poll_write(cx, &self.out.as_bytes()[self.sent..]) {
                Poll::Ready(Ok(0)) => return false,
                Poll::Ready(Ok(written)) => {
                    self.sent += written;
                    let meter = self.worker.meter();
                    add(&meter.writes, 1);
                    add(&meter.bytes_out, written as u64);
                }
                Poll::Ready(Err(error)) => {
                    tracing::debug!("Error writing to client: {error}");
                    return false;
                }
                Poll::Pending => return self.check_output(),
            }
        }
        if self.sent > 0 {
            self.sent = 0;
            self.out.clear();
            self.soft_since = None;
            if self.client.output.load(Relaxed) != 0 {
                self.client.output.store(0, Relaxed);
            }
        }
        true
    }

    /// Whether what waits to be sent is within the limits.
    fn check_output(&mut self) -> bool {
        if self.sent >= REPLY_ROOM {
            self.out.buffer().drain(..self.sent);
            self.sent = 0;
        }
        let waiting = (self.out.len() - self.sent) as u64;
        self.client.output.store(waiting as usize, Relaxed);
        let limit = self.worker.shared.limits.output(self.client.is_subscribed());
        let mut over = limit.hard > 0 && waiting > limit.hard;
        if limit.soft > 0 && waiting > limit.soft {
            let now = self.now_ms();
            let since = *self.soft_since.get_or_insert(now);
            over |= now - since > limit.seconds * 1000;
        } else {
            self.soft_since = None;
        }
        if over {
            let line =
                commands::admin::describe(&self.worker.shared.engine, &self.client, self.now_ms());
            tracing::warn!("Client {line} closed for overcoming of output buffer limits.");
        }
        !over
    }

    fn now_ms(&self) -> u64 {
        self.worker.shared.engine.clock().unix_ms()
    }

    /// Room for the next read. A large argument gets what it still needs, as far as its client has shown to mean it: as
    /// much again as was sent. So a length that is only claimed costs nothing, and the buffer still grows few times.
    fn make_room(&mut self) {
        if std::mem::take(&mut self.crowded) && self.input.len() < MORE_ROOM {
            self.input.resize(MORE_ROOM, 0);
        }
        let large = self.missing >= BIG_BULK;
        let least = if large { self.missing.min(ROOM) } else { ROOM / 4 };
        if self.input.len() - self.filled >= least {
            return;
        }
        let believed = self.filled.max(CLAIM);
        let more = if large { self.missing.min(believed) } else { self.filled.max(ROOM / 4) };
        self.input.resize((self.filled + more).max(ROOM), 0);
    }

    /// Gives large buffers back once the client is silent.
    fn shrink(&mut self) {
        let large = self.input.len() > ROOM && self.filled == 0;
        let large_out = self.out.is_empty() && self.out.buffer().capacity() > REPLY_ROOM;
        if !large && !large_out {
            return;
        }
        if self.now_ms().saturating_sub(self.client.seen_ms.load(Relaxed)) < IDLE_MS {
            return;
        }
        self.input = vec![0; ROOM];
        self.out.buffer().shrink_to(REPLY_ROOM);
        self.client.query_buffer_free.store(ROOM, Relaxed);
    }

    /// Waits until clients are no longer paused, or this one is killed.
    async fn paused(&mut self) {
        let until = self.worker.shared.engine.admin().paused_until_ms();
        let wait = Duration::from_millis(until.saturating_sub(self.now_ms()) + 1);
        let client = Arc::clone(&self.client);
        let mut first = true;
        let woken = poll_fn(|cx| {
            self.keep_waker(cx);
            let admin = self.worker.shared.engine.admin();
            let over = admin.paused_until_ms() == 0 || self.client.killed.load(Relaxed);
            if over && !first {
                return Poll::Ready(());
            }
            first = false;
            // Replies before the pause leave.
            let _ = self.try_write(cx);
            if over { Poll::Ready(()) } else { Poll::Pending }
        });
        client.blocked.store(true, Relaxed);
        let _ = tokio::time::timeout(wait, woken).await;
        client.blocked.store(false, Relaxed);
    }

    /// Waits until the blocked session has its reply, or its time is over; false when the client is gone or must go.
    async fn blocked(&mut self) -> bool {
        let until = self.session.as_ref().and_then(Session::blocked_until);
        if let Some(until) = until {
            let wait = Duration::from_millis(until.saturating_sub(self.now_ms()) + 1);
            match tokio::time::timeout(wait, poll_fn(|cx| self.poll_blocked(cx))).await {
                Ok(goes_on) => return goes_on,
                Err(_) => {
                    let session = self.session.as_mut().expect("a session");
                    let engine = &self.worker.shared.engine;
                    if let Some(outcome) = engine.time_out(session, &mut self.out) {
                        self.log_end = outcome.durable_at;
                        return true;
                    }
                }
            }
        }
        poll_fn(|cx| self.poll_blocked(cx)).await
    }

    /// Sends what there is to send, and takes what arrives without looking at it: the end of the stream ends the wait.
    fn poll_blocked(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.keep_waker(cx);
        if self.client.killed.load(Relaxed) {
            return Poll::Ready(false);
        }
        let session = self.session.as_mut().expect("a session");
        if let Some(outcome) = self.worker.shared.engine.unblocked(session, &mut self.out) {
            self.log_end = outcome.durable_at;
            return Poll::Ready(true);
        }
        self.client.take_mail(self.out.buffer());
        if !self.try_write(cx) {
            return Poll::Ready(false);
        }
        loop {
            if self.input.len() - self.filled < ROOM / 4 {
                self.input.resize(self.filled * 2, 0);
            }
            match self.poll_read(cx) {
                Poll::Ready(true) if batch::is_within_limit(self) => {}
                Poll::Ready(_) => return Poll::Ready(false),
                Poll::Pending => return Poll::Pending,
            }
            // There may be whole commands behind the one that was missing bytes.
            self.missing = 0;
        }
    }

    /// Sends the rest before the connection ends.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.keep_waker(cx);
        let goes_on = !self.client.killed.load(Relaxed) && self.try_write(cx);
        if goes_on && self.sent < self.out.len() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let engine = &self.worker.shared.engine;
        engine.set_monitor(&self.client, false);
        if let Some(session) = self.session.take() {
            engine.disconnect(session);
        }
        self.worker.meter().serving.fetch_sub(1, Relaxed);
    }
}
