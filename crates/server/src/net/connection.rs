//! A connection: bytes in, commands executed, replies out.
//!
//! One task serves one connection. It reads whatever there is, parses all complete commands of it
//! (up to a bound), executes them one after the other, collects the replies in one buffer and
//! writes them at once: one read and one write per batch. Commands are executed by the thread that
//! read them, on any shard. Replies leave when all connections that had sent something were read: a
//! client that the first reply wakes finds the others there, instead of falling asleep and being
//! woken for each.
//!
//! Who owns what: the task owns socket, buffers, parser and session; the engine's registry holds
//! the shared part of the session, through which others kill, wake or write to the client.
//!
//! Invariants:
//! - replies leave in the order of their commands, and none before the log is settled up to its
//!   offset;
//! - a batch is bounded, and so are reads and writes before others have their turn: a connection
//!   with more to do goes to the end of the queue, so that none starves another.

mod batch;
mod dump;
mod memory;
mod pause;
mod quorum;
mod replica;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use commands::{Client, Next, Peer, Session};
use pmem::ChargedClient;
use resp::Parser;

use self::batch::Step;
use crate::net::discard::discard;
use crate::net::input::Input;
use crate::net::meter::add;
use crate::net::output::Output;
use crate::net::socket::Stream;
use crate::threads::worker::Worker;

/// Bytes that are written before others have their turn.
const MOST_IN_TURN: usize = 256 * 1024;

/// The time after which a command whose shards were locked is tried again, even if they still are.
const LOCKED: Duration = Duration::from_millis(50);

/// Bytes of replies that are not counted before a batch was sent: Redis's fixed buffer next to the
/// list that it limits.
const FIXED_REPLIES: usize = 16 * 1024;

/// Bytes that may wait for a client that has not authenticated: as in Redis, some error replies.
const UNAUTHENTICATED: u64 = 1024;

/// A connection that is being served.
pub(crate) struct Connection {
    stream: Stream,
    worker: Arc<Worker>,
    session: Session,
    client: Arc<Client>,
    parser: Parser,
    input: Input,
    /// Bytes that the arriving command still needs, if that is known.
    missing: usize,
    output: Output,
    /// The command of the batch to go on with; a pause of clients stops a batch in the middle.
    next: Option<usize>,
    /// The offset up to which the log must be settled before `output` may leave.
    log_end: u64,
    /// How often this server's role had changed before the commands of these replies; none if it
    /// was a replica.
    roles: Option<u64>,
    /// Since when the replies exceed their soft limit, unix ms.
    soft_since: Option<u64>,
    waker: Option<Waker>,
    /// When its commands may go on, if some that wrote must be followed by a wait.
    turn: Option<Instant>,
    charged: ChargedClient,
    /// The worker's count of reads after this connection's last one.
    reads: u64,
    /// Whether the worker served no other connection since.
    is_sole_active: bool,
}

/// The event that ends a blocked command's wait.
enum Woken {
    /// It has its reply, and this is to follow.
    Replied(Next),
    /// Pushes for the client are to be sent when the log is settled.
    Pushes,
    /// The client is gone or must go.
    Gone,
}

impl Connection {
    pub(crate) fn new(stream: Stream, peer: Peer, worker: Arc<Worker>) -> Connection {
        let mut session = worker.shared.engine.connect(peer, worker.number);
        session.set_can_block();
        session.set_can_walk();
        session.set_gives_way();
        Connection {
            stream,
            client: Arc::clone(&session.client),
            session,
            parser: Parser::new(),
            input: Input::default(),
            missing: 1,
            output: Output::new(),
            next: None,
            log_end: 0,
            roles: None,
            soft_since: None,
            waker: None,
            turn: None,
            charged: ChargedClient::default(),
            reads: 0,
            is_sole_active: true,
            worker,
        }
    }

    /// Makes the user named by its verified certificate the client's user, if there is such a user.
    pub(crate) fn authenticate_by_certificate(&mut self, name: &[u8]) {
        self.worker
            .shared
            .engine
            .permissions()
            .authenticate_by_certificate(&mut self.session, name);
    }

    /// Serves the client until either side ends it.
    pub(crate) async fn serve(mut self) {
        let mut closing = false;
        while !closing {
            // A client that sends faster than its input is processed is not read again at once.
            if self.input.is_full() || !self.is_sole_active && !self.output.is_empty() {
                tokio::task::yield_now().await;
            }
            if !poll_fn(|cx| self.poll_input(cx)).await {
                return;
            }
            self.roles = quorum::roles(&self);
            loop {
                if let Some(turn) = self.turn.take()
                    && !self.give_way(turn).await
                {
                    return;
                }
                let step = batch::run(&mut self);
                self.worker.serve_soon();
                if self.output.len() > FIXED_REPLIES && self.exceeds_hard_limit() {
                    return;
                }
                // Such a command has no reply yet.
                let goes_on = matches!(step, Step::Blocked | Step::Walking);
                if !self.pass_barrier(goes_on).await {
                    closing = true;
                    break;
                }
                match step {
                    Step::Done => break,
                    Step::More => {
                        if !poll_fn(|cx| Poll::Ready(self.try_write(cx))).await {
                            return;
                        }
                        tokio::task::yield_now().await;
                    }
                    Step::Paused => {
                        let stays = match self.is_paused() {
                            true => self.paused().await,
                            false => self.wait_for_space().await,
                        };
                        if !stays {
                            return;
                        }
                    }
                    Step::Locked => self.wait_for_shards().await,
                    Step::Blocked => match self.blocked().await {
                        None => return,
                        Some(Next::Locked) => self.come_again().await,
                        Some(Next::Close) => {
                            self.pass_barrier(false).await;
                            closing = true;
                            break;
                        }
                        Some(_) => {}
                    },
                    Step::Walking => {
                        if !self.walk().await {
                            return;
                        }
                    }
                    Step::SendDump => {
                        dump::send_only(&mut self).await;
                        closing = true;
                        break;
                    }
                    Step::Replicate => return replica::serve(self).await,
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
        let _ = poll_fn(|cx| Poll::Ready(self.stream.poll_end(cx))).await;
    }

    /// Waits until what the replies acknowledge is durable, and replicas have it if that is asked
    /// for. Returns false if it will not be. `goes_on`: the last command has no reply yet.
    async fn pass_barrier(&mut self, goes_on: bool) -> bool {
        let end = std::mem::take(&mut self.log_end);
        let is_settled = end == 0 || self.worker.commit_barrier.pass(end).await.is_ok();
        if !is_settled {
            self.fail(match self.worker.shared.journal {
                Some(_) => {
                    "MISCONF Errors writing to the journal: it failed before this was durable"
                }
                None => {
                    "MISCONF Errors writing to the AOF file: the log failed before this was durable"
                }
            });
            return false;
        }
        let has_more = self.output.has_unpassed();
        if has_more && self.session.shows_data() && !quorum::pass(self).await {
            return false;
        }
        self.output.note_passed();
        if has_more && !goes_on {
            self.session.replies_have_passed();
        }
        true
    }

    /// Drops replies that may not be acknowledged, and sends the reason.
    fn fail(&mut self, reason: &str) {
        self.output.forget_unpassed();
        self.output.writer.error(reason);
    }

    /// Sends pending output and reads input; false when the client is gone or must go. Also true if
    /// pushes for the client wait for the log.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.store_waker(cx);
        if self.client.killed.load(Relaxed) {
            return Poll::Ready(false);
        }
        if self.take_pushes() {
            return Poll::Ready(true);
        }
        if !self.try_write(cx) {
            return Poll::Ready(false);
        }
        // What arrived while replies waited for replicas may have whole commands.
        if self.input.len() > 0 && self.missing == 0 {
            return Poll::Ready(true);
        }
        if self.input.has_no_space() && self.stream.poll_readable(cx).is_pending() {
            self.release();
            return Poll::Pending;
        }
        if let Some(given_up) = self.input.grow(self.missing) {
            self.parser.shrink();
            discard(&self.worker.shared, given_up);
        }
        let arrived = self.poll_read(cx);
        if arrived.is_pending() {
            self.release();
        }
        arrived
    }

    /// Takes the pushes for the client. Returns true if they have to wait for the log before they
    /// are sent.
    fn take_pushes(&mut self) -> bool {
        let after = self.client.take_pushes(self.output.writer.buffer());
        let waits = !self.worker.commit_barrier.is_settled(after);
        if waits {
            self.log_end = self.log_end.max(after);
        } else {
            self.output.note_passed();
        }
        waits
    }

    /// Reads into the available space; false at the end of the stream.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        match self.stream.poll_read(cx, self.input.space()) {
            Poll::Ready(Ok(0)) => Poll::Ready(false),
            Poll::Ready(Ok(read)) => {
                self.input.filled(read);
                if self.exceeds_all(self.input.len() as u64) {
                    return Poll::Ready(false);
                }
                let meter = self.worker.meter();
                add(&meter.reads, 1);
                let reads = meter.reads.load(Relaxed);
                self.is_sole_active = reads == self.reads + 1;
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

    /// Registers the task's waker with the client, so that others can wake it.
    fn store_waker(&mut self, cx: &Context<'_>) {
        if self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            return;
        }
        let waker = cx.waker().clone();
        self.waker = Some(waker.clone());
        self.client.set_waker(Box::new(move || waker.wake_by_ref()));
    }

    /// Writes as much as the socket takes, and no more than others can wait for. Returns false when
    /// the connection is to end.
    fn try_write(&mut self, cx: &mut Context<'_>) -> bool {
        let mut in_turn = 0;
        while !self.output.is_empty() {
            if in_turn >= MOST_IN_TURN {
                // The task is woken after others, and the sockets, had their turn.
                let _ = pin!(tokio::task::yield_now()).poll(cx);
                return self.check_output();
            }
            match self.stream.poll_write(cx, self.output.next()) {
                Poll::Ready(Ok(0)) => return false,
                Poll::Ready(Ok(written)) => {
                    in_turn += written;
                    if let Some(sent) = self.output.advance(written) {
                        discard(&self.worker.shared, sent);
                    }
                    if self.output.is_empty() {
                        self.soft_since = None;
                    }
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
        if let Poll::Ready(Err(error)) = self.stream.poll_flush(cx) {
            tracing::debug!("Error writing to client: {error}");
            return false;
        }
        if self.client.output.load(Relaxed) != 0 {
            self.client.output.store(0, Relaxed);
        }
        self.publish_capacity();
        self.count_memory();
        true
    }

    /// Returns true if the output that waits is within the limits.
    fn check_output(&mut self) -> bool {
        self.output.put_long_aside();
        let waiting = self.output.len() as u64;
        self.client.output.store(waiting as usize, Relaxed);
        self.publish_capacity();
        self.count_memory();
        if self.exceeds_all(waiting) {
            return false;
        }
        let engine = &self.worker.shared.engine;
        if waiting > UNAUTHENTICATED && engine.permissions().must_authenticate(&self.session) {
            return false;
        }
        let limit = self.worker.shared.limits.output(&self.client);
        let mut over = limit.hard > 0 && waiting >= limit.hard;
        if limit.soft > 0 && waiting >= limit.soft {
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

    /// Returns true if a batch left more to send than may ever wait for the client, before any of
    /// it is sent: one reply may be that large.
    #[cold]
    fn exceeds_hard_limit(&mut self) -> bool {
        let limit = self.worker.shared.limits.output(&self.client);
        let exceeds = limit.hard > 0 && self.output.len() as u64 >= limit.hard;
        exceeds && !self.check_output()
    }

    fn now_ms(&self) -> u64 {
        self.worker.shared.engine.clock().unix_ms()
    }

    /// Releases the buffers once the client has been idle for a while, when the housekeeping thread
    /// demands it.
    #[inline]
    fn release(&mut self) {
        if self.client.release.load(Relaxed) {
            self.release_buffers();
        }
    }

    #[cold]
    fn release_buffers(&mut self) {
        self.client.release.store(false, Relaxed);
        if let Some(input) = self.input.release() {
            discard(&self.worker.shared, input);
            self.parser.shrink();
            self.client.query_buffer_free.store(0, Relaxed);
        }
        self.output.release();
        self.publish_capacity();
        self.count_memory();
        self.session.shrink();
    }

    /// Takes the steps of a long command, and lets others be served between them. Returns false
    /// when the client must go.
    async fn walk(&mut self) -> bool {
        loop {
            tokio::task::yield_now().await;
            if self.client.killed.load(Relaxed) {
                return false;
            }
            let engine = &self.worker.shared.engine;
            if let Some(outcome) = engine.go_on(&mut self.session, &mut self.output.writer) {
                self.log_end = outcome.reply_after;
                return true;
            }
            if self.session.waits_for_shards() {
                self.wait_for_shards().await;
            }
        }
    }

    /// Waits to execute the last command again, which found a shard locked on another thread too.
    async fn come_again(&mut self) {
        self.next = self.next.and_then(|next| next.checked_sub(1));
        self.wait_for_shards().await;
    }

    /// Waits until it is worth trying again to lock the shards, or this client is killed.
    async fn wait_for_shards(&mut self) {
        let woken = poll_fn(|cx| {
            self.store_waker(cx);
            // Replies of earlier commands leave meanwhile.
            let _ = self.try_write(cx);
            let engine = &self.worker.shared.engine;
            let is_over = engine.poll_shards(&self.session, cx.waker());
            if is_over || self.client.killed.load(Relaxed) {
                return Poll::Ready(());
            }
            Poll::Pending
        });
        let _ = tokio::time::timeout(LOCKED, woken).await;
    }

    /// Waits until the blocked session has its reply, or its timeout has passed. Returns what
    /// follows; none when the client is gone or must go.
    async fn blocked(&mut self) -> Option<Next> {
        loop {
            match self.wait_blocked().await {
                Woken::Replied(next) => return Some(next),
                Woken::Gone => return None,
                Woken::Pushes => {
                    let end = std::mem::take(&mut self.log_end);
                    self.worker.commit_barrier.pass(end).await.ok()?;
                    self.output.note_passed();
                }
            }
        }
    }

    async fn wait_blocked(&mut self) -> Woken {
        let until = self.session.blocked_until();
        if let Some(until) = until {
            let wait = Duration::from_millis(until.saturating_sub(self.now_ms()) + 1);
            match tokio::time::timeout(wait, poll_fn(|cx| self.poll_blocked(cx))).await {
                Ok(woken) => return woken,
                Err(_) => {
                    let (session, out) = (&mut self.session, &mut self.output.writer);
                    if let Some(outcome) = self.worker.shared.engine.time_out(session, out) {
                        self.log_end = outcome.reply_after;
                        return Woken::Replied(outcome.next);
                    }
                }
            }
        }
        poll_fn(|cx| self.poll_blocked(cx)).await
    }

    /// Sends pending output, and reads input without parsing it: the end of the stream ends the
    /// wait, unless another thread executes a command.
    fn poll_blocked(&mut self, cx: &mut Context<'_>) -> Poll<Woken> {
        self.store_waker(cx);
        if self.client.killed.load(Relaxed) {
            return Poll::Ready(Woken::Gone);
        }
        let engine = &self.worker.shared.engine;
        if self.session.is_away() {
            self.output.put_aside();
        }
        if let Some(outcome) = engine.unblocked(&mut self.session, &mut self.output.writer) {
            self.log_end = outcome.reply_after;
            self.output.put_long_aside();
            return Poll::Ready(Woken::Replied(outcome.next));
        }
        // The result of a call on another thread is sent before later pushes.
        if !self.session.is_away() && self.take_pushes() {
            return Poll::Ready(Woken::Pushes);
        }
        if !self.try_write(cx) {
            return Poll::Ready(Woken::Gone);
        }
        // A call on another thread may have borrowed the input, and replies even to a client that
        // has closed its end.
        if self.session.is_away() {
            return Poll::Pending;
        }
        self.input.grow_for_more();
        match self.poll_read(cx) {
            Poll::Ready(true) if batch::is_within_limit(self) => {}
            Poll::Ready(_) => return Poll::Ready(Woken::Gone),
            Poll::Pending => return Poll::Pending,
        }
        // Whole commands may follow the one that was missing bytes.
        self.missing = 0;
        // More may have arrived: look again after others had their turn.
        let _ = pin!(tokio::task::yield_now()).poll(cx);
        Poll::Pending
    }

    /// Sends the rest before the connection ends.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.store_waker(cx);
        let goes_on = !self.client.killed.load(Relaxed) && self.try_write(cx);
        let is_sent = self.output.is_empty() && self.stream.is_flushed();
        if goes_on && !is_sent { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let engine = &self.worker.shared.engine;
        engine.set_monitor(&self.client, false);
        engine.disconnect(&mut self.session);
        self.worker.meter().serving.fetch_sub(1, Relaxed);
        let buffers = self.output.take_buffers().chain([self.input.take_buffer()]);
        buffers.for_each(|buffer| discard(&self.worker.shared, buffer));
    }
}
