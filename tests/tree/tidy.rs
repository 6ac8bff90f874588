//! What reviewers would otherwise have to look for in every source file and every document.
//!
//! Each test reads the tree as it is and names every place at once, since a list is what one
//! wants to work through.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::terms::{NOT_IN_DOCUMENTS, NOT_IN_IDENTIFIERS};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The crates that may contain unsafe code: the mapping itself, the only writer of persistent
/// words, the boundary to C, which passes pointers, and, outside of the workspace, the adapter of
/// LMDB, which cannot be opened without it.
const MAY_BE_UNSAFE: [&str; 4] =
    ["crates/pmem/", "crates/heap/", "crates/capi/", "benches/embedded/src/lib.rs"];

/// A crate of which one module may contain unsafe code, and that module: functions on Lua's stack.
const MAY_HAVE_AN_UNSAFE_MODULE: (&str, &str) =
    ("crates/script/src/lib.rs", "crates/script/src/stack.rs");

/// Lines of a source file before its tests.
const LONGEST_FILE: usize = 600;

/// Lines of a function outside of tests.
const LONGEST_FUNCTION: usize = 70;

/// Columns of a comment, its indentation included.
const WIDEST_COMMENT: usize = 100;

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

/// Every text file that belongs to the project: what is built, fetched or generated is in the
/// folders left out.
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

/// Every function with its first line and its length, as rustfmt lays it out: it ends at its own
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

/// Returns true if a text has a phrase as whole words; both are in lower case.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let is_inside = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    text.match_indices(phrase).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        !before.is_some_and(is_inside) && !after.is_some_and(is_inside)
    })
}

/// The prose of a document, line by line and in lower case: code blocks and code spans are left
/// out.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            let prose = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
            found.push((number + 1, prose.to_lowercase()));
        }
    }
    found
}

/// The comments of a source file, without their slashes; every other line is empty.
fn comments(text: &str) -> String {
    let comment = |line: &str| {
        let line = line.trim_start();
        let text = line.strip_prefix("//")?;
        Some(text.trim_start_matches(['/', '!']).to_owned())
    };
    text.lines().map(|line| comment(line).unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

#[test]
fn documents_and_comments_use_the_terms_of_the_field() {
    let mut found = Vec::new();
    let is_left_out =
        |file: &File| file.path.starts_with("docs/results/") || file.path == "tests/tree/terms.rs";
    for file in files().into_iter().filter(|file| !is_left_out(file)) {
        let (text, is_source) = match file.path.rsplit_once('.') {
            Some((_, "md")) => (file.text, false),
            Some((_, "rs")) => (comments(&file.text), true),
            _ => continue,
        };
        for (number, line) in prose(&text) {
            // In a comment a value lives, as in any text about Rust.
            let is_meant = |word: &str| !(is_source && word == "lives") && has_phrase(&line, word);
            for (word, instead) in NOT_IN_DOCUMENTS.iter().filter(|(word, _)| is_meant(word)) {
                found.push(format!("{}:{number}: \"{word}\": {instead}", file.path));
            }
        }
    }
    none("words that have a better one (docs/glossary.md)", found);
}

#[test]
fn phrases_are_found_as_whole_words_outside_of_code() {
    let check = |text: &str, phrase: &str, expect: bool| {
        let has = prose(text).iter().any(|(_, line)| has_phrase(line, phrase));
        assert_eq!(has, expect, "{phrase:?} in {text:?}");
    };
    check("There is no Room.", "room", true);
    check("Mushrooms, and a room-mate", "room", false);
    check("a `room` of code", "room", false);
    check("```text\nroom\n```\nspace", "room", false);
    check("```text\nspace\n```\nroom", "room", true);
    check("free `memory`, or room", "room", true);
}

/// The identifiers of source code, without those in comments, strings and characters.
fn identifiers(text: &str) -> Vec<(usize, &str)> {
    let bytes = text.as_bytes();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let (mut found, mut line, mut at) = (Vec::new(), 1, 0);
    while at < bytes.len() {
        let rest = &text.as_bytes()[at..];
        let len = if rest.starts_with(b"//") {
            rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
        } else if rest[0] == b'r' && (rest[1..].starts_with(b"\"") || rest[1..].starts_with(b"#\""))
        {
            raw_string(rest)
        } else if rest[0] == b'"' {
            string(rest)
        } else if rest[0] == b'\'' {
            character(rest)
        } else if is_part(rest[0]) {
            let len = rest.iter().position(|byte| !is_part(*byte)).unwrap_or(rest.len());
            let is_prefix = rest[len..].first().is_some_and(|byte| b"\"'".contains(byte));
            if !is_prefix && !rest[0].is_ascii_digit() {
                found.push((line, &text[at..at + len]));
            }
            len
        } else {
            1
        };
        line += rest[..len].iter().filter(|byte| **byte == b'\n').count();
        at += len;
    }
    found
}

/// The length of a string that begins here.
fn string(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    text.len().min(at + 1)
}

/// The length of a raw string with one `#` or none.
fn raw_string(text: &[u8]) -> usize {
    let (begin, end): (usize, &[u8]) = if text[1] == b'#' { (3, b"\"#") } else { (2, b"\"") };
    let len = text[begin..].windows(end.len()).position(|bytes| bytes == end);
    len.map_or(text.len(), |len| begin + len + end.len())
}

/// The length of a character, or 1 where a lifetime begins.
fn character(text: &[u8]) -> usize {
    if text[1..].starts_with(b"\\") {
        return 3 + text[3..].iter().position(|byte| *byte == b'\'').map_or(0, |len| len + 1);
    }
    let end = text[1..].iter().take(5).position(|byte| *byte == b'\'');
    match end {
        Some(len) if len == 1 || !text[1].is_ascii() => len + 2,
        _ => 1,
    }
}

/// The words of an identifier, in lower case: it is split at underscores, and where a capital
/// follows a small letter or precedes one.
fn words_of(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let letters: Vec<char> = identifier.chars().collect();
    for (at, letter) in letters.iter().enumerate() {
        let follows_small = at > 0 && !letters[at - 1].is_uppercase();
        let precedes_small = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        if *letter == '_' || letter.is_uppercase() && (follows_small || precedes_small) {
            words.push(String::new());
        }
        words.last_mut().expect("one at least").extend(letter.to_lowercase().filter(|c| *c != '_'));
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn identifiers_use_the_terms_of_the_field() {
    let mut found = Vec::new();
    for file in sources() {
        for (line, name) in identifiers(&file.text) {
            let words = words_of(name);
            for (word, instead) in NOT_IN_IDENTIFIERS.iter().filter(|(word, _)| {
                words
                    .iter()
                    .any(|part| part.trim_end_matches(|c: char| c.is_ascii_digit()) == *word)
            }) {
                found.push(format!("{}:{line}: {name}: \"{word}\": {instead}", file.path));
            }
        }
    }
    none("identifiers with words that have a better one (docs/glossary.md)", found);
}

#[test]
fn identifiers_are_read_from_code_only_and_split_into_words() {
    let text = "fn met(a: &'met str) {} // told\nlet b = \"told \\\" told\"; r#\"told\"#; b'\\'' + 'é';\n\
                HasRoom::NO_ROOM2";
    let names = identifiers(text);
    let expected = [
        (1, "fn"),
        (1, "met"),
        (1, "a"),
        (1, "met"),
        (1, "str"),
        (2, "let"),
        (2, "b"),
        (3, "HasRoom"),
        (3, "NO_ROOM2"),
    ];
    assert_eq!(names, expected);
    assert_eq!(words_of("HasRoom"), ["has", "room"]);
    assert_eq!(words_of("NO_ROOM2"), ["no", "room2"]);
    assert_eq!(words_of("XMLRoom_here"), ["xml", "room", "here"]);
}

/// A comment that begins its line: the indentation with the mark, and the text after that.
fn comment(line: &str) -> Option<(&str, &str)> {
    let code = line.trim_start();
    let mark = ["//!", "///", "//"].into_iter().find(|mark| code.starts_with(mark))?;
    let text = code[mark.len()..].trim_end();
    (text.is_empty() || text.starts_with(' '))
        .then(|| (&line[..line.len() - code.len() + mark.len()], text.trim_start_matches(' ')))
}

/// What a paragraph of a comment starts with: the mark of a list's item, or nothing.
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

/// How many of the lines make a paragraph of a comment, the first one of which is given.
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

/// Source code whose comments are not wider than the limit, as far as words can be broken into
/// lines.
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

/// `WRAP_COMMENTS=1 cargo test -p perdura-tests --test tidy comments` wraps them.
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
