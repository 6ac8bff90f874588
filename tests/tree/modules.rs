//! The order of the modules of a crate: each uses only those before it.
//!
//! Rust allows circles between the modules of a crate. The remaining ones are stated here, each as
//! one entry of its crate's order; a new circle fails, and so does a stated one that no longer
//! exists. A module is a file of a crate's `src`, or a folder with all of its files. Its uses are
//! read from its source: `crate::module::...`, `crate::Name` if the crate's root re-exports that
//! from a module, and in a folder `super::file::...` for a sibling. Unit tests and comments do not
//! count.
//!
//! A module also uses those whose methods it calls on a type of a third one: `engine.save()` is a
//! use of the module with `impl Engine { fn save }`. The types of expressions are not known here,
//! so a call counts as that method if no other module of the crate has a function of its name and
//! types of other crates have none either ([`ELSEWHERE`]). So a method that shares its name is
//! missed, and no circle is stated that does not exist.
//!
//! In `heap` there is no circle by paths between the files of a folder either.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const HEAP: &[&str] = &[
    "checksum",
    "fault_points",
    "ptr",
    "layout",
    "error",
    "media_errors",
    "log",
    "recovery",
    "salvage",
    "alloc",
    "transaction",
    "check",
    "repair",
    "pool",
];

/// First the format of words and entries, then what transactions share, the transaction, the
/// operations of each type, and last the keyspace with all that begins transactions.
const KEYSPACE: &[&str] = &[
    "error",
    "key",
    "types",
    "head",
    "layout",
    "short",
    "integer",
    "fault_points",
    "progress",
    "problem",
    "known_damage",
    "collection",
    "entry",
    "held",
    "value",
    "queued",
    "verify",
    "stats",
    "mean_ttl",
    "watch",
    "eviction",
    "volatile",
    "expected_keys",
    "shared",
    "walk",
    "rebuild",
    "damage",
    "changes",
    "prepared",
    "txn",
    "strings",
    "members",
    "keys",
    "sorted_sets",
    "lists",
    "streams",
    "find",
    "elements",
    "bitmap",
    "hyperloglog",
    "geo",
    "databases",
    "functions",
    "position",
    "keyspace",
    "prefetch",
    "syncing",
    "losses",
    "snapshot",
    "snapshot_view",
    "restore",
    "background",
    "evict",
    "expiry",
    "check",
    "salvage",
    "chunks",
];

const AOF: &[&str] = &[
    "fault_points",
    "lock",
    "record",
    "buffer",
    "error",
    "storage",
    "options",
    "manifest",
    "directory",
    "health",
    "growth",
    "sync_times",
    "writer",
    "shared",
    "everysec",
    "rewrite",
    "log",
    "parse",
    "load",
    "chunks",
];

/// The circle is the table of commands: the engine has the table, the table has specs, a spec has
/// the command's function, and the function gets a call, which has the engine and the spec. State
/// that sessions share comes before it and knows neither engine nor call; execution comes after it.
const ENGINE: &[&str] = &[
    "clock",
    "execute",
    "execute/outcome",
    "fault_points",
    "line_text",
    "log",
    "log/command_log",
    "notify",
    "notify/events",
    "notify/receivers",
    "observe",
    "observe/stats",
    "save_options",
    "scripts",
    "scripts/interpreter_memory",
    "scripts/cache",
    "scripts/libraries",
    "log/effects",
    "scripts/long",
    "failure",
    "cluster",
    "config",
    "scripts/running",
    "session/kept_words",
    "session/packed_requests",
    "session/users",
    "session/client",
    "notify/hub",
    "notify/tracker",
    "observe/state",
    "wait",
    "wait/waiting",
    "session/moved_call",
    "session/walk",
    "session/replica",
    "replication/handover",
    "replication",
    "host",
    "session",
    "engine execute/call table table/spec",
    "execute/http",
    "execute/large",
    "execute/slots",
    "execute/request",
    "execute/queue",
    "session/describe",
    "session/permissions",
    "execute/pause",
    "wait/operation",
    "wait/stop",
    "log/durability",
    "notify/tracking",
    "observe/monitors",
    "notify/delivery",
    "observe/hooks",
    "execute/commit",
    "memory",
    "memory/clients",
    "session/lifecycle",
    "execute/moved",
    "wait/end",
    "wait/redirect",
    "notify/shard_channels",
    "wait/begin",
    "replication/quorum",
    "replication/waits",
    "replication/follow",
    "memory/full_store",
    "execute/step",
    "execute/damage",
    "execute/place",
    "execute/locks",
    "replication/failover",
    "execute/weight",
    "wait/serve",
    "execute/unit",
    "execute/background",
    "memory/limits",
    "execute/redirect",
    "execute/admit",
    "execute/single",
    "execute/joined",
    "execute/batch",
    "execute/walk",
];

const COMMANDS: &[&str] = &[
    "names",
    "blocking",
    "admin",
    "help",
    "scripting",
    "save",
    "rewrite",
    "bitmaps",
    "strings",
    "keys",
    "collections",
    "connection",
    "sorted_sets",
    "geo",
    "hashes",
    "hyperloglog",
    "introspection",
    "lists",
    "pubsub",
    "sets",
    "sort",
    "streams",
    "transactions",
    "load",
    "functions",
    "chunks",
    "debug",
    "cluster",
    "acl",
    "replication",
    "create",
    "replay",
    "apply",
];

/// First what connections are made of, then the state that all threads share, the worker, its
/// periodic work and its connections, and last the threads and what starts them.
const SERVER: &[&str] = &[
    "net",
    "pool",
    "replication",
    "process",
    "durability",
    "threads",
    "dump",
    "cluster",
    "process/text",
    "config",
    "process/log",
    "process/machine",
    "limits",
    "net/tls",
    "net/socket",
    "net/meter",
    "process/oom_score",
    "process/shutdown",
    "process/supervisor",
    "net/input",
    "net/output",
    "pool/journal",
    "durability/commit_barrier",
    "net/rates",
    "durability/unsynced",
    "process/disks",
    "net/spool",
    "dump/key_delay",
    "dump/load_progress",
    "durability/append_only",
    "pool/media",
    "process/data_dir",
    "net/unix_socket",
    "pool/lock",
    "pool/other_stores",
    "pool/store",
    "net/ports",
    "pool/scrub_progress",
    "process/pid_file",
    "pool/rescue",
    "pool/seen_files",
    "cluster/unsent",
    "cluster/settings",
    "cluster/node",
    "shared",
    "replication/ring_file",
    "replication/position",
    "net/discard",
    "net/client_memory",
    "pool/watch",
    "durability/append_only_watch",
    "net/listen",
    "metrics",
    "replication/replicas",
    "apply",
    "threads/worker",
    "threads/contained",
    "pool/free_space",
    "process/allocator",
    "net/idle_clients",
    "threads/periodic",
    "threads/housekeeping",
    "net/connection",
    "threads/workers",
    "threads/jobs",
    "pool/scrub",
    "cli",
    "users",
    "dump/save",
    "chunks",
    "replication/primary_target",
    "host",
    "cluster/error",
    "cluster/file",
    "cluster/links",
    "cluster/drop_slots",
    "cluster/pulse",
    "cluster/roles",
    "cluster/bus",
    "cluster/start",
    "replication/last_replicas",
    "dump/load",
    "replication/primary_link",
    "serve",
    "waits",
    "thresholds",
];

fn sources(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates").join(name).join("src")
}

/// Returns true if the files of a crate's folder are modules: `session/client.rs` and the folder
/// `session/client` are the module `session/client`, and `session/mod.rs` is `session`.
fn has_modules(crate_name: &str, folder: &str) -> bool {
    const OF_SERVER: [&str; 8] =
        ["net", "pool", "replication", "process", "durability", "threads", "dump", "cluster"];
    crate_name == "engine" || crate_name == "server" && OF_SERVER.contains(&folder)
}

/// A source file: its folder or, at the top, its own name; its name in the folder; its code without
/// tests and comments.
struct File {
    module: String,
    /// The folder, if the file is a module of it.
    folder: Option<String>,
    name: String,
    code: String,
}

fn files(name: &str) -> Vec<File> {
    let mut files = Vec::new();
    for path in entries(&sources(name)) {
        let module = stem(&path);
        if path.is_dir() && has_modules(name, &module) {
            add_modules(&module, &path, &mut files);
        } else if path.is_dir() {
            add_folder(&module, &path, &mut files);
        } else if module != "lib" && module != "main" {
            files.push(read(&module, &path));
        }
    }
    files
}

/// Adds the files of a folder, each of which is a module, and its folders.
fn add_modules(folder: &str, path: &Path, files: &mut Vec<File>) {
    for path in entries(path) {
        let module = format!("{folder}/{}", stem(&path));
        if path.is_dir() {
            add_folder(&module, &path, files);
        } else if stem(&path) == "mod" {
            files.push(read(folder, &path));
        } else {
            files.push(File { folder: Some(folder.to_owned()), ..read(&module, &path) });
        }
    }
}

fn add_folder(module: &str, folder: &Path, files: &mut Vec<File>) {
    for path in entries(folder) {
        if path.is_dir() {
            add_folder(module, &path, files);
        } else if stem(&path) != "tests" {
            files.push(read(module, &path));
        }
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of sources");
    entries.map(|entry| entry.expect("an entry").path())
}

fn stem(path: &Path) -> String {
    path.file_stem().expect("a name").to_str().expect("UTF-8").to_owned()
}

fn read(module: &str, path: &Path) -> File {
    let text = fs::read_to_string(path).expect("a source file");
    let body = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = body.lines().map(|line| line.split("//").next().unwrap_or_default());
    let code = lines.collect::<Vec<_>>().join("\n");
    File { module: module.to_owned(), folder: None, name: stem(path), code }
}

fn name(text: &str) -> String {
    text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The first names after `prefix`, which may be a group in braces.
fn used(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let is_longer = code[..at].ends_with(|c: char| c.is_alphanumeric() || "_$:".contains(c));
        if is_longer {
            continue;
        }
        match code[at + prefix.len()..].strip_prefix('{') {
            Some(group) => found.extend(parts(group).iter().map(|part| name(part))),
            None => drop(found.insert(name(&code[at + prefix.len()..]))),
        }
    }
    found.remove("");
    found
}

/// The paths after `prefix`, those of groups in braces too, with a slash between their names.
fn paths(code: &str, prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let is_longer = code[..at].ends_with(|c: char| c.is_alphanumeric() || "_$:".contains(c));
        if !is_longer {
            add_paths("", &code[at + prefix.len()..], &mut found);
        }
    }
    found
}

fn add_paths(before: &str, tree: &str, found: &mut Vec<String>) {
    if let Some(group) = tree.trim_start().strip_prefix('{') {
        parts(group).iter().for_each(|part| add_paths(before, part, found));
        return;
    }
    let first = name(tree);
    let path = if before.is_empty() { first.clone() } else { format!("{before}/{first}") };
    match tree.trim_start()[first.len()..].strip_prefix("::") {
        Some(rest) => add_paths(&path, rest, found),
        None => found.push(path),
    }
}

/// The parts of a group in braces; inner groups are kept whole.
fn parts(group: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in group.chars() {
        match c {
            '}' if depth == 0 => break,
            ',' if depth == 0 => parts.push(String::new()),
            _ => {
                depth += i32::from(c == '{') - i32::from(c == '}');
                parts.last_mut().expect("a part").push(c);
            }
        }
    }
    parts
}

/// Maps the names that the root re-exports, and the folders whose files are modules, to modules.
fn reexports(crate_name: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    let lib = read("lib", &sources(crate_name).join("lib.rs")).code;
    add_reexports("", &lib, &mut names);
    for File { module, name, code, .. } in files(crate_name) {
        if has_modules(crate_name, &module) && name == "mod" {
            add_reexports(&format!("{module}/"), &code, &mut names);
        }
    }
    names
}

fn add_reexports(folder: &str, code: &str, names: &mut BTreeMap<String, String>) {
    for line in code.split("pub use ").skip(1).chain(code.split("pub(crate) use ").skip(1)) {
        let mut found = Vec::new();
        add_paths("", line.split(';').next().unwrap_or_default(), &mut found);
        for path in found.iter().filter(|path| path.contains('/')) {
            let (from, name) = path.rsplit_once('/').expect("a name in a module");
            names.insert(format!("{folder}{name}"), format!("{folder}{from}"));
        }
    }
}

/// Returns the module that a path leads to: the longest one that is a prefix of it.
fn module_of(
    path: &str,
    names: &BTreeMap<String, String>,
    modules: &BTreeSet<String>,
) -> Option<String> {
    let mut begin = path;
    loop {
        let target = names.get(begin).filter(|target| *target != begin);
        if let Some(module) = target.and_then(|target| module_of(target, names, modules)) {
            return Some(module);
        }
        if modules.contains(begin) {
            return Some(begin.to_owned());
        }
        begin = begin.rsplit_once('/')?.0;
    }
}

type Uses = BTreeMap<String, BTreeSet<String>>;

/// Names of methods that types of other crates have as well.
const ELSEWHERE: &[&str] = &["for_each", "lost", "name", "pop", "repair", "replace", "restore"];

/// Returns the type of an inherent `impl` block, by the block's first line.
fn subject(line: &str) -> Option<String> {
    let rest = line.strip_prefix("impl")?;
    let is_inherent = line.ends_with('{') && !line.contains(" for ");
    let mut depth = 0;
    let after_parameters = rest.find(|c: char| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        depth == 0 && c == ' '
    })?;
    let path = rest[after_parameters..].split(['<', '{']).next().unwrap_or_default();
    is_inherent.then(|| name(path.rsplit("::").next().unwrap_or_default()))
}

/// Returns the name of the item of this kind that a line begins, if any.
fn item(line: &str, kind: &str) -> Option<String> {
    let before = line.trim_start().split_once(kind)?;
    let is_qualifier = |word: &str| {
        ["pub", "const", "async", "unsafe"].contains(&word) || word.starts_with("pub(")
    };
    before.0.split_whitespace().all(is_qualifier).then(|| name(before.1))
}

/// The inherent methods in a source file, each with its type.
fn methods(code: &str) -> Vec<(String, String)> {
    let (mut found, mut of) = (Vec::new(), None);
    for line in code.lines() {
        if !line.starts_with(' ') && !line.is_empty() {
            of = subject(line);
        } else if let Some(of) = &of
            && line.len() > 4
            && !line[4..].starts_with(' ')
        {
            found.extend(item(line, "fn ").map(|method| (of.clone(), method)));
        }
    }
    found
}

/// A method that a module adds to a type of another module.
#[derive(Debug, PartialEq)]
struct Added {
    module: String,
    of: String,
    method: String,
}

impl Added {
    /// Returns true if code calls the method, or names it as a function of its type.
    fn is_used_in(&self, code: &str) -> bool {
        code.match_indices(&*self.method).any(|(at, _)| {
            let (before, after) = (code[..at].trim_end(), &code[at + self.method.len()..]);
            let is_longer = after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
            let is_call = before.ends_with('.') && after.starts_with(['(', ':']);
            let is_path = before.strip_suffix("::").is_some_and(|of| of.ends_with(&self.of));
            !is_longer && (is_call || is_path)
        })
    }
}

/// The methods that modules add to types of other modules.
fn added_methods(files: &[File]) -> Vec<Added> {
    let (mut types, mut functions) = (Uses::new(), Uses::new());
    for File { module, code, .. } in files {
        let kinds = ["struct ", "enum ", "trait ", "type "];
        for line in code.lines() {
            for name in kinds.iter().filter_map(|kind| item(line, kind)) {
                types.entry(name).or_default().insert(module.clone());
            }
            if let Some(name) = item(line, "fn ") {
                functions.entry(name).or_default().insert(module.clone());
            }
        }
    }
    let mut added = Vec::new();
    for File { module, code, .. } in files {
        for (of, method) in methods(code) {
            let is_of_another = types.get(&of).is_some_and(|places| !places.contains(module));
            let is_unique = functions[&method].len() == 1 && !ELSEWHERE.contains(&&*method);
            if is_of_another && is_unique {
                added.push(Added { module: module.clone(), of, method });
            }
        }
    }
    added
}

/// The modules that each module uses.
fn uses(crate_name: &str) -> Uses {
    let (names, mut all) = (reexports(crate_name), Uses::new());
    let files = files(crate_name);
    let modules: BTreeSet<String> = files.iter().map(|file| file.module.clone()).collect();
    let added = added_methods(&files);
    for File { module, folder, code, .. } in files {
        let mut paths_used = paths(&code, "crate::");
        if let Some(folder) = folder {
            let siblings = paths(&code, "super::");
            paths_used.extend(siblings.iter().map(|path| format!("{folder}/{path}")));
        }
        // Macros and types of the root itself are in no module.
        let used = paths_used.iter().filter_map(|path| module_of(path, &names, &modules));
        let called = added.iter().filter(|added| added.is_used_in(&code));
        let used = used.chain(called.map(|added| added.module.clone()));
        all.entry(module.clone()).or_default().extend(used.filter(|other| *other != module));
    }
    all
}

/// Returns true if all modules of a circle reach each other within it.
fn is_circle(circle: &[&str], uses: &Uses) -> bool {
    circle.iter().all(|from| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![*from]);
        while let Some(module) = left.pop() {
            let used = uses.get(module).into_iter().flatten().map(String::as_str);
            let next = used.filter(|other| circle.contains(other));
            left.extend(next.filter(|other| seen.insert(other.to_string())));
        }
        seen.len() == circle.len()
    })
}

/// Returns the mistakes in a stated order, whose entries name a module, or the modules of a circle.
fn wrong(crate_name: &str, order: &[&str]) -> Vec<String> {
    let uses = uses(crate_name);
    let entries: Vec<Vec<&str>> = order.iter().map(|entry| entry.split(' ').collect()).collect();
    let place = |module: &str| entries.iter().position(|entry| entry.contains(&module));
    let mut wrong = Vec::new();
    for (module, used) in &uses {
        let Some(own) = place(module) else {
            wrong.push(format!("{crate_name}: {module} is not in the order"));
            continue;
        };
        let later = used.iter().filter(|other| place(other).is_none_or(|place| place > own));
        wrong.extend(later.map(|other| format!("{crate_name}: {module} uses {other}")));
    }
    let stated = entries.iter().flatten();
    let gone = stated.filter(|module| !uses.contains_key(**module));
    wrong.extend(gone.map(|module| format!("{crate_name}: there is no {module}")));
    let circles = entries.iter().filter(|entry| entry.len() > 1);
    let broken = circles.filter(|circle| !is_circle(circle, &uses));
    wrong.extend(broken.map(|circle| format!("{crate_name}: {circle:?} is no circle any more")));
    wrong
}

#[test]
fn a_module_uses_only_those_before_it() {
    let crates = [
        ("heap", HEAP),
        ("keyspace", KEYSPACE),
        ("aof", AOF),
        ("engine", ENGINE),
        ("commands", COMMANDS),
        ("server", SERVER),
    ];
    let wrong: Vec<String> =
        crates.iter().flat_map(|(crate_name, order)| wrong(crate_name, order)).collect();
    assert!(wrong.is_empty(), "not as the order says:\n{}", wrong.join("\n"));
}

#[test]
fn a_new_circle_and_one_that_is_gone_are_noticed() {
    let mut swapped = HEAP.to_vec();
    swapped.swap(1, 4);
    assert_eq!(wrong("heap", &swapped)[..1], ["heap: error uses layout"]);
    let mut joined = HEAP[1..].to_vec();
    joined[0] = "checksum fault_points";
    let gone = ["heap: [\"checksum\", \"fault_points\"] is no circle any more"];
    assert_eq!(wrong("heap", &joined), gone);
    assert_eq!(wrong("heap", &HEAP[1..])[..1], ["heap: checksum is not in the order"]);
}

#[test]
fn methods_that_a_module_adds_to_a_type_of_another_are_found() {
    let file = |module: &str, code: &str| File {
        module: module.to_owned(),
        folder: None,
        name: module.to_owned(),
        code: code.to_owned(),
    };
    let engine = "pub struct Engine {\n}\nimpl Engine {\n    fn table(&self) {\n    }\n}\n";
    let save = "impl<'a> crate::engine::Engine<'a> {\n    pub(crate) const fn save(&self) {\n    }\n    \
                fn run() {\n    }\n}\nimpl Drop for Engine {\n    fn drop(&mut self) {\n    }\n}\n";
    let other = "fn run() {\n    engine\n        .save();\n    engine.saved();\n}\n";
    let files = [file("engine", engine), file("save", save), file("other", other)];
    let [save] = &added_methods(&files)[..] else { panic!("one method is added") };
    assert_eq!([&*save.module, &*save.of, &*save.method], ["save", "Engine", "save"]);
    let check = |code: &str, expect: bool| assert_eq!(save.is_used_in(code), expect, "{code}");
    check(other, true);
    check("map(Engine::save)", true);
    check("map(Store::save)", false);
    check("engine.saved(); save(); engine.save = true;", false);
}

#[test]
fn the_head_of_heap_lists_its_modules_in_order() {
    let lib = fs::read_to_string(sources("heap").join("lib.rs")).expect("its root");
    let list = lib.split("//! ```text\n").nth(1).and_then(|rest| rest.split("//! ```\n").next());
    let listed = list.expect("a list of the modules").lines().filter_map(|line| {
        line.strip_prefix("//! ").and_then(|line| line.split_whitespace().next())
    });
    assert_eq!(listed.collect::<Vec<_>>(), HEAP);
}

#[test]
fn the_head_of_a_folder_of_heap_only_names_its_files() {
    let files = files("heap");
    for File { module, code, .. } in files.iter().filter(|file| file.name == "mod") {
        if files.iter().filter(|file| file.module == *module).count() > 1 {
            let items = ["fn ", "struct ", "enum ", "impl ", "static ", "const ", "trait "];
            let found = items.iter().find(|item| code.contains(**item));
            assert_eq!(found, None, "{module}/mod.rs");
        }
    }
}

#[test]
fn no_files_of_a_folder_of_heap_use_each_other_in_a_circle() {
    let mut folders = BTreeMap::<String, Uses>::new();
    for File { module, name, code, .. } in files("heap") {
        folders.entry(module).or_default().insert(name, used(&code, "super::"));
    }
    for (folder, files) in folders {
        let siblings: BTreeSet<String> = files.keys().cloned().collect();
        for (name, uses) in &files {
            let in_mod: Vec<_> = uses.difference(&siblings).collect();
            assert!(in_mod.is_empty(), "{folder}/{name}.rs uses {in_mod:?}, which is no file");
        }
        // A file is done when all files that it uses are.
        let mut left = files;
        loop {
            let names: BTreeSet<String> = left.keys().cloned().collect();
            let before = left.len();
            left.retain(|_, uses| uses.iter().any(|used| names.contains(used)));
            if left.len() == before {
                break;
            }
        }
        assert!(left.is_empty(), "in {folder} a circle holds {:?}", left.keys());
    }
}
