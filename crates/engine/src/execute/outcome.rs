//! What happens after a command in addition to its reply.

/// What the connection does in addition to sending the reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Next {
    /// Nothing special: the next command.
    #[default]
    Reply,
    /// Close after the reply was sent.
    Close,
    /// End the server; there is no reply.
    Shutdown {
        /// Save first (SHUTDOWN SAVE).
        save: bool,
        /// Do not save (SHUTDOWN NOSAVE).
        nosave: bool,
        /// Do not wait for replicas (NOW).
        now: bool,
        /// Ignore errors (FORCE).
        force: bool,
    },
    /// From now on the connection receives all commands.
    Monitor,
    /// Nothing was executed: try the command again when the pause of writes (CLIENT PAUSE) is over,
    /// or the log has space.
    Paused,
    /// Nothing was executed, since others have locked a shard that it needs: serve others, and try
    /// the command again when [`crate::Engine::poll_shards`] says so.
    Locked,
    /// The command is not done: give others their turn, then call [`crate::Engine::go_on`] until
    /// that gives the reply.
    Walk,
    /// Send a dump of the data ([`crate::host::Host::send_dump`]), then close.
    SendDump,
    /// The client is a replica now: send it what it still needs, and then the stream.
    Replicate,
    /// The session is blocked: wait until [`crate::Engine::unblocked`] or
    /// [`crate::Engine::time_out`] gives the reply.
    Block,
}

/// The outcome of an execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "the reply may have to wait, or the connection to end"]
pub struct Outcome {
    /// What follows.
    pub next: Next,
    /// The reply may leave when the log is settled up to this offset: synced with `appendfsync
    /// always`, else written; 0 for at once.
    pub reply_after: u64,
}

/// The reason why a run was not executed: so many requests are to be executed one by one before
/// another run is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneByOne(pub usize);

/// The outcome of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "the replies may have to wait, or the connection to end"]
pub struct Executed {
    /// How many requests were executed, from the front; the others are to be executed later.
    pub requests: usize,
    /// What follows the last of them.
    pub next: Next,
    /// The replies may leave when the log is settled up to this offset (see [`Outcome`]); 0 for at
    /// once.
    pub reply_after: u64,
}
