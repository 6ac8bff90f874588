//! The threads that serve connections.
//!
//! Each worker is an OS thread with a tokio runtime of one thread, so that a connection's state
//! never moves between cores. Connections and periodic work are tasks of that runtime. They are
//! spawned on it directly and not on a `LocalSet`: their state may be sent between threads anyway,
//! and a `LocalSet` would be a second queue with a budget of its own around the first.
//!
//! A worker ends when it is told to stop; its connections are dropped at a point where they wait,
//! never in the middle of a command.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use commands::Peer;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use crate::net::connection::Connection;
use crate::net::socket::{HandOff, Registered, Stream, UnregisteredSocket};
use crate::net::tls::Acceptor;
use crate::shared::Shared;
use crate::threads::periodic;
use crate::threads::worker::{Worker, flush, give_space};

/// Connections that a worker accepts at once.
const MOST_AT_ONCE: usize = 64;

/// The threads.
pub(crate) struct Workers {
    threads: Vec<JoinHandle<()>>,
    senders: Vec<UnboundedSender<HandOff>>,
    stop: watch::Sender<bool>,
}

impl Workers {
    /// Starts one thread per meter.
    pub(crate) fn start(shared: &Arc<Shared>) -> std::io::Result<Workers> {
        let (stop, stopped) = watch::channel(false);
        let mut workers = Workers { threads: Vec::new(), senders: Vec::new(), stop };
        for number in 0..shared.meters.len() {
            let (sender, arrivals) = unbounded_channel();
            let worker = Worker::new(number, shared);
            let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
            let stopped = stopped.clone();
            let thread = std::thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(move || runtime.block_on(work(worker, arrivals, stopped)))?;
            workers.threads.push(thread);
            workers.senders.push(sender);
        }
        Ok(workers)
    }

    /// Returns the channels that hand connections over, by worker.
    pub(crate) fn senders(&self) -> Vec<UnboundedSender<HandOff>> {
        self.senders.clone()
    }

    /// Stops all and waits for them.
    pub(crate) fn stop(self) {
        let _ = self.stop.send(true);
        for thread in self.threads {
            let name = thread.thread().name().unwrap_or("worker").to_owned();
            if thread.join().is_err() {
                tracing::warn!("{name} ended by a panic");
            }
        }
    }
}

async fn work(
    worker: Arc<Worker>,
    mut arrivals: UnboundedReceiver<HandOff>,
    mut stopped: watch::Receiver<bool>,
) {
    tokio::spawn(flush(Arc::clone(&worker)));
    tokio::spawn(give_space(Arc::clone(&worker)));
    tokio::spawn(periodic::run(Arc::clone(&worker)));
    tokio::spawn(periodic::serve_locked(Arc::clone(&worker)));
    let arrive = async {
        let mut new = Vec::new();
        while arrivals.recv_many(&mut new, MOST_AT_ONCE).await > 0 {
            let accepted =
                new.drain(..).filter_map(|(raw, peer)| accept_hand_off(&worker, raw, peer));
            let accepted: Vec<Connection> = accepted.collect();
            // The runtime polls the sockets meanwhile. So a connection's first look at its socket
            // finds what was sent already, and clients that have sent something are served in the
            // order in which they came.
            tokio::task::yield_now().await;
            accepted.into_iter().for_each(|connection| drop(tokio::spawn(connection.serve())));
        }
    };
    tokio::select! {
        () = arrive => {}
        _ = stopped.wait_for(|stop| *stop) => {}
    }
}

/// Returns the connection if it can be served at once; one with TLS is served after its handshake.
fn accept_hand_off(
    worker: &Arc<Worker>,
    raw: UnregisteredSocket,
    peer: Peer,
) -> Option<Connection> {
    match raw.register() {
        Ok(Registered::Ready(stream)) => Some(Connection::new(stream, peer, Arc::clone(worker))),
        Ok(Registered::Handshake(socket, acceptor)) => {
            tokio::spawn(serve_encrypted(Arc::clone(worker), socket, acceptor, peer));
            None
        }
        Err(error) => {
            worker.meter().serving.fetch_sub(1, Relaxed);
            tracing::debug!("Cannot serve a client: {error}");
            None
        }
    }
}

async fn serve_encrypted(worker: Arc<Worker>, socket: TcpStream, acceptor: Acceptor, peer: Peer) {
    match acceptor.accept(socket).await {
        Ok((stream, user)) => {
            let mut connection = Connection::new(Stream::Tls(Box::new(stream)), peer, worker);
            if let Some(user) = user {
                connection.authenticate_by_certificate(&user);
            }
            connection.serve().await;
        }
        Err(error) => {
            worker.meter().serving.fetch_sub(1, Relaxed);
            tracing::debug!(
                "Error accepting a client connection: {error} (addr={} laddr={})",
                peer.addr,
                peer.laddr
            );
        }
    }
}
