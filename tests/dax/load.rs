//! A client under which the power fails: it knows at every moment what it has sent and what was acknowledged.
//!
//! What it knows is apart from its connection, in a ledger that can be copied while commands are on their way. The rule
//! is that of the killed processes, and so are the commands: after a cut the client finds the state after some prefix of
//! what it sent, none of which was acknowledged is missing, and a transaction is there as a whole or not at all.

use crate::model::{State, Step, Words, keys};
use fastrand::Rng;
use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;
use testkit::{Client, Reply};

/// What a cut lost or tore, or a wrong reply before any.
#[derive(Debug)]
pub(crate) struct Violation(pub(crate) String);

/// What one client knows.
#[derive(Clone, Default)]
pub(crate) struct Ledger {
    number: usize,
    /// The state after everything that was acknowledged.
    acknowledged: State,
    /// The state after everything that was sent.
    sent: State,
    /// What was sent and not yet acknowledged, oldest first.
    open: VecDeque<Step>,
    /// Steps acknowledged since the beginning.
    pub(crate) steps: u64,
}

impl Ledger {
    pub(crate) fn new(number: usize) -> Ledger {
        Ledger { number, ..Ledger::default() }
    }

    /// Compares what the server has with every state that the rule admits, and goes on from there.
    pub(crate) fn verify(&mut self, client: &mut Client) -> Result<(), Violation> {
        let found = self.read(client).map_err(|error| Violation(error.to_string()))?;
        let first = self.difference(&found);
        while self.acknowledged != found {
            let Some(step) = self.open.pop_front() else {
                let number = self.number;
                let what = format!("client {number}: after no prefix of what was sent; {first}");
                return Err(Violation(what));
            };
            step.apply(&mut self.acknowledged);
        }
        self.open.clear();
        self.sent = found;
        Ok(())
    }

    fn read(&self, client: &mut Client) -> io::Result<State> {
        let keys = keys(self.number);
        let commands: Vec<Vec<&str>> =
            keys.iter().flat_map(|key| [vec!["GET", key], vec!["PEXPIRETIME", key]]).collect();
        let replies = client.pipeline(&commands)?;
        let mut found = State::new();
        for (key, replies) in keys.into_iter().zip(replies.chunks(2)) {
            match replies {
                [Reply::Bulk(value), expires] => {
                    let expires = expires.int().filter(|at| *at >= 0);
                    found.insert(key, (value.clone(), expires));
                }
                [Reply::Nil, _] => {}
                other => return Err(io::Error::other(format!("GET {key}: {other:?}"))),
            }
        }
        Ok(found)
    }

    fn difference(&self, found: &State) -> String {
        let mut names = self.acknowledged.keys().chain(found.keys());
        let differs = |key: &&String| self.acknowledged.get(*key) != found.get(*key);
        let Some(key) = names.find(differs) else { return String::new() };
        let show = |state: &State| shorten(&format!("{:?}", state.get(key)));
        format!("{key} was acknowledged as {} and is {}", show(&self.acknowledged), show(found))
    }
}

/// Sends bursts until the connection breaks, which is no fault; a wrong reply is.
pub(crate) fn run(
    ledger: &Mutex<Ledger>,
    client: &mut Client,
    random: &mut Rng,
) -> Result<(), Violation> {
    loop {
        let longest = [2, 8, 8, 64][random.usize(..4)];
        let length = random.usize(1..longest);
        match burst(ledger, client, random, length) {
            Ok(None) => {}
            Ok(Some(violation)) => return Err(violation),
            Err(_) => return Ok(()),
        }
    }
}

fn burst(
    ledger: &Mutex<Ledger>,
    client: &mut Client,
    random: &mut Rng,
    length: usize,
) -> io::Result<Option<Violation>> {
    let locked = || ledger.lock().unwrap_or_else(|poison| poison.into_inner());
    let (commands, expected) = {
        let mut ledger = locked();
        let number = ledger.number;
        let steps: Vec<Step> = (0..length).map(|_| Step::random(number, random)).collect();
        let commands: Vec<Words> = steps.iter().flat_map(Step::commands).collect();
        let expected: Vec<Vec<String>> =
            steps.iter().map(|step| step.apply(&mut ledger.sent)).collect();
        ledger.open.extend(steps);
        (commands, expected)
    };
    client.send_pipeline(&commands)?;
    for replies in expected {
        for expected in replies {
            let found = client.receive()?.to_string();
            if found != expected {
                let sent = shorten(&format!("{:?}", locked().open.front()));
                let what = format!("{sent}: {} for {}", shorten(&found), shorten(&expected));
                return Ok(Some(Violation(what)));
            }
        }
        let mut ledger = locked();
        if let Some(step) = ledger.open.pop_front() {
            step.apply(&mut ledger.acknowledged);
        }
        ledger.steps += 1;
    }
    Ok(None)
}

fn shorten(text: &str) -> String {
    text.chars().take(300).collect()
}
