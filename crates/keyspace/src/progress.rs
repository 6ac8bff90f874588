//! What a step of work in the background came to.

/// What a background step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Items (keys, blocks) that it looked at.
    pub looked_at: usize,
    /// Items that it deleted or freed.
    pub done: usize,
    /// Whether it is worth calling again at once.
    pub more: bool,
}
