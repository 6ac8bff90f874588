//! The result of a step of background work.

/// The work that a background step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The number of items (keys, blocks) that it examined.
    pub looked_at: usize,
    /// The number of items that it deleted or freed.
    pub done: usize,
    /// Whether it is worthwhile to call again at once.
    pub more: bool,
}
