//! The order of the heap's modules, as its `lib.rs` states it.
//!
//! Rust allows circles between the modules of a crate. Here none is allowed: neither between the
//! folders, each of which uses only those above it in [`ORDER`], nor between the files of a folder.
//! What a file uses is read from its source: `crate::folder::...` for another folder,
//! `super::file::...` for a sibling. Unit tests and comments do not count, and where a folder has
//! several files its `mod.rs` holds nothing but their names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Each module uses only those before it.
const ORDER: [&str; 14] = [
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

/// A source file: its folder or, at the top, its own name; its name in the folder; its code without
/// tests and comments.
struct File {
    module: String,
    name: String,
    code: String,
}

fn files() -> Vec<File> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    let mut files = Vec::new();
    for entry in fs::read_dir(root).expect("the sources") {
        let path = entry.expect("an entry").path();
        let module = path.file_stem().expect("a name").to_str().expect("UTF-8").to_owned();
        if path.is_dir() {
            for entry in fs::read_dir(&path).expect("a folder") {
                files.push(read(&module, &entry.expect("an entry").path()));
            }
        } else if module != "lib" {
            files.push(read(&module, &path));
        }
    }
    files
}

fn read(module: &str, path: &Path) -> File {
    let text = fs::read_to_string(path).expect("a source file");
    let body = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = body.lines().map(|line| line.split("//").next().unwrap_or_default());
    let name = path.file_stem().expect("a name").to_str().expect("UTF-8").to_owned();
    File { module: module.to_owned(), name, code: lines.collect::<Vec<_>>().join("\n") }
}

/// The first names after `prefix`, which may be a group in braces.
fn used(code: &str, prefix: &str) -> BTreeSet<String> {
    let name = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let rest = &code[at + prefix.len()..];
        let is_longer = code[..at].ends_with(|c: char| c.is_alphanumeric() || "_$:".contains(c));
        match rest.strip_prefix('{').filter(|_| !is_longer) {
            Some(group) => {
                let group = group.split(';').next().unwrap_or_default();
                assert!(!group.contains('{'), "a group in a group: {group}");
                let names = group.split('}').next().unwrap_or_default().split(',');
                found.extend(names.map(name).filter(|name| !name.is_empty()));
            }
            None if is_longer => {}
            None => drop(found.insert(name(rest))),
        }
    }
    found
}

#[test]
fn the_order_names_every_module_and_lib_rs_lists_them_so() {
    let modules: BTreeSet<String> = files().into_iter().map(|file| file.module).collect();
    assert_eq!(modules, ORDER.iter().map(|&name| name.to_owned()).collect());
    let lib = include_str!("../../src/lib.rs");
    let list = lib.split("//! ```text\n").nth(1).and_then(|rest| rest.split("//! ```\n").next());
    let listed = list.expect("a list of the modules").lines().filter_map(|line| {
        line.strip_prefix("//! ").and_then(|line| line.split_whitespace().next())
    });
    assert_eq!(listed.collect::<Vec<_>>(), ORDER);
}

#[test]
fn a_module_uses_only_those_before_it() {
    let place = |name: &str| ORDER.iter().position(|module| *module == name);
    let mut wrong = Vec::new();
    for File { module, name, code } in files() {
        let own = place(&module).expect("a module of the list");
        for other in used(&code, "crate::") {
            if place(&other).is_none_or(|place| place >= own) {
                wrong.push(format!("{module}/{name}.rs uses crate::{other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "not before it in the order:\n{}", wrong.join("\n"));
}

#[test]
fn the_head_of_a_folder_only_names_its_files() {
    let files = files();
    for File { module, code, .. } in files.iter().filter(|file| file.name == "mod") {
        if files.iter().filter(|file| file.module == *module).count() > 1 {
            let items = ["fn ", "struct ", "enum ", "impl ", "static ", "const ", "trait "];
            let found = items.iter().find(|item| code.contains(**item));
            assert_eq!(found, None, "{module}/mod.rs");
        }
    }
}

#[test]
fn no_files_of_a_folder_use_each_other_in_a_circle() {
    let mut folders = BTreeMap::<String, BTreeMap<String, BTreeSet<String>>>::new();
    for File { module, name, code } in files() {
        folders.entry(module).or_default().insert(name, used(&code, "super::"));
    }
    for (folder, files) in folders {
        let siblings: BTreeSet<String> = files.keys().cloned().collect();
        for (name, uses) in &files {
            let in_mod: Vec<_> = uses.difference(&siblings).collect();
            assert!(in_mod.is_empty(), "{folder}/{name}.rs uses {in_mod:?}, which is no file");
        }
        // A file is done when all that it uses are.
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
