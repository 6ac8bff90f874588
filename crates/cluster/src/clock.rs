//! Time, as whoever runs a node gives it.

/// The time of an event.
///
/// Everything that waits, waits by `steady`. The time of day may jump: it is only told to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Milliseconds since some moment before the node began; never goes back.
    pub steady: u64,
    /// Milliseconds since 1970.
    pub wall: u64,
}

impl Clock {
    /// Returns the time of day of a steady time.
    pub(crate) fn wall_of(self, steady: u64) -> u64 {
        self.wall.saturating_sub(self.steady.saturating_sub(steady))
    }

    /// Returns the steady time of a time of day that is not in the future, but for half a second.
    pub(crate) fn steady_of(self, wall: u64) -> Option<u64> {
        let is_past = wall <= self.wall.saturating_add(500);
        is_past.then(|| self.steady.saturating_sub(self.wall.saturating_sub(wall)))
    }
}
