//! The endpoint for monitoring (`metrics-port`): metrics for Prometheus, and probes.
//!
//! [`commands::admin::metrics`] writes `/metrics`; [`health`] answers `/healthz` and `/readyz`. The
//! endpoint has a thread and a runtime of its own, so that it costs the threads that accept and
//! serve clients nothing but processor time. Metrics are written on a further thread, so that
//! probes do not wait for them. The endpoint exists from before data is loaded until the store is
//! closed.
//!
//! Clients are limited in number, input and time ([`http`]). If there are too many, the oldest one
//! that waits is closed, so that silent clients block no probe. Two may get metrics at once, and
//! none waits for long: writing them queries the log, whose disk may hang, and probes are not to
//! fail for that. There is no password: `metrics-bind` is the loopback address unless changed, and
//! no data can be read here.

pub(crate) mod health;
pub(crate) mod http;

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot, watch};

use crate::config::Values;
use crate::net::listen::{self, ListenError};
use crate::shared::Shared;
use http::Answer;

/// Maximum number of connected clients; for one more, the oldest is closed with 503.
const CLIENTS: usize = 16;
/// Maximum number of clients that get metrics at once; one more is answered with 503.
const SCRAPES: usize = 2;
/// How long metrics may take: as long as Prometheus waits by default.
const WRITTEN_WITHIN: Duration = Duration::from_secs(10);
/// How long the shutdown waits for metrics that are being written.
const PATIENCE: Duration = Duration::from_secs(2);

/// The running endpoint.
pub(crate) struct Endpoint {
    thread: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl Endpoint {
    /// Stops it.
    pub(crate) fn stop(self) {
        let _ = self.stop.send(true);
        if self.thread.join().is_err() {
            tracing::warn!("The endpoint for metrics ended by a panic");
        }
    }
}

/// The sockets that the endpoint is to listen on.
pub(crate) struct Sockets {
    sockets: Vec<std::net::TcpListener>,
    bind: String,
    port: u16,
}

/// Opens the endpoint's sockets, if the configuration has a port for it.
pub(crate) fn open(values: &Values) -> Result<Option<Sockets>, ListenError> {
    let port = values.metrics_port;
    if port == 0 {
        return Ok(None);
    }
    let bind = values.metrics_bind.to_text();
    let sockets = listen::open(&bind, port, 64)?;
    match sockets.is_empty() {
        true => Err(ListenError::NoMetrics { bind, port }),
        false => Ok(Some(Sockets { sockets, bind, port })),
    }
}

/// Starts the endpoint, if there are sockets for it.
pub(crate) fn start(
    shared: &Arc<Shared>,
    sockets: Option<Sockets>,
) -> Result<Option<Endpoint>, ListenError> {
    let Some(Sockets { sockets, bind, port }) = sockets else { return Ok(None) };
    let failed = |error: io::Error| ListenError::Socket {
        address: format!("{bind}:{port}"),
        reason: crate::process::text::os_error(&error),
    };
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_io().enable_time().max_blocking_threads(1).build();
    let runtime = runtime.map_err(failed)?;
    let (stop, mut stopped) = watch::channel(false);
    let shared = Arc::clone(shared);
    let serve = move || {
        runtime.block_on(async {
            let endpoint = Arc::new(Served {
                shared,
                clients: Mutex::default(),
                scrapes: Arc::new(Semaphore::new(SCRAPES)),
            });
            for socket in sockets {
                match TcpListener::from_std(socket) {
                    Ok(socket) => drop(tokio::spawn(accept(socket, Arc::clone(&endpoint)))),
                    Err(error) => tracing::warn!("No metrics: {error}"),
                }
            }
            let _ = stopped.wait_for(|stop| *stop).await;
        });
        runtime.shutdown_timeout(PATIENCE);
    };
    let thread = std::thread::Builder::new().name("metrics".into()).spawn(serve).map_err(failed)?;
    tracing::info!("Metrics are served on port {port}");
    Ok(Some(Endpoint { thread, stop }))
}

/// The state that clients share.
struct Served {
    shared: Arc<Shared>,
    /// Connected clients, the oldest first.
    clients: Mutex<VecDeque<oneshot::Sender<()>>>,
    /// Each permit is held until metrics have been written, however long that takes, and sent.
    scrapes: Arc<Semaphore>,
}

impl Served {
    /// Adds a client. Returns the signal that tells it to give way; if there are too many, the
    /// oldest gets its signal.
    fn enter(&self) -> oneshot::Receiver<()> {
        let (sender, yields) = oneshot::channel();
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|client| !client.is_closed());
        if clients.len() >= CLIENTS
            && let Some(oldest) = clients.pop_front()
        {
            let _ = oldest.send(());
        }
        clients.push_back(sender);
        yields
    }
}

async fn accept(socket: TcpListener, served: Arc<Served>) {
    loop {
        match socket.accept().await {
            Ok((stream, _)) => {
                let (yields, served) = (served.enter(), Arc::clone(&served));
                tokio::spawn(http::serve(stream, yields, |path| answer(served, path)));
                // Read what clients have sent before more of them are accepted.
                tokio::task::yield_now().await;
            }
            Err(error) => listen::failed(&error).await,
        }
    }
}

/// Returns the content of a path, if there is such a path.
async fn answer(served: Arc<Served>, path: String) -> Option<Answer> {
    let shared = Arc::clone(&served.shared);
    match path.as_str() {
        "/metrics" => {
            let write = move || commands::admin::metrics(&shared.engine);
            Some(scrape(&served.scrapes, WRITTEN_WITHIN, write).await)
        }
        "/healthz" => Some(probe(health::is_healthy(&shared))),
        "/readyz" => Some(probe(health::is_ready(&shared))),
        "/" => Some(Answer::text(200, "/metrics\n/healthz\n/readyz\n")),
        _ => None,
    }
}

/// Returns the metrics that `write` writes on another thread.
async fn scrape(
    scrapes: &Arc<Semaphore>,
    patience: Duration,
    write: impl FnOnce() -> String + Send + 'static,
) -> Answer {
    let Ok(permit) = Arc::clone(scrapes).try_acquire_owned() else {
        return Answer::text(503, "others are being sent the metrics, or wait for them\n");
    };
    let permit = Arc::new(permit);
    let of_writer = Arc::clone(&permit);
    let writer = tokio::task::spawn_blocking(move || {
        let text = write();
        drop(of_writer);
        text
    });
    match tokio::time::timeout(patience, writer).await {
        Ok(Ok(text)) => Answer::metrics(text, permit),
        Ok(Err(_)) => Answer::text(500, "the metrics could not be written\n"),
        Err(_) => Answer::text(503, "the metrics take too long: does a disk hang?\n"),
    }
}

fn probe(result: Result<(), String>) -> Answer {
    match result {
        Ok(()) => Answer::text(200, "ok\n"),
        Err(why) => Answer::text(503, format!("{why}\n")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn metrics_that_hang_are_given_up_and_stop_no_others_for_good() {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_time().max_blocking_threads(1).build().expect("a runtime");
        let scrapes = Arc::new(Semaphore::new(SCRAPES));
        let (disk, hangs) = channel::<()>();
        let hangs = Arc::new(Mutex::new(hangs));
        let hanging = || {
            let hangs = Arc::clone(&hangs);
            let write = move || {
                // Hangs until the disk answers, or is gone.
                let _ = hangs.lock().unwrap_or_else(PoisonError::into_inner).recv();
                String::from("late")
            };
            runtime.block_on(scrape(&scrapes, Duration::from_millis(1), write)).status()
        };
        for _ in 0..SCRAPES {
            assert_eq!(hanging(), 503);
        }
        // One more takes neither a thread nor a place in a queue, however long it would wait.
        let patience = Duration::from_secs(3600);
        let write = || runtime.block_on(scrape(&scrapes, patience, String::new)).status();
        assert_eq!((write(), scrapes.available_permits()), (503, 0));
        drop(disk);
        while scrapes.available_permits() < SCRAPES {
            std::thread::yield_now();
        }
        assert_eq!((write(), scrapes.available_permits()), (200, SCRAPES));
    }
}
