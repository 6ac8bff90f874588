//! Checks that reviewers would otherwise have to make in every source file and every document.
//!
//! Each test reads the tree as it is and names every violation at once, so that one can work
//! through the list.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The crates that may contain unsafe code: the mapping itself, the only writer of persistent
/// words, the boundary to C, which passes pointers, and, outside of the workspace, the adapter of
/// LMDB, which cannot be opened without it.
const MAY_BE_UNSAFE: [&str; 4] =
    ["crates/pmem/", "crates/heap/", "crates/capi/", "benches/embedded/src/lib.rs"];

/// A crate of which one module may contain unsafe code, and that module: functions on Lua's stack.
const MAY_HAVE_AN_UNSAFE_MODULE: (&str, &str) =
    ("crates/script/src/lib.rs", "crates/script/src/stack.rs");

/// The maximum number of lines of a source file before its tests.
const LONGEST_FILE: usize = 600;

/// The maximum number of lines of a function outside of tests.
const LONGEST_FUNCTION: usize = 100;

/// The maximum number of columns of a comment, with its indentation.
const WIDEST_COMMENT: usize = 100;

pub(crate) struct File {
    /// Relative to the root of the tree.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn is(&self, extension: &str) -> bool {
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

/// Every text file that belongs to the project. The folders left out hold files that are built,
/// fetched or generated.
pub(crate) fn files() -> Vec<File> {
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
pub(crate) fn none(what: &str, places: Vec<String>) {
    assert!(places.is_empty(), "{what}:\n  {}", places.join("\n  "));
}

#[test]
fn the_tree_is_found() {
    let sources = sources();
    assert!(sources.iter().any(|file| file.path == "tests/tree/tidy.rs"));
    assert!(sources.iter().any(|file| file.path == "crates/heap/src/lib.rs"));
}

#[test]
fn unsafe_code_is_forbidden_above_the_heap() {
    let roots = |file: &File| {
        let root = file.path.ends_with("src/lib.rs") || file.path.ends_with("src/main.rs");
        let is_closed = !MAY_BE_UNSAFE.iter().any(|place| file.path.starts_with(place));
        root && is_closed && file.path != MAY_HAVE_AN_UNSAFE_MODULE.0
    };
    let open = sources()
        .into_iter()
        .filter(roots)
        .filter(|file| !file.text.contains("#![forbid(unsafe_code)]"));
    none("crates that do not forbid unsafe code", open.map(|file| file.path).collect());
}

#[test]
fn one_module_of_one_other_crate_is_unsafe() {
    let (root, module) = MAY_HAVE_AN_UNSAFE_MODULE;
    let sources = sources();
    let denies =
        sources.iter().any(|file| file.path == root && file.text.contains("#![deny(unsafe_code)]"));
    assert!(denies, "{root} does not deny unsafe code");
    let folder = root.trim_end_matches("lib.rs");
    let open = sources.iter().filter(|file| file.path.starts_with(folder)).filter(|file| {
        let allows = ["expect(unsafe_code", "allow(unsafe_code", "warn(unsafe_code"];
        allows.iter().any(|lint| file.text.contains(lint))
    });
    let open: Vec<&str> = open.map(|file| file.path.as_str()).collect();
    assert_eq!(open, [module]);
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

/// Returns every function's first line and length. By rustfmt's layout, it ends at its own
/// indentation.
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

/// A tuple that a signature takes apart hides parameters: they want names of their own, or a
/// struct.
#[test]
fn no_signature_takes_a_tuple_apart() {
    let mut found = Vec::new();
    for file in sources().into_iter().filter(|file| !file.is_below("tests/")) {
        for (number, line) in file.body().into_iter().enumerate() {
            let is_apart = line.contains("): (") || line.contains("): &(");
            let is_other = ["let ", "|", "(): "].iter().any(|text| line.contains(text));
            if is_apart && !is_other {
                found.push(format!("{}:{}: {}", file.path, number + 1, line.trim()));
            }
        }
    }
    none("signatures that take a tuple apart", found);
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

/// A comment that begins its line: the indentation with the mark, and the text after that.
fn comment(line: &str) -> Option<(&str, &str)> {
    let code = line.trim_start();
    let mark = ["//!", "///", "//"].into_iter().find(|mark| code.starts_with(mark))?;
    let text = code[mark.len()..].trim_end();
    (text.is_empty() || text.starts_with(' '))
        .then(|| (&line[..line.len() - code.len() + mark.len()], text.trim_start_matches(' ')))
}

/// The mark of a list's item at the start of a paragraph, or nothing.
fn item(text: &str) -> &str {
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = digits.len() < text.len() && digits.starts_with(". ");
    match text {
        _ if text.starts_with("- ") || text.starts_with("* ") => &text[..2],
        _ if is_number => &text[..text.len() - digits.len() + 2],
        _ => "",
    }
}

/// Returns true if a line of a comment is no prose: tables, headings, HTML, targets of links.
fn is_verbatim(text: &str) -> bool {
    let target = text.strip_prefix('[').and_then(|text| text.split_once("]: "));
    let is_target = target.is_some_and(|(_, address)| !address.contains(' '));
    text.is_empty() || text.starts_with(['|', '#', '<']) || text.starts_with("```") || is_target
}

/// The number of lines in the paragraph of a comment that begins with `lines[0]`.
fn paragraph(lines: &[&str]) -> usize {
    let indent = |line: &str| line.len() - line.trim_start_matches(['/', '!', ' ']).len();
    let Some((head, _)) = comment(lines[0]) else { return 1 };
    let continues = |line: &&&str| {
        let hanging = indent(line).checked_sub(indent(lines[0]));
        let is_close = hanging.is_some_and(|columns| columns <= 3);
        let is_prose = |(next, text)| next == head && !is_verbatim(text) && item(text).is_empty();
        is_close && comment(line).is_some_and(is_prose)
    };
    1 + lines[1..].iter().take_while(continues).count()
}

/// Returns source code whose comments are not wider than the limit, as far as words can be broken
/// into lines.
fn wrapped(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut result = String::new();
    let mut at = 0;
    let mut is_code = false;
    while at < lines.len() {
        let first = comment(lines[at]).map(|(_, text)| text);
        is_code = first.is_some_and(|text| is_code != text.starts_with("```"));
        let is_prose = !is_code && first.is_some_and(|text| !is_verbatim(text));
        let end = if is_prose { at + paragraph(&lines[at..]) } else { at + 1 };
        let block = &lines[at..end];
        if is_prose && block.iter().any(|line| line.chars().count() > WIDEST_COMMENT) {
            wrap(block, &mut result);
        } else {
            block.iter().for_each(|line| result.extend([line, "\n"]));
        }
        at = end;
    }
    result
}

/// Fills the lines of one paragraph.
fn wrap(paragraph: &[&str], result: &mut String) {
    let (_, first) = comment(paragraph[0]).expect("a comment");
    let lead = paragraph[0].trim_end().len() - first.len();
    let hanging = " ".repeat(item(first).len());
    let mut line = paragraph[0][..lead].to_owned();
    let next = format!("{}{hanging}", &paragraph[0][..lead]);
    let mut is_empty = true;
    let words =
        paragraph.iter().filter_map(|line| comment(line)).flat_map(|(_, text)| text.split(' '));
    for word in words.filter(|word| !word.is_empty()) {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDEST_COMMENT {
            result.extend([line.trim_end(), "\n"]);
            line = next.clone();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    result.extend([line.trim_end(), "\n"]);
}

/// `WRAP_COMMENTS=1 cargo test -p perdura-tree comments` wraps them.
#[test]
fn comments_are_no_wider_than_code() {
    let mut wide = Vec::new();
    for mut file in sources() {
        if std::env::var_os("WRAP_COMMENTS").is_some() {
            let text = wrapped(&file.text);
            if text != file.text {
                fs::write(Path::new(ROOT).join(&file.path), &text).expect("a writable source");
                file.text = text;
            }
        }
        for (number, line) in file.text.lines().enumerate() {
            if comment(line).is_some() && line.chars().count() > WIDEST_COMMENT {
                wide.push(format!("{}:{}: {}", file.path, number + 1, line.trim()));
            }
        }
    }
    none(&format!("comments of more than {WIDEST_COMMENT} columns"), wide);
}

#[test]
fn comments_are_wrapped_by_paragraphs() {
    let word = "word ".repeat(24);
    let long = word.trim_end();
    let full = "word ".repeat(19);
    let check = |text: &str, expect: &str| assert_eq!(wrapped(text), expect);
    check("let a = 1; // short\n", "let a = 1; // short\n");
    check(
        &format!("// {long}\n// end\n\n"),
        &format!("// {}\n// {} end\n\n", full.trim_end(), "word ".repeat(5).trim_end()),
    );
    check(
        &format!("//! - {long}\n//!   end\n//! - two\n"),
        &format!(
            "//! - {}\n//!   {} end\n//! - two\n",
            full.trim_end(),
            "word ".repeat(5).trim_end()
        ),
    );
    let table = format!("/// | {long} |\n");
    check(&table, &table);
}
