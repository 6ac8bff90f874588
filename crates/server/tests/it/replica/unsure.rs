//! FAILOVER whose target breaks the connection before it answers: it may be the primary already.
//! The old primary neither drops its data for a dump that has less, nor are there two replicas of
//! each other.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use testkit::{Client, Server};

use super::fake::{Fake, ID, Peer, commands, dump, header};
use super::{info, volatile, wait_for_log, wait_until};

/// A primary that fails over to a fake, which has broken the connection after its PSYNC.
struct Unsure {
    server: Server,
    client: Client,
    fake: Fake,
    /// The primary's history, and its end.
    id: String,
    end: u64,
}

impl Unsure {
    fn start(more: &str) -> Unsure {
        let (server, fake) = (volatile().start(), Fake::listen());
        let mut client = server.client();
        client.check("SET key 1", "OK");
        let ends = AtomicBool::new(false);
        let (peer, asked) = thread::scope(|scope| {
            scope.spawn(|| acknowledge(&server, fake.port(), &ends));
            wait_until("it is not online", || info(&mut client, "slave0").contains("state=online"));
            client.check(&format!("FAILOVER TO 127.0.0.1 {}{more}", fake.port()), "OK");
            let asked = fake.accept_psync();
            ends.store(true, SeqCst);
            asked
        });
        let id = info(&mut client, "master_replid");
        let end: u64 = info(&mut client, "master_repl_offset").parse().expect("an offset");
        assert_eq!(asked, ["PSYNC", &id, &(end + 1).to_string(), "FAILOVER"]);
        drop(peer);
        Unsure { server, client, fake, id, end }
    }

    /// Waits for the next connection, and tells it a role and a second history.
    fn tell(&mut self, role: &str, second: &str, until: i64) -> Peer {
        let mut peer = self.fake.accept();
        peer.introduce("INFO");
        let text = format!(
            "# Replication\r\nrole:{role}\r\nmaster_replid:{ID}\r\nmaster_replid2:{second}\r\n\
             second_repl_offset:{}\r\n",
            until + 1
        );
        peer.send(format!("${}\r\n{text}\r\n", text.len()).as_bytes());
        peer
    }

    #[track_caller]
    fn check(&mut self, role: &str, state: &str) {
        let client = &mut self.client;
        wait_until("the state is another", || info(client, "master_failover_state") == state);
        assert_eq!(info(client, "role"), role);
        client.check("GET key", "\"1\"");
    }
}

/// Is a replica that listens at `port` and has all of the stream, until it is to end.
fn acknowledge(server: &Server, port: u16, ends: &AtomicBool) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    let listens = format!("REPLCONF listening-port {port}");
    stream.write_all(&commands(&[&listens, "PSYNC ? -1"])).expect("it is sent");
    let mut sent = stream.try_clone().expect("a second handle");
    let reader = thread::spawn(move || {
        let mut bytes = [0; 4096];
        while sent.read(&mut bytes).is_ok_and(|read| read > 0) {}
    });
    let mut client = server.client();
    while !ends.load(SeqCst) {
        let end = info(&mut client, "master_repl_offset");
        let _ = stream.write_all(&commands(&[&format!("REPLCONF ACK {end}")]));
        thread::sleep(std::time::Duration::from_millis(5));
    }
    let _ = stream.shutdown(std::net::Shutdown::Both);
    reader.join().expect("it ends");
}

#[test]
fn a_target_that_restarts_without_data_is_not_followed() {
    for more in ["", " TIMEOUT 60000 FORCE"] {
        let mut unsure = Unsure::start(more);
        let mut peer = unsure.tell("master", &"0".repeat(40), -2);
        peer.wait_for_end();
        unsure.check("master", "no-failover");
        wait_for_log(&unsure.server, "aborted: Failover target is a primary with another history");
        unsure.client.check("SET more 1", "OK");
    }
}

#[test]
fn a_target_that_is_a_replica_is_asked_again() {
    let mut unsure = Unsure::start("");
    let mut peer = unsure.tell("slave", &"0".repeat(40), -2);
    let asked = peer.read();
    assert_eq!(asked, ["PSYNC", &unsure.id, &(unsure.end + 1).to_string(), "FAILOVER"]);
    peer.send(format!("+CONTINUE {ID}\r\n").as_bytes());
    peer.wait_for_acknowledgement(unsure.end);
    unsure.check("slave", "no-failover");

    let mut unsure = Unsure::start("");
    let mut peer = unsure.tell("slave", &"0".repeat(40), -2);
    assert_eq!(peer.read().len(), 4);
    peer.send(b"-ERR PSYNC FAILOVER replid must match my replid.\r\n");
    assert_eq!(peer.read(), ["INFO", "replication"]);
    peer.send(b"$10\r\nrole:slave\r\n");
    unsure.check("master", "no-failover");
}

#[test]
fn a_target_that_is_the_primary_is_followed_if_it_has_everything() {
    let mut unsure = Unsure::start("");
    let (id, end) = (unsure.id.clone(), unsure.end);
    // It was promoted with less, as after a restart from an old dump.
    unsure.tell("master", &id, end as i64 - 1).wait_for_end();
    wait_for_log(&unsure.server, "the failover target has not all data");
    unsure.check("slave", "failover-in-progress");
    let mut peer = unsure.tell("master", &id, end as i64);
    assert_eq!(peer.read(), ["PSYNC", &id, &(end + 1).to_string()]);
    peer.send(format!("+CONTINUE {ID}\r\n").as_bytes());
    peer.wait_for_acknowledgement(end);
    unsure.check("slave", "no-failover");
    assert_eq!(info(&mut unsure.client, "master_replid2"), id);
}

#[test]
fn a_forced_failover_may_lose_what_the_target_has_not() {
    let mut unsure = Unsure::start(" TIMEOUT 60000 FORCE");
    let id = unsure.id.clone();
    let mut peer = unsure.tell("master", &id, unsure.end as i64 - 1);
    assert_eq!(peer.read()[0], "PSYNC");
    let whole = dump(&["SET key 1", "SET theirs 1"]);
    peer.send(&header(5, whole.len()));
    peer.send(&whole);
    peer.wait_for_acknowledgement(5);
    unsure.check("slave", "no-failover");
    unsure.client.check("GET theirs", "\"1\"");
}

#[test]
fn a_dump_in_answer_to_the_request_is_not_loaded() {
    let mut unsure = Unsure::start("");
    let mut peer = unsure.tell("slave", &"0".repeat(40), -2);
    assert_eq!(peer.read().len(), 4);
    peer.send(&header(5, 100));
    peer.wait_for_end();
    unsure.check("slave", "failover-in-progress");
    unsure.client.check("FAILOVER ABORT", "OK");
    unsure.check("master", "no-failover");
    unsure.client.check("FAILOVER ABORT", "(error) ERR No failover in progress.");
}
