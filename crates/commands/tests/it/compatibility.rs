//! `docs/compatibility.md` is generated from the command table: this test fails when it is out of date, and writes it
//! anew when `UPDATE_DOCS` is set.

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
that is not written down here is a bug. This page is generated from the command table
(`UPDATE_DOCS=1 cargo test -p perdura-commands --test it compatibility::`).

Known differences:

- TTL, TYPE, OBJECT and SCAN do not delete an expired key that they meet: DBSIZE counts it until
  it is deleted in the background, or by another command.
- OBJECT REFCOUNT tells 1, or 2147483647 for an integer below 10000 as Redis does for what it
  shares; a COPY of such an integer is told as shared too.
- SORT leaves a sorted set as it is: Redis's makes a small one (listpack) a large one (skiplist).
- SORT with ALPHA compares bytes, whatever the locale. Where it leaves elements equal (ALPHA with
  BY), those of a list or a sorted set keep their order and those of a set are put in that of
  their bytes.
- There are 16 databases. A start with `databases 32` says so and serves 16: `SELECT 16` is
  answered with an error.
- The cursors of SCAN, HSCAN, SSCAN and ZSCAN are other numbers; their guarantee is the same. One
  SCAN goes through parts of a database that are locked one after the other: a key that is renamed
  meanwhile may be met under both names or neither, as between two calls. The order of the
  elements of what is encoded as a hashtable is another, and a small one is scanned by one call.
- KEYS promises what SCAN does, in one reply: other clients are served meanwhile, and a key that
  comes, goes or is renamed meanwhile may be listed or not. Within MULTI it lists the keys of one
  moment, as in Redis.
- One command over one large collection (SMEMBERS, HGETALL, LRANGE, SINTER, SORT, DUMP) is one
  step, as in Redis, where all clients wait for it. Here those wait that need a key of the same
  shard, and those whose connection the same thread serves. SCAN and its like, and LRANGE and
  ZRANGE by parts, let others be served.
- HRANDFIELD, SRANDMEMBER and ZRANDMEMBER refuse a negative count below -67108864.
- Clients that wait for the same key are served in the order in which the server's threads read
  their requests. Requests of clients on different threads that arrive at almost the same time may
  be read in another order than they came; with one thread (`--threads 1`) they are read as they
  came.
- A message that a client publishes within MULTI to a channel that it listens to itself (RESP3)
  comes behind the reply to EXEC; in Redis 7.0 it stands in the midst of that reply's array, which
  clients cannot read.
- XINFO STREAM tells the nodes that a stream has here as radix-tree-keys, and one more as
  radix-tree-nodes. A node holds a little more than Redis's of the same stream-node-max-bytes.
- DEBUG LISTPACK and DEBUG QUICKLIST reply as in Redis and print nothing; there is DEBUG
  STRINGMATCH-LEN.
- ZRANK and ZREVRANK take WITHSCORE, as those of Redis 7.2 do. CLIENT NO-TOUCH, CLIENT SETINFO and
  WAITAOF are those of Redis 7.2. WAITAOF syncs the append-only file at once, whatever appendfsync
  says. With a pool each write is durable when its reply leaves, and the first number is always 1;
  in memory only it is always 0. Of Redis 7.2 are missing: set-max-listpack-entries and
  set-max-listpack-value with the encoding listpack of sets, since encodings are those of 7.0.15.
- HEXPIRE, HPEXPIRE, HEXPIREAT, HPEXPIREAT, HTTL, HPTTL, HEXPIRETIME, HPEXPIRETIME, HPERSIST are
  those of Redis 7.4, HGETEX, HSETEX, HGETDEL those of 8.0. A field that has expired is not
  counted by HLEN, and a hash whose fields have all expired is gone at once: in Redis both wait
  until the fields are deleted. An append-only file with such times needs Redis 8.0 to be loaded.
- DUMP answers the bytes that Redis 7.0 answers, except that elements of a table come in another
  order, that a list or a stream is divided as RPUSH or XADD would have divided it now, and that a
  hash of which fields have times is dumped as Redis 7.4 does (version 12, which 7.0 refuses).
  RESTORE takes payloads of all versions up to those of Redis 8 and Valkey 9, and validates them
  as with sanitize-dump-payload yes; values of modules are refused.
- WATCH notices each key that is made or written over: also one that BITFIELD makes although all
  of its values are refused (OVERFLOW FAIL), and one that RESTORE with REPLACE writes over what
  had expired when it was watched. Redis 7.0 tells neither.
- A range of names (BYLEX and its like) over a large sorted set whose scores differ, of which
  Redis says that what it finds is unspecified, finds something else.
- CLIENT TRACKING: changes of one transaction, or of one pipelined run, are broadcast in one
  message, where Redis makes one of all that happens in a turn of its event loop. A client is told
  of changes that it made itself in a run behind the run's last reply.
- Keys are evicted by commands that may need room; in Redis by reads, too. maxmemory is compared
  with what the heap holds, which is nothing at first; Redis counts about a megabyte of its own.
- What OBJECT IDLETIME and OBJECT FREQ tell, and what eviction by LRU and LFU goes by, is a table
  in memory: 16 to 32 bytes a key under such a policy, at most a megabyte or so where none asks. A
  restart forgets it. About one key in 150 may have no room in its line of the table; such a key
  counts as used no later, and no more often, than those that have. An idle time between LFU and
  LRU is precise to a minute.
- BGREWRITEAOF says of a pool that there is no append-only file to rewrite. MEMORY STATS tells no
  overheads by database.
- FLUSHDB, FLUSHALL, DEL and UNLINK free memory in the background, with or without ASYNC. MEMORY
  PURGE frees what they left, and gives all free space back: that of the pool to its file system
  (in memory only: to the kernel), and what the allocator keeps; it is answered at once and done
  in the background, in steps.
- After a restart from the append-only file OBJECT ENCODING tells how a string would be stored now
  (`int` for what INCRBYFLOAT made), as Redis does after a restart of its own. A pool keeps
  encodings over restarts.

";

const SCRIPTS: &str = "
Software that brings scripts of its own does not run without EVAL: Celery with its kombu, BullMQ, the locks of redis-py.
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
    let _ = writeln!(page, "\nNot there yet: {}.", lack.join(", "));
    page.push_str(SCRIPTS);
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
