//! Why this server cannot be a node of a cluster.

use std::path::PathBuf;

use ::cluster::topology::describe::FileError;

use crate::net::listen::ListenError;

/// Why this server cannot be a node.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The node's file cannot be read.
    #[error("the cluster's file {path} cannot be read: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The node's file cannot be saved.
    #[error("the cluster's file {path} cannot be saved: {source}", path = path.display())]
    Unsaved {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The node's file is damaged.
    #[error("{path}: {source}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: FileError,
    },
    /// There are keys that no node may have.
    #[error("a node of a cluster has database 0 alone, and there are keys in others")]
    Databases,
    /// The bus cannot be listened on.
    #[error("{0}")]
    Listen(#[from] ListenError),
    /// The system refuses something else.
    #[error("the node of the cluster cannot be started: {0}")]
    System(#[from] std::io::Error),
}
