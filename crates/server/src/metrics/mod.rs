//! The endpoint for monitoring (`metrics-port`): metrics for Prometheus, and probes.
//!
//! `/metrics` is what [`commands::admin::metrics`] writes; `/healthz` and `/readyz` are answered by
//! [`health`]. The endpoint has a thread and a runtime of its own, so that whatever is sent to it
//! costs those who accept and serve data nothing but processor time; metrics are written on one
//! more thread, so that probes do not wait for them. It is there before data is loaded, and until
//! the store is closed.
//!
//! Clients are bounded in number, in what they send and in time ([`http`]). There is no password:
//! `metrics-bind` is the loopback address unless it is changed, and no data can be read here.

mod health;
mod http;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, watch};

use crate::config::Values;
use crate::listen::{self, ListenError};
use crate::shared::Shared;
use http::Answer;

/// Clients that are served at once; one more is answered 503.
const CLIENTS: usize = 16;
/// How long the end waits for metrics that are being written.
const PATIENCE: Duration = Duration::from_secs(2);

/// The running endpoint.
pub(crate) struct Endpoint {
    thread: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl Endpoint {
    /// Ends it.
    pub(crate) fn stop(self) {
        let _ = self.stop.send(true);
        if self.thread.join().is_err() {
            tracing::warn!("The endpoint for metrics ended by a panic");
        }
    }
}

/// Where the endpoint is to listen.
pub(crate) struct Sockets {
    sockets: Vec<std::net::TcpListener>,
    bind: String,
    port: u16,
}

/// Opens the endpoint's sockets, where the configuration has a port for it.
pub(crate) fn open(values: &Values) -> Result<Option<Sockets>, ListenError> {
    let Some(port) = u16::try_from(values.int("metrics-port")).ok().filter(|port| *port != 0)
    else {
        return Ok(None);
    };
    let bind = values.text("metrics-bind");
    let sockets = listen::open(&bind, port, 64)?;
    match sockets.is_empty() {
        true => Err(ListenError::NoMetrics { bind, port }),
        false => Ok(Some(Sockets { sockets, bind, port })),
    }
}

/// Starts the endpoint, where there are sockets for it.
pub(crate) fn start(
    shared: &Arc<Shared>,
    sockets: Option<Sockets>,
) -> Result<Option<Endpoint>, ListenError> {
    let Some(Sockets { sockets, bind, port }) = sockets else { return Ok(None) };
    let failed = |error: io::Error| ListenError::Socket {
        address: format!("{bind}:{port}"),
        reason: crate::text::os_error(&error),
    };
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_io().enable_time().max_blocking_threads(1).build();
    let runtime = runtime.map_err(failed)?;
    let (stop, mut stopped) = watch::channel(false);
    let shared = Arc::clone(shared);
    let serve = move || {
        runtime.block_on(async {
            let clients = Arc::new(Semaphore::new(CLIENTS));
            for socket in sockets {
                match TcpListener::from_std(socket) {
                    Ok(socket) => {
                        drop(tokio::spawn(accept(socket, Arc::clone(&shared), clients.clone())));
                    }
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

async fn accept(socket: TcpListener, shared: Arc<Shared>, clients: Arc<Semaphore>) {
    loop {
        match socket.accept().await {
            Ok((stream, _)) => match Arc::clone(&clients).try_acquire_owned() {
                Ok(permit) => {
                    let shared = Arc::clone(&shared);
                    tokio::spawn(async move {
                        http::serve(stream, |path| answer(shared, path)).await;
                        drop(permit);
                    });
                }
                Err(_) => http::refuse(&stream),
            },
            Err(error) => listen::failed(&error).await,
        }
    }
}

/// Returns what is at a path; nothing if there is none such.
async fn answer(shared: Arc<Shared>, path: String) -> Option<Answer> {
    match path.as_str() {
        "/metrics" => {
            let write = move || commands::admin::metrics(&shared.engine);
            Some(match tokio::task::spawn_blocking(write).await {
                Ok(text) => Answer::metrics(text),
                Err(_) => Answer::text(500, "the metrics could not be written\n"),
            })
        }
        "/healthz" => Some(probe(health::is_healthy(&shared))),
        "/readyz" => Some(probe(health::is_ready(&shared))),
        "/" => Some(Answer::text(200, "/metrics\n/healthz\n/readyz\n")),
        _ => None,
    }
}

fn probe(result: Result<(), String>) -> Answer {
    match result {
        Ok(()) => Answer::text(200, "ok\n"),
        Err(why) => Answer::text(503, format!("{why}\n")),
    }
}
