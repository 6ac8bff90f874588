//! The programs of a guest: copies without what only a debugger reads, and the shared libraries
//! that they are linked with, since a guest has none of its own.

use crate::place::{Setup, cache, run};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a guest needs of some programs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    /// Each name in `/bin`, and the file.
    pub(crate) files: Vec<(String, PathBuf)>,
    /// The libraries, each at the path that it has here, the dynamic linker among them.
    pub(crate) libraries: BTreeSet<PathBuf>,
}

impl Programs {
    /// Adds a copy of a program under its name.
    pub(crate) fn add(&mut self, program: &Path) -> Result<(), Setup> {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let folder = cache().join("bin");
        fs::create_dir_all(&folder)?;
        let copy = folder.join(&name);
        run(Command::new("strip").arg("--strip-debug").arg("-o").arg(&copy).arg(program))?;
        self.libraries.extend(libraries(program)?);
        self.files.push((name, copy));
        Ok(())
    }
}

/// Returns the files that the dynamic linker loads for a program. What it prints is `name => path
/// (address)`, or `path (address)` of itself; the library that is in the kernel has no path.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, Setup> {
    let printed = run(Command::new("ldd").arg(program))?;
    let paths = printed.lines().filter_map(|line| {
        let path = line.rsplit("=> ").next()?.split_whitespace().next()?;
        path.starts_with('/').then(|| PathBuf::from(path))
    });
    Ok(paths.collect())
}
