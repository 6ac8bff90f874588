//! `docs/compatibility.md` is generated from the command table: this test fails when it is out of
//! date, and writes it when `UPDATE_DOCS` is set.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::support::engine;
use commands::Engine;

/// Redis 7.0.15's commands and subcommands, from its own COMMAND LIST.
const REDIS: &str = include_str!("../redis-7.0.15-commands.txt");

const HEAD: &str = "\
# Compatibility

Perdura speaks RESP2 and RESP3 and behaves as Redis 7.0.15 does: replies, error texts and encodings. A difference
that is not documented here is a bug. This page is generated from the command table
(`UPDATE_DOCS=1 cargo test -p perdura-commands --test it compatibility::`).

Known differences:

- OBJECT and SCAN do not delete an expired key that they find, nor does a command that then fails:
  DBSIZE counts it until it is deleted in the background, or by another command. OBJECT counts
  neither as a hit nor as a miss.
- OBJECT REFCOUNT returns 1, or 2147483647 for an integer below 10000, as Redis does for shared
  objects; a COPY of such an integer is reported as shared too.
- SORT does not convert a sorted set: Redis's converts a listpack to a skiplist.
- SORT with ALPHA compares bytes, whatever the locale. Elements that compare as equal (ALPHA with
  BY) keep their order if they are of a list or a sorted set, and are sorted by their bytes if they
  are of a set.
- There are 16 databases, since the format of pools has roots for 16. A start with `databases 17`
  is refused, and says so.
- `mem_fragmentation_ratio` and `allocator_frag_ratio` count less than 64 MiB as 64 MiB, so that a
  store that is nearly empty has 1.00. Of a pool both say how many bytes its spans in use take
  for each byte in blocks: the pages of a file in memory say nothing of that. Without `maxmemory`
  the field of that name in INFO is the limit of the pool.
- The cursors of SCAN, HSCAN, SSCAN and ZSCAN are different numbers; their guarantee is the same.
  One SCAN visits parts of a database that are locked one after the other: a key that is renamed
  meanwhile may be returned under both names or neither, as between two calls. The order of the
  elements of a collection with the encoding hashtable differs, and a small one is scanned by one
  call.
- While a script runs longer than busy-reply-threshold, those commands are answered with BUSY that
  need keys of the shards which it has locked; all others are served, and several scripts may run at
  the same time. With busy-reply-all yes all commands are, as in Redis. used_memory_lua counts the
  interpreters of all threads.
- What a script does in one instruction or one function (joining, repeating, sorting, encoding,
  matching, hashing) is interrupted by SCRIPT KILL, FUNCTION KILL and the time limits as loops are. A
  text of more than 64 MiB, of more than 4,000,000 tokens, or with names in too many nested scopes is
  refused by the compiler. After a write, SCRIPT KILL answers UNKILLABLE, as in Redis, unless
  script-kill-rollback says otherwise.
- FUNCTION LIST and FUNCTION DUMP have the libraries in the order of their names, and functions in
  the order in which they were registered; in Redis both come in the order of a table. FUNCTION DUMP
  compresses code whatever rdbcompression says. INFO counts functions once any command has needed
  them: a start compiles no library. A pool whose medium lost a library's code answers MEDIAERR to
  what needs it; FUNCTION LOAD REPLACE and FUNCTION DELETE work.
- KEYS guarantees what SCAN does, in one reply: other clients are served meanwhile, and a key that
  is added, removed or renamed meanwhile may be listed or not. Within MULTI it lists the keys of
  one moment, as in Redis.
- One command on one large collection (SMEMBERS, HGETALL, LRANGE, SUNIONSTORE, SORT, DUMP) is one
  step, as in Redis, where all clients wait for it. Here only those clients wait that need a key
  of the same shard: a command that will take more than about a millisecond by the sizes of its
  values, an EXEC of as many commands, a script that has taken two milliseconds, and what waits
  for a disk (SAVE, CONFIG REWRITE) are executed by other threads than those that serve clients,
  as is what copies a value of more than 2 MiB, into the store or out of it; requests and replies
  of any size are read and sent 256 KiB at a time. The SCAN commands, and LRANGE and ZRANGE in
  parts, let others have the shard meanwhile. An EXEC that executes a script or a function has
  all shards until it ends, and is executed again where that takes long, so that other commands
  in it which change no data (BGSAVE, LATENCY RESET) are executed twice. Commands with BLOCK or
  in the place of it (BLPOP, BLMPOP) stay on their connection's thread whatever they find.
- HRANDFIELD, SRANDMEMBER and ZRANDMEMBER refuse a negative count below -67108864.
- Clients that wait for the same key are served in the order in which the server's threads read
  their requests. Requests of clients on different threads that arrive at almost the same time may
  be read in a different order; with one thread (`--threads 1`) they are read in the order of
  arrival.
- A message that a client publishes within MULTI or a script to a channel to which it subscribes
  itself (RESP3) comes after the reply; in Redis 7.0 it comes before that of a script, and in the
  middle of the array of EXEC, which clients cannot parse.
- PUBLISH is an error in a script or transaction that has published 64 MiB to subscribers.
- Keyspace notifications: a command that fails sends no keymiss, and one that finds an expired key
  sends expired after it; new comes before all other events of its command (MSET, SMOVE); a
  script or transaction sends up to 64 MiB of events, and the log says
  that others were dropped; when the last field of a hash expires, the event is the key's,
  expired, where Redis 7.4 sends hexpired and del. CONFIG GET tells the class n also after A,
  where Redis 7.0 forgets it. A client in RESP3 gets the events of its own commands after their
  replies, and a message that fits several patterns once for each, in another order. Of the
  expired keys that one command, EXEC or script finds, 64 are deleted at once; RANDOMKEY deletes
  none.
- XINFO STREAM returns the number of a stream's nodes as radix-tree-keys, and one more as
  radix-tree-nodes. A node has slightly more capacity than Redis's with the same
  stream-node-max-bytes.
- INFO counts the commands and errors of a script or an EXEC twice that was moved to another thread
  after it had begun, and executed again there, and those of a script that was run again since it
  needed a key which it had not declared. CLIENT UNBLOCK makes no failed call, and a
  client that XADD serves counts as one that read. CLIENT LIST has no flag d, and after a watched key has changed it goes on to count what is
  queued. struct.size refuses a letter that is no format.
- ACL LOG keeps 1024 bytes of a key, channel or name. INFO has acl_access_denied_*, as in Redis 7.2.
  Rules may name commands of Redis 7.0 that are missing here (MODULE LOAD): what is said of
  them is kept. A first argument that has spaces, and a pattern of a selector that ends with a
  closing parenthesis, are refused, since a file could not say them. Words of a selector are
  separated by spaces; Redis takes quotes there, too, and a selector whose quotes are not closed has
  no rules there. CONFIG REWRITE writes no line
  for the default user where requirepass says all of it. Listeners of the default user, too, are
  closed by an ACL LOAD that takes their channels. An error in an ACL file always names the word.
  A blocked client is checked again when it is served, as in Redis 7.2, and a client that monitors
  or tracks keys is closed when its user may not do so any more (SECURITY.md has a table).
- DEBUG LISTPACK and DEBUG QUICKLIST reply as in Redis and print nothing; DEBUG STRINGMATCH-LEN
  exists. DEBUG DIGEST is Redis's; DEBUG DIGEST FULL adds consumer groups.
- ZRANK and ZREVRANK accept WITHSCORE, as in Redis 7.2. CLIENT NO-TOUCH, CLIENT SETINFO and WAITAOF
  are those of Redis 7.2. WAITAOF syncs the append-only file at once, whatever appendfsync says.
  With a pool each write is durable when its reply is sent, and the first number is always 1; in
  memory only it is always 0. Of Redis 7.2 these are missing: set-max-listpack-entries and
  set-max-listpack-value with the encoding listpack of sets, since encodings are those of 7.0.15.
- HEXPIRE, HPEXPIRE, HEXPIREAT, HPEXPIREAT, HTTL, HPTTL, HEXPIRETIME, HPEXPIRETIME, HPERSIST are
  those of Redis 7.4, HGETEX, HSETEX, HGETDEL those of 8.0. A field that has expired is not
  counted by HLEN, and a hash whose fields have all expired is gone at once: in Redis both wait
  until the fields are deleted. Loading an append-only file with field TTLs needs Redis 8.0.
- SET with IFEQ, IFNE, IFDEQ, IFDNE, DELEX, DIGEST, MSETEX and XREADGROUP with CLAIM are those of
  Redis 8.4; XDELEX, XACKDEL, KEEPREF, DELREF, ACKED of XADD and XTRIM, and the operations DIFF,
  DIFF1, ANDOR, ONE of BITOP those of 8.2; CLIENT KILL with MAXAGE and HSCAN with NOVALUES those of
  7.4. DELIFEQ, GEOSEARCH with BYPOLYGON, HSETEX with NX and XX, SCRIPT SHOW, COMMANDLOG, CLIENT CAPA
  and IMPORT-SOURCE, and the filters of CLIENT LIST and KILL, are those of Valkey 8 and 9. COMPAT.md has a row for each command. The log has what came
  of them, in commands that Redis 7.0 loads. XREADGROUP with CLAIM and BLOCK waits for new entries
  only: who waits is not woken when a pending entry becomes old enough. CLAIM visits all that is
  pending of the group, for each key, and again with each XADD while the client waits; Redis has it
  in the order of its age. XTRIM with ACKED takes entries out one by one, also with ~, and goes on
  after those that are referenced: with a LIMIT (that of ~ is preset) over four times as many.
  redis-version changes what is claimed, and nothing else.
- CLIENT ACKNOWLEDGE is Perdura's own: replies that wait for replicas (docs/replication.md).
- DUMP returns the same bytes as Redis 7.0, except that elements of a hash table come in another
  order, that a list or a stream is divided into nodes as RPUSH or XADD would divide it now, and
  that a hash with field TTLs is dumped as Redis 7.4 does (version 12, which 7.0 refuses). RESTORE
  accepts payloads of all versions up to those of Redis 8 and Valkey 9, and validates them as with
  sanitize-dump-payload yes; values of modules are refused.
- WATCH notices each key that is created or overwritten: also one that BITFIELD creates although
  all of its values are refused (OVERFLOW FAIL), and one that RESTORE with REPLACE overwrites and
  that had expired when it was watched. Redis 7.0 notices neither.
- A range of names (BYLEX and related commands) over a large sorted set whose scores differ, for
  which Redis's result is unspecified, returns something else.
- CLIENT TRACKING: changes of one transaction, or of one pipelined run, are broadcast in one
  message, where Redis sends one for all changes of a turn of its event loop. A client is
  notified of changes that it made itself in a run after the run's last reply, and of those of a
  transaction after all lines of MONITOR about it, and those of one command in another order. With
  NOLOOP it is not notified of what its scripts change, nor of what it is served after it was blocked. A client whose own read finds
  that a key has expired is notified of that. What was read by clients that track no more is
  forgotten, and not counted by tracking_total_keys, when nobody tracks.
- maxmemory is compared with the memory that the heap uses. Where the data is in memory (append-only
  file, RDB files), what the process took at its start counts too (used_memory_startup), and buffers
  of clients, from 128 KiB of a client on; with a pool, which is a file, they do not.
- rename-command renames commands for clients and scripts. The append-only file has the original
  names, so that it can be loaded under others; Redis writes the names that clients used.
- OBJECT IDLETIME, OBJECT FREQ and eviction by LRU and LFU use a table in memory: 16 to 32 bytes
  per key with such a policy, otherwise about a megabyte at most. A restart forgets it. About one
  key in 150 may find its line of the table full; such a key counts as used no later, and no more
  often, than the keys in that line. An idle time after a change between LFU and LRU is precise to
  a minute.
- SAVE lets others be served. rdb_changes_since_last_save counts commands that changed something,
  not keys or elements. A dump has a field perdura-backend that Redis ignores, and hashes with field
  TTLs as Redis 7.4 writes them: a dump with such a hash is refused by Redis 7.0. Save points are
  preset only with appendonly no. On a pool, DEBUG RELOAD saves and reloads nothing; with an
  append-only file it reloads that. NOFLUSH and MERGE are not heeded. Values are always validated,
  whatever sanitize-dump-payload says.
- Codes of errors that scripts make up count in INFO as errorstat_ERRORSTATS_OVERFLOW from the 129th
  on. Control characters in a message of redis.log are escapes in the log.
- A connection that sends the first line of an HTTP request, with any method, is closed; Redis
  closes at POST and Host:.
- Files that CONFIG REWRITE, ACL SAVE, SAVE and the append-only file make can be read by the
  server's user alone, or have the permissions of the file that they replace; Redis leaves it to
  the umask. A second server with the same dir is refused. Where files of the append-only file are
  moved, removed or replaced, writes are refused with MISCONF until they are back, or BGREWRITEAOF
  has written it again.
- A replica without data loads a dump while it comes, whatever repl-diskless-load says; with data it
  receives all of it into a file first, also with swapdb. If that fails, or would take more than
  half of the free space of dir, the next dump replaces the data while it comes, as with
  flush-before-load. While a dump is loaded, commands get LOADING, REPLICAOF too. A replica that
  takes its dump slowly holds nobody up: it may get the rest of it from a file in dir. A command of
  the primary that fails on the replica ends the link, and everything is asked for again; Redis logs
  it and goes on ([replication](replication.md)).
- MIGRATE lets others be served, and is refused within MULTI and in scripts. A key that is changed
  while it is sent is sent once more (with REPLACE, or as DEL), up to 16 times; then the reply is a
  TRYAGAIN error, and both servers have the key. Each call makes a connection of its own.
- A node of a cluster (cluster-enabled yes) has no index of keys by slot: CLUSTER COUNTKEYSINSLOT and
  GETKEYSINSLOT visit the keys of the slot's shard. CLUSTER SETSLOT is refused within MULTI and in
  scripts. Nodes do not speak TLS with each other.
- BGREWRITEAOF answers on a pool that there is no append-only file to rewrite. MEMORY STATS reports
  no overheads by database.
- FLUSHDB, FLUSHALL, DEL and UNLINK free memory in the background, with or without ASYNC. MEMORY
  PURGE frees the rest, and returns all free space: that of the pool to its file system (in memory
  only: to the kernel), and unused memory of the allocator; it is answered at once and done in the
  background, in steps. A pool with a journal, or on a device, keeps its size in memory and on disk,
  for what is written next: pool_gives_back:0 in INFO.
- After a restart from the append-only file OBJECT ENCODING says how a string would be stored now
  (`int` for a result of INCRBYFLOAT), as Redis does after a restart. A pool keeps encodings over
  restarts.

";

fn page(engine: &Engine) -> String {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for command in engine.table().all() {
        if !command.spec.is_container() {
            groups.entry(command.spec.group.name()).or_default().push(command.full_name());
        }
    }
    let mut page = HEAD.to_owned();
    let known = |name: &str| engine.table().by_full_name(name.as_bytes()).is_some();
    let (have, lack): (Vec<&str>, Vec<&str>) = REDIS.lines().partition(|name| known(name));
    let _ = writeln!(
        page,
        "{} of Redis's {} commands and subcommands:\n",
        have.len(),
        REDIS.lines().count()
    );
    page.push_str("| group | commands |\n|---|---|\n");
    for (group, mut names) in groups {
        names.sort();
        let names: Vec<String> = names.iter().map(|n| n.replace('|', " ").to_uppercase()).collect();
        let _ = writeln!(page, "| {group} | {} |", names.join(", "));
    }
    let lack: Vec<String> = lack.iter().map(|n| n.replace('|', " ").to_uppercase()).collect();
    let _ = writeln!(page, "\nMissing: {}.", lack.join(", "));
    page
}

#[test]
fn the_compatibility_page_is_that_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md");
    let page = page(&engine());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("the page is written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = written.lines().zip(page.lines()).find(|(written, wanted)| written != wanted);
    assert_eq!(differs, None, "(written, wanted): run with UPDATE_DOCS=1");
    assert!(written == page, "a part is missing or too much: run with UPDATE_DOCS=1");
}
