//! `perdura ping`.

use std::time::Duration;

use testkit::{Launch, free_port};

use crate::common::check;
use crate::transfer::perdura;

#[test]
fn a_server_that_serves_is_recognized() {
    let server = Launch::perdura_volatile().start();
    let at = server.address().to_string();
    check(&perdura(&["ping", &at]), 0, &["+PONG"]);
    server.client().check("CONFIG SET requirepass secret", "OK");
    check(&perdura(&["ping", &at]), 0, &["-NOAUTH"]);
    let nobody = format!("127.0.0.1:{}", free_port());
    check(&perdura(&["ping", &nobody]), 2, &["Connection refused"]);
    check(&perdura(&["ping", "no address"]), 2, &["perdura: no address"]);
}

#[test]
fn a_server_that_refuses_writes_serves() {
    let launch = Launch::perdura_volatile().args(["--save", "3600 1000000"]);
    let server = launch.longest_file(16).start();
    let mut client = server.client();
    client.check(&format!("SET k {}", "v".repeat(60_000)), "OK");
    client.check("CONFIG SET rdbcompression no", "OK");
    client.check("BGSAVE", "Background saving started");
    while client.info("persistence")["rdb_last_bgsave_status"] != "err" {
        std::thread::sleep(Duration::from_millis(1));
    }
    client.check("STRLEN k", "(integer) 60000");
    check(&perdura(&["ping", &server.address().to_string()]), 0, &["-MISCONF"]);
}

#[test]
fn the_time_for_an_answer_is_limited() {
    for timeout in ["0", "86401", "18446744073709551615", "x"] {
        let refused = perdura(&["ping", "127.0.0.1:1", "--timeout", timeout]);
        assert_eq!(refused.status.code(), Some(2), "{timeout}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("--timeout"), "{refused:?}");
    }
    let nobody = format!("127.0.0.1:{}", free_port());
    check(&perdura(&["ping", &nobody, "--timeout", "86400"]), 2, &["Connection refused"]);
}

#[test]
fn a_server_that_does_not_answer_is_not_waited_for() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address").to_string();
    check(&perdura(&["ping", &at, "--timeout", "1"]), 2, &[&at]);
}

#[test]
fn a_server_that_is_full_does_not_serve() {
    let server = Launch::perdura_volatile().args(["--maxclients", "1"]).start();
    // The connection that saw the server start may still be the only one allowed.
    let _client = loop {
        let mut client = server.client();
        match client.try_call(&["PING"]) {
            Ok(reply) if reply.to_string() == "PONG" => break client,
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let at = server.address().to_string();
    check(&perdura(&["ping", &at]), 1, &["-ERR max number of clients reached"]);
}
