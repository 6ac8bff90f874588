//! A call that another thread executes, shared by that thread and the connection that waits for it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::execute::outcome::Outcome;

/// A call on another thread in a session `S`, as its connection knows it.
pub(crate) struct MovedCall<S>(Mutex<State<S>>);

#[derive(Default)]
enum State<S> {
    #[default]
    Runs,
    Ended(Box<End<S>>),
    /// The connection is gone.
    Abandoned,
}

/// The end of a moved call, on its way to the connection.
pub(crate) struct End<S> {
    pub(crate) session: S,
    pub(crate) reply: Vec<u8>,
    pub(crate) outcome: Outcome,
}

impl<S> Default for MovedCall<S> {
    fn default() -> MovedCall<S> {
        MovedCall(Mutex::new(State::Runs))
    }
}

impl<S> MovedCall<S> {
    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the result for the connection; returns it if the connection is gone.
    pub(crate) fn end(&self, end: Box<End<S>>) -> Option<Box<End<S>>> {
        let mut state = self.state();
        if matches!(*state, State::Abandoned) {
            return Some(end);
        }
        *state = State::Ended(end);
        None
    }

    pub(crate) fn take(&self) -> Option<Box<End<S>>> {
        let mut state = self.state();
        match std::mem::take(&mut *state) {
            State::Ended(end) => Some(end),
            State::Runs => None,
            State::Abandoned => {
                *state = State::Abandoned;
                None
            }
        }
    }

    /// Records that the connection is gone. Returns the session if its call has ended; otherwise
    /// the thread that executes the call ends the session.
    pub(crate) fn abandon(&self) -> Option<S> {
        match std::mem::replace(&mut *self.state(), State::Abandoned) {
            State::Ended(end) => Some(end.session),
            State::Runs | State::Abandoned => None,
        }
    }
}
