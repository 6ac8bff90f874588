//! What administration needs of the server that the engine runs in.

/// The server, as commands see it.
pub trait Host: Send + Sync {}
