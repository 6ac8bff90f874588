//! Checks documents against the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn read(path: &str) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// All `code` between single backticks.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// All Rust sources below `folder`, as one text.
fn sources(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.push_str(&sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push_str(&fs::read_to_string(&path).expect("a source file"));
        }
    }
    all
}

/// The names of the flushes, fences and checks that a simulation can disable.
fn fault_points() -> Vec<String> {
    let source = read("crates/heap/src/fault_points.rs");
    let list = source.split("fault_points! {").nth(1).and_then(|rest| rest.split("\n}").next());
    let lines = list.expect("the list of fault points").lines().map(str::trim);
    let names = lines.filter(|line| !line.starts_with("//"));
    names.filter_map(|line| line.strip_suffix(',')).map(str::to_owned).collect()
}

#[test]
fn the_commit_protocol_names_every_fault_point() {
    let document = read("docs/commit-protocol.md");
    let named = quoted(&document);
    let points = fault_points();
    assert!(points.len() > 25, "{points:?}");
    let missing: Vec<_> = points.iter().filter(|point| !named.contains(point.as_str())).collect();
    assert!(missing.is_empty(), "docs/commit-protocol.md does not name {missing:?}");
    let rules = document.lines().filter(|line| line.starts_with("| **"));
    for rule in rules {
        let column = rule.rsplit('|').nth(2).expect("a column of fault points");
        for point in quoted(column) {
            assert!(points.iter().any(|known| known == point), "there is no fault point {point}");
        }
    }
}

/// If a fault point is listed and never checked, disabling it has no effect, and no test can catch
/// it: the search over all fault points (`make mutate`) would report a survivor, late.
#[test]
fn every_fault_point_is_asked_for() {
    let code = sources(&root().join("crates/heap/src"));
    let is_asked = |point: &String| {
        let name = format!("FaultPoint::{point}");
        code.match_indices(&name)
            .any(|(at, _)| !code[at + name.len()..].starts_with(|c: char| c.is_alphanumeric()))
    };
    let idle: Vec<_> = fault_points().into_iter().filter(|point| !is_asked(point)).collect();
    assert!(idle.is_empty(), "fault points that no code of the heap asks for: {idle:?}");
}

#[test]
fn the_tests_that_the_commit_protocol_names_exist() {
    let document = read("docs/commit-protocol.md");
    let code = sources(&root().join("crates")) + &sources(&root().join("tests"));
    let rules = document.lines().filter(|line| line.starts_with("| **"));
    for rule in rules {
        let tests = rule.rsplit('|').nth(1).expect("a column of tests");
        assert!(!quoted(tests).is_empty(), "no test for: {rule}");
        for test in quoted(tests) {
            assert!(code.contains(&format!("fn {test}(")), "there is no test {test}");
        }
    }
}

#[test]
fn every_dependency_has_its_reason() {
    let manifest = read("Cargo.toml");
    let document = read("docs/dependencies.md");
    let section = manifest.split("[workspace.dependencies]").nth(1).expect("the dependencies");
    let section = section.split("\n[").next().expect("the dependencies");
    for line in section.lines().filter(|line| line.contains('=') && !line.contains("path =")) {
        let name = line.split_whitespace().next().expect("a name");
        assert!(
            document.contains(&format!("| `{name}` |")),
            "docs/dependencies.md says nothing of {name}"
        );
    }
}

#[test]
fn the_architecture_names_every_crate() {
    let document = read("ARCHITECTURE.md");
    for entry in fs::read_dir(root().join("crates")).expect("crates") {
        let entry = entry.expect("an entry");
        if !entry.path().is_dir() {
            continue;
        }
        let name = entry.file_name().into_string().expect("a name");
        assert!(
            document.contains(&format!("`crates/{name}`")),
            "ARCHITECTURE.md says nothing of {name}"
        );
    }
}

/// The documents use both programs: a build as in the README must make both.
#[test]
fn make_build_builds_the_server_and_the_tool() {
    let makefile = read("Makefile");
    let recipe = makefile.split("\nbuild:\n").nth(1).and_then(|rest| rest.lines().next());
    for package in ["perdura-server", "perdura-cli"] {
        assert!(recipe.is_some_and(|line| line.contains(package)), "{recipe:?}: no {package}");
    }
    for command in ["make build", "make test"] {
        assert!(read("README.md").contains(command), "README.md says nothing of {command}");
    }
}
