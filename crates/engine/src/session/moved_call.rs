//! A call that another thread executes, between that thread and the connection which waits for it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::execute::outcome::Outcome;
use crate::session::Session;

/// A call on another thread, as its connection knows it.
#[derive(Default)]
pub(crate) struct MovedCall(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    Runs,
    Ended(Box<End>),
    /// The connection is gone.
    Abandoned,
}

/// The end of a moved call, on its way to the connection.
pub(crate) struct End {
    pub(crate) session: Session,
    pub(crate) reply: Vec<u8>,
    pub(crate) outcome: Outcome,
}

impl MovedCall {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the end for the connection; returns it where that is gone.
    pub(crate) fn end(&self, end: Box<End>) -> Option<Box<End>> {
        let mut state = self.state();
        if matches!(*state, State::Abandoned) {
            return Some(end);
        }
        *state = State::Ended(end);
        None
    }

    pub(crate) fn take(&self) -> Option<Box<End>> {
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

    /// Says that the connection is gone. Returns the session if its call has ended; else whoever
    /// executes it ends the session.
    pub(crate) fn abandon(&self) -> Option<Session> {
        match std::mem::replace(&mut *self.state(), State::Abandoned) {
            State::Ended(end) => Some(end.session),
            State::Runs | State::Abandoned => None,
        }
    }
}
