//! MIGRATE, to and from redis-server, and to targets that misbehave.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use testkit::{Client, Launch, Server};

use crate::save::{digest, populate, populate_large};

fn perdura() -> Launch {
    Launch::perdura_volatile().args(["--enable-debug-command", "local"])
}

fn migrate(client: &mut Client, port: u16, rest: &[&str]) -> String {
    let port = port.to_string();
    let words = [&["MIGRATE", "127.0.0.1", &port], rest].concat();
    client.call(&words).to_string()
}

fn all_keys(client: &mut Client, db: &str) -> Vec<String> {
    assert!(client.call(&["SELECT", db]).is_ok());
    client.run("KEYS *").items().iter().map(testkit::Reply::text).collect()
}

/// Moves all keys, and checks that none is left at the source.
fn move_all(from: &Server, to: &Server) {
    let mut client = from.client();
    for db in ["0", "3"] {
        let keys = all_keys(&mut client, db);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let rest = [&["", db, "20000", "KEYS"], keys.as_slice()].concat();
        assert_eq!(migrate(&mut client, to.port(), &rest), "OK");
        client.check("DBSIZE", "(integer) 0");
        assert_eq!(migrate(&mut client, to.port(), &rest), "NOKEY");
    }
}

#[test]
fn every_type_moves_to_redis_and_back() {
    let (perdura, redis) = (perdura().start(), Launch::redis().start());
    let mut client = perdura.client();
    populate(&mut client);
    populate_large(&mut client);
    client.check("FUNCTION FLUSH", "OK");
    let expect = digest(&mut client);
    move_all(&perdura, &redis);
    // The two programs compute digests differently.
    let original = Launch::redis().start();
    populate(&mut original.client());
    populate_large(&mut original.client());
    assert_eq!(digest(&mut redis.client()), digest(&mut original.client()));
    move_all(&redis, &perdura);
    assert_eq!(digest(&mut client), expect);
}

#[test]
fn expiry_copy_and_replace_are_heeded() {
    let (perdura, target) = (perdura().start(), Launch::redis().start());
    let (mut client, mut there) = (perdura.client(), target.client());
    let port = target.port();
    client.check("SET a 1 PX 100000", "OK");
    client.check("SET b 2", "OK");
    assert_eq!(migrate(&mut client, port, &["a", "0", "5000", "COPY"]), "OK");
    client.check("GET a", "\"1\"");
    let left = there.run("PTTL a").int().expect("a time");
    assert!((1..=100_000).contains(&left), "{left}");
    there.check("SET a other", "OK");
    let busy = "(error) ERR Target instance replied with error: BUSYKEY Target key name already \
                exists.";
    // Keys that the target refuses stay, those that it accepts go.
    assert_eq!(migrate(&mut client, port, &["", "0", "5000", "KEYS", "a", "b", "none", "b"]), busy);
    client.check("EXISTS a b", "(integer) 1");
    there.check("MGET a b", "[\"other\", \"2\"]");
    assert_eq!(migrate(&mut client, port, &["a", "0", "5000", "replace"]), "OK");
    there.check("GET a", "\"1\"");
    client.check("DBSIZE", "(integer) 0");
}

/// A failing command fails as in Redis.
#[test]
fn errors_are_those_of_redis() {
    let target = Launch::redis().args(["--requirepass", "secret"]).start();
    let closed = testkit::free_port();
    let sources = [perdura().start(), Launch::redis().start()];
    let (good, closed) = (target.port().to_string(), closed.to_string());
    let hasty = TcpListener::bind("127.0.0.1:0").expect("a port");
    let hasty_port = hasty.local_addr().expect("an address").port().to_string();
    let closes: JoinHandle<()> = std::thread::spawn(move || {
        // Redis tries twice.
        for _ in 0..3 {
            take_request(&mut hasty.accept().expect("a connection").0);
        }
    });
    let all: &[&[&str]] = &[
        &["127.0.0.1", &good, "key"],
        &["127.0.0.1", &good, "key", "0", "x"],
        &["127.0.0.1", &good, "key", "x", "10"],
        &["127.0.0.1", &good, "key", "0", "10", "WHAT"],
        &["127.0.0.1", &good, "key", "0", "10", "AUTH"],
        &["127.0.0.1", &good, "key", "0", "10", "AUTH2", "user"],
        &["127.0.0.1", &good, "key", "0", "10", "KEYS", "key"],
        &["127.0.0.1", &good, "none", "0", "10"],
        &["127.0.0.1", &good, "none", "0", "-1"],
        &["127.0.0.1", &good, "", "0", "10", "KEYS"],
        &["127.0.0.1", &good, "", "0", "10", "KEYS", "x", "y"],
        &["127.0.0.1", &closed, "key", "0", "1000"],
        &["127.0.0.1", "none", "key", "0", "1000"],
        &["127.0.0.1", &good, "key", "0", "1000"],
        &["127.0.0.1", &good, "key", "0", "1000", "AUTH", "wrong"],
        &["127.0.0.1", &good, "key", "99", "1000", "AUTH", "secret"],
        &["127.0.0.1", &good, "key", "0", "1000", "AUTH2", "none", "secret"],
        &["127.0.0.1", &good, "key", "0", "1000", "AUTH2", "default", "secret", "COPY"],
        &["127.0.0.1", &good, "key", "0", "1000", "COPY", "AUTH", "secret"],
        &["127.0.0.1", &good, "key", "0", "1000", "COPY", "REPLACE", "AUTH", "secret"],
        &["127.0.0.1", &hasty_port, "key", "0", "1000"],
    ];
    for words in all {
        let [ours, theirs] = sources.each_ref().map(|source| {
            let mut client = source.client();
            client.check("SET key value", "OK");
            let mut there = target.client();
            there.check("AUTH secret", "OK");
            let is_busy = words.contains(&"COPY") && words.contains(&"AUTH");
            there.run(if is_busy { "SET key other" } else { "DEL key" });
            let reply = client.call(&[&["MIGRATE"], *words].concat()).to_string();
            client.check("GET key", "\"value\"");
            reply
        });
        assert_eq!(ours, theirs, "{words:?}");
    }
    closes.join().expect("no panic");
    let mut client = sources[0].client();
    let refused = "(error) ERR MIGRATE waits for another server, and is not allowed in a \
                   transaction or a script";
    client.check("MULTI", "OK");
    client.check("MIGRATE 127.0.0.1 1 key 0 10", "QUEUED");
    assert_eq!(client.run("EXEC").items()[0].to_string(), refused);
    let script = "return redis.pcall('MIGRATE', '127.0.0.1', '1', KEYS[1], '0', '10')";
    assert_eq!(client.call(&["EVAL", script, "1", "key"]).to_string(), refused);
}

/// Reads up to a RESTORE, so that the sender has written all of it.
fn take_request(stream: &mut TcpStream) {
    let (mut taken, mut bytes) = (Vec::new(), [0; 4096]);
    while !taken.windows(7).any(|word| word == b"RESTORE") {
        match stream.read(&mut bytes) {
            Ok(read) if read > 0 => taken.extend_from_slice(&bytes[..read]),
            _ => return,
        }
    }
}

/// A hand-written target: it takes requests, and the test decides when it answers.
struct ByHand {
    stream: BufReader<TcpStream>,
}

impl ByHand {
    fn accept(listener: &TcpListener) -> ByHand {
        ByHand { stream: BufReader::new(listener.accept().expect("a connection").0) }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// Returns the words of the next request.
    fn request(&mut self) -> Vec<Vec<u8>> {
        let count: usize = self.line().strip_prefix('*').expect("a request").parse().expect("*");
        let mut words = Vec::new();
        for _ in 0..count {
            let len: usize = self.line().strip_prefix('$').expect("a word").parse().expect("$");
            let mut word = vec![0; len + 2];
            self.stream.read_exact(&mut word).expect("the word");
            word.truncate(len);
            words.push(word);
        }
        words
    }

    fn names(&mut self) -> String {
        let words = self.request();
        let shown: Vec<String> = words
            .iter()
            .filter(|word| word.len() < 10 && word.is_ascii())
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        shown.join(" ")
    }

    fn answer(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).expect("it is sent");
    }
}

#[test]
fn what_is_written_meanwhile_is_not_lost_and_nobody_waits() {
    // All clients share one thread.
    let server = perdura().args(["--threads", "1"]).start();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (mut writer, mut client) = (server.client(), server.client());
    writer.check("MSET kept 1 changed 1 gone 1", "OK");
    let migrating = std::thread::spawn(move || {
        migrate(&mut client, port, &["", "0", "60000", "KEYS", "kept", "changed", "gone"])
    });
    let mut target = ByHand::accept(&listener);
    assert_eq!(target.names(), "SELECT 0");
    assert_eq!(target.names(), "RESTORE kept 0");
    assert_eq!(target.names(), "RESTORE changed 0");
    assert_eq!(target.names(), "RESTORE gone 0");
    // It is served although the target has not answered.
    writer.check("INCR changed", "(integer) 2");
    writer.check("DEL gone", "(integer) 1");
    writer.check("GET kept", "\"1\"");
    assert!(writer.run("CLIENT LIST").text().contains("cmd=migrate"));
    target.answer("+OK\r\n+OK\r\n+OK\r\n+OK\r\n");
    assert_eq!(target.names(), "RESTORE changed 0 REPLACE");
    assert_eq!(target.names(), "DEL gone");
    writer.check("EXISTS kept changed", "(integer) 1");
    target.answer("+OK\r\n:1\r\n");
    assert_eq!(migrating.join().expect("no panic"), "OK");
    writer.check("DBSIZE", "(integer) 0");
}

#[test]
fn what_a_client_deletes_while_its_slot_moves_is_deleted_at_the_target() {
    let bus = testkit::free_port().to_string();
    let server = perdura().args(["--cluster-enabled", "yes", "--cluster-port", &bus]).start();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (mut writer, mut client) = (server.client(), server.client());
    writer.check("CLUSTER ADDSLOTSRANGE 0 16383", "OK");
    let began = Instant::now();
    while !writer.run("SET gone 1").is_ok() {
        assert!(began.elapsed() < Duration::from_secs(60), "the cluster is not up");
        std::thread::sleep(Duration::from_millis(20));
    }
    let migrating = std::thread::spawn(move || migrate(&mut client, port, &["gone", "0", "60000"]));
    let mut target = ByHand::accept(&listener);
    assert_eq!(target.names(), "SELECT 0");
    // RESTORE-ASKING.
    assert_eq!(target.names(), "gone 0");
    writer.check("DEL gone", "(integer) 1");
    target.answer("+OK\r\n+OK\r\n");
    // A node that imports a slot serves it to those who ask.
    assert_eq!(target.names(), "ASKING");
    assert_eq!(target.names(), "DEL gone");
    target.answer("+OK\r\n:1\r\n");
    assert_eq!(migrating.join().expect("no panic"), "OK");
}

#[test]
fn a_key_stays_if_the_right_to_it_is_taken_away_meanwhile() {
    let server = perdura().start();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (mut admin, mut client) = (server.client(), server.client());
    admin.check("SET key v", "OK");
    admin.check("ACL SETUSER u on nopass ~* +@all", "OK");
    client.check("AUTH u x", "OK");
    let migrating = std::thread::spawn(move || migrate(&mut client, port, &["key", "0", "60000"]));
    let mut target = ByHand::accept(&listener);
    assert_eq!(target.names(), "SELECT 0");
    assert_eq!(target.names(), "RESTORE key 0");
    admin.check("ACL SETUSER u resetkeys", "OK");
    target.answer("+OK\r\n+OK\r\n");
    let reply = migrating.join().expect("no panic");
    assert!(reply.starts_with("(error) NOPERM"), "{reply}");
    admin.check("GET key", "\"v\"");
}

#[test]
fn a_key_that_never_stands_still_stays() {
    let server = perdura().start();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (mut writer, mut client) = (server.client(), server.client());
    writer.check("SET key 1", "OK");
    let migrating = std::thread::spawn(move || migrate(&mut client, port, &["key", "0", "60000"]));
    let mut target = ByHand::accept(&listener);
    target.request();
    target.answer("+OK\r\n");
    for _ in 0..16 {
        assert!(target.names().starts_with("RESTORE key 0"));
        assert!(!writer.run("INCR key").is_error());
        target.answer("+OK\r\n");
    }
    let reply = migrating.join().expect("no panic");
    assert!(reply.starts_with("(error) TRYAGAIN a key was changed"), "{reply}");
    writer.check("GET key", "\"17\"");
}

/// A target that always sends a little, and never a complete reply, is given up as well.
fn trickles(server: &Server, expect: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let target = std::thread::spawn(move || {
        let mut stream = listener.accept().expect("a connection").0;
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(20) && stream.write_all(b"+").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
        began.elapsed()
    });
    let mut client = server.client();
    assert_eq!(migrate(&mut client, port, &["key", "0", "200"]), expect);
    client.check("GET key", "\"value\"");
    let took = target.join().expect("no panic");
    assert!(took < Duration::from_secs(10), "it was listened to for {took:?}");
}

#[test]
fn a_target_that_does_not_answer_costs_its_client_the_timeout() {
    let (ours, theirs) = (perdura().start(), Launch::redis().start());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let replies = [&ours, &theirs].map(|source| {
        let mut client = source.client();
        client.check("SET key value", "OK");
        let reply = migrate(&mut client, port, &["key", "0", "200"]);
        client.check("GET key", "\"value\"");
        reply
    });
    assert_eq!(replies[0], replies[1]);
    trickles(&ours, &replies[0]);
    // Of those that the target accepted, only these are gone.
    let mut client = ours.client();
    client.check("MSET a 1 b 2", "OK");
    let migrating = std::thread::spawn(move || {
        let reply = migrate(&mut client, port, &["", "0", "5000", "KEYS", "a", "b"]);
        (client, reply)
    });
    // The two earlier ones.
    drop(listener.accept());
    drop(listener.accept());
    let mut target = ByHand::accept(&listener);
    target.names();
    target.answer("+OK\r\n+OK\r\n");
    target.names();
    target.names();
    drop(target);
    let (mut client, reply) = migrating.join().expect("no panic");
    assert_eq!(reply, replies[0]);
    client.check("MGET a b", "[(nil), \"2\"]");
}

#[test]
fn the_log_has_the_deletion_and_no_password() {
    let mut server = Launch::perdura_aof("always").start();
    let target = Launch::redis().args(["--requirepass", "secret"]).start();
    let mut client = server.client();
    client.check("CONFIG SET slowlog-log-slower-than 0", "OK");
    client.check("MSET a 1 b 2", "OK");
    let rest = ["a", "0", "5000", "AUTH2", "default", "secret"];
    assert_eq!(migrate(&mut client, target.port(), &rest), "OK");
    let slow = client.run("SLOWLOG GET").to_string();
    assert!(slow.contains("(redacted)") && !slow.contains("secret"), "{slow}");
    server.kill();
    server.start_again();
    server.client().check("MGET a b", "[(nil), \"2\"]");
}
