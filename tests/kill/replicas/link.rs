//! A proxy before each server, through which the others receive its stream: it cuts, stalls and
//! slows the connections down that pass.
//!
//! A fault belongs to one connection, or to all; one that is made later is whole. A cut comes at
//! once or after some more bytes from the server, wherever that is in the stream. A stalled
//! connection takes what the kernel has space for and passes nothing on, in one direction or both.
//! A half-open one is closed for the replica, and the server is not told.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// What is wrong with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is cut at once.
    Cut,
    /// It is cut after this many more bytes from the server.
    CutAfter(u64),
    /// Nothing passes from the server.
    StallStream,
    /// Nothing passes to the server: no acknowledgement.
    StallReplies,
    /// Nothing passes.
    Stall,
    /// The replica's side is closed, and the server's is not.
    HalfOpen,
    /// What comes passes after up to so many microseconds.
    Slow(u64),
}

#[derive(Clone, Copy, Default)]
struct Faults {
    cut_after: Option<u64>,
    stalls_stream: bool,
    stalls_replies: bool,
    slow_us: u64,
    is_half_open: bool,
    is_closed: bool,
}

/// One connection of a replica.
struct Passage {
    replica: TcpStream,
    server: TcpStream,
    faults: Mutex<Faults>,
    changed: Condvar,
}

/// The way to a server.
pub(super) struct Link {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    server: AtomicU16,
    is_over: AtomicBool,
    open: Mutex<Vec<Arc<Passage>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    /// Listens. The way leads nowhere until [`Link::lead_to`].
    pub(super) fn listen() -> Link {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared::default());
        let state = Arc::clone(&shared);
        thread::spawn(move || {
            for replica in listener.incoming().map_while(Result::ok) {
                if state.is_over.load(SeqCst) {
                    return;
                }
                if let Ok(server) = TcpStream::connect(("127.0.0.1", state.server.load(SeqCst))) {
                    state.pass(replica, server);
                }
            }
        });
        Link { port, shared }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Says at which port the server listens.
    pub(super) fn lead_to(&self, server: u16) {
        self.shared.server.store(server, SeqCst);
    }

    /// Returns how many connections pass.
    pub(super) fn count(&self) -> usize {
        lock(&self.shared.open).len()
    }

    /// Makes one connection faulty, the one that came in this place; all without a place.
    pub(super) fn spoil(&self, place: Option<usize>, fault: Fault) {
        let open = lock(&self.shared.open).clone();
        for (at, passage) in open.iter().enumerate() {
            if place.is_none_or(|place| place == at) {
                passage.spoil(fault);
            }
        }
    }

    /// Closes the connections that have a fault, so that whole ones can follow; a slow one is as
    /// fast as any from now on.
    pub(super) fn heal(&self) {
        lock(&self.shared.open).retain(|passage| {
            let mut faults = lock(&passage.faults);
            let is_stalled = faults.stalls_stream || faults.stalls_replies;
            faults.slow_us = 0;
            let is_whole = !is_stalled && !faults.is_half_open && faults.cut_after.is_none();
            drop(faults);
            if !is_whole {
                passage.close();
            }
            is_whole
        });
    }

    /// Lets stalled connections pass again what they have kept.
    pub(super) fn resume(&self) {
        for passage in lock(&self.shared.open).clone() {
            let mut faults = lock(&passage.faults);
            (faults.stalls_stream, faults.stalls_replies) = (false, false);
            passage.changed.notify_all();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.is_over.store(true, SeqCst);
        lock(&self.shared.open).drain(..).for_each(|passage| passage.close());
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    /// Passes on what comes from both sides, in two threads.
    fn pass(self: &Arc<Shared>, replica: TcpStream, server: TcpStream) {
        let (_, _) = (replica.set_nodelay(true), server.set_nodelay(true));
        let passage = Arc::new(Passage {
            replica,
            server,
            faults: Mutex::default(),
            changed: Condvar::new(),
        });
        lock(&self.open).push(Arc::clone(&passage));
        for is_stream in [true, false] {
            let (passage, shared) = (Arc::clone(&passage), Arc::clone(self));
            thread::spawn(move || {
                passage.copy(is_stream);
                if lock(&passage.faults).is_half_open {
                    return;
                }
                passage.close();
                lock(&shared.open).retain(|other| !Arc::ptr_eq(other, &passage));
            });
        }
    }
}

impl Passage {
    fn close(&self) {
        lock(&self.faults).is_closed = true;
        self.changed.notify_all();
        for stream in [&self.replica, &self.server] {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn spoil(&self, fault: Fault) {
        let mut faults = lock(&self.faults);
        match fault {
            Fault::CutAfter(bytes) => faults.cut_after = Some(bytes),
            Fault::StallStream => faults.stalls_stream = true,
            Fault::StallReplies => faults.stalls_replies = true,
            Fault::Stall => (faults.stalls_stream, faults.stalls_replies) = (true, true),
            Fault::Slow(us) => faults.slow_us = us,
            Fault::HalfOpen => {
                faults.is_half_open = true;
                let _ = self.replica.shutdown(Shutdown::Both);
            }
            Fault::Cut => {
                drop(faults);
                self.close();
            }
        }
    }

    /// Copies in one direction until either side ends.
    fn copy(&self, is_stream: bool) {
        let (mut from, mut to) = match is_stream {
            true => (&self.server, &self.replica),
            false => (&self.replica, &self.server),
        };
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let Some(passes) = self.admit(is_stream, count) else { return };
            if to.write_all(&bytes[..passes]).is_err() || passes < count {
                return;
            }
        }
    }

    /// Waits until bytes may pass. Returns how many of them do before the connection is cut; none
    /// if it is closed.
    fn admit(&self, is_stream: bool, count: usize) -> Option<usize> {
        let mut faults = lock(&self.faults);
        if faults.slow_us > 0 {
            let wait = Duration::from_micros(fastrand::u64(..faults.slow_us));
            drop(faults);
            thread::sleep(wait);
            faults = lock(&self.faults);
        }
        let stalls = |faults: &mut Faults| {
            let stalls = if is_stream { faults.stalls_stream } else { faults.stalls_replies };
            stalls && !faults.is_closed
        };
        faults = self.changed.wait_while(faults, stalls).unwrap_or_else(PoisonError::into_inner);
        if faults.is_closed || faults.is_half_open {
            return None;
        }
        let Some(left) = faults.cut_after.filter(|_| is_stream) else { return Some(count) };
        let passes = left.min(count as u64);
        faults.cut_after = Some(left - passes);
        // A cut that would come after the last byte comes before the next one.
        Some(if passes < count as u64 { passes as usize } else { count })
    }
}
