//! A server without its listening sockets and threads: two workers in one runtime, whose commit
//! barriers are served only while a gate is open.
//!
//! Everything between the bytes that a client sends and those that it receives is the server's own:
//! connections, batches, engine, store, log or journal. The test drives the runtime, so nothing
//! happens while it inspects. While the gate is shut, the log is neither written nor synced, as in
//! a sync that takes as long as the test likes.

use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Poll, Waker};

use commands::{Clock, Peer, ReplyLog, SystemClock};
use pmem::{Call, Calls};
use rustix::io::Errno;
use tokio::runtime::{Builder, Runtime};

use super::medium::Medium;
use crate::config::{Config, Values};
use crate::dump::save::Saver;
use crate::durability::append_only::{self, AppendOnly};
use crate::host::Server;
use crate::net::connection::Connection;
use crate::net::socket::Stream;
use crate::pool::store;
use crate::process::supervisor::Supervisor;
use crate::serve::build_shared_state;
use crate::shared::{Parts, Shared};
use crate::threads::jobs;
use crate::threads::worker::{Worker, flush, give_space};

/// Turns of the runtime after which everything that can happen has happened: some four are needed
/// to read, execute, wake another client and write.
const TURNS: usize = 10;
/// Turns within which a reply must come that nothing holds back.
const MOST_TURNS: usize = 20_000;
/// The file of the log that is appended to.
const LOG: &str = "appendonly.aof.1.incr.aof";

/// The store of the data, and the log that replies wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Log,
    Journal,
    /// None: replies wait for nothing.
    Memory,
}

/// Decides when the workers' barriers are served.
#[derive(Default)]
struct Gate {
    is_open: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Gate {
    fn set(&self, open: bool) {
        self.is_open.store(open, Ordering::SeqCst);
        if open {
            self.wakers.lock().expect("no panic").drain(..).for_each(Waker::wake);
        }
    }

    /// Runs a task while the gate is open.
    async fn run(self: Arc<Gate>, task: impl Future<Output = ()>) {
        let mut task = pin!(task);
        poll_fn(|cx| {
            if self.is_open.load(Ordering::SeqCst) {
                return task.as_mut().poll(cx);
            }
            self.wakers.lock().expect("no panic").push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// The system calls of a journal, made by the thread of the test.
#[derive(Default)]
pub(super) struct Watched {
    /// The kind of call that fails from now on, if any.
    failing: Mutex<Option<Call>>,
}

impl Watched {
    pub(super) fn fail(&self, call: Call) {
        *self.failing.lock().expect("no panic") = Some(call);
    }
}

impl Calls for Watched {
    fn before(&self, call: Call) -> Result<(), Errno> {
        let fails = *self.failing.lock().expect("no panic") == Some(call);
        if fails { Err(Errno::IO) } else { Ok(()) }
    }

    fn stored(&self, _: u64, _: u64) {}

    fn synced(&self, _: u64, _: u64, _: bool) {}
}

/// A server whose log or journal the test holds back.
pub(crate) struct Stage {
    pub(super) backend: Backend,
    pub(super) policy: &'static str,
    pub(crate) shared: Arc<Shared>,
    /// The files of the log.
    pub(super) medium: Medium,
    pub(super) calls: Arc<Watched>,
    pub(crate) workers: [Arc<Worker>; 2],
    gate: Arc<Gate>,
    /// Bytes that had been written to the journal when the gate was shut.
    at_shut: AtomicU64,
    pub(crate) runtime: Runtime,
    pub(crate) server: Arc<Server>,
    _folder: tempfile::TempDir,
}

fn values(
    folder: &str,
    backend: Backend,
    policy: &str,
    more: &[(&'static str, &'static str)],
) -> Values {
    let mut values = Values::default();
    let pool = format!("{folder}/pool");
    let (backend, pool) = match backend {
        Backend::Log => ("aof", pool.as_str()),
        Backend::Journal => ("journal", pool.as_str()),
        Backend::Memory => ("aof", ""),
    };
    let usual = [
        ("dir", folder),
        ("pool", pool),
        ("backend", backend),
        ("appendfsync", policy),
        ("pool-size", "64mb"),
        ("journal-size", "16mb"),
        ("threads", "2"),
        ("save", ""),
        ("enable-debug-command", "yes"),
        ("enable-protected-configs", "yes"),
        ("slowlog-log-slower-than", "-1"),
    ];
    for (name, value) in usual.iter().chain(more) {
        values.set(name.as_bytes(), &[value.as_bytes()]).expect("a directive");
    }
    values
}

/// Makes the empty file of a journal that has its whole length from the beginning: while one
/// grows, a write may have to wait for it.
fn have_whole_journal(folder: &Path) {
    let file = File::create(folder.join("pool.journal")).expect("a file");
    file.set_len(8192 + (16 << 20)).expect("its length");
}

impl Stage {
    /// Starts a server with an open gate.
    pub(super) fn new(backend: Backend, policy: &'static str) -> Stage {
        Stage::with(backend, policy, &[])
    }

    /// Starts a server with some more directives.
    pub(super) fn with(
        backend: Backend,
        policy: &'static str,
        more: &[(&'static str, &'static str)],
    ) -> Stage {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_io().enable_time();
        Stage::of(backend, policy, more, Arc::new(SystemClock), runtime)
    }

    /// Starts a server with a clock and a runtime.
    pub(crate) fn by(
        backend: Backend,
        policy: &'static str,
        clock: Arc<dyn Clock>,
        runtime: &mut Builder,
    ) -> Stage {
        Stage::of(backend, policy, &[], clock, runtime)
    }

    fn of(
        backend: Backend,
        policy: &'static str,
        more: &[(&'static str, &'static str)],
        clock: Arc<dyn Clock>,
        runtime: &mut Builder,
    ) -> Stage {
        let folder = testkit::Medium::Disk.scratch();
        let calls = Arc::new(Watched::default());
        pmem::watch_calls(Some(Arc::clone(&calls) as Arc<dyn Calls>));
        if backend == Backend::Journal && more.is_empty() {
            have_whole_journal(folder.path());
        }
        let values = values(&folder.path().display().to_string(), backend, policy, more);
        let store = store::open(&values, clock.unix_ms()).expect("a new store");
        let config = Config::new(values.clone(), None);
        let supervisor = Supervisor::of(&values, clock.monotonic());
        let table =
            commands::renamed_table(&[]).unwrap_or_else(|_| unreachable!("nothing is renamed"));
        let tls = Default::default();
        let shared = build_shared_state(Parts { store, table, config, tls, supervisor, clock });
        let shared = shared.expect("a server");
        if let Some(journal) = &shared.journal {
            shared.engine.set_journal(Arc::clone(journal) as Arc<dyn ReplyLog>);
        }
        let (saver, append_only) = (Saver::new(Arc::clone(&shared)), OnceLock::new());
        let server = Arc::new(Server {
            saver,
            shared: Arc::clone(&shared),
            append_only,
            target: Default::default(),
        });
        shared.engine.set_host(Arc::clone(&server) as Arc<dyn commands::admin::Host>);
        jobs::start(&shared);
        let medium = Medium::default();
        if backend == Backend::Log {
            attach_log(&shared, &server, medium.options(append_only::fsync(&values)));
        }
        let stage = Stage {
            backend,
            policy,
            medium,
            calls,
            workers: [0, 1].map(|number| Worker::new(number, &shared)),
            shared,
            gate: Arc::default(),
            at_shut: AtomicU64::new(0),
            runtime: runtime.build().expect("a runtime"),
            server,
            _folder: folder,
        };
        for worker in &stage.workers {
            let task = Arc::clone(&stage.gate).run(flush(Arc::clone(worker)));
            stage.runtime.spawn(task);
            stage.runtime.spawn(give_space(Arc::clone(worker)));
        }
        stage.gate.set(true);
        stage
    }

    /// Connects a client, which one of the workers serves.
    pub(crate) fn visit(&self, worker: usize) -> Visitor {
        let (socket, served) = UnixStream::pair().expect("two sockets");
        self.visit_by(socket, served, worker)
    }

    /// Connects a client by a pair of sockets, the second of which is the server's.
    pub(crate) fn visit_by(
        &self,
        socket: UnixStream,
        served: UnixStream,
        worker: usize,
    ) -> Visitor {
        [&socket, &served].iter().for_each(|socket| socket.set_nonblocking(true).expect("a flag"));
        let worker = Arc::clone(&self.workers[worker]);
        let _inside = self.runtime.enter();
        let stream = tokio::net::UnixStream::from_std(served).expect("a socket");
        let peer = Peer { local: true, ..Peer::default() };
        self.runtime.spawn(Connection::new(Stream::Unix(stream), peer, worker).serve());
        Visitor { socket, received: Vec::new(), has_ended: false }
    }

    fn turn(&self, times: usize) {
        self.runtime.block_on(async {
            for _ in 0..times {
                tokio::task::yield_now().await;
            }
        });
    }

    /// Lets everything happen that can happen without the log.
    pub(crate) fn run_idle(&self) {
        self.turn(TURNS);
    }

    /// Holds back all writes and syncs from now on.
    pub(super) fn shut(&self) {
        // Nobody should have to wait for what is there already.
        let end = self.end();
        for worker in &self.workers {
            let _ = self.runtime.block_on(worker.commit_barrier.pass(end));
        }
        self.gate.set(false);
        self.at_shut.store(self.written_to_journal(), Ordering::SeqCst);
    }

    pub(super) fn open(&self) {
        self.gate.set(true);
        self.run_idle();
    }

    /// Shuts the gate from another thread, in the middle of a sync.
    pub(super) fn shutter(&self) -> impl Fn() + Send + 'static {
        let gate = Arc::clone(&self.gate);
        move || gate.set(false)
    }

    /// Sends requests, with the gate as it is.
    pub(crate) fn send(&self, visitor: &mut Visitor, bytes: &[u8]) {
        let mut rest = bytes;
        for _ in 0..MOST_TURNS {
            match visitor.socket.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => self.turn(1),
                // The server has closed it.
                Err(_) => return,
            }
            if rest.is_empty() {
                return self.run_idle();
            }
        }
        panic!("a request is not read");
    }

    /// Sends a short request without giving the server a turn.
    pub(super) fn write_only(&self, visitor: &mut Visitor, bytes: &[u8]) {
        let written = visitor.socket.write(bytes).expect("space for a short request");
        assert_eq!(written, bytes.len());
    }

    /// Returns all that a client has received since it connected, once it has `count` replies that
    /// are not pushes, or knows that the connection ends.
    pub(crate) fn replies(&self, visitor: &mut Visitor, count: usize) -> Vec<u8> {
        for turn in 0..MOST_TURNS {
            visitor.receive();
            if visitor.has_ended || super::wire::count(&visitor.received) >= count {
                return visitor.received.clone();
            }
            self.turn(1);
            if turn > MOST_TURNS / 2 {
                // Execution by another thread takes some time.
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
        let got = visitor.received.escape_ascii();
        panic!(
            "a reply does not come although nothing holds it back: {count} replies, of which there \
             is {got}"
        );
    }

    /// Returns what a client has received once its worker waits for the log, or it has a reply.
    pub(super) fn wait_for_barrier(&self, visitor: &mut Visitor, worker: usize) -> Vec<u8> {
        for _ in 0..MOST_TURNS {
            if self.workers[worker].commit_barrier.is_waited_for() || !visitor.received().is_empty()
            {
                self.run_idle();
                return visitor.received().to_vec();
            }
            self.turn(1);
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
        panic!("a request is not executed");
    }

    /// Returns the end of the log, or of the journal.
    pub(super) fn end(&self) -> u64 {
        match (&self.shared.journal, self.shared.log.get()) {
            (Some(journal), _) => journal.end(),
            (None, Some(log)) => log.end(),
            (None, None) => 0,
        }
    }

    fn written_to_journal(&self) -> u64 {
        let region = self.shared.engine.keyspace().heap().region();
        region.journal_counts().unwrap_or_default().bytes_written
    }

    /// Returns true if all that was appended is as safe as the policy promises, judged by the
    /// contents of the files.
    pub(super) fn is_safe(&self) -> bool {
        if self.shared.journal.is_none() {
            let log = self.shared.log.get().expect("a log");
            let written = self.medium.file(LOG);
            let synced = self.policy != "always" || self.medium.durable_file(LOG) == written;
            return synced && written.len() as u64 == log.end();
        }
        let region = self.shared.engine.keyspace().heap().region();
        // The synced position is read first: it never passes the appended one.
        let (synced, end) = (region.synced(), region.appended());
        // A thread of the journal may have written it.
        let is_written = self.written_to_journal() > self.at_shut.load(Ordering::SeqCst);
        synced == end || self.policy != "always" && is_written
    }
}

fn attach_log(shared: &Arc<Shared>, server: &Server, options: aof::Options) {
    let log = append_only::load(options.clone(), &shared.engine, &|_| {}).expect("an empty log");
    let (log, engine) = (Arc::new(log), Arc::clone(&shared.engine));
    let of_values = Arc::clone(shared);
    let append_only = AppendOnly::new(log, engine, options, move || of_values.config.values());
    shared.attach_log(append_only.log());
    let _ = server.append_only.set(append_only);
}

/// A client, from its own side.
pub(crate) struct Visitor {
    socket: UnixStream,
    received: Vec<u8>,
    pub(crate) has_ended: bool,
}

impl Visitor {
    fn receive(&mut self) {
        let mut buffer = [0; 64 << 10];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return self.has_ended = true,
                Ok(read) => self.received.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => return self.has_ended = true,
            }
        }
    }

    /// Returns what it has received since it connected, or since that was last dropped.
    pub(crate) fn received(&mut self) -> &[u8] {
        self.receive();
        &self.received
    }

    /// Receives this many bytes of what was sent.
    pub(crate) fn receive_some(&mut self, bytes: usize) {
        let mut buffer = vec![0; bytes];
        let _ = self.socket.read(&mut buffer);
    }

    pub(crate) fn forget(&mut self) {
        self.receive();
        self.received.clear();
    }
}
