//! Command flags, in the order in which COMMAND INFO prints them.

/// May change data.
pub const WRITE: u32 = 1 << 0;
/// Never changes data.
pub const READONLY: u32 = 1 << 1;
/// Refused when over the memory limit.
pub const DENYOOM: u32 = 1 << 2;
/// Administrative.
pub const ADMIN: u32 = 1 << 3;
/// Publish and subscribe.
pub const PUBSUB: u32 = 1 << 4;
/// Not allowed in scripts.
pub const NOSCRIPT: u32 = 1 << 5;
/// May block the client.
pub const BLOCKING: u32 = 1 << 6;
/// Allowed while data is loaded.
pub const LOADING: u32 = 1 << 7;
/// Allowed on a replica with stale data.
pub const STALE: u32 = 1 << 8;
/// Not shown to MONITOR.
pub const SKIP_MONITOR: u32 = 1 << 9;
/// Not put into the slow log.
pub const SKIP_SLOWLOG: u32 = 1 << 10;
/// Cluster: implies ASKING.
pub const ASKING: u32 = 1 << 11;
/// Takes constant or logarithmic time.
pub const FAST: u32 = 1 << 12;
/// Allowed before authentication.
pub const NO_AUTH: u32 = 1 << 13;
/// May be propagated though it is no write. Internal to Redis: COMMAND INFO does not print it.
pub const MAY_REPLICATE: u32 = 1 << 14;
/// For sentinels too.
pub const SENTINEL: u32 = 1 << 15;
/// Only for sentinels.
pub const ONLY_SENTINEL: u32 = 1 << 16;
/// May be called without any key.
pub const NO_MANDATORY_KEYS: u32 = 1 << 17;
/// Allowed or not by a setting of its own.
pub const PROTECTED: u32 = 1 << 18;
/// Not allowed while data is loaded asynchronously.
pub const NO_ASYNC_LOADING: u32 = 1 << 19;
/// Not allowed inside MULTI.
pub const NO_MULTI: u32 = 1 << 20;
/// Allowed while a script runs too long.
pub const ALLOW_BUSY: u32 = 1 << 21;
/// Reads or writes keys that its arguments do not name.
pub const TOUCHES_ARBITRARY_KEYS: u32 = 1 << 22;

/// Flag names as COMMAND INFO prints them, in its order.
pub const FLAG_NAMES: &[(u32, &str)] = &[
    (WRITE, "write"),
    (READONLY, "readonly"),
    (DENYOOM, "denyoom"),
    (ADMIN, "admin"),
    (PUBSUB, "pubsub"),
    (NOSCRIPT, "noscript"),
    (BLOCKING, "blocking"),
    (LOADING, "loading"),
    (STALE, "stale"),
    (SKIP_MONITOR, "skip_monitor"),
    (SKIP_SLOWLOG, "skip_slowlog"),
    (ASKING, "asking"),
    (FAST, "fast"),
    (NO_AUTH, "no_auth"),
    (NO_MANDATORY_KEYS, "no_mandatory_keys"),
    (PROTECTED, "protected"),
    (NO_ASYNC_LOADING, "no_async_loading"),
    (NO_MULTI, "no_multi"),
    (ALLOW_BUSY, "allow_busy"),
    (TOUCHES_ARBITRARY_KEYS, "touches_arbitrary_keys"),
];
