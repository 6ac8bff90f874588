//! Commands of Redis 7.0 that are not served here. Rules may name them, since users written for
//! Redis do; such rules are kept and printed.

/// Their full names.
const NAMES: &[&str] = &["module|load", "module|loadex", "module|unload"];

/// Returns the name of a command that is not served here.
pub(super) fn name(given: &[u8]) -> Option<&'static str> {
    NAMES.iter().copied().find(|name| name.as_bytes().eq_ignore_ascii_case(given))
}
