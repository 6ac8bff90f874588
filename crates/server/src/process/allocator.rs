//! Gives memory that the allocator keeps back to the kernel.

use std::time::Duration;

/// The number of departed clients whose memory is worth a walk through all that the allocator
/// keeps.
const MANY_CLIENTS: u64 = 1000;
/// How long after memory was given back no more is.
const PAUSE: Duration = Duration::from_secs(10);

/// The memory of departed clients, which the allocator keeps for the next ones.
#[derive(Default)]
pub(crate) struct DepartedClients {
    /// Clients that had left when memory was last given back.
    disconnected: u64,
    /// Clients that had left at the last look.
    looked_at: u64,
    /// Looks at which more clients were still leaving.
    put_off: u32,
    /// Buffers that idle clients have released since.
    buffers: u64,
    /// Idle clients that had not released their buffers at the last look.
    released: u64,
    /// When memory was last given back.
    at: Option<Duration>,
    /// Whether memory of clients that left meanwhile, or soon after, is still to be given back,
    /// even if it is little.
    is_followed: bool,
}

impl DepartedClients {
    /// Gives memory back to the kernel when many clients have left, or many idle ones have released
    /// their buffers, and no more are doing so. If clients leave all the time, it is put off at
    /// most ten times.
    pub(crate) fn give_memory_back(&mut self, disconnected: u64, released: u64, now: Duration) {
        // Some may never release theirs, such as a client that does not read.
        let more = released.saturating_sub(self.released);
        self.released = released;
        self.buffers += more;
        let count = disconnected.saturating_sub(self.disconnected) + self.buffers;
        let many = count >= MANY_CLIENTS;
        let is_due = many || self.is_followed && count > 0;
        // Clients that have just left are followed by the rest: a trim now would miss the memory of
        // those.
        let is_going_on = more > 0 || disconnected > self.looked_at;
        self.looked_at = disconnected;
        if !is_due || self.at.is_some_and(|at| now.saturating_sub(at) < PAUSE) {
            return;
        }
        if is_going_on && self.put_off < 10 {
            self.put_off += 1;
            return;
        }
        heap::trim_allocator();
        *self = DepartedClients {
            disconnected,
            looked_at: disconnected,
            released,
            at: Some(now),
            is_followed: many,
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks twice at departed clients, long after memory was last given back.
    fn look(departed: &mut DepartedClients, disconnected: u64) {
        let now = departed.at.unwrap_or_default() + PAUSE;
        departed.give_memory_back(disconnected, 0, now);
        departed.give_memory_back(disconnected, 0, now);
    }

    #[test]
    fn what_goes_after_many_clients_is_given_back_once_more() {
        let mut departed = DepartedClients::default();
        for (disconnected, given_back) in [(999, 0), (1500, 1500), (1510, 1510), (1520, 1510)] {
            look(&mut departed, disconnected);
            assert_eq!(departed.disconnected, given_back, "{disconnected} have gone");
        }
    }
}
