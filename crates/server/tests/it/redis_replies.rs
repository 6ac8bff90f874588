//! Scripts of several clients, on Perdura and on redis-server: all replies are the same.
//!
//! The differential tests of the commands try many requests of one client. Here one client's
//! commands affect another client's replies, or administration has replies of its own.

use std::collections::BTreeMap;

use testkit::{Client, Launch, Reply, Server};

/// Both servers, with new clients for each script.
struct Both {
    ours: Server,
    theirs: Server,
}

impl Both {
    fn start() -> Both {
        let debug = ["--enable-debug-command", "yes"];
        Both {
            ours: Launch::perdura_volatile().args(debug).start(),
            theirs: Launch::redis().args(debug).start(),
        }
    }

    /// Runs lines such as `a GET k`, separated by `; `, after a FLUSHALL, and compares what each
    /// client receives.
    #[track_caller]
    fn check(&self, script: &str) -> Vec<Reply> {
        let (ours, theirs) = (run_script(&self.ours, script), run_script(&self.theirs, script));
        for ((line, ours), theirs) in script.split("; ").zip(&ours).zip(&theirs) {
            assert_eq!(ours, theirs, "{line}\nin {script}");
        }
        ours
    }

    #[track_caller]
    fn check_all(&self, scripts: &[&str]) {
        scripts.iter().for_each(|script| drop(self.check(script)));
    }
}

fn run_script(server: &Server, script: &str) -> Vec<Reply> {
    server.client().check("FLUSHALL", "OK");
    let mut clients: BTreeMap<&str, Client> = BTreeMap::new();
    let lines = script.split("; ").map(|line| line.split_once(' ').expect("a name and a request"));
    lines
        .map(|(name, line)| clients.entry(name).or_insert_with(|| server.client()).run(line))
        .collect()
}

/// Checks that EXEC runs on both or on neither when another client does `between` while `k` is
/// watched.
#[track_caller]
fn watch(both: &Both, before: &str, between: &str) {
    let lines: Vec<String> = before.split("; ").map(|line| format!("b {line}")).collect();
    let script = [&lines.join("; "), "a WATCH k", &format!("b {between}"), "a MULTI", "a EXEC"];
    both.check(&script.join("; "));
}

#[test]
fn a_watch_is_broken_where_redis_breaks_it() {
    let both = Both::start();
    let stream = "XADD k 1-1 a a; XADD k 2-1 a a";
    let group = "XADD k 1-1 a a; XADD k 2-1 a a; XGROUP CREATE k g 0";
    let pending = format!("{group}; XREADGROUP GROUP g c COUNT 1 STREAMS k >");
    let gone = format!("{pending}; XDEL k 1-1");
    for (before, between) in [
        (stream, "XGROUP CREATE k g 0"),
        (stream, "XGROUP CREATE k g 0 MKSTREAM"),
        ("DEL k", "XGROUP CREATE k g 0 MKSTREAM"),
        (group, "XREADGROUP GROUP g c STREAMS k >"),
        (group, "XREADGROUP GROUP g c NOACK STREAMS k >"),
        (group, "XGROUP SETID k g 1-1"),
        (group, "XGROUP CREATECONSUMER k g d"),
        (&pending, "XGROUP DELCONSUMER k g c"),
        (&pending, "XGROUP DESTROY k g"),
        (&pending, "XACK k g 1-1"),
        (&pending, "XCLAIM k g d 0 1-1 JUSTID"),
        (&pending, "XAUTOCLAIM k g d 0 0"),
        (&gone, "XCLAIM k g d 0 1-1"),
        (&gone, "XAUTOCLAIM k g d 0 0"),
        (stream, "XSETID k 9-1"),
        (stream, "XDEL k 1-1"),
        (stream, "XDEL k 7-1"),
        (stream, "XTRIM k MAXLEN 1"),
        (stream, "XTRIM k MAXLEN 5"),
        (stream, "XADD k 3-1 a a"),
    ] {
        watch(&both, before, between);
    }
}

#[test]
fn what_changes_nothing_breaks_a_watch_where_redis_says_so() {
    let both = Both::start();
    for (before, between) in [
        ("RPUSH k 1", "LMOVE k k LEFT RIGHT"),
        ("RPUSH k 1", "RPOPLPUSH k k"),
        ("RPUSH k 1", "BRPOPLPUSH k k 0"),
        ("RPUSH k 1", "BLMOVE k k LEFT LEFT 0"),
        ("RPUSH k a b", "LMOVE k k LEFT LEFT"),
        ("RPUSH k a b", "LTRIM k 0 -1"),
        ("DEL k", "LTRIM k 0 -1"),
        ("RPUSH k a b", "LREM k 0 z"),
        ("RPUSH k a", "LSET k 0 a"),
        ("SET k a", "SETBIT k 0 0"),
        ("SET k a", "SETBIT k 1 1"),
        ("SET k a", "SETBIT k 8 0"),
        ("SET k a", "SETBIT k 0 1"),
        ("DEL k", "SETBIT k 0 0"),
        ("SET k a", "BITFIELD k SET u8 0 97"),
        ("SET k a", "BITFIELD k SET u8 0 98"),
        ("SET k a", "BITFIELD k SET u8 64 0"),
        ("SET k a", "BITFIELD k INCRBY u8 0 0"),
        ("SET k a", "BITFIELD k OVERFLOW FAIL INCRBY u8 0 200"),
        ("PFADD k a b c", "PFDEBUG TODENSE k"),
        ("PFADD k a b c", "PFDEBUG GETREG k"),
        ("PFADD k a", "PFADD k a"),
        ("PFADD k a", "PFCOUNT k"),
        ("SET k a", "SETRANGE k 0 a"),
        ("SET k a", "APPEND k x"),
        ("SET k 1", "INCRBY k 0"),
        ("SET k 1", "GETEX k PERSIST"),
        ("SET k 1 EX 100", "GETEX k PERSIST"),
        ("SADD k a", "SADD k a"),
        ("SADD k a", "SMOVE k k a"),
        ("HSET k f 1", "HSET k f 1"),
        ("HSET k f 1", "HSETNX k f 2"),
        ("ZADD k 1 a", "ZADD k 1 a"),
        ("ZADD k 1 a", "ZINCRBY k 0 a"),
        ("ZADD k 1 a", "ZUNIONSTORE k 1 k"),
        ("SET k 1", "RENAME k k"),
        ("SET k 1", "BITOP AND k l m"),
        ("SET k 1", "SORT l STORE k"),
        ("SET k 1", "SWAPDB 0 0"),
    ] {
        watch(&both, before, between);
    }
}

#[test]
fn who_monitors_keeps_away_from_the_keys() {
    Both::start().check_all(&[
        "a MULTI; a MONITOR; a SET a 1; a EXEC; a GET a",
        "a MONITOR; a GET a; a SET a 1; a DBSIZE; a PUBLISH a b; a RESET; a GET a",
    ]);
}

#[test]
fn a_small_sorted_set_is_scanned_as_it_is_kept() {
    let large = "9007199254740993 a 1e15 b -1e17 c 1.5 d 9.2e18 e 1e19 f inf g -0.0 h 0.1 i";
    let script = format!("a ZADD z 1e17 x 1e18 y 4611686018427387904 z {large}; a ZSCAN z 0");
    let both = Both::start();
    both.check(&script);
    let long = "x".repeat(100);
    both.check(&format!("a ZADD z 1e17 {long}; a ZSCAN z 0; a ZADD z 5 {long}; a ZSCAN z 0"));
}

#[test]
fn the_time_to_wait_is_read_as_redis_reads_it() {
    let both = Both::start();
    for time in [
        "9223372036854775",
        "9223372036854775.807",
        "9223372036854775.808",
        "9223372036854776",
        "1e15",
        "1e16",
        "1e300",
        "1e400",
        "1e5000",
        "-1e400",
        "inf",
        "-inf",
        "nan",
        "-1",
        "-0.0001",
        "0x10",
        "1e-5",
        "x",
    ] {
        both.check(&format!("a RPUSH l 1; a BLPOP l {time}; a LLEN l"));
    }
    for time in ["9223372036854775807", "9223372036854775808", "-1", "1.5"] {
        both.check(&format!("a XADD s 1-1 a a; a XREAD BLOCK {time} STREAMS s 0"));
    }
}

#[test]
fn the_ids_of_a_stream_come_to_an_end_as_in_redis() {
    let last = "18446744073709551615";
    Both::start().check_all(&[
        &format!("a XADD s 1-{last} a a; a XADD s 1-* b b; a XADD s 0-* b b; a XADD s 2-* c c"),
        &format!("a XADD s {last}-{last} a a; a XADD s {last}-* b b; a XADD s 5-* b b"),
        "a XADD s 5-5 a a; a XADD s 4-* a a; a XADD s 5-* a a",
    ]);
}

#[test]
fn keys_of_requests_have_the_flags_that_redis_gives_them() {
    let both = Both::start();
    for request in [
        "SPUBLISH a b",
        "SSUBSCRIBE a",
        "PUBLISH a b",
        "BITFIELD a",
        "BITFIELD a GET u8 0",
        "BITFIELD a SET u8 0 1",
        "BITFIELD a GET u8 0 OVERFLOW SAT INCRBY u8 0 1",
        "BITFIELD a GET u8 0 OVERFLOW SAT GET u8 0",
        "BITFIELD a NOPE",
        "SET a b",
        "SET a b NX GET",
    ] {
        both.check(&format!("a COMMAND GETKEYS {request}; a COMMAND GETKEYSANDFLAGS {request}"));
    }
}

#[test]
fn the_digest_of_equal_data_is_that_of_redis() {
    let large: String = (0..600).map(|n| format!(" {n} member-{n}")).collect();
    let script = [
        "a DEBUG DIGEST",
        "a SET text value; a SET number 12345; a SET float 3.5; a SETRANGE long 2000 x",
        "a RPUSH list a b 1 2 -3 a; a SADD numbers 3 1 2; a SADD names x y 1",
        "a HSET hash f v n 1; a ZADD scores 1 a -2.5 b 1e300 c 0.1 d inf e -inf f 0 g 3 h",
        &format!("a HSET big-hash{large}; a ZADD big-scores{large}; a SADD big-set{large}"),
        "a XADD stream 1-1 f v g w; a XADD stream 5-2 f v; a XDEL stream 1-1; a XADD stream 9-9 x y",
        "a XGROUP CREATE stream g 0; a PFADD hll a b c; a DEBUG DIGEST",
        "a EXPIRE text 1000; a DEBUG DIGEST; a DEBUG DIGEST-VALUE text number list missing stream",
        "a DEBUG DIGEST-VALUE numbers names hash scores big-hash big-scores big-set hll",
        "a SELECT 9; a SET text value; a DEBUG DIGEST; a SELECT 15; a RPUSH list b a; a DEBUG DIGEST",
        "a SWAPDB 9 15; a DEBUG DIGEST",
    ];
    Both::start().check(&script.join("; "));
}

#[test]
fn directives_are_set_and_refused_as_by_redis() {
    let both = Both::start();
    for pairs in [
        "hash-max-ziplist-entries -1",
        "HASH-MAX-ziplist-entries -1",
        "hash-max-listpack-entries 99999999999999999999",
        "hash-max-listpack-entries 9223372036854775808",
        "hash-max-listpack-entries 1 hash-max-ziplist-entries 2",
        "hash-max-ziplist-entries 1 hash-max-listpack-entries 512",
        "timeout 0 TIMEOUT 0",
        "slave-priority x",
        "list-max-ziplist-size x",
    ] {
        both.check(&format!("a CONFIG SET {pairs}"));
        for name in ["hash-max-ziplist-entries", "hash-max-listpack-entries"] {
            both.check(&format!("a CONFIG GET {name}"));
        }
    }
}

#[test]
fn debugging_is_refused_in_the_words_of_redis() {
    let both = Both::start();
    for what in [
        "QUICKLIST-PACKED-THRESHOLD foo",
        "QUICKLIST-PACKED-THRESHOLD -1",
        "QUICKLIST-PACKED-THRESHOLD 10b",
        "QUICKLIST-PACKED-THRESHOLD 4293918720",
        "QUICKLIST-PACKED-THRESHOLD 4293918721",
        "QUICKLIST-PACKED-THRESHOLD 0",
        "QUICKLIST-PACKED-THRESHOLD 1 2",
        "STRINGMATCH-LEN 1",
        "RELOAD x",
        "RELOAD NOSAVE x",
        "POPULATE x",
        "POPULATE -1",
        "POPULATE 1 a x",
        "POPULATE 1 a -1",
        "LISTPACK l",
        "LISTPACK h",
        "LISTPACK s",
        "LISTPACK no",
        "LISTPACK",
        "QUICKLIST l",
        "QUICKLIST l 1",
        "QUICKLIST h",
        "QUICKLIST no",
        "QUICKLIST l 1 2",
    ] {
        both.check(&format!("a RPUSH l a; a HSET h a b; a SET s 1; a DEBUG {what}"));
    }
}

#[test]
fn clients_are_unblocked_and_listed_as_by_redis() {
    let both = Both::start();
    both.check_all(&[
        "a CLIENT UNBLOCK 1 TIMEOUT x",
        "a CLIENT unblock x",
        "a CLIENT UNBLOCK x x",
        "a CLIENT UNBLOCK 1 ERROR",
    ]);
    let commands = |server: &Server| {
        let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
        for (client, lines) in clients.iter_mut().zip([
            ["MULTI", "SET a b"],
            ["PING", "SET a"],
            ["PING", "nonsense"],
            ["MULTI", "CONFIG GET x"],
        ]) {
            lines.iter().for_each(|line| drop(client.run(line)));
        }
        let list = clients[0].run("DISCARD").is_ok().then(|| server.client().run("CLIENT LIST"));
        let list = list.expect("a transaction").text();
        let field_of = |line: &str, name: &str| {
            line.split(' ').find_map(|word| word.strip_prefix(name)).map(str::to_owned)
        };
        let ids = list.lines().filter_map(|line| field_of(line, "id=")?.parse::<u64>().ok());
        assert!(ids.clone().is_sorted() && ids.count() >= 5, "{list}");
        list.lines().filter_map(|line| field_of(line, "cmd=")).collect::<Vec<_>>()
    };
    let (ours, theirs) = (commands(&both.ours), commands(&both.theirs));
    // Others may still be closing.
    assert_eq!(ours[ours.len() - 5..], theirs[theirs.len() - 5..]);
}
