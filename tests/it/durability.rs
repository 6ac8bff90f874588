//! Checks docs/durability.md against the code and the logs: every write command has its row, every
//! test that guards against a bug exists, and the figures of long runs are the sums of their
//! tables.

use commands::spec::WRITE;
use commands::{Engine, EngineOptions};
use heap::{CreateOptions, Geometry, Heap};
use keyspace::Keyspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn read(path: &str) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The section under a heading.
fn section(heading: &str) -> String {
    let page = read("docs/durability.md");
    let rest = page.split(&format!("\n## {heading}\n")).nth(1).map(str::to_owned);
    let rest = rest.unwrap_or_else(|| panic!("there is no section {heading}"));
    rest.split("\n## ").next().unwrap_or_default().to_owned()
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn engine() -> Engine {
    let geometry = Geometry { shards: 1, ..Geometry::default() };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    let heap = Heap::volatile(1 << 30, &options).expect("a heap in memory");
    Engine::new(EngineOptions::new(Arc::new(Keyspace::new(heap, 0))))
}

#[test]
fn every_write_command_has_a_row() {
    let section = section("Why it holds");
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).collect();
    let columns = rows.iter().filter_map(|row| row.split('|').nth(1));
    let named: Vec<&str> = columns.flat_map(quoted).collect();
    let engine = engine();
    let writes = engine.table().all().iter().filter(|command| command.spec.has(WRITE));
    let names = writes.map(|command| command.full_name().to_uppercase().replace('|', " "));
    let missing: Vec<String> = names.filter(|name| !named.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "docs/durability.md does not say how {missing:?} become durable");
}

fn sources(folder: PathBuf, into: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(path).expect("a source file"));
        }
    }
}

#[test]
fn every_bug_has_a_test_that_keeps_it_out() {
    let mut code = String::new();
    sources(root().join("crates"), &mut code);
    sources(root().join("tests"), &mut code);
    let section = section("Bugs that were found");
    let bugs: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(bugs.len() >= 10, "{} bugs", bugs.len());
    for bug in bugs {
        let tests = bug.rsplit('|').nth(1).expect("a column of tests");
        let mut names = quoted(tests).peekable();
        assert!(names.peek().is_some(), "no test for: {bug}");
        for name in names {
            assert!(code.contains(&format!("fn {name}(")), "there is no test {name}");
        }
    }
}

/// The sum of a column of a table.
fn sum(table: &str, column: &str) -> u64 {
    let text = read(&format!("docs/evidence/{table}"));
    let mut lines = text.lines();
    let head = lines.next().expect("a head");
    let at = head.split('\t').position(|name| name == column);
    let at = at.unwrap_or_else(|| panic!("{table} has no column {column}"));
    lines
        .map(|line| line.split('\t').nth(at).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0))
        .sum()
}

/// Checks that the page has the same figure as the table.
#[track_caller]
fn check(table: &str, columns: &[&str]) {
    let section = section("Verification");
    for column in columns {
        let reported = format!("{column}={}", sum(table, column));
        let is_reported = quoted(&section).any(|code| code.split(' ').any(|word| word == reported));
        assert!(is_reported, "docs/durability.md does not say {reported}, as {table} does");
    }
}

#[test]
fn figures_are_those_of_the_tables() {
    check("kill.tsv", &["kills", "steps", "lost"]);
    check("differential.tsv", &["sequences", "commands", "restarts", "differences"]);
    check("dax.tsv", &["cuts", "lost"]);
}
