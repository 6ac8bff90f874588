//! The advice of a refused start: how to go on without losing the data of any store.
//!
//! Users who move from Redis have a `dump.rdb`, an append-only file, or both, and want a pool. One
//! command makes it in a directory of its own, and changes none of the files, so that the old
//! server can go on with them. If there are both, the log is read, as Redis does: it has the newest
//! writes. No advice leads to a store whose next save replaces existing data.

use std::path::{Path, PathBuf};

use super::{Holding, Served};

/// The directories and options of a start.
pub(super) struct Place {
    pub(super) dir: PathBuf,
    /// The pool's absolute path.
    pub(super) pool: PathBuf,
    /// Whether the pool's path was given.
    pub(super) is_pool_named: bool,
    /// Whether the chosen backend serves no pool.
    pub(super) is_aof: bool,
    /// Whether the options say that there is no append-only file, so that Redis would read the
    /// dump.
    pub(super) reads_dump: bool,
}

/// Returns the advice if `all` stores hold data, and one of them, or an empty one, was to be
/// served.
pub(super) fn way_on(served: Served, all: &[Holding], place: &Place) -> String {
    let has_pool = all.iter().any(|holding| matches!(holding, Holding::Pool { .. }));
    let files: Vec<&Path> = all.iter().filter_map(Holding::file).collect();
    match served {
        Served::Pool { is_blank: false } => format!(
            "To go on with the pool: {}. `perdura import` then adds their keys to the running server \
             ({MIGRATION})",
            set_aside(&files, &place.dir)
        ),
        _ if has_pool => {
            let first = match served {
                Served::Memory | Served::Log if !files.is_empty() => {
                    format!("{}, then ", set_aside(&files, &place.dir))
                }
                _ => String::new(),
            };
            format!(
                "To go on with the pool: {first}start with --backend journal (on an ordinary disk), or \
                 --backend pmem with the --domain that it had. To go on without it: move the pool \
                 and its journal to another directory"
            )
        }
        Served::Log if place.is_aof && files.len() == 2 => {
            let dump = all.iter().filter(|holding| matches!(holding, Holding::Dump { .. }));
            let dump: Vec<&Path> = dump.filter_map(Holding::file).collect();
            let aside = set_aside(&dump, &place.dir);
            format!("To go on with the append-only file: {aside}. {}", import(all, place))
        }
        _ => import(all, place),
    }
}

/// The document about all this.
const MIGRATION: &str = "docs/migration.md";

/// Returns the command that makes a pool of the data of Redis, or of an earlier start.
fn import(all: &[Holding], place: &Place) -> String {
    let log = all.iter().find(|holding| matches!(holding, Holding::Log { .. }));
    let dump = all.iter().find(|holding| matches!(holding, Holding::Dump { .. }));
    let (first, second) = if place.reads_dump { (dump, log) } else { (log, dump) };
    let Some(source) = first.or(second).and_then(Holding::file) else { return String::new() };
    let (pool, start) = new_pool(place);
    if pool.exists() && place.pool != pool {
        return format!(
            "A pool is at {} already: start with {start} to serve that ({MIGRATION})",
            pool.display()
        );
    }
    let both = match (first, second) {
        (Some(Holding::Log { .. }), Some(Holding::Dump { path })) => format!(
            ". That reads the append-only file, as Redis does; if Redis ran with appendonly no, \
             name {} instead",
            word(path)
        ),
        (Some(Holding::Dump { .. }), Some(Holding::Log { path, .. })) => format!(
            ". That reads the dump, as Redis does with appendonly no; else name {} instead",
            word(path)
        ),
        _ => String::new(),
    };
    format!(
        "To bring that data into a new pool, and leave all files as they are: \
         `perdura import {} --to {}`, then start with {start} ({MIGRATION}){both}",
        word(source),
        word(&pool),
    )
}

/// Returns a path where a new pool is not next to other data, and the options that serve it there.
fn new_pool(place: &Place) -> (PathBuf, String) {
    let name = place.pool.file_name().unwrap_or_default();
    let folder = match place.pool.parent() {
        Some(folder) if folder != place.dir => folder.to_owned(),
        _ => place.dir.join("perdura"),
    };
    let pool = folder.join(name);
    let mut start = format!("--dir {}", word(&folder));
    if place.is_pool_named {
        start.push_str(&format!(" --pool {}", word(&pool)));
    }
    if place.is_aof {
        start.push_str(" --backend auto");
    }
    (pool, start)
}

/// Returns the command that moves files out of the way, into a directory next to them.
fn set_aside(files: &[&Path], dir: &Path) -> String {
    let aside = word(&dir.join("aside"));
    let files = files.iter().map(|file| word(file)).collect::<Vec<_>>().join(" ");
    format!("`mkdir -p {aside} && mv {files} {aside}`")
}

/// Returns a path as one word of a shell.
fn word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,=".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Holding {
        Holding::Log { path: "/r/appendonlydir".into(), holds: "holds 9 bytes".into() }
    }

    fn dump() -> Holding {
        Holding::Dump { path: "/r/dump.rdb".into() }
    }

    fn pool() -> Holding {
        Holding::Pool { path: "/r/perdura.pool".into(), holds: "holds 1 key".into() }
    }

    fn place() -> Place {
        let (is_pool_named, is_aof, reads_dump) = (false, false, false);
        let pool = "/r/perdura.pool".into();
        Place { dir: "/r".into(), pool, is_pool_named, is_aof, reads_dump }
    }

    fn check(served: Served, all: &[Holding], place: Place, parts: &[&str]) {
        let text = way_on(served, all, &place);
        for part in parts {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        assert!(!text.contains("ignore") && !text.contains("appendonly no`"), "{text}");
    }

    const NEW: Served = Served::Pool { is_blank: true };

    #[test]
    fn a_dump_or_a_log_goes_into_a_new_pool_by_one_command() {
        let start = "then start with --dir /r/perdura (docs/migration.md)";
        let command = "`perdura import /r/dump.rdb --to /r/perdura/perdura.pool`";
        check(NEW, &[dump()], place(), &[command, start]);
        let command = "`perdura import /r/appendonlydir --to /r/perdura/perdura.pool`";
        check(NEW, &[log()], place(), &[command, start]);
        let elsewhere = "name /r/dump.rdb instead";
        check(NEW, &[log(), dump()], place(), &[command, start, elsewhere]);
        check(Served::Log, &[log(), dump()], place(), &[command, start, elsewhere]);
        check(Served::Memory, &[log(), dump()], place(), &[command, start, elsewhere]);
    }

    #[test]
    fn what_was_asked_for_decides_the_source_and_the_start() {
        let off = || Place { reads_dump: true, ..place() };
        let dump_first = ["`perdura import /r/dump.rdb ", "else name /r/appendonlydir instead"];
        check(NEW, &[log(), dump()], off(), &dump_first);
        let aof = Place { is_aof: true, ..place() };
        check(Served::Log, &[dump()], aof, &["--dir /r/perdura --backend auto"]);
        let named = Place { is_pool_named: true, pool: "/mnt/p m/a.pool".into(), ..place() };
        let says = ["--to '/mnt/p m/a.pool'`", "--dir '/mnt/p m' --pool '/mnt/p m/a.pool'"];
        check(NEW, &[dump()], named, &says);
    }

    #[test]
    fn a_pool_with_data_is_gone_on_with() {
        let aside = "`mkdir -p /r/aside && mv /r/dump.rdb /r/aside`";
        check(Served::Pool { is_blank: false }, &[dump()], place(), &[aside, "perdura import"]);
        let aof = || Place { is_aof: true, ..place() };
        check(Served::Log, &[log(), dump()], aof(), &[aside, "To go on with the append-only file"]);
        check(Served::Log, &[pool()], place(), &["--backend journal", "--backend pmem"]);
        check(Served::Log, &[pool(), dump()], place(), &[aside, "--backend journal"]);
    }
}
