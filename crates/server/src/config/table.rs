//! The directives: one row each, from which everything else about them comes.
//!
//! Parsing, `CONFIG GET`/`SET`/`REWRITE`, the notes at start about directives that have no effect,
//! and `docs/configuration.md` are all read from these rows. The names, kinds, limits and defaults
//! are those that Redis 7.0.15 answers to `CONFIG GET *`, so that a `redis.conf` written for it
//! loads unchanged; after them stand Perdura's own. The one default that differs is `save`: a pool
//! or an append-only file is durable without save points. A start without either sets Redis's
//! ([`SAVE_POINTS`]).

use super::kind::Kind::{self, *};

/// Redis's save points.
pub const SAVE_POINTS: &str = "3600 1 300 100 60 10000";

/// One directive.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name in lower case.
    pub name: &'static str,
    /// An older name for the same directive.
    pub alias: Option<&'static str>,
    /// What its value may be.
    pub kind: Kind,
    /// Its value unless set.
    pub default: &'static str,
    /// When it may be changed.
    pub change: Change,
    /// Whether it has an effect.
    pub usage: Usage,
    /// Left out of `CONFIG GET` by pattern.
    pub hidden: bool,
    /// Never shown in logs.
    pub secret: bool,
}

/// When a directive may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// At start only.
    Fixed,
    /// At start only; to set what it is already is no mistake, so that clients may set all they
    /// got.
    Pinned,
    /// By `CONFIG SET` too.
    Live,
    /// By `CONFIG SET` too, if `enable-protected-configs` allows it.
    Protected,
}
use Change::{Fixed, Live, Pinned, Protected};

/// Whether a directive has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// It has an effect, which `meaning` puts into a sentence.
    Used,
    /// It is accepted and stored, and does nothing.
    Ignored(Why),
    /// It is not built, and to ignore it would change who may do what, where data goes, or who is
    /// asked: its default is accepted and nothing else. The text says what is missing, and what
    /// would follow.
    Refused(&'static str),
}
use Usage::{Ignored, Refused, Used};

/// Why a directive does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It steers something that this design does not have.
    Design,
    /// It belongs to replication.
    Replication,
    /// It belongs to the cluster.
    Cluster,
    /// It steers a part of TLS that rustls does not have.
    Tls,
    /// It belongs to a feature that does not exist here.
    Later,
    /// The server runs in the foreground, under a supervisor.
    Foreground,
}
use Why::{Cluster, Design, Foreground, Later, Replication, Tls};

impl Why {
    /// Returns the reason in words.
    pub fn words(self) -> &'static str {
        match self {
            Design => "nothing here depends on it",
            Replication => "replication is not supported",
            Cluster => "cluster mode is not supported",
            Tls => "rustls has no such option",
            Later => "this feature is not supported",
            Foreground => "the server always runs in the foreground",
        }
    }
}

const I32: i128 = i32::MAX as i128;
const U32: i128 = u32::MAX as i128;
const I64: i128 = i64::MAX as i128;
const U64: i128 = u64::MAX as i128;

const fn row(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    change: Change,
    usage: Usage,
) -> Row {
    Row { name, alias: None, kind, default, change, usage, hidden: false, secret: false }
}

impl Row {
    const fn alias(self, alias: &'static str) -> Row {
        Row { alias: Some(alias), ..self }
    }
    const fn hidden(self) -> Row {
        Row { hidden: true, ..self }
    }
    const fn secret(self) -> Row {
        Row { secret: true, ..self }
    }

    /// Returns why it cannot have this canonical value, if it cannot.
    pub fn refusal(&self, value: &[u8]) -> Option<&'static str> {
        match self.usage {
            Refused(why) if value != self.default.as_bytes() => Some(why),
            _ => None,
        }
    }
}

const GROUPS: [(&str, &[Row]); 10] = [
    ("Perdura's own", OWN),
    ("Connections", NETWORK),
    ("TLS directives", OVER_TLS),
    ("Who may do what", ACCESS),
    ("Files and durability", FILES),
    ("Memory, eviction and expiry", MEMORY),
    ("Databases and types", DATA),
    ("Logs, events and statistics", WATCH),
    ("Refused until they are built", REFUSED),
    ("Accepted without effect", ACCEPTED),
];

/// Returns the groups of rows with their titles.
pub fn groups() -> impl Iterator<Item = (&'static str, &'static [Row])> {
    GROUPS.into_iter()
}

/// Returns all rows; a row's place in this order is its index.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    GROUPS.iter().flat_map(|(_, rows)| rows.iter())
}

/// Returns the row that `name` means (in any case, or by its older name), with its index.
pub fn find(name: &[u8]) -> Option<(usize, &'static Row)> {
    let is = |n: &str| name.eq_ignore_ascii_case(n.as_bytes());
    rows().enumerate().find(|(_, row)| is(row.name) || row.alias.is_some_and(is))
}

/// Directives without a value of their own that are refused as `Usage::Refused` is, with the
/// reason.
pub const REFUSED_LINES: [(&str, &str); 2] = [
    ("loadmodule", "modules are not supported: their commands and types would be missing"),
    ("sentinel", "this is no Sentinel: nothing would be watched"),
];

/// Directives of older releases that Redis reads and drops.
pub const RETIRED: [&str; 3] =
    ["list-max-ziplist-entries", "list-max-ziplist-value", "lua-replicate-commands"];

/// Perdura's own directives.
const OWN: &[Row] = &[
    row("backend", Enum(&["auto", "pmem", "journal", "aof"]), "auto", Pinned, Used),
    row("pool", Text, "", Pinned, Used),
    row("other-stores", Enum(&["refuse", "ignore"]), "refuse", Pinned, Used),
    row("pool-size", Memory(16777216, I64), "4294967296", Live, Used),
    row("domain", Enum(&["auto", "clwb", "eadr", "msync", "process"]), "auto", Pinned, Used),
    row("journal", Text, "", Pinned, Used),
    row("journal-size", Memory(65536, 1 << 40), "268435456", Pinned, Used),
    row("preload", Bool, "no", Pinned, Used),
    row("emulate-pmem", Bool, "no", Pinned, Used),
    row("emulate-media", Enum(&["no", "optane", "nvdimm-n", "cxl"]), "no", Pinned, Used),
    row("emulate-cache", Memory(0, I64), "0", Pinned, Used),
    row("threads", Int(0, 1024), "0", Pinned, Used),
    row("read-cache", Memory(0, I64), "0", Live, Used),
    row("busy-reply-all", Bool, "no", Live, Used),
    row("redis-version", Version, "7.0.15", Pinned, Used),
    row("script-kill-rollback", Bool, "no", Live, Used),
    row("snapshot-memory-limit", Memory(0, I64), "0", Live, Used),
    row("scrub-rate", Memory(0, I64), "8388608", Live, Used),
    row("scrub-every", Int(0, I32), "3600", Live, Used),
    row("metrics-port", Int(0, 65535), "0", Pinned, Used),
    row("metrics-bind", Bind, "127.0.0.1", Pinned, Used),
    row("log-format", Enum(&["text", "json"]), "text", Pinned, Used),
];

/// Connections.
const NETWORK: &[Row] = &[
    row("port", Int(0, 65535), "6379", Live, Used),
    row("bind", Bind, "* -::*", Live, Used),
    row("unixsocket", Text, "", Fixed, Used),
    row("unixsocketperm", Octal(0, 0o777), "0", Fixed, Used),
    row("tcp-backlog", Int(0, I32), "511", Fixed, Used),
    row("tcp-keepalive", Int(0, I32), "300", Live, Used),
    row("timeout", Int(0, I32), "0", Live, Used),
    row("maxclients", Int(1, U32), "10000", Live, Used),
    row("proto-max-bulk-len", Memory(1048576, I64), "536870912", Live, Used),
    row("client-query-buffer-limit", Memory(1048576, I64), "1073741824", Live, Used),
    row(
        "client-output-buffer-limit",
        OutputLimits,
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        Live,
        Used,
    ),
];

/// TLS.
const OVER_TLS: &[Row] = &[
    row("tls-port", Int(0, 65535), "0", Live, Used),
    row("tls-cert-file", Text, "", Live, Used),
    row("tls-key-file", Text, "", Live, Used),
    row("tls-key-file-pass", Text, "", Live, Used).secret(),
    row("tls-ca-cert-file", Text, "", Live, Used),
    row("tls-ca-cert-dir", Text, "", Live, Used),
    row("tls-auth-clients", Enum(&["no", "yes", "optional"]), "yes", Live, Used),
    row("tls-auth-clients-user", Enum(&["off", "CN"]), "off", Live, Used),
    row("tls-protocols", Text, "", Live, Used),
    row("tls-ciphers", Text, "", Live, Used),
    row("tls-ciphersuites", Text, "", Live, Used),
    row("tls-prefer-server-ciphers", Bool, "no", Live, Used),
    row("tls-session-caching", Bool, "yes", Live, Used),
    row("tls-session-cache-size", Int(0, I32), "20480", Live, Used),
    row("tls-client-cert-file", Text, "", Live, Used),
    row("tls-client-key-file", Text, "", Live, Used),
    row("tls-client-key-file-pass", Text, "", Live, Used).secret(),
    row("tls-cluster", Bool, "no", Live, Used),
];

/// Who may do what.
const ACCESS: &[Row] = &[
    row("protected-mode", Bool, "yes", Live, Used),
    row("requirepass", Text, "", Live, Used).secret(),
    row("aclfile", Text, "", Fixed, Used),
    row("acl-pubsub-default", Enum(&["allchannels", "resetchannels"]), "resetchannels", Live, Used),
    row("acllog-max-len", Int(0, I64), "128", Live, Used),
    row("enable-protected-configs", Enum(&["no", "yes", "local"]), "no", Fixed, Used),
    row("enable-debug-command", Enum(&["no", "yes", "local"]), "no", Fixed, Used),
];

/// Files and durability.
const FILES: &[Row] = &[
    row("dir", Dir, "", Protected, Used),
    row("appendonly", Bool, "no", Live, Used),
    row("appendfsync", Enum(&["everysec", "always", "no"]), "everysec", Live, Used),
    row("appendfilename", FileNameSet, "appendonly.aof", Fixed, Used),
    row("appenddirname", FileNameSet, "appendonlydir", Fixed, Used),
    row("auto-aof-rewrite-percentage", Int(0, I32), "100", Live, Used),
    row("auto-aof-rewrite-min-size", Memory(0, I64), "67108864", Live, Used),
    row("aof-load-truncated", Bool, "yes", Live, Used),
    row("aof-use-rdb-preamble", Bool, "yes", Live, Used),
    row("aof-timestamp-enabled", Bool, "no", Live, Used),
    row("save", Save, "", Live, Used),
    row("dbfilename", FileName, "dump.rdb", Protected, Used),
    row("rdbcompression", Bool, "yes", Live, Used),
    row("rdbchecksum", Bool, "yes", Fixed, Used),
    row("rdb-save-incremental-fsync", Bool, "yes", Live, Used),
    row("rdb-key-save-delay", Int(-I32 - 1, I32), "0", Live, Used).hidden(),
    row("stop-writes-on-bgsave-error", Bool, "yes", Live, Used),
    row("min-replicas-to-write", Int(0, I32), "0", Live, Used).alias("min-slaves-to-write"),
    row("min-replicas-max-lag", Int(0, I32), "10", Live, Used).alias("min-slaves-max-lag"),
    row(
        "shutdown-on-sigint",
        Flags(&["default", "save", "nosave", "now", "force"]),
        "default",
        Live,
        Used,
    ),
    row(
        "shutdown-on-sigterm",
        Flags(&["default", "save", "nosave", "now", "force"]),
        "default",
        Live,
        Used,
    ),
];

/// Memory, eviction and expiry.
const MEMORY: &[Row] = &[
    row("maxmemory", Memory(0, U64), "0", Live, Used),
    row(
        "maxmemory-policy",
        Enum(&[
            "volatile-lru",
            "volatile-lfu",
            "volatile-random",
            "volatile-ttl",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-random",
            "noeviction",
        ]),
        "noeviction",
        Live,
        Used,
    ),
    row("maxmemory-samples", Int(1, I32), "5", Live, Used),
    row("maxmemory-clients", MemoryOrPercent, "0", Live, Used),
    row("lfu-log-factor", Int(0, I32), "10", Live, Used),
    row("lfu-decay-time", Int(0, I32), "1", Live, Used),
    row("active-expire-effort", Int(1, 10), "1", Live, Used),
    row("hz", Int(0, I32), "10", Live, Used),
    row("activedefrag", Bool, "no", Live, Used),
    row("tracking-table-max-keys", Int(0, I64), "1000000", Live, Used),
    row("oom-score-adj", Enum(&["no", "yes", "relative", "absolute"]), "no", Live, Used),
    row("oom-score-adj-values", OomValues, "0 200 800", Live, Used),
];

/// Databases and types.
const DATA: &[Row] = &[
    row("databases", Int(1, I32), "16", Fixed, Used),
    row("list-max-listpack-size", Int(-I32 - 1, I32), "-2", Live, Used)
        .alias("list-max-ziplist-size"),
    row("set-max-intset-entries", Int(0, I64), "512", Live, Used),
    row("hash-max-listpack-entries", Int(0, I64), "512", Live, Used)
        .alias("hash-max-ziplist-entries"),
    row("hash-max-listpack-value", Memory(0, I64), "64", Live, Used)
        .alias("hash-max-ziplist-value"),
    row("zset-max-listpack-entries", Int(0, I64), "128", Live, Used)
        .alias("zset-max-ziplist-entries"),
    row("zset-max-listpack-value", Memory(0, I64), "64", Live, Used)
        .alias("zset-max-ziplist-value"),
    row("stream-node-max-entries", Int(0, I64), "100", Live, Used),
    row("stream-node-max-bytes", Memory(0, I64), "4096", Live, Used),
    row("hll-sparse-max-bytes", Memory(0, I64), "3000", Live, Used),
];

/// Logs, events and statistics.
const WATCH: &[Row] = &[
    row("logfile", Text, "", Fixed, Used),
    row("loglevel", Enum(&["debug", "verbose", "notice", "warning"]), "notice", Live, Used),
    row("pidfile", Text, "", Fixed, Used),
    row("supervised", Enum(&["upstart", "systemd", "auto", "no"]), "no", Fixed, Used),
    row("notify-keyspace-events", Events, "", Live, Used),
    row("busy-reply-threshold", Int(0, I64), "5000", Live, Used).alias("lua-time-limit"),
    row("slowlog-log-slower-than", Int(-1, I64), "10000", Live, Used)
        .alias("commandlog-execution-slower-than"),
    row("slowlog-max-len", Int(0, I64), "128", Live, Used)
        .alias("commandlog-slow-execution-max-len"),
    row("commandlog-request-larger-than", Int(-1, I64), "1048576", Live, Used),
    row("commandlog-large-request-max-len", Int(0, I64), "128", Live, Used),
    row("commandlog-reply-larger-than", Int(-1, I64), "1048576", Live, Used),
    row("commandlog-large-reply-max-len", Int(0, I64), "128", Live, Used),
    row("latency-monitor-threshold", Int(0, I64), "0", Live, Used),
    row("latency-tracking", Bool, "yes", Live, Used),
    row("latency-tracking-info-percentiles", Percentiles, "50 99 99.9", Live, Used),
];

/// Known, and dangerous to go without.
const REFUSED: &[Row] = &[
    row("cluster-enabled", Bool, "no", Fixed, Refused("cluster mode is not supported: every key would be accepted, and no other node would be asked")),
    row("replicaof", ReplicaOf, "", Fixed, Refused("replication is not supported: the master's data would be missing, and writes would be accepted independently of it")).alias("slaveof"),
];

/// Known and not needed.
const ACCEPTED: &[Row] = &[
    row("shutdown-timeout", Int(0, I32), "10", Live, Ignored(Replication)),
    row("no-appendfsync-on-rewrite", Bool, "no", Live, Ignored(Design)),
    row("maxmemory-eviction-tenacity", Int(0, 100), "10", Live, Ignored(Design)),
    row("daemonize", Bool, "no", Fixed, Ignored(Foreground)),
    row("io-threads-do-reads", Bool, "no", Fixed, Ignored(Design)),
    row("always-show-logo", Bool, "no", Fixed, Ignored(Design)),
    row("rdb-del-sync-files", Bool, "no", Live, Ignored(Replication)),
    row("activerehashing", Bool, "yes", Live, Ignored(Design)),
    row("set-proc-title", Bool, "yes", Fixed, Ignored(Foreground)),
    row("dynamic-hz", Bool, "yes", Live, Ignored(Design)),
    row("lazyfree-lazy-eviction", Bool, "no", Live, Ignored(Design)),
    row("lazyfree-lazy-expire", Bool, "no", Live, Ignored(Design)),
    row("lazyfree-lazy-server-del", Bool, "no", Live, Ignored(Design)),
    row("lazyfree-lazy-user-del", Bool, "no", Live, Ignored(Design)),
    row("lazyfree-lazy-user-flush", Bool, "no", Live, Ignored(Design)),
    row("repl-disable-tcp-nodelay", Bool, "no", Live, Ignored(Replication)),
    row("repl-diskless-sync", Bool, "yes", Live, Ignored(Replication)),
    row("aof-rewrite-incremental-fsync", Bool, "yes", Live, Ignored(Design)),
    row("cluster-require-full-coverage", Bool, "yes", Live, Ignored(Cluster)),
    row("cluster-replica-no-failover", Bool, "no", Live, Ignored(Cluster))
        .alias("cluster-slave-no-failover"),
    row("replica-lazy-flush", Bool, "no", Live, Ignored(Replication)).alias("slave-lazy-flush"),
    row("replica-serve-stale-data", Bool, "yes", Live, Ignored(Replication))
        .alias("slave-serve-stale-data"),
    row("replica-read-only", Bool, "yes", Live, Ignored(Replication)).alias("slave-read-only"),
    row("replica-ignore-maxmemory", Bool, "yes", Live, Ignored(Replication))
        .alias("slave-ignore-maxmemory"),
    row("jemalloc-bg-thread", Bool, "yes", Live, Ignored(Design)),
    row("syslog-enabled", Bool, "no", Fixed, Ignored(Design)),
    row("cluster-allow-reads-when-down", Bool, "no", Live, Ignored(Cluster)),
    row("cluster-allow-pubsubshard-when-down", Bool, "yes", Live, Ignored(Cluster)),
    row("crash-log-enabled", Bool, "yes", Live, Ignored(Design)),
    row("crash-memcheck-enabled", Bool, "yes", Live, Ignored(Design)),
    row("use-exit-on-panic", Bool, "no", Live, Ignored(Design)).hidden(),
    row("disable-thp", Bool, "yes", Fixed, Ignored(Design)),
    row("cluster-allow-replica-migration", Bool, "yes", Live, Ignored(Cluster)),
    row("replica-announced", Bool, "yes", Live, Ignored(Replication)),
    row("aof-disable-auto-gc", Bool, "no", Live, Ignored(Design)),
    row("replica-ignore-disk-write-errors", Bool, "no", Live, Ignored(Replication)),
    row("lua-enable-deprecated-api", Bool, "no", Fixed, Ignored(Design)).hidden(),
    row("replica-announce-ip", Text, "", Live, Ignored(Replication)).alias("slave-announce-ip"),
    row("masteruser", Text, "", Live, Ignored(Replication)).secret(),
    row("cluster-announce-ip", Text, "", Live, Ignored(Cluster)),
    row("cluster-config-file", Text, "nodes.conf", Fixed, Ignored(Cluster)),
    row("cluster-announce-hostname", Text, "", Live, Ignored(Cluster)),
    row("syslog-ident", Text, "redis", Fixed, Ignored(Design)),
    row("server_cpulist", Text, "", Fixed, Ignored(Design)),
    row("bio_cpulist", Text, "", Fixed, Ignored(Design)),
    row("aof_rewrite_cpulist", Text, "", Fixed, Ignored(Design)),
    row("bgsave_cpulist", Text, "", Fixed, Ignored(Design)),
    row("ignore-warnings", Text, "", Live, Ignored(Design)),
    row(
        "proc-title-template",
        Text,
        "{title} {listen-addr} {server-mode}",
        Live,
        Ignored(Foreground),
    ),
    row("bind-source-addr", Text, "", Live, Ignored(Design)),
    row("masterauth", Text, "", Live, Ignored(Replication)).secret(),
    row(
        "syslog-facility",
        Enum(&[
            "user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
        ]),
        "local0",
        Fixed,
        Ignored(Design),
    ),
    row(
        "repl-diskless-load",
        Enum(&["disabled", "on-empty-db", "swapdb"]),
        "disabled",
        Live,
        Ignored(Replication),
    ),
    row("sanitize-dump-payload", Enum(&["no", "yes", "clients"]), "no", Live, Ignored(Design)),
    row("enable-module-command", Enum(&["no", "yes", "local"]), "no", Fixed, Ignored(Later)),
    row(
        "cluster-preferred-endpoint-type",
        Enum(&["ip", "hostname", "unknown-endpoint"]),
        "ip",
        Live,
        Ignored(Cluster),
    ),
    row(
        "propagation-error-behavior",
        Enum(&["ignore", "panic", "panic-on-replicas"]),
        "ignore",
        Live,
        Ignored(Design),
    ),
    row("io-threads", Int(1, 128), "1", Fixed, Ignored(Design)),
    row("cluster-replica-validity-factor", Int(0, I32), "10", Live, Ignored(Cluster))
        .alias("cluster-slave-validity-factor"),
    row("cluster-migration-barrier", Int(0, I32), "1", Live, Ignored(Cluster)),
    row("active-defrag-cycle-min", Int(1, 99), "1", Live, Ignored(Design)),
    row("active-defrag-cycle-max", Int(1, 99), "25", Live, Ignored(Design)),
    row("active-defrag-threshold-lower", Int(0, 1000), "10", Live, Ignored(Design)),
    row("active-defrag-threshold-upper", Int(0, 1000), "100", Live, Ignored(Design)),
    row("replica-priority", Int(0, I32), "100", Live, Ignored(Replication)).alias("slave-priority"),
    row("repl-diskless-sync-delay", Int(0, I32), "5", Live, Ignored(Replication)),
    row("replica-announce-port", Int(0, 65535), "0", Live, Ignored(Replication))
        .alias("slave-announce-port"),
    row("cluster-port", Int(0, 65535), "0", Fixed, Ignored(Cluster)),
    row("cluster-announce-bus-port", Int(0, 65535), "0", Live, Ignored(Cluster)),
    row("cluster-announce-port", Int(0, 65535), "0", Live, Ignored(Cluster)),
    row("cluster-announce-tls-port", Int(0, 65535), "0", Live, Ignored(Cluster)),
    row("repl-timeout", Int(1, I32), "60", Live, Ignored(Replication)),
    row("repl-ping-replica-period", Int(1, I32), "10", Live, Ignored(Replication))
        .alias("repl-ping-slave-period"),
    row("list-compress-depth", Int(0, I32), "0", Live, Ignored(Design)),
    row("key-load-delay", Int(-I32 - 1, I32), "0", Live, Ignored(Design)).hidden(),
    row("watchdog-period", Int(0, I32), "0", Live, Ignored(Design)).hidden(),
    row("repl-diskless-sync-max-replicas", Int(0, I32), "0", Live, Ignored(Replication)),
    row("socket-mark-id", Int(0, U32), "0", Fixed, Ignored(Design)),
    row("active-defrag-max-scan-fields", Int(1, I64), "1000", Live, Ignored(Design)),
    row("cluster-node-timeout", Int(0, I64), "15000", Live, Ignored(Cluster)),
    row("repl-backlog-size", Memory(1, I64), "1048576", Live, Ignored(Replication)),
    row("cluster-link-sendbuf-limit", Memory(0, U64), "0", Live, Ignored(Cluster)),
    row("active-defrag-ignore-bytes", Memory(1, I64), "104857600", Live, Ignored(Design)),
    row("repl-backlog-ttl", Int(0, I64), "3600", Live, Ignored(Replication)),
    row("loading-process-events-interval-bytes", Int(1024, I32), "2097152", Live, Ignored(Design))
        .hidden(),
    row("tls-replication", Bool, "no", Live, Ignored(Replication)),
    row("tls-session-cache-timeout", Int(0, I32), "300", Live, Ignored(Tls)),
    row("tls-dh-params-file", Text, "", Live, Ignored(Tls)),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The directives that redis.conf of Redis 7.0.15 names, by what is done with them here.
    const OF_REDIS: [(&str, &str); 4] = [
        (
            "used",
            "oom-score-adj oom-score-adj-values acl-pubsub-default aclfile acllog-max-len \
         tls-auth-clients tls-ca-cert-dir \
         tls-ca-cert-file tls-cert-file tls-ciphers tls-ciphersuites tls-client-cert-file \
         tls-client-key-file tls-client-key-file-pass tls-cluster tls-key-file \
         tls-key-file-pass tls-port tls-prefer-server-ciphers tls-protocols \
         tls-session-cache-size tls-session-caching notify-keyspace-events active-expire-effort \
         activedefrag aof-load-truncated appenddirname appendfilename appendfsync appendonly \
         auto-aof-rewrite-min-size auto-aof-rewrite-percentage bind busy-reply-threshold \
         client-output-buffer-limit client-query-buffer-limit databases dir \
         enable-debug-command enable-protected-configs hash-max-listpack-entries \
         hash-max-listpack-value hll-sparse-max-bytes hz latency-monitor-threshold \
         latency-tracking latency-tracking-info-percentiles lfu-decay-time lfu-log-factor \
         list-max-listpack-size logfile loglevel lua-time-limit maxclients maxmemory \
         maxmemory-clients maxmemory-policy maxmemory-samples min-replicas-max-lag \
         min-replicas-to-write pidfile port protected-mode proto-max-bulk-len requirepass \
         set-max-intset-entries slowlog-log-slower-than slowlog-max-len stream-node-max-bytes \
         stream-node-max-entries tcp-backlog tcp-keepalive timeout tracking-table-max-keys \
         unixsocket unixsocketperm zset-max-listpack-entries zset-max-listpack-value \
         aof-timestamp-enabled aof-use-rdb-preamble dbfilename rdb-save-incremental-fsync \
         rdbchecksum rdbcompression save shutdown-on-sigint shutdown-on-sigterm \
         stop-writes-on-bgsave-error",
        ),
        (
            "ignored",
            "active-defrag-cycle-max active-defrag-cycle-min \
         active-defrag-ignore-bytes active-defrag-max-scan-fields active-defrag-threshold-lower \
         active-defrag-threshold-upper activerehashing always-show-logo \
         aof-rewrite-incremental-fsync \
         aof_rewrite_cpulist bgsave_cpulist bind-source-addr bio_cpulist \
         cluster-allow-pubsubshard-when-down cluster-allow-reads-when-down \
         cluster-allow-replica-migration cluster-announce-bus-port cluster-announce-hostname \
         cluster-announce-ip cluster-announce-port cluster-announce-tls-port cluster-config-file \
         cluster-link-sendbuf-limit cluster-migration-barrier cluster-node-timeout cluster-port \
         cluster-preferred-endpoint-type cluster-replica-no-failover \
         cluster-replica-validity-factor cluster-require-full-coverage crash-log-enabled \
         crash-memcheck-enabled daemonize  disable-thp dynamic-hz enable-module-command \
         ignore-warnings io-threads io-threads-do-reads jemalloc-bg-thread lazyfree-lazy-eviction \
         lazyfree-lazy-expire lazyfree-lazy-server-del lazyfree-lazy-user-del \
         lazyfree-lazy-user-flush list-compress-depth masterauth masteruser \
         maxmemory-eviction-tenacity no-appendfsync-on-rewrite  \
         proc-title-template propagation-error-behavior rdb-del-sync-files \
            repl-backlog-size repl-backlog-ttl \
         repl-disable-tcp-nodelay repl-diskless-load repl-diskless-sync repl-diskless-sync-delay \
         repl-diskless-sync-max-replicas repl-ping-replica-period repl-timeout \
         replica-announce-ip replica-announce-port replica-announced \
         replica-ignore-disk-write-errors replica-ignore-maxmemory replica-lazy-flush \
         replica-priority replica-read-only replica-serve-stale-data sanitize-dump-payload  \
         server_cpulist set-proc-title   shutdown-timeout \
         socket-mark-id  syslog-enabled syslog-facility \
         syslog-ident tls-dh-params-file tls-replication tls-session-cache-timeout",
        ),
        ("refused", "cluster-enabled replicaof"),
        ("refused line", "loadmodule"),
    ];

    fn usage(name: &str) -> &'static str {
        match find(name.as_bytes()).map(|(_, row)| row.usage) {
            Some(Used) => "used",
            Some(Ignored(_)) => "ignored",
            Some(Refused(_)) => "refused",
            None if REFUSED_LINES.iter().any(|(line, _)| *line == name) => "refused line",
            None => "unknown",
        }
    }

    #[test]
    fn every_directive_of_redis_conf_is_used_ignored_or_refused() {
        for (expected, names) in OF_REDIS {
            for name in names.split_ascii_whitespace() {
                assert_eq!(usage(name), expected, "{name}");
            }
        }
    }

    #[test]
    fn what_is_refused_has_a_harmless_default() {
        for row in rows().filter(|row| matches!(row.usage, Refused(_))) {
            assert_eq!(row.refusal(row.default.as_bytes()), None, "{}", row.name);
            assert!(row.refusal(b"anything else").is_some(), "{}", row.name);
            assert!(["", "0", "no"].contains(&row.default), "{}", row.name);
        }
    }
}
