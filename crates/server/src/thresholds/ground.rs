//! A server with a clock that the test moves, and clients of it.

use std::cell::RefCell;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use commands::{Client, Clock};
use socket2::SockRef;
use tokio::runtime::Builder;

use crate::serve::tick;
use crate::threads::housekeeping::Rounds;
use crate::threads::periodic;
use crate::waits::stage::{Backend, Stage, Visitor};
use crate::waits::wire;

/// A clock that a test moves. It begins at a full minute.
struct Moved(AtomicU64);

/// Bytes that a socket takes for a client that does not read.
const SENT_AHEAD: usize = 16 << 10;

const BEGIN_NS: u64 = 1_699_999_980 * 1_000_000_000;

impl Clock for Moved {
    fn unix_ns(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// The test's thread sleeps by moving the clock.
    fn sleep(&self, time: Duration) {
        self.0.fetch_add(time.as_nanos() as u64, Relaxed);
    }
}

pub(super) struct Ground {
    pub(super) stage: Stage,
    clock: Arc<Moved>,
    rounds: RefCell<Rounds>,
    /// When the last pass of the scrub began.
    scrubbed: RefCell<Option<Duration>>,
}

impl Ground {
    pub(super) fn in_memory() -> Ground {
        Ground::new(Backend::Memory)
    }

    pub(super) fn with_log() -> Ground {
        Ground::new(Backend::Log)
    }

    pub(super) fn with_journal() -> Ground {
        Ground::new(Backend::Journal)
    }

    fn new(backend: Backend) -> Ground {
        let clock = Arc::new(Moved(AtomicU64::new(BEGIN_NS)));
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_io().enable_time().start_paused(true);
        let stage = Stage::by(backend, "everysec", Arc::clone(&clock) as Arc<dyn Clock>, runtime);
        for worker in &stage.workers {
            stage.runtime.spawn(periodic::run(Arc::clone(worker)));
        }
        let rounds = RefCell::new(Rounds::new(clock.monotonic()));
        Ground { stage, clock, rounds, scrubbed: RefCell::new(None) }
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.clock.unix_ms()
    }

    /// Moves the time; nothing happens except what waits for it.
    pub(super) fn pass(&self, ms: u64) {
        let time = Duration::from_millis(ms);
        self.clock.sleep(time);
        self.stage.runtime.block_on(tokio::time::advance(time));
        self.stage.run_idle();
    }

    /// Runs a round of the housekeeping thread.
    pub(super) fn keep_house(&self) {
        let (shared, server) = (&self.stage.shared, &self.stage.server);
        self.rounds.borrow_mut().next(shared, || tick(shared, server));
        self.stage.run_idle();
    }

    /// Moves the time, and then runs a round of the housekeeping.
    pub(super) fn advance(&self, ms: u64) {
        self.pass(ms);
        self.keep_house();
    }

    /// Moves the time to a multiple of this many milliseconds.
    pub(super) fn align(&self, ms: u64) {
        self.advance(ms - self.now_ms() % ms);
    }

    pub(super) fn scrub(&self) {
        crate::pool::scrub::round(&self.stage.shared, &mut self.scrubbed.borrow_mut());
    }

    /// Connects a client.
    pub(super) fn client(&self) -> Guest<'_> {
        // A small buffer, so that little fills it.
        let (socket, served) = UnixStream::pair().expect("two sockets");
        SockRef::from(&served).set_send_buffer_size(SENT_AHEAD).expect("a smaller buffer");
        let visitor = RefCell::new(self.stage.visit_by(socket, served, 0));
        let mut guest = Guest { ground: self, visitor, id: 0 };
        guest.id = number(&guest.ask("CLIENT ID"));
        guest
    }

    /// Executes a request as a new client. Returns the reply.
    pub(super) fn ask(&self, line: &str) -> String {
        self.client().ask(line)
    }

    pub(super) fn set(&self, directive: &str, value: impl std::fmt::Display) {
        let value = value.to_string();
        let words = ["CONFIG", "SET", directive, &value];
        let reply = self.client().ask_words(&words);
        assert_eq!(reply, "+OK\r\n", "CONFIG SET {directive} {value}");
    }
}

/// Returns the number in an integer reply.
pub(super) fn number(reply: &str) -> u64 {
    let digits = reply.trim_end().trim_start_matches(':');
    digits.parse().unwrap_or_else(|_| panic!("{reply} is no number"))
}

/// A client.
pub(super) struct Guest<'g> {
    ground: &'g Ground,
    visitor: RefCell<Visitor>,
    id: u64,
}

impl Guest<'_> {
    /// Sends a request of words without blanks. Returns the reply.
    pub(super) fn ask(&self, line: &str) -> String {
        self.ask_words(&line.split(' ').collect::<Vec<_>>())
    }

    pub(super) fn ask_words<A: AsRef<[u8]>>(&self, words: &[A]) -> String {
        let visitor = &mut *self.visitor.borrow_mut();
        visitor.forget();
        self.ground.stage.send(visitor, &wire::request(words));
        String::from_utf8_lossy(&self.ground.stage.replies(visitor, 1)).into_owned()
    }

    /// Sends bytes without waiting for replies.
    pub(super) fn send(&self, bytes: &[u8]) {
        self.ground.stage.send(&mut self.visitor.borrow_mut(), bytes);
    }

    /// Sends a request without waiting for its reply.
    pub(super) fn say(&self, line: &str) {
        self.visitor.borrow_mut().forget();
        self.send(&wire::request(&line.split(' ').collect::<Vec<_>>()));
    }

    /// Returns what has arrived since its last request.
    pub(super) fn received(&self) -> String {
        String::from_utf8_lossy(self.visitor.borrow_mut().received()).into_owned()
    }

    /// Returns true if the server has closed the connection. What it sent before is not read.
    pub(super) fn is_closed(&self) -> bool {
        let all = self.ground.stage.shared.engine.clients().list();
        all.iter().all(|client| client.id != self.id)
    }

    /// Reads some of what was sent, or all if it is less.
    pub(super) fn read(&self, bytes: usize) {
        self.visitor.borrow_mut().receive_some(bytes);
        self.ground.stage.run_idle();
    }

    /// Reads until nothing waits to be sent.
    pub(super) fn read_all(&self) {
        for _ in 0..1000 {
            self.visitor.borrow_mut().forget();
            self.ground.stage.run_idle();
            if self.waiting() == 0 {
                return;
            }
        }
        panic!("what waits for a client does not leave");
    }

    /// Returns the server's view of it.
    pub(super) fn face(&self) -> Arc<Client> {
        let all = self.ground.stage.shared.engine.clients().list();
        all.into_iter().find(|client| client.id == self.id).expect("it is connected")
    }

    /// Returns how many bytes wait to be sent to it.
    pub(super) fn waiting(&self) -> u64 {
        self.face().output.load(Relaxed) as u64
    }

    /// Requests a reply of this many bytes: 108 to 1007.
    pub(super) fn take(&self, bytes: u64) {
        let text = "x".repeat(bytes as usize - 8);
        assert!((100..1000).contains(&text.len()), "{bytes}");
        self.send(&wire::request(&["ECHO", &text]));
    }

    /// Sends requests until the socket is full and output waits. It does not read from then on.
    pub(super) fn fill(&self) {
        for _ in 0..1000 {
            self.take(200);
            if self.waiting() > 0 {
                break;
            }
        }
        assert!(self.waiting() > 0, "a socket takes everything");
    }
}
