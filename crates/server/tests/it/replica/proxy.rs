//! A proxy between a replica and its primary, which cuts the link at a certain byte.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

/// Passes connections on to a server until it is told to cut.
pub(super) struct Proxy {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// How many bytes from the server still pass; `u64::MAX` for all.
    left: AtomicU64,
    /// Refuses connections.
    is_closed: AtomicBool,
    /// How often the limit was reached.
    cuts: AtomicU64,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Listens, for connections to the server at a port.
    pub(super) fn to(server: u16) -> Proxy {
        Proxy::at(0, server)
    }

    /// Does the same at a port that is free.
    pub(super) fn at(port: u16, server: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(State { left: AtomicU64::new(u64::MAX), ..State::default() });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if !shared.is_closed.load(SeqCst)
                    && let Ok(server) = TcpStream::connect(("127.0.0.1", server))
                {
                    shared.pass(client, server);
                }
            }
        });
        Proxy { port, state }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Cuts after this many more bytes from the server, and refuses connections from then on.
    pub(super) fn cut_after(&self, bytes: u64) {
        self.state.left.store(bytes, SeqCst);
    }

    /// Returns how often a limit was reached.
    pub(super) fn cuts(&self) -> u64 {
        self.state.cuts.load(SeqCst)
    }

    /// Cuts at once.
    pub(super) fn cut(&self) {
        self.state.close();
    }

    /// Lets connections pass again.
    pub(super) fn open(&self) {
        self.state.left.store(u64::MAX, SeqCst);
        self.state.is_closed.store(false, SeqCst);
    }
}

impl State {
    fn close(&self) {
        self.is_closed.store(true, SeqCst);
        for stream in self.open.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn pass(self: &Arc<State>, client: TcpStream, server: TcpStream) {
        let twice = |stream: &TcpStream| stream.try_clone().expect("a second handle");
        self.open.lock().expect("no panic").extend([twice(&client), twice(&server)]);
        let (from, to) = (twice(&client), twice(&server));
        thread::spawn(move || copy(from, to, |_| (usize::MAX, false)));
        let state = Arc::clone(self);
        thread::spawn(move || {
            copy(server, client, |count| {
                let left = state.left.load(SeqCst);
                if left == u64::MAX {
                    return (count, false);
                }
                let passes = left.min(count as u64);
                state.left.store(left - passes, SeqCst);
                (passes as usize, passes == left)
            });
            if state.left.load(SeqCst) == 0 {
                state.close();
                state.cuts.fetch_add(1, SeqCst);
            }
        });
    }
}

/// Copies until either side ends, or `take` says that it is to. `take` is told how many bytes have
/// come, and returns how many of them pass.
fn copy(mut from: TcpStream, mut to: TcpStream, take: impl Fn(usize) -> (usize, bool)) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let (passes, ends) = take(count);
        if to.write_all(&bytes[..passes.min(count)]).is_err() || ends {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
