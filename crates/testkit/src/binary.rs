//! Finds the `perdura-server` executable, building it when it is stale.
//!
//! Cargo offers a package's executables only to the tests of that same package, and those that it builds for
//! `cargo test --workspace` carry the features that tests switch on. So the first test of a process that wants a server
//! asks Cargo for a plain build into the target directory and profile that the test itself came from; when nothing has
//! changed that takes a fraction of a second. `PERDURA_SERVER` names another executable to test instead.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The path of an up-to-date `perdura-server`.
pub fn perdura_server() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match env::var_os("PERDURA_SERVER") {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

fn build() -> PathBuf {
    let test = env::current_exe().expect("a test knows its own executable");
    let folder = test
        .ancestors()
        .find(|p| p.join("deps").is_dir())
        .expect("test outside a target directory");
    let target = folder.parent().expect("a profile's folder lies in the target directory");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "perdura-server", "--manifest-path"]);
    build.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"));
    build.arg("--target-dir").arg(target);
    if folder.ends_with("release") {
        build.arg("--release");
    }
    let status = build.status().expect("cargo runs");
    assert!(status.success(), "perdura-server does not build");
    folder.join("perdura-server")
}
