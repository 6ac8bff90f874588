//! Names in backticks, in documents and comments, that point to files and modules of the tree: each
//! must exist.
//!
//! Three forms are recognized: a path below a folder at the root (`docs/glossary.md`), a source
//! file or a document by the end of its path (`tree/tidy.rs`), and a path through the modules of a
//! crate (`heap::media_errors`). A file may also be named relative to any folder above the file
//! that names it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::tidy::{File, ROOT, files, none};

/// Folders at the root: a path that begins with one is checked whatever its extension is.
const FOLDERS: [&str; 8] =
    ["crates", "docs", "tests", "benches", "examples", "deploy", "fuzz", ".ci"];

/// Documents about earlier versions of the tree.
const HISTORY: [&str; 2] = ["docs/results/", "docs/evidence/"];

/// The text of a document, or the comments of a source file, with the numbers of the lines.
fn lines(file: &File) -> Vec<(usize, &str)> {
    let is_source = file.is("rs");
    let numbered = file.text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let prose = numbered.filter(|(_, line)| !is_source || line.trim_start().starts_with("//"));
    prose.collect()
}

/// The texts between single backticks of one line.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).filter(|name| !name.is_empty())
}

/// Returns true if a name looks like the path of a file or folder of this tree.
fn is_path(name: &str) -> bool {
    let is_plain =
        name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-'));
    let has_stem = |extension: &str| name.len() > extension.len() && name.ends_with(extension);
    let is_below = name.split_once('/').is_some_and(|(first, _)| FOLDERS.contains(&first));
    is_plain && (is_below || has_stem(".rs") || has_stem(".md"))
}

/// Returns true if a file with this path exists: in a folder above the file that names it (the root
/// is one), or as the end of a path in the tree.
fn exists(name: &str, named_in: &Path, paths: &BTreeSet<String>) -> bool {
    let root = Path::new(ROOT);
    let end = format!("/{name}");
    named_in.ancestors().skip(1).any(|folder| root.join(folder).join(name).exists())
        || paths.iter().any(|path| path.ends_with(&end))
}

/// The words of the code of each crate, without its comments.
fn words_of_crates(files: &[File]) -> BTreeMap<String, BTreeSet<&str>> {
    let mut words: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is("rs")) {
        let mut parts = file.path.split('/');
        if parts.next() != Some("crates") {
            continue;
        }
        let Some(name) = parts.next() else { continue };
        let known = words.entry(name.to_owned()).or_default();
        for line in file.text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            known.extend(line.split(|c: char| !c.is_alphanumeric() && c != '_'));
        }
    }
    words
}

/// Returns the first part of a module path that its crate does not have; `None` if all exist, or if
/// the name is not a path through a crate of this workspace.
fn missing_part<'a>(name: &'a str, words: &BTreeMap<String, BTreeSet<&str>>) -> Option<&'a str> {
    let name = name.split(['(', '<', '!', '{']).next()?.trim_end_matches("::");
    let mut parts = name.split("::");
    let first = parts.next()?;
    let known = words.get(first.strip_prefix("perdura_").unwrap_or(first))?;
    let is_word =
        |part: &&str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    parts.filter(is_word).find(|part| !known.contains(part))
}

#[test]
fn every_file_in_backticks_exists() {
    let files = files();
    let paths: BTreeSet<String> = files.iter().map(|file| file.path.clone()).collect();
    let mut gone = Vec::new();
    for file in files.iter().filter(|file| file.is("md") || file.is("rs")) {
        if HISTORY.iter().any(|folder| file.path.starts_with(folder)) {
            continue;
        }
        for (number, line) in lines(file) {
            for name in quoted(line).filter(|name| is_path(name)) {
                if !exists(name, Path::new(&file.path), &paths) {
                    gone.push(format!("{}:{number}: {name}", file.path));
                }
            }
        }
    }
    none("files that do not exist", gone);
}

#[test]
fn every_module_path_in_backticks_exists() {
    let files = files();
    let words = words_of_crates(&files);
    let mut gone = Vec::new();
    for file in files.iter().filter(|file| file.is("md") || file.is("rs")) {
        if HISTORY.iter().any(|folder| file.path.starts_with(folder)) {
            continue;
        }
        for (number, line) in lines(file) {
            for name in quoted(line) {
                if let Some(part) = missing_part(name, &words) {
                    gone.push(format!("{}:{number}: {name}: no {part}", file.path));
                }
            }
        }
    }
    none("paths through crates that lead nowhere", gone);
}

/// The glossary names types by their crates: `Domain` in `pmem`.
#[test]
fn the_types_that_the_glossary_names_exist() {
    let files = files();
    let words = words_of_crates(&files);
    let glossary = files.iter().find(|file| file.path == "docs/glossary.md").expect("a glossary");
    let mut gone = Vec::new();
    for (number, line) in lines(glossary) {
        let parts: Vec<&str> = line.split('`').collect();
        for named in parts.windows(3).filter(|named| named[1] == " in ") {
            let [item, _, place] = named else { continue };
            let first = place.split("::").next().unwrap_or_default();
            let item = item.rsplit("::").next().unwrap_or_default();
            if words.get(first).is_some_and(|known| !known.contains(item)) {
                gone.push(format!("docs/glossary.md:{number}: {item} in {place}"));
            }
        }
    }
    none("types that their crates do not have", gone);
}

#[test]
fn pointers_are_told_from_other_names() {
    for name in ["tidy.rs", "docs/glossary.md", "crates/heap", ".ci/run", "tree/tidy.rs"] {
        assert!(is_path(name), "{name}");
    }
    for name in ["redis.conf", ".rs", "a b.rs", "crates/*/src", "config.c", "and/or"] {
        assert!(!is_path(name), "{name}");
    }
    let words = BTreeMap::from([("heap".to_owned(), BTreeSet::from(["media", "Heap"]))]);
    assert_eq!(missing_part("heap::media", &words), None);
    assert_eq!(missing_part("perdura_heap::Heap::open(path)", &words), Some("open"));
    assert_eq!(missing_part("std::fs", &words), None);
}
