//! Every command that writes, with requests and with the states of the keys that it may find:
//! together each way in which it changes a key, or does not.
//!
//! A request names `k`, which it is about; `d`, a destination; `s`, another source. What these hold
//! before is made from [`Of`]. `^s` stands for what DUMP answers for `s`; `~name*N` for N different
//! elements of a kind.

/// Which values a command's key may hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Text,
    Sketch,
    Hash,
    Set,
    List,
    SortedSet,
    Places,
    Stream,
    /// Of any type.
    Any,
    /// What can be sorted.
    Sortable,
}

/// A command, what it is asked to do, and what it must be seen to do to a key: `c`reate it,
/// `m`odify it, `d`elete it, do `n`othing.
pub(crate) struct Write {
    pub(crate) name: &'static str,
    pub(crate) of: Of,
    pub(crate) ways: &'static str,
    pub(crate) requests: &'static [&'static str],
}

const fn write(
    name: &'static str,
    of: Of,
    ways: &'static str,
    requests: &'static [&'static str],
) -> Write {
    Write { name, of, ways, requests }
}

use Of::{Any, Hash, List, Places, Set, Sketch, Sortable, SortedSet, Stream, Text};

pub(crate) const WRITES: &[Write] = &[
    write(
        "set",
        Text,
        "cdmn",
        &[
            "SET k v",
            "SET k v NX",
            "SET k v XX",
            "SET k v EX 100",
            "SET k v KEEPTTL",
            "SET k v GET",
            "SET k v XX GET",
            "SET k v NX GET EX 100",
            "SET k v PXAT 1",
            "SET k ~v*40000",
        ],
    ),
    write("setnx", Text, "cn", &["SETNX k v"]),
    write("setex", Text, "cm", &["SETEX k 100 v"]),
    write("psetex", Text, "cm", &["PSETEX k 100000 v"]),
    write("getset", Text, "cmn", &["GETSET k v"]),
    write("getdel", Text, "dn", &["GETDEL k"]),
    write(
        "getex",
        Text,
        "dmn",
        &[
            "GETEX k",
            "GETEX k EX 100",
            "GETEX k PERSIST",
            "GETEX k PXAT 1",
            "GETEX k EXAT 9999999999",
        ],
    ),
    write("append", Text, "cmn", &["APPEND k x", "APPEND k \"\"", "APPEND k ~v*40000"]),
    write(
        "setrange",
        Text,
        "cmn",
        &["SETRANGE k 2 zz", "SETRANGE k 0 \"\"", "SETRANGE k 0 h", "SETRANGE k 50000 z"],
    ),
    write("incr", Text, "cmn", &["INCR k"]),
    write("decr", Text, "cmn", &["DECR k"]),
    write("incrby", Text, "cmn", &["INCRBY k 7", "INCRBY k 0"]),
    write("decrby", Text, "cmn", &["DECRBY k 7", "DECRBY k 0"]),
    write("incrbyfloat", Text, "cmn", &["INCRBYFLOAT k 1.5", "INCRBYFLOAT k 0"]),
    write("mset", Text, "cm", &["MSET k 1 d 2", "MSET k 1 k 2"]),
    write("msetnx", Text, "cn", &["MSETNX k 1 d 2", "MSETNX k 1 k 2"]),
    write("setbit", Text, "cmn", &["SETBIT k 7 1", "SETBIT k 7 0", "SETBIT k 400000 1"]),
    write(
        "bitfield",
        Text,
        "cmn",
        &[
            "BITFIELD k GET u8 0",
            "BITFIELD k SET u8 0 7 GET u8 0",
            "BITFIELD k INCRBY u8 8 1 SET i5 100 -3",
            "BITFIELD k OVERFLOW FAIL INCRBY u2 0 9",
        ],
    ),
    write(
        "bitop",
        Text,
        "cdmn",
        &[
            "BITOP AND d k s",
            "BITOP OR d k s",
            "BITOP NOT d k",
            "BITOP XOR k k k",
            "BITOP OR d k d",
        ],
    ),
    write("pfadd", Sketch, "cmn", &["PFADD k a", "PFADD k z", "PFADD k", "PFADD k ~e*3000"]),
    write("pfmerge", Sketch, "cmn", &["PFMERGE d k s", "PFMERGE k", "PFMERGE k k", "PFMERGE d"]),
    write(
        "pfdebug",
        Sketch,
        "mn",
        &["PFDEBUG TODENSE k", "PFDEBUG ENCODING k", "PFDEBUG GETREG k"],
    ),
    write("del", Any, "dn", &["DEL k", "DEL k d", "DEL k k"]),
    write("unlink", Any, "dn", &["UNLINK k", "UNLINK d k"]),
    write(
        "expire",
        Any,
        "dmn",
        &[
            "EXPIRE k 100",
            "EXPIRE k 0",
            "EXPIRE k -1",
            "EXPIRE k 50 NX",
            "EXPIRE k 200 XX",
            "EXPIRE k 200 GT",
            "EXPIRE k 50 LT",
            "EXPIRE k 0 NX",
        ],
    ),
    write("pexpire", Any, "dmn", &["PEXPIRE k 100000", "PEXPIRE k 0"]),
    write(
        "expireat",
        Any,
        "dmn",
        &["EXPIREAT k 9999999999", "EXPIREAT k 1", "EXPIREAT k 9999999999 GT"],
    ),
    write("pexpireat", Any, "dmn", &["PEXPIREAT k 9999999999999", "PEXPIREAT k 1"]),
    write("persist", Any, "mn", &["PERSIST k"]),
    write("rename", Any, "cdmn", &["RENAME k d", "RENAME k k"]),
    write("renamenx", Any, "cdn", &["RENAMENX k d", "RENAMENX k k"]),
    write("move", Any, "cdn", &["MOVE k 1"]),
    write(
        "copy",
        Any,
        "cmn",
        &[
            "COPY k d",
            "COPY k d REPLACE",
            "COPY k k DB 1",
            "COPY k k DB 1 REPLACE",
            "COPY k d DB 1",
        ],
    ),
    write(
        "restore",
        Any,
        "cdmn",
        &[
            "RESTORE d 0 ^k",
            "RESTORE d 0 ^k REPLACE",
            "RESTORE d 100000 ^k REPLACE",
            "RESTORE d 9999999999999 ^k REPLACE ABSTTL",
            "RESTORE d 1 ^k REPLACE ABSTTL",
            "RESTORE d 1 ^k ABSTTL",
        ],
    ),
    write("swapdb", Any, "cdmn", &["SWAPDB 0 1", "SWAPDB 1 0", "SWAPDB 0 0"]),
    write("flushdb", Any, "d", &["FLUSHDB", "FLUSHDB ASYNC"]),
    write("flushall", Any, "d", &["FLUSHALL", "FLUSHALL SYNC"]),
    write(
        "sort",
        Sortable,
        "cdmn",
        &[
            "SORT k ALPHA STORE d",
            "SORT k BY nosort GET # STORE d",
            "SORT k ALPHA LIMIT 5 1 STORE d",
            "SORT k ALPHA STORE k",
            "SORT k ALPHA",
        ],
    ),
    write("hset", Hash, "cmn", &["HSET k a 9", "HSET k z 9", "HSET k a 1", "HSET k ~e*200"]),
    write("hmset", Hash, "cmn", &["HMSET k a 9 z 1", "HMSET k a 1"]),
    write("hsetnx", Hash, "cmn", &["HSETNX k a 9", "HSETNX k z 9"]),
    write("hincrby", Hash, "cmn", &["HINCRBY k a 7", "HINCRBY k z 7", "HINCRBY k a 0"]),
    write("hincrbyfloat", Hash, "cmn", &["HINCRBYFLOAT k a 1.5", "HINCRBYFLOAT k z 0"]),
    write("hdel", Hash, "dmn", &["HDEL k a", "HDEL k z", "HDEL k a b c"]),
    write(
        "hexpire",
        Hash,
        "dmn",
        &[
            "HEXPIRE k 100 FIELDS 1 a",
            "HEXPIRE k 0 FIELDS 1 a",
            "HEXPIRE k 100 NX FIELDS 2 a z",
            "HEXPIRE k 0 FIELDS 3 a b c",
            "HEXPIRE k 100 FIELDS 1 z",
            "HEXPIRE k 200 GT FIELDS 3 a b c",
        ],
    ),
    write("hpexpire", Hash, "dmn", &["HPEXPIRE k 100000 FIELDS 1 a", "HPEXPIRE k 0 FIELDS 2 a b"]),
    write(
        "hexpireat",
        Hash,
        "mn",
        &["HEXPIREAT k 9999999999 FIELDS 1 a", "HEXPIREAT k 1 FIELDS 1 b"],
    ),
    write(
        "hpexpireat",
        Hash,
        "dmn",
        &["HPEXPIREAT k 9999999999999 FIELDS 1 a", "HPEXPIREAT k 1 FIELDS 1 a"],
    ),
    write("hpersist", Hash, "mn", &["HPERSIST k FIELDS 1 a", "HPERSIST k FIELDS 3 z b c"]),
    write(
        "hgetex",
        Hash,
        "dmn",
        &[
            "HGETEX k FIELDS 1 a",
            "HGETEX k EX 100 FIELDS 2 a z",
            "HGETEX k PERSIST FIELDS 2 a b",
            "HGETEX k PXAT 1 FIELDS 1 a",
        ],
    ),
    write(
        "hgetdel",
        Hash,
        "dmn",
        &["HGETDEL k FIELDS 1 a", "HGETDEL k FIELDS 3 a b c", "HGETDEL k FIELDS 1 z"],
    ),
    write(
        "hsetex",
        Hash,
        "cdmn",
        &[
            "HSETEX k EX 100 FIELDS 1 a 9",
            "HSETEX k FNX EX 100 FIELDS 1 z 9",
            "HSETEX k FXX KEEPTTL FIELDS 1 a 9",
            "HSETEX k FIELDS 1 a 9",
            "HSETEX k PXAT 1 FIELDS 1 a 9",
        ],
    ),
    write("sadd", Set, "cmn", &["SADD k a", "SADD k z", "SADD k ~e*200"]),
    write("srem", Set, "dmn", &["SREM k a", "SREM k z", "SREM k a b c"]),
    write("spop", Set, "dmn", &["SPOP k", "SPOP k 2", "SPOP k 1000", "SPOP k 0"]),
    write("smove", Set, "cdmn", &["SMOVE k d a", "SMOVE k d z", "SMOVE k k a"]),
    write(
        "sinterstore",
        Set,
        "cdmn",
        &["SINTERSTORE d k s", "SINTERSTORE k k s", "SINTERSTORE d k d"],
    ),
    write("sunionstore", Set, "cmn", &["SUNIONSTORE d k s", "SUNIONSTORE k k k"]),
    write("sdiffstore", Set, "cdmn", &["SDIFFSTORE d k s", "SDIFFSTORE k k s", "SDIFFSTORE d k k"]),
    write("lpush", List, "cmn", &["LPUSH k a", "LPUSH k ~e*200"]),
    write("rpush", List, "cmn", &["RPUSH k a", "RPUSH k ~e*200"]),
    write("lpushx", List, "mn", &["LPUSHX k a b"]),
    write("rpushx", List, "mn", &["RPUSHX k a b"]),
    write("lpop", List, "dmn", &["LPOP k", "LPOP k 2", "LPOP k 1000", "LPOP k 0"]),
    write("rpop", List, "dmn", &["RPOP k", "RPOP k 2", "RPOP k 1000", "RPOP k 0"]),
    write("lmpop", List, "dmn", &["LMPOP 2 d k LEFT", "LMPOP 1 k RIGHT COUNT 1000"]),
    write("blpop", List, "dmn", &["BLPOP k 0.001", "BLPOP d k 0.001"]),
    write("brpop", List, "dmn", &["BRPOP k 0.001", "BRPOP d k 0.001"]),
    write("blmpop", List, "dmn", &["BLMPOP 0.001 2 d k LEFT", "BLMPOP 0.001 1 k RIGHT COUNT 1000"]),
    write("lset", List, "mn", &["LSET k 0 z", "LSET k 0 a", "LSET k -1 zz", "LSET k 9999 z"]),
    write(
        "linsert",
        List,
        "mn",
        &["LINSERT k BEFORE a z", "LINSERT k AFTER b z", "LINSERT k AFTER nothing z"],
    ),
    write("lrem", List, "dmn", &["LREM k 1 a", "LREM k 0 b", "LREM k -1 b", "LREM k 1 nothing"]),
    write("ltrim", List, "dmn", &["LTRIM k 0 -1", "LTRIM k 1 1", "LTRIM k 9999 9999"]),
    write(
        "lmove",
        List,
        "cdmn",
        &["LMOVE k d LEFT RIGHT", "LMOVE k k LEFT RIGHT", "LMOVE k k LEFT LEFT"],
    ),
    write("rpoplpush", List, "cdmn", &["RPOPLPUSH k d", "RPOPLPUSH k k"]),
    write("blmove", List, "cdmn", &["BLMOVE k d LEFT RIGHT 0.001", "BLMOVE k k RIGHT LEFT 0.001"]),
    write("brpoplpush", List, "cdmn", &["BRPOPLPUSH k d 0.001"]),
    write(
        "zadd",
        SortedSet,
        "cmn",
        &[
            "ZADD k 1 a",
            "ZADD k 9 a",
            "ZADD k 9 z",
            "ZADD k NX 9 a",
            "ZADD k XX 9 z",
            "ZADD k GT 0 a 9 b",
            "ZADD k LT CH 5 a",
            "ZADD k INCR 1 a",
            "ZADD k XX INCR 1 z",
            "ZADD k ~e*200",
        ],
    ),
    write("zincrby", SortedSet, "cmn", &["ZINCRBY k 1.5 a", "ZINCRBY k 0 a", "ZINCRBY k 1 z"]),
    write("zrem", SortedSet, "dmn", &["ZREM k a", "ZREM k z", "ZREM k a b c"]),
    write(
        "zremrangebyrank",
        SortedSet,
        "dmn",
        &["ZREMRANGEBYRANK k 0 0", "ZREMRANGEBYRANK k 0 -1", "ZREMRANGEBYRANK k 5000 6000"],
    ),
    write(
        "zremrangebyscore",
        SortedSet,
        "dmn",
        &["ZREMRANGEBYSCORE k 1 1", "ZREMRANGEBYSCORE k -inf inf", "ZREMRANGEBYSCORE k -5 -4"],
    ),
    write(
        "zremrangebylex",
        SortedSet,
        "dmn",
        &["ZREMRANGEBYLEX k - [a", "ZREMRANGEBYLEX k - +", "ZREMRANGEBYLEX k (zz +"],
    ),
    write("zpopmin", SortedSet, "dmn", &["ZPOPMIN k", "ZPOPMIN k 1000", "ZPOPMIN k 0"]),
    write("zpopmax", SortedSet, "dmn", &["ZPOPMAX k", "ZPOPMAX k 1000", "ZPOPMAX k 0"]),
    write("zmpop", SortedSet, "dmn", &["ZMPOP 2 d k MIN", "ZMPOP 1 k MAX COUNT 1000"]),
    write("bzpopmin", SortedSet, "dmn", &["BZPOPMIN d k 0.001"]),
    write("bzpopmax", SortedSet, "dmn", &["BZPOPMAX d k 0.001"]),
    write(
        "bzmpop",
        SortedSet,
        "dmn",
        &["BZMPOP 0.001 2 d k MIN", "BZMPOP 0.001 1 k MAX COUNT 1000"],
    ),
    write(
        "zrangestore",
        SortedSet,
        "cdmn",
        &[
            "ZRANGESTORE d k 0 -1",
            "ZRANGESTORE d k 5000 6000",
            "ZRANGESTORE k k 0 0",
            "ZRANGESTORE d k 2 9 BYSCORE",
        ],
    ),
    write("zunionstore", SortedSet, "cmn", &["ZUNIONSTORE d 2 k s", "ZUNIONSTORE k 1 k WEIGHTS 2"]),
    write(
        "zinterstore",
        SortedSet,
        "cdmn",
        &["ZINTERSTORE d 2 k s", "ZINTERSTORE d 2 k d AGGREGATE MAX"],
    ),
    write("zdiffstore", SortedSet, "cdmn", &["ZDIFFSTORE d 2 k s", "ZDIFFSTORE k 2 k k"]),
    write(
        "geoadd",
        Places,
        "cmn",
        &[
            "GEOADD k 13.36 38.11 a",
            "GEOADD k 14 38 a",
            "GEOADD k NX 14 38 a",
            "GEOADD k XX CH 14 38 z",
            "GEOADD k 14 38 z",
        ],
    ),
    write(
        "geosearchstore",
        Places,
        "cdmn",
        &[
            "GEOSEARCHSTORE d k FROMLONLAT 13 38 BYRADIUS 500 km",
            "GEOSEARCHSTORE d k FROMLONLAT 13 38 BYRADIUS 1 m",
            "GEOSEARCHSTORE k k FROMLONLAT 13 38 BYBOX 100 100 km STOREDIST",
        ],
    ),
    write(
        "georadius",
        Places,
        "cdmn",
        &[
            "GEORADIUS k 13 38 500 km STORE d",
            "GEORADIUS k 13 38 1 m STORE d",
            "GEORADIUS k 13 38 500 km STOREDIST k",
            "GEORADIUS k 13 38 500 km",
        ],
    ),
    write(
        "georadiusbymember",
        Places,
        "cdmn",
        &["GEORADIUSBYMEMBER k a 500 km STOREDIST d", "GEORADIUSBYMEMBER k a 500 km"],
    ),
    write(
        "xadd",
        Stream,
        "cmn",
        &[
            "XADD k 9-4 f v",
            "XADD k NOMKSTREAM 9-4 f v",
            "XADD k MAXLEN 1 9-4 f v",
            "XADD k MAXLEN 0 9-4 f v",
            "XADD k MAXLEN ~ 0 LIMIT 1 9-4 f v",
            "XADD k MAXLEN ~ 1 9-4 f v",
            "XADD k MINID 5-3 9-4 f v",
            "XADD k MINID ~ 9-4 9-4 f v",
            "XADD k 1-1 f v",
            "XADD k 5-* f v",
            "XADD k * f v",
        ],
    ),
    write("xdel", Stream, "mn", &["XDEL k 5-1", "XDEL k 5-2", "XDEL k 9-9", "XDEL k 5-1 5-2 5-3"]),
    write(
        "xtrim",
        Stream,
        "mn",
        &[
            "XTRIM k MAXLEN 1",
            "XTRIM k MAXLEN 0",
            "XTRIM k MAXLEN 1000",
            "XTRIM k MAXLEN ~ 1",
            "XTRIM k MAXLEN ~ 0 LIMIT 101",
            "XTRIM k MINID 5-3",
            "XTRIM k MINID ~ 9-9 LIMIT 0",
            "XTRIM k MINID 1-1",
        ],
    ),
    write(
        "xsetid",
        Stream,
        "mn",
        &[
            "XSETID k 9-0",
            "XSETID k 1-1",
            "XSETID k 9-0 ENTRIESADDED 900",
            "XSETID k 9-0 MAXDELETEDID 5-2",
            "XSETID k 9-0 ENTRIESADDED 900 MAXDELETEDID 9-0",
        ],
    ),
    write(
        "xgroup|create",
        Stream,
        "cmn",
        &[
            "XGROUP CREATE k h 0",
            "XGROUP CREATE k h $ MKSTREAM",
            "XGROUP CREATE k h 5-2 ENTRIESREAD 2",
            "XGROUP CREATE k g 0",
        ],
    ),
    write(
        "xgroup|setid",
        Stream,
        "mn",
        &["XGROUP SETID k g 5-3", "XGROUP SETID k g 0 ENTRIESREAD 1", "XGROUP SETID k g $"],
    ),
    write(
        "xgroup|createconsumer",
        Stream,
        "mn",
        &["XGROUP CREATECONSUMER k g bob", "XGROUP CREATECONSUMER k g alice"],
    ),
    write(
        "xgroup|delconsumer",
        Stream,
        "mn",
        &["XGROUP DELCONSUMER k g bob", "XGROUP DELCONSUMER k g alice"],
    ),
    write("xgroup|destroy", Stream, "mn", &["XGROUP DESTROY k g", "XGROUP DESTROY k h"]),
    write(
        "xreadgroup",
        Stream,
        "mn",
        &[
            "XREADGROUP GROUP g alice STREAMS k >",
            "XREADGROUP GROUP g bob COUNT 1 STREAMS k >",
            "XREADGROUP GROUP g alice NOACK STREAMS k >",
            "XREADGROUP GROUP g alice STREAMS k 0",
            "XREADGROUP GROUP g carol STREAMS k 0",
            "XREADGROUP GROUP h carol STREAMS k >",
        ],
    ),
    write("xack", Stream, "mn", &["XACK k g 5-2", "XACK k g 9-9", "XACK k h 5-2"]),
    write(
        "xclaim",
        Stream,
        "mn",
        &[
            "XCLAIM k g bob 0 5-2",
            "XCLAIM k g alice 0 5-2 JUSTID",
            "XCLAIM k g bob 0 5-3 FORCE",
            "XCLAIM k g bob 0 9-9 FORCE LASTID 9-9",
            "XCLAIM k g bob 0 9-9",
            "XCLAIM k g bob 100000000 5-2",
            "XCLAIM k g alice 0 5-2 LASTID 9-9",
            "XCLAIM k g bob 0 5-1 LASTID 7-7",
            "XCLAIM k g bob 0 5-2 IDLE 500 RETRYCOUNT 7 LASTID 5-3",
            "XCLAIM k g bob 0 5-2 TIME 1000 JUSTID",
            "XCLAIM k g bob 0 5-2 5-3 5-4 FORCE RETRYCOUNT 0",
        ],
    ),
    write(
        "xautoclaim",
        Stream,
        "mn",
        &[
            "XAUTOCLAIM k g bob 0 0",
            "XAUTOCLAIM k g alice 0 0 COUNT 1 JUSTID",
            "XAUTOCLAIM k g bob 100000000 0",
            "XAUTOCLAIM k g carol 0 9-9",
        ],
    ),
];

/// A command that waits: its name, what `d` may hold, what makes `k`, the request, and what lets it
/// go.
type Blocked = (&'static str, Of, Option<&'static str>, &'static str, &'static str);

pub(crate) const BLOCKED: &[Blocked] = &[
    ("blpop", List, None, "BLPOP k 9", "RPUSH k a b"),
    ("blpop", List, None, "BLPOP s k 9", "RPUSH k a"),
    ("brpop", List, None, "BRPOP k 9", "LPUSH k a b"),
    ("blmpop", List, None, "BLMPOP 9 2 s k LEFT COUNT 2", "RPUSH k a b c"),
    ("blmove", List, None, "BLMOVE k d LEFT RIGHT 9", "RPUSH k a b"),
    ("blmove", List, None, "BLMOVE k d RIGHT LEFT 9", "RPUSH k a"),
    ("blmove", List, None, "BLMOVE k k LEFT RIGHT 9", "RPUSH k a b"),
    ("brpoplpush", List, None, "BRPOPLPUSH k d 9", "RPUSH k a b"),
    ("bzpopmin", SortedSet, None, "BZPOPMIN k 9", "ZADD k 1 a"),
    ("bzpopmax", SortedSet, None, "BZPOPMAX s k 9", "ZADD k 1 a 2 b"),
    ("bzmpop", SortedSet, None, "BZMPOP 9 1 k MIN COUNT 2", "ZADD k 1 a 2 b 3 c"),
    (
        "xreadgroup",
        Stream,
        Some("XGROUP CREATE @ g $ MKSTREAM"),
        "XREADGROUP GROUP g bob BLOCK 9000 STREAMS k >",
        "XADD k 9-1 f v",
    ),
    (
        "xreadgroup",
        Stream,
        Some("XGROUP CREATE @ g $ MKSTREAM"),
        "XREADGROUP GROUP g bob BLOCK 9000 NOACK STREAMS k >",
        "XADD k 9-1 f v",
    ),
];

/// What makes a value of each kind: with one element, with a few, and with more than fit the packed
/// encodings.
fn values(of: Of) -> &'static [&'static [&'static str]] {
    match of {
        Text => &[&["SET @ 5"], &["SET @ hello"], &["SET @ ~v*40000"]],
        Sketch => &[&["PFADD @ a"], &["PFADD @ a b c"], &["PFADD @ ~e*3000"]],
        Hash => &[
            &["HSET @ a 1"],
            &["HSET @ a 1 b 2 c 3"],
            &["HSET @ a 1 b 2 c 3", "HSET @ ~e*200"],
            &["HSETEX @ EX 70 FIELDS 2 a 1 b 2"],
            &["HSET @ a 1 b 2 c 3", "HSET @ ~e*200", "HEXPIRE @ 70 FIELDS 2 a b"],
        ],
        Set => &[&["SADD @ a"], &["SADD @ a b c"], &["SADD @ a b c", "SADD @ ~e*200"]],
        List => &[
            &["RPUSH @ a"],
            &["RPUSH @ a b c b"],
            &["RPUSH @ a ~v*3000 ~v*3000 ~v*3000 ~v*3000 b", "RPUSH @ ~e*200"],
        ],
        SortedSet => {
            &[&["ZADD @ 1 a"], &["ZADD @ 1 a 2 b 3 c"], &["ZADD @ 1 a 2 b 3 c", "ZADD @ ~e*200"]]
        }
        Places => &[&["GEOADD @ 13.36 38.11 a"], &["GEOADD @ 13.36 38.11 a 15.08 37.5 b"]],
        Stream => &[
            &["XADD @ 5-1 f v", "XGROUP CREATE @ g 0"],
            &[
                "XADD @ 5-1 f v",
                "XADD @ 5-2 f v",
                "XADD @ 5-3 f v",
                "XADD @ 5-4 f v",
                "XGROUP CREATE @ g 5-1",
                "XREADGROUP GROUP g alice COUNT 1 STREAMS @ >",
            ],
            // What is pending is there no more.
            &[
                "XADD @ 5-1 f v",
                "XADD @ 5-2 f v",
                "XADD @ 5-3 f v",
                "XGROUP CREATE @ g 0",
                "XREADGROUP GROUP g alice COUNT 2 STREAMS @ >",
                "XDEL @ 5-2",
            ],
            // Two nodes of Redis and more of them here.
            &["XADD @ 5-1 f v", "XADD @ 5-2 f v", "XGROUP CREATE @ g 0", "~x"],
            // One that is empty.
            &["XADD @ 5-3 f v", "XDEL @ 5-3"],
        ],
        Any => &[
            &["SET @ hello"],
            &["SET @ ~v*40000"],
            &["HSET @ a 1 b 2"],
            &["SADD @ a b c"],
            &["RPUSH @ a b c b"],
            &["ZADD @ ~e*200"],
            &[
                "XADD @ 5-1 f v",
                "XADD @ 5-2 f v",
                "XGROUP CREATE @ g 0",
                "XREADGROUP GROUP g alice COUNT 1 STREAMS @ >",
                "XDEL @ 5-1",
            ],
        ],
        Sortable => &[&["RPUSH @ b a c"], &["SADD @ 3 1"], &["ZADD @ 1 c 2 b"]],
    }
}

/// How a key is before a request.
pub(crate) type State = Vec<String>;
/// In a state: the time of the keys passes.
pub(crate) const WAIT: &str = "(wait)";

fn made(of: Of, which: usize, more: &[&str]) -> State {
    values(of)[which].iter().chain(more).map(|&line| line.to_owned()).collect()
}

/// The states of the key that a command is about.
pub(crate) fn states(of: Of) -> Vec<State> {
    let all = values(of).len();
    let another = if of == Set { List } else { Set };
    let mut states = vec![State::new()];
    states.extend((0..all).map(|which| made(of, which, &[])));
    states.push(made(of, 1, &["PEXPIRE @ 100000"]));
    states.push(made(of, 1, &["PEXPIRE @ 1", WAIT]));
    if !matches!(of, Any | Sortable) {
        states.push(made(another, 1, &[]));
    }
    states
}

/// The states of a destination, or of another source.
pub(crate) fn other_states(of: Of) -> Vec<State> {
    let another = if of == Set { List } else { Set };
    vec![
        State::new(),
        made(of, 1, &[]),
        made(of, 0, &["PEXPIRE @ 100000"]),
        made(of, 1, &["PEXPIRE @ 1", WAIT]),
        made(another, 0, &["PEXPIRE @ 100000"]),
    ]
}

/// The words of a line, with what is short for many of them spelled out.
pub(crate) fn words(line: &str) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    let name = line.split(' ').next().unwrap_or_default().to_owned();
    for word in line.split(' ') {
        let short = word.strip_prefix('~').and_then(|word| word.split_once('*'));
        let Some((what, count)) = short else {
            words.push(if word == "\"\"" { Vec::new() } else { word.into() });
            continue;
        };
        let count: usize = count.parse().expect("a number");
        if what != "e" {
            words.push(what.repeat(count).into_bytes());
            continue;
        }
        for n in 0..count {
            let element = format!("e{n}");
            let pair: &[String] = match name.as_str() {
                "HSET" => &[element, n.to_string()],
                // After the few that are there besides.
                "ZADD" => &[(n + 4).to_string(), element],
                _ => &[element],
            };
            words.extend(pair.iter().map(|word| word.clone().into_bytes()));
        }
    }
    words
}
