//! Media errors, as far as they concern every part of the heap: the unresolved losses that the pool
//! itself records (`losses`), and which thread resolves them (`resolving`). [`crate::repair`]
//! decides what to do about lost metadata.

pub(crate) mod losses;
mod resolving;

pub(crate) use resolving::{is_resolving, resolve};
