//! Keyspace notifications, compared with those of redis-server.

use testkit::{Client, Launch, Server};

/// A server, a subscriber, and a client that changes keys.
struct Observed {
    server: Server,
    listener: Client,
    client: Client,
    /// Marks the end of a part of the notifications.
    publisher: Client,
}

impl Observed {
    fn start(launch: Launch, classes: &str) -> Observed {
        let server = launch.start();
        let (mut listener, mut client) = (server.client(), server.client());
        assert!(client.call(&["CONFIG", "SET", "notify-keyspace-events", classes]).is_ok());
        listener.check("PSUBSCRIBE *", "[\"psubscribe\", \"*\", (integer) 1]");
        let publisher = server.client();
        Observed { server, listener, client, publisher }
    }

    /// Runs a command, and returns the reply and the notifications meanwhile.
    fn run(&mut self, line: &str) -> (String, Vec<String>) {
        let reply = self.client.run(line).to_string();
        (reply, self.events())
    }

    /// Returns the notifications so far.
    fn events(&mut self) -> Vec<String> {
        self.publisher.run("PUBLISH end 1");
        let next = || {
            let message = self.listener.receive().expect("a message");
            let words: Vec<String> = message.items().iter().map(testkit::Reply::text).collect();
            (words[2] != "end").then(|| format!("{} {}", words[2], words[3]))
        };
        std::iter::from_fn(next).collect()
    }
}

fn perdura() -> Launch {
    Launch::perdura_volatile()
}

/// Commands in an order in which each finds what it changes.
const COMMANDS: &str = "\
SET a 1
SET a 1 EX 100
SET a 1 NX
SET a 2 GET
SETNX a 1
SETNX b 1
SETEX b 100 1
PSETEX b 100000 1
GETSET a 1
GETEX a EX 100
GETEX a PERSIST
GETEX a PXAT 1
GETDEL b
GETDEL none
MSET a 1 b 2
MSETNX c 1 d 2
MSETNX c 1 e 2
APPEND a x
SETRANGE a 3 y
SETRANGE a 3 \"\"
INCR n
INCRBY n 5
DECR n
INCRBYFLOAT n 1.5
SETBIT bits 7 1
BITFIELD bits SET u8 0 5 GET u8 0
BITFIELD bits GET u8 0
BITOP AND and bits bits
BITOP AND and none none
PFADD h 1 2
PFADD h 1 2
PFMERGE h2 h
RPUSH l a b c d e f a
LPUSH l z
LPUSHX none 1
LINSERT l BEFORE a x
LINSERT l BEFORE none x
LSET l 0 q
LREM l 1 x
LREM l 1 none
LTRIM l 1 4
LPOP l
RPOP l 1
LMPOP 1 l LEFT
LPOP l
LPOP l
RPUSH l a b
RPOPLPUSH l l2
LMOVE l l2 LEFT RIGHT
RPUSH l a
RPOPLPUSH l l
BLPOP l 0
BLMOVE l2 l LEFT LEFT 0
LTRIM l 5 6
RPUSH l 3 1 2
SORT l STORE sorted
SORT none STORE sorted
SADD s a b c d e
SADD s a
SREM s a
SREM s none
SPOP s 1
SMOVE s s2 none
SADD s x y z
SMOVE s s2 x
SMOVE s s2 x
SINTERSTORE out s s
SUNIONSTORE out s s2
SDIFFSTORE out s s
SPOP s2
SPOP s 10
HSET hash f 1 g 2
HSETNX hash f 2
HSETNX hash h 2
HMSET hash f 1
HINCRBY hash f 5
HINCRBYFLOAT hash f 1.5
HDEL hash f
HDEL hash none
HDEL hash g h
ZADD z 1 a 2 b 3 c 4 d 5 e 6 f 7 g 8 h
ZADD z 1 a
ZADD z XX CH 9 a
ZADD z INCR 1 a
ZINCRBY z 1 a
ZREM z a
ZREM z none
ZREMRANGEBYRANK z 0 0
ZREMRANGEBYSCORE z 3 3
ZREMRANGEBYLEX z - [d
ZPOPMIN z
ZPOPMAX z
ZMPOP 1 z MIN
ZRANGESTORE zout z 0 -1
ZUNIONSTORE zout 1 z
ZINTERSTORE zout 2 z none
ZDIFFSTORE zout 2 z z
BZPOPMIN z 0
ZPOPMIN z
GEOADD geo 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
GEOSEARCHSTORE near geo FROMLONLAT 15 37 BYRADIUS 200 km
GEORADIUS geo 15 37 200 km STORE near
GEORADIUS geo 15 37 1 m STORE near
XADD x 1-1 a 1
XADD x MAXLEN 1 1-2 a 1
XADD x NOMKSTREAM 1-3 a 1
XTRIM x MAXLEN 1
XTRIM x MAXLEN 1
XSETID x 9-9
XGROUP CREATE x g 0
XGROUP SETID x g 0
XGROUP CREATECONSUMER x g c
XREADGROUP GROUP g d COUNT 1 STREAMS x >
XCLAIM x g e 0 1-3
XAUTOCLAIM x g f 0 0
XACK x g 1-3
XGROUP DELCONSUMER x g c
XGROUP DESTROY x g
XDEL x 1-3
EXPIRE a 100
EXPIRE none 100
PEXPIREAT a 1
SET a 1
EXPIRE a 100
PERSIST a
PERSIST a
RENAME a a2
RENAME a2 c
RENAMENX c d
COPY c c2
COPY c c2
COPY c c DB 3
MOVE c 4
DEL d none n
UNLINK h h2
TOUCH near
OBJECT FREQ near
SWAPDB 3 5
SELECT 4
INCR c
SELECT 0
EVAL \"redis.call('SET', KEYS[1], 1) return redis.call('DEL', KEYS[1])\" 1 k
MULTI
SET m 1
INCR m
DEL m
EXEC
FLUSHALL";

#[test]
fn events_and_their_order_are_those_of_redis() {
    let mut here = Observed::start(perdura(), "KEA");
    let mut there = Observed::start(Launch::redis(), "KEA");
    for line in COMMANDS.lines() {
        let (_, found) = here.run(line);
        let (_, expected) = there.run(line);
        assert_eq!(found, expected, "{line}");
    }
}

#[test]
fn new_keys_and_missing_ones_are_events_of_their_own() {
    let mut here = Observed::start(perdura(), "Emn");
    let mut there = Observed::start(Launch::redis(), "Emn");
    for line in [
        "GET a",
        "SET a 1",
        "SET a 2",
        "MGET a b",
        "LPUSH l 1",
        "LPUSH l 1",
        "SINTERSTORE s none none",
        "HGET h f",
        "HSET h f 1",
        "RENAME h h2",
        "COPY l l2",
        "XADD x * f 1",
        "ZRANGE z 0 -1",
        "DEL none",
    ] {
        let (_, found) = here.run(line);
        assert_eq!(found, there.run(line).1, "{line}");
    }
}

#[test]
fn dumps_that_are_restored_are_events() {
    let mut here = Observed::start(perdura(), "KEA");
    here.client.check("SET a 1", "OK");
    let dump = here.client.run("DUMP a").bytes().expect("a dump").to_vec();
    here.events();
    let mut restore = |words: &[&[u8]]| {
        let words: Vec<&[u8]> = [&[&b"RESTORE"[..], b"a"], words].concat();
        assert!(here.client.call(&words).is_ok());
        here.events()
    };
    let both =
        |event: &str| [format!("__keyspace@0__:a {event}"), format!("__keyevent@0__:{event} a")];
    assert_eq!(restore(&[b"0", &dump, b"REPLACE"]), both("restore"));
    // The key's TTL has passed already.
    assert_eq!(restore(&[b"1", &dump, b"REPLACE", b"ABSTTL"]), both("del"));
}

#[test]
fn what_the_server_deletes_by_itself_is_an_event() {
    let mut here = Observed::start(perdura(), "Exe");
    here.client.check("SET a 1 PX 1", "OK");
    // No client reads it.
    let message = here.listener.receive().expect("a message").to_string();
    assert_eq!(message, "[\"pmessage\", \"*\", \"__keyevent@0__:expired\", \"a\"]");
    here.client.check("HSET h f 1 g 2", "(integer) 2");
    here.client.check("CONFIG SET notify-keyspace-events Kh", "OK");
    here.client.check("HPEXPIRE h 1 FIELDS 1 f", "[(integer) 1]");
    let message = here.listener.receive().expect("a message").to_string();
    assert_eq!(message, "[\"pmessage\", \"*\", \"__keyspace@0__:h\", \"hexpire\"]");
    let message = here.listener.receive().expect("a message").to_string();
    assert_eq!(message, "[\"pmessage\", \"*\", \"__keyspace@0__:h\", \"hexpired\"]");
    here.client.check("CONFIG SET notify-keyspace-events Ee", "OK");
    here.client.check("DEL h", "(integer) 1");
    here.client.check("SET b 1", "OK");
    here.client.check("CONFIG SET maxmemory-policy allkeys-random maxmemory 1", "OK");
    let evicted = here.listener.receive().expect("a message").to_string();
    assert_eq!(evicted, "[\"pmessage\", \"*\", \"__keyevent@0__:evicted\", \"b\"]");
}

#[test]
fn what_does_not_happen_is_no_event() {
    let mut here = Observed::start(perdura(), "KEA");
    here.client.check("SET s 1", "OK");
    here.events();
    // A transaction that fails, a command that fails after it wrote, and a read.
    for line in ["WATCH s", "MULTI", "SET s 2"] {
        here.client.run(line);
    }
    let mut other = here.server.client();
    other.check("SET s 3", "OK");
    here.client.check("EXEC", "(nil array)");
    let events = here.events();
    assert_eq!(events, ["__keyspace@0__:s set", "__keyevent@0__:set s"], "of the other client");
    assert_eq!(here.run("LPUSH s 1").1, [""; 0]);
    assert_eq!(here.run("GET s").1, [""; 0]);
    assert_eq!(here.run("DEL none").1, [""; 0]);
    // Only the requested classes.
    here.client.check("CONFIG SET notify-keyspace-events El", "OK");
    assert_eq!(here.run("SET s 1").1, [""; 0]);
    assert_eq!(here.run("RPUSH l 1").1, ["__keyevent@0__:rpush l"]);
    here.client.check("CONFIG SET notify-keyspace-events \"\"", "OK");
    assert_eq!(here.run("RPUSH l 1").1, [""; 0]);
}

fn with_debug() -> Launch {
    perdura().args(["--enable-debug-command", "local"])
}

#[test]
fn an_expired_key_that_is_read_is_missed_once_and_expires_once() {
    let mut here = Observed::start(with_debug(), "Exm");
    here.client.check("DEBUG SET-ACTIVE-EXPIRE 0", "OK");
    for line in ["GET k", "EXISTS k", "TTL k", "TYPE k", "STRLEN k"] {
        here.client.check("SET k v PX 1", "OK");
        std::thread::sleep(std::time::Duration::from_millis(5));
        let (_, mut events) = here.run(line);
        events.sort();
        assert_eq!(events, ["__keyevent@0__:expired k", "__keyevent@0__:keymiss k"], "{line}");
    }
}

#[test]
fn a_command_that_commits_in_parts_within_exec_has_its_events() {
    let mut here = Observed::start(with_debug(), "En");
    here.client.check("MULTI", "OK");
    here.client.check("SET a 1", "QUEUED");
    here.client.check("DEBUG POPULATE 1001", "QUEUED");
    here.client.check("EXEC", "[OK, OK]");
    here.client.check("DBSIZE", "(integer) 1002");
    let events = here.events();
    assert_eq!(events.len(), 1002, "{:?}", &events[..3.min(events.len())]);
    assert!(!here.server.log().contains("panicked"), "{}", here.server.log());
}
