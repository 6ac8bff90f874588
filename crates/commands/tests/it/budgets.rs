//! How often each command waits for the medium: fences and flushed lines until the reply.
//!
//! Every write command of the table must have a row here; one without fails the test. A command
//! runs several times on new keys and the median is taken, since retiring a section of the log
//! falls on some command periodically and has a budget of its own. Reads must cost nothing.

use crate::generate;
use std::sync::Arc;

use crate::support::{Client, emulated, wire};
use commands::spec::{READONLY, WRITE};
use commands::{Engine, EngineOptions, Run};
use fastrand::Rng;
use keyspace::StreamPosition;
use pmem::{Counters, DomainRequest, MapOptions, Region, counters};
use replication::ring::{Beginning, Medium, Ring};

/// The maximum cost of one execution. `#` stands for the number of the round, `$` for 32 bytes, `^`
/// before a key for the result of DUMP (before FUNCTION: of FUNCTION DUMP), `&` before a name for
/// the code of a library.
struct Budget {
    name: &'static str,
    before: &'static [&'static str],
    run: &'static str,
    lines: u64,
}

/// For any number of keys and shards.
const FENCES: u64 = 1;

const fn row(
    name: &'static str,
    before: &'static [&'static str],
    run: &'static str,
    lines: u64,
) -> Budget {
    Budget { name, before, run, lines }
}

/// Lines of a record in addition to new bytes, as the design bounds them.
const RECORD: u64 = 2;
/// Lines of an entry with a short key and 32 bytes of value, wherever it starts.
const ENTRY: u64 = 3;
const NEW: u64 = RECORD + ENTRY;
const V: &str = "0123456789abcdef0123456789abcdef";

/// Lines of the block of a small collection with one element of 32 bytes.
const BLOCK: u64 = 2;
/// A hash stored as a table: `%` represents 2000 bytes.
const LARGE_HASH: &str = "HSET key:# f %";
/// A hash with a field that has a TTL.
const TIMED_HASH: &str = "HSETEX key:# EX 100 FIELDS 2 f % g $";
/// Lines of the first TTL in a table: the leaf of a tree, and the place in the index of expiry
/// times.
const TIMED: u64 = NEW + 8 + 2;
/// Lines of the code of a library, in addition to those of a short value.
const LIBRARY: u64 = 2;
/// Lines of a segment of an index: it holds few libraries, and the first of a shard creates it.
const SEGMENT: u64 = 32;
/// A set stored as a table.
const LARGE_SET: &str = "SADD key:# %";

/// A small sorted set.
const SORTED_SET: &[&str] = &["ZADD key:# 1 a 2 $ 3 c"];
/// A sorted set stored as a table with a tree, with a member whose name has 2000 bytes.
const LARGE_SORTED_SET: &[&str] = &["ZADD key:# 1 a 2 $ 3 c 4 %"];

/// A small sorted set of places.
const PLACES: &[&str] = &["GEOADD {#}a 13.36 38.11 $"];

/// A list of three elements in one node.
const LIST: &[&str] = &["RPUSH key:# $ b c"];
/// A list of several nodes, with long elements in between: `%` represents 2000 bytes.
const LONG_LIST: &[&str] = &["RPUSH key:# a % % % % % % % % % % % % b", "LPUSH key:# a"];

/// A stream of three entries in one node.
const STREAM: &[&str] = &["XADD key:# 1-1 f $", "XADD key:# 1-2 f b", "XADD key:# 1-3 f c"];
/// A stream of many nodes, with long entries: `%` represents 2000 bytes.
const LONG_STREAM: &[&str] = &[
    "XADD key:# 1-1 f %",
    "XADD key:# 1-2 f %",
    "XADD key:# 1-3 f %",
    "XADD key:# 1-4 f %",
    "XADD key:# 1-5 f %",
    "XADD key:# 1-6 f a",
];
/// A stream of which two entries were delivered to a consumer of a group.
const GROUP: &[&str] = &[
    "XADD key:# 1-1 f $",
    "XADD key:# 1-2 f b",
    "XADD key:# 1-3 f c",
    "XGROUP CREATE key:# g 0",
    "XREADGROUP GROUP g alice COUNT 2 STREAMS key:# >",
];
/// Lines of the record of a group and of its name, and of those of a consumer.
const NAMED: u64 = 2;
/// Lines of a record of a pending entry, and of a new leaf of a tree.
const PENDING: u64 = 1;
const LEAF: u64 = 9;
/// Lines of a record that changes two trees.
const TREES: u64 = 6;
/// Lines of a record of a stream: its head next to the node.
const STREAM_RECORD: u64 = 4;
/// Lines of a stream's head with those of its first node.
const STREAM_BLOCKS: u64 = 4;

const BUDGETS: &[Budget] = &[
    row("set", &[], "SET key:# $", NEW),
    row("set", &["SET key:# $"], "SET key:# $", NEW),
    row("set", &[], "SET key:# $ EX 100", NEW),
    row("setnx", &[], "SETNX key:# $", NEW),
    row("setex", &[], "SETEX key:# 100 $", NEW),
    row("psetex", &[], "PSETEX key:# 100000 $", NEW),
    row("getset", &["SET key:# $"], "GETSET key:# $", NEW),
    row("getdel", &["SET key:# $"], "GETDEL key:#", RECORD),
    row("getex", &["SET key:# $"], "GETEX key:# EX 100", NEW),
    row("getex", &["SET key:# $ EX 10"], "GETEX key:# EX 100", RECORD),
    row("append", &["SET key:# $"], "APPEND key:# $", NEW + 1),
    row("setrange", &["SET key:# $"], "SETRANGE key:# 5 $", NEW + 1),
    row("incr", &["SET key:# 5"], "INCR key:#", RECORD),
    row("incr", &[], "INCR key:#", NEW),
    row("decr", &["SET key:# 5"], "DECR key:#", RECORD),
    row("incrby", &["SET key:# 5"], "INCRBY key:# 7", RECORD),
    row("decrby", &["SET key:# 5"], "DECRBY key:# 7", RECORD),
    row("incrbyfloat", &["SET key:# 5"], "INCRBYFLOAT key:# 1.5", NEW),
    row("mset", &[], "MSET {#}a $ {#}b $", 2 * ENTRY + RECORD + 1),
    row("mset", &[], "MSET a# $ b# $ c# $", 3 * NEW),
    row("msetnx", &[], "MSETNX {#}a $ {#}b $", 2 * ENTRY + RECORD + 1),
    row("setbit", &[], "SETBIT key:# 255 1", NEW),
    row("setbit", &["SET key:# $"], "SETBIT key:# 7 0", NEW + 1),
    row("bitfield", &["SET key:# $"], "BITFIELD key:# INCRBY u8 24 1 SET i16 64 -5", NEW + 1),
    row("bitop", &["SET {#}a $", "SET {#}b $"], "BITOP XOR {#}c {#}a {#}b", NEW),
    row("pfadd", &[], "PFADD key:# a b c", NEW),
    row("pfadd", &["PFADD key:# a"], "PFADD key:# d", NEW),
    row("pfmerge", &["PFADD {#}a a b", "PFADD {#}b c"], "PFMERGE {#}c {#}a {#}b", NEW),
    row("pfdebug", &["PFADD key:# a"], "PFDEBUG TODENSE key:#", RECORD + 200),
    row("del", &["SET key:# $"], "DEL key:#", RECORD),
    row("unlink", &["SET key:# $"], "UNLINK key:#", RECORD),
    row("expire", &["SET key:# $"], "EXPIRE key:# 100", NEW),
    row("expire", &["SET key:# $ EX 10"], "EXPIRE key:# 100", RECORD),
    row("expire", &["HSET key:# f $"], "EXPIRE key:# 100", RECORD),
    row("pexpire", &["SET key:# $"], "PEXPIRE key:# 100000", NEW),
    row("expireat", &["SET key:# $"], "EXPIREAT key:# 9999999999", NEW),
    row("pexpireat", &["SET key:# $"], "PEXPIREAT key:# 9999999999999", NEW),
    row("persist", &["SET key:# $ EX 100"], "PERSIST key:#", RECORD),
    row("rename", &["SET {#}a $"], "RENAME {#}a {#}b", NEW),
    row("rename", &["SET a# $"], "RENAME a# b#", NEW + RECORD),
    row("renamenx", &["SET {#}a $"], "RENAMENX {#}a {#}b", NEW),
    row("move", &["SET key:# $"], "MOVE key:# 1", NEW),
    row("copy", &["SET {#}a $"], "COPY {#}a {#}b", NEW),
    row("restore", &["SET from:# $"], "RESTORE key:# 0 ^from:#", NEW),
    row("restore-asking", &["SET from:# $"], "RESTORE-ASKING key:# 0 ^from:#", NEW),
    row("swapdb", &["SET key:# $"], "SWAPDB 0 1", RECORD),
    row("flushdb", &["SET key:# $"], "FLUSHDB", SHARDS * RECORD),
    row("flushall", &["SET key:# $"], "FLUSHALL", SHARDS * RECORD),
    row("hset", &[], "HSET key:# f $", NEW + BLOCK),
    row("hset", &["HSET key:# f $"], "HSET key:# g $", NEW),
    row("hset", &["HSET key:# f $"], "HSET key:# f x$", NEW),
    row("hset", &[LARGE_HASH], "HSET key:# g $", NEW + 1),
    row("hset", &[LARGE_HASH], "HSET key:# f $", NEW),
    row("hmset", &["HSET key:# f $"], "HMSET key:# g $", NEW),
    row("hsetnx", &["HSET key:# f $"], "HSETNX key:# g $", NEW),
    row("hincrby", &["HSET key:# f 5"], "HINCRBY key:# f 7", NEW),
    row("hincrbyfloat", &["HSET key:# f 5"], "HINCRBYFLOAT key:# f 1.5", NEW),
    row("hdel", &["HSET key:# f $ g $"], "HDEL key:# f", NEW),
    row("hdel", &["HSET key:# f $"], "HDEL key:# f", RECORD),
    row("hdel", &[LARGE_HASH, "HSET key:# g $"], "HDEL key:# g", RECORD + 1),
    row("del", &[LARGE_HASH], "DEL key:#", RECORD + 1),
    row("hexpire", &["HSET key:# f $"], "HEXPIRE key:# 100 FIELDS 1 f", NEW + 1),
    row("hexpire", &[LARGE_HASH, "HSET key:# g $"], "HEXPIRE key:# 100 FIELDS 1 g", TIMED),
    row("hexpire", &[TIMED_HASH, "HSET key:# g $"], "HEXPIRE key:# 100 FIELDS 1 g", NEW + 1),
    row("hexpire", &["HSET key:# f $ g $"], "HEXPIRE key:# 0 FIELDS 1 f", NEW),
    row("hpexpire", &["HSET key:# f $"], "HPEXPIRE key:# 100000 FIELDS 1 f", NEW + 1),
    row("hexpireat", &["HSET key:# f $"], "HEXPIREAT key:# 9999999999 FIELDS 1 f", NEW + 1),
    row("hpexpireat", &["HSET key:# f $"], "HPEXPIREAT key:# 9999999999999 FIELDS 1 f", NEW + 1),
    row("hpersist", &["HSETEX key:# EX 100 FIELDS 1 f $"], "HPERSIST key:# FIELDS 1 f", NEW + 1),
    row("hpersist", &[TIMED_HASH], "HPERSIST key:# FIELDS 1 g", NEW + 1),
    row("hgetex", &["HSET key:# f $"], "HGETEX key:# EX 100 FIELDS 1 f", NEW + 1),
    row("hgetdel", &["HSET key:# f $ g $"], "HGETDEL key:# FIELDS 1 f", NEW),
    row("hgetdel", &[TIMED_HASH], "HGETDEL key:# FIELDS 1 g", NEW),
    row("hsetex", &[], "HSETEX key:# EX 100 FIELDS 1 f $", NEW + BLOCK + 1),
    row("hsetex", &[TIMED_HASH], "HSETEX key:# EX 100 FIELDS 1 h $", NEW + 1),
    row("hsetex", &[TIMED_HASH], "HSETEX key:# KEEPTTL FIELDS 1 g $", NEW + 1),
    row("sadd", &[], "SADD key:# $", NEW + BLOCK),
    row("sadd", &["SADD key:# $"], "SADD key:# x$", NEW),
    row("sadd", &["SADD key:# 5 3"], "SADD key:# 4", RECORD + 1),
    row("sadd", &[LARGE_SET], "SADD key:# $", NEW + 1),
    row("srem", &["SADD key:# $ x$"], "SREM key:# $", NEW),
    row("srem", &["SADD key:# $"], "SREM key:# $", RECORD),
    row("srem", &[LARGE_SET, "SADD key:# $"], "SREM key:# $", RECORD + 1),
    row("spop", &["SADD key:# $ x$"], "SPOP key:#", NEW),
    row("spop", &[LARGE_SET, "SADD key:# $"], "SPOP key:#", RECORD + 1),
    row("smove", &["SADD {#}a $ x$", "SADD {#}b y$"], "SMOVE {#}a {#}b $", NEW + BLOCK),
    row("sinterstore", &["SADD {#}a $", "SADD {#}b $"], "SINTERSTORE {#}c {#}a {#}b", NEW + BLOCK),
    row("sunionstore", &["SADD {#}a $", "SADD {#}b $"], "SUNIONSTORE {#}c {#}a {#}b", NEW + BLOCK),
    row("sdiffstore", &["SADD {#}a $ x$", "SADD {#}b $"], "SDIFFSTORE {#}c {#}a {#}b", NEW + BLOCK),
    row("lpush", &[], "LPUSH key:# $", NEW + BLOCK),
    row("rpush", &[], "RPUSH key:# $", NEW + BLOCK),
    row("lpush", LIST, "LPUSH key:# $", NEW),
    row("rpush", LIST, "RPUSH key:# $", NEW),
    row("lpushx", LIST, "LPUSHX key:# $", NEW),
    row("rpushx", LIST, "RPUSHX key:# $", NEW),
    row("lpush", LONG_LIST, "LPUSH key:# $", NEW),
    row("rpush", LONG_LIST, "RPUSH key:# $", NEW),
    row("lpop", LIST, "LPOP key:#", RECORD),
    row("rpop", LIST, "RPOP key:#", RECORD),
    row("lpop", LONG_LIST, "LPOP key:#", RECORD + 1),
    row("rpop", &["RPUSH key:# $"], "RPOP key:#", RECORD),
    row("lmpop", LIST, "LMPOP 1 key:# LEFT COUNT 2", RECORD),
    row("blpop", LIST, "BLPOP key:# 1", RECORD),
    row("brpop", LIST, "BRPOP key:# 1", RECORD),
    row("blmpop", LIST, "BLMPOP 1 1 key:# LEFT COUNT 2", RECORD),
    row("blmove", LIST, "BLMOVE key:# key:# LEFT RIGHT 1", NEW),
    row("brpoplpush", LIST, "BRPOPLPUSH key:# key:# 1", NEW),
    row("lset", LIST, "LSET key:# 1 x$", NEW + BLOCK),
    row("linsert", LIST, "LINSERT key:# BEFORE b $", NEW + BLOCK),
    row("lrem", LIST, "LREM key:# 1 b", NEW),
    row("ltrim", LIST, "LTRIM key:# 1 1", RECORD),
    row("lmove", LIST, "LMOVE key:# key:# LEFT RIGHT", NEW),
    row("rpoplpush", LIST, "RPOPLPUSH key:# key:#", NEW),
    row("del", LONG_LIST, "DEL key:#", RECORD + 2),
    row("sort", &["RPUSH {#}a $ b"], "SORT {#}a ALPHA STORE {#}b", NEW + BLOCK),
    row(
        "sort",
        &["RPUSH a# 1 2", "SET w#1 $"],
        "SORT a# BY w#* ALPHA GET w#* STORE b#",
        NEW + BLOCK,
    ),
    row("zadd", &[], "ZADD key:# 1 $", NEW + BLOCK),
    row("zadd", SORTED_SET, "ZADD key:# 4 d", RECORD + BLOCK),
    row("zadd", SORTED_SET, "ZADD key:# 0 d", RECORD + BLOCK),
    row("zadd", LARGE_SORTED_SET, "ZADD key:# 2.5 d", NEW + 1),
    row("zadd", LARGE_SORTED_SET, "ZADD key:# 9 a", NEW + 1),
    row("zincrby", SORTED_SET, "ZINCRBY key:# 1.5 a", RECORD + BLOCK),
    row("zincrby", LARGE_SORTED_SET, "ZINCRBY key:# 0.5 $", NEW + 1),
    row("zrem", SORTED_SET, "ZREM key:# a", RECORD + BLOCK),
    row("zrem", LARGE_SORTED_SET, "ZREM key:# a", NEW),
    row("zrem", &["ZADD key:# 1 a"], "ZREM key:# a", RECORD),
    row("zremrangebyrank", LARGE_SORTED_SET, "ZREMRANGEBYRANK key:# 0 0", NEW),
    row("zremrangebyscore", LARGE_SORTED_SET, "ZREMRANGEBYSCORE key:# 1 1", NEW),
    row("zremrangebylex", LARGE_SORTED_SET, "ZREMRANGEBYLEX key:# - [a", NEW),
    row("zpopmin", SORTED_SET, "ZPOPMIN key:#", RECORD + BLOCK),
    row("zpopmin", LARGE_SORTED_SET, "ZPOPMIN key:#", NEW),
    row("zpopmax", SORTED_SET, "ZPOPMAX key:#", RECORD + BLOCK),
    row("zmpop", SORTED_SET, "ZMPOP 1 key:# MIN COUNT 2", RECORD + BLOCK),
    row("zrangestore", &["ZADD {#}a 1 $"], "ZRANGESTORE {#}b {#}a 0 -1", NEW + BLOCK),
    row("zunionstore", &["ZADD {#}a 1 $"], "ZUNIONSTORE {#}b 2 {#}a {#}c", NEW + BLOCK),
    row("zinterstore", &["ZADD {#}a 1 $"], "ZINTERSTORE {#}b 2 {#}a {#}a", NEW + BLOCK),
    row("zdiffstore", &["ZADD {#}a 1 $"], "ZDIFFSTORE {#}b 2 {#}a {#}c", NEW + BLOCK),
    row("bzpopmin", SORTED_SET, "BZPOPMIN key:# 1", RECORD + BLOCK),
    row("bzpopmax", SORTED_SET, "BZPOPMAX key:# 1", RECORD + BLOCK),
    row("bzmpop", SORTED_SET, "BZMPOP 1 1 key:# MIN COUNT 2", RECORD + BLOCK),
    row("geoadd", &[], "GEOADD key:# 13.36 38.11 $", NEW + BLOCK),
    row(
        "geosearchstore",
        PLACES,
        "GEOSEARCHSTORE {#}b {#}a FROMLONLAT 13 38 BYRADIUS 500 km",
        NEW + BLOCK,
    ),
    row("georadius", PLACES, "GEORADIUS {#}a 13 38 500 km STORE {#}b", NEW + BLOCK),
    row("georadiusbymember", PLACES, "GEORADIUSBYMEMBER {#}a $ 500 km STOREDIST {#}b", NEW + BLOCK),
    row("del", LARGE_SORTED_SET, "DEL key:#", RECORD + 3),
    row("xadd", &[], "XADD key:# * f $", NEW + STREAM_BLOCKS),
    row("xadd", STREAM, "XADD key:# * f $", STREAM_RECORD + BLOCK),
    row("xadd", LONG_STREAM, "XADD key:# * f $", STREAM_RECORD + BLOCK),
    row("xadd", STREAM, "XADD key:# MAXLEN 3 * f $", STREAM_RECORD + BLOCK),
    row("xdel", STREAM, "XDEL key:# 1-1", STREAM_RECORD),
    row("xdel", STREAM, "XDEL key:# 1-2", STREAM_RECORD + BLOCK),
    row("xtrim", STREAM, "XTRIM key:# MAXLEN 1", STREAM_RECORD),
    row("xtrim", LONG_STREAM, "XTRIM key:# MAXLEN 1", 2 * STREAM_RECORD),
    row("xsetid", STREAM, "XSETID key:# 2-1 ENTRIESADDED 9", STREAM_RECORD),
    row("del", LONG_STREAM, "DEL key:#", RECORD + 2),
    row("xgroup|create", STREAM, "XGROUP CREATE key:# g 1-3", RECORD + NAMED + LEAF),
    row("xgroup|create", &[], "XGROUP CREATE key:# g 0 MKSTREAM", NEW + NAMED + LEAF + 2),
    row("xgroup|create", GROUP, "XGROUP CREATE key:# h 0", TREES + NAMED),
    row("xgroup|setid", GROUP, "XGROUP SETID key:# g 1-3 ENTRIESREAD 3", RECORD),
    row("xgroup|createconsumer", GROUP, "XGROUP CREATECONSUMER key:# g bob", TREES + NAMED),
    row("xgroup|delconsumer", GROUP, "XGROUP DELCONSUMER key:# g alice", TREES + 2),
    row("xgroup|destroy", GROUP, "XGROUP DESTROY key:# g", RECORD + 4),
    row("xreadgroup", GROUP, "XREADGROUP GROUP g alice STREAMS key:# >", TREES + PENDING),
    row(
        "xreadgroup",
        GROUP,
        "XREADGROUP GROUP g bob STREAMS key:# >",
        TREES + PENDING + NAMED + LEAF + 2,
    ),
    row("xreadgroup", GROUP, "XREADGROUP GROUP g alice COUNT 1 STREAMS key:# 0", RECORD + 1),
    row("xreadgroup", GROUP, "XREADGROUP GROUP g alice NOACK STREAMS key:# >", RECORD + 1),
    row("xack", GROUP, "XACK key:# g 1-1", TREES),
    row("xclaim", GROUP, "XCLAIM key:# g alice 0 1-1", RECORD + 1),
    row("xclaim", GROUP, "XCLAIM key:# g bob 0 1-1", TREES + NAMED + LEAF + 2),
    row("xautoclaim", GROUP, "XAUTOCLAIM key:# g alice 0 0 COUNT 1", RECORD + 1),
    row("del", GROUP, "DEL key:#", RECORD + 4),
    row("function|load", &[], "FUNCTION LOAD &a#", NEW + LIBRARY + SEGMENT),
    row("function|load", &["FUNCTION LOAD &b#"], "FUNCTION LOAD REPLACE &b#", NEW + LIBRARY),
    row("function|delete", &["FUNCTION LOAD &c#"], "FUNCTION DELETE c#", RECORD),
    row("function|flush", &["FUNCTION LOAD &d#"], "FUNCTION FLUSH", SHARDS * (RECORD + 3)),
    row(
        "function|restore",
        &["FUNCTION FLUSH", "FUNCTION LOAD &e#"],
        "FUNCTION RESTORE ^FUNCTION FLUSH",
        2 * RECORD + ENTRY + LIBRARY + 2 * SEGMENT + 3,
    ),
    row("exec", &["MULTI", "SET {#}a $", "INCR {#}n"], "EXEC", 2 * ENTRY + RECORD + 1),
    // The keys of a row depend on its position: new rows are added at the end.
    row("msetex", &[], "MSETEX 2 {#}a $ {#}b $ NX", 2 * ENTRY + RECORD + 1),
    row("delex", &["SET key:# v"], "DELEX key:# IFEQ v", RECORD),
    row("delifeq", &["SET key:# v"], "DELIFEQ key:# v", RECORD),
    row("xdelex", STREAM, "XDELEX key:# IDS 1 1-1", STREAM_RECORD),
    row("xackdel", GROUP, "XACKDEL key:# g IDS 1 1-1", STREAM_RECORD + TREES),
];

const SHARDS: u64 = 4;
/// More than twice as many as the rounds that cost more: the first one of each shard, which begins
/// a span, and one in which the index grows.
const ROUNDS: usize = 15;

fn engine(file: &std::path::Path) -> Arc<Engine> {
    Arc::new(Engine::new(EngineOptions::new(emulated(file, SHARDS as usize))))
}

fn line(template: &str, round: usize) -> String {
    let long = if template.contains('%') { "%".repeat(2000) } else { String::new() };
    template.replace('#', &round.to_string()).replace('$', V).replace('%', &long)
}

fn words(client: &mut Client, request: &str) -> Vec<Vec<u8>> {
    let mut dump = |words: &[&str]| match wire::read(&mut &client.raw(words)[..]) {
        wire::Reply::Bulk(_, Some(payload)) => payload,
        other => panic!("{other:?}"),
    };
    let word = |word: &str| match (word.as_bytes().first(), word.get(1..)) {
        (Some(b'^'), Some("FUNCTION")) => dump(&["FUNCTION", "DUMP"]),
        (Some(b'^'), Some(key)) => dump(&["DUMP", key]),
        (Some(b'&'), Some(name)) => {
            let code = "redis.register_function('f', function() return 1 end)";
            format!("#!lua name={name}\n{}", code.replace("'f'", &format!("'{name}'"))).into_bytes()
        }
        _ => word.as_bytes().to_vec(),
    };
    request.split_whitespace().map(word).collect()
}

fn cost(client: &mut Client, request: &str) -> (u64, u64) {
    let words = words(client, request);
    let before = counters();
    let reply = client.raw(&words);
    let spent: Counters = counters().since(&before);
    let reply = wire::show(&reply);
    assert!(!reply.starts_with("(error)"), "{request}: {reply}");
    (spent.fences, spent.lines + spent.streamed / 64)
}

fn median(mut of: Vec<u64>) -> u64 {
    of.sort_unstable();
    of[of.len() / 2]
}

/// The median cost of a row, on keys that no other row uses.
fn measure(client: &mut Client, budget: &Budget, first: usize) -> (u64, u64) {
    let (mut fences, mut lines) = (Vec::new(), Vec::new());
    for round in first..first + ROUNDS {
        for before in budget.before {
            let words = words(client, &line(before, round));
            client.raw(&words);
        }
        let (spent_fences, spent_lines) = cost(client, &line(budget.run, round));
        fences.push(spent_fences);
        lines.push(spent_lines);
    }
    (median(fences), median(lines))
}

#[test]
fn every_write_keeps_its_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine(&folder.path().join("pool"));
    let mut client = Client::new(&engine);
    // MIGRATE writes what DEL does, once another server has the keys.
    let writes = engine.table().all().iter();
    let writes = writes.filter(|c| c.spec.has(WRITE) && c.spec.name != "migrate");
    for command in writes {
        let name = command.full_name();
        assert!(BUDGETS.iter().any(|b| b.name == name), "no budget for {name}");
    }
    let mut over = Vec::new();
    for (n, budget) in BUDGETS.iter().enumerate() {
        let (fences, lines) = measure(&mut client, budget, 1000 * (n + 1));
        let line = format!(
            "{:32} fences {fences} of {FENCES}, lines {lines} of {}",
            budget.run, budget.lines
        );
        println!("{line}");
        if fences > FENCES || lines > budget.lines {
            over.push(line);
        }
    }
    assert!(over.is_empty(), "over budget:\n{}", over.join("\n"));
}

/// A ring whose lines are flushed.
struct Lines(pmem::Partition);

impl Medium for Lines {
    fn write(&mut self, at: u64, bytes: &[u8]) {
        self.0.store(at, bytes);
    }

    fn write_back(&mut self, at: u64, len: usize) {
        self.0.flush(at, len);
    }

    fn fence(&mut self) {
        self.0.fence();
    }
}

/// A primary that keeps its place: the ring's lines are written back before the same fence, and no
/// command changes anything that has no place.
#[test]
fn a_place_in_the_stream_costs_no_fence_and_no_write_loses_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine(&folder.path().join("pool"));
    let stream = engine.replication().stream();
    stream.switch_on();
    let size = 1 << 20;
    let options =
        MapOptions { emulate: true, domain: DomainRequest::Clwb, ..MapOptions::new(size) };
    let region = Region::open(folder.path().join("ring"), &options).expect("a mapping");
    region.grow(size).expect("space");
    let lines = Lines(region.into_partitions(1).pop().expect("a partition"));
    let position = || {
        let position = stream.begin_ring(0, |position, kept| {
            let (id, begun) = (position.id, position.end);
            let beginning = Beginning { id, begun, kept, boot: [0; 16], key: 1 };
            Ring::begin(Box::new(lines), size, &beginning)
        })?;
        let (id, offset) = (position.id.to_bytes(), position.end);
        Some(StreamPosition { id, offset, db: None, second: None, is_replica: false })
    };
    let kept = engine.keyspace().position().keep_own(position, 0);
    assert!(kept.expect("a commit"));
    let mut client = Client::new(&engine);
    for (n, budget) in BUDGETS.iter().enumerate() {
        let (fences, lines) = measure(&mut client, budget, 1000 * (n + 1));
        println!("{:32} fences {fences}, lines {lines} ({})", budget.run, budget.lines);
        assert!(fences <= FENCES, "{}: {fences} fences", budget.run);
        assert!(
            engine.keyspace().position().kept_offset().is_some(),
            "{} loses the place",
            budget.run
        );
    }
    assert!(stream.reserves());
    // What changes nothing here, but is sent to replicas, is lost with the commits before it.
    for request in ["FLUSHALL", "FLUSHALL", "SELECT 3", "FLUSHDB", "FUNCTION FLUSH"] {
        client.run(request);
        assert_eq!(engine.keyspace().position().kept_offset(), Some(stream.end()), "{request}");
    }
}

#[test]
fn reads_cost_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine(&folder.path().join("pool"));
    let mut client = Client::new(&engine);
    client.run("MSET a 1 b hello c 3.5 {a}1 x");
    client.run("EXPIRE a 1000");
    client.run("HSET h1 a 1 b 2 f hello");
    client.run("SADD t1 a 1 b 2 f hello");
    client.run("RPUSH l1 a b 3 hello");
    client.run("ZADD z1 1 a 2 b 3 hello");
    client.run("XADD x1 5-1 a b 3 hello");
    let mut random = Rng::with_seed(1);
    for command in engine.table().top() {
        if !command.spec.has(READONLY) || matches!(command.spec.run, Run::Container) {
            continue;
        }
        for _ in 0..20 {
            let request = generate::request(command.spec, &mut random);
            let before = counters();
            client.raw(&request);
            let spent = counters().since(&before);
            let name = command.spec.name;
            assert_eq!((spent.fences, spent.lines, spent.streamed), (0, 0, 0), "{name}");
        }
    }
}

#[test]
fn writes_that_change_nothing_cost_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine(&folder.path().join("pool"));
    let mut client = Client::new(&engine);
    client.run("SET k v");
    for request in [
        "DEL nothing",
        "SETNX k w",
        "SET k w NX",
        "EXPIRE nothing 10",
        "PERSIST k",
        "MSETNX k 1 l 2",
        "GETDEL nothing",
        "DELEX k IFNE v",
        "DELIFEQ k w",
        "SET k w IFEQ w",
        "MSETEX 2 k 1 l 2 NX",
        "MOVE nothing 1",
        "COPY nothing k",
    ] {
        assert_eq!(cost(&mut client, request), (0, 0), "{request}");
    }
}
