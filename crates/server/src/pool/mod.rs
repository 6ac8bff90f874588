//! The file that the data is in: opened, watched, scrubbed, and synced by its journal.
//!
//! - `store`, `other_stores`, `media`: which store is opened, and over which medium.
//! - `lock`, `watch`, `seen_files`, `rescue`: a pool in use by another process, or moved, removed
//!   or cut short while it is served.
//! - `journal`: what replies wait for, if the pool is on an ordinary disk.
//! - `free_space`: what is not used is given back.
//! - `scrub`, `scrub_progress`: the search for damage.

pub(crate) mod free_space;
pub(crate) mod journal;
pub(crate) mod lock;
pub(crate) mod media;
pub(crate) mod other_stores;
pub(crate) mod rescue;
pub(crate) mod scrub;
pub(crate) mod scrub_progress;
pub(crate) mod seen_files;
pub(crate) mod store;
pub(crate) mod watch;
