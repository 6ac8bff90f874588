//! The role of a primary, over sockets: what replicas are sent, and what clients see of them.
//!
//! Most replicas here are [written by hand](fake): they see each byte. Those of
//! [`redis_server`] are redis-server, which is told to replicate from Perdura.
//!
//! Nothing waits for a time: a test waits until a reply or INFO shows what it expects, or until
//! the marks that it wrote arrive.

mod fake;
mod handshake;
mod hostile;
mod limits;
mod redis_server;
mod resume;
mod stream;
mod waits;

use std::time::{Duration, Instant};

use testkit::{Client, Launch, Server};

use fake::Fake;

/// Maximum time for what is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a launch of a primary in memory, whose stream has no PING unless asked for.
fn primary() -> Launch {
    quiet(Launch::perdura_volatile())
}

/// Keeps PING out of the stream.
fn quiet(launch: Launch) -> Launch {
    launch.args(["--repl-ping-replica-period", "3600", "--enable-debug-command", "yes"])
}

/// Waits until `is_so` returns true.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns a field of INFO's section about replication.
fn info(client: &mut Client, field: &str) -> String {
    client.info("replication").remove(field).unwrap_or_default()
}

/// Returns the offset of the stream's end.
fn end(client: &mut Client) -> u64 {
    info(client, "master_repl_offset").parse().expect("an offset")
}

/// Waits until there are this many replicas.
#[track_caller]
fn wait_for_replicas(client: &mut Client, count: usize) {
    wait_until(&format!("there are not {count} replicas"), || {
        info(client, "connected_slaves") == count.to_string()
    });
}

/// Returns a replica that receives the stream.
fn replica(server: &Server) -> Fake {
    let mut replica = Fake::connect(server);
    replica.synchronize();
    replica
}
