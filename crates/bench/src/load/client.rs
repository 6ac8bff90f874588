//! One connection at work: it keeps the pipeline full, and counts what comes back.
//!
//! A turn writes what is to be written, reads what is there, and takes the replies in it apart;
//! then requests follow for the replies that came. So a pipeline costs one read and one write for
//! all replies that arrive together, and the clock is read twice.
//!
//! All connections of a thread read into one buffer. Only the beginning of a reply whose rest is
//! still to come is kept by its own connection.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Error;
use super::pace::{Schedule, Timer};
use super::record::{Record, Replied};
use super::reply::{Reply, decode};
use super::source::{Sent, Source};
use super::stream::{Stream, Target};

/// Bytes that are read at once.
const READ: usize = 64 << 10;

/// What the connections of a thread have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) target: Target,
    pub(crate) record: RefCell<Record>,
    pub(crate) buffer: RefCell<Vec<u8>>,
    pub(crate) pipeline: usize,
    pub(crate) reconnect: Option<u64>,
    /// No request is sent from then on.
    pub(crate) deadline: Option<Instant>,
    pub(crate) stop: Cell<bool>,
    /// Requests on their way.
    pub(crate) pending: Cell<u64>,
    /// Requests that were due when the run ended.
    pub(crate) unsent: Cell<u64>,
}

impl Shared {
    pub(crate) fn buffer() -> RefCell<Vec<u8>> {
        RefCell::new(vec![0; READ])
    }
}

/// What whoever watches the run may see of a thread while it works.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) operations: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// All latencies, in nanoseconds.
    pub(crate) latency: AtomicU64,
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
struct Pending {
    sent: Sent,
    bytes: u64,
    /// When it was sent, or due.
    since: Instant,
}

/// A connection at work.
#[derive(Debug)]
pub(crate) struct Client {
    shared: Rc<Shared>,
    progress: Arc<Progress>,
    stream: Stream,
    source: Source,
    schedule: Option<(Schedule, Timer)>,
    pending: VecDeque<Pending>,
    /// Keys to write, since their values have come.
    to_write: VecDeque<(u64, Pending)>,
    out: Vec<u8>,
    written: usize,
    /// The beginning of a reply.
    rest: Vec<u8>,
    /// Requests that are still to be sent.
    left: Option<u64>,
    /// Requests sent over this connection.
    sent: u64,
    last_error: Option<String>,
}

impl Client {
    pub(crate) fn new(
        shared: Rc<Shared>,
        progress: Arc<Progress>,
        stream: Stream,
        source: Source,
        left: Option<u64>,
        schedule: Option<(Schedule, Timer)>,
    ) -> Client {
        Client {
            shared,
            progress,
            stream,
            source,
            schedule,
            pending: VecDeque::new(),
            to_write: VecDeque::new(),
            out: Vec::new(),
            written: 0,
            rest: Vec::new(),
            left,
            sent: 0,
            last_error: None,
        }
    }

    /// Sends and counts until there is no more to do.
    pub(crate) async fn run(mut self) -> Result<(), Error> {
        loop {
            let now = Instant::now();
            self.fill(now);
            if self.pending.is_empty() {
                if self.has_ended(now) {
                    self.count_unsent(now);
                    return Ok(());
                }
                if self.wants_reconnect() {
                    self.stream = self.shared.target.connect().await?;
                    self.sent = 0;
                    continue;
                }
            }
            std::future::poll_fn(|context| self.turn(context)).await?;
        }
    }

    fn has_ended(&self, now: Instant) -> bool {
        self.left == Some(0)
            || self.shared.stop.get()
            || self.shared.deadline.is_some_and(|deadline| now >= deadline)
    }

    fn wants_reconnect(&self) -> bool {
        self.shared.reconnect.is_some_and(|requests| self.sent >= requests)
    }

    fn count_unsent(&self, now: Instant) {
        if let Some((schedule, _)) = &self.schedule
            && self.left != Some(0)
        {
            let until = self.shared.deadline.map_or(now, |deadline| deadline.min(now));
            // The one that is due at the very end is nobody's.
            let unsent = schedule.overdue(until).saturating_sub(1);
            self.shared.unsent.set(self.shared.unsent.get() + unsent);
        }
    }

    /// Writes requests until the pipeline is full, or none is due.
    fn fill(&mut self, now: Instant) {
        while self.pending.len() < self.shared.pipeline {
            if let Some((key, read)) = self.to_write.pop_front() {
                let before = self.out.len();
                self.source.write_back(key, &mut self.out);
                let bytes = read.bytes + (self.out.len() - before) as u64;
                let sent = Sent { then_write: None, ..read.sent };
                self.push(Pending { sent, bytes, since: read.since });
                continue;
            }
            if self.has_ended(now) || self.wants_reconnect() {
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
            let before = self.out.len();
            let sent = self.source.write(&mut self.out);
            let bytes = (self.out.len() - before) as u64;
            self.push(Pending { sent, bytes, since });
            self.sent += 1;
            if let Some(left) = &mut self.left {
                *left -= 1;
            }
        }
    }

    fn push(&mut self, pending: Pending) {
        self.pending.push_back(pending);
        self.shared.pending.set(self.shared.pending.get() + 1);
    }

    /// Polls until something has happened: a reply, or the time for a request.
    fn turn(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match self.step(context) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn step(&mut self, context: &mut Context<'_>) -> Result<bool, Error> {
        self.write(context);
        let replied = self.read(context)?;
        if replied || self.pending.len() >= self.shared.pipeline {
            return Ok(replied);
        }
        let Some((schedule, timer)) = &mut self.schedule else { return Ok(false) };
        match timer.poll(schedule.due(), context) {
            Poll::Ready(result) => {
                result.map_err(|e| Error::Failed(format!("a timer fails: {e}")))?;
                Ok(true)
            }
            Poll::Pending => Ok(false),
        }
    }

    fn write(&mut self, context: &mut Context<'_>) {
        while self.written < self.out.len() {
            let rest = &self.out[self.written..];
            match Pin::new(&mut self.stream).poll_write(context, rest) {
                Poll::Ready(Ok(count)) if count > 0 => self.written += count,
                // What the server said before it went away is read first; reading then ends the
                // run.
                Poll::Ready(_) | Poll::Pending => return,
            }
        }
        self.out.clear();
        self.written = 0;
    }

    /// Reads once, and counts the replies that are there now.
    fn read(&mut self, context: &mut Context<'_>) -> Result<bool, Error> {
        let shared = Rc::clone(&self.shared);
        let mut buffer = shared.buffer.borrow_mut();
        if !self.rest.is_empty() {
            return self.read_on(context);
        }
        let mut free = ReadBuf::new(&mut buffer);
        match Pin::new(&mut self.stream).poll_read(context, &mut free) {
            Poll::Pending => Ok(false),
            Poll::Ready(result) => {
                result.map_err(|e| self.gone(Some(&e)))?;
                let bytes = free.filled();
                if bytes.is_empty() {
                    return Err(self.gone(None));
                }
                let used = self.count(bytes)?;
                self.rest.extend_from_slice(&bytes[used..]);
                Ok(true)
            }
        }
    }

    /// The same where the beginning of a reply is there already.
    fn read_on(&mut self, context: &mut Context<'_>) -> Result<bool, Error> {
        let mut bytes = std::mem::take(&mut self.rest);
        let before = bytes.len();
        bytes.resize(before + READ, 0);
        let mut free = ReadBuf::new(&mut bytes[before..]);
        let polled = Pin::new(&mut self.stream).poll_read(context, &mut free);
        let read = free.filled().len();
        bytes.truncate(before + read);
        match polled {
            Poll::Pending => {
                self.rest = bytes;
                Ok(false)
            }
            Poll::Ready(result) => {
                result.map_err(|e| self.gone(Some(&e)))?;
                if read == 0 {
                    return Err(self.gone(None));
                }
                let used = self.count(&bytes)?;
                bytes.drain(..used);
                self.rest = bytes;
                Ok(true)
            }
        }
    }

    /// Returns why the connection ended, with the last error that came over it: a server says there
    /// why it closes one.
    fn gone(&self, error: Option<&std::io::Error>) -> Error {
        let why = error.map_or("the server closed the connection".into(), ToString::to_string);
        let said = self.last_error.as_ref().map(|text| format!("; its last error was: {text}"));
        Error::Failed(self.shared.target.says(&format!("{why}{}", said.unwrap_or_default())))
    }

    /// Counts the whole replies in these bytes: how many bytes they are.
    fn count(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let now = Instant::now();
        let shared = Rc::clone(&self.shared);
        let mut record = shared.record.borrow_mut();
        record.at(now);
        let (mut operations, mut sum) = (0, Duration::ZERO);
        let mut used = 0;
        let failed = |why: &str| Error::Failed(shared.target.says(why));
        while used < bytes.len() {
            let decoded = decode(&bytes[used..], shared.target.version);
            let Some((reply, length)) = decoded.map_err(|why| failed(&why))? else { break };
            used += length;
            if reply == Reply::Push {
                continue;
            }
            let pending = self.pending.pop_front();
            let pending = pending.ok_or_else(|| failed("a reply came that nobody asked for"))?;
            shared.pending.set(shared.pending.get() - 1);
            match reply {
                Reply::Error(text) => {
                    record.error(&text);
                    self.last_error = Some(text.into_owned());
                }
                Reply::Value { elements, nulls } => {
                    if let Some(key) = pending.sent.then_write {
                        self.to_write.push_back((key, pending));
                        continue;
                    }
                    let latency = now.saturating_duration_since(pending.since);
                    record.reply(&Replied {
                        class: pending.sent.class,
                        keys: pending.sent.keys,
                        misses: misses(pending.sent.keys, elements, nulls),
                        sent: pending.bytes,
                        received: length as u64,
                        latency,
                    });
                    operations += 1;
                    sum += latency;
                }
                Reply::Push => {}
            }
        }
        let progress = &self.progress;
        progress.operations.fetch_add(operations, Ordering::Relaxed);
        progress.bytes.fetch_add(used as u64, Ordering::Relaxed);
        progress.latency.fetch_add(sum.as_nanos() as u64, Ordering::Relaxed);
        Ok(used)
    }
}

/// Returns how many of the keys that were asked for were not there. One key is missing where all
/// that came is nothing.
fn misses(keys: u64, elements: u64, nulls: u64) -> u64 {
    if keys == 1 { u64::from(nulls >= elements) } else { nulls.min(keys) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_a_miss() {
        assert_eq!(misses(1, 1, 1), 1, "GET of a missing key");
        assert_eq!(misses(1, 1, 0), 0, "GET");
        assert_eq!(misses(1, 0, 0), 1, "LRANGE of a missing key");
        assert_eq!(misses(1, 2, 2), 1, "HMGET of a missing key");
        assert_eq!(misses(1, 2, 1), 0, "HMGET with a missing field");
        assert_eq!(misses(5, 5, 2), 2, "MGET");
    }
}
