//! Kill -9 while clients are blocked and being served: nothing acknowledged is lost, nothing comes
//! out twice.
//!
//! Clients push numbered elements to two lists. Others wait for them: some take them away (BLPOP),
//! some move them to a third list (BLMOVE). After the kill each element is in one place or has been
//! handed to one client. A client that takes loses at most the one element that was on its way to
//! it; a client that moves loses none.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use testkit::{Client, Launch, Reply, Server};

const ROUNDS: usize = 3;
const PUSHERS: usize = 2;
const WAITING: usize = 8;

/// The acknowledged commands that a client has seen, and their number so far.
struct Seen {
    count: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<String>>,
}

/// Sends the same kind of command until the connection breaks. Keeps what `of` reads from each
/// reply.
fn client(
    server: &Server,
    command: impl Fn(usize) -> Vec<String> + Send + 'static,
    of: impl Fn(usize, &Reply) -> Option<String> + Send + 'static,
) -> Seen {
    let mut client: Client = server.client();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let thread = std::thread::spawn(move || {
        let mut seen = Vec::new();
        for n in 0.. {
            let Ok(reply) = client.try_call(&command(n)) else { break };
            assert!(!reply.is_error(), "{reply}");
            seen.extend(of(n, &reply));
            counted.store(seen.len(), Relaxed);
        }
        seen
    });
    Seen { count, thread }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn pushers(server: &Server, key: &'static str, round: usize) -> Vec<Seen> {
    let pusher = |number: usize| {
        let name = move |n| format!("{key}-{round}-{number}-{n}");
        client(
            server,
            move |n| words(&format!("RPUSH {key} {}", name(n))),
            move |n, _| Some(name(n)),
        )
    };
    (0..PUSHERS).map(pusher).collect()
}

fn joined(seen: Vec<Seen>) -> Vec<String> {
    seen.into_iter().flat_map(|one| one.thread.join().expect("no panic")).collect()
}

/// Replies that the clients of a kind have seen when the server is killed: enough that all of them
/// are at work.
const ENOUGH: usize = 100;

/// Waits until the clients of each kind have seen enough.
fn await_all(kinds: [&[Seen]; 4]) {
    let begin = Instant::now();
    let seen = |kind: &[Seen]| kind.iter().map(|one| one.count.load(Relaxed)).sum::<usize>();
    while !kinds.iter().all(|kind| seen(kind) >= ENOUGH) {
        assert!(begin.elapsed() < Duration::from_secs(30), "nothing happened");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn list(client: &mut Client, key: &str) -> Vec<String> {
    let all = client.run(&format!("LRANGE {key} 0 -1"));
    all.items().iter().map(Reply::text).collect()
}

/// Collects the elements, each of which must be there once.
#[track_caller]
fn once(all: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    let mut set = BTreeSet::new();
    for element in all {
        assert!(set.insert(element.clone()), "{element} twice");
    }
    set
}

fn kill_while_serving(launch: Launch) {
    let mut server = launch.start();
    let mut taken = Vec::new();
    let (mut pushed, mut moved) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (to_take, to_move) = (pushers(&server, "t", round), pushers(&server, "m", round));
        let takers = (0..WAITING).map(|_| {
            client(&server, |_| words("BLPOP t 0"), |_, reply| Some(reply.items()[1].text()))
        });
        let takers: Vec<Seen> = takers.collect();
        let movers = (0..WAITING).map(|_| {
            client(&server, |_| words("BLMOVE m done LEFT RIGHT 0"), |_, reply| Some(reply.text()))
        });
        let movers: Vec<Seen> = movers.collect();
        await_all([&to_take, &to_move, &takers, &movers]);
        server.kill();
        let (to_take, to_move) = (joined(to_take), joined(to_move));
        taken.extend(joined(takers));
        moved.extend(joined(movers));
        pushed.extend(to_take.into_iter().chain(to_move));
        server.start_again();

        let mut admin = server.client();
        let left = once(list(&mut admin, "t").into_iter().chain(taken.iter().cloned()));
        let kept = once(list(&mut admin, "m").into_iter().chain(list(&mut admin, "done")));
        let done: BTreeSet<String> = list(&mut admin, "done").into_iter().collect();
        assert!(moved.iter().all(|element| done.contains(element)), "a move was lost");
        let mut lost = pushed.iter().filter(|e| !left.contains(*e) && !kept.contains(*e));
        let lost: Vec<&String> = lost.by_ref().collect();
        assert!(lost.iter().all(|element| element.starts_with("t-")), "lost: {lost:?}");
        let in_flight = (round + 1) * WAITING;
        assert!(lost.len() <= in_flight, "{} elements lost: {lost:?}", lost.len());
    }
}

#[test]
fn a_killed_server_with_a_pool_lost_nothing() {
    kill_while_serving(Launch::perdura_pmem().args(["--threads", "3"]));
}

#[test]
fn a_killed_server_with_an_append_only_file_lost_nothing() {
    kill_while_serving(Launch::perdura_aof("everysec").args(["--threads", "3"]));
}
