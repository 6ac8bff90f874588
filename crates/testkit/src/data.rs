//! Initial data for tests of all commands.

/// Commands that make keys of each type, `a`, `b`, `c`, `h1`, `t1`, `l1`, `z1`, `g1` and `x1`, and
/// some that share the slot of `{a}`.
pub const EACH_TYPE: &[&str] = &[
    "MSET a 1 b hello c 3.5 {a}1 x {a}2 7",
    "HSET h1 a 1 b 2 f hello",
    "SADD t1 a 1 b 2 f hello",
    "SADD {a}t a c",
    "RPUSH l1 a b 3 hello",
    "ZADD z1 1 a 2 b 3 hello",
    "ZADD {a}z 7 c",
    "GEOADD g1 13.361389 38.115556 palermo",
    "XADD x1 5-1 a b 3 hello",
    "XADD x1 5-2 a b",
    "XADD x1 5-3 a c",
    "XGROUP CREATE x1 g 5-1",
    "XREADGROUP GROUP g alice COUNT 1 STREAMS x1 >",
    "PFADD {a}p a b",
];
