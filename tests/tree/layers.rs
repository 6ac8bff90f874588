//! The direction of dependencies between the crates, as `ARCHITECTURE.md` states it.
//!
//! Rust already forbids circles; it does not forbid shortcuts. The allowed dependencies of each
//! crate are listed here once more, so that a new edge is a decision that shows in a diff of this
//! file. Cargo reports the actual ones.

use serde_json::Value;
use std::process::Command;

/// The layers from the machine upwards, each with the layers above it in this list that it may use.
const LAYERS: &[(&str, &[&str])] = &[
    ("perdura-pmem", &[]),
    ("perdura-heap", &["perdura-pmem"]),
    ("perdura-structures", &["perdura-heap"]),
    ("perdura-keyspace", &["perdura-heap", "perdura-structures"]),
    ("perdura-resp", &[]),
    // pmem only in a build for simulation, which schedules its locks and leaves out its steps.
    ("perdura-aof", &["perdura-pmem", "perdura-resp"]),
    ("perdura-rdb", &["perdura-resp"]),
    ("perdura-script", &["perdura-resp"]),
    // pmem only in a build for simulation, for fault points.
    ("perdura-replication", &["perdura-pmem", "perdura-resp"]),
    ("perdura-cluster", &[]),
    (
        "perdura-engine",
        &[
            "perdura-heap",
            "perdura-keyspace",
            "perdura-aof",
            "perdura-resp",
            "perdura-script",
            "perdura-replication",
            "perdura-cluster",
        ],
    ),
    (
        "perdura-commands",
        &[
            "perdura-engine",
            "perdura-heap",
            "perdura-keyspace",
            "perdura-aof",
            "perdura-resp",
            "perdura-rdb",
            "perdura-script",
            "perdura-replication",
            "perdura-cluster",
        ],
    ),
    ("perdura", &["perdura-pmem", "perdura-heap", "perdura-keyspace", "perdura-resp"]),
    ("perdura-capi", &["perdura"]),
    (
        "perdura-server",
        &[
            "perdura-pmem",
            "perdura-heap",
            "perdura-keyspace",
            "perdura-aof",
            "perdura-resp",
            "perdura-commands",
            "perdura-replication",
            "perdura-cluster",
        ],
    ),
    (
        "perdura-cli",
        &[
            "perdura-pmem",
            "perdura-heap",
            "perdura-keyspace",
            "perdura-aof",
            "perdura-rdb",
            "perdura-commands",
        ],
    ),
    // It starts servers as programs and talks to them. The medium itself is measured with the code
    // that the heap is made of.
    ("perdura-bench", &["perdura-pmem", "perdura-heap"]),
];

/// Packages of tests, benchmarks and examples: nothing that is shipped may depend on them.
const FOR_TESTS: &[(&str, &[&str])] = &[
    ("perdura-sim", &["perdura-pmem"]),
    ("perdura-testkit", &[]),
    ("perdura-tests", &[]),
    ("perdura-tree", &[]),
    ("perdura-benches", &[]),
    ("perdura-examples", &[]),
];

/// External packages that belong to one place only.
const CONFINED: &[(&str, &[&str])] = &[
    ("tokio", &["perdura-server", "perdura-bench"]),
    ("memmap2", &["perdura-pmem"]),
    ("libc", &["perdura-pmem"]),
    ("clap", &["perdura-cli", "perdura-bench"]),
    ("indicatif", &["perdura-cli", "perdura-bench"]),
    ("redis-protocol", &[]),
    ("mlua", &["perdura-script"]),
];

/// One edge of the graph: a dependency that is not for tests alone.
struct Edge {
    from: String,
    to: String,
}

pub(crate) fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"]);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"));
    let output = command.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().expect("a string").to_owned()
}

fn packages() -> Vec<String> {
    metadata()["packages"].as_array().expect("packages").iter().map(|p| text(&p["name"])).collect()
}

fn edges() -> Vec<Edge> {
    let metadata = metadata();
    let mut edges = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            if dependency["kind"].as_str() != Some("dev") {
                edges.push(Edge { from: text(&package["name"]), to: text(&dependency["name"]) });
            }
        }
    }
    edges
}

fn allowed(package: &str) -> &'static [&'static str] {
    let all = LAYERS.iter().chain(FOR_TESTS);
    all.clone().find(|(name, _)| *name == package).map_or(&[], |(_, allowed)| *allowed)
}

#[test]
fn every_crate_has_its_place() {
    for package in packages() {
        let known = LAYERS.iter().chain(FOR_TESTS).any(|(name, _)| *name == package);
        assert!(
            known,
            "{package} is in no layer: give it a place in this list and in ARCHITECTURE.md"
        );
    }
}

#[test]
fn a_layer_may_use_only_what_is_above_it() {
    for (at, (layer, allowed)) in LAYERS.iter().enumerate() {
        for used in *allowed {
            let position = LAYERS.iter().position(|(name, _)| name == used);
            assert!(
                position.is_some_and(|place| place < at),
                "{layer} cannot be allowed to use {used}"
            );
        }
    }
}

#[test]
fn no_crate_uses_one_that_it_must_not_know() {
    let ours = packages();
    for Edge { from, to } in edges() {
        assert!(
            !ours.contains(&to) || allowed(&from).contains(&to.as_str()),
            "{from} must not use {to}"
        );
    }
}

#[test]
fn what_exists_for_tests_is_used_by_tests_alone() {
    for Edge { from, to } in edges() {
        let for_tests = |name: &str| FOR_TESTS.iter().any(|(package, _)| *package == name);
        assert!(!for_tests(&to) || for_tests(&from), "{from} ships and must not use {to}");
    }
}

#[test]
fn packages_from_outside_stay_where_they_belong() {
    for Edge { from, to } in edges() {
        let confined = CONFINED.iter().find(|(package, _)| *package == to);
        assert!(
            confined.is_none_or(|(_, places)| places.contains(&from.as_str())),
            "{from} must not use {to}"
        );
    }
}
