//! Checks what is published: the library, and exactly the crates that it consists of.
//!
//! `make crates` packs them; this checks what Cargo does not refuse, or reports only when they are
//! uploaded.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::layers::{metadata, text};

/// The crate that users depend on.
const LIBRARY: &str = "perdura";

fn packages() -> BTreeMap<String, Value> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages").clone();
    packages.into_iter().map(|package| (text(&package["name"]), package)).collect()
}

/// The dependencies of a package on others of the workspace, without those of tests.
fn inner<'p>(package: &'p Value, ours: &BTreeMap<String, Value>) -> Vec<&'p Value> {
    let all = package["dependencies"].as_array().expect("dependencies");
    let is_inner = |dependency: &&Value| {
        dependency["kind"].as_str() != Some("dev") && ours.contains_key(&text(&dependency["name"]))
    };
    all.iter().filter(is_inner).collect()
}

fn is_published(package: &Value) -> bool {
    // An empty list means nowhere.
    package["publish"].as_array().is_none_or(|registries| !registries.is_empty())
}

fn published() -> BTreeMap<String, Value> {
    packages().into_iter().filter(|(_, package)| is_published(package)).collect()
}

#[test]
fn the_library_is_published_and_what_it_consists_of_and_nothing_else() {
    let ours = packages();
    let (mut needed, mut left) = (BTreeSet::new(), vec![LIBRARY.to_owned()]);
    while let Some(name) = left.pop() {
        let used = inner(&ours[&name], &ours).into_iter().map(|used| text(&used["name"]));
        left.extend(used.collect::<Vec<_>>());
        needed.insert(name);
    }
    assert!(needed.len() > 3, "{needed:?}");
    assert_eq!(published().into_keys().collect::<BTreeSet<_>>(), needed);
}

#[test]
fn inner_crates_are_required_in_exactly_the_version_of_the_workspace() {
    let ours = packages();
    for (name, package) in published() {
        let version = format!("={}", text(&package["version"]));
        for used in inner(&package, &ours) {
            assert_eq!(text(&used["req"]), version, "{name} on {}", used["name"]);
        }
    }
}

#[test]
fn a_published_crate_describes_itself() {
    for (name, package) in published() {
        for field in ["description", "license", "readme", "rust_version"] {
            assert!(package[field].is_string(), "{name} has no {field}");
        }
        let count = |field: &str| package[field].as_array().map_or(0, Vec::len);
        assert!((1..=5).contains(&count("keywords")), "{name} has {} keywords", count("keywords"));
        assert!(count("categories") > 0, "{name} has no category");
        assert!(package["metadata"]["docs"]["rs"].is_object(), "{name} has no docs.rs metadata");
        let folder = text(&package["manifest_path"]).replace("Cargo.toml", "");
        for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let path = format!("{folder}{file}");
            assert!(Path::new(&path).exists(), "{name} has no {file}");
        }
    }
}

/// It is outside of the workspace, from which others take their version.
#[test]
fn the_module_for_python_has_the_version_of_the_library() {
    let manifest = include_str!("../../crates/python/Cargo.toml");
    let version = text(&packages()[LIBRARY]["version"]);
    assert!(manifest.contains(&format!("\nversion = \"{version}\"\n")), "it is not {version}");
}

/// `make crates` packs what is published, in an order in which each crate comes after those that it
/// uses.
#[test]
fn the_list_of_make_crates_is_complete_and_in_order() {
    let makefile = include_str!("../../Makefile");
    let list = makefile.lines().find_map(|line| line.strip_prefix("LIBRARY := ")).expect("a list");
    let (ours, published) = (packages(), published());
    let mut before = BTreeSet::new();
    for name in list.split(' ') {
        for used in inner(&ours[name], &ours) {
            assert!(before.contains(&text(&used["name"])), "{name} before {}", used["name"]);
        }
        before.insert(name.to_owned());
    }
    assert_eq!(before, published.into_keys().collect());
}
