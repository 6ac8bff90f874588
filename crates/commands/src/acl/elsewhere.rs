//! Commands of Redis 7.0 that are not served here: rules may name them all the same, since users
//! that were written for Redis do. What is said of one is kept and printed.

/// Their full names.
const NAMES: &[&str] = &[
    "asking",
    "cluster",
    "cluster|addslots",
    "cluster|addslotsrange",
    "cluster|bumpepoch",
    "cluster|count-failure-reports",
    "cluster|countkeysinslot",
    "cluster|delslots",
    "cluster|delslotsrange",
    "cluster|failover",
    "cluster|flushslots",
    "cluster|forget",
    "cluster|getkeysinslot",
    "cluster|help",
    "cluster|info",
    "cluster|keyslot",
    "cluster|links",
    "cluster|meet",
    "cluster|myid",
    "cluster|nodes",
    "cluster|replicas",
    "cluster|replicate",
    "cluster|reset",
    "cluster|saveconfig",
    "cluster|set-config-epoch",
    "cluster|setslot",
    "cluster|shards",
    "cluster|slaves",
    "cluster|slots",
    "failover",
    "module|load",
    "module|loadex",
    "module|unload",
    "psync",
    "readonly",
    "readwrite",
    "replicaof",
    "restore-asking",
    "slaveof",
];

/// Returns the name of a command that is not served here.
pub(super) fn name(given: &[u8]) -> Option<&'static str> {
    NAMES.iter().copied().find(|name| name.as_bytes().eq_ignore_ascii_case(given))
}
