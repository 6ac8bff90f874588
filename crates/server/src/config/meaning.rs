//! What each directive that has an effect does, in a sentence or two of `docs/configuration.md`:
//! what it sets, in which unit, and when to change it.
//!
//! A test holds these against the rows: each directive in use has exactly one, no other has any.

/// Returns what a directive does, if it has an effect.
pub(super) fn of(name: &str) -> Option<&'static str> {
    ALL.iter().flat_map(|group| group.iter()).find(|(of, _)| *of == name).map(|(_, text)| *text)
}

type Group = &'static [(&'static str, &'static str)];

const ALL: [Group; 8] = [OWN, NETWORK, TLS, ACCESS, FILES, MEMORY, TYPES, WATCH];

const OWN: Group = &[
    (
        "backend",
        "Where the data is: `pmem` in a pool on persistent memory, `journal` in a pool on any disk with a journal, `aof` in memory with Redis's append-only file (or, with `appendonly no`, RDB files). `auto` takes what the medium offers; name one where a start must not depend on that.",
    ),
    (
        "pool",
        "The pool's file, or a DAX device; empty for `perdura.pool` in `dir`. Set it where the pool is on another medium than logs and dumps.",
    ),
    (
        "other-stores",
        "`refuse`: no start while another store than the one to be served holds data ([above](#which-store-a-start-serves)). `ignore`: start, and leave it aside unchanged.",
    ),
    (
        "pool-size",
        "The most bytes that the pool may grow to; it starts small. When it is full, writes are refused or keys evicted. Set it to what the medium, and with a journal the memory, can spare.",
    ),
    (
        "domain",
        "How a write becomes durable in the `pmem` backend: flushes (`clwb`), fences alone (`eadr`), `msync` on any file, or not beyond the process (`process`). Name one to be refused where it does not hold.",
    ),
    (
        "journal",
        "The journal's file; empty for the pool's name with `.journal` after it. Put it on the fastest durable medium: it decides what a durable write costs.",
    ),
    (
        "journal-size",
        "Bytes of a journal when it is made. Larger: fewer writes to the pool, a longer start after a crash. Raise it when writers wait for its space (`journal_full_waits`).",
    ),
    (
        "preload",
        "With a journal: read the whole pool into huge pages before the first client is served, so that no first access waits for the disk. For pools that fit into memory and may start slowly.",
    ),
    (
        "emulate-pmem",
        "Execute flushes and fences on a file that is no persistent memory: to try and to measure. Such data survives the end of the process, no power loss.",
    ),
    (
        "emulate-media",
        "Play the latency and bandwidth of a slower medium, in builds for that ([emulated-media.md](emulated-media.md)). For measurements only.",
    ),
    (
        "emulate-cache",
        "Bytes of the processor's cache that `emulate-media` plays; 0 for the machine's last level, or 32 MiB where that is not known.",
    ),
    (
        "threads",
        "Threads that serve connections; 0 for one a core. Lower it to leave cores to other programs.",
    ),
    (
        "read-cache",
        "Bytes of DRAM for copies of values that are read often; 0 for none. For pools on a medium that is slower than DRAM ([read-cache.md](read-cache.md)).",
    ),
    (
        "busy-reply-all",
        "Answer BUSY to every command while a script runs longer than `busy-reply-threshold`, as Redis does; else only to those that need its keys. For programs that rely on it.",
    ),
    (
        "redis-version",
        "The version of Redis that clients are told ([above](#which-version-of-redis-is-claimed)). Raise it for clients that use newer commands only where they find that version.",
    ),
    (
        "script-kill-rollback",
        "Let SCRIPT KILL end a script that has written, and undo it; Redis refuses that.",
    ),
    (
        "snapshot-memory-limit",
        "Bytes that snapshots of dumps and rewrites may hold; 0 for half of the memory or of the heap ([above](#what-a-snapshot-may-hold)). Raise it when such fail under heavy writes.",
    ),
    (
        "scrub-rate",
        "Bytes a second that the search for damage verifies in the background; 0 for none. Lower it where it takes bandwidth from clients.",
    ),
    ("scrub-every", "Seconds from the begin of one such search to that of the next."),
    (
        "metrics-port",
        "The port of `/metrics`, `/healthz` and `/readyz` over HTTP; 0 for none ([operating.md](operating.md#monitoring)).",
    ),
    (
        "metrics-bind",
        "Addresses of that port, which has no password: name others than the loopback address on a network that you trust only.",
    ),
    (
        "log-format",
        "`json` for a log of one JSON object a line, for collectors; `text` as Redis writes it.",
    ),
];

const NETWORK: Group = &[
    ("port", "The TCP port of clients; 0 for none."),
    (
        "bind",
        "Addresses to listen on; a `-` before one: it may be missing. The default is all: name those of your network where the machine has others.",
    ),
    (
        "unixsocket",
        "Path of a socket for clients on this machine; empty for none. It costs less than TCP.",
    ),
    ("unixsocketperm", "Mode of that socket's file, in octal; 0 for what the umask leaves."),
    (
        "tcp-backlog",
        "Connections that may wait to be accepted, capped by the system's `somaxconn`. Raise both for bursts of thousands.",
    ),
    (
        "tcp-keepalive",
        "Seconds of silence after which the kernel asks whether a client is still there; 0 for never.",
    ),
    ("timeout", "Seconds after which a client that sends nothing is disconnected; 0 for never."),
    (
        "maxclients",
        "Connections at the same time; one more is refused. It is lowered at the start where the limit of open files does not allow for it.",
    ),
    (
        "proto-max-bulk-len",
        "Bytes of the longest string, and of the longest argument of a command. Lower it to bound what one request takes.",
    ),
    (
        "client-query-buffer-limit",
        "Bytes of a request that has not arrived as a whole; a client with more is disconnected.",
    ),
    (
        "client-output-buffer-limit",
        "Bytes that may wait to be sent, by class (`normal`, `replica`, `pubsub`): at the hard limit, or at the soft one for more than that number of seconds, the client is disconnected; 0 for no limit.",
    ),
];

const TLS: Group = &[
    ("tls-port", "The port of clients that speak TLS; 0 for none."),
    (
        "tls-cert-file",
        "The server's certificate, with those that lead from it to an authority, in PEM format.",
    ),
    ("tls-key-file", "Its private key, in PEM format."),
    ("tls-key-file-pass", "The password of that key, if it is encrypted."),
    ("tls-ca-cert-file", "The authorities that sign clients' certificates, in one PEM file."),
    ("tls-ca-cert-dir", "The same, as a directory of files with OpenSSL's names."),
    (
        "tls-auth-clients",
        "Whether clients need a certificate (`yes`), may have none (`optional`), or are not asked (`no`).",
    ),
    (
        "tls-auth-clients-user",
        "`CN`: a client whose certificate was verified is the user that its common name names, without a password.",
    ),
    ("tls-protocols", "`TLSv1.2`, `TLSv1.3` or both; empty for both."),
    ("tls-ciphers", "The suites of TLS 1.2, as OpenSSL lists them; empty for all safe ones."),
    ("tls-ciphersuites", "The suites of TLS 1.3, separated by colons; empty for all."),
    (
        "tls-prefer-server-ciphers",
        "Choose the suite by the server's order instead of the client's.",
    ),
    ("tls-session-caching", "Let clients resume a session, which saves most of a handshake."),
    ("tls-session-cache-size", "Sessions that are kept for that; 0 for 20480."),
    (
        "tls-client-cert-file",
        "The certificate that is shown where this server is the client (MIGRATE); empty for `tls-cert-file`.",
    ),
    ("tls-client-key-file", "The private key of that certificate."),
    ("tls-client-key-file-pass", "The password of that key, if it is encrypted."),
    ("tls-cluster", "Speak TLS to the server that MIGRATE names."),
];

const ACCESS: Group = &[
    (
        "protected-mode",
        "Refuse clients from other machines while the default user has no password. Set a password before you turn it off.",
    ),
    (
        "requirepass",
        "The password of the default user; empty for none. With `aclfile` that file's passwords count.",
    ),
    (
        "aclfile",
        "A file with all users, which `ACL SAVE` and `ACL LOAD` use; empty: they are `user` lines of the configuration.",
    ),
    (
        "acl-pubsub-default",
        "Whether a new user may use all channels or none until a rule says otherwise.",
    ),
    ("acllog-max-len", "Entries that `ACL LOG` keeps."),
    (
        "enable-protected-configs",
        "Who may set protected directives (`dir`, `dbfilename`) by CONFIG SET: nobody, everybody, or clients on this machine (`local`). They decide where files are written.",
    ),
    (
        "enable-debug-command",
        "Who may use DEBUG: nobody, everybody, or clients on this machine (`local`). For tests only.",
    ),
];

const FILES: Group = &[
    (
        "dir",
        "The directory of the pool, the append-only file and the dumps; empty for the one in which the server is started.",
    ),
    (
        "appendonly",
        "With `backend aof`: whether the data has an append-only file. CONFIG SET switches it while clients are served.",
    ),
    (
        "appendfsync",
        "When the append-only file, or a pool's journal, is synced: before each reply (`always`), each second (a power loss takes the last two), or when the system does (`no`). Set `always` where no acknowledged write may be lost.",
    ),
    ("appendfilename", "How the names of the append-only file's parts begin."),
    ("appenddirname", "The directory of those parts, in `dir`."),
    (
        "auto-aof-rewrite-percentage",
        "Percent by which the append-only file has grown since its last rewrite when it is rewritten; 0 for never.",
    ),
    ("auto-aof-rewrite-min-size", "Bytes below which it is not rewritten for that."),
    (
        "aof-load-truncated",
        "Start although the append-only file's last command was cut off, as a crash leaves it; with `no` such a start is refused.",
    ),
    (
        "aof-use-rdb-preamble",
        "Write the base of a rewritten append-only file as a dump, which is smaller and loads faster; with `no` as commands.",
    ),
    (
        "aof-timestamp-enabled",
        "Write the time into the append-only file, so that it can be cut at a moment. Redis before 7 does not read that.",
    ),
    (
        "save",
        "When a dump is written by itself: pairs of a number of seconds and the number of changes within them; empty for never. A pool and an append-only file need none; without either the default is that of Redis.",
    ),
    ("dbfilename", "The name of the dump, in `dir`."),
    ("rdbcompression", "Compress strings in dumps: smaller files, for some time of a processor."),
    (
        "rdbchecksum",
        "Write and verify a checksum of the whole dump. With `no` a damaged one may load.",
    ),
    (
        "rdb-save-incremental-fsync",
        "Sync a dump every few megabytes while it is written, so that its end does not stall other syncs of the disk.",
    ),
    ("rdb-key-save-delay", "Microseconds to wait after each key of a dump. For tests only."),
    (
        "stop-writes-on-bgsave-error",
        "Refuse writes while `save` is set and the last dump failed, so that it is noticed. Turn it off where you watch for that otherwise.",
    ),
    (
        "min-replicas-to-write",
        "Replicas without which writes are refused. There is no replication here: any number but 0 refuses every write, if `min-replicas-max-lag` is not 0.",
    ),
    ("min-replicas-max-lag", "Seconds after which a silent replica does not count for that."),
    (
        "shutdown-on-sigint",
        "What SIGINT does, as the options of SHUTDOWN; `default` saves a dump if `save` is set.",
    ),
    ("shutdown-on-sigterm", "The same for SIGTERM."),
];

const MEMORY: Group = &[
    (
        "maxmemory",
        "Bytes of data at which keys are evicted, or writes refused; 0 for the heap's limit. Set it for a cache, and leave memory for clients and the system.",
    ),
    (
        "maxmemory-policy",
        "Which keys are evicted then: those with an expiry time (`volatile-`) or all (`allkeys-`), by last use (`lru`), frequency (`lfu`), chance or nearest expiry; `noeviction` refuses writes instead.",
    ),
    (
        "maxmemory-samples",
        "Keys that are compared for each eviction. More: closer to the true order, for more time.",
    ),
    (
        "maxmemory-clients",
        "Bytes, or percent of `maxmemory`, that the buffers of all clients may take together; beyond it those with the largest are disconnected; 0 for no limit.",
    ),
    (
        "lfu-log-factor",
        "How slowly the counter of `lfu` grows with accesses: at 10 a million saturate it.",
    ),
    ("lfu-decay-time", "Minutes after which that counter falls by one; 0 for never."),
    (
        "active-expire-effort",
        "From 1 to 10: how many expired keys each step of the background looks for. Raise it where they take space for too long.",
    ),
    (
        "hz",
        "Steps of background work a second (expiry, reclaiming of space), from 1 to 500. More frees space sooner, for some processor time.",
    ),
    (
        "activedefrag",
        "Move values together in the background where space between them is lost. For stores whose sizes of values change.",
    ),
    (
        "tracking-table-max-keys",
        "Keys of which clients with client-side caching are told; beyond it some are told too early; 0 for no limit.",
    ),
    (
        "oom-score-adj",
        "Whether the kernel ends this process rather than others when the machine is out of memory: `relative` adds to what it was started with, `absolute` replaces it, `yes` is `relative`.",
    ),
    (
        "oom-score-adj-values",
        "By how much, from -2000 to 2000: of a server, a replica, a child process. The first counts here.",
    ),
];

const TYPES: Group = &[
    ("databases", "How many databases SELECT knows."),
    (
        "list-max-listpack-size",
        "Elements of one node of a list; from -1 to -5: bytes, 4 to 64 KiB. Larger nodes take less space, and more time in the middle of a list.",
    ),
    ("set-max-intset-entries", "Members up to which a set of integers is stored as one block."),
    (
        "hash-max-listpack-entries",
        "Fields up to which a hash is stored as one block. Larger blocks take less space and more time for each access.",
    ),
    ("hash-max-listpack-value", "Bytes of the longest field or value of such a hash."),
    ("zset-max-listpack-entries", "Members up to which a sorted set is stored as one block."),
    ("zset-max-listpack-value", "Bytes of the longest member of such a sorted set."),
    ("stream-node-max-entries", "Entries of one node of a stream; 0 for no limit."),
    ("stream-node-max-bytes", "Bytes of one node of a stream; 0 for no limit."),
    (
        "hll-sparse-max-bytes",
        "Bytes up to which a HyperLogLog is stored in its sparse form, which is smaller and slower.",
    ),
];

const WATCH: Group = &[
    ("logfile", "The log's file; empty for standard output."),
    ("loglevel", "The least important lines that are logged."),
    ("pidfile", "A file for the number of the process while it runs; empty for none."),
    (
        "supervised",
        "Whether systemd is told that the server is ready, and that it is alive; `auto` where systemd asks for it.",
    ),
    (
        "notify-keyspace-events",
        "Which changes of keys are published as messages, by letters as in Redis; empty for none. Each costs time: name those that somebody listens to.",
    ),
    (
        "busy-reply-threshold",
        "Milliseconds after which a script counts as slow: others are answered BUSY until it ends, or SCRIPT KILL ends it.",
    ),
    (
        "slowlog-log-slower-than",
        "Microseconds from which a command is kept in SLOWLOG; 0 for every one, -1 for none.",
    ),
    ("slowlog-max-len", "Entries that SLOWLOG keeps."),
    (
        "commandlog-request-larger-than",
        "Bytes from which a request is kept in COMMANDLOG; -1 for none.",
    ),
    ("commandlog-large-request-max-len", "Entries of that log."),
    (
        "commandlog-reply-larger-than",
        "Bytes from which a reply is kept in COMMANDLOG; -1 for none.",
    ),
    ("commandlog-large-reply-max-len", "Entries of that log."),
    (
        "latency-monitor-threshold",
        "Milliseconds from which an event is kept for LATENCY; 0 for none. Set it while you look for a delay.",
    ),
    (
        "latency-tracking",
        "Count the time of each command for `INFO latencystats`, LATENCY HISTOGRAM and the metrics.",
    ),
    ("latency-tracking-info-percentiles", "The percentiles that `INFO latencystats` shows."),
];

#[cfg(test)]
mod tests {
    use super::super::table::{Usage, rows};
    use super::*;

    #[test]
    fn every_directive_in_use_says_what_it_does() {
        for row in rows() {
            let is_used = matches!(row.usage, Usage::Used);
            assert_eq!(of(row.name).is_some(), is_used, "{}", row.name);
        }
        let all: Vec<_> = ALL.iter().flat_map(|group| group.iter()).collect();
        assert_eq!(all.len(), rows().filter(|row| matches!(row.usage, Usage::Used)).count());
        for (name, text) in all {
            assert!(text.ends_with(['.', ')']) && !text.contains(['|', '\n']), "{name}: {text}");
        }
    }
}
