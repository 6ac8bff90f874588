//! One thread and its connections: it opens them, waits for the signal to start, and ends them.

use super::Error;
use super::client::{Client, READ, Record, Shared, State};
use super::clock::Spent;
use super::options::Options;
use super::outcome::Class;
use super::pace::{Schedule, Timer};
use super::target::Target;
use super::workload::Workload;
use crate::histogram::Histogram;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, LocalSet};

/// How often a thread checks whether the run is over.
const TICK: Duration = Duration::from_millis(10);

/// How long to wait for outstanding replies when the time is over.
const GRACE: Duration = Duration::from_secs(5);

/// The state that all threads of a run share.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) options: &'a Options,
    pub(crate) target: &'a Target,
    pub(crate) workload: &'a Workload,
    /// Set by the caller to end the run soon.
    pub(crate) cancel: &'a AtomicBool,
    /// How long to wait for outstanding replies after that.
    pub(crate) grace: Duration,
    /// Set by a thread that failed, to end the others too.
    pub(crate) failed: AtomicBool,
}

/// The measurements of one thread.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) classes: Vec<Class>,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) unanswered: Histogram,
    pub(crate) unsent: u64,
    /// When the thread began to send requests.
    pub(crate) began: Instant,
    /// When the last reply arrived, or the end of the requested time if that is later.
    pub(crate) ended: Instant,
    pub(crate) cpu: Duration,
    pub(crate) busy: f64,
    pub(crate) failure: Option<Error>,
}

impl Run<'_> {
    fn is_over(&self) -> bool {
        self.cancel.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }

    /// Runs thread number `thread`: reports on `ready` whether all connections are open, and starts
    /// at the time received from `start`. Returns `None` if it does not start.
    pub(crate) fn work(
        &self,
        thread: usize,
        ready: &mpsc::UnboundedSender<Result<(), Error>>,
        start: oneshot::Receiver<Instant>,
    ) -> Option<Part> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(e) => {
                let _ = ready.send(Err(Error::Failed(format!("a thread cannot begin: {e}"))));
                return None;
            }
        };
        LocalSet::new().block_on(&runtime, async {
            let streams = match self.connect().await {
                Ok(streams) => streams,
                Err(error) => {
                    let _ = ready.send(Err(error));
                    return None;
                }
            };
            let _ = ready.send(Ok(()));
            let began = start.await.ok()?;
            Some(self.measure(thread, streams, began).await)
        })
    }

    async fn connect(&self) -> Result<Vec<TcpStream>, Error> {
        let mut streams = Vec::new();
        for _ in 0..self.options.clients {
            if self.is_over() {
                return Err(Error::Cancelled);
            }
            streams.push(self.target.connect().await?);
        }
        Ok(streams)
    }

    async fn measure(&self, thread: usize, streams: Vec<TcpStream>, began: Instant) -> Part {
        let deadline = self.options.test_time.map(|time| began + Duration::from_secs_f64(time));
        let classes = self.workload.classes.iter();
        let record = Record {
            classes: classes.map(|class| Class::new(&class.name, class.kind)).collect(),
            errors: BTreeMap::new(),
            pending: vec![VecDeque::new(); streams.len()],
            unsent: 0,
            last: began,
        };
        let shared = Rc::new(Shared {
            target: self.target.clone(),
            record: RefCell::new(record),
            buffer: RefCell::new(vec![0; READ]),
            pipeline: self.options.pipeline,
            deadline,
            stop: Cell::new(false),
        });
        let clients = self.clients(thread, streams, &shared, began);
        // The whole thread sleeps, so that none of its connections starts before those of other
        // threads. A timer of the runtime could be a millisecond late, which matters in a short
        // run.
        std::thread::sleep(began.saturating_duration_since(Instant::now()));
        let spent = Spent::now();
        let first = Instant::now();
        let failure = match clients {
            Ok(clients) => self.drive(clients, &shared).await,
            Err(error) => Some(error),
        };
        let ended = Instant::now();
        let spent = Spent::now().since(spent);
        let record = &mut *shared.record.borrow_mut();
        let last = deadline.filter(|deadline| *deadline <= ended);
        let mut unanswered = Histogram::default();
        for pending in record.pending.iter().flatten() {
            unanswered.record(ended.saturating_duration_since(pending.since));
        }
        Part {
            classes: std::mem::take(&mut record.classes),
            errors: std::mem::take(&mut record.errors),
            unanswered,
            unsent: record.unsent,
            began: first,
            ended: last.map_or(record.last, |deadline| deadline.max(record.last)),
            cpu: spent.cpu,
            busy: spent.busy(ended.duration_since(first)),
            failure,
        }
    }

    /// Spawns a task for each connection. The tasks start when the thread next awaits.
    fn clients(
        &self,
        thread: usize,
        streams: Vec<TcpStream>,
        shared: &Rc<Shared>,
        began: Instant,
    ) -> Result<JoinSet<Result<(), Error>>, Error> {
        let mut clients = JoinSet::new();
        for (number, stream) in streams.into_iter().enumerate() {
            let connection = (thread * self.options.clients + number) as u64;
            let schedule = self.schedule(connection, began);
            let client = Client {
                shared: Rc::clone(shared),
                stream,
                source: self.workload.source(connection),
                schedule: schedule
                    .map_err(|e| Error::Failed(format!("a timer cannot be made: {e}")))?,
                number,
                left: self.workload.requests_of(connection),
                state: State::default(),
            };
            clients.spawn_local(client.run());
        }
        Ok(clients)
    }

    /// Runs the connections until they are done or the run is over. Returns the first failure.
    async fn drive(
        &self,
        mut clients: JoinSet<Result<(), Error>>,
        shared: &Shared,
    ) -> Option<Error> {
        let mut failure = None;
        let mut end = None;
        loop {
            let now = Instant::now();
            if end.is_none() && (self.is_over() || shared.deadline.is_some_and(|at| now >= at)) {
                shared.stop.set(true);
                end = Some(now + if self.is_over() { self.grace } else { GRACE });
            }
            if end.is_some_and(|end| !shared.is_pending() || now >= end) {
                return failure;
            }
            let failed = match tokio::time::timeout(TICK, clients.join_next()).await {
                Err(_) | Ok(Some(Ok(Ok(())))) => continue,
                Ok(None) => return failure,
                Ok(Some(Ok(Err(error)))) => error,
                // The client panicked; its message is on standard error.
                Ok(Some(Err(error))) => Error::Failed(error.to_string()),
            };
            self.failed.store(true, Ordering::Relaxed);
            failure.get_or_insert(failed);
        }
    }

    /// Returns the schedule of a connection, if the rate is limited. The connections start at
    /// different moments within the interval between two requests, so that they do not all send at
    /// once.
    fn schedule(
        &self,
        connection: u64,
        began: Instant,
    ) -> std::io::Result<Option<(Schedule, Timer)>> {
        let Some(rate) = self.options.rate_limiting else { return Ok(None) };
        let all = self.options.connections() as f64;
        let shift = Duration::from_secs_f64(connection as f64 / all / rate as f64);
        Ok(Some((Schedule::new(began + shift, rate), Timer::new()?)))
    }
}
