//! The directives: one row each, from which everything else about them comes.
//!
//! A row has the field of [`Values`] and its type, the default, the name, the values that it may
//! have, when it may be changed, and what a change does. Everything else is read from the rows,
//! `docs/configuration.md` too. They are those that Redis 7.0.15 answers to `CONFIG GET *`, after
//! Perdura's own; `save` has another default ([`super::special::SAVE_POINTS`]).

use commands::{DeniedLog, Settings, admin::SlowLog};
use keyspace::Eviction;

use super::kind::{I32, I64, Kind::*, U32, U64};
use super::row::Change::{Fixed, Live, Pinned, Protected};
use super::row::Why::{Design, Foreground, Later, Replication, Tls};
use super::row::{Effect::*, Field, Row, put};
use super::special::{OUTPUT_LIMITS, OutputLimit, USUAL_SESSIONS};
use super::value::{Bytes, MemoryShare, Value, text};
use super::{CommandLine, choice::*};

const ENGINE: Settings = Settings::DEFAULT;
const EVICTION: Eviction = Eviction::DEFAULT;

with_cluster_rows! { directives! {
    "Perdura's own" {
        /// Where the data is: `pmem` in a pool on persistent memory, `journal` in a pool on any
        /// disk with a journal, `aof` in memory with Redis's append-only file (or, with `appendonly
        /// no`, RDB files). `auto` takes what the medium offers; name one where a start must not
        /// depend on that.
        backend: RequestedBackend = RequestedBackend::Auto =>
            ("backend", Enum(RequestedBackend::NAMES), Pinned);
        /// The pool's file, or a DAX device; empty for `perdura.pool` in `dir`. Set it where the
        /// pool is on another medium than logs and dumps.
        pool: Bytes = text("") => ("pool", Text, Pinned);
        /// `refuse`: no start while another store than the one to be served holds data
        /// ([above](#which-store-a-start-serves)). `ignore`: start, and leave it aside unchanged.
        other_stores: OtherStores = OtherStores::Refuse =>
            ("other-stores", Enum(OtherStores::NAMES), Pinned);
        /// The most bytes that the pool may grow to; it starts small. When it is full, writes are
        /// refused or keys evicted. Set it to what the medium, and with a journal the memory, can
        /// spare.
        pool_size: u64 = 4 << 30 => ("pool-size", Memory(16777216, I64), Live).then(ResizePool);
        /// How a write becomes durable in the `pmem` backend: flushes (`clwb`), fences alone
        /// (`eadr`), `msync` on any file, or not beyond the process (`process`). Name one to be
        /// refused where it does not hold.
        domain: RequestedDomain = RequestedDomain::Auto =>
            ("domain", Enum(RequestedDomain::NAMES), Pinned);
        /// The journal's file; empty for the pool's name with `.journal` after it. Put it on the
        /// fastest durable medium: it decides what a durable write costs.
        journal: Bytes = text("") => ("journal", Text, Pinned);
        /// Bytes up to which a journal grows. Larger: fewer writes to the pool, a longer start
        /// after a crash. Raise it when writers wait for its space (`journal_full_waits`).
        journal_size: u64 = pmem::DEFAULT_CAPACITY =>
            ("journal-size", Memory(65536, 1 << 40), Pinned);
        /// With a journal: read the whole pool into huge pages before the first client is served,
        /// so that no first access waits for the disk. For pools that fit into memory and may start
        /// slowly.
        preload: bool = false => ("preload", Bool, Pinned);
        /// Execute flushes and fences on a file that is no persistent memory: to try and to
        /// measure. Such data survives the end of the process, no power loss.
        emulate_pmem: bool = false => ("emulate-pmem", Bool, Pinned);
        /// Play the latency and bandwidth of a slower medium, in builds for that
        /// ([emulated-media.md](emulated-media.md)). For measurements only.
        emulate_media: EmulatedMedium = EmulatedMedium::No =>
            ("emulate-media", Enum(EmulatedMedium::NAMES), Pinned);
        /// Bytes of the processor's cache that `emulate-media` plays; 0 for the machine's last
        /// level, or 32 MiB where that is not known.
        emulate_cache: u64 = 0 => ("emulate-cache", Memory(0, I64), Pinned);
        /// Threads that serve connections; 0 for one a core. Lower it to leave cores to other
        /// programs.
        threads: usize = 0 => ("threads", Int(0, 1024), Pinned);
        /// Bytes of DRAM for copies of values that are read often; 0 for none. For pools on a
        /// medium that is slower than DRAM ([read-cache.md](read-cache.md)).
        read_cache: u64 = 0 => ("read-cache", Memory(0, I64), Live).then(SetReadCache);
        /// Answer BUSY to every command while a script runs longer than `busy-reply-threshold`, as
        /// Redis does; else only to those that need its keys. For programs that rely on it.
        busy_reply_all: bool = ENGINE.busy_reply_all =>
            ("busy-reply-all", Bool, Live).then(StoreSettings);
        /// The version of Redis that clients are told
        /// ([above](#which-version-of-redis-is-claimed)). Raise it for clients that use newer
        /// commands only where they find that version.
        redis_version: Bytes = text(commands::REDIS_VERSION) =>
            ("redis-version", Version, Pinned).then(StoreSettings);
        /// Let SCRIPT KILL end a script that has written, and undo it; Redis refuses that.
        script_kill_rollback: bool = ENGINE.script_kill_rollback =>
            ("script-kill-rollback", Bool, Live).then(StoreSettings);
        /// Bytes that snapshots of dumps and rewrites may hold; 0 for half of the memory or of the
        /// heap ([above](#what-a-snapshot-may-hold)). Raise it when such fail under heavy writes.
        snapshot_memory_limit: u64 = 0 =>
            ("snapshot-memory-limit", Memory(0, I64), Live).then(LimitSnapshots);
        /// Bytes a second that the search for damage verifies in the background; 0 for none. Lower
        /// it where it takes bandwidth from clients.
        scrub_rate: u64 = 8 << 20 => ("scrub-rate", Memory(0, I64), Live).then(LoadLimits);
        /// Seconds from the begin of one such search to that of the next.
        scrub_every: u64 = 3600 => ("scrub-every", Int(0, I32), Live).then(LoadLimits);
        /// The port of `/metrics`, `/healthz` and `/readyz` over HTTP; 0 for none
        /// ([operating.md](operating.md#monitoring)).
        metrics_port: u16 = 0 => ("metrics-port", Int(0, 65535), Pinned);
        /// Addresses of that port, which has no password: name others than the loopback address on
        /// a network that you trust only.
        metrics_bind: Bytes = text("127.0.0.1") => ("metrics-bind", Bind, Pinned);
        /// `json` for a log of one JSON object a line, for collectors; `text` as Redis writes it.
        log_format: LogFormat = LogFormat::Text => ("log-format", Enum(LogFormat::NAMES), Pinned);
    }
    "Connections" {
        /// The TCP port of clients; 0 for none.
        port: u16 = 6379 => ("port", Int(0, 65535), Live).then(ListenOnPort);
        /// Addresses to listen on; a `-` before one: it may be missing. The default is all: name
        /// those of your network where the machine has others.
        bind: Bytes = text("* -::*") => ("bind", Bind, Live).external().then(ListenOnAddresses);
        /// Path of a socket for clients on this machine; empty for none. It costs less than TCP.
        unixsocket: Bytes = text("") => ("unixsocket", Text, Fixed);
        /// Mode of that socket's file, in octal; 0 for what the umask leaves.
        unixsocketperm: u32 = 0 => ("unixsocketperm", Octal(0, 0o777), Fixed);
        /// Connections that may wait to be accepted, capped by the system's `somaxconn`. Raise both
        /// for bursts of thousands.
        tcp_backlog: i32 = 511 => ("tcp-backlog", Int(0, I32), Fixed);
        /// Seconds of silence after which the kernel asks whether a client is there; 0 for never.
        tcp_keepalive: u64 = 300 => ("tcp-keepalive", Int(0, I32), Live).then(LoadLimits);
        /// Seconds after which a client that sends nothing is disconnected; 0 for never.
        timeout: u64 = 0 => ("timeout", Int(0, I32), Live).then(LoadLimits);
        /// Connections at the same time; one more is refused. It is lowered at the start where the
        /// limit of open files does not allow for it.
        maxclients: u64 = 10_000 => ("maxclients", Int(1, U32), Live).then(AllowClients);
        /// Bytes of the longest string, and of the longest argument of a command. Lower it to bound
        /// what one request takes.
        proto_max_bulk_len: u64 = ENGINE.proto_max_bulk_len =>
            ("proto-max-bulk-len", Memory(1048576, I64), Live).then(LimitStrings);
        /// Bytes of a request that has not arrived as a whole; a client with more is disconnected.
        client_query_buffer_limit: u64 = 1 << 30 =>
            ("client-query-buffer-limit", Memory(1048576, I64), Live).then(LoadLimits);
        /// Bytes that may wait to be sent, by class (`normal`, `replica`, `pubsub`): at the hard
        /// limit, or at the soft one for more than that number of seconds, the client is
        /// disconnected; 0 for no limit.
        client_output_buffer_limit: [OutputLimit; 3] = OUTPUT_LIMITS =>
            ("client-output-buffer-limit", OutputLimits, Live).then(LoadLimits);
    }
    "TLS directives" {
        /// The port of clients that speak TLS; 0 for none.
        tls_port: u16 = 0 => ("tls-port", Int(0, 65535), Live).then(ListenWithTls);
        /// The server's certificate, with those that lead from it to an authority, in PEM format.
        tls_cert_file: Bytes = text("") =>
            ("tls-cert-file", Text, Live).external().then(ConfigureTls);
        /// Its private key, in PEM format.
        tls_key_file: Bytes = text("") =>
            ("tls-key-file", Text, Live).external().then(ConfigureTls);
        /// The password of that key, if it is encrypted.
        tls_key_file_pass: Bytes = text("") =>
            ("tls-key-file-pass", Text, Live).secret().then(ConfigureTls);
        /// The authorities that sign clients' certificates, in one PEM file.
        tls_ca_cert_file: Bytes = text("") =>
            ("tls-ca-cert-file", Text, Live).external().then(ConfigureTls);
        /// The same, as a directory of files with OpenSSL's names.
        tls_ca_cert_dir: Bytes = text("") =>
            ("tls-ca-cert-dir", Text, Live).external().then(ConfigureTls);
        /// Whether clients need a certificate (`yes`), may have none (`optional`), or are not asked
        /// (`no`).
        tls_auth_clients: ClientCertificates = ClientCertificates::Yes =>
            ("tls-auth-clients", Enum(ClientCertificates::NAMES), Live).then(ConfigureTls);
        /// `CN`: a client whose certificate was verified is the user that its common name names,
        /// without a password.
        tls_auth_clients_user: UserOfCertificate = UserOfCertificate::Off =>
            ("tls-auth-clients-user", Enum(UserOfCertificate::NAMES), Live).then(ConfigureTls);
        /// `TLSv1.2`, `TLSv1.3` or both; empty for both.
        tls_protocols: Bytes = text("") => ("tls-protocols", Text, Live).then(ConfigureTls);
        /// The suites of TLS 1.2, as OpenSSL lists them; empty for all safe ones.
        tls_ciphers: Bytes = text("") => ("tls-ciphers", Text, Live).then(ConfigureTls);
        /// The suites of TLS 1.3, separated by colons; empty for all.
        tls_ciphersuites: Bytes = text("") => ("tls-ciphersuites", Text, Live).then(ConfigureTls);
        /// Choose the suite by the server's order instead of the client's.
        tls_prefer_server_ciphers: bool = false =>
            ("tls-prefer-server-ciphers", Bool, Live).then(ConfigureTls);
        /// Let clients resume a session, which saves most of a handshake.
        tls_session_caching: bool = true => ("tls-session-caching", Bool, Live).then(ConfigureTls);
        /// Sessions that are kept for that; 0 for 20480.
        tls_session_cache_size: usize = USUAL_SESSIONS =>
            ("tls-session-cache-size", Int(0, I32), Live).then(ConfigureTls);
        /// The certificate that is shown where this server is the client (MIGRATE); empty for
        /// `tls-cert-file`.
        tls_client_cert_file: Bytes = text("") =>
            ("tls-client-cert-file", Text, Live).external().then(ConfigureTls);
        /// The private key of that certificate.
        tls_client_key_file: Bytes = text("") =>
            ("tls-client-key-file", Text, Live).external().then(ConfigureTls);
        /// The password of that key, if it is encrypted.
        tls_client_key_file_pass: Bytes = text("") =>
            ("tls-client-key-file-pass", Text, Live).secret().then(ConfigureTls);
        /// Speak TLS to the server that MIGRATE names.
        tls_cluster: bool = false => ("tls-cluster", Bool, Live).then(ConfigureTls);
    }
    "Who may do what" {
        /// Refuse clients from other machines while the default user has no password. Set a
        /// password before you turn it off.
        protected_mode: bool = true => ("protected-mode", Bool, Live).then(LoadLimits);
        /// The password of the default user; empty for none. With `aclfile` that file's passwords
        /// count.
        requirepass: Bytes = text("") => ("requirepass", Text, Live).secret().then(SetPassword);
        /// A file with all users, which `ACL SAVE` and `ACL LOAD` use; empty: they are `user` lines
        /// of the configuration.
        aclfile: Bytes = text("") => ("aclfile", Text, Fixed);
        /// Whether a new user may use all channels or none until a rule says otherwise.
        acl_pubsub_default: NewUserChannels = NewUserChannels::Reset =>
            ("acl-pubsub-default", Enum(NewUserChannels::NAMES), Live).then(SetNewUsers);
        /// Entries that `ACL LOG` keeps.
        acllog_max_len: usize = DeniedLog::MAX_LEN =>
            ("acllog-max-len", Int(0, I64), Live).then(LimitAclLog);
        /// Who may set protected directives (`dir`, `dbfilename`) by CONFIG SET: nobody, everybody,
        /// or clients on this machine (`local`). They decide where files are written.
        enable_protected_configs: Permission = Permission::No =>
            ("enable-protected-configs", Enum(Permission::NAMES), Fixed);
        /// For tests: who may use DEBUG: nobody, everybody, or clients on this machine (`local`).
        enable_debug_command: Permission = Permission::No =>
            ("enable-debug-command", Enum(Permission::NAMES), Fixed);
    }
    "Files and durability" {
        /// The directory of the pool, the append-only file and the dumps; empty for the one in
        /// which the server is started.
        dir: Bytes = text("") => ("dir", Dir, Protected).then(ChangeDir);
        /// With `backend aof`: whether the data has an append-only file. CONFIG SET switches it
        /// while clients are served.
        appendonly: bool = false => ("appendonly", Bool, Live).then(SwitchLog);
        /// When the append-only file, or a pool's journal, is synced: before each reply (`always`),
        /// each second (a power loss takes the last two), or when the system does (`no`). Set
        /// `always` where no acknowledged write may be lost.
        appendfsync: AppendFsync = AppendFsync::EverySec =>
            ("appendfsync", Enum(AppendFsync::NAMES), Live).then(SetFsync);
        /// How the names of the append-only file's parts begin.
        appendfilename: Bytes = text(aof::Options::FILENAME) =>
            ("appendfilename", FileNameSet, Fixed);
        /// The directory of those parts, in `dir`.
        appenddirname: Bytes = text(aof::Options::DIRNAME) => ("appenddirname", FileNameSet, Fixed);
        /// Percent by which the append-only file has grown since its last rewrite when it is
        /// rewritten; 0 for never.
        auto_aof_rewrite_percentage: u64 = 100 =>
            ("auto-aof-rewrite-percentage", Int(0, I32), Live);
        /// Bytes below which it is not rewritten for that.
        auto_aof_rewrite_min_size: u64 = 64 << 20 =>
            ("auto-aof-rewrite-min-size", Memory(0, I64), Live);
        /// Start although the append-only file's last command was cut off, as a crash leaves it;
        /// with `no` such a start is refused.
        aof_load_truncated: bool = true => ("aof-load-truncated", Bool, Live);
        /// Write the base of a rewritten append-only file as a dump, which is smaller and loads
        /// faster; with `no` as commands.
        aof_use_rdb_preamble: bool = true => ("aof-use-rdb-preamble", Bool, Live);
        /// Write the time into the append-only file, so that it can be cut at a moment. Redis
        /// before 7 does not read that.
        aof_timestamp_enabled: bool = false =>
            ("aof-timestamp-enabled", Bool, Live).then(SetTimestamps);
        /// When a dump is written by itself: pairs of a number of seconds and the number of changes
        /// within them; empty for never. A pool and an append-only file need none; without either
        /// the default is that of Redis.
        save: Bytes = text("") => ("save", Save, Live);
        /// The name of the dump, in `dir`.
        dbfilename: Bytes = text("dump.rdb") => ("dbfilename", FileName, Protected);
        /// Compress strings in dumps: smaller files, for some time of a processor.
        rdbcompression: bool = true => ("rdbcompression", Bool, Live);
        /// Write and verify a checksum of the whole dump. With `no` a damaged one may load.
        rdbchecksum: bool = true => ("rdbchecksum", Bool, Fixed);
        /// Sync a dump every few megabytes while it is written, so that its end does not stall
        /// other syncs of the disk.
        rdb_save_incremental_fsync: bool = true => ("rdb-save-incremental-fsync", Bool, Live);
        /// Microseconds to wait after each key of a dump. For tests only.
        rdb_key_save_delay: i64 = 0 => ("rdb-key-save-delay", Int(-I32 - 1, I32), Live).hidden();
        /// Refuse writes while `save` is set and the last dump failed, so that it is noticed. Turn
        /// it off where you watch for that otherwise.
        stop_writes_on_bgsave_error: bool = true => ("stop-writes-on-bgsave-error", Bool, Live);
        /// What SIGINT does, as the options of SHUTDOWN; `default` saves a dump if `save` is set.
        shutdown_on_sigint: Bytes = text("default") =>
            ("shutdown-on-sigint", Flags(&["default", "save", "nosave", "now", "force"]), Live);
        /// The same for SIGTERM.
        shutdown_on_sigterm: Bytes = text("default") =>
            ("shutdown-on-sigterm", Flags(&["default", "save", "nosave", "now", "force"]), Live);
    }
    "Memory, eviction and expiry" {
        /// Bytes of data at which keys are evicted, or writes refused; 0 for the heap's limit. Set
        /// it for a cache, and leave memory for clients and the system.
        maxmemory: u64 = EVICTION.maxmemory =>
            ("maxmemory", Memory(0, U64), Live).then(LimitMemory);
        /// Which keys are evicted then: those with an expiry time (`volatile-`) or all
        /// (`allkeys-`), by last use (`lru`), frequency (`lfu`), chance or nearest expiry;
        /// `noeviction` refuses writes instead.
        maxmemory_policy: EvictionPolicy = EvictionPolicy::NoEviction =>
            ("maxmemory-policy", Enum(EvictionPolicy::NAMES), Live).then(SetEviction);
        /// Keys that are compared for each eviction. More: closer to the true order, for more time.
        maxmemory_samples: u32 = EVICTION.samples =>
            ("maxmemory-samples", Int(1, I32), Live).then(SetEviction);
        /// Bytes, or percent of `maxmemory`, that the buffers of all clients may take together;
        /// beyond it those with the largest are disconnected; 0 for no limit.
        maxmemory_clients: MemoryShare = MemoryShare::Bytes(0) =>
            ("maxmemory-clients", MemoryOrPercent, Live).then(LimitClientMemory);
        /// How slowly the counter of `lfu` grows with accesses: at 10 a million saturate it.
        lfu_log_factor: u32 = EVICTION.lfu_log_factor =>
            ("lfu-log-factor", Int(0, I32), Live).then(SetEviction);
        /// Minutes after which that counter falls by one; 0 for never.
        lfu_decay_time: u32 = EVICTION.lfu_decay_time =>
            ("lfu-decay-time", Int(0, I32), Live).then(SetEviction);
        /// From 1 to 10: how many expired keys each step of the background looks for. Raise it
        /// where they take space for too long.
        active_expire_effort: u64 = 1 =>
            ("active-expire-effort", Int(1, 10), Live).then(LoadLimits);
        /// Steps of background work a second (expiry, reclaiming of space), from 1 to 500. More
        /// frees space sooner, for some processor time.
        hz: u64 = 10 => ("hz", Int(0, I32), Live).then(LoadLimits);
        /// Move values together in the background where space between them is lost. For stores
        /// whose sizes of values change.
        activedefrag: bool = false => ("activedefrag", Bool, Live).then(LoadLimits);
        /// Keys of which clients with client-side caching are told; beyond it some are told too
        /// early; 0 for no limit.
        tracking_table_max_keys: usize = ENGINE.tracking_table_max_keys =>
            ("tracking-table-max-keys", Int(0, I64), Live).then(LimitTracking);
        /// Whether the kernel ends this process rather than others when the machine is out of
        /// memory: `relative` adds to what it was started with, `absolute` replaces it, `yes` is
        /// `relative`.
        oom_score_adj: OomScoreAdj = OomScoreAdj::No =>
            ("oom-score-adj", Enum(OomScoreAdj::NAMES), Live).then(SetOomScore);
        /// By how much, from -2000 to 2000: of a primary, a replica, a child process. There are no
        /// child processes here.
        oom_score_adj_values: [i64; 3] = [0, 200, 800] =>
            ("oom-score-adj-values", OomValues, Live).then(SetOomScore);
    }
    "Databases and types" {
        /// How many databases SELECT knows.
        databases: usize = ENGINE.databases =>
            ("databases", Int(1, I32), Fixed).then(StoreSettings);
        /// Elements of one node of a list; from -1 to -5: bytes, 4 to 64 KiB. Larger nodes take
        /// less space, and more time in the middle of a list.
        list_max_listpack_size: i32 = ENGINE.list_max_listpack_size =>
            ("list-max-listpack-size", Int(-I32 - 1, I32), Live)
                .alias("list-max-ziplist-size").then(StoreSettings);
        /// Members up to which a set of integers is stored as one block.
        set_max_intset_entries: usize = ENGINE.set_max_intset_entries =>
            ("set-max-intset-entries", Int(0, I64), Live).then(StoreSettings);
        /// Fields up to which a hash is stored as one block. Larger blocks take less space and more
        /// time for each access.
        hash_max_listpack_entries: usize = ENGINE.hash_max_listpack_entries =>
            ("hash-max-listpack-entries", Int(0, I64), Live)
                .alias("hash-max-ziplist-entries").then(StoreSettings);
        /// Bytes of the longest field or value of such a hash.
        hash_max_listpack_value: usize = ENGINE.hash_max_listpack_value =>
            ("hash-max-listpack-value", Memory(0, I64), Live)
                .alias("hash-max-ziplist-value").then(StoreSettings);
        /// Members up to which a sorted set is stored as one block.
        zset_max_listpack_entries: usize = ENGINE.zset_max_listpack_entries =>
            ("zset-max-listpack-entries", Int(0, I64), Live)
                .alias("zset-max-ziplist-entries").then(StoreSettings);
        /// Bytes of the longest member of such a sorted set.
        zset_max_listpack_value: usize = ENGINE.zset_max_listpack_value =>
            ("zset-max-listpack-value", Memory(0, I64), Live)
                .alias("zset-max-ziplist-value").then(StoreSettings);
        /// Entries of one node of a stream; 0 for no limit.
        stream_node_max_entries: usize = ENGINE.stream_node_max_entries =>
            ("stream-node-max-entries", Int(0, I64), Live).then(StoreSettings);
        /// Bytes of one node of a stream; 0 for no limit.
        stream_node_max_bytes: usize = ENGINE.stream_node_max_bytes =>
            ("stream-node-max-bytes", Memory(0, I64), Live).then(StoreSettings);
        /// Bytes up to which a HyperLogLog is stored in its sparse form, which is smaller and
        /// slower.
        hll_sparse_max_bytes: usize = ENGINE.hll_sparse_max_bytes =>
            ("hll-sparse-max-bytes", Memory(0, I64), Live).then(StoreSettings);
    }
    "Logs, events and statistics" {
        /// The log's file; empty for standard output.
        logfile: Bytes = text("") => ("logfile", Text, Fixed);
        /// The least important lines that are logged.
        loglevel: LogLevel = LogLevel::Notice =>
            ("loglevel", Enum(LogLevel::NAMES), Live).then(SetLogLevel);
        /// A file for the number of the process while it runs; empty for none.
        pidfile: Bytes = text("") => ("pidfile", Text, Fixed);
        /// Whether systemd is told that the server is ready, and that it is alive; `auto` where
        /// systemd asks for it.
        supervised: Supervised = Supervised::No => ("supervised", Enum(Supervised::NAMES), Fixed);
        /// Which changes of keys are published as messages, by letters as in Redis; empty for none.
        /// Each costs time: name those that somebody listens to.
        notify_keyspace_events: Bytes = text("") =>
            ("notify-keyspace-events", Events, Live).then(PublishEvents);
        /// Milliseconds after which a script counts as slow: others are answered BUSY until it
        /// ends, or SCRIPT KILL ends it.
        busy_reply_threshold: u64 = ENGINE.busy_reply_threshold =>
            ("busy-reply-threshold", Int(0, I64), Live).alias("lua-time-limit").then(StoreSettings);
        /// Microseconds from which a command is kept in SLOWLOG; 0 for every one, -1 for none.
        slowlog_log_slower_than: i64 = SlowLog::SLOWER_THAN_US =>
            ("slowlog-log-slower-than", Int(-1, I64), Live)
                .alias("commandlog-execution-slower-than").then(SetCommandLogs);
        /// Entries that SLOWLOG keeps.
        slowlog_max_len: usize = SlowLog::MAX_LEN => ("slowlog-max-len", Int(0, I64), Live)
                .alias("commandlog-slow-execution-max-len").then(SetCommandLogs);
        /// Bytes from which a request is kept in COMMANDLOG; -1 for none.
        commandlog_request_larger_than: i64 = SlowLog::LARGER_THAN =>
            ("commandlog-request-larger-than", Int(-1, I64), Live).then(SetCommandLogs);
        /// Entries of that log.
        commandlog_large_request_max_len: usize = SlowLog::MAX_LEN =>
            ("commandlog-large-request-max-len", Int(0, I64), Live).then(SetCommandLogs);
        /// Bytes from which a reply is kept in COMMANDLOG; -1 for none.
        commandlog_reply_larger_than: i64 = SlowLog::LARGER_THAN =>
            ("commandlog-reply-larger-than", Int(-1, I64), Live).then(SetCommandLogs);
        /// Entries of that log.
        commandlog_large_reply_max_len: usize = SlowLog::MAX_LEN =>
            ("commandlog-large-reply-max-len", Int(0, I64), Live).then(SetCommandLogs);
        /// Milliseconds from which an event is kept for LATENCY; 0 for none. Set it while you look
        /// for a delay.
        latency_monitor_threshold: u64 = 0 =>
            ("latency-monitor-threshold", Int(0, I64), Live).then(SetLatency);
        /// Count the time of each command: `INFO latencystats`, LATENCY HISTOGRAM, the metrics.
        latency_tracking: bool = true => ("latency-tracking", Bool, Live).then(SetLatency);
        /// The percentiles that `INFO latencystats` shows.
        latency_tracking_info_percentiles: Vec<f64> = vec![50.0, 99.0, 99.9] =>
            ("latency-tracking-info-percentiles", Percentiles, Live);
    }
    "Replication" {
        /// The primary to follow; `REPLICAOF NO ONE` makes this server a primary.
        replicaof: Bytes = text("") => ("replicaof", ReplicaOf, Fixed).alias("slaveof");
        /// Seconds without a sign of life after which a link between primary and replica ends.
        repl_timeout: i64 = 60 => ("repl-timeout", Int(1, I32), Live);
        /// Seconds between two signs of life of a primary.
        repl_ping_replica_period: i64 = 10 =>
            ("repl-ping-replica-period", Int(1, I32), Live).alias("repl-ping-slave-period");
        /// Bytes of the stream that are kept for replicas that come back.
        repl_backlog_size: u64 = 64 << 20 =>
            ("repl-backlog-size", Memory(1, I64), Live).then(RequireReplicas);
        /// Bytes of the stream that a file beside the pool keeps over a crash; 0 for none.
        repl_durable_size: u64 = 16 << 20 => ("repl-durable-size", Memory(0, 4 << 30), Live);
        /// Seconds without replicas after which the stream ends; 0 for never.
        repl_backlog_ttl: i64 = 3600 => ("repl-backlog-ttl", Int(0, I64), Live);
        /// Send dumps to replicas while they are made; with `no` they are made in files in `dir`.
        repl_diskless_sync: bool = true => ("repl-diskless-sync", Bool, Live);
        /// Seconds for which a replica waits for others that share its dump, if there is no file.
        repl_diskless_sync_delay: i64 = 5 => ("repl-diskless-sync-delay", Int(0, I32), Live);
        /// So many replicas wait for no others; 0 for no such number.
        repl_diskless_sync_max_replicas: i64 = 0 =>
            ("repl-diskless-sync-max-replicas", Int(0, I32), Live);
        /// Data goes when a dump begins (`flush-before-load`), or when all of it is in `dir`.
        repl_diskless_load: DisklessLoad = DisklessLoad::Disabled =>
            ("repl-diskless-load", Enum(DisklessLoad::NAMES), Live);
        /// Answer while the link to the primary is down.
        replica_serve_stale_data: bool = true => ("replica-serve-stale-data", Bool, Live)
                .then(RequireReplicas).alias("slave-serve-stale-data");
        /// Refuse writes of clients on a replica.
        replica_read_only: bool = true =>
            ("replica-read-only", Bool, Live).then(RequireReplicas).alias("slave-read-only");
        /// The address that the primary shows for this replica.
        replica_announce_ip: Bytes = text("") =>
            ("replica-announce-ip", Text, Live).alias("slave-announce-ip");
        /// The port that it shows.
        replica_announce_port: i64 = 0 =>
            ("replica-announce-port", Int(0, 65535), Live).alias("slave-announce-port");
        /// Whether tools such as Sentinel are to know this replica.
        replica_announced: bool = true => ("replica-announced", Bool, Live);
        /// Sentinel promotes the replica with the lowest number; 0 is never promoted.
        replica_priority: i64 = 100 =>
            ("replica-priority", Int(0, I32), Live).alias("slave-priority");
        /// The user as whom a replica authenticates at its primary.
        masteruser: Bytes = text("") => ("masteruser", Text, Live).secret();
        /// The password with which it does.
        masterauth: Bytes = text("") => ("masterauth", Text, Live).secret();
        /// Encrypt the link to the primary.
        tls_replication: bool = false => ("tls-replication", Bool, Live).then(ConfigureTls);
        /// Replicas without which writes are refused, if `min-replicas-max-lag` is not 0.
        min_replicas_to_write: u64 = 0 => ("min-replicas-to-write", Int(0, I32), Live)
                .alias("min-slaves-to-write").then(RequireReplicas);
        /// Seconds after which a silent replica does not count for that.
        min_replicas_max_lag: u64 = 10 => ("min-replicas-max-lag", Int(0, I32), Live)
                .alias("min-slaves-max-lag").then(RequireReplicas);
        /// Replicas that must have what a reply shows before it leaves; 0 for none.
        repl_acknowledge: u32 = 0 => ("repl-acknowledge", Int(0, 1000), Live).then(SetQuorum);
        /// Whether they must have it durably.
        repl_acknowledge_durable: bool = false =>
            ("repl-acknowledge-durable", Bool, Live).then(SetQuorum);
        /// Milliseconds after which such a reply is given up; 0 for never.
        repl_acknowledge_timeout: u64 = 0 =>
            ("repl-acknowledge-timeout", Int(0, I64), Live).then(SetQuorum);
        /// Seconds that the end of the server waits for replicas that lack something.
        shutdown_timeout: i64 = 10 => ("shutdown-timeout", Int(0, I32), Live);
    }
    "Accepted without effect" {
        no_appendfsync_on_rewrite: bool = false =>
            ("no-appendfsync-on-rewrite", Bool, Live).ignored(Design);
        maxmemory_eviction_tenacity: i64 = 10 =>
            ("maxmemory-eviction-tenacity", Int(0, 100), Live).ignored(Design);
        daemonize: bool = false => ("daemonize", Bool, Fixed).ignored(Foreground);
        io_threads_do_reads: bool = false => ("io-threads-do-reads", Bool, Fixed).ignored(Design);
        always_show_logo: bool = false => ("always-show-logo", Bool, Fixed).ignored(Design);
        rdb_del_sync_files: bool = false => ("rdb-del-sync-files", Bool, Live).ignored(Replication);
        activerehashing: bool = true => ("activerehashing", Bool, Live).ignored(Design);
        set_proc_title: bool = true => ("set-proc-title", Bool, Fixed).ignored(Foreground);
        dynamic_hz: bool = true => ("dynamic-hz", Bool, Live).ignored(Design);
        lazyfree_lazy_eviction: bool = false =>
            ("lazyfree-lazy-eviction", Bool, Live).ignored(Design);
        lazyfree_lazy_expire: bool = false => ("lazyfree-lazy-expire", Bool, Live).ignored(Design);
        lazyfree_lazy_server_del: bool = false =>
            ("lazyfree-lazy-server-del", Bool, Live).ignored(Design);
        lazyfree_lazy_user_del: bool = false =>
            ("lazyfree-lazy-user-del", Bool, Live).ignored(Design);
        lazyfree_lazy_user_flush: bool = false =>
            ("lazyfree-lazy-user-flush", Bool, Live).ignored(Design);
        repl_disable_tcp_nodelay: bool = false =>
            ("repl-disable-tcp-nodelay", Bool, Live).ignored(Replication);
        aof_rewrite_incremental_fsync: bool = true =>
            ("aof-rewrite-incremental-fsync", Bool, Live).ignored(Design);
        replica_lazy_flush: bool = false =>
            ("replica-lazy-flush", Bool, Live).ignored(Replication).alias("slave-lazy-flush");
        replica_ignore_maxmemory: bool = true => ("replica-ignore-maxmemory", Bool, Live)
                .ignored(Replication).alias("slave-ignore-maxmemory");
        jemalloc_bg_thread: bool = true => ("jemalloc-bg-thread", Bool, Live).ignored(Design);
        syslog_enabled: bool = false => ("syslog-enabled", Bool, Fixed).ignored(Design);
        crash_log_enabled: bool = true => ("crash-log-enabled", Bool, Live).ignored(Design);
        crash_memcheck_enabled: bool = true =>
            ("crash-memcheck-enabled", Bool, Live).ignored(Design);
        use_exit_on_panic: bool = false =>
            ("use-exit-on-panic", Bool, Live).ignored(Design).hidden();
        disable_thp: bool = true => ("disable-thp", Bool, Fixed).ignored(Design);
        aof_disable_auto_gc: bool = false => ("aof-disable-auto-gc", Bool, Live).ignored(Design);
        replica_ignore_disk_write_errors: bool = false =>
            ("replica-ignore-disk-write-errors", Bool, Live).ignored(Replication);
        lua_enable_deprecated_api: bool = false =>
            ("lua-enable-deprecated-api", Bool, Fixed).ignored(Design).hidden();
        syslog_ident: Bytes = text("redis") => ("syslog-ident", Text, Fixed).ignored(Design);
        server_cpulist: Bytes = text("") => ("server_cpulist", Text, Fixed).ignored(Design);
        bio_cpulist: Bytes = text("") => ("bio_cpulist", Text, Fixed).ignored(Design);
        aof_rewrite_cpulist: Bytes = text("") =>
            ("aof_rewrite_cpulist", Text, Fixed).ignored(Design);
        bgsave_cpulist: Bytes = text("") => ("bgsave_cpulist", Text, Fixed).ignored(Design);
        ignore_warnings: Bytes = text("") => ("ignore-warnings", Text, Live).ignored(Design);
        proc_title_template: Bytes = text("{title} {listen-addr} {server-mode}") =>
            ("proc-title-template", Text, Live).ignored(Foreground);
        bind_source_addr: Bytes = text("") => ("bind-source-addr", Text, Live).ignored(Design);
        syslog_facility: &'static str = "local0" =>
            ("syslog-facility", Enum(&["user", "local0", "local1", "local2", "local3", "local4",
                "local5", "local6", "local7"]), Fixed).ignored(Design);
        sanitize_dump_payload: &'static str = "no" =>
            ("sanitize-dump-payload", Enum(&["no", "yes", "clients"]), Live).ignored(Design);
        enable_module_command: &'static str = "no" =>
            ("enable-module-command", Enum(&["no", "yes", "local"]), Fixed).ignored(Later);
        propagation_error_behavior: &'static str = "ignore" =>
            ("propagation-error-behavior", Enum(&["ignore", "panic", "panic-on-replicas"]), Live)
                .ignored(Design);
        io_threads: i64 = 1 => ("io-threads", Int(1, 128), Fixed).ignored(Design);
        active_defrag_cycle_min: i64 = 1 =>
            ("active-defrag-cycle-min", Int(1, 99), Live).ignored(Design);
        active_defrag_cycle_max: i64 = 25 =>
            ("active-defrag-cycle-max", Int(1, 99), Live).ignored(Design);
        active_defrag_threshold_lower: i64 = 10 =>
            ("active-defrag-threshold-lower", Int(0, 1000), Live).ignored(Design);
        active_defrag_threshold_upper: i64 = 100 =>
            ("active-defrag-threshold-upper", Int(0, 1000), Live).ignored(Design);
        list_compress_depth: i64 = 0 => ("list-compress-depth", Int(0, I32), Live).ignored(Design);
        key_load_delay: i64 = 0 =>
            ("key-load-delay", Int(-I32 - 1, I32), Live).ignored(Design).hidden();
        watchdog_period: i64 = 0 => ("watchdog-period", Int(0, I32), Live).ignored(Design).hidden();
        socket_mark_id: i64 = 0 => ("socket-mark-id", Int(0, U32), Fixed).ignored(Design);
        active_defrag_max_scan_fields: i64 = 1000 =>
            ("active-defrag-max-scan-fields", Int(1, I64), Live).ignored(Design);
        active_defrag_ignore_bytes: u64 = 100 << 20 =>
            ("active-defrag-ignore-bytes", Memory(1, I64), Live).ignored(Design);
        loading_process_events_interval_bytes: i64 = 2 << 20 =>
            ("loading-process-events-interval-bytes", Int(1024, I32), Live)
                .ignored(Design).hidden();
        tls_session_cache_timeout: i64 = 300 =>
            ("tls-session-cache-timeout", Int(0, I32), Live).ignored(Tls).then(ConfigureTls);
        tls_dh_params_file: Bytes = text("") =>
            ("tls-dh-params-file", Text, Live).ignored(Tls).external().then(ConfigureTls);
    }
}}

#[cfg(test)]
mod tests {
    use super::super::file::REFUSED_LINES;
    use super::super::row::Usage::{Ignored, Used};
    use super::*;

    /// The directives that redis.conf of Redis 7.0.15 names, by what is done with them here.
    const OF_REDIS: [(&str, &str); 3] = [
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
         maxmemory-clients maxmemory-policy maxmemory-samples min-replicas-max-lag shutdown-timeout \
         min-replicas-to-write pidfile port protected-mode proto-max-bulk-len requirepass \
         set-max-intset-entries slowlog-log-slower-than slowlog-max-len stream-node-max-bytes \
         stream-node-max-entries tcp-backlog tcp-keepalive timeout tracking-table-max-keys \
         unixsocket unixsocketperm zset-max-listpack-entries zset-max-listpack-value \
         aof-timestamp-enabled aof-use-rdb-preamble dbfilename rdb-save-incremental-fsync \
         rdbchecksum rdbcompression save shutdown-on-sigint shutdown-on-sigterm \
         stop-writes-on-bgsave-error masterauth masteruser repl-backlog-size \
         repl-backlog-ttl repl-ping-replica-period repl-timeout replica-announce-ip \
         replica-announce-port replica-announced replica-priority replica-read-only \
         replica-serve-stale-data tls-replication replicaof cluster-enabled \
         cluster-allow-pubsubshard-when-down cluster-allow-reads-when-down \
         cluster-allow-replica-migration cluster-announce-bus-port cluster-announce-hostname \
         cluster-announce-ip cluster-announce-port cluster-announce-tls-port cluster-config-file \
         cluster-link-sendbuf-limit cluster-migration-barrier cluster-node-timeout cluster-port \
         cluster-preferred-endpoint-type cluster-replica-no-failover \
         cluster-replica-validity-factor cluster-require-full-coverage",
        ),
        (
            "ignored",
            "active-defrag-cycle-max active-defrag-cycle-min \
         active-defrag-ignore-bytes active-defrag-max-scan-fields active-defrag-threshold-lower \
         active-defrag-threshold-upper activerehashing always-show-logo \
         aof-rewrite-incremental-fsync \
         aof_rewrite_cpulist bgsave_cpulist bind-source-addr bio_cpulist \
         crash-log-enabled \
         crash-memcheck-enabled daemonize  disable-thp dynamic-hz enable-module-command \
         ignore-warnings io-threads io-threads-do-reads jemalloc-bg-thread lazyfree-lazy-eviction \
         lazyfree-lazy-expire lazyfree-lazy-server-del lazyfree-lazy-user-del \
         lazyfree-lazy-user-flush list-compress-depth   \
         maxmemory-eviction-tenacity no-appendfsync-on-rewrite  \
         proc-title-template propagation-error-behavior rdb-del-sync-files \
         repl-disable-tcp-nodelay \
         replica-ignore-disk-write-errors replica-ignore-maxmemory replica-lazy-flush \
            sanitize-dump-payload  \
         server_cpulist set-proc-title \
         socket-mark-id  syslog-enabled syslog-facility \
         syslog-ident tls-dh-params-file  tls-session-cache-timeout",
        ),
        ("refused line", "loadmodule"),
    ];

    fn usage(name: &str) -> &'static str {
        match Row::find(name.as_bytes()).map(|row| row.usage) {
            Some(Used) => "used",
            Some(Ignored(_)) => "ignored",
            None if REFUSED_LINES.iter().any(|(line, _)| *line == name) => "refused line",
            None => "unknown",
        }
    }

    #[test]
    fn every_directive_of_redis_conf_is_used_or_ignored() {
        for (expected, names) in OF_REDIS {
            for name in names.split_ascii_whitespace() {
                assert_eq!(usage(name), expected, "{name}");
            }
        }
    }

    #[test]
    fn every_directive_in_use_says_what_it_does() {
        for row in Row::all() {
            let text = row.meaning;
            assert_eq!(!text.is_empty(), matches!(row.usage, Used), "{}", row.name);
            if !text.is_empty() {
                let name = row.name;
                assert!(
                    text.ends_with(['.', ')']) && !text.contains(['|', '\n']),
                    "{name}: {text}"
                );
            }
        }
    }

    #[test]
    fn the_values_of_secret_directives_are_hidden_by_commands() {
        let mut secret: Vec<&str> =
            Row::all().filter(|row| row.secret).map(|row| row.name).collect();
        let mut hidden = commands::admin::SECRET_DIRECTIVES;
        secret.sort_unstable();
        hidden.sort_unstable();
        assert_eq!(secret, hidden);
    }

    #[test]
    fn a_field_has_the_name_of_its_directive() {
        for row in Row::all() {
            let mut given = Given::default();
            *(row.field.given)(&mut given) = true;
            let field = row.name.replace('-', "_");
            assert!(format!("{given:?}").contains(&format!(" {field}: true")), "{}", row.name);
        }
    }

    #[test]
    fn a_field_can_have_every_number_that_its_directive_allows() {
        for row in Row::all() {
            let (Int(low, high) | Memory(low, high)) = row.kind else { continue };
            for number in [low, high] {
                let mut values = Values::default();
                let text = number.to_string();
                if values.set(row.name.as_bytes(), &[text.as_bytes()]).is_ok() {
                    assert_eq!(row.text(&values), text.as_bytes(), "{}", row.name);
                }
            }
        }
    }
}
