//! The file with the number of the server's process (`pidfile`), which exists while it serves.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::config::rewrite;

/// Writes the file, if a path is given.
pub(crate) fn write(path: &str) {
    if path.is_empty() {
        return;
    }
    // Others may read it, like that of other services.
    let readable = || fs::set_permissions(path, Permissions::from_mode(0o644));
    let is_new = !Path::new(path).exists();
    let written = rewrite::overwrite(path.as_ref(), format!("{}\n", std::process::id()).as_bytes());
    if let Err(error) = written.and_then(|()| if is_new { readable() } else { Ok(()) }) {
        tracing::warn!("Can't write the pid file {path}: {error}");
    }
}

/// Removes the file, if there is one.
pub(crate) fn remove(path: &str) {
    if !path.is_empty() {
        let _ = fs::remove_file(path);
    }
}
