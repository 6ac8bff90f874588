//! Every command that waits, with a command that unblocks its client.

use super::Of::{self, List, SortedSet, Stream};

/// A blocking command: its name, what `d` may hold, what makes `k`, the request, and what unblocks
/// it.
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
