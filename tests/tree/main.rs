//! Checks of the source tree itself: they come first in CI, and need no crate of Perdura to be
//! built.
//!
//! They are a package of their own, since the other tests depend on nearly everything.

#![forbid(unsafe_code)]

mod documents;
mod layers;
mod modules;
mod packages;
mod pointers;
mod tidy;
