//! Clients that load a server while it is killed: each knows what it sent and what was
//! acknowledged.
//!
//! A client's commands run in the order in which they were sent. After a crash it must find the
//! state after some prefix of them: no acknowledged command may be missing, none may be there
//! without those before it, and a transaction is there as a whole or not at all. Expiry times are
//! part of the state; a key that expires meanwhile may be gone from then on, and only then.
//! [`Load`] is one client, [`Crew`] several that also share some keys.
//!
//! Everything goes over a connection, so that the server may run anywhere.

mod crew;
mod model;
mod step;

pub use crew::{Crew, View};
pub use model::{Bytes, Entry, State};
pub use step::{Sizes, Words};

use crate::{Client, Reply};
use fastrand::Rng;
use model::is_refusal;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use step::{BRIEF, Maker, Step, What, databases, keys, library, now};

/// The behaviour of clients.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// The maximum number of steps that are sent in one write.
    pub burst: usize,
    /// The sizes of values.
    pub sizes: Sizes,
    /// The medium may be full: a command that is refused for this changes nothing.
    pub refusals: bool,
    /// The maximum difference between the server's clock and the client's, in milliseconds.
    pub lag: i64,
}

impl Habits {
    /// Pipelines of up to 64 steps with values of all sizes.
    pub const USUAL: Habits = Habits { burst: 64, sizes: Sizes::Mixed, refusals: false, lag: 20 };
    /// Few steps at a time, with values that fill a small medium.
    pub const FILLING: Habits = Habits { burst: 3, sizes: Sizes::Large, refusals: true, lag: 20 };
}

/// Data that a crash lost or tore, or a wrong reply.
#[derive(Debug)]
pub struct Violation(pub String);

/// How a client's run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The connection broke.
    Broken,
    /// The server says that it can take no more writes.
    Refused(String),
}

/// What a client knows about the server's data.
#[derive(Clone, Default)]
struct Known {
    /// The state after all acknowledged steps.
    state: State,
    /// Steps that were sent and not yet acknowledged, oldest first.
    open: VecDeque<Step>,
    /// Increments of the counter that all clients share: acknowledged, and sent without an
    /// acknowledgement.
    shared: (i64, i64),
    /// The highest value of that counter in a reply: it includes increments of other clients.
    seen: i64,
}

#[derive(Default)]
struct Knowledge {
    known: Known,
    /// What was known when a view began; steps sent since are open there.
    viewed: Option<Known>,
    /// Steps acknowledged since the beginning, and the scripts among them.
    steps: u64,
    scripts: u64,
}

impl Knowledge {
    fn send(&mut self, steps: &[Step]) {
        for known in [Some(&mut self.known), self.viewed.as_mut()].into_iter().flatten() {
            known.open.extend(steps.iter().cloned());
            known.shared.1 += 1;
        }
    }
}

/// A client with its own keys.
pub struct Load {
    number: usize,
    habits: Habits,
    random: Rng,
    knowledge: Arc<Mutex<Knowledge>>,
    /// Its function library was stored.
    has_library: bool,
    /// The number of commands refused for lack of space since the beginning.
    refused: u64,
}

fn lock(knowledge: &Mutex<Knowledge>) -> MutexGuard<'_, Knowledge> {
    knowledge.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Load {
    /// Makes client `number`, at most 5, whose steps follow from the seed.
    pub fn new(number: usize, seed: u64, habits: Habits) -> Load {
        Load {
            number,
            habits,
            random: Rng::with_seed(seed.wrapping_add(number as u64)),
            knowledge: Arc::default(),
            has_library: false,
            refused: 0,
        }
    }

    /// Returns a client that continues from what another one knew.
    fn from_known(number: usize, habits: Habits, known: Known) -> Load {
        let knowledge = Knowledge { known, ..Knowledge::default() };
        Load { knowledge: Arc::new(Mutex::new(knowledge)), ..Load::new(number, 0, habits) }
    }

    /// Sends bursts until the connection breaks or writes are refused for good; a wrong reply is a
    /// violation.
    pub fn run(&mut self, client: &mut Client) -> Result<Stop, Violation> {
        let mut selected = 0;
        if !self.has_library {
            match client.try_call(&library(self.number)) {
                // If there is no space for the library, it is not called.
                Ok(reply) => self.has_library = reply.bytes().is_some(),
                Err(_) => return Ok(Stop::Broken),
            }
        }
        loop {
            let burst = match self.random.u8(..4) {
                0 => 1,
                1 => self.random.usize(1..=self.habits.burst),
                _ => self.random.usize(1..=self.habits.burst.min(8)),
            };
            match self.burst(client, burst, &mut selected) {
                Ok(Ok(None)) => {}
                Ok(Ok(Some(why))) => return Ok(Stop::Refused(why)),
                Ok(Err(violation)) => return Err(violation),
                Err(_) => return Ok(Stop::Broken),
            }
        }
    }

    fn burst(
        &mut self,
        client: &mut Client,
        length: usize,
        selected: &mut u8,
    ) -> io::Result<Result<Option<String>, Violation>> {
        let Load { number, habits, random, has_library, .. } = self;
        let has_library = *has_library;
        let mut maker = Maker { client: *number, has_library, sizes: habits.sizes, random };
        let steps: Vec<Step> = (0..length).map(|_| maker.step()).collect();
        let parts: Vec<Vec<Words>> = steps.iter().map(|step| step.commands(selected)).collect();
        let mut commands: Vec<Words> = parts.iter().flatten().cloned().collect();
        let shared = for_all_clients(random.u64(..), selected);
        commands.extend(shared.iter().cloned());
        lock(&self.knowledge).send(&steps);
        client.send_pipeline(&commands)?;
        for part in parts {
            match self.acknowledge(client, part.len())? {
                Ok(None) => {}
                other => return Ok(other),
            }
        }
        self.acknowledge_shared(client, shared.len())
    }

    /// Reads and checks the replies to the oldest open step. Returns a text if the server accepts
    /// no more writes.
    fn acknowledge(
        &mut self,
        client: &mut Client,
        replies: usize,
    ) -> io::Result<Result<Option<String>, Violation>> {
        let replies = receive(client, replies)?;
        if let Some(why) = replies.iter().find_map(is_final) {
            return Ok(Ok(Some(why)));
        }
        self.refused += replies.iter().map(refusals).sum::<u64>();
        let Knowledge { known, steps, scripts, .. } = &mut *lock(&self.knowledge);
        let (Some(step), Some((last, before))) = (known.open.pop_front(), replies.split_last())
        else {
            return Ok(Err(Violation("a reply to nothing".into())));
        };
        if is_ended(last) {
            return Ok(Ok(None));
        }
        let checked = match before.iter().find(|reply| !is_prelude(reply, &step)) {
            Some(wrong) => Err((wrong, Reply::Simple("OK or QUEUED".into()))),
            None if refusals(last) > 0 && !self.habits.refusals => {
                Err((last, Reply::Simple("no refusal".into())))
            }
            None => step.apply_reply(&mut known.state, last).map_err(|expected| (last, expected)),
        };
        if let Err((found, expected)) = checked {
            let step = shorten(&format!("{step:?}"));
            let (found, expected) = (shorten(&found.to_string()), shorten(&expected.to_string()));
            let number = self.number;
            return Ok(Err(Violation(format!(
                "client {number}, {step}: replied {found}, expected {expected}"
            ))));
        }
        *steps += 1;
        *scripts += u64::from(matches!(step.what, What::Script(..)));
        Ok(Ok(None))
    }

    fn acknowledge_shared(
        &mut self,
        client: &mut Client,
        replies: usize,
    ) -> io::Result<Result<Option<String>, Violation>> {
        let replies = receive(client, replies)?;
        if let Some(why) = replies.iter().find_map(is_final) {
            return Ok(Ok(Some(why)));
        }
        // INCR comes before an MSET and a script.
        let known = &mut lock(&self.knowledge).known;
        known.shared.1 -= 1;
        if let Reply::Int(reported) = replies[replies.len() - 3] {
            known.shared.0 += 1;
            known.seen = known.seen.max(reported);
        }
        Ok(Ok(None))
    }

    /// Compares the server's data with every state that the rule admits, and continues from there.
    pub fn verify(&mut self, client: &mut Client) -> Result<(), Violation> {
        let began = now();
        let found = self.read(client).map_err(|error| Violation(format!("reading: {error}")))?;
        self.validate(found, began, now())
    }

    /// Does the same for a state that was read between two moments.
    fn validate(&mut self, found: State, began: i64, ended: i64) -> Result<(), Violation> {
        let known = &mut lock(&self.knowledge).known;
        // The fewest keys in which a state differs, and the number of steps to that state.
        let mut nearest: Option<(Vec<String>, usize)> = None;
        let (mut reached, sent) = (vec![known.state.clone()], known.open.len());
        let steps: Vec<String> =
            known.open.iter().map(|step| shorten(&format!("{step:?}"))).collect();
        loop {
            let done = sent - known.open.len();
            for state in &reached {
                let differ = differences(state, &found, began, ended, self.habits.lag);
                if differ.is_empty() {
                    known.open.clear();
                    known.state = found;
                    return Ok(());
                }
                if nearest.as_ref().is_none_or(|(fewest, _)| differ.len() < fewest.len()) {
                    nearest = Some((differ, done));
                }
            }
            let Some(step) = known.open.pop_front() else {
                let number = self.number;
                let (differ, done) = nearest.unwrap_or_default();
                return Err(Violation(format!(
                    "client {number}: no prefix of what was sent; nearest is that of {done} of \
                     {sent} steps after the last acknowledged one, in which {}; the steps were \
                     {}",
                    differ.join(", "),
                    steps.join(", ")
                )));
            };
            let refusals = self.habits.refusals;
            reached = reached.iter().flat_map(|state| step.outcomes(state, refusals)).collect();
            reached.dedup();
        }
    }

    /// The number of the client's keys in a database.
    pub fn keys(&self, db: u8) -> usize {
        lock(&self.knowledge).known.state.keys().filter(|(of, _)| *of == db).count()
    }

    fn read(&self, client: &mut Client) -> io::Result<State> {
        let mut found = State::new();
        for db in databases(self.number).into_iter().chain([BRIEF]) {
            client.call(&["SELECT", &db.to_string()]);
            let names = keys(self.number, db);
            let asks = |name: &String| [["PEXPIRETIME", name], ["GET", name]].map(words);
            let replies = client.pipeline(&names.iter().flat_map(asks).collect::<Vec<_>>())?;
            for (name, pair) in names.into_iter().zip(replies.chunks(2)) {
                let Reply::Bulk(value) = &pair[1] else { continue };
                let expires = pair[0].int().filter(|at| *at >= 0);
                found.insert((db, name), Entry { value: value.as_slice().into(), expires });
            }
        }
        client.call(&["SELECT", "0"]);
        Ok(found)
    }
}

fn words(words: [&str; 2]) -> Words {
    words.map(|word| word.as_bytes().to_vec()).to_vec()
}

fn receive(client: &mut Client, replies: usize) -> io::Result<Vec<Reply>> {
    (0..replies).map(|_| client.receive()).collect()
}

/// Returns true if a server that shuts down has ended a long command, without any effect.
fn is_ended(reply: &Reply) -> bool {
    let text = reply.text();
    reply.is_error()
        && (text.contains("the server is shutting down") || text.contains("Script killed by user"))
}

/// Sets keys to one value. At most one of them is declared: several clients set the same keys at
/// once.
const SET_ALIKE: &str = "for n = 2, #ARGV do redis.call('set', ARGV[n], ARGV[1]) end";
/// The keys that it sets.
const ALIKE: [&str; 4] = ["alike:a", "alike:b", "alike:c", "alike:d"];

/// Returns the commands of every client on the keys that all share: an increment, an MSET of two
/// keys to the same value, and a script that sets others.
fn for_all_clients(value: u64, selected: &mut u8) -> Vec<Words> {
    let number = value.to_string();
    let script = format!("#!lua\n-- {}\n{SET_ALIKE}", value % 1000);
    let mut eval = if value.is_multiple_of(2) {
        vec!["EVAL", &script, "0", &number]
    } else {
        vec!["EVAL", &script, "1", ALIKE[0], &number]
    };
    eval.extend(ALIKE);
    let mut commands = vec![vec!["INCR", "shared"]];
    if std::mem::replace(selected, 0) != 0 {
        commands.insert(0, vec!["SELECT", "0"]);
    }
    commands.extend([vec!["MSET", "pair:a", &number, "pair:b", &number], eval]);
    let bytes = |words: Vec<&str>| words.into_iter().map(|word| word.as_bytes().to_vec()).collect();
    commands.into_iter().map(bytes).collect()
}

/// Returns true if a reply before a step's last one is as it must be.
fn is_prelude(reply: &Reply, step: &Step) -> bool {
    match reply {
        Reply::Simple(text) if text == "OK" => true,
        Reply::Simple(text) => text == "QUEUED" && matches!(step.what, What::Exec(_)),
        _ => false,
    }
}

/// Counts the commands that were refused for lack of space.
fn refusals(reply: &Reply) -> u64 {
    reply.items().iter().map(refusals).sum::<u64>() + u64::from(is_refusal(reply))
}

/// Returns the text of a reply after which no write is accepted any more; an EXECABORT contains it
/// as the reason.
fn is_final(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Error(text) if model::is_because(text, "MISCONF") => Some(text.clone()),
        other => other.items().iter().find_map(is_final),
    }
}

/// Returns the keys in which two states differ; the second one was read between two moments.
fn differences(expected: &State, found: &State, began: i64, ended: i64, lag: i64) -> Vec<String> {
    let differs = |at: &(u8, String)| match (expected.get(at), found.get(at)) {
        (Some(entry), None) => entry.expires.is_none_or(|at| at > ended + lag),
        (Some(entry), Some(other)) => {
            entry != other || entry.expires.is_some_and(|at| at + lag < began)
        }
        (None, other) => other.is_some(),
    };
    let show = |state: &State, at: &(u8, String)| {
        let entry = state.get(at);
        let shown = entry.map(|entry| {
            let (value, expires) = (entry.value.escape_ascii().to_string(), entry.expires);
            format!("{} bytes {} until {expires:?}", entry.value.len(), shorten(&value))
        });
        shown.unwrap_or_else(|| "nothing".into())
    };
    let keys: BTreeSet<&(u8, String)> = expected.keys().chain(found.keys()).collect();
    let differ = keys.into_iter().filter(|at| differs(at)).map(|at| {
        let (db, key) = at;
        format!("{key} of database {db} was {} and is {}", show(expected, at), show(found, at))
    });
    differ.collect()
}

fn shorten(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests;
