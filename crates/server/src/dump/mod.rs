//! Dumps of the data: written while clients are served, and loaded at the start.
//!
//! - `save`, `key_delay`: SAVE, BGSAVE, save points and dumps for replicas.
//! - `load`, `load_progress`: loading at the start, and how far it is.

pub(crate) mod key_delay;
pub(crate) mod load;
pub(crate) mod load_progress;
pub(crate) mod save;
