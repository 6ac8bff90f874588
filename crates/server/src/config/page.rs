//! The page of directives in the documentation, generated from the table.
//!
//! A test compares it with `docs/configuration.md`, so that the page is never out of date.

use super::kind::Kind;
use super::row::{Change, Row, Usage};

/// Returns the page in Markdown.
pub fn page() -> String {
    let mut page = String::from(
        "# Configuration directives\n\n\
         Generated from the table in `crates/server/src/config/table.rs`; to update it after a change:\n\
         `PERDURA_RENEW_DOCS=1 cargo test -p perdura-server configuration_page`.\n\n\
         Directives are given in a `redis.conf` or on the command line (`--name value`). Those marked\n\
         live can be changed with `CONFIG SET`, protected ones only if `enable-protected-configs` allows it.\n",
    );
    page.push_str(OTHER_STORES);
    page.push_str(JOURNAL);
    page.push_str(TLS);
    page.push_str(REFUSED);
    page.push_str(RENAMES);
    page.push_str(REDIS_VERSION);
    page.push_str(SNAPSHOTS);
    for (title, rows) in Row::groups() {
        page.push_str(&format!(
            "\n## {title}\n\n| directive | what it does | value | default | change |\n|---|---|---|---|---|\n"
        ));
        for row in rows {
            page.push_str(&line(row));
        }
    }
    page
}

/// Which store a start serves.
const OTHER_STORES: &str = "
## Which store a start serves

A directory can hold a pool (`pool`), an append-only file (`appenddirname`, or one file of Redis before version 7) and a
`dump.rdb` of Redis (`dbfilename`). A start serves one store: `backend` says which; `auto` takes the
pool, with a journal where it is not on persistent memory, unless an append-only file alone holds data there. While another
one of them holds data the start is refused, and both are named: `other-stores refuse`, the default. A pool holds data if
it has keys or cannot be opened, a log if it has bytes to load, a `dump.rdb` if it exists and is not a copy that was
saved of the store that is served. With `backend aof` and `appendonly no` the `dump.rdb` is what is served: it is loaded. The refusal
names the way on that keeps all data: for files of Redis the `perdura import` that makes a pool of them
([migration.md](migration.md#from-redis-s-directory)). With `other-stores ignore` such a store stays unchanged, and none
of it is served. The rule is the same whether the backend was chosen by name or not, and for `appendonly no` too.
";

/// The journal of a pool on an ordinary disk.
const JOURNAL: &str = "
## The journal

With `backend journal` the pool's changes are appended to a journal ([journal.md](journal.md)), `journal` (by default the pool's name with
`.journal` after it). A new one takes 512 KiB and grows as it is written, up to `journal-size`: 64 KiB to 1 TiB (on persistent memory it has all of
that at once). It takes at most half of what its disk has left; if that is too little it stays as long as it is, and growing is tried again after ten seconds. `appendfsync` means for it what it means for an append-only file.
The larger the journal, the fewer times a page that changes often is written to the pool, and the longer a start after a crash takes: up to about a
second for the default. Its file is never to be removed while the pool is open or was not closed cleanly.

If `journal` names a file on persistent memory (a file system mounted with DAX), a batch is stored there past the cache, and is durable after a fence:
with `appendfsync always` a reply waits for no system call. `INFO persistence` then has `journal_medium:pmem`. `emulate-pmem yes` takes any file that
`journal` names for that, to try and to measure.

`preload yes` reads the whole pool into memory at the start, in huge pages, before the first connection is accepted: without it a page is read from the
file when it is touched first, and stays a small one. The start then takes as long as it takes to read the pool, and memory for all of it.
";

/// TLS.
const TLS: &str = "
## TLS

`tls-port` is one more port, or with `port 0` the only one, on which clients speak TLS 1.2 or 1.3, by rustls; `tls-cert-file` and `tls-key-file` are
its certificate, with those that lead from it to an authority, and its key, in PEM format. Clients need a certificate that `tls-ca-cert-file`
or `tls-ca-cert-dir` vouches for, unless `tls-auth-clients` is `no`, or `optional`. Each `CONFIG SET` of a `tls-` directive reads all files again: to renew
a certificate set `tls-cert-file` and `tls-key-file` in one `CONFIG SET`, to the paths that they have if the files are new. A file that is not right
is named in the log, and nothing changes. Open connections stay.

With `tls-auth-clients-user CN`, as in Redis 8.6, a client whose certificate was verified begins as the user whose name is the certificate's common name (CN), without a password,
if there is such a user and it is `on`; else it begins as any other client does, and `ACL LOG` has a line on it.

`tls-ciphers` (TLS 1.2) and `tls-ciphersuites` (TLS 1.3) are lists as OpenSSL reads them. Known are the suites with forward secrecy and authenticated
encryption, which are those that clients of today ask for; a list that leaves none of them is refused. A key may be encrypted (PKCS#8, as OpenSSL 3
writes it). A handshake may take ten seconds. With `tls-cluster yes` MIGRATE speaks TLS.
";

/// Directives that are refused instead of ignored.
const REFUSED: &str = "
## What is refused

A start is refused where a directive could not be obeyed and to ignore it would change who may do what or where data goes: with
`cluster-enabled yes`, `replicaof` and `tls-cluster yes`, and a `port` above 55535 without `cluster-port`; the lines `loadmodule` and
`sentinel`; and a start that would listen nowhere (`port 0` and `tls-port 0`, or `bind \"\"`, and no `unixsocket`).
";

/// Other names of commands.
const RENAMES: &str = "
## Commands with other names

As in Redis, a line `rename-command CONFIG guarded` gives a command another name, and `rename-command FLUSHALL \"\"` takes it away: clients and scripts get
an error for the name that it had. The rules of users (`ACL`), `INFO commandstats` and the append-only file have the original names: a log can be
loaded under other names than those under which it was written, which Redis cannot do. Such lines are read at the start only, and `CONFIG REWRITE` keeps
them. Where users have passwords, `ACL` rules are the better way to say who may do what.
";

/// Which version of Redis is claimed.
const REDIS_VERSION: &str = "
## Which version of Redis is claimed

`redis-version` is what `HELLO`, `INFO`, `LOLWUT` and scripts (`redis.REDIS_VERSION`) say, since clients and applications use what they find there:
set it to the version whose commands they should use ([COMPAT.md](../COMPAT.md) lists which there are). It changes nothing else.
";

/// What a snapshot may hold.
const SNAPSHOTS: &str = "
## What a snapshot may hold

While the append-only file is rewritten, or a dump is made, from a snapshot, the old values of what changes are kept: words in DRAM, freed
blocks in the heap. `snapshot-memory-limit` says how many bytes both may take together, for all snapshots. When they exceed it the oldest is
given up, and the rewrite or dump fails with a line in the log; no write is ever refused because of a snapshot. The default, 0, means
half of the heap's limit, or half of the machine's memory if that is less. `INFO persistence` shows the limit in effect and what is held
([commit-protocol.md](commit-protocol.md#snapshots)).
";

fn line(row: &Row) -> String {
    let alias = row.alias.map(|a| format!(" (`{a}`)")).unwrap_or_default();
    let default = match row.default() {
        value if value.is_empty() => String::new(),
        value => format!("`{}`", row.kind.for_file(&value)),
    };
    let change = match row.change {
        Change::Fixed | Change::Pinned => "at start",
        Change::Live => "live",
        Change::Protected => "protected",
    };
    let does = match row.usage {
        Usage::Used => row.meaning,
        Usage::Ignored(why) => why.words(),
    };
    let kind = values(row.kind);
    format!("| `{}`{alias} | {does} | {kind} | {default} | {change} |\n", row.name)
}

fn values(kind: Kind) -> String {
    match kind {
        Kind::Bool => "yes, no".into(),
        Kind::Enum(names) => names.join(", "),
        Kind::Flags(names) => format!("some of {}", names.join(", ")),
        Kind::Int(low, high) => format!("{low} to {high}"),
        Kind::Octal(low, high) => format!("{low:o} to {high:o} (octal)"),
        Kind::Memory(low, _) => format!("bytes, at least {low}"),
        Kind::MemoryOrPercent => "bytes or percent".into(),
        Kind::Text => "text".into(),
        Kind::HostName => "host name".into(),
        Kind::Announced => "text without blanks, commas and `=`".into(),
        Kind::Ipv4 => "IPv4 address".into(),
        Kind::Ipv6 => "IPv6 address".into(),
        Kind::FileName | Kind::FileNameSet => "file name".into(),
        Kind::Dir => "folder".into(),
        Kind::Save => "seconds and changes, repeated".into(),
        Kind::OutputLimits => "class, hard, soft, seconds, repeated".into(),
        Kind::OomValues => "three numbers".into(),
        Kind::Events => "letters of `Ag$lshzxeKEtmdn`".into(),
        Kind::Bind => "addresses".into(),
        Kind::ReplicaOf => "host and port".into(),
        Kind::Percentiles => "numbers from 0 to 100".into(),
        Kind::Version => "three numbers, as in 7.0.15".into(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn configuration_page_is_that_of_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let page = super::page();
        if std::env::var_os("PERDURA_RENEW_DOCS").is_some() {
            std::fs::write(path, &page).expect("writable");
        }
        let stored = std::fs::read_to_string(path).unwrap_or_default();
        assert!(stored == page, "docs/configuration.md is not that of the table");
    }
}
