//! Observation of commands as they are executed. What it keeps is in [`crate::admin_state`].

pub(crate) mod hooks;
pub(crate) mod monitors;
