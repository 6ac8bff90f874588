//! The folders of the test bed, and running programs of the system.
//!
//! All files are below the target directory: downloads stay there, images and logs are written
//! again by each run.

use std::env;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use testkit::load::Violation;

/// Why the test bed cannot be used; this says nothing about Perdura.
#[derive(Debug)]
pub(crate) struct Setup(pub(crate) String);

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for Setup {
    fn from(error: io::Error) -> Setup {
        Setup(error.to_string())
    }
}

/// The maximum time for a guest to boot or to run a line: the host may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// Waits until something holds.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> Result<(), Violation> {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        if Instant::now() > end {
            return Err(Violation(format!("{what}: not within {PATIENCE:?}")));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The target directory that this test was built into.
pub(crate) fn target() -> PathBuf {
    let test = env::current_exe().expect("a test knows its own executable");
    let profile = test.ancestors().find(|folder| folder.join("deps").is_dir());
    let profile = profile.expect("a test is in a target directory");
    profile.parent().expect("a profile's folder is in the target directory").to_owned()
}

/// The folder of the test bed.
pub(crate) fn cache() -> PathBuf {
    target().join("dax")
}

/// Finds a program of the system, also among those for the administrator.
pub(crate) fn program(name: &str) -> Command {
    for folder in ["/usr/bin", "/usr/sbin", "/bin", "/sbin"] {
        let path = PathBuf::from(folder).join(name);
        if path.exists() {
            return Command::new(path);
        }
    }
    Command::new(name)
}

/// Runs a program to its end. Returns its output, or its error message.
pub(crate) fn run(command: &mut Command) -> Result<String, Setup> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| Setup(format!("{name}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Setup(format!("{command:?}: {}: {said}", output.status)))
}
