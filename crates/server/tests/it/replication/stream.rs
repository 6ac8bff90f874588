//! What is in the stream: effects, in the form in which each replica gets the same data from them.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use testkit::{Client, Launch, Server};

use super::fake::{CAPABLE, Fake};
use super::{end, info, primary, quiet, replica, wait_until};

/// A primary, a client of it, and its replica.
struct Pair {
    server: Server,
    client: Client,
    replica: Fake,
}

impl Pair {
    fn start(launch: Launch) -> Pair {
        let server = launch.start();
        let (client, replica) = (server.client(), replica(&server));
        Pair { server, client, replica }
    }

    /// Executes a command, and compares what the replica gets of it.
    #[track_caller]
    fn check(&mut self, command: &str, expected: &[&str]) {
        let reply = self.client.run(command);
        assert!(!reply.is_error(), "{command}: {reply}");
        let commands = self.replica.commands(&mut self.client);
        assert_eq!(commands, expected, "{command}");
    }
}

fn backends() -> [Launch; 5] {
    [
        Launch::perdura_volatile(),
        Launch::perdura_aof("always"),
        Launch::perdura_pmem(),
        Launch::perdura_journal("everysec"),
        Launch::perdura_journal("always"),
    ]
    .map(quiet)
}

#[test]
fn the_first_command_after_a_dump_selects_its_database_and_offsets_are_exact() {
    for launch in backends() {
        let mut pair = Pair::start(launch);
        let client = &mut pair.client;
        client.check("SET a 1", "OK");
        assert_eq!(pair.replica.command(), "SELECT 0");
        assert_eq!(pair.replica.command(), "SET a 1");
        client.check("SELECT 10", "OK");
        client.check("SET a 1", "OK");
        client.check("GET a", "\"1\"");
        client.check("DEL none", "(integer) 0");
        client.check("SET b 1", "OK");
        assert_eq!(pair.replica.command(), "SELECT 10");
        assert_eq!(pair.replica.command(), "SET a 1");
        assert_eq!(pair.replica.command(), "SET b 1");
        assert_eq!(pair.replica.offset, end(client));
        // The other's dump says that nothing is selected: both are told.
        let mut other = replica(&pair.server);
        client.check("SET c 1", "OK");
        for replica in [&mut pair.replica, &mut other] {
            assert_eq!(replica.command(), "SELECT 10");
            assert_eq!(replica.command(), "SET c 1");
            assert_eq!(replica.offset, end(client));
        }
    }
}

#[test]
fn deterministic_commands_are_sent_as_they_are() {
    let mut pair = Pair::start(primary());
    for command in [
        "INCR n",
        "INCRBY n 5",
        "DECR n",
        "APPEND s xyz",
        "SETRANGE s 1 ab",
        "SETBIT bits 7 1",
        "HSET h a 1 b 2",
        "HINCRBY h a 2",
        "HDEL h b",
        "RPUSH l 1 2 3",
        "LPOP l",
        "LINSERT l BEFORE 3 x",
        "SADD t a b c",
        "SMOVE t t2 a",
        "ZADD z 1 a 2 b",
        "ZINCRBY z 1.5 a",
        "XADD x 1-1 f v",
        "XGROUP CREATE x g 0",
        "PFADD p a b",
        "RENAME s s2",
        "COPY s2 s3",
        "MOVE s3 4",
        "PERSIST s2",
        "SWAPDB 0 4",
        "SWAPDB 4 0",
        "FLUSHDB",
    ] {
        let sets_expiry = command.starts_with("PERSIST");
        if sets_expiry {
            pair.check("PEXPIREAT s2 99999999999999", &["PEXPIREAT s2 99999999999999"]);
        }
        pair.check(command, &[command]);
    }
    pair.check("GEOADD g 13.361389 38.115556 palermo", &[&pair_of_geoadd()]);
    pair.check("FLUSHALL", &["FLUSHALL"]);
}

/// GEOADD is a ZADD with the score that it computes, or stays as it is.
fn pair_of_geoadd() -> String {
    "GEOADD g 13.361389 38.115556 palermo".to_owned()
}

#[test]
fn what_differs_from_run_to_run_is_sent_as_its_result() {
    let mut pair = Pair::start(primary());
    pair.check("SADD s one two", &["SADD s one two"]);
    let popped = pair.client.run("SPOP s").text();
    assert_eq!(pair.replica.commands(&mut pair.client), [format!("SREM s {popped}")]);
    pair.check("SPOP s", &["DEL s"]);
    pair.check("SADD s a b c", &["SADD s a b c"]);
    pair.check("SPOP s 3", &["DEL s"]);
    pair.check("SET n 10.5", &["SET n 10.5"]);
    pair.check("INCRBYFLOAT n 0.1", &["SET n 10.6 KEEPTTL"]);
    pair.check("HSET h f 1", &["HSET h f 1"]);
    pair.check("HINCRBYFLOAT h f 0.5", &["HSET h f 1.5"]);
    // Of times, absolute ones.
    pair.check("SET k v PXAT 99999999999000", &["SET k v PXAT 99999999999000"]);
    pair.check("SET k v EXAT 99999999999", &["SET k v PXAT 99999999999000"]);
    for (command, expected) in [
        ("SET k v EX 1000", "SET k v PXAT "),
        ("SETEX k 1000 v", "SET k v PXAT "),
        ("PSETEX k 1000000 v", "SET k v PXAT "),
        ("EXPIRE k 2000", "PEXPIREAT k "),
        ("PEXPIRE k 3000000", "PEXPIREAT k "),
        ("GETEX k EX 100", "PEXPIREAT k "),
    ] {
        let reply = pair.client.run(command);
        assert!(!reply.is_error(), "{command}: {reply}");
        let commands = pair.replica.commands(&mut pair.client);
        assert!(
            commands.len() == 1 && commands[0].starts_with(expected),
            "{command}: {commands:?}"
        );
        let at = pair.client.run("PEXPIRETIME k").int().expect("a time");
        assert_eq!(commands[0], format!("{expected}{at}"), "{command}");
    }
    pair.check("GETEX k PERSIST", &["PERSIST k"]);
    pair.check("GETDEL k", &["DEL k"]);
    let id = pair.client.run("XADD x * f v").text();
    assert_eq!(pair.replica.commands(&mut pair.client), [format!("XADD x {id} f v")]);
}

#[test]
fn a_transaction_and_a_script_are_one_group() {
    let mut pair = Pair::start(primary());
    let begin = ["MULTI", "SET a 1", "GET a", "SELECT 3", "INCR b", "EXEC"];
    begin.iter().for_each(|command| {
        pair.client.run(command);
    });
    let mut got = Vec::new();
    while got.last().is_none_or(|command| command != "EXEC") {
        got.push(pair.replica.command());
    }
    assert_eq!(got, ["SELECT 0", "MULTI", "SET a 1", "SELECT 3", "INCR b", "EXEC"]);
    pair.client.check("SELECT 0", "OK");
    pair.check("SADD s x", &["SADD s x"]);
    let script = "EVAL \"redis.call('spop','s') redis.call('get','a') redis.call('incr','n') \
                  return redis.call('expire','n',0)\" 0";
    pair.check(script, &["MULTI", "DEL s", "incr n", "DEL n", "EXEC"]);
    pair.check("EVAL \"return redis.call('set','a','2')\" 0", &["set a 2"]);
    pair.check("EVAL \"return redis.call('get','a')\" 0", &[]);
    // A transaction without effects, and one whose second command fails.
    for line in ["MULTI", "GET a", "EXEC", "MULTI", "SET q 1", "LPUSH q 1", "SET r 1", "EXEC"] {
        pair.client.run(line);
    }
    let got = pair.replica.commands(&mut pair.client);
    assert_eq!(got, ["MULTI", "SET q 1", "SET r 1", "EXEC"]);
    let library = "FUNCTION LOAD \"#!lua name=l\\nredis.register_function('f', function() return \
                   redis.call('incr','m') end)\"";
    pair.client.check(library, "\"l\"");
    let got = pair.replica.commands(&mut pair.client);
    assert!(got.len() == 1 && got[0].starts_with("FUNCTION LOAD"), "{got:?}");
    pair.check("FCALL f 0", &["incr m"]);
    pair.check("FUNCTION DELETE l", &["FUNCTION DELETE l"]);
}

/// Commands of one pipeline are committed together, but are not one transaction.
#[test]
fn a_pipeline_is_no_group() {
    let mut pair = Pair::start(primary());
    let requests: Vec<Vec<String>> = (0..50)
        .map(|number| vec!["SET".to_owned(), format!("k{number}"), number.to_string()])
        .collect();
    pair.client.pipeline(&requests).expect("replies");
    let expected: Vec<String> = requests.iter().map(|words| words.join(" ")).collect();
    assert_eq!(pair.replica.commands(&mut pair.client), expected);
}

#[test]
fn a_key_that_expires_is_deleted_by_its_primary() {
    for launch in backends() {
        let mut pair = Pair::start(launch);
        // Nobody reads it.
        assert!(pair.client.run("SET brief v PX 1").is_ok());
        let mut commands = Vec::new();
        wait_until("it is deleted", || {
            commands.extend(pair.replica.commands(&mut pair.client));
            commands.iter().any(|command| command == "DEL brief")
        });
        assert_eq!(commands.len(), 2, "{commands:?}");
        // Only a reader finds it.
        pair.client.check("DEBUG SET-ACTIVE-EXPIRE 0", "OK");
        pair.client.check("SET lazy v PX 1", "OK");
        wait_until("it has expired", || pair.client.run("GET lazy").to_string() == "(nil)");
        let commands = pair.replica.commands(&mut pair.client);
        assert_eq!(commands.len(), 2, "{commands:?}");
        assert_eq!(commands[1], "DEL lazy");
        // A writer finds it.
        pair.client.check("SET lazy v PX 1", "OK");
        wait_until("it has expired", || pair.client.run("EXISTS lazy").int() == Some(0));
        pair.client.check("INCR lazy", "(integer) 1");
        let commands = pair.replica.commands(&mut pair.client);
        assert_eq!(commands[1..], ["DEL lazy", "INCR lazy"], "{commands:?}");
    }
}

#[test]
fn a_field_that_expires_is_deleted_by_its_primary() {
    let mut pair = Pair::start(primary());
    pair.client.check("HSET h a 1 b 2", "(integer) 2");
    assert_eq!(pair.client.run("HPEXPIRE h 1 FIELDS 1 a").to_string(), "[(integer) 1]");
    let mut commands = Vec::new();
    wait_until("it is deleted", || {
        commands.extend(pair.replica.commands(&mut pair.client));
        commands.iter().any(|command| command == "HDEL h a")
    });
    assert!(commands[1].starts_with("HPEXPIREAT h "), "{commands:?}");
}

#[test]
fn a_key_that_is_evicted_is_deleted() {
    let launch = primary().args(["--maxmemory-policy", "allkeys-random"]);
    let mut pair = Pair::start(launch);
    for number in 0..200 {
        assert!(pair.client.call(&["SET", &format!("k{number}"), &"x".repeat(10_000)]).is_ok());
    }
    assert_eq!(pair.replica.commands(&mut pair.client).len(), 200);
    let used: u64 = pair.client.info("memory")["used_memory"].parse().expect("bytes");
    pair.client.check(&format!("CONFIG SET maxmemory {}", used - 500_000), "OK");
    wait_until("keys are evicted", || pair.client.info("stats")["evicted_keys"] != "0");
    // Without a bound there are no evictions after this.
    pair.client.check("CONFIG SET maxmemory 0", "OK");
    let commands = pair.replica.commands(&mut pair.client);
    let evicted: u64 = pair.client.info("stats")["evicted_keys"].parse().expect("a number");
    let deleted = commands.iter().filter(|command| command.starts_with("DEL ")).count();
    assert_eq!(deleted as u64, evicted, "{commands:?}");
    let is_other = |command: &&String| !(command.starts_with("DEL ") || is_bracket(command));
    assert_eq!(commands.iter().find(is_other), None, "{commands:?}");
}

fn is_bracket(command: &str) -> bool {
    ["MULTI", "EXEC"].contains(&command)
}

#[test]
fn a_blocked_client_that_is_served_is_sent_as_what_it_did() {
    let mut pair = Pair::start(primary());
    for (blocks, serves, expected) in [
        ("BLPOP l 0", "RPUSH l 1", ["RPUSH l 1", "LPOP l"]),
        ("BLMOVE l m LEFT RIGHT 0", "RPUSH l 1", ["RPUSH l 1", "LMOVE l m LEFT RIGHT"]),
        ("BZPOPMIN z 0", "ZADD z 1 a", ["ZADD z 1 a", "ZPOPMIN z 1"]),
    ] {
        let mut blocked = pair.server.client();
        blocked.send(&blocks.split(' ').collect::<Vec<_>>()).expect("it is sent");
        wait_until("it is blocked", || pair.client.info("clients")["blocked_clients"] == "1");
        assert!(!pair.client.run(serves).is_error());
        assert!(!blocked.receive().expect("a reply").is_error());
        assert_eq!(pair.replica.commands(&mut pair.client), expected, "{blocks}");
    }
}

#[test]
fn messages_are_sent_and_select_no_database() {
    let mut pair = Pair::start(primary());
    for message in ["PUBLISH channel text", "SPUBLISH channel text"] {
        pair.client.check(message, "(integer) 0");
        assert_eq!(pair.replica.command(), message);
    }
    assert_eq!(pair.replica.offset, end(&mut pair.client));
    for line in ["MULTI", "SET a 1", "PUBLISH channel inside", "EXEC"] {
        pair.client.run(line);
    }
    let commands = pair.replica.commands(&mut pair.client);
    let at = |wanted: &str| commands.iter().filter(|command| *command == wanted).count();
    assert_eq!((at("SET a 1"), at("PUBLISH channel inside")), (1, 1), "{commands:?}");
}

#[test]
fn a_primary_shows_that_it_is_alive() {
    let launch = Launch::perdura_volatile().args(["--repl-ping-replica-period", "1"]);
    let server = launch.start();
    let mut replica = replica(&server);
    for _ in 0..2 {
        assert_eq!(replica.command(), "PING", "it selects no database");
    }
    let mut client = server.client();
    client.check("CONFIG SET repl-ping-replica-period 3600", "OK");
    replica.catch_up(&mut client);
}

/// Returns the database that a dump says is selected where the stream goes on.
fn database_of(dump: &[u8]) -> u8 {
    const NAME: &[u8] = b"repl-stream-db\xc0";
    let at = dump.windows(NAME.len()).position(|part| part == NAME).expect("it is named");
    dump[at + NAME.len()]
}

/// Ends a writer when it is dropped, also by a panic.
struct Ends<'f>(&'f AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A SELECT may come between the cuts of two receivers of one dump.
#[test]
fn receivers_of_one_dump_in_the_middle_of_a_chain_begin_with_its_database() {
    let first = primary().start();
    let follows = format!("127.0.0.1 {}", first.port());
    let middle = primary().args(["--replicaof", &follows]).start();
    let mut client = middle.client();
    wait_until("it follows", || info(&mut client, "master_link_status") == "up");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = first.client();
            let lines = ["SELECT 0", "SET in0 1", "SELECT 1", "SET in1 1"];
            let lines = lines.map(|line| line.split(' ').collect::<Vec<&str>>());
            while !is_over.load(Relaxed) {
                writer.send_pipeline(&lines).expect("they are sent");
                lines.iter().for_each(|_| drop(writer.receive()));
            }
        });
        let _ends = Ends(&is_over);
        // Before it has received a SELECT, none is selected.
        client.check("SELECT 1", "OK");
        wait_until("it has the last key", || client.run("DBSIZE").int() == Some(1));
        let mut served = 0;
        while served < 120 {
            let mut fakes: Vec<Fake> = (0..6).map(|_| Fake::connect(&middle)).collect();
            fakes.iter_mut().for_each(|fake| fake.check(CAPABLE, "+OK"));
            fakes.iter_mut().for_each(|fake| fake.send("PSYNC ? -1"));
            for fake in &mut fakes {
                if !fake.has_line() {
                    // Its stream would begin with another database: it is to come again.
                    continue;
                }
                let db = database_of(&fake.take_dump());
                fake.acknowledge();
                let command = fake.command();
                if let Some(in_db) = command.strip_prefix("SET in") {
                    assert_eq!(in_db, format!("{db} 1"));
                }
                served += 1;
            }
        }
    });
}
