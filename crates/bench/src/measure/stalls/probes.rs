//! Clients that ask for little, at a fixed pace, and note how long each reply took.
//!
//! A request is sent when it is due, whether or not earlier ones have been answered, and its
//! latency counts from when it was due. What is never answered counts with the time until it was
//! given up: a server that stalls cannot look better by answering less.
//!
//! One thread serves all probes, so that they take little of the machine.

use super::replies::Replies;
use crate::compare::server::Failure;
use crate::histogram::Histogram;
use crate::load::pace::{Schedule, Timer};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream as Blocking};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Probes that send the same request.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) port: u16,
    pub(super) request: Vec<u8>,
    pub(super) connections: u32,
    /// Requests a second of each connection.
    pub(super) rate: u32,
}

/// The waits of all probes that send one kind of request.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) latency: Histogram,
    /// Requests without a reply, and connections that broke.
    pub(super) unanswered: u64,
    pub(super) errors: u64,
}

impl Found {
    fn add(&mut self, other: &Found) {
        self.latency.add(&other.latency);
        self.unanswered += other.unanswered;
        self.errors += other.errors;
    }
}

/// Requests on their way, by when they were due.
#[derive(Debug, Default)]
struct Ledger {
    due: VecDeque<Instant>,
    complete: u64,
    found: Found,
}

impl Ledger {
    /// Records the replies that came now, `complete` since the beginning.
    fn answered(&mut self, complete: u64, now: Instant) {
        let new = complete - self.complete;
        self.complete = complete;
        for due in self.due.drain(..self.due.len().min(new as usize)) {
            self.found.latency.record(now.saturating_duration_since(due));
        }
    }

    /// Gives up what has not been answered.
    fn close(mut self, errors: u64, now: Instant) -> Found {
        self.found.errors = errors;
        self.found.unanswered += self.due.len() as u64;
        for due in &self.due {
            self.found.latency.record(now.saturating_duration_since(*due));
        }
        self.found
    }
}

/// Connected probes.
#[derive(Debug)]
pub(super) struct Probes {
    groups: Vec<(Group, Vec<Blocking>)>,
    /// How long outstanding replies are waited for in the end.
    grace: Duration,
}

impl Probes {
    /// Connects to servers, which spread the connections of each group over their threads.
    pub(super) fn connect(groups: &[Group], grace: Duration) -> Result<Probes, Failure> {
        let all = |group: &Group| {
            let one = |_| connect(group.port, &group.request, grace);
            let streams = (0..group.connections).map(one).collect::<io::Result<Vec<_>>>()?;
            Ok((group.clone(), streams))
        };
        let groups = groups.iter().map(all).collect::<io::Result<Vec<_>>>().map_err(failed)?;
        Ok(Probes { groups, grace })
    }

    /// Asks until `stop` is set: what each group found.
    pub(super) fn run(self, stop: Arc<AtomicBool>) -> Result<Vec<Found>, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(failed)?.block_on(self.probe(stop)).map_err(failed)
    }

    async fn probe(self, stop: Arc<AtomicBool>) -> io::Result<Vec<Found>> {
        let (began, mut tasks) = (Instant::now(), JoinSet::new());
        let mut found = vec![Found::default(); self.groups.len()];
        for (at, (group, streams)) in self.groups.into_iter().enumerate() {
            let rate = group.rate.max(1);
            let distance = Duration::from_secs(1) / rate / group.connections.max(1);
            for (number, stream) in (0..).zip(streams) {
                // Evenly spread, so that each moment has its probe.
                let schedule = Schedule::new(began + distance * number, u64::from(rate));
                let stream = TcpStream::from_std(stream)?;
                let request = group.request.clone();
                let task = probe(stream, request, schedule, Arc::clone(&stop), self.grace);
                tasks.spawn(async move { (at, task.await) });
            }
        }
        while let Some(ended) = tasks.join_next().await {
            let (at, one) = ended.map_err(io::Error::other)?;
            found[at].add(&one?);
        }
        Ok(found)
    }
}

/// Starts a server that answers each line at once, by a thread for each connection: what its probes
/// wait for is the machine. It ends with its clients.
pub(super) fn echo(connections: u32) -> io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let answer = |mut stream: Blocking| {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            let lines = buffer[..length].iter().filter(|byte| **byte == b'\n').count();
            if stream.write_all(&b"+PONG\r\n".repeat(lines)).is_err() {
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

/// Returns a connection that the server has accepted: it has answered a request.
fn connect(port: u16, request: &[u8], patience: Duration) -> io::Result<Blocking> {
    let mut stream = Blocking::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(request)?;
    let (mut replies, mut buffer) = (Replies::default(), [0; 4096]);
    while replies.feed(&[]) == 0 {
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => replies.feed(&buffer[..length]),
        };
    }
    stream.set_nonblocking(true)?;
    Ok(stream)
}

fn failed(cause: io::Error) -> Failure {
    Failure::Start { what: "a probe".into(), cause }
}

/// Sends what is due and reads what comes, until `stop` is set or the connection breaks.
async fn probe(
    mut stream: TcpStream,
    request: Vec<u8>,
    mut schedule: Schedule,
    stop: Arc<AtomicBool>,
    grace: Duration,
) -> io::Result<Found> {
    let (mut timer, mut buffer) = (Timer::new()?, vec![0; 4096]);
    let (mut ledger, mut replies) = (Ledger::default(), Replies::default());
    let mut is_open = true;
    while is_open && !stop.load(Ordering::Relaxed) {
        tokio::select! {
            biased;
            read = stream.read(&mut buffer) => match read {
                Ok(length) if length > 0 => {
                    ledger.answered(replies.feed(&buffer[..length]), Instant::now());
                }
                _ => is_open = false,
            },
            reached = poll_fn(|context| timer.poll(schedule.due(), context)) => {
                reached?;
                ledger.due.push_back(schedule.due());
                schedule.take();
                let written = timeout(grace, stream.write_all(&request)).await;
                is_open = matches!(written, Ok(Ok(())));
            }
        }
    }
    let rest = async {
        while is_open && !ledger.due.is_empty() {
            match stream.read(&mut buffer).await {
                Ok(length) if length > 0 => {
                    ledger.answered(replies.feed(&buffer[..length]), Instant::now());
                }
                _ => is_open = false,
            }
        }
    };
    let _ = timeout(grace, rest).await;
    if !is_open && ledger.due.is_empty() {
        ledger.found.unanswered += 1;
    }
    Ok(ledger.close(replies.errors(), Instant::now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that is silent for a second of a thousand requests.
    #[test]
    fn latencies_count_from_when_requests_were_due() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let mut ledger = Ledger::default();
        ledger.due.extend((0..1000).map(at));
        ledger.answered(600, at(1000));
        ledger.answered(990, at(1000));
        assert_eq!(ledger.due.len(), 10);
        let found = ledger.close(3, at(1000));
        assert_eq!((found.latency.count(), found.unanswered, found.errors), (1000, 10, 3));
        let near = |percent, millis: f64| {
            let value = found.latency.percentile(percent) / 1e3;
            assert!((value - millis).abs() <= millis / 500.0, "{value} is not {millis}");
        };
        near(50.0, 500.0);
        near(99.0, 990.0);
        near(99.9, 999.0);
        near(100.0, 1000.0);
    }

    #[test]
    fn an_echo_answers_each_line() {
        let port = echo(2).expect("an echo");
        let request = b"PING\r\n".to_vec();
        let group = Group { port, request, connections: 2, rate: 1000 };
        let probes = Probes::connect(&[group], Duration::from_secs(10)).expect("probes");
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let running = thread::spawn(move || probes.run(seen));
        thread::sleep(Duration::from_millis(20));
        stop.store(true, Ordering::Relaxed);
        let found = running.join().expect("no panic").expect("figures");
        assert!(found[0].latency.count() >= 2 && found[0].unanswered == 0, "{found:?}");
    }

    /// Of one connection two requests are answered, of the other none.
    #[test]
    fn a_silent_server_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let request = b"PING\r\n".to_vec();
        let group = Group { port, request, connections: 2, rate: 500 };
        let server = thread::spawn(move || {
            [(); 2].map(|()| {
                let (mut stream, _) = listener.accept().expect("a probe");
                stream.read_exact(&mut [0; 6]).expect("a request");
                stream.write_all(b"+PONG\r\n").expect("a reply");
                stream
            })
        });
        // Long enough for this test's own pauses.
        let probes = Probes::connect(&[group], Duration::from_millis(200)).expect("probes");
        let [mut answered, _silent] = server.join().expect("two connections");
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let running = thread::spawn(move || probes.run(seen));
        let mut request = [0; 6];
        answered.read_exact(&mut request).expect("a request");
        answered.write_all(b"+PO").expect("a part");
        answered.write_all(b"NG\r\n").expect("the rest");
        answered.read_exact(&mut request).expect("another request");
        answered.write_all(b"-BUSY wait\r\n").expect("an error");
        answered.read_exact(&mut request).expect("one that is never answered");
        stop.store(true, Ordering::Relaxed);
        let found = running.join().expect("no panic").expect("figures");
        let [found] = &found[..] else { panic!("one group: {found:?}") };
        assert_eq!((found.latency.count() - found.unanswered, found.errors), (2, 1));
        assert!(found.unanswered >= 2 && found.latency.highest() >= 200_000.0, "{found:?}");
    }
}
