//! What a script that takes long is told by: its kind, and since when it runs.

/// What kind of script runs, and so which command ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptKind {
    /// EVAL and its kin.
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
