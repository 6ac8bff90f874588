//! Primaries that cannot be followed: the log says why, the server serves on with what it has, and
//! follows as soon as that is possible.

use std::time::{Duration, Instant};

use testkit::{Client, Server, free_port};

use super::fake::Fake;
use super::proxy::Proxy;
use super::{check_equal, count_in_log, follow, info, redis, volatile};
use super::{wait_for_link, wait_for_log};

/// Starts a server with a key of its own.
fn start() -> (Server, Client) {
    let server = volatile().start();
    let mut client = server.client();
    client.check("SET own 1", "OK");
    (server, client)
}

/// Checks that it serves what it had, and no writes.
#[track_caller]
fn check_serves(client: &mut Client) {
    client.check("GET own", "\"1\"");
    client.check("DBSIZE", "(integer) 1");
    assert!(client.run("SET a 1").to_string().contains("READONLY"));
    assert_eq!(info(client, "master_link_status"), "down");
}

#[test]
fn a_closed_port() {
    let (server, mut client) = start();
    let port = free_port();
    follow(&mut client, port);
    wait_for_log(&server, "ended: Connection refused");
    check_serves(&mut client);
    // Then somebody listens there.
    let primary = redis().start();
    let mut other = primary.client();
    other.check("SET theirs 1", "OK");
    let _proxy = Proxy::at(port, primary.port());
    wait_for_link(&mut client);
    check_equal(&mut other, &mut client);
}

#[test]
fn a_host_that_is_not_known() {
    let (server, mut client) = start();
    client.check("REPLICAOF no-such-host.invalid 6379", "OK");
    wait_for_log(&server, "The link to primary no-such-host.invalid:6379 ended: ");
    check_serves(&mut client);
    client.check("REPLICAOF NO ONE", "OK");
    client.check("SET a 1", "OK");
}

#[test]
fn itself() {
    let (server, mut client) = start();
    follow(&mut client, server.port());
    wait_for_log(&server, "cannot serve replicas now: NOMASTERLINK");
    check_serves(&mut client);
    client.check("REPLICAOF NO ONE", "OK");
    client.check("SET a 1", "OK");
    client.check("MGET own a", "[\"1\", \"1\"]");
}

#[test]
fn a_server_that_is_no_redis() {
    let (server, mut client) = start();
    let fake = Fake::listen();
    follow(&mut client, fake.port());
    let mut peer = fake.accept();
    peer.send(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    peer.wait_for_end();
    wait_for_log(&server, "is none that a primary gives: HTTP/1.1 400 Bad Request");
    // A line without an end is not read for ever.
    let mut peer = fake.accept();
    let endless = vec![b'x'; 1 << 20];
    while peer.try_send(&endless).is_ok() {}
    wait_for_log(&server, "has no end of line in its first 64 KiB");
    // One that closes at once.
    drop(fake.accept());
    check_serves(&mut client);
}

#[test]
fn each_try_is_later_than_the_one_before() {
    let (_server, mut client) = start();
    let fake = Fake::listen();
    follow(&mut client, fake.port());
    drop(fake.accept());
    let began = Instant::now();
    for _ in 0..6 {
        drop(fake.accept());
    }
    // 20, 40, ... 640 ms: more if there is load, never less.
    assert!(began.elapsed() > Duration::from_millis(1200), "{:?}", began.elapsed());
    // Another primary is tried at once.
    let other = Fake::listen();
    follow(&mut client, other.port());
    drop(other.accept());
    check_serves(&mut client);
}

#[test]
fn a_primary_that_is_silent_for_longer_than_is_configured_now() {
    let (server, mut client) = start();
    let fake = Fake::listen();
    follow(&mut client, fake.port());
    let dump = super::fake::dump(&["SET a 1"]);
    let mut peer = fake.synchronize(&dump, 10);
    assert_eq!(info(&mut client, "master_link_status"), "up");
    // It was 60 when the link began.
    client.check("CONFIG SET repl-timeout 1", "OK");
    let began = Instant::now();
    peer.wait_for_end();
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    wait_for_log(&server, "ended: the primary says nothing");
}

#[test]
fn a_primary_that_wants_a_password() {
    for primary in [redis(), volatile()] {
        let primary = primary.args(["--requirepass", "secret"]).start();
        let mut owner = primary.client();
        owner.check("AUTH secret", "OK");
        owner.check("SET theirs 1", "OK");
        let (server, mut client) = start();
        follow(&mut client, primary.port());
        wait_for_log(&server, "Unable to AUTH to MASTER: NOAUTH");
        check_serves(&mut client);
        client.check("CONFIG SET masterauth wrong", "OK");
        wait_for_log(&server, "Unable to AUTH to MASTER: WRONGPASS");
        check_serves(&mut client);
        client.check("CONFIG SET masterauth secret", "OK");
        wait_for_link(&mut client);
        check_equal(&mut owner, &mut client);
    }
}

#[test]
fn a_primary_with_a_user_for_replicas() {
    for primary in [redis(), volatile()] {
        let primary = primary.start();
        let mut owner = primary.client();
        owner.check("SET theirs 1", "OK");
        owner.check("ACL SETUSER replica on >secret +psync +replconf +ping", "OK");
        owner.check("ACL SETUSER nobody on >secret +ping", "OK");
        owner.check("ACL SETUSER default off", "OK");
        let (server, mut client) = start();
        client.check("CONFIG SET masteruser nobody masterauth secret", "OK");
        follow(&mut client, primary.port());
        wait_for_log(&server, "Unable to AUTH to MASTER: NOPERM");
        check_serves(&mut client);
        client.check("CONFIG SET masteruser replica", "OK");
        wait_for_link(&mut client);
        check_equal(&mut owner, &mut client);
    }
}

#[test]
fn a_primary_that_is_not_ready() {
    let (server, mut client) = start();
    let fake = Fake::listen();
    follow(&mut client, fake.port());
    for error in
        ["LOADING Redis is loading the dataset in memory", "MASTERDOWN Link with MASTER is down"]
    {
        let (mut peer, _) = fake.accept_psync();
        peer.send(format!("-{error}\r\n").as_bytes());
        peer.wait_for_end();
        wait_for_log(&server, &format!("the primary cannot serve replicas now: {error}"));
    }
    let (mut peer, _) = fake.accept_psync();
    peer.send(b"-ERR unknown command 'PSYNC'\r\n");
    peer.wait_for_end();
    wait_for_log(&server, "the primary does not know PSYNC");
    check_serves(&mut client);
    assert_eq!(count_in_log(&server, "Flushing old data"), 0);
}
