//! Media errors, as far as they concern every part of the heap: which losses are not resolved, as
//! the pool itself records them (`losses`), and which thread resolves them (`resolving`). What
//! becomes of lost metadata is decided in [`crate::repair`].

pub(crate) mod losses;
mod resolving;

pub(crate) use resolving::{is_resolving, resolve};
