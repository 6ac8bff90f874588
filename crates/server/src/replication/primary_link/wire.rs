//! The connection to the primary: reads that wait as long as the primary shows that it lives, and
//! end when the link is to end.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use commands::admin::Wire;
use commands::{Client, Hold, Peer, Primary};

use crate::host::Server;

/// How long connecting, a handshake of TLS, or one write may take.
const CONNECT: Duration = Duration::from_secs(3);
/// How long one read waits before it is seen whether there is something else to do.
const READ: Duration = Duration::from_millis(100);

/// The pause between two looks while nothing may be read.
const HELD: Duration = Duration::from_millis(10);

/// A handle to the connection: the reader and the writer have one each.
#[derive(Clone)]
pub(super) struct PrimaryWire(Rc<RefCell<Inner>>);

struct Inner {
    server: Arc<Server>,
    wire: Box<dyn Wire>,
    /// What CLIENT LIST shows of it, and CLIENT KILL ends.
    client: Arc<Client>,
    /// The number of the target that is followed.
    target: u64,
    heard: Instant,
    /// Sent when nothing was sent for a second: what shows the primary that this replica lives.
    sign: Option<&'static [u8]>,
    signed: Instant,
}

/// How often the primary is shown that this replica lives, while a dump is loaded.
const SIGN: Duration = Duration::from_secs(1);

impl PrimaryWire {
    /// Connects to a primary.
    pub(super) fn connect(
        server: &Arc<Server>,
        primary: &Primary,
        target: u64,
    ) -> io::Result<PrimaryWire> {
        let values = server.shared.config.values();
        let is_encrypted = values.tls_replication;
        let timeouts = (CONNECT, READ);
        let connected = server.connect(&primary.host, primary.port, is_encrypted, timeouts)?;
        let client = server.shared.engine.enter_primary(Peer {
            id: 0,
            addr: connected.peer.to_string(),
            laddr: connected.local.map_or_else(String::new, |local| local.to_string()),
            fd: -1,
            local: connected.peer.ip().to_canonical().is_loopback(),
            is_tls: is_encrypted,
        });
        // At once, also while this thread waits for data that somebody has locked.
        let (killed, socket) = (Arc::downgrade(&client), connected.socket);
        client.set_waker(Box::new(move || {
            if killed.upgrade().is_some_and(|client| client.killed.load(Relaxed)) {
                let _ = socket.shutdown(Shutdown::Both);
            }
        }));
        let now = Instant::now();
        let inner = Inner {
            server: Arc::clone(server),
            wire: connected.wire,
            client,
            target,
            heard: now,
            sign: None,
            signed: now,
        };
        Ok(PrimaryWire(Rc::new(RefCell::new(inner))))
    }

    /// Sets what is sent every second from now on.
    pub(super) fn set_sign(&self, sign: Option<&'static [u8]>) {
        self.0.borrow_mut().sign = sign;
    }

    /// Fails if the link is to end.
    pub(super) fn check(&self) -> io::Result<()> {
        self.0.borrow_mut().check()
    }

    /// Notes that nothing was read until now: the primary is not to blame for the silence.
    pub(super) fn was_not_read(&self) {
        self.0.borrow_mut().heard = Instant::now();
    }

    /// Reads what is there, for at most a tenth of a second: `WouldBlock` if that is nothing.
    pub(super) fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut inner = self.0.borrow_mut();
        inner.check()?;
        if inner.server.shared.engine.admin().holds_writes_for(Hold::Shutdown) {
            // This server ends, and its own replicas are to have what it has.
            std::thread::sleep(HELD);
            return Err(ErrorKind::WouldBlock.into());
        }
        let error = match inner.wire.read(bytes) {
            Ok(read) => {
                inner.heard = Instant::now();
                let now = inner.server.shared.engine.clock().unix_ms();
                inner.client.seen_ms.store(now, Relaxed);
                inner.server.shared.engine.replication().facts().heard(now);
                return Ok(read);
            }
            Err(error) => error,
        };
        match error.kind() {
            // A process that was stopped, and goes on, is told that its call was interrupted.
            ErrorKind::TimedOut | ErrorKind::Interrupted | ErrorKind::WouldBlock => {
                // After a look: this server may have been busy with something else meanwhile.
                if inner.heard.elapsed() > inner.patience() {
                    let why = "the primary says nothing";
                    return Err(io::Error::new(ErrorKind::TimedOut, why));
                }
                Err(ErrorKind::WouldBlock.into())
            }
            _ => Err(error),
        }
    }
}

impl Inner {
    /// Returns how long the primary may say nothing.
    fn patience(&self) -> Duration {
        let seconds = self.server.shared.config.values().repl_timeout;
        Duration::from_secs(u64::try_from(seconds).unwrap_or(60))
    }

    fn check(&mut self) -> io::Result<()> {
        if !self.server.target.is(self.target) || self.server.shared.shutdown.is_asked() {
            return Err(io::Error::new(ErrorKind::ConnectionAborted, Stopped));
        }
        if self.client.killed.load(Relaxed) {
            return Err(io::Error::new(ErrorKind::ConnectionAborted, "a client has ended it"));
        }
        if let Some(sign) = self.sign
            && self.signed.elapsed() >= SIGN
        {
            self.signed = Instant::now();
            self.wire.write_all(sign)?;
            self.wire.flush()?;
        }
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.server.shared.engine.leave_primary(&self.client);
    }
}

/// The link was ended here: by REPLICAOF, or by the end of the server.
#[derive(Debug, thiserror::Error)]
#[error("the link is to end")]
pub(super) struct Stopped;

/// Returns true if an error says that the link was ended here.
pub(super) fn is_stopped(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Stopped>())
}

impl Read for PrimaryWire {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.try_read(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
    }
}

impl Write for PrimaryWire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().wire.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().wire.flush()
    }
}
