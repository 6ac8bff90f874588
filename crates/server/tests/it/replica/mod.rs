//! The role of a replica, over sockets: what it takes from a primary, and what its clients see.
//!
//! The primaries are redis-server, Perdura, and some [written by hand](fake), which send what no
//! real one does. Where a test must cut the link at a certain byte, a [proxy](proxy::Proxy) does
//! it.
//!
//! Nothing waits for a time: a test waits until a reply, INFO or the log shows what it expects.

mod arrival;
mod chain;
mod change_over;
mod clients;
mod configured;
mod crash;
mod expiry;
mod failover;
mod fake;
mod follow;
mod hostile;
mod loading;
mod promote;
mod proxy;
mod quorum;
mod restart;
mod resume;
mod shared;
mod space;
mod status;
mod unreachable;
mod unsure;
mod writes;

use std::time::{Duration, Instant};

use testkit::{Client, Launch, Server};

/// Maximum time for what is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Keeps PING out of the stream.
fn quiet(launch: Launch) -> Launch {
    launch.args(["--repl-ping-replica-period", "3600", "--enable-debug-command", "yes"])
}

/// Returns a launch of redis-server as a primary or a replica.
fn redis() -> Launch {
    quiet(Launch::redis()).args(["--repl-diskless-sync-delay", "0", "--repl-timeout", "30"])
}

/// Returns a launch of Perdura in memory.
fn volatile() -> Launch {
    quiet(Launch::perdura_volatile())
}

/// Waits until `is_so` returns true.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until the server's log has a line that contains a text.
#[track_caller]
fn wait_for_log(server: &Server, text: &str) {
    wait_until(&format!("the log does not say {text:?}"), || server.log().contains(text));
}

/// Returns how often a text is in the log.
fn count_in_log(server: &Server, text: &str) -> usize {
    server.log().matches(text).count()
}

/// Returns a field of INFO's section about replication; empty if it is not there.
fn info(client: &mut Client, field: &str) -> String {
    client.info("replication").remove(field).unwrap_or_default()
}

/// Makes a server follow the one at a port.
#[track_caller]
fn follow(client: &mut Client, port: u16) {
    client.check(&format!("REPLICAOF 127.0.0.1 {port}"), "OK");
}

/// Waits until a replica receives its primary's stream.
#[track_caller]
fn wait_for_link(replica: &mut Client) {
    wait_until("the link is not up", || info(replica, "master_link_status") == "up");
}

/// Starts a server, and waits until it follows another.
#[track_caller]
fn start_replica(launch: Launch, primary: &Server) -> Server {
    let server = launch.start();
    let mut client = server.client();
    follow(&mut client, primary.port());
    wait_for_link(&mut client);
    server
}

/// Returns the digest of all data, which is the same in all servers that have the same.
fn digest(client: &mut Client) -> String {
    let reply = client.run("DEBUG DIGEST");
    assert!(!reply.is_error(), "{reply}");
    reply.text()
}

/// Waits until the replica is where its primary is, and has the same data.
#[track_caller]
fn check_equal(primary: &mut Client, replica: &mut Client) {
    let began = Instant::now();
    loop {
        let offsets = (info(primary, "master_repl_offset"), info(replica, "slave_repl_offset"));
        let digests = (digest(primary), digest(replica));
        if offsets.0 == offsets.1 && digests.0 == digests.1 {
            assert_ne!(digests.0, "0".repeat(40), "there are data");
            return;
        }
        assert!(began.elapsed() < PATIENCE, "they differ: {offsets:?}, {digests:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a command has this reply.
#[track_caller]
fn wait_for_reply(client: &mut Client, line: &str, expected: &str) {
    let mut last = String::new();
    let began = Instant::now();
    while last != expected {
        assert!(began.elapsed() < PATIENCE, "reply to {line}: {last}, expected {expected}");
        std::thread::sleep(Duration::from_millis(2));
        last = client.run(line).to_string();
    }
}
