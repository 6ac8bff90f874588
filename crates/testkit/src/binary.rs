//! Finds executables of the workspace, building them when they are stale.
//!
//! Cargo offers a package's executables only to the tests of that same package, and those that it
//! builds for `cargo test --workspace` have the features that tests switch on. So the first test of
//! a process that needs a program makes Cargo build it plainly into the target directory and
//! profile of the test itself; if nothing has changed this takes a fraction of a second.
//! `PERDURA_SERVER` names another executable to test instead.
//!
//! No package is named: Cargo then unifies the features that all default members need, and the
//! programs share what is compiled. With `--package` each would have its own.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the path of an up-to-date `perdura-server`.
pub fn perdura_server() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match env::var_os("PERDURA_SERVER") {
        Some(path) => PathBuf::from(path),
        None => build(&["--bin", "perdura-server"]).join("perdura-server"),
    })
}

/// Returns the path of an up-to-date `perdura`; `PERDURA_PROGRAM` names another one to test.
pub fn perdura() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match env::var_os("PERDURA_PROGRAM") {
        Some(path) => PathBuf::from(path),
        None => build(&["--bin", "perdura"]).join("perdura"),
    })
}

/// Returns the path of an up-to-date example, built as `cargo test --workspace` builds it.
pub fn example(name: &str) -> PathBuf {
    build(&["--workspace", "--example", name]).join("examples").join(name)
}

/// Builds, and returns the folder of the profile that this test belongs to.
fn build(what: &[&str]) -> PathBuf {
    let test = env::current_exe().expect("a test knows its own executable");
    let folder = test.ancestors().find(|folder| folder.join("deps").is_dir());
    let folder = folder.expect("a test is in a target directory");
    let target = folder.parent().expect("a profile's folder is in the target directory");
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet"]).args(what).arg("--target-dir").arg(target);
    build.args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml")]);
    if folder.ends_with("release") {
        build.arg("--release");
    }
    let status = build.status().expect("cargo runs");
    assert!(status.success(), "{what:?} does not build");
    folder.to_owned()
}
