//! One client under which the server is killed: it knows what it sent and what was acknowledged.
//!
//! Its commands run in the order in which they were sent, so what it finds after a crash must be the state after some
//! prefix of them: none that was acknowledged may be missing, and a transaction is there as a whole or not at all.

use crate::model::{State, Step, Words, keys};
use fastrand::Rng;
use std::collections::VecDeque;
use std::io;
use testkit::{Client, Reply};

/// A client with its own keys.
pub(crate) struct Load {
    number: usize,
    random: Rng,
    /// The state after everything that was acknowledged.
    acknowledged: State,
    /// The state after everything that was sent.
    sent: State,
    /// What was sent and not yet acknowledged, oldest first.
    open: VecDeque<Step>,
    /// Increments of the counter that all clients share: acknowledged, and sent without an acknowledgement.
    pub(crate) shared: (i64, i64),
    /// Steps acknowledged since the beginning.
    pub(crate) steps: u64,
}

/// What a crash lost or tore.
#[derive(Debug)]
pub(crate) struct Violation(pub(crate) String);

impl Load {
    pub(crate) fn new(number: usize, seed: u64) -> Load {
        Load {
            number,
            random: Rng::with_seed(seed.wrapping_add(number as u64)),
            acknowledged: State::new(),
            sent: State::new(),
            open: VecDeque::new(),
            shared: (0, 0),
            steps: 0,
        }
    }

    /// Sends bursts until the connection breaks; a wrong reply is a violation.
    pub(crate) fn run(&mut self, client: &mut Client) -> Result<(), Violation> {
        loop {
            let burst = match self.random.u8(..4) {
                0 => 1,
                1 => self.random.usize(1..64),
                _ => self.random.usize(1..8),
            };
            match self.burst(client, burst) {
                Ok(None) => {}
                Ok(Some(violation)) => return Err(violation),
                Err(_) => return Ok(()),
            }
        }
    }

    fn burst(&mut self, client: &mut Client, length: usize) -> io::Result<Option<Violation>> {
        let steps: Vec<Step> =
            (0..length).map(|_| Step::random(self.number, &mut self.random)).collect();
        let mut commands: Vec<Words> = steps.iter().flat_map(Step::commands).collect();
        commands.extend(for_all_clients(self.random.u64(..)));
        let expected: Vec<Vec<String>> =
            steps.iter().map(|step| step.apply(&mut self.sent)).collect();
        self.open.extend(steps);
        self.shared.1 += 1;
        client.send_pipeline(&commands)?;
        for replies in expected {
            for expected in replies {
                let found = client.receive()?.to_string();
                if found != expected {
                    return Ok(Some(self.wrong_reply(&found, &expected)));
                }
            }
            if let Some(step) = self.open.pop_front() {
                step.apply(&mut self.acknowledged);
            }
            self.steps += 1;
        }
        client.receive()?;
        self.shared = (self.shared.0 + 1, self.shared.1 - 1);
        client.receive()?;
        Ok(None)
    }

    fn wrong_reply(&self, found: &str, expected: &str) -> Violation {
        let sent = shorten(&format!("{:?}", self.open.front()));
        Violation(format!("{sent}: {} for {}", shorten(found), shorten(expected)))
    }

    /// Compares what the server has now with every state that the rule admits, and goes on from there.
    pub(crate) fn verify(&mut self, client: &mut Client) -> Result<(), Violation> {
        let found = self.read(client);
        let acknowledged = difference(&self.acknowledged, &found);
        while self.acknowledged != found {
            let Some(step) = self.open.pop_front() else {
                let what = acknowledged.unwrap_or_default();
                return Err(Violation(format!(
                    "client {}: after no prefix of what was sent; {what}",
                    self.number
                )));
            };
            step.apply(&mut self.acknowledged);
        }
        self.open.clear();
        self.sent = found;
        Ok(())
    }

    /// Keys that exist.
    pub(crate) fn keys(&self) -> usize {
        self.acknowledged.len()
    }

    fn read(&self, client: &mut Client) -> State {
        let mut found = State::new();
        for key in keys(self.number) {
            let Reply::Bulk(value) = client.call(&["GET", &key]) else { continue };
            let expires = client.call(&["PEXPIRETIME", &key]).int().filter(|at| *at >= 0);
            found.insert(key, (value, expires));
        }
        found
    }
}

/// What every client does to the keys that all of them share: count, and set two keys to the same value.
fn for_all_clients(value: u64) -> [Words; 2] {
    let value = value.to_string();
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    [words(&["INCR", "shared"]), words(&["MSET", "pair:a", &value, "pair:b", &value])]
}

fn difference(expected: &State, found: &State) -> Option<String> {
    if expected == found {
        return None;
    }
    let key =
        expected.keys().chain(found.keys()).find(|key| expected.get(*key) != found.get(*key))?;
    let show = |state: &State| {
        shorten(&format!("{:?}", state.get(key).map(|(v, at)| (v.escape_ascii().to_string(), at))))
    };
    Some(format!("{key} was acknowledged as {} and is {}", show(expected), show(found)))
}

fn shorten(text: &str) -> String {
    text.chars().take(300).collect()
}
