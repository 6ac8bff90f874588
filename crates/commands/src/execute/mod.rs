//! Executing commands: from the arguments of a request to its reply.
//!
//! - [`admit`]: what must hold before a command is queued or executed.
//! - [`batch`]: the requests of a connection that arrived together.
//! - [`single`]: one command by itself, a unit of work of its own.
//! - [`run`]: pipelined commands as one unit of work.
//! - [`step`]: one command of several that share a unit: in a run, or in EXEC
//!   (`transactions/exec.rs`).
//! - [`locks`]: which shards are locked. Nothing else in the crate opens a transaction.
//! - [`unit`]: what is owed for a transaction, from its commit to the reply. Nothing else in the
//!   crate commits one.
//! - [`moved`]: a command that takes long, on another thread; [`weight`] and [`large`] say which
//!   do.
//! - [`pause`]: requests that wait while clients are paused.
//! - [`walk`]: a command that takes several steps.
//! - [`damage`]: refusing damaged keys.
//! - [`background`]: deletions that no client asked for.

mod admit;
mod background;
mod batch;
mod damage;
mod large;
mod locks;
mod moved;
mod pause;
mod run;
mod single;
mod step;
mod unit;
mod walk;
mod weight;

pub use background::Evicted;
pub use batch::Executed;
pub(crate) use locks::Scope;
pub(crate) use step::{Failed, Step};
pub(crate) use unit::{Role, Shown, Unit};
pub(crate) use weight::weight_of;
