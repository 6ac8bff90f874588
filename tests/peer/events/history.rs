//! Histories: commands of several connections, one step after another.

use crate::steps::{Words, shown, words};
use std::fmt;

/// The connection that configures the server and asks it; the others are numbered from 1.
pub(super) const ADMIN: usize = 0;
/// The number of connections of a history.
pub(super) const CONNECTIONS: usize = 7;

/// The action of a step.
#[derive(Clone)]
pub(super) enum Act {
    /// A command. A word `<id2>` stands for the ID that the server gave connection 2.
    Call(Words),
    /// A command that may wait for other clients.
    MayBlock(Words),
    /// A command that gives a key a millisecond to live, which then passes.
    Expiring(Words),
}

#[derive(Clone)]
pub(super) struct Step {
    pub(super) connection: usize,
    pub(super) act: Act,
}

/// The commands for both servers.
#[derive(Clone)]
pub(super) struct History {
    /// Commands of the first connection, before the steps.
    pub(super) setup: Vec<Words>,
    pub(super) steps: Vec<Step>,
}

impl History {
    pub(super) fn add(&mut self, connection: usize, words: Words) {
        self.steps.push(Step { connection, act: Act::Call(words) });
    }

    pub(super) fn line(&mut self, connection: usize, line: &str) {
        self.add(connection, words(line));
    }

    pub(super) fn admin(&mut self, line: &str) {
        self.line(ADMIN, line);
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.connection;
        match &self.act {
            Act::Call(words) => write!(f, "{name}: {}", shown(words)),
            Act::MayBlock(words) => write!(f, "{name}: {} (may wait)", shown(words)),
            Act::Expiring(words) => write!(f, "{name}: {}, and time passes", shown(words)),
        }
    }
}
