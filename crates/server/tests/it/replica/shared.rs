//! Replicas that come together: they share a dump, and none holds up another one, or other saves.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use testkit::{Client, Server};

use super::{PATIENCE, count_in_log, info, volatile, wait_for_log, wait_until};

/// A replica that is written by hand: it takes its dump as slowly as the test wants.
struct Taker(BufReader<TcpStream>);

/// The lines before a dump with a mark.
#[derive(Debug, PartialEq)]
struct Head {
    reply: String,
    mark: String,
}

impl Taker {
    /// Connects, and asks for all data.
    fn ask(server: &Server, capabilities: &str) -> Taker {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        let words = format!("REPLCONF listening-port 1 {capabilities}\r\nPSYNC ? -1\r\n");
        stream.write_all(words.as_bytes()).expect("it is sent");
        let mut taker = Taker(BufReader::new(stream));
        assert_eq!(taker.line(), "+OK");
        taker
    }

    /// Asks for a dump with a mark.
    fn ask_marked(server: &Server) -> Taker {
        Taker::ask(server, "capa eof capa psync2")
    }

    /// Returns the next line that is not a sign of life.
    fn line(&mut self) -> String {
        let mut line = String::new();
        while line.trim().is_empty() {
            line.clear();
            assert!(self.0.read_line(&mut line).expect("a line") > 0, "the connection has ended");
        }
        line.trim_end().to_owned()
    }

    fn head(&mut self) -> Head {
        let reply = self.line();
        assert!(reply.starts_with("+FULLRESYNC "), "{reply}");
        let mark = self.line().strip_prefix("$EOF:").expect("a mark").to_owned();
        Head { reply, mark }
    }

    /// Reads the rest of a dump, up to its mark.
    fn rest(&mut self, head: &Head) -> Vec<u8> {
        let (mut dump, mut piece) = (Vec::new(), vec![0; 1 << 20]);
        while !dump.ends_with(head.mark.as_bytes()) {
            let read = self.0.read(&mut piece).expect("the rest of the dump");
            assert!(read > 0, "the connection has ended after {} bytes", dump.len());
            dump.extend_from_slice(&piece[..read]);
        }
        dump
    }

    /// Says that it has the dump, and waits for a write in the stream.
    fn check_stream(&mut self, primary: &mut Client, head: &Head) {
        let offset = head.reply.rsplit(' ').next().expect("an offset");
        let words = format!("REPLCONF ACK {offset}\r\n");
        self.0.get_mut().write_all(words.as_bytes()).expect("it is sent");
        primary.check("SET after x", "OK");
        while self.line() != "after" {}
    }
}

/// Starts a primary that waits for so many replicas, for an hour.
fn primary(replicas: &str) -> (Server, Client) {
    let server = volatile()
        .args(["--repl-diskless-sync-delay", "3600"])
        .args(["--repl-diskless-sync-max-replicas", replicas, "--rdbcompression", "no"])
        .start();
    let client = server.client();
    (server, client)
}

/// Adds more data than sockets hold.
fn fill(client: &mut Client) {
    for i in 0..64 {
        client.check(&format!("SETRANGE key:{i} 2000000 x"), "(integer) 2000001");
    }
}

fn is_saving(client: &mut Client) -> bool {
    client.info("persistence")["rdb_bgsave_in_progress"] == "1"
}

#[test]
fn replicas_that_come_together_share_a_dump_and_its_place_in_the_stream() {
    let (server, mut client) = primary("3");
    client.check("MSET a 1 b 2", "OK");
    let mut takers = [Taker::ask_marked(&server), Taker::ask_marked(&server)];
    wait_until("they wait", || info(&mut client, "connected_slaves") == "2");
    client.check("SET c 3", "OK");
    assert!(!is_saving(&mut client), "they wait for a third one");
    assert!(info(&mut client, "slave0").contains("state=wait_bgsave"));
    let mut third = Taker::ask_marked(&server);
    let head = third.head();
    let dump = third.rest(&head);
    assert!(dump.windows(5).any(|bytes| bytes == b"\x00\x01c\xc0\x03"), "of after the write");
    third.check_stream(&mut client, &head);
    for taker in &mut takers {
        assert_eq!(taker.head(), head);
        assert_eq!(taker.rest(&head), dump);
        taker.check_stream(&mut client, &head);
    }
    wait_for_log(&server, "keys was made for 3 receivers");
    assert_eq!(client.info("stats")["sync_full"], "3");
}

#[test]
fn a_replica_waits_for_others_for_the_time_that_is_configured() {
    let (server, mut client) = primary("0");
    let mut taker = Taker::ask_marked(&server);
    wait_until("it waits", || info(&mut client, "connected_slaves") == "1");
    client.check("SET a 1", "OK");
    assert!(!is_saving(&mut client));
    // A dump that nothing follows is for one client.
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    stream.write_all(b"REPLCONF capa eof rdb-only 1\r\nSYNC\r\n").expect("it is sent");
    let mut dump = Vec::new();
    stream.read_to_end(&mut dump).expect("the server ends it");
    assert!(dump.starts_with(b"+OK\r\n$EOF:"), "{dump:?}");
    // So is a dump that is made in a file: others that come meanwhile get the next one.
    let mut sized = Taker::ask(&server, "capa psync2");
    assert!(sized.line().starts_with("+FULLRESYNC "));
    assert!(sized.line().starts_with('$'));
    client.check("CONFIG SET repl-diskless-sync-delay 0", "OK");
    let head = taker.head();
    taker.rest(&head);
    taker.check_stream(&mut client, &head);
    client.check("CONFIG SET repl-diskless-sync-delay 3600 repl-diskless-sync no", "OK");
    let mut sized = Taker::ask_marked(&server);
    assert!(sized.line().starts_with("+FULLRESYNC "));
    assert!(sized.line().starts_with('$'), "it is made in a file");
}

#[test]
fn a_replica_gets_the_version_of_the_format_that_it_reads() {
    let server = volatile().args(["--rdbcompression", "no"]).start();
    let mut client = server.client();
    client.check("HSET hash f v kept v", "(integer) 2");
    client.check("HPEXPIREAT hash 4102444800000 FIELDS 1 f", "[(integer) 1]");
    for i in 0..6000 {
        client.check(&format!("HSET large field:{i} {i}"), "(integer) 1");
    }
    client.check("HPEXPIREAT large 4102444800001 FIELDS 1 field:77", "[(integer) 1]");
    for (says, begins, kind) in [
        ("", "REDIS0010", 24),
        ("version 8.1.0", "REDIS0010", 24),
        ("version 9.1.2", "VALKEY080", 22),
        ("version 10.0.0", "VALKEY080", 22),
        ("version 9.1.2 capa perdura", "REDIS0010", 24),
        ("version x", "REDIS0010", 24),
    ] {
        let mut taker = Taker::ask(&server, &format!("capa eof capa psync2 {says}"));
        let head = taker.head();
        let dump = taker.rest(&head);
        assert!(dump.starts_with(begins.as_bytes()), "{says}: {:?}", &dump[..9]);
        for key in ["hash", "large"] {
            let record = [&[kind, key.len() as u8], key.as_bytes()].concat();
            assert!(dump.windows(record.len()).any(|bytes| bytes == record), "{says}: {key}");
        }
    }
    let replica = super::start_replica(volatile(), &server);
    let mut reader = replica.client();
    super::check_equal(&mut client, &mut reader);
    for (key, field) in
        [("hash", "f"), ("hash", "kept"), ("large", "field:77"), ("large", "field:1")]
    {
        let line = format!("HPEXPIRETIME {key} FIELDS 1 {field}");
        assert_eq!(reader.run(&line).to_string(), client.run(&line).to_string(), "{line}");
    }
}

#[test]
fn the_memory_of_the_stream_is_shown() {
    let (server, mut client) = primary("1");
    client.check(
        "CONFIG SET repl-backlog-size 1mb client-output-buffer-limit \"replica 0 0 0\"",
        "OK",
    );
    let memory = |client: &mut Client, name: &str| -> u64 {
        client.info("memory")[name].parse().expect("a number")
    };
    for name in ["mem_total_replication_buffers", "mem_replication_backlog", "mem_clients_slaves"] {
        assert_eq!(memory(&mut client, name), 0, "{name}");
    }
    client.check("SET first 1", "OK");
    client.check("CONFIG SET rdb-key-save-delay 1000000000", "OK");
    // It waits for a dump, and for what is written meanwhile.
    let taker = Taker::ask_marked(&server);
    wait_until("it begins", || is_saving(&mut client));
    fill(&mut client);
    for i in 0..8 {
        let value = "x".repeat(1 << 20);
        assert!(client.call(&["SET", &format!("written:{i}"), &value]).is_ok());
    }
    let stream = memory(&mut client, "mem_total_replication_buffers");
    assert!((8 << 20..10 << 20).contains(&stream), "{stream}");
    assert_eq!(memory(&mut client, "mem_replication_backlog"), 1 << 20);
    assert!(memory(&mut client, "mem_clients_slaves") >= stream - (1 << 20));
    // Beyond its limit it is disconnected, though its dump is under way.
    client.check("CONFIG SET client-output-buffer-limit \"replica 2mb 0 0\"", "OK");
    client.check("SET more 1", "OK");
    wait_until("it is there", || info(&mut client, "connected_slaves") == "0");
    wait_for_log(&server, "is too far behind");
    assert!(memory(&mut client, "mem_total_replication_buffers") <= 2 << 20);
    assert!(memory(&mut client, "mem_clients_slaves") <= 1 << 20);
    drop(taker);
}

#[test]
fn a_slow_replica_holds_up_neither_others_nor_other_saves() {
    let (server, mut client) = primary("2");
    fill(&mut client);
    let (mut slow, mut fast) = (Taker::ask_marked(&server), Taker::ask_marked(&server));
    let head = slow.head();
    assert_eq!(fast.head(), head);
    let dump = fast.rest(&head);
    assert!(dump.len() > 128_000_000);
    fast.check_stream(&mut client, &head);
    wait_until("the dump is made", || !is_saving(&mut client));
    assert_eq!(count_in_log(&server, "the rest is kept in a file"), 1);
    // The slow one has only some of it.
    client.check("BGSAVE", "Background saving started");
    wait_until("it is saved", || !is_saving(&mut client));
    assert_eq!(client.info("persistence")["rdb_last_bgsave_status"], "ok");
    let (mut third, mut fourth) = (Taker::ask_marked(&server), Taker::ask_marked(&server));
    let next = third.head();
    fourth.head();
    assert_ne!(next.reply, head.reply, "a write came between");
    drop(fourth);
    assert_eq!(third.rest(&next).len(), dump.len() + "..after.x".len());
    assert!(slow.rest(&head) == dump, "it gets the same");
    slow.check_stream(&mut client, &head);
}

#[test]
fn a_dump_ends_with_the_last_of_its_replicas() {
    for diskless in ["yes", "no"] {
        let (server, mut client) = primary("2");
        client.check("CONFIG SET rdb-key-save-delay 1000000", "OK");
        client.check(&format!("CONFIG SET repl-diskless-sync {diskless}"), "OK");
        (0..100).for_each(|i| client.check(&format!("SET key:{i} x"), "OK"));
        let one = Taker::ask_marked(&server);
        if diskless == "no" {
            wait_until("it begins", || is_saving(&mut client));
            drop(one);
        } else {
            let two = Taker::ask_marked(&server);
            wait_until("it begins", || is_saving(&mut client));
            drop(one);
            wait_until("one has left", || info(&mut client, "connected_slaves") == "1");
            assert!(is_saving(&mut client), "the other one still wants it");
            drop(two);
        }
        wait_until("the dump is given up", || !is_saving(&mut client));
        wait_until("all have left", || info(&mut client, "connected_slaves") == "0");
        wait_for_log(&server, "nobody wants it any more");
    }
}
