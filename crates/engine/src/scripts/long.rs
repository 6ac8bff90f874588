//! Describes a script that takes long: its kind, and since when it runs.

/// The kind of a script, which decides which command ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptKind {
    /// EVAL and similar commands.
    Script,
    /// FCALL.
    Function,
}

/// A script that takes too long for the thread of its connection: since when, unix ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongSince {
    /// Its kind.
    pub kind: ScriptKind,
    /// Since when it runs, unix nanoseconds.
    pub started_ns: u64,
}
