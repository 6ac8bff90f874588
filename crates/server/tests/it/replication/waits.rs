//! WAIT and WAITAOF: clients that wait until replicas have what they wrote.

use testkit::{Client, Launch, Server};

use super::fake::Fake;
use super::{primary, quiet, replica, wait_for_replicas, wait_until};

const GET_ACK: &str = "REPLCONF GETACK *";

/// Sends a command that waits, and waits until it does.
#[track_caller]
fn begin(server: &Server, client: &mut Client, command: &str) {
    let mut other = server.client();
    let blocked = |other: &mut Client| -> u64 {
        other.info("clients")["blocked_clients"].parse().expect("a number")
    };
    let before = blocked(&mut other);
    client.send(&command.split(' ').collect::<Vec<_>>()).expect("it is sent");
    wait_until("it waits", || blocked(&mut other) > before);
}

/// Receives the stream up to the question how far the replica is.
#[track_caller]
fn until_asked(fake: &mut Fake) {
    while fake.command() != GET_ACK {}
}

#[test]
fn without_replicas_a_wait_ends_at_its_timeout_or_needs_none() {
    let server = primary().start();
    let mut client = server.client();
    client.check("SET a 1", "OK");
    client.check("WAIT 0 0", "(integer) 0");
    client.check("WAIT -1 0", "(integer) 0");
    client.check("WAIT 1 1", "(integer) 0");
    client.check("WAITAOF 0 1 1", "[(integer) 0, (integer) 0]");
    client.check("WAIT 1 -1", "(error) ERR timeout is negative");
    client.check("WAIT x 1", "(error) ERR value is not an integer or out of range");
    client.check("WAITAOF 0 -1 1", "(error) ERR value is out of range, must be positive");
    // A client that wrote nothing waits for nothing, if there are replicas.
    let _replica = replica(&server);
    wait_until("it is online", || server.client().run("WAIT 1 1").int() == Some(1));
    server.client().check("WAIT 1 0", "(integer) 1");
}

#[test]
fn a_wait_ends_when_as_many_replicas_have_the_write() {
    let server = primary().start();
    let mut client = server.client();
    let (mut one, mut two) = (replica(&server), replica(&server));
    wait_for_replicas(&mut client, 2);
    for wanted in ["1", "2"] {
        client.check("INCR a", &format!("(integer) {wanted}"));
        begin(&server, &mut client, &format!("WAIT {wanted} 0"));
        until_asked(&mut one);
        let before = one.offset - GET_ACK_LEN;
        // What it had before it was asked is enough.
        one.send(&format!("REPLCONF ACK {before}"));
        if wanted == "2" {
            // One is not enough: another client sees that the first waits still.
            assert_eq!(server.client().info("clients")["blocked_clients"], "1");
        }
        until_asked(&mut two);
        two.acknowledge();
        let count = client.receive().expect("a reply").int().expect("a number");
        assert!(count >= wanted.parse().expect("a number"), "{count}");
    }
    // Both have it: no wait.
    client.check("WAIT 2 0", "(integer) 2");
    client.check("WAIT 3 1", "(integer) 2");
    // They do not have what is written next.
    client.check("INCR a", "(integer) 3");
    client.check("WAIT 1 1", "(integer) 0");
    server.client().check("WAIT 2 1", "(integer) 2");
}

/// Bytes of the question how far a replica is.
const GET_ACK_LEN: u64 = 37;

#[test]
fn a_wait_is_for_the_last_write_of_its_client() {
    let server = primary().start();
    let mut client = server.client();
    let mut fake = replica(&server);
    client.check("SET a 1", "OK");
    fake.catch_up(&mut client);
    let has = fake.offset;
    server.client().check("SET b 1", "OK");
    fake.catch_up(&mut client);
    fake.send(&format!("REPLCONF ACK {}", has - 1));
    client.check("WAIT 1 1", "(integer) 0");
    fake.send(&format!("REPLCONF ACK {has}"));
    client.check("WAIT 1 0", "(integer) 1");
    // In a transaction, in a script, as a pipeline, of a blocked client.
    for lines in [
        &["MULTI", "INCR n", "EXEC"][..],
        &["EVAL return(redis.call('incr','n')) 0"],
        &["INCR n", "GET n"],
        &["LPUSH l x", "BLPOP l 0"],
    ] {
        let requests: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
        client.pipeline(&requests).expect("replies");
        client.check("WAIT 1 1", "(integer) 0");
        fake.catch_up(&mut client);
        fake.acknowledge();
        client.check("WAIT 1 0", "(integer) 1");
    }
}

#[test]
fn a_waiting_client_can_be_let_go() {
    let server = primary().start();
    let (mut client, mut admin) = (server.client(), server.client());
    let mut fake = replica(&server);
    let id = client.run("CLIENT ID").int().expect("an ID");
    client.check("SET a 1", "OK");
    begin(&server, &mut client, "WAIT 1 0");
    admin.check(&format!("CLIENT UNBLOCK {id}"), "(integer) 1");
    assert_eq!(client.receive().expect("a reply").to_string(), "(integer) 0");
    begin(&server, &mut client, "WAIT 1 0");
    admin.check(&format!("CLIENT UNBLOCK {id} ERROR"), "(integer) 1");
    let reply = client.receive().expect("a reply").to_string();
    assert_eq!(reply, "(error) UNBLOCKED client unblocked via CLIENT UNBLOCK");
    begin(&server, &mut client, "WAITAOF 0 1 0");
    admin.check(&format!("CLIENT UNBLOCK {id}"), "(integer) 1");
    assert_eq!(client.receive().expect("a reply").to_string(), "[(integer) 0, (integer) 0]");
    // One that goes away leaves nothing behind.
    begin(&server, &mut client, "WAIT 1 0");
    drop(client);
    wait_until("it is gone", || admin.info("clients")["blocked_clients"] == "0");
    fake.catch_up(&mut admin);
    fake.acknowledge();
    wait_until("it is noted", || {
        super::info(&mut admin, "slave0").contains(&format!("offset={}", fake.offset))
    });
}

#[test]
fn in_a_transaction_nothing_waits() {
    let server = primary().start();
    let mut client = server.client();
    let _fake = replica(&server);
    wait_for_replicas(&mut client, 1);
    for line in ["SET a 0", "MULTI", "SET a 1", "WAIT 1 0", "WAITAOF 0 1 0"] {
        client.run(line);
    }
    client.check("EXEC", "[OK, (integer) 0, [(integer) 0, (integer) 0]]");
    let script = "return redis.pcall('WAIT', '1', '0')";
    let reply = client.call(&["EVAL", script, "0"]).to_string();
    assert!(reply.contains("not allowed from script"), "{reply}");
}

#[test]
fn waitaof_counts_what_replicas_have_durably() {
    for (launch, here) in [
        (Launch::perdura_aof("everysec"), 1),
        (Launch::perdura_journal("everysec"), 1),
        (Launch::perdura_pmem(), 1),
    ] {
        let server = quiet(launch).start();
        let mut client = server.client();
        let mut fake = replica(&server);
        client.check("SET a 1", "OK");
        fake.catch_up(&mut client);
        fake.acknowledge();
        client.check("WAIT 1 0", "(integer) 1");
        // It may have been synced here meanwhile.
        let reply = client.run("WAITAOF 0 1 1");
        assert_eq!(reply.items()[1].int(), Some(0), "{reply}");
        begin(&server, &mut client, "WAITAOF 1 1 0");
        until_asked(&mut fake);
        fake.send(&format!("REPLCONF ACK {0} FACK {0}", fake.offset));
        let reply = client.receive().expect("a reply").to_string();
        assert_eq!(reply, format!("[(integer) {here}, (integer) 1]"));
        client.check("WAITAOF 1 1 0", &format!("[(integer) {here}, (integer) 1]"));
    }
}
