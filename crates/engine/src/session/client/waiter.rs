//! One blocked client.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use keyspace::{Db, Type};
use resp::{Protocol, Writer};

use super::Client;
use super::operation::BlockedOperation;

/// How a wait ended.
pub struct Ending {
    /// The reply, encoded; none if the connection ended the wait.
    pub(crate) reply: Vec<u8>,
    /// The offset up to which the command log must be settled before the reply may leave.
    pub(crate) reply_after: u64,
    /// Whether the reply is an error.
    pub(crate) failed: bool,
}

/// A client that was served in a transaction that is not committed yet.
pub struct Served {
    pub(crate) waiter: Arc<Waiter>,
    pub(crate) reply: Vec<u8>,
    /// The code of its error.
    pub(crate) failed: Option<Vec<u8>>,
}

enum State {
    Waiting,
    /// A thread serves it, and will report the result without waiting for others.
    Claimed,
    Ended(Option<Ending>),
}

/// A blocking command as it was given: its client's permissions are checked again when it is
/// served.
pub struct BlockedCommand {
    /// Its number in the table.
    pub(crate) id: usize,
    /// Its words.
    pub(crate) args: Box<[Box<[u8]>]>,
}

impl BlockedCommand {
    pub(crate) fn new(id: usize, args: &[&[u8]]) -> BlockedCommand {
        BlockedCommand { id, args: args.iter().map(|arg| Box::from(*arg)).collect() }
    }
}

/// A blocked client: the keys that it waits for, and the operation for when one of them is filled.
pub struct Waiter {
    /// Smaller tickets came first.
    pub(crate) ticket: u64,
    pub(crate) client: Arc<Client>,
    pub(crate) db: Db,
    pub(crate) what: Type,
    pub(crate) protocol: Protocol,
    /// Each once; none for a wait that only the timeout ends.
    pub(crate) keys: Vec<Box<[u8]>>,
    pub(crate) command: BlockedCommand,
    pub(crate) operation: Box<dyn BlockedOperation>,
    /// When it ends by itself, unix ms.
    pub(crate) until: Option<u64>,
    state: Mutex<State>,
    /// Signals that it is no longer claimed.
    unclaimed: Condvar,
}

impl Waiter {
    #[expect(
        clippy::too_many_arguments,
        reason = "each says another thing, and there is one caller"
    )]
    pub(crate) fn new(
        ticket: u64,
        client: Arc<Client>,
        db: Db,
        what: Type,
        protocol: Protocol,
        keys: Vec<Box<[u8]>>,
        command: BlockedCommand,
        operation: Box<dyn BlockedOperation>,
        until: Option<u64>,
    ) -> Waiter {
        let state = Mutex::new(State::Waiting);
        let unclaimed = Condvar::new();
        Waiter {
            ticket,
            client,
            db,
            what,
            protocol,
            keys,
            command,
            operation,
            until,
            state,
            unclaimed,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state once no thread serves it.
    fn unclaimed(&self) -> MutexGuard<'_, State> {
        let state = self.state();
        let claimed = |state: &mut State| matches!(state, State::Claimed);
        self.unclaimed.wait_while(state, claimed).unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if it waits no more.
    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.state(), State::Ended(_))
    }

    fn is_free(&self, state: &State) -> bool {
        matches!(state, State::Waiting) && !self.client.killed.load(Relaxed)
    }

    /// Returns true if it can be served now.
    pub(crate) fn can_be_served(&self) -> bool {
        self.is_free(&self.state())
    }

    /// Claims the right to serve it; a client that is to be closed is not served any more.
    /// [`Waiter::release`] or [`Waiter::end`] give the claim back.
    pub(crate) fn claim(&self) -> bool {
        let mut state = self.state();
        let free = self.is_free(&state);
        if free {
            *state = State::Claimed;
        }
        free
    }

    /// Claims it, for a thread that may wait until others have served it or found that they cannot.
    pub(crate) fn claim_when_unclaimed(&self) -> bool {
        let mut state = self.unclaimed();
        let free = matches!(*state, State::Waiting);
        if free {
            *state = State::Claimed;
        }
        free
    }

    /// Lets a claimed waiter that could not be served wait on.
    pub(crate) fn release(&self) {
        *self.state() = State::Waiting;
        self.unclaimed.notify_all();
    }

    /// Ends a claimed waiter with a reply, at `now` (unix ms).
    pub(crate) fn end(&self, ending: Ending, now: u64) {
        let mut state = self.state();
        // Before the owner can see the end, and block again.
        self.client.seen_ms.store(now, Relaxed);
        self.client.blocked.store(false, Relaxed);
        *state = State::Ended(Some(ending));
        drop(state);
        self.unclaimed.notify_all();
        self.client.wake();
    }

    /// Ends it without a reply, for its connection. Returns false if it has ended already. If a
    /// thread is just serving it, this waits for the result.
    pub(crate) fn cancel(&self) -> bool {
        let mut state = self.unclaimed();
        let waits = matches!(*state, State::Waiting);
        if waits {
            *state = State::Ended(None);
        }
        waits
    }

    /// Returns its ending, once.
    pub(crate) fn take_ending(&self) -> Option<Ending> {
        match &mut *self.state() {
            State::Ended(ending) => ending.take(),
            _ => None,
        }
    }

    /// Returns an error reply for it.
    pub(crate) fn error(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Writer::new(self.protocol);
        out.error(text);
        out.take()
    }

    /// Returns the reply for a wait whose timeout has passed.
    pub(crate) fn time_out(&self) -> Vec<u8> {
        let mut out = Writer::new(self.protocol);
        self.operation.time_out(&mut out);
        out.take()
    }
}
