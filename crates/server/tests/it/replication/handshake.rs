//! From PING to the first byte of the stream.

use super::fake::{CAPABLE, Fake};
use super::{end, info, primary, replica, wait_for_replicas, wait_until};

#[test]
fn a_replica_introduces_itself_and_gets_a_dump_with_a_mark() {
    let server = primary().start();
    let mut client = server.client();
    client.check("SET before 1", "OK");
    let mut fake = Fake::connect(&server);
    fake.check("PING", "+PONG");
    fake.check("REPLCONF listening-port 7777", "+OK");
    fake.check("REPLCONF ip-address elsewhere", "+OK");
    fake.check(CAPABLE, "+OK");
    fake.check("REPLCONF version 9.1.2", "+OK");
    fake.check("REPLCONF capa something-new", "+OK");
    fake.check("REPLCONF rdb-filter-only \"\"", "+OK");
    fake.send("PSYNC ? -1");
    let dump = fake.take_dump();
    assert!(dump.starts_with(b"VALKEY080"), "{}", dump.escape_ascii());
    assert!(dump.windows(6).any(|part| part == b"before"), "{}", dump.escape_ascii());
    assert_eq!(info(&mut client, "master_replid"), fake.id);
    assert_eq!(end(&mut client), fake.offset);
    assert_eq!(
        info(&mut client, "slave0"),
        "ip=elsewhere,port=7777,state=wait_bgsave,offset=0,lag=0"
    );
    fake.acknowledge();
    wait_until("it is online", || info(&mut client, "slave0").contains("state=online"));
    client.check(
        "ROLE",
        &format!("[\"master\", (integer) {0}, [[\"elsewhere\", \"7777\", \"{0}\"]]]", fake.offset),
    );
}

/// As the replica has no way to tell where the dump ends and the stream begins, but by the mark,
/// it asks for the stream by its first acknowledgement.
#[test]
fn nothing_of_the_stream_is_sent_before_the_first_acknowledgement() {
    let server = primary().args(["--threads", "1"]).start();
    let mut client = server.client();
    let mut fake = Fake::connect(&server);
    fake.check(CAPABLE, "+OK");
    fake.send("PSYNC ? -1");
    fake.take_dump();
    // One thread serves all, so that the replica had its turn before the last reply.
    for number in 0..200 {
        client.check(&format!("SET key {number}"), "OK");
    }
    assert!(!fake.has_more(), "something was sent: {}", fake.command());
    fake.acknowledge();
    assert_eq!(fake.command(), "SELECT 0");
    assert_eq!(fake.command(), "SET key 0");
    for number in 1..200 {
        assert_eq!(fake.command(), format!("SET key {number}"));
    }
    assert_eq!(fake.offset, end(&mut client));
}

#[test]
fn a_replica_that_knows_no_mark_gets_the_length_and_then_the_stream() {
    let server = primary().start();
    let mut client = server.client();
    client.check("SET before 1", "OK");
    for ask in ["PSYNC ? -1", "SYNC"] {
        let mut fake = Fake::connect(&server);
        fake.send(ask);
        let dump = if ask == "SYNC" { fake.take_payload() } else { fake.take_dump() };
        assert!(dump.windows(6).any(|part| part == b"before"));
        client.check("SET after 2", "OK");
        assert_eq!(fake.command(), "SELECT 0", "{ask}: it waits for no acknowledgement");
        assert_eq!(fake.command(), "SET after 2", "{ask}");
        drop(fake);
        wait_for_replicas(&mut client, 0);
    }
}

#[test]
fn the_stream_has_what_was_written_while_the_dump_was_made_once() {
    let server = primary().start();
    let mut client = server.client();
    for number in 0..500 {
        client.check(&format!("SET key:{number} 0"), "OK");
    }
    client.check("CONFIG SET rdb-key-save-delay 1000", "OK");
    for capa in [CAPABLE, "REPLCONF capa psync2"] {
        let mut fake = Fake::connect(&server);
        fake.check(capa, "+OK");
        client.check("SET counter 0", "OK");
        fake.send("PSYNC ? -1");
        wait_until("the dump has begun", || {
            client.info("persistence")["rdb_bgsave_in_progress"] == "1"
        });
        // The dump is of a moment among these.
        while client.info("persistence")["rdb_bgsave_in_progress"] == "1" {
            client.run("INCR counter");
        }
        fake.take_dump();
        fake.acknowledge();
        assert!(client.run("INCR counter").int() > Some(1));
        let (id, begin) = (fake.id.clone(), fake.offset);
        let increments = fake.commands(&mut client);
        assert!(increments.len() > 1, "{increments:?}");
        assert!(increments.iter().all(|command| command == "INCR counter"), "{increments:?}");
        assert_eq!(fake.offset, end(&mut client), "{id} from {begin}");
    }
}

#[test]
fn two_replicas_receive_the_same_bytes() {
    let server = primary().start();
    let mut client = server.client();
    let mut one = replica(&server);
    client.check("SET a 1", "OK");
    let mut two = replica(&server);
    wait_for_replicas(&mut client, 2);
    client.check("SELECT 9", "OK");
    client.check("SET b 2", "OK");
    one.catch_up(&mut client);
    two.catch_up(&mut client);
    assert_eq!(one.id, two.id);
    assert_eq!(one.offset, two.offset);
    let select = "*2\r\n$6\r\nSELECT\r\n$1\r\n9\r\n";
    assert!(two.received.starts_with(select.as_bytes()), "{}", two.received.escape_ascii());
    assert!(one.received.ends_with(&two.received), "{}", one.received.escape_ascii());
    drop(one);
    wait_for_replicas(&mut client, 1);
    client.check("SET c 3", "OK");
    assert_eq!(two.command(), "SET c 3");
}

#[test]
fn a_replica_must_authenticate_and_have_the_right_to_replicate() {
    let server = primary().args(["--requirepass", "secret"]).start();
    let mut fake = Fake::connect(&server);
    fake.check("PSYNC ? -1", "-NOAUTH Authentication required.");
    fake.check("REPLCONF ACK 1", "-NOAUTH Authentication required.");
    fake.check("AUTH secret", "+OK");
    fake.synchronize();
    let mut client = server.client();
    client.check("AUTH secret", "OK");
    client.check("ACL SETUSER reader on nopass ~* &* +@all -psync", "OK");
    let mut other = Fake::connect(&server);
    other.check("AUTH reader x", "+OK");
    other.send("PSYNC ? -1");
    let refusal = other.line();
    assert!(refusal.starts_with("-NOPERM "), "{refusal}");
    client.check("ACL SETUSER reader +psync", "OK");
    other.synchronize();
    wait_for_replicas(&mut client, 2);
    client.check("ACL DELUSER reader", "(integer) 1");
    other.rest();
    wait_for_replicas(&mut client, 1);
}

/// The pieces of a dump may come with long pauses between them.
#[test]
fn a_dump_with_pauses_is_whole() {
    let server = primary().args(["--rdbcompression", "no"]).start();
    let mut client = server.client();
    for number in 0..3 {
        let value = "x".repeat(200_000);
        assert!(client.call(&["SET", &format!("key:{number}"), &value]).is_ok());
    }
    client.check("CONFIG SET rdb-key-save-delay 1500000", "OK");
    for capa in [CAPABLE, "REPLCONF capa psync2"] {
        let mut fake = Fake::connect(&server);
        fake.check(capa, "+OK");
        fake.send("PSYNC ? -1");
        let dump = fake.take_dump();
        let folder = testkit::Medium::Disk.scratch();
        let file = folder.path().join("dump.rdb");
        std::fs::write(&file, dump).expect("written");
        crate::save::check_rdb(&file);
    }
}
