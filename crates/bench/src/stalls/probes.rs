//! Clients that send short requests at a fixed rate and record how long each reply took.
//!
//! They are connections of [`load`](crate::load) with a rate: a request is sent when it is due,
//! even if earlier ones have not been answered, and its latency counts from when it was due. A
//! request that is never answered counts with the time until the run ended, so that a server that
//! stalls does not look better by answering less.

use crate::histogram::Histogram;
use crate::load::{self, Options};
use crate::server::Failure;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// How long to wait for the last replies.
const GRACE: Duration = Duration::from_secs(3);

/// Seconds, longer than any scenario.
const ENDLESS: f64 = 86_400.0;

/// The outstanding requests that a connection may have: more than are due in a whole day.
const UNLIMITED: usize = 1 << 40;

/// A group of probes that send the same request.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) port: u16,
    pub(super) request: String,
    pub(super) connections: u32,
    /// Requests per second of each connection.
    pub(super) rate: u32,
}

/// The measurements of one group of probes.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) latency: Histogram,
    /// Requests without a reply.
    pub(super) unanswered: u64,
    pub(super) errors: u64,
}

impl Group {
    /// Sends requests until `stop` is set or a connection breaks.
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

/// Starts a server with a thread for each connection that answers each PING at once, so that its
/// probes measure only the machine. It ends with its clients.
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

    /// Runs probes of a server for some milliseconds. The tests in `tests/load/` show that a silent
    /// server is charged for every request that was due.
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
