//! The file in which a node keeps what it knows of the cluster, and how it voted.
//!
//! It is replaced as a whole: a crash leaves the old one or the new one.

use std::io;
use std::path::{Path, PathBuf};

use super::error::ClusterError;
use crate::config::rewrite;

/// The file.
pub(super) struct NodeFile {
    /// Its absolute path: the working directory may change.
    path: PathBuf,
}

impl NodeFile {
    /// Returns the file with this name, and its text; none if the node is new.
    pub(super) fn open(name: &str) -> Result<(NodeFile, Option<String>), ClusterError> {
        let path = std::path::absolute(name)?;
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => Some(text).filter(|text| !text.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(ClusterError::File { path, source }),
        };
        Ok((NodeFile { path }, text))
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces its text, durably in any case: an older text that had to be durable may be there.
    pub(super) fn save(&self, text: &str) -> io::Result<()> {
        rewrite::overwrite(&self.path, text.as_bytes())
    }
}
