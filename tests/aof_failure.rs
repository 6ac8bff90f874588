//! A log that can no longer be written: nothing more is acknowledged, the client is told why, and what was acknowledged
//! before comes back.
//!
//! The disk is made full by a limit on the size of files, which the shell sets before it becomes the server.

#![forbid(unsafe_code)]

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::{Client, Medium, perdura_server};

const MISCONF: &str = "(error) MISCONF Errors writing to the AOF file: File too large";

struct Limited {
    process: Child,
    address: SocketAddr,
}

impl Limited {
    /// Starts a server that can write files of at most `kib`.
    fn start(folder: &Path, policy: &str, kib: Option<u32>) -> Limited {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|probe| probe.local_addr());
        let address = port.expect("a free port");
        let limit = kib.map_or("unlimited".to_owned(), |kib| (kib * 2).to_string());
        let script = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(perdura_server());
        command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string(), "--dir"]);
        command.arg(folder).args(["--backend", "aof", "--appendfsync", policy]);
        let process = command.stdout(Stdio::null()).spawn().expect("a shell");
        let server = Limited { process, address };
        let patience = Instant::now() + Duration::from_secs(30);
        while !server.answers() {
            assert!(Instant::now() < patience, "the server does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    /// Whether it has loaded its log.
    fn answers(&self) -> bool {
        let reply = Client::connect(self.address).and_then(|mut client| client.try_call(&["PING"]));
        reply.is_ok_and(|reply| reply.to_string() == "PONG")
    }

    fn client(&self) -> Client {
        Client::connect(self.address).expect("the server accepts")
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sets one key after the other until that is refused; how many were acknowledged, and the refusal.
fn write_until_refused(server: &Limited) -> (u32, String) {
    let mut client = server.client();
    for n in 0..100_000 {
        let key = format!("key{n}");
        match client.try_call(&["SET", &key, "some value of some length"]) {
            Ok(reply) if reply.to_string() == "OK" => {}
            Ok(reply) => return (n, reply.to_string()),
            Err(error) => return (n, error.to_string()),
        }
    }
    panic!("a file of 64 KiB took 100000 commands");
}

fn check_policy(policy: &str) {
    let folder = Medium::Disk.scratch();
    let limited = Limited::start(folder.path(), policy, Some(64));
    let (acknowledged, refusal) = write_until_refused(&limited);
    assert!(acknowledged > 500, "{policy}: refused after {acknowledged}: {refusal}");
    assert!(refusal.contains("MISCONF Errors writing to the AOF file"), "{policy}: {refusal}");

    let mut client = limited.client();
    client.check("SET another value", MISCONF);
    client.check("DEL key0", MISCONF);
    client.check("CONFIG GET appendfsync", &format!("[\"appendfsync\", \"{policy}\"]"));
    assert_eq!(client.info("persistence")["aof_last_write_status"], "err", "{policy}");
    drop(limited);

    let healed = Limited::start(folder.path(), policy, None);
    let mut client = healed.client();
    let found = client.run("DBSIZE").int().expect("a number");
    assert!(found >= i64::from(acknowledged), "{policy}: {found} of {acknowledged} came back");
    for n in 0..acknowledged {
        client.check(&format!("GET key{n}"), "\"some value of some length\"");
    }
    client.check("SET another value", "OK");
}

#[test]
fn a_log_that_is_synced_always_acknowledges_nothing_that_it_could_not_write() {
    check_policy("always");
}

#[test]
fn a_log_that_is_synced_every_second_stops_when_it_cannot_be_written() {
    check_policy("everysec");
}
