//! The rows of `COMPAT.md` about commands are generated from the command table and from
//! `tests/commands.tsv`: this test fails when they are out of date, and writes them when
//! `UPDATE_DOCS` is set.

use std::fmt::Write as _;
use std::path::Path;

use crate::support::engine;
use commands::Engine;

/// Commands and subcommands by group, each with the servers that have it.
const COMMANDS: &str = include_str!("../commands.tsv");

const BEGIN: &str = "## Commands\n";

/// The text before the rows.
const HEAD: &str = "
Each command and subcommand of Redis 7.0, Redis 8.0 and Valkey 9, and whether it exists here. `partly` says what differs; what holds for a
whole type of values is in [docs/compatibility.md](docs/compatibility.md). Replies are those of the version that brought the
command or option. `redis-version` says which version is claimed. The rows are generated from the command table
(`UPDATE_DOCS=1 cargo test -p perdura-commands --test it command_rows::`).
";

/// Commands that exist but differ.
const PARTLY: &[(&str, &str)] = &[
    ("acl log", "keeps 1024 bytes of a key, channel or name"),
    ("bgrewriteaof", "a pool has no append-only file to rewrite, and the reply says so"),
    ("client capa", "any name is accepted, as there; nothing depends on `redirect`"),
    ("client import-source", "there is no `import-mode`: ON is refused, as without it there"),
    ("commandlog get", "commands that scripts call are not entered for their sizes"),
    ("debug", "the subcommands that tests of Redis use"),
    ("function dump", "compressed whatever `rdbcompression` says"),
    ("hexpire", "a hash whose fields have all expired is gone at once"),
    ("hexpireat", "as HEXPIRE"),
    ("hpexpire", "as HEXPIRE"),
    ("hpexpireat", "as HEXPIRE"),
    ("hrandfield", "refuses a count below -67108864"),
    ("hscan", "cursors are other numbers"),
    ("lolwut", "the version, without a picture"),
    ("memory stats", "no overheads by database"),
    ("migrate", "refused in MULTI and scripts; each call makes a connection of its own"),
    ("module help", "names LIST and HELP alone: there are no modules"),
    ("module list", "always empty: there are no modules"),
    ("object refcount", "1, or 2147483647 for an integer below 10000"),
    ("replconf", "without `rdb-filter-only`"),
    ("restore", "values of modules are refused"),
    ("save", "others are served meanwhile"),
    ("scan", "cursors are other numbers"),
    ("script debug", "NO alone: there is no debugger"),
    ("srandmember", "refuses a count below -67108864"),
    ("sscan", "cursors are other numbers"),
    ("waitaof", "syncs at once, whatever `appendfsync` says"),
    ("xinfo consumers", "`idle` as in Redis 7.0: who finds nothing is not seen"),
    ("xinfo stream", "nodes of the tree are counted in another way"),
    ("xreadgroup", "CLAIM visits all that is pending; who blocks is not woken by what becomes old"),
    ("zrandmember", "refuses a count below -67108864"),
    ("zscan", "cursors are other numbers"),
];

/// Why commands are missing, by the words that they begin with.
const MISSING: &[(&str, &str)] = &[
    ("sentinel", "this is no Sentinel"),
    ("module", "modules are not supported"),
    ("cluster", "of later releases than 7.0, not served yet"),
    ("clusterscan", "of later releases than 7.0, not served yet"),
    ("sflush", "experimental in Redis"),
];

fn rows() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    COMMANDS.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut cells = line.split('\t');
        let mut cell = || cells.next().expect("three cells");
        (cell(), cell(), cell())
    })
}

fn has(engine: &Engine, name: &str) -> bool {
    engine.table().by_full_name(name.replace(' ', "|").as_bytes()).is_some()
}

/// Returns the cell that says whether the command exists here.
fn answer(engine: &Engine, name: &str) -> String {
    let first = name.split(' ').next().unwrap_or_default();
    let differs = PARTLY.iter().find(|(other, _)| *other == name);
    match (has(engine, name), differs) {
        (true, None) => "yes".into(),
        (true, Some((_, how))) => format!("partly: {how}"),
        (false, None) => {
            let why = MISSING.iter().find(|(word, _)| *word == first);
            format!("no: {}", why.unwrap_or_else(|| panic!("no reason: {name}")).1)
        }
        (false, Some(_)) => panic!("partly there, and not in the table: {name}"),
    }
}

fn section(engine: &Engine) -> String {
    let mut text = format!("{BEGIN}{HEAD}");
    let counts = ["7.0", "8.0", "valkey"].map(|server| {
        let of_server = || rows().filter(|(_, _, servers)| servers.split(' ').any(|s| s == server));
        let known = of_server().filter(|(_, name, _)| has(engine, name)).count();
        format!("{known} of {}", of_server().count())
    });
    let [seven, eight, valkey] = counts;
    let _ = writeln!(
        text,
        "\nOf Redis 7.0 there are {seven}, of Redis 8.0 {eight}, of Valkey 9 {valkey}.\n"
    );
    text.push_str("| command | group | in | here |\n|---|---|---|---|\n");
    for (group, name, servers) in rows() {
        let servers: Vec<String> = servers.split(' ').map(server).collect();
        let (name, servers) = (name.to_uppercase(), servers.join(", "));
        let here = answer(engine, &name.to_lowercase());
        let _ = writeln!(text, "| `{name}` | {group} | {servers} | {here} |");
    }
    text
}

fn server(name: &str) -> String {
    match name {
        "valkey" => "Valkey 9".into(),
        "perdura" => "Perdura only".into(),
        version => format!("Redis {version}"),
    }
}

#[test]
fn the_rows_of_commands_are_those_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../COMPAT.md");
    let section = section(&engine());
    let page = std::fs::read_to_string(&path).expect("COMPAT.md is there");
    let at = page.find(BEGIN).unwrap_or(page.len());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let page = format!("{}\n\n{section}", page[..at].trim_end());
        std::fs::write(&path, page).expect("COMPAT.md is written");
        return;
    }
    let differs = page[at..].lines().zip(section.lines()).find(|(written, want)| written != want);
    assert_eq!(differs, None, "(written, wanted): run with UPDATE_DOCS=1");
    assert!(page[at..] == section, "a row is missing or too much: run with UPDATE_DOCS=1");
}

/// A command of the table that is not in the list has been forgotten there.
#[test]
fn every_command_of_the_table_is_listed() {
    let engine = engine();
    let all = engine.table().all().iter().filter(|command| !command.spec.is_container());
    let names = all.map(|command| command.full_name().replace('|', " "));
    let missing: Vec<String> =
        names.filter(|name| !rows().any(|(_, listed, _)| listed == name)).collect();
    assert_eq!(missing, Vec::<String>::new());
}
