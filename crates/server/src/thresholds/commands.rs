//! Limits of commands: times, lengths and counts.

use std::sync::atomic::Ordering::Relaxed;

use super::ground::{Ground, Guest, number};
use super::{Above, At, Row, row};

pub(super) fn rows() -> Vec<Row> {
    let mut rows = waits();
    rows.extend(expiry());
    rows.extend(fields());
    rows.extend(idle());
    rows.extend(slow_commands());
    rows.extend(kept_entries());
    rows.extend(large_commands());
    rows.extend(shown_entries());
    rows.extend(denials());
    rows.extend(encodings());
    rows.extend(sizes());
    rows
}

/// Puts a limit into a line: `{n}`, or as seconds if it is in milliseconds: `{s}`.
fn fill_in(line: &str, n: u64) -> String {
    line.replace("{n}", &n.to_string()).replace("{s}", &format!("{}.{:03}", n / 1000, n % 1000))
}

/// Milliseconds of an eighth of a second, which is exact as a fraction. (Redis rounds others up.)
const EIGHTH: u64 = 125;

/// Commands that wait, and get their reply when the timeout has passed.
fn waits() -> Vec<Row> {
    const LINES: [&str; 14] = [
        "BLPOP nothing {s}",
        "BRPOP nothing other {s}",
        "BLMOVE nothing other LEFT RIGHT {s}",
        "BRPOPLPUSH nothing other {s}",
        "BLMPOP {s} 1 nothing LEFT",
        "BZPOPMIN nothing {s}",
        "BZPOPMAX nothing {s}",
        "BZMPOP {s} 1 nothing MIN",
        "XREAD BLOCK {n} STREAMS nothing $",
        "XREADGROUP GROUP g c BLOCK {n} STREAMS stream >",
        "WAIT 1 {n}",
        "WAITAOF 0 1 {n}",
        "XREAD COUNT 3 BLOCK {n} STREAMS nothing 0",
        "XREADGROUP GROUP g c COUNT 1 BLOCK {n} NOACK STREAMS stream >",
    ];
    let wait = |line: &'static str| {
        let run = move |ground: &Ground, limit: u64, amount: u64| {
            ground.ask("FLUSHALL");
            ground.ask("XGROUP CREATE stream g $ MKSTREAM");
            let client = ground.client();
            client.say(&fill_in(line, limit * EIGHTH));
            assert_eq!(client.received(), "", "{line} waits");
            // In two steps: the first must not count for more than its length.
            ground.pass(amount / 2);
            ground.pass(amount - amount / 2);
            !client.received().is_empty()
        };
        row(line, (1, 700), EIGHTH, Above, run)
    };
    LINES.into_iter().map(wait).collect()
}

/// Requests that give a key its TTL, with the unit.
const TIMES: [(&str, u64); 12] = [
    ("SET key v PX {n}", 1),
    ("SET key v EX {n}", 1000),
    ("PSETEX key {n} v", 1),
    ("SETEX key {n} v", 1000),
    ("PEXPIRE key {n}", 1),
    ("EXPIRE key {n}", 1000),
    ("GETEX key PX {n}", 1),
    ("GETEX key EX {n}", 1000),
    ("PEXPIREAT key {at}", 1),
    ("SET key v PXAT {at}", 1),
    ("GETEX key PXAT {at}", 1),
    ("EVAL redis.call('pexpire','key',{n}) 0", 1),
];

/// A key exists until the millisecond of its expiry, and periodic work deletes it.
fn expiry() -> Vec<Row> {
    let mut rows = Vec::new();
    for (line, unit) in TIMES {
        let set = move |ground: &Ground, limit: u64| {
            ground.ask("FLUSHALL");
            ground.ask("SET key v");
            let at = (ground.now_ms() + limit * unit).to_string();
            let reply = ground.ask(&fill_in(line, limit).replace("{at}", &at));
            assert!(!reply.starts_with('-'), "{line}: {reply}");
        };
        let looked_at = move |ground: &Ground, limit: u64, amount: u64| {
            ground.stage.shared.active_expire.store(false, Relaxed);
            set(ground, limit);
            ground.pass(amount);
            let left = number_or(&ground.ask("PTTL key"));
            let is_there = ground.ask("EXISTS key") == ":1\r\n";
            assert_eq!(left, if is_there { (limit * unit - amount) as i64 } else { -2 }, "{line}");
            !is_there
        };
        let by_itself = move |ground: &Ground, limit: u64, amount: u64| {
            ground.stage.shared.active_expire.store(false, Relaxed);
            set(ground, limit);
            ground.pass(amount);
            let engine = &ground.stage.shared.engine;
            (0..engine.keyspace().shards()).for_each(|shard| _ = engine.expire_step(shard, 100));
            ground.ask("DBSIZE") == ":0\r\n"
        };
        rows.push(row(line, (2, 5000), unit, At, looked_at));
        rows.push(row(&format!("{line}, by itself"), (2, 5000), unit, At, by_itself));
    }
    rows
}

fn number_or(reply: &str) -> i64 {
    reply.trim_end().trim_start_matches(':').parse().expect("a number")
}

/// The same holds for a field of a hash.
fn fields() -> Vec<Row> {
    const LINES: [(&str, u64); 6] = [
        ("HPEXPIRE hash {n} FIELDS 1 f", 1),
        ("HEXPIRE hash {n} FIELDS 1 f", 1000),
        ("HPEXPIREAT hash {at} FIELDS 1 f", 1),
        ("HGETEX hash PX {n} FIELDS 1 f", 1),
        ("HSETEX hash PX {n} FIELDS 1 f v", 1),
        ("HSETEX hash EX {n} FIELDS 1 f v", 1000),
    ];
    let one = |(line, unit): (&'static str, u64)| {
        let run = move |ground: &Ground, limit: u64, amount: u64| {
            ground.ask("FLUSHALL");
            ground.ask("HSET hash f v g v");
            let at = (ground.now_ms() + limit * unit).to_string();
            ground.ask(&fill_in(line, limit).replace("{at}", &at));
            ground.pass(amount);
            ground.ask("HEXISTS hash f") == ":0\r\n"
        };
        row(line, (2, 5000), unit, At, run)
    };
    LINES.into_iter().map(one).collect()
}

/// Idle times.
fn idle() -> Vec<Row> {
    const CLAIMS: [&str; 4] = [
        "XCLAIM stream g other {n} 1-0",
        "XAUTOCLAIM stream g other {n} 0 JUSTID",
        "XPENDING stream g IDLE {n} - + 10",
        "XCLAIM stream g other {n} 1-0 JUSTID",
    ];
    let claim = |line: &'static str| {
        let run = move |ground: &Ground, limit: u64, amount: u64| {
            ground.ask("FLUSHALL");
            ground.ask("XADD stream 1-0 f v");
            ground.ask("XGROUP CREATE stream g 0");
            ground.ask("XREADGROUP GROUP g c STREAMS stream >");
            ground.pass(amount);
            ground.ask(&fill_in(line, limit)).contains("1-0")
        };
        row(line, (1, 100_000), 1, At, run)
    };
    let shown = |ground: &Ground, limit: u64, amount: u64| {
        ground.align(1000);
        ground.ask("SET key v");
        ground.pass(amount);
        number(&ground.ask("OBJECT IDLETIME key")) >= limit
    };
    let frequency = |ground: &Ground, limit: u64, amount: u64| {
        ground.set("maxmemory-policy", "allkeys-lfu");
        ground.set("lfu-decay-time", limit);
        ground.align(60_000);
        ground.ask("SET key v");
        let before = number(&ground.ask("OBJECT FREQ key"));
        ground.pass(amount);
        let after = number(&ground.ask("OBJECT FREQ key"));
        ground.set("maxmemory-policy", "noeviction");
        after < before
    };
    let mut rows: Vec<Row> = CLAIMS.into_iter().map(claim).collect();
    rows.push(row("OBJECT IDLETIME", (1, 1000), 1000, At, shown));
    rows.push(row("lfu-decay-time", (1, 200), 60_000, At, frequency));
    rows
}

/// Times from which on the slow log and LATENCY record a command.
fn slow_commands() -> Vec<Row> {
    let slow = |ground: &Ground, limit: u64, amount: u64| {
        ground.set("slowlog-log-slower-than", limit);
        ground.ask("SLOWLOG RESET");
        ground.ask(&format!("DEBUG SLEEP {}", amount as f64 / 1e6));
        let log = ground.ask("SLOWLOG GET");
        ground.set("slowlog-log-slower-than", -1);
        log.contains("SLEEP")
    };
    let latency = |ground: &Ground, limit: u64, amount: u64| {
        ground.set("latency-monitor-threshold", limit);
        ground.ask("LATENCY RESET");
        ground.ask(&format!("DEBUG SLEEP {}", amount as f64 / 1e3));
        let is_kept = ground.ask("LATENCY LATEST").contains("command");
        ground.set("latency-monitor-threshold", 0);
        is_kept
    };
    let samples = |ground: &Ground, _: u64, amount: u64| {
        ground.set("latency-monitor-threshold", 1);
        ground.ask("LATENCY RESET");
        ground.align(1000);
        let first = ground.now_ms() / 1000;
        for _ in 0..amount {
            ground.ask("DEBUG SLEEP 0.002");
            ground.align(1000);
        }
        let is_gone = !ground.ask("LATENCY HISTORY command").contains(&format!(":{first}\r\n"));
        ground.set("latency-monitor-threshold", 0);
        is_gone
    };
    vec![
        row("slowlog-log-slower-than", (2, 100_000), 1, At, slow),
        row("latency-monitor-threshold", (2, 3000), 1, At, latency),
        row("samples of LATENCY", (160, 160), 1, Above, samples),
    ]
}

/// Maximum number of entries in the slow log and similar logs.
fn kept_entries() -> Vec<Row> {
    let kept = |threshold: &'static str, length: &'static str, get: &'static str| {
        move |ground: &Ground, limit: u64, amount: u64| {
            let client = ground.client();
            ground.set(length, limit);
            ground.set(threshold, 0);
            client.ask("ECHO first");
            (1..amount).for_each(|_| _ = client.ask("ECHO more"));
            let is_gone = !client.ask(get).contains("first");
            ground.set(threshold, -1);
            is_gone
        }
    };
    let log = kept("slowlog-log-slower-than", "slowlog-max-len", "SLOWLOG GET -1");
    let requests = kept(
        "commandlog-request-larger-than",
        "commandlog-large-request-max-len",
        "COMMANDLOG GET -1 large-request",
    );
    let replies = kept(
        "commandlog-reply-larger-than",
        "commandlog-large-reply-max-len",
        "COMMANDLOG GET -1 large-reply",
    );
    vec![
        row("slowlog-max-len", (4, 40), 1, Above, log),
        row("commandlog-large-request-max-len", (4, 40), 1, Above, requests),
        row("commandlog-large-reply-max-len", (4, 40), 1, Above, replies),
    ]
}

/// Sizes from which on COMMANDLOG records a command.
fn large_commands() -> Vec<Row> {
    let request = |ground: &Ground, limit: u64, amount: u64| {
        // *2 $4 ECHO and the frame of a word of three digits.
        let text = "x".repeat(amount as usize - 22);
        assert!((100..1000).contains(&text.len()));
        ground.set("commandlog-request-larger-than", limit);
        ground.ask("COMMANDLOG RESET large-request");
        ground.ask(&format!("ECHO {text}"));
        let log = ground.ask("COMMANDLOG GET -1 large-request");
        ground.set("commandlog-request-larger-than", -1);
        log.contains("ECHO")
    };
    let reply = |ground: &Ground, limit: u64, amount: u64| {
        let text = "x".repeat(amount as usize - 8);
        ground.set("commandlog-reply-larger-than", limit);
        ground.ask("COMMANDLOG RESET large-reply");
        ground.ask(&format!("ECHO {text}"));
        let log = ground.ask("COMMANDLOG GET -1 large-reply");
        ground.set("commandlog-reply-larger-than", -1);
        log.contains("ECHO")
    };
    vec![
        row("commandlog-request-larger-than", (130, 900), 1, At, request),
        row("commandlog-reply-larger-than", (130, 900), 1, At, reply),
    ]
}

/// The part of a command, and the number of entries, that SLOWLOG shows.
fn shown_entries() -> Vec<Row> {
    let shortened = |ground: &Ground, line: &str| {
        let client = ground.client();
        ground.set("slowlog-log-slower-than", 0);
        client.ask(line);
        let log = client.ask("SLOWLOG GET 1");
        ground.set("slowlog-log-slower-than", -1);
        ground.ask("SLOWLOG RESET");
        log.contains(" more ")
    };
    let bytes = move |ground: &Ground, _: u64, amount: u64| {
        shortened(ground, &format!("ECHO {}", "x".repeat(amount as usize)))
    };
    let words = move |ground: &Ground, _: u64, amount: u64| {
        shortened(ground, &format!("DEL{}", " k".repeat(amount as usize - 1)))
    };
    let shown = |ground: &Ground, _: u64, amount: u64| {
        let client = ground.client();
        ground.set("slowlog-max-len", 128);
        ground.set("slowlog-log-slower-than", 0);
        ground.ask("SLOWLOG RESET");
        client.ask("ECHO first");
        (1..amount).for_each(|_| _ = client.ask("ECHO more"));
        let is_gone = !client.ask("SLOWLOG GET").contains("first");
        ground.set("slowlog-log-slower-than", -1);
        is_gone
    };
    vec![
        row("bytes of a word in SLOWLOG", (128, 128), 1, Above, bytes),
        row("words of a command in SLOWLOG", (32, 32), 1, Above, words),
        row("entries of SLOWLOG GET", (10, 10), 1, Above, shown),
    ]
}

/// Makes a client be refused this often.
fn refused(ground: &Ground, times: u64, pause: u64) -> Guest<'_> {
    ground.ask("ACL LOG RESET");
    ground.ask("ACL SETUSER reader reset on nopass +get ~mine");
    let client = ground.client();
    client.ask("AUTH reader x");
    for n in 1..=times {
        client.ask(&format!("GET key:{n}"));
        ground.pass(pause);
    }
    client
}

/// ACL LOG and the table of tracked keys.
fn denials() -> Vec<Row> {
    let length = move |ground: &Ground, limit: u64, amount: u64| {
        ground.set("acllog-max-len", limit);
        let _client = refused(ground, amount, 1);
        !ground.ask("ACL LOG 1000").contains("key:1\r\n")
    };
    let shown = move |ground: &Ground, _: u64, amount: u64| {
        ground.set("acllog-max-len", 128);
        let _client = refused(ground, amount, 1);
        !ground.ask("ACL LOG").contains("key:1\r\n")
    };
    let same = move |ground: &Ground, _: u64, amount: u64| {
        ground.set("acllog-max-len", 128);
        let client = refused(ground, 1, 0);
        ground.pass(amount);
        client.ask("GET key:1");
        ground.ask("ACL LOG").matches("key:1\r\n").count() > 1
    };
    let compared = move |ground: &Ground, _: u64, amount: u64| {
        ground.set("acllog-max-len", 128);
        let client = refused(ground, amount, 1);
        client.ask("GET key:1");
        ground.ask("ACL LOG 100").matches("key:1\r\n").count() > 1
    };
    let tracked = |ground: &Ground, limit: u64, amount: u64| {
        ground.set("tracking-table-max-keys", limit);
        let client = ground.client();
        client.ask("HELLO 3");
        client.ask("CLIENT TRACKING ON");
        let mut is_notified = false;
        for n in 0..amount {
            client.ask(&format!("GET key:{n}"));
            ground.keep_house();
            is_notified |= client.received().contains("invalidate");
        }
        client.ask("CLIENT TRACKING OFF");
        is_notified
    };
    vec![
        row("acllog-max-len", (2, 40), 1, Above, length),
        row("entries of ACL LOG", (10, 10), 1, Above, shown),
        row("time within which denials are one entry", (60, 60), 1000, Above, same),
        row("entries of ACL LOG that are compared", (10, 10), 1, Above, compared),
        row("tracking-table-max-keys", (2, 30), 1, Above, tracked),
    ]
}

/// Sizes up to which a value is stored as one block.
fn encodings() -> Vec<Row> {
    let many = |directive: &'static str, add: &'static str, large: &'static str| {
        let run = move |ground: &Ground, limit: u64, amount: u64| {
            ground.ask("FLUSHALL");
            ground.set(directive, limit);
            (0..amount).for_each(|n| _ = ground.ask(&add.replace("{}", &n.to_string())));
            ground.ask("OBJECT ENCODING key").contains(large)
        };
        row(directive, (2, 40), 1, Above, run)
    };
    let long = |directive: &'static str, add: &'static str, large: &'static str| {
        let run = move |ground: &Ground, limit: u64, amount: u64| {
            ground.ask("FLUSHALL");
            ground.set(directive, limit);
            ground.ask(&add.replace("{}", &"x".repeat(amount as usize)));
            ground.ask("OBJECT ENCODING key").contains(large)
        };
        row(&format!("{directive}, {add}"), (2, 300), 1, Above, run)
    };
    let nodes = |ground: &Ground, limit: u64, amount: u64| {
        ground.ask("FLUSHALL");
        ground.set("stream-node-max-entries", limit);
        (1..=amount).for_each(|n| _ = ground.ask(&format!("XADD stream {n}-0 f v")));
        !ground.ask("XINFO STREAM stream").contains("radix-tree-keys\r\n:1\r\n")
    };
    vec![
        many("hash-max-listpack-entries", "HSET key f{} v", "hashtable"),
        many("zset-max-listpack-entries", "ZADD key 1 m{}", "skiplist"),
        many("set-max-intset-entries", "SADD key {}", "hashtable"),
        long("hash-max-listpack-value", "HSET key f {}", "hashtable"),
        long("hash-max-listpack-value", "HSET key {} v", "hashtable"),
        long("zset-max-listpack-value", "ZADD key 1 {}", "skiplist"),
        row("stream-node-max-entries", (2, 40), 1, Above, nodes),
    ]
}

/// Lengths of strings, and memory.
fn sizes() -> Vec<Row> {
    let grown = |line: &'static str| {
        let run = move |ground: &Ground, limit: u64, amount: u64| {
            ground.ask("FLUSHALL");
            ground.ask("SET key a");
            ground.set("proto-max-bulk-len", limit);
            let (last, more) = ((amount - 1).to_string(), "x".repeat(1000));
            ground.ask(&format!("SETRANGE key {} x", amount - 1001));
            let reply = ground.ask(&line.replace("{last}", &last).replace("{more}", &more));
            ground.set("proto-max-bulk-len", 512 << 20);
            reply.contains("exceeds maximum allowed size")
        };
        row(&format!("proto-max-bulk-len of {line:.20}"), (1 << 20, 3 << 20), 1, Above, run)
    };
    let memory = |ground: &Ground, limit: u64, amount: u64| {
        let client = ground.client();
        ground.ask("FLUSHALL");
        client.ask("SET key v");
        // Let deleted values be freed.
        ground.pass(2000);
        let keyspace = ground.stage.shared.engine.keyspace();
        let used = keyspace.heap().used() + keyspace.other_memory();
        ground.set("maxmemory", used + limit - amount);
        let reply = client.ask("SET key v");
        ground.set("maxmemory", 0);
        reply.starts_with("-OOM")
    };
    let evicted = |ground: &Ground, limit: u64, amount: u64| {
        ground.ask("FLUSHALL");
        let client = ground.client();
        client.ask("SET key v");
        ground.pass(2000);
        let keyspace = ground.stage.shared.engine.keyspace();
        let used = keyspace.heap().used() + keyspace.other_memory();
        ground.set("maxmemory-policy", "allkeys-random");
        ground.set("maxmemory", used + limit - amount);
        let is_gone = client.ask("GET key") == "$-1\r\n";
        ground.set("maxmemory", 0);
        ground.set("maxmemory-policy", "noeviction");
        is_gone
    };
    vec![
        row("maxmemory, with keys to evict", (100, 200), 1, Above, evicted),
        grown("SETRANGE key {last} x"),
        grown("APPEND key {more}"),
        row("maxmemory", (100, 200), 1, Above, memory),
    ]
}
