//! Replicas that misbehave: nothing panics, and others are served.

use testkit::{Client, Server};

use super::fake::{CAPABLE, Fake};
use super::{info, primary, replica, wait_for_replicas, wait_until};

/// Checks that the server serves, and has logged no panic.
#[track_caller]
fn check_well(server: &Server, client: &mut Client) {
    client.check("SET well 1", "OK");
    client.check("GET well", "\"1\"");
    let log = server.log();
    assert!(!log.contains("panic"), "{log}");
}

#[test]
fn odd_values_of_replconf_are_refused_or_ignored() {
    let server = primary().start();
    let mut client = server.client();
    let mut fake = Fake::connect(&server);
    let long = "x".repeat(300);
    for (line, expected) in [
        ("REPLCONF listening-port 65536", "-ERR Invalid port"),
        ("REPLCONF listening-port -1", "-ERR Invalid port"),
        ("REPLCONF listening-port x", "-ERR value is not an integer or out of range"),
        ("REPLCONF listening-port", "-ERR syntax error"),
        (
            "REPLCONF rdb-filter-only functions",
            "-ERR Unrecognized REPLCONF option: rdb-filter-only",
        ),
        ("REPLCONF nonsense 1", "-ERR Unrecognized REPLCONF option: nonsense"),
        ("REPLCONF rdb-only 7", "-ERR value is out of range, value must between 0 and 1"),
        ("REPLCONF", "+OK"),
        ("REPLCONF capa", "-ERR syntax error"),
        (
            &format!("REPLCONF ip-address {long}"),
            "-ERR REPLCONF ip-address provided by replica instance is too long",
        ),
        ("REPLCONF \"\" \"\"", "-ERR Unrecognized REPLCONF option: "),
    ] {
        fake.check(line, expected);
    }
    // Nobody who is no replica acknowledges.
    fake.send("REPLCONF ACK 1");
    fake.send("REPLCONF ACK x");
    fake.send("REPLCONF ACK 1 FACK");
    assert!(fake.line().starts_with('-'), "an option without its value");
    fake.send("REPLCONF GETACK *");
    fake.check("PING", "+PONG");
    fake.synchronize();
    wait_for_replicas(&mut client, 1);
    for line in [
        "REPLCONF ACK -1",
        "REPLCONF ACK 99999999999999999999",
        "REPLCONF ACK 18446744073709551615",
        "REPLCONF ACK 9223372036854775807 FACK 9223372036854775807",
        "REPLCONF ACK 1 FACK -1",
        "REPLCONF ACK 1 FACK x",
        "REPLCONF ACK 1 NONSENSE 2",
        "PSYNC ? -1",
        "SYNC",
        "REPLCONF ACK 5",
    ] {
        fake.send(line);
    }
    wait_until("it is heard", || info(&mut client, "slave0").contains("offset=92233720"));
    check_well(&server, &mut client);
    // None of it was answered.
    assert_eq!(fake.command(), "SELECT 0");
    assert_eq!(fake.command(), "SET well 1");
}

#[test]
fn a_command_that_has_a_reply_ends_the_link() {
    let server = primary().start();
    let mut client = server.client();
    let refused = "Replica can't interact with the keyspace";
    for (line, logged) in [
        ("PING", "'ping', disconnecting it: id="),
        ("XINFO HELP", "'xinfo|help', disconnecting it: id="),
        ("REPLCONF listening-port 1", "'replconf', disconnecting it: id="),
        ("GET a", &format!("to its replica: 'ERR {refused}' after processing the command 'get'")),
        ("SET by-replica 1", "'set', disconnecting it: id="),
    ] {
        let mut fake = replica(&server);
        wait_for_replicas(&mut client, 1);
        fake.send(line);
        wait_until("it is not ended", || server.log().contains(logged));
        wait_for_replicas(&mut client, 0);
    }
    client.check("EXISTS by-replica", "(integer) 0");
    check_well(&server, &mut client);
}

#[test]
fn commands_that_would_answer_do_not_get_into_the_stream() {
    let server = primary().start();
    let mut client = server.client();
    for lines in [
        &["CLIENT REPLY ON", "PING"][..],
        &["SUBSCRIBE a", "PING"],
        &["MONITOR", "PING"],
        &["BLPOP none 0"],
        &["MULTI", "PING", "EXEC"],
        &["HELLO 3", "CLIENT TRACKING ON", "GET key"],
        &["QUIT"],
        &["RESET"],
        &["DEBUG SLEEP 0"],
        &["WAIT 5 1"],
    ] {
        let mut fake = replica(&server);
        wait_until("it is online", || client.run("WAIT 1 1").int() == Some(1));
        for line in lines {
            let _ = fake.try_send(format!("{line}\r\n").as_bytes());
        }
        // It may be heard until it is closed.
        assert!(client.run("PUBLISH a message").int().is_some_and(|heard| heard <= 1));
        client.check("SET key 1", "OK");
        // Either it is closed, or it receives commands and nothing else.
        while let Ok(words) = fake.try_command() {
            if words == [b"SET".as_slice(), b"key", b"1"] {
                break;
            }
            let name = String::from_utf8_lossy(&words[0]).into_owned();
            assert!(
                ["SELECT", "REPLCONF", "PUBLISH"].contains(&name.as_str()),
                "{lines:?}: {name}"
            );
        }
        drop(fake);
        wait_for_replicas(&mut client, 0);
    }
    check_well(&server, &mut client);
}

#[test]
fn a_flood_of_synchronizations_holds_up_nobody() {
    let server = primary().start();
    let mut client = server.client();
    for number in 0..100 {
        client.check(&format!("SET key:{number} x"), "OK");
    }
    // One connection that asks again and again, and many that ask at once and take nothing.
    let mut one = Fake::connect(&server);
    one.check(CAPABLE, "+OK");
    for _ in 0..10_000 {
        one.try_send(b"PSYNC ? -1\r\n").expect("it is sent");
    }
    let mut many: Vec<Fake> = (0..50).map(|_| Fake::connect(&server)).collect();
    for fake in &mut many {
        fake.send(CAPABLE);
        fake.send("PSYNC ? -1");
    }
    check_well(&server, &mut client);
    one.take_dump();
    one.acknowledge();
    client.check("SET last 1", "OK");
    one.commands(&mut client);
    // Each gets its dump in the end.
    for fake in many.iter_mut().take(8) {
        assert_eq!(fake.line(), "+OK");
        fake.take_dump();
    }
    drop(many);
    drop(one);
    wait_for_replicas(&mut client, 0);
    // The threads of the dumps are gone.
    wait_until("no dump is under way", || {
        client.info("persistence")["rdb_bgsave_in_progress"] == "0"
    });
    replica(&server);
    check_well(&server, &mut client);
}

#[test]
fn garbage_ends_the_connection_of_the_replica_alone() {
    let server = primary().start();
    let mut client = server.client();
    let mut good = replica(&server);
    let inline = vec![b'x'; 100 << 20];
    let bulk = [b"*1\r\n$999999999999\r\n".as_slice(), &[b'y'; 100]].concat();
    let many = b"*2147483648\r\n".to_vec();
    for (number, garbage) in
        [inline, bulk, many, b"*1\r\nxyz\r\n".to_vec(), vec![0xff; 1 << 17]].iter().enumerate()
    {
        let mut fake = replica(&server);
        wait_for_replicas(&mut client, 2);
        // It may be closed before all of it is sent.
        let _ = fake.try_send(garbage);
        wait_until(&format!("garbage {number} ends the connection"), || {
            info(&mut client, "connected_slaves") == "1"
        });
        check_well(&server, &mut client);
    }
    client.check("SET last 1", "OK");
    let commands = good.commands(&mut client);
    assert_eq!(commands.last().map(String::as_str), Some("SET last 1"));
}

/// A part of a command stays in the buffer, and a whole one is obeyed however it is cut.
#[test]
fn acknowledgements_in_pieces_are_understood() {
    let server = primary().start();
    let mut client = server.client();
    let mut fake = replica(&server);
    let acknowledge = b"*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$6\r\n123456\r\n";
    for byte in acknowledge {
        fake.try_send(&[*byte]).expect("it is sent");
        client.check("SET a 1", "OK");
    }
    wait_until("it is understood", || info(&mut client, "slave0").contains("offset=123456"));
    fake.catch_up(&mut client);
}
