//! Clients that ask for little, at a fixed pace, and note how long each reply took.
//!
//! They are connections of [`load`](crate::load) with a rate: a request is sent when it is due,
//! whether or not earlier ones have been answered, and its latency counts from when it was due.
//! What is never answered counts with the time until it was given up: a server that stalls cannot
//! look better by answering less.

use crate::histogram::Histogram;
use crate::load::{self, Options};
use crate::server::Failure;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// How long the last replies are waited for.
const GRACE: Duration = Duration::from_secs(3);

/// Longer than any scenario.
const ENDLESS: f64 = 86_400.0;

/// Requests that may be on their way of one connection: more than are due in a day of patience.
const UNLIMITED: usize = 1 << 40;

/// Probes that send the same request.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) port: u16,
    pub(super) request: String,
    pub(super) connections: u32,
    /// Requests a second of each connection.
    pub(super) rate: u32,
}

/// The waits of all probes that send one kind of request.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) latency: Histogram,
    /// Requests without a reply.
    pub(super) unanswered: u64,
    pub(super) errors: u64,
}

impl Group {
    /// Asks until `stop` is set, or a connection breaks.
    pub(super) fn probe(&self, stop: &AtomicBool) -> Result<Found, Failure> {
        let options = Options {
            server: "127.0.0.1".into(),
            port: self.port,
            threads: 1,
            clients: self.connections as usize,
            pipeline: UNLIMITED,
            test_time: Some(ENDLESS),
            rate_limiting: Some(u64::from(self.rate.max(1))),
            commands: vec![self.request.clone()],
            ..Options::default()
        };
        let outcome = load::run_with_grace(&options, stop, GRACE)
            .map_err(|error| Failure::Generator(format!("a probe: {error}")))?;
        let mut latency = outcome.totals.histogram.clone();
        latency.add(&outcome.unanswered);
        let (unanswered, errors) = (outcome.unanswered.count(), outcome.error_count());
        Ok(Found { latency, unanswered, errors })
    }
}

/// Starts a server that answers each PING at once, by a thread for each connection: what its probes
/// wait for is the machine. It ends with its clients.
pub(super) fn echo(connections: u32) -> io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let answer = |mut stream: TcpStream| {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            // Each request is an array.
            let requests = buffer[..length].iter().filter(|byte| **byte == b'*').count();
            if stream.write_all(&b"+PONG\r\n".repeat(requests)).is_err() {
                break;
            }
        }
    };
    thread::spawn(move || {
        for stream in listener.incoming().take(connections as usize).flatten() {
            drop(stream.set_nodelay(true));
            thread::spawn(move || answer(stream));
        }
    });
    Ok(port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    /// Runs probes of a server for some milliseconds. That a silent server is charged for every
    /// request that was due is shown in `tests/load/`.
    fn found(port: u16, connections: u32, millis: u64) -> Found {
        let group = Group { port, request: "PING".into(), connections, rate: 500 };
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let running = thread::spawn(move || group.probe(&seen));
        thread::sleep(Duration::from_millis(millis));
        stop.store(true, Ordering::Relaxed);
        running.join().expect("no panic").expect("figures")
    }

    #[test]
    fn an_echo_answers_each_request() {
        let found = found(echo(2).expect("an echo"), 2, 100);
        assert!(found.latency.count() >= 2 && found.unanswered == 0, "{found:?}");
    }
}
