//! What clients of a replica see: refused writes, old data, and the changes that arrive.

use testkit::{Client, Server};

use super::{check_equal, follow, redis, start_replica, volatile};
use super::{wait_for_link, wait_for_reply, wait_until};

const READONLY: &str = "(error) READONLY You can't write against a read only replica.";
const MASTERDOWN: &str =
    "(error) MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";

/// Starts a primary with some data, and a replica of it.
fn pair() -> (Server, Server) {
    let primary = volatile().start();
    primary.client().check("MSET a 1 b 2", "OK");
    let replica = start_replica(volatile(), &primary);
    (primary, replica)
}

/// Returns the replies of redis-server as a replica and of Perdura as one, to the same lines. Both
/// follow a primary, or a port where nobody listens.
fn both(prepare: &[&str], lines: &[&str], is_linked: bool) -> Vec<[String; 2]> {
    let primary = volatile().start();
    primary.client().check("MSET a 1 b 2", "OK");
    let port = if is_linked { primary.port() } else { testkit::free_port() };
    let replies = [redis(), volatile()].map(|launch| {
        let server = launch.start();
        let mut client = server.client();
        for line in prepare {
            client.check(line, "OK");
        }
        follow(&mut client, port);
        if is_linked {
            wait_for_link(&mut client);
        }
        lines.iter().map(|line| client.run(line).to_string()).collect::<Vec<_>>()
    });
    let [theirs, ours] = replies;
    theirs.into_iter().zip(ours).map(|(theirs, ours)| [theirs, ours]).collect()
}

#[track_caller]
fn check_like_redis(prepare: &[&str], lines: &[&str], is_linked: bool) {
    for (line, [theirs, ours]) in lines.iter().zip(both(prepare, lines, is_linked)) {
        assert_eq!(ours, theirs, "reply to {line}");
    }
}

#[test]
fn writes_are_refused_as_redis_does() {
    let lines = [
        "SET a 2",
        "DEL nosuch",
        "GETEX a",
        "EXPIRE a 0",
        "FLUSHALL",
        "SWAPDB 0 1",
        "PFCOUNT nosuch",
        "SORT l STORE m",
        "SORT_RO l",
        "GEORADIUS g 1 1 1 km",
        "BLPOP l 0",
        "XREADGROUP GROUP g c STREAMS x >",
        "XREAD STREAMS x 0",
        "RESTORE r 0 x",
        "PUBLISH c m",
        "SPUBLISH c m",
        "EVAL \"return redis.call('get', 'a')\" 0",
        "EVAL \"return redis.call('set', 'a', '2')\" 0",
        "EVAL \"return redis.pcall('set', 'a', '2')\" 0",
        "EVAL_RO \"return redis.call('get', 'a')\" 0",
        "EVAL \"#!lua\\nreturn 1\" 0",
        "EVAL \"#!lua flags=no-writes\\nreturn 1\" 0",
        "FUNCTION LOAD \"#!lua name=l\\nredis.register_function('f', function() return 1 end)\"",
        "FUNCTION FLUSH",
        "SCRIPT LOAD \"return 1\"",
        "MULTI",
        "GET a",
        "SET a 2",
        "EXEC",
        "MULTI",
        "GET a",
        "EXEC",
        "WAIT 0 0",
        "GET a",
        "DBSIZE",
        "COPY a b",
        "OBJECT FREQ nosuch",
        "SPOP s",
        "READONLY",
    ];
    check_like_redis(&[], &lines, true);
}

#[test]
fn a_transaction_that_ends_a_primary_writes_as_redis_does() {
    let closed = testkit::free_port();
    let lines = [
        "SET a 1",
        "MULTI",
        "SET a 2",
        &format!("SLAVEOF 127.0.0.1 {closed}"),
        "SET b 2",
        "EXEC",
        "MGET a b",
        "SET a 3",
    ];
    let replies = [redis(), volatile()].map(|launch| {
        let server = launch.start();
        let mut client = server.client();
        lines.map(|line| client.run(line).to_string())
    });
    assert_eq!(replies[1], replies[0]);
    // Its replicas do not miss what it wrote.
    let (primary, other) = (volatile().start(), volatile().start());
    other.client().check("SET theirs 1", "OK");
    let replica = start_replica(volatile(), &primary);
    let mut client = primary.client();
    client.check("MULTI", "OK");
    client.check("SET a 1", "QUEUED");
    client.check(&format!("SLAVEOF 127.0.0.1 {}", other.port()), "QUEUED");
    client.check("EXEC", "[OK, OK]");
    wait_for_reply(&mut replica.client(), "KEYS *", "[\"theirs\"]");
    check_equal(&mut other.client(), &mut replica.client());
}

#[test]
fn old_data_is_hidden_if_that_is_configured_as_redis_does() {
    let lines = [
        "GET a",
        "SET a 1",
        "PING",
        "ECHO x",
        "INFO nosuch",
        "CONFIG GET replica-serve-stale-data",
        "MULTI",
        "GET a",
        "EXEC",
        "MULTI",
        "EXEC",
        "EVAL \"return 1\" 0",
        "EVAL \"#!lua\\nreturn 1\" 0",
        "EVAL \"#!lua flags=no-writes\\nreturn 1\" 0",
        "EVAL \"#!lua flags=allow-stale\\nreturn 1\" 0",
        "EVAL \"#!lua flags=allow-stale,no-writes\\nreturn redis.call('get', 'a')\" 0",
        "EVAL \"#!lua flags=allow-stale,no-writes\\nreturn redis.pcall('get', 'a')\" 0",
        "EVAL \"#!lua flags=allow-stale,no-writes\\nreturn redis.call('publish', 'a', 'b')\" 0",
        "SUBSCRIBE c",
        "UNSUBSCRIBE c",
        "PUBLISH c m",
        "SELECT 1",
        "CLIENT SETNAME x",
        "COMMAND COUNT x",
        "ACL WHOAMI",
        "WAIT 0 0",
        "KEYS *",
        "DBSIZE",
        "REPLCONF ack",
        "PSYNC ? -1",
    ];
    check_like_redis(&["CONFIG SET replica-serve-stale-data no"], &lines, false);
}

#[test]
fn old_data_is_hidden_while_the_link_is_down() {
    let (mut primary, replica) = pair();
    let mut reader = replica.client();
    reader.check("CONFIG SET replica-serve-stale-data no", "OK");
    reader.check("GET a", "\"1\"");
    primary.kill();
    wait_for_reply(&mut reader, "GET a", MASTERDOWN);
    let lines: Vec<Vec<&str>> = (0..16).map(|_| vec!["GET", "a"]).collect();
    for reply in reader.pipeline(&lines).expect("replies") {
        assert_eq!(reply.to_string(), MASTERDOWN);
    }
    reader.check("CONFIG SET replica-serve-stale-data yes", "OK");
    reader.check("GET a", "\"1\"");
    reader.check("CONFIG SET replica-serve-stale-data no", "OK");
    reader.check("GET a", MASTERDOWN);
    reader.check("REPLICAOF NO ONE", "OK");
    reader.check("GET a", "\"1\"");
}

#[test]
fn a_write_among_many_reads_is_refused_alone() {
    let (_primary, replica) = pair();
    let mut reader = replica.client();
    for place in 0..16 {
        let lines: Vec<Vec<&str>> = (0..16)
            .map(|n| if n == place { vec!["SET", "a", "2"] } else { vec!["GET", "a"] })
            .collect();
        for (n, reply) in reader.pipeline(&lines).expect("replies").iter().enumerate() {
            let expected = if n == place { READONLY } else { "\"1\"" };
            assert_eq!(reply.to_string(), expected, "reply {n} of the one with a write at {place}");
        }
    }
    let writes: Vec<Vec<&str>> = (0..16).map(|_| vec!["SET", "a", "2"]).collect();
    for reply in reader.pipeline(&writes).expect("replies") {
        assert_eq!(reply.to_string(), READONLY);
    }
    reader.check("GET a", "\"1\"");
}

#[test]
fn a_replica_that_is_not_read_only_keeps_its_writes_to_itself() {
    let (primary, replica) = pair();
    let last = start_replica(volatile(), &replica);
    let (mut client, mut reader) = (primary.client(), replica.client());
    reader.check("CONFIG SET replica-read-only no", "OK");
    let before = super::info(&mut reader, "master_repl_offset");
    reader.check("SET own 1", "OK");
    reader.check("EVAL \"return redis.call('set', 'own:2', '2')\" 0", "OK");
    reader.check("MGET own own:2", "[\"1\", \"2\"]");
    assert_eq!(super::info(&mut reader, "master_repl_offset"), before);
    client.check("SET a 3", "OK");
    wait_for_reply(&mut last.client(), "GET a", "\"3\"");
    last.client().check("EXISTS own own:2", "(integer) 0");
    client.check("EXISTS own own:2", "(integer) 0");
    reader.check("GET own", "\"1\"");
    reader.check("CONFIG SET replica-read-only yes", "OK");
    reader.check("SET own 2", READONLY);
}

#[test]
fn clients_that_wait_are_told_when_the_role_changes() {
    for launch in [redis(), volatile()] {
        let primary = launch.start();
        primary.client().check("SET a 1", "OK");
        let server = volatile().start();
        let mut client = server.client();
        let waits = [
            &["BLPOP", "l", "0"][..],
            &["BZPOPMIN", "z", "0"],
            &["XREAD", "BLOCK", "0", "STREAMS", "x", "$"],
            &["WAIT", "1", "0"],
        ];
        let mut waiting: Vec<Client> = waits
            .iter()
            .map(|words| {
                let mut waiting = server.client();
                waiting.send(words).expect("sent");
                waiting
            })
            .collect();
        wait_until("they do not wait", || client.info("clients")["blocked_clients"] == "4");
        follow(&mut client, primary.port());
        for waiting in &mut waiting {
            let reply = waiting.receive().expect("a reply").to_string();
            let expected = "(error) UNBLOCKED force unblock from blocking operation, \
                            instance state changed (master -> replica?)";
            assert_eq!(reply, expected);
        }
        wait_for_link(&mut client);
        check_equal(&mut primary.client(), &mut client);
        client.check(
            "WAIT 1 0",
            "(error) ERR WAIT cannot be used with replica instances. Please also note that since \
             Redis 4.0 if a replica is configured to be writable (which is not the default) writes \
             to replicas are just local and are not propagated.",
        );
    }
}

#[test]
fn readers_of_streams_are_served_by_what_arrives() {
    let primary = redis().start();
    let replica = start_replica(volatile(), &primary);
    let (mut client, mut reader) = (primary.client(), replica.client());
    reader.send(&["XREAD", "BLOCK", "0", "STREAMS", "x", "$"]).expect("sent");
    let mut admin = replica.client();
    wait_until("it does not wait", || admin.info("clients")["blocked_clients"] == "1");
    client.check("MULTI", "OK");
    client.run("XADD x 5-1 a 1");
    client.run("XADD x 5-2 b 2");
    client.run("EXEC");
    let reply = reader.receive().expect("a reply").to_string();
    assert_eq!(reply, "[[\"x\", [[\"5-1\", [\"a\", \"1\"]], [\"5-2\", [\"b\", \"2\"]]]]]");
}

#[test]
fn tracking_notifications_and_messages_come_from_what_arrives() {
    let primary = redis().start();
    let mut client = primary.client();
    client.check("SET a 1", "OK");
    let replica = start_replica(volatile().args(["--notify-keyspace-events", "KEA"]), &primary);
    let mut tracking = replica.client();
    tracking.run("HELLO 3");
    tracking.check("CLIENT TRACKING ON", "OK");
    tracking.check("GET a", "\"1\"");
    let mut listener = replica.client();
    for channel in ["__keyspace@0__:a", "__keyevent@3__:expired", "news"] {
        listener.run(&format!("SUBSCRIBE {channel}"));
    }
    client.check("SET a 2", "OK");
    let pushed = tracking.receive().expect("a message").to_string();
    assert_eq!(pushed, ">[\"invalidate\", [\"a\"]]");
    let heard = listener.receive().expect("a message").to_string();
    assert_eq!(heard, "[\"message\", \"__keyspace@0__:a\", \"set\"]");
    client.check("PUBLISH news hello", "(integer) 0");
    let heard = listener.receive().expect("a message").to_string();
    assert_eq!(heard, "[\"message\", \"news\", \"hello\"]");
    // In a transaction, in its order.
    client.check("MULTI", "OK");
    for line in ["PUBLISH news one", "SET a 3", "PUBLISH news two"] {
        client.check(line, "QUEUED");
    }
    client.run("EXEC");
    let mut heard: Vec<String> =
        (0..3).map(|_| listener.receive().expect("a message").items()[2].text()).collect();
    heard.sort();
    assert_eq!(heard, ["one", "set", "two"]);
}
