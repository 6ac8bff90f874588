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
        let second = format!("master_replid2:{second}\r\nsecond_repl_offset:{}\r\n", until + 1);
        self.tell_more(role, &second)
    }

    /// Waits for the next connection, and says that this is a replica that is so far.
    fn tell_replica(&mut self, end: u64) -> Peer {
        self.tell_more("slave", &format!("master_repl_offset:{end}\r\n"))
    }

    /// Waits for the next connection, and tells it a role and other lines.
    fn tell_more(&mut self, role: &str, more: &str) -> Peer {
        let mut peer = self.fake.accept();
        peer.introduce("INFO");
        send_text(
            &mut peer,
            &format!("# Replication\r\nrole:{role}\r\nmaster_replid:{ID}\r\n{more}"),
        );
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

fn send_text(peer: &mut Peer, text: &str) {
    peer.send(format!("${}\r\n{text}\r\n", text.len()).as_bytes());
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
        assert_eq!(peer.read(), ["INFO", "keyspace"]);
        send_text(&mut peer, "# Keyspace\r\n");
        peer.wait_for_end();
        unsure.check("master", "no-failover");
        wait_for_log(&unsure.server, "aborted: Failover target is a primary without data");
        unsure.client.check("SET more 1", "OK");
    }
}

#[test]
fn a_primary_with_data_may_be_the_target_whatever_its_history() {
    for more in ["", " TIMEOUT 60000 FORCE"] {
        let mut unsure = Unsure::start(more);
        let mut peer = unsure.tell("master", &"0".repeat(40), -2);
        assert_eq!(peer.read(), ["INFO", "keyspace"]);
        send_text(&mut peer, "# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=0\r\n");
        peer.wait_for_end();
        wait_for_log(&unsure.server, "the failover target is a primary with data of another");
        unsure.check("slave", "failover-in-progress");
        unsure.tell_more("master", "master_repl_offset:7\r\n").wait_for_end();
        unsure.tell("master", ID, 1 << 40).wait_for_end();
        unsure.check("slave", "failover-in-progress");
        unsure.client.check("FAILOVER ABORT", "OK");
        unsure.check("master", "no-failover");
        unsure.client.check("SET more 1", "OK");
    }
}

#[test]
fn a_target_that_was_promoted_and_has_restarted_is_followed() {
    let mut unsure = Unsure::start("");
    let (id, end) = (unsure.id.clone(), unsure.end);
    let lines = |until: u64| {
        format!(
            "master_repl_offset:{}\r\nmaster_replid2:{ID}\r\nsecond_repl_offset:{}\r\n\
             master_replid3:{id}\r\nthird_repl_offset:{}\r\n",
            end + 20,
            end + 11,
            until + 1
        )
    };
    unsure.tell_more("master", &lines(end - 1)).wait_for_end();
    wait_for_log(&unsure.server, "the failover target has not all data");
    unsure.check("slave", "failover-in-progress");
    let mut peer = unsure.tell_more("master", &lines(end));
    assert_eq!(peer.read(), ["PSYNC", &id, &(end + 1).to_string()]);
    let whole = dump(&["SET key 1", "SET theirs 1"]);
    peer.send(&header(end + 20, whole.len()));
    peer.send(&whole);
    peer.wait_for_acknowledgement(end + 20);
    unsure.check("slave", "no-failover");
    unsure.client.check("GET theirs", "\"1\"");
}

#[test]
fn a_target_that_is_a_replica_is_asked_again() {
    let mut unsure = Unsure::start("");
    let mut peer = unsure.tell_replica(unsure.end);
    let asked = peer.read();
    assert_eq!(asked, ["PSYNC", &unsure.id, &(unsure.end + 1).to_string(), "FAILOVER"]);
    peer.send(format!("+CONTINUE {ID}\r\n").as_bytes());
    peer.wait_for_acknowledgement(unsure.end);
    unsure.check("slave", "no-failover");

    let mut unsure = Unsure::start("");
    let mut peer = unsure.tell_replica(unsure.end);
    assert_eq!(peer.read().len(), 4);
    peer.send(b"-ERR PSYNC FAILOVER replid must match my replid.\r\n");
    assert_eq!(peer.read(), ["INFO", "replication"]);
    peer.send(b"$10\r\nrole:slave\r\n");
    unsure.check("master", "no-failover");
}

#[test]
fn a_replica_that_has_lost_data_is_not_asked() {
    let mut unsure = Unsure::start("");
    unsure.tell_replica(unsure.end - 1).wait_for_end();
    unsure.check("master", "no-failover");
    wait_for_log(&unsure.server, "aborted: Failover target has lost a part of the stream");

    let mut unsure = Unsure::start(" TIMEOUT 60000 FORCE");
    assert_eq!(unsure.tell_replica(unsure.end - 1).read().len(), 4);
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
    let mut peer = unsure.tell_replica(unsure.end);
    assert_eq!(peer.read().len(), 4);
    peer.send(&header(5, 100));
    peer.wait_for_end();
    unsure.check("slave", "failover-in-progress");
    unsure.client.check("FAILOVER ABORT", "OK");
    unsure.check("master", "no-failover");
    unsure.client.check("FAILOVER ABORT", "(error) ERR No failover in progress.");
}
