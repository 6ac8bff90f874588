//! The check of `tests/kill` can fail: each injected way to lose or tear acknowledged data is
//! noticed.
//!
//! The servers are complete ones; the faults are injected outside of them: a server that keeps
//! nothing, a log without its tail, a pool of some moments ago, a connection that acknowledges a
//! write and drops it, one that executes a script as two.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use testkit::load::{Crew, Habits, Violation};
use testkit::{Client, Launch, Server};

/// The minimum time for which clients write.
const LOADED: Duration = Duration::from_millis(150);

/// The number of steps acknowledged before a server is killed.
const ENOUGH: u64 = 200;

const PATIENCE: Duration = Duration::from_secs(60);

/// Loads a server, kills it, does something to its folder, starts it again and compares.
fn round(
    server: &mut Server,
    crew: &mut Crew,
    through: SocketAddr,
    plant: impl FnOnce(&Path),
) -> Result<(), Violation> {
    let view = crew.view();
    let (began, enough) = (Instant::now(), view.steps() + ENOUGH);
    let kill = || {
        thread::sleep(LOADED);
        while view.steps() < enough && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(2));
        }
        server.kill();
    };
    crew.run(|| Client::connect(through), kill)?;
    plant(server.folder());
    server.start_again();
    crew.verify(&mut server.client())
}

fn crew() -> Crew {
    Crew::new(3, fastrand::u64(..), Habits::USUAL)
}

/// Runs a good round, and one with an injected fault, which must be noticed.
#[track_caller]
fn check_noticed(launch: Launch, before: impl FnOnce(&Path), plant: impl FnOnce(&Path)) {
    let (mut server, mut crew) = (launch.start(), crew());
    let address = server.address();
    let good = round(&mut server, &mut crew, address, |_| {});
    assert!(good.is_ok(), "{good:?}");
    before(server.folder());
    check_lost(round(&mut server, &mut crew, address, plant), crew.steps());
}

/// Checks that the violation is lost acknowledged steps, not a round that did not complete.
#[track_caller]
fn check_lost(noticed: Result<(), Violation>, steps: u64) {
    let Err(Violation(text)) = noticed else { panic!("nothing was noticed after {steps} steps") };
    println!("{text}");
    let of_loss = ["no prefix of what was sent", "the shared counter is", ": replied "];
    assert!(of_loss.iter().any(|says| text.contains(says)), "{text}");
}

fn incremental(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder.join("appendonlydir")).expect("a log").flatten();
    let mut files: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
    files.retain(|path| path.to_string_lossy().contains(".incr."));
    files.pop().expect("an incremental file")
}

fn length(folder: &Path) -> u64 {
    fs::metadata(incremental(folder)).expect("a file").len()
}

#[test]
fn redis_with_a_synced_log_keeps_the_rule() {
    let launch = Launch::redis().args(["--appendonly", "yes", "--appendfsync", "always"]);
    let (mut server, mut crew) = (launch.start(), crew());
    let address = server.address();
    for _ in 0..2 {
        let kept = round(&mut server, &mut crew, address, |_| {});
        assert!(kept.is_ok(), "{kept:?}");
    }
    assert!(crew.steps() >= ENOUGH);
}

#[test]
fn a_server_that_keeps_nothing_is_noticed() {
    let (mut server, mut crew) = (Launch::redis().start(), crew());
    let address = server.address();
    check_lost(round(&mut server, &mut crew, address, |_| {}), crew.steps());
}

#[test]
fn a_log_whose_tail_never_left_the_process_is_noticed() {
    let launch = Launch::perdura_aof("no").args(["--auto-aof-rewrite-percentage", "0"]);
    let before = std::cell::Cell::new(0);
    check_noticed(
        launch,
        |folder| before.set(length(folder)),
        |folder| {
            let log = fs::OpenOptions::new().write(true).open(incremental(folder)).expect("a log");
            let kept = before.get() + (length(folder) - before.get()) / 10;
            log.set_len(kept).expect("it is cut");
        },
    );
}

#[test]
fn a_pool_as_it_was_before_is_noticed() {
    let pool = |folder: &Path| folder.join("perdura.pool");
    let copy = |folder: &Path| folder.join("copy.pool");
    check_noticed(
        Launch::perdura_pmem(),
        |folder| assert!(fs::copy(pool(folder), copy(folder)).is_ok()),
        |folder| fs::rename(copy(folder), pool(folder)).expect("the old one in its place"),
    );
}

#[test]
fn a_write_that_is_acknowledged_and_dropped_is_noticed() {
    let (mut server, mut crew) = (Launch::perdura_pmem().start(), crew());
    let proxy = forgetful_proxy(server.address());
    let noticed = round(&mut server, &mut crew, proxy, |_| {});
    check_lost(noticed, crew.steps());
}

/// The server is killed between the halves: its state is neither the one before the script nor the
/// one after it.
#[test]
fn a_script_that_is_executed_as_two_is_noticed() {
    let (mut server, mut crew) = (Launch::perdura_pmem().start(), crew());
    let (began, is_halved) = (Instant::now(), Arc::new(AtomicBool::new(false)));
    let says = Arc::clone(&is_halved);
    let serve = move |client, server| drop(halve_a_script(client, server, &says));
    let proxy = listen(server.address(), serve);
    let kill = || {
        while !is_halved.load(Ordering::Relaxed) && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(2));
        }
        server.kill();
    };
    crew.run(|| Client::connect(proxy), kill).expect("nothing is wrong yet");
    server.start_again();
    check_lost(crew.verify(&mut server.client()), crew.steps());
}

#[test]
fn a_proxy_that_drops_nothing_is_not_blamed() {
    let (mut server, mut crew) = (Launch::perdura_pmem().start(), crew());
    let proxy = proxy(server.address(), usize::MAX);
    let kept = round(&mut server, &mut crew, proxy, |_| {});
    assert!(kept.is_ok(), "{kept:?}");
    assert!(crew.steps() >= ENOUGH);
}

/// Acknowledges every tenth SET and forgets it.
fn forgetful_proxy(server: SocketAddr) -> SocketAddr {
    proxy(server, 10)
}

/// Relays between clients and a server, and drops one in N SETs.
fn proxy(server: SocketAddr, drop_every: usize) -> SocketAddr {
    let sets = Arc::new(AtomicUsize::new(0));
    let forgets = move || sets.fetch_add(1, Ordering::Relaxed) % drop_every == drop_every - 1;
    listen(server, move |client, server| drop(pass_on(client, server, forgets.clone())))
}

/// Serves clients, each in a thread, until the test's process ends.
fn listen(
    server: SocketAddr,
    serve: impl Fn(TcpStream, SocketAddr) + Clone + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(client, server));
        }
    });
    address
}

/// Relays requests up to a script that can be halved: of that one, only the first commands, and no
/// reply.
fn halve_a_script(client: TcpStream, server: SocketAddr, is_halved: &AtomicBool) -> io::Result<()> {
    let mut server = TcpStream::connect(server)?;
    let mut answers = client.try_clone()?;
    let (mut requests, mut replies) = (BufReader::new(client), BufReader::new(server.try_clone()?));
    loop {
        let (request, words) = frame(&mut requests)?;
        let Some(half) = half_of_script(&words) else {
            server.write_all(&request)?;
            answers.write_all(&frame(&mut replies)?.0)?;
            continue;
        };
        let mut request = format!("*{}\r\n", half.len()).into_bytes();
        for word in half {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        server.write_all(&request)?;
        frame(&mut replies)?;
        is_halved.store(true, Ordering::Relaxed);
        // Until the server is killed.
        return frame(&mut replies).map(drop);
    }
}

/// Returns all commands of a script but the last, if the one before that is a SET, which changes
/// something.
fn half_of_script(words: &[Vec<u8>]) -> Option<&[Vec<u8>]> {
    let (call, last) = (words.first()?, words.len().checked_sub(4)?);
    let is_script = [&b"EVAL"[..], b"FCALL"].contains(&call.as_slice());
    let [.., count, set, _, _] = &words[..last] else { return None };
    let counts_last = words[last + 2] == b"INCR" && words[last + 3].ends_with(b":counter");
    (is_script && counts_last && count == b"3" && set == b"SET").then(|| &words[..last])
}

/// Relays one command and its reply after the other.
fn pass_on(client: TcpStream, server: SocketAddr, forgets: impl Fn() -> bool) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    server.set_nodelay(true)?;
    client.set_nodelay(true)?;
    let mut answers = client.try_clone()?;
    let (mut requests, mut replies) = (BufReader::new(client), BufReader::new(server.try_clone()?));
    let (mut server, mut in_transaction) = (server, false);
    loop {
        let (request, words) = frame(&mut requests)?;
        let name = words.first().map(Vec::as_slice).unwrap_or_default();
        in_transaction = match name {
            b"MULTI" => true,
            b"EXEC" => false,
            _ => in_transaction,
        };
        let is_set = name == b"SET" && !in_transaction;
        if is_set && forgets() {
            answers.write_all(b"+OK\r\n")?;
            continue;
        }
        server.write_all(&request)?;
        answers.write_all(&frame(&mut replies)?.0)?;
    }
}

/// The bytes of one request or reply, and the bulk strings in it.
fn frame(from: &mut impl BufRead) -> io::Result<(Vec<u8>, Vec<Vec<u8>>)> {
    let (mut bytes, mut words) = (Vec::new(), Vec::new());
    let mut left = 1;
    while left > 0 {
        let begin = bytes.len();
        if from.read_until(b'\n', &mut bytes)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = String::from_utf8_lossy(&bytes[begin + 1..]).trim().parse::<i64>();
        left -= 1;
        match (bytes[begin], line) {
            (b'*', Ok(items)) => left += items.max(0),
            (b'$', Ok(length)) if length >= 0 => {
                let mut body = vec![0; length as usize + 2];
                from.read_exact(&mut body)?;
                bytes.extend_from_slice(&body);
                body.truncate(length as usize);
                words.push(body);
            }
            _ => {}
        }
    }
    Ok((bytes, words))
}
