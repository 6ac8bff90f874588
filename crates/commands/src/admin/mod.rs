//! Administration: what the server answers about itself.

mod host;

pub use host::Host;

use crate::call::Call;
use crate::spec::CommandSpec;

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[];

/// Called after every execution, with its time in nanoseconds: slow log and latency.
pub(crate) fn observe(_call: &mut Call<'_>, _nanos: u64) {}

/// Called after every execution while somebody monitors.
pub(crate) fn monitor(_call: &mut Call<'_>) {}
