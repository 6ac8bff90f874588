//! What reviewers would otherwise have to look for in every source file and every document.
//!
//! Each test reads the tree as it lies and names every place at once, since a list is what one wants to work through.

#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The crates that may contain unsafe code: the mapping itself, the only writer of persistent words, and, outside of the
/// workspace, the adapter of LMDB, which cannot be opened without it.
const MAY_BE_UNSAFE: [&str; 3] = ["crates/pmem/", "crates/heap/", "benches/embedded/src/lib.rs"];

/// Lines of a source file before its tests.
const LONGEST_FILE: usize = 600;

/// Lines of a function outside of tests.
const LONGEST_FUNCTION: usize = 70;

struct File {
    path: String,
    text: String,
}

impl File {
    fn is(&self, extension: &str) -> bool {
        Path::new(&self.path).extension() == Some(OsStr::new(extension))
    }

    fn is_below(&self, folder: &str) -> bool {
        self.path.starts_with(folder) || self.path.contains(&format!("/{folder}"))
    }

    /// The lines before the unit tests.
    fn body(&self) -> Vec<&str> {
        self.text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).collect()
    }
}

/// Every text file that belongs to the project: what is built, fetched or generated lies in the folders left out.
fn files() -> Vec<File> {
    const LEFT_OUT: [&str; 6] = [".git", "target", "data", "corpus", "artifacts", "Cargo.lock"];
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(ROOT)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the project") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if LEFT_OUT.contains(&name.as_ref()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let path = path.strip_prefix(ROOT).expect("below the root").display().to_string();
                found.push(File { path, text });
            }
        }
    }
    found
}

fn sources() -> Vec<File> {
    files().into_iter().filter(|file| file.is("rs")).collect()
}

#[track_caller]
fn none(what: &str, places: Vec<String>) {
    assert!(places.is_empty(), "{what}:\n  {}", places.join("\n  "));
}

#[test]
fn the_tree_is_found() {
    let sources = sources();
    assert!(sources.iter().any(|file| file.path == "tests/tidy.rs"));
    assert!(sources.iter().any(|file| file.path == "crates/heap/src/lib.rs"));
}

#[test]
fn unsafe_code_is_forbidden_above_the_heap() {
    let roots = |file: &File| {
        let root = file.path.ends_with("src/lib.rs") || file.path.ends_with("src/main.rs");
        root && !MAY_BE_UNSAFE.iter().any(|place| file.path.starts_with(place))
    };
    let open = sources()
        .into_iter()
        .filter(roots)
        .filter(|file| !file.text.contains("#![forbid(unsafe_code)]"));
    none("crates that do not forbid unsafe code", open.map(|file| file.path).collect());
}

#[test]
fn every_source_file_opens_with_its_reasoning() {
    let bare = sources().into_iter().filter(|file| !file.text.starts_with("//! "));
    none("files without `//!` at their head", bare.map(|file| file.path).collect());
}

#[test]
fn no_source_file_is_longer_than_a_reader_can_hold() {
    let mut long = Vec::new();
    for file in sources().into_iter().filter(|file| !file.is_below("tests/")) {
        let lines = file.body().len();
        if lines > LONGEST_FILE {
            long.push(format!("{}: {lines} lines", file.path));
        }
    }
    none(&format!("files of more than {LONGEST_FILE} lines before their tests"), long);
}

/// Every function with its first line and its length, as rustfmt lays it out: it ends at its own indentation.
fn functions<'a>(body: &[&'a str]) -> Vec<(&'a str, usize)> {
    let mut found = Vec::new();
    for (at, line) in body.iter().enumerate() {
        let code = line.trim_start();
        let rest = &body[at..];
        let is_head = !code.starts_with("//") && (code.starts_with("fn ") || code.contains(" fn "));
        let head_ends = rest.iter().find(|line| line.ends_with(['{', '}', ';']));
        if !is_head || !head_ends.is_some_and(|line| line.ends_with('{')) {
            continue;
        }
        let end = format!("{}}}", &line[..line.len() - code.len()]);
        if let Some(last) = rest.iter().position(|line| *line == end) {
            found.push((*line, last + 1));
        }
    }
    found
}

#[test]
fn no_function_is_longer_than_a_page() {
    let mut long = Vec::new();
    for file in sources().into_iter().filter(|file| !file.is_below("tests/")) {
        for (head, lines) in functions(&file.body()) {
            if lines > LONGEST_FUNCTION {
                long.push(format!("{}: {} lines: {}", file.path, lines, head.trim()));
            }
        }
    }
    none(&format!("functions of more than {LONGEST_FUNCTION} lines"), long);
}

#[test]
fn nothing_names_a_place_on_a_developers_machine() {
    let places = [
        concat!("/wo", "rk/"),
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
        concat!("/Us", "ers/"),
    ];
    let mut found = Vec::new();
    for file in files() {
        for (number, line) in file.text.lines().enumerate() {
            if places.iter().any(|place| line.contains(place)) {
                found.push(format!("{}:{}: {}", file.path, number + 1, line.trim()));
            }
        }
    }
    none("paths of somebody's machine", found);
}

#[test]
fn nothing_is_left_to_be_done_later() {
    let words = [
        concat!("to", "do!("),
        concat!("unimple", "mented!("),
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
    ];
    let mut found = Vec::new();
    for file in files() {
        for (number, line) in file.text.lines().enumerate() {
            if words.iter().any(|word| line.contains(word)) {
                found.push(format!("{}:{}: {}", file.path, number + 1, line.trim()));
            }
        }
    }
    none("unfinished places", found);
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let mut broken = Vec::new();
    for file in files().into_iter().filter(|file| file.is("md")) {
        let folder = Path::new(ROOT).join(&file.path);
        let folder = folder.parent().expect("a file lies in a folder");
        for link in file.text.split("](").skip(1).filter_map(|rest| rest.split_once(')')) {
            let target = link.0.split('#').next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !folder.join(target).exists() {
                broken.push(format!("{}: {target}", file.path));
            }
        }
    }
    none("links to nothing", broken);
}
