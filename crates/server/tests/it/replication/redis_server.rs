//! redis-server as a replica: it must have the same data, whatever was written, and whatever
//! happened to it and its link.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fastrand::Rng;
use testkit::{Client, Launch, Server};

use super::{info, quiet, wait_until};

/// Starts a replica of a primary.
fn replicate(primary: &Server) -> Server {
    let launch = Launch::redis().args(["--repl-timeout", "30", "--dbfilename", "replica.rdb"]);
    let server = launch.args(["--replicaof", &format!("127.0.0.1 {}", primary.port())]).start();
    wait_for_link(&mut server.client());
    server
}

#[track_caller]
fn wait_for_link(replica: &mut Client) {
    wait_until("the link is up", || info(replica, "master_link_status") == "up");
}

/// Waits until the replica has all, and compares the data.
#[track_caller]
fn check_equal(primary: &mut Client, replica: &mut Client) {
    let mut last = (String::new(), String::new());
    let is_equal = || {
        let offset = info(primary, "master_repl_offset");
        if info(replica, "slave_repl_offset") != offset {
            return false;
        }
        last = (primary.run("DEBUG DIGEST").text(), replica.run("DEBUG DIGEST").text());
        last.0 == last.1
    };
    wait_until("the replica has other data", is_equal);
    assert_ne!(last.0, "0".repeat(40), "there are data");
}

/// Returns a random write; some fail, since the key has another type.
fn write(random: &mut Rng) -> Vec<String> {
    const WRITES: &[&str] = &[
        "SET K V",
        "SET K V EX 100",
        "SET K V PX 30",
        "SETEX K 50 V",
        "APPEND K V",
        "INCR K",
        "INCRBYFLOAT K 1.25",
        "SETRANGE K 5 V",
        "SETBIT K 77 1",
        "GETDEL K",
        "GETEX K EX 70",
        "GETEX K PERSIST",
        "MSET K V K V",
        "BITOP XOR K K K",
        "PFADD K V V",
        "PFMERGE K K",
        "HSET K f1 V f2 V",
        "HSET K V V",
        "HINCRBY K n 3",
        "HINCRBYFLOAT K n 0.5",
        "HDEL K f1 n",
        "RPUSH K V V V",
        "LPUSH K V",
        "LPOP K 2",
        "RPOP K",
        "LTRIM K 0 5",
        "LREM K 1 V",
        "LINSERT K BEFORE V V",
        "LSET K 0 V",
        "LMOVE K K LEFT RIGHT",
        "RPOPLPUSH K K",
        "SADD K V V V",
        "SREM K V",
        "SPOP K",
        "SPOP K 2",
        "SMOVE K K V",
        "SUNIONSTORE K K K",
        "SINTERSTORE K K K",
        "SDIFFSTORE K K K",
        "ZADD K 1.5 V 2 V",
        "ZADD K GT CH 7 V",
        "ZINCRBY K 2.25 V",
        "ZREM K V",
        "ZPOPMIN K",
        "ZPOPMAX K 2",
        "ZUNIONSTORE K 2 K K",
        "ZRANGESTORE K K 0 2",
        "ZREMRANGEBYRANK K 0 0",
        "GEOADD K 13.36 38.11 V",
        "GEOSEARCHSTORE K K FROMLONLAT 13 38 BYRADIUS 500 km",
        "XADD K * f V",
        "XADD K MAXLEN ~ 10 * f V",
        "XTRIM K MAXLEN 3",
        "XGROUP CREATE K g 0 MKSTREAM",
        "XREADGROUP GROUP g c COUNT 2 STREAMS K >",
        "XAUTOCLAIM K g d 0 0 COUNT 1",
        "XGROUP DELCONSUMER K g c",
        "XGROUP SETID K g 0",
        "DEL K",
        "UNLINK K K",
        "EXPIRE K 100",
        "PEXPIRE K 20",
        "PERSIST K",
        "EXPIREAT K 1",
        "RENAME K K",
        "RENAMENX K K",
        "COPY K K",
        "COPY K K REPLACE",
        "MOVE K 3",
        "SORT K ALPHA STORE K",
        "SWAPDB 0 3",
        "SELECT 3",
        "SELECT 0",
        "RESTORE",
        "EVAL",
        "MULTI",
    ];
    let template = WRITES[random.usize(..WRITES.len())];
    let key = |random: &mut Rng| format!("key:{}", random.u32(..60));
    let value = |random: &mut Rng| match random.u8(..6) {
        0 => random.i32(..).to_string(),
        1 => "x".repeat(random.usize(..300)),
        2 => "\u{e4}\r\n\0".repeat(random.usize(..3)),
        _ => format!("v{}", random.u32(..8)),
    };
    let script = "redis.call('set', KEYS[1], ARGV[1]) redis.call('incr', 'script:n') \
                  return redis.call('sadd', 'script:s', math.random(100))";
    match template {
        "EVAL" => ["EVAL", script, "1", &key(random), &value(random)].map(str::to_owned).into(),
        "RESTORE" => ["SET", "restored", &value(random)].map(str::to_owned).into(),
        _ => template
            .split(' ')
            .map(|word| match word {
                "K" => key(random),
                "V" => value(random),
                _ => word.to_owned(),
            })
            .collect(),
    }
}

/// Writes until it is told to stop, in pipelines, some of which are transactions.
fn write_until(stop: &AtomicBool, mut client: Client, seed: u64) {
    let mut random = Rng::with_seed(seed);
    while !stop.load(Relaxed) {
        let mut requests: Vec<Vec<String>> = (0..random.usize(1..20))
            .map(|_| write(&mut random))
            .filter(|words| words[0] != "MULTI")
            .collect();
        if random.u8(..3) == 0 {
            requests.insert(0, vec!["MULTI".to_owned()]);
            requests.push(vec!["EXEC".to_owned()]);
        }
        client.pipeline(&requests).expect("replies");
    }
}

/// Runs `then` while three clients write.
fn while_writing(primary: &Server, seed: u64, then: impl FnOnce()) {
    println!("seed {seed}");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (stop, client) = (&stop, primary.client());
            scope.spawn(move || write_until(stop, client, seed + number));
        }
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(then));
        stop.store(true, Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// Waits until this many more bytes are in the stream.
fn wait_for_bytes(client: &mut Client, bytes: u64) {
    let until = super::end(client) + bytes;
    wait_until("nothing is written", || super::end(client) >= until);
}

fn check_random_writes(launch: Launch) {
    let primary = quiet(launch).start();
    let (mut client, seed) = (primary.client(), Rng::new().u64(..1 << 40));
    let mut replica = None;
    while_writing(&primary, seed, || {
        client.check("SET before 1", "OK");
        let server = replica.insert(replicate(&primary));
        wait_for_bytes(&mut client, 300_000);
        // Its link is cut by either side: it continues.
        client.check("CLIENT KILL TYPE replica", "(integer) 1");
        wait_until("it notices", || server.log().contains("Connection with master lost"));
        wait_for_bytes(&mut client, 100_000);
        wait_for_link(&mut server.client());
        server.client().check("CLIENT KILL TYPE master", "(integer) 1");
        wait_until("it notices", || {
            server.log().matches("Connection with master lost").count() > 1
        });
        wait_for_bytes(&mut client, 100_000);
        wait_for_link(&mut server.client());
    });
    let replica = replica.expect("a replica");
    check_equal(&mut client, &mut replica.client());
    let log = replica.log();
    assert_eq!(log.matches("Full resync from master").count(), 1, "{log}");
    assert!(log.matches("Successful partial resynchronization").count() >= 2, "{log}");
    let stats = client.info("stats");
    assert_eq!(stats["sync_full"], "1");
    assert!(stats["sync_partial_ok"].parse::<u64>().expect("a number") >= 2);
    assert_eq!(info(&mut client, "master_replid"), info(&mut replica.client(), "master_replid"));
}

#[test]
fn a_replica_of_a_server_in_memory_has_its_data() {
    check_random_writes(Launch::perdura_volatile());
}

#[test]
fn a_replica_of_a_server_with_a_log_has_its_data() {
    check_random_writes(Launch::perdura_aof("always"));
}

#[test]
fn a_replica_of_a_pool_has_its_data() {
    check_random_writes(Launch::perdura_pmem());
}

#[test]
fn a_replica_of_a_pool_with_a_journal_has_its_data() {
    let journal = |policy| Launch::perdura_journal(policy).args(["--journal-size", "16mb"]);
    check_random_writes(journal("everysec"));
    check_random_writes(journal("always"));
}

#[test]
fn a_replica_that_was_shut_down_continues_from_its_dump() {
    let primary = quiet(Launch::perdura_volatile()).start();
    let mut client = primary.client();
    let mut replica = replicate(&primary);
    client.check("SET a 1", "OK");
    check_equal(&mut client, &mut replica.client());
    // It saves how far it was.
    let _ = replica.client().try_call(&["SHUTDOWN", "SAVE"]);
    assert!(replica.wait().success());
    wait_until("it is gone", || info(&mut client, "connected_slaves") == "0");
    client.check("SET b 2", "OK");
    replica.start_again();
    wait_for_link(&mut replica.client());
    check_equal(&mut client, &mut replica.client());
    assert!(!replica.log().contains("Full resync"), "{}", replica.log());
    // Without what it saved it needs a dump.
    replica.kill();
    std::fs::remove_file(replica.folder().join("replica.rdb")).expect("a dump");
    replica.start_again();
    wait_for_link(&mut replica.client());
    check_equal(&mut client, &mut replica.client());
    assert!(replica.log().contains("Full resync"), "{}", replica.log());
}

#[test]
fn libraries_databases_and_groups_arrive() {
    let primary = quiet(Launch::perdura_volatile()).start();
    let mut client = primary.client();
    let load = |client: &mut Client, name: &str| {
        let code = format!(
            "#!lua name={name}\nredis.register_function('f_{name}', function(keys) return \
             redis.call('incr', keys[1]) end)"
        );
        assert_eq!(client.call(&["FUNCTION", "LOAD", &code]).text(), name);
    };
    load(&mut client, "before");
    client.check("XADD x 1-1 f v", "\"1-1\"");
    client.check("XGROUP CREATE x old 0", "OK");
    client
        .check("XREADGROUP GROUP old alice STREAMS x >", "[[\"x\", [[\"1-1\", [\"f\", \"v\"]]]]]");
    let replica = replicate(&primary);
    let mut there = replica.client();
    load(&mut client, "after");
    client.check("FCALL f_before 1 n", "(integer) 1");
    client.check("FCALL f_after 1 n", "(integer) 2");
    for line in [
        "XADD x 2-1 f w",
        "XGROUP CREATE x new 0",
        "XREADGROUP GROUP new bob STREAMS x >",
        "XREADGROUP GROUP old carol STREAMS x >",
        "XACK x old 1-1",
        "XCLAIM x new dave 0 1-1",
        "XGROUP CREATECONSUMER x new idle",
        "MSET a 1 b 2 c 3",
        "COPY a a2",
        "RENAME b b2",
        "MOVE c 7",
        "SWAPDB 0 5",
        "SET only-here 1",
        "SWAPDB 0 5",
    ] {
        let reply = client.run(line);
        assert!(!reply.is_error(), "{line}: {reply}");
    }
    check_equal(&mut client, &mut there);
    for question in [
        "FUNCTION LIST WITHCODE",
        "MGET a a2 b b2 c n",
        "XRANGE x - +",
        "XPENDING x old",
        "XPENDING x new",
        "XINFO GROUPS x",
        "INFO keyspace",
    ] {
        let [here, there] = [&mut client, &mut there].map(|client| {
            let text = client.run(question).to_string();
            text.split(",avg_ttl").next().unwrap_or_default().to_owned()
        });
        assert_eq!(sorted(&here), sorted(&there), "{question}");
    }
    // A change that leaves nothing.
    client.check("FUNCTION FLUSH", "OK");
    client.check("FLUSHALL", "OK");
    wait_until("it is empty", || there.run("DBSIZE").int() == Some(0));
    wait_until("it has no library", || there.run("FUNCTION LIST").items().is_empty());
    client.check("SET a 1", "OK");
    check_equal(&mut client, &mut there);
    there.check("SET a 2", "(error) READONLY You can't write against a read only replica.");
}

/// Returns the characters in an order of their own: lists come in any order.
fn sorted(text: &str) -> String {
    let mut words: Vec<&str> = text.split([',', ' ', '[', ']']).collect();
    words.sort_unstable();
    words.join(" ")
}

/// redis-server waits for its primary as any client does, and clients wait for it.
#[test]
fn writes_reach_a_replica_that_is_waited_for() {
    let primary = quiet(Launch::perdura_aof("always")).start();
    let mut client = primary.client();
    let (one, two) = (replicate(&primary), replicate(&primary));
    for number in 0..100 {
        client.check(&format!("SET key {number}"), "OK");
        client.check("WAIT 2 0", "(integer) 2");
        for replica in [&one, &two] {
            replica.client().check("GET key", &format!("\"{number}\""));
        }
    }
    one.pause();
    client.check("SET key last", "OK");
    client.check("WAIT 2 1", "(integer) 1");
    one.resume();
    client.check("WAIT 2 0", "(integer) 2");
}
