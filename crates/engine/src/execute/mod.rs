//! Executing commands: from the arguments of a request to its reply.
//!
//! - [`request`]: a request whose command was looked up and whose keys are hashed.
//! - [`call`]: one execution of a command, as its function gets it; [`outcome`]: what follows.
//! - [`queue`]: the commands that MULTI collects.
//! - `http`: ends connections that speak HTTP.
//! - `admit`: checks before a command is queued or executed.
//! - `batch`: the requests of a connection that arrived together.
//! - `single`: one command by itself, a unit of work of its own.
//! - `joined`: pipelined commands as one unit of work.
//! - `step`: one command of several that share a unit: in a run, or in EXEC
//!   (`transactions/exec.rs`).
//! - `locks`: locks the shards. Nothing else in the crate opens a transaction.
//! - `commit`: the commit of a transaction, the only one in the crate, and the notification of
//!   clients.
//! - `unit`: the consequences of a transaction, from its commit to the reply.
//! - `moved`: a command that takes long, on another thread; `weight` and `large` say which
//!   do.
//! - `slots`, `place`, `redirect`: whether a request belongs to this node of a cluster.
//! - `pause`: requests that wait while clients are paused.
//! - `walk`: a command that takes several steps.
//! - `damage`: refusing damaged keys.
//! - `background`: deletions that no client asked for.

mod admit;
mod background;
mod batch;
pub mod call;
pub(crate) mod commit;
mod damage;
mod http;
mod joined;
mod large;
mod locks;
mod moved;
pub mod outcome;
mod pause;
mod place;
pub mod queue;
mod redirect;
pub mod request;
mod single;
mod slots;
mod step;
mod unit;
mod walk;
mod weight;

pub use background::Evicted;
pub use commit::{Role, Shown, Unit};
pub use locks::Scope;
pub use outcome::{Executed, OneByOne};
pub use step::{Failed, Step};
pub use weight::weight_of;
