//! One connection: it keeps its pipeline full and counts the replies.
//!
//! A turn writes the pending output, reads once, and parses the replies; then new requests refill
//! the pipeline. So all replies that arrive together cost one read, one write and two readings of
//! the clock. All connections of a thread read into one buffer.

use super::Error;
use super::outcome::{Class, count_error};
use super::pace::{Schedule, Timer};
use super::replies::{Replies, Reply};
use super::target::Target;
use super::workload::{Sent, Source};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The size of the read buffer in bytes.
pub(crate) const READ: usize = 64 << 10;

/// The state that the connections of a thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) target: Target,
    pub(crate) record: RefCell<Record>,
    pub(crate) buffer: RefCell<Vec<u8>>,
    pub(crate) pipeline: usize,
    /// No request is sent after this time.
    pub(crate) deadline: Option<Instant>,
    pub(crate) stop: Cell<bool>,
}

/// The measurements of one thread so far.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) classes: Vec<Class>,
    pub(crate) errors: BTreeMap<String, u64>,
    /// The outstanding requests of each connection.
    pub(crate) pending: Vec<VecDeque<Pending>>,
    /// Requests that were due but not sent when the run ended.
    pub(crate) unsent: u64,
    /// When the last reply arrived.
    pub(crate) last: Instant,
}

impl Shared {
    /// Returns true if requests are outstanding.
    pub(crate) fn is_pending(&self) -> bool {
        self.record.borrow().pending.iter().any(|pending| !pending.is_empty())
    }
}

/// An outstanding request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    sent: Sent,
    bytes: u64,
    /// When it was sent or, at a limited rate, due.
    pub(crate) since: Instant,
}

/// A connection that sends requests and counts replies.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) shared: Rc<Shared>,
    pub(crate) stream: TcpStream,
    pub(crate) source: Source,
    pub(crate) schedule: Option<(Schedule, Timer)>,
    /// The number of this connection within its thread.
    pub(crate) number: usize,
    /// The number of requests left to send; `None` without a limit.
    pub(crate) left: Option<u64>,
    pub(crate) state: State,
}

/// The state of a connection.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The number of outstanding requests.
    pending: usize,
    /// Keys to write now that their values have been read.
    to_write: VecDeque<(u64, Pending)>,
    out: Vec<u8>,
    written: usize,
    replies: Replies,
    last_error: Option<String>,
}

impl Client {
    /// Sends requests and counts replies until the run has ended and no request is outstanding.
    pub(crate) async fn run(mut self) -> Result<(), Error> {
        loop {
            let now = Instant::now();
            self.fill(now);
            if self.state.pending == 0 && self.has_ended(now) {
                self.count_unsent(now);
                return Ok(());
            }
            std::future::poll_fn(|context| self.turn(context)).await?;
        }
    }

    fn has_ended(&self, now: Instant) -> bool {
        self.left == Some(0)
            || self.shared.stop.get()
            || self.shared.deadline.is_some_and(|deadline| now >= deadline)
    }

    fn count_unsent(&self, now: Instant) {
        if let Some((schedule, _)) = &self.schedule
            && self.left != Some(0)
        {
            let until = self.shared.deadline.map_or(now, |deadline| deadline.min(now));
            // The request that is due just as the run ends is not counted.
            let unsent = schedule.overdue(until).saturating_sub(1);
            self.shared.record.borrow_mut().unsent += unsent;
        }
    }

    /// Appends requests to the output until the pipeline is full or no request is due.
    fn fill(&mut self, now: Instant) {
        while self.state.pending < self.shared.pipeline {
            let before = self.state.out.len();
            if let Some((key, read)) = self.state.to_write.pop_front() {
                self.source.write_back(key, &mut self.state.out);
                let bytes = read.bytes + (self.state.out.len() - before) as u64;
                let sent = Sent { then_write: None, ..read.sent };
                self.push(Pending { sent, bytes, since: read.since });
                continue;
            }
            if self.has_ended(now) {
                return;
            }
            let mut since = now;
            if let Some((schedule, _)) = &mut self.schedule {
                since = schedule.due();
                if since > now {
                    return;
                }
                schedule.take();
            }
            let sent = self.source.write(&mut self.state.out);
            let bytes = (self.state.out.len() - before) as u64;
            self.push(Pending { sent, bytes, since });
            if let Some(left) = &mut self.left {
                *left -= 1;
            }
        }
    }

    fn push(&mut self, pending: Pending) {
        self.state.pending += 1;
        self.shared.record.borrow_mut().pending[self.number].push_back(pending);
    }

    /// Polls until a reply arrives or a request is due.
    fn turn(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.write(context);
        match self.read(context) {
            // Once the run has ended, only replies are awaited.
            Ok(false)
                if self.state.pending < self.shared.pipeline && !self.has_ended(Instant::now()) =>
            {
                let Some((schedule, timer)) = &mut self.schedule else { return Poll::Pending };
                let failed = |error| Error::Failed(format!("a timer fails: {error}"));
                timer.poll(schedule.due(), context).map_err(failed)
            }
            Ok(false) => Poll::Pending,
            Ok(true) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn write(&mut self, context: &mut Context<'_>) {
        let state = &mut self.state;
        while state.written < state.out.len() {
            let rest = &state.out[state.written..];
            match Pin::new(&mut self.stream).poll_write(context, rest) {
                Poll::Ready(Ok(count)) if count > 0 => state.written += count,
                // The server may have sent a reason before it closed the connection: it is read
                // first, and then the failing read ends the run.
                Poll::Ready(_) | Poll::Pending => return,
            }
        }
        state.out.clear();
        state.written = 0;
    }

    /// Reads once and counts the replies that are complete. Returns false if there was nothing to
    /// read.
    fn read(&mut self, context: &mut Context<'_>) -> Result<bool, Error> {
        let shared = Rc::clone(&self.shared);
        let mut buffer = shared.buffer.borrow_mut();
        let mut free = ReadBuf::new(&mut buffer);
        match Pin::new(&mut self.stream).poll_read(context, &mut free) {
            Poll::Pending => Ok(false),
            Poll::Ready(Err(error)) => Err(self.gone(Some(&error))),
            Poll::Ready(Ok(())) if free.filled().is_empty() => Err(self.gone(None)),
            Poll::Ready(Ok(())) => self.count(free.filled()).map(|()| true),
        }
    }

    /// Returns why the connection ended, with the last error reply: a server sends one before it
    /// closes a connection.
    fn gone(&self, error: Option<&io::Error>) -> Error {
        let why = error.map_or("the server closed the connection".into(), ToString::to_string);
        let said = self.state.last_error.as_ref();
        let said = said.map(|text| format!("; its last error was: {text}")).unwrap_or_default();
        self.shared.target.failed(&format!("{why}{said}"))
    }

    /// Counts the replies that these bytes complete.
    fn count(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let now = Instant::now();
        let shared = Rc::clone(&self.shared);
        let mut record = shared.record.borrow_mut();
        let Record { classes, errors, pending, last, .. } = &mut *record;
        *last = now;
        let State { pending: outstanding, to_write, replies, last_error, .. } = &mut self.state;
        let mut is_unasked = false;
        let fed = replies.feed(bytes, |reply| {
            let Some(request) = pending[self.number].pop_front() else {
                is_unasked = true;
                return;
            };
            *outstanding -= 1;
            if let Some(text) = reply.error {
                count_error(errors, &text, 1);
                *last_error = Some(text);
            } else if let Some(key) = request.sent.then_write {
                to_write.push_back((key, request));
            } else {
                let class = &mut classes[request.sent.class];
                class.sent += request.bytes;
                class.received += reply.bytes;
                let keys = request.sent.keys;
                class.count(keys, misses(keys, &reply), now.duration_since(request.since));
            }
        });
        fed.map_err(|why| shared.target.failed(&why))?;
        if is_unasked {
            return Err(shared.target.failed("a reply came that nobody asked for"));
        }
        Ok(())
    }
}

/// Returns how many of the requested keys were missing. If one key was requested, it is missing if
/// the reply has no value other than nulls.
fn misses(keys: u64, reply: &Reply) -> u64 {
    if keys == 1 { u64::from(reply.nulls >= reply.values) } else { reply.nulls.min(keys) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_a_miss() {
        let misses =
            |keys, values, nulls| misses(keys, &Reply { values, nulls, ..Reply::default() });
        assert_eq!(misses(1, 1, 1), 1, "GET of a missing key");
        assert_eq!(misses(1, 1, 0), 0, "GET");
        assert_eq!(misses(1, 0, 0), 1, "LRANGE of a missing key");
        assert_eq!(misses(1, 2, 2), 1, "HMGET of a missing key");
        assert_eq!(misses(1, 2, 1), 0, "HMGET with a missing field");
        assert_eq!(misses(5, 5, 2), 2, "MGET");
    }
}
