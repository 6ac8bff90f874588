//! Clients that write and read while servers come and go, and note what they were told.
//!
//! A client talks to the server that is said to be the primary; now and then to another one, where
//! its writes must be refused. A replica answers reads, and acknowledges nothing by that: so a read
//! counts only if the server was a primary throughout, as it says in the same transaction, or
//! before and after in the same pipeline.
//!
//! A reply that refuses a write (READONLY, LOADING) promises that it will never be seen. After any
//! other error that ends a wait, and after a connection that breaks or a reply that does not come
//! within the client's patience, the outcome is unknown.

use super::ledger::{Entry, Object, What};
use fastrand::Rng;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;
use testkit::linear::{Call, Clock};
use testkit::load::Words;
use testkit::{Client, Reply};

const OPEN: u64 = Call::<What>::OPEN;
/// The most calls that are sent in one write.
const BURST: usize = 6;
/// How long a client waits for a reply, ms: one of these. The longest is longer than anybody may
/// have to wait.
const PATIENCE_MS: [u64; 4] = [50, 300, 2000, 120_000];

/// What clients and the one who kills servers share.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) addresses: Vec<SocketAddr>,
    /// The place of the primary.
    pub(super) primary: AtomicUsize,
    pub(super) is_over: AtomicBool,
    /// Numbers that were written.
    pub(super) values: AtomicU64,
    pub(super) acknowledged: AtomicU64,
    pub(super) unknown: AtomicU64,
    pub(super) refused: AtomicU64,
    /// Acknowledged calls of each client.
    pub(super) each: [AtomicU64; CLIENTS],
}

pub(super) const CLIENTS: usize = 4;

/// A client.
pub(super) struct Worker<'s> {
    pub(super) shared: &'s Shared,
    pub(super) number: usize,
    pub(super) objects: &'s [Object],
    pub(super) random: Rng,
    pub(super) entries: Vec<Entry>,
}

/// A call that is sent.
struct Asked {
    object: Object,
    what: What,
    began: u64,
    commands: Vec<Words>,
    /// Which of the replies is that to the read or the write.
    form: Form,
}

/// How a call is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The write alone.
    Plain,
    /// MULTI, the commands, EXEC.
    Transaction,
    /// ROLE, the read, ROLE.
    Between,
}

/// What became of a call.
enum Outcome {
    Done(What),
    Refused,
    Unknown,
}

impl Worker<'_> {
    /// Works until it is over. An error is a reply that no server may give.
    pub(super) fn run(mut self) -> Result<Vec<Entry>, String> {
        while !self.shared.is_over.load(SeqCst) {
            let at = match self.random.u8(..16) {
                0 => self.random.usize(..self.shared.addresses.len()),
                _ => self.shared.primary.load(SeqCst),
            };
            let patience = PATIENCE_MS[self.random.usize(..PATIENCE_MS.len())];
            let connected = Client::connect(self.shared.addresses[at]).and_then(|client| {
                client.set_patience(Duration::from_millis(patience))?;
                Ok(client)
            });
            if let Ok(mut client) = connected {
                self.talk(&mut client, at)?;
            }
            // A server that is away refuses at once.
            thread::sleep(Duration::from_millis(self.random.u64(1..4)));
        }
        Ok(self.entries)
    }

    /// Sends calls until the connection breaks, or this server is not, or no more, the primary.
    fn talk(&mut self, client: &mut Client, at: usize) -> Result<(), String> {
        let stays = self.random.u8(..4) == 0;
        while !self.shared.is_over.load(SeqCst) {
            let burst = match self.random.bool() {
                true => 1,
                false => self.random.usize(1..=BURST),
            };
            let asked: Vec<Asked> = (0..burst).map(|_| self.next()).collect();
            if !self.burst(client, asked)? {
                return Ok(());
            }
            // Some stay with an old primary that does not know yet.
            if !stays && self.shared.primary.load(SeqCst) != at {
                return Ok(());
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Asked {
        let object = self.objects[self.random.usize(..self.objects.len())];
        let reads = self.random.u8(..if object.is_list() { 8 } else { 2 }) == 0;
        let value = self.shared.values.fetch_add(1, SeqCst) + 1;
        let mut commands = if reads { vec![object.read()] } else { object.write(value) };
        let role = || vec![b"ROLE".to_vec()];
        let form = match (reads, self.random.bool()) {
            (true, true) => Form::Between,
            (false, _) if commands.len() == 1 => Form::Plain,
            _ => Form::Transaction,
        };
        match form {
            Form::Plain => {}
            Form::Between => commands = [vec![role()], commands, vec![role()]].concat(),
            Form::Transaction => {
                if reads {
                    commands.insert(0, role());
                }
                commands.insert(0, vec![b"MULTI".to_vec()]);
                commands.push(vec![b"EXEC".to_vec()]);
            }
        }
        let what = match (reads, object.is_list()) {
            (true, _) => What::Read(None),
            (false, true) => What::Append(value, 0),
            (false, false) => What::Write(value),
        };
        Asked { object, what, began: self.shared.clock.now(), commands, form }
    }

    /// Sends calls and notes what became of them. Returns false if the connection is of no use any
    /// more.
    fn burst(&mut self, client: &mut Client, asked: Vec<Asked>) -> Result<bool, String> {
        let commands: Vec<Words> = asked.iter().flat_map(|call| call.commands.clone()).collect();
        let mut is_broken = client.send_pipeline(&commands).is_err();
        let mut has_refused = false;
        for call in asked {
            let outcome = match is_broken {
                true => Outcome::Unknown,
                false => match receive(client, call.commands.len()) {
                    Ok(replies) => call.outcome(&replies)?,
                    Err(_) => Outcome::Unknown,
                },
            };
            is_broken |= matches!(outcome, Outcome::Unknown);
            has_refused |= matches!(outcome, Outcome::Refused);
            self.note(call, outcome);
        }
        Ok(!is_broken && !has_refused)
    }

    fn note(&mut self, call: Asked, outcome: Outcome) {
        let Asked { object, what, began, .. } = call;
        let (ended, what) = match outcome {
            Outcome::Done(what) => {
                self.shared.acknowledged.fetch_add(1, SeqCst);
                self.shared.each[self.number].fetch_add(1, SeqCst);
                (self.shared.clock.now(), what)
            }
            Outcome::Refused => {
                self.shared.refused.fetch_add(1, SeqCst);
                return;
            }
            Outcome::Unknown => {
                self.shared.unknown.fetch_add(1, SeqCst);
                if matches!(what, What::Read(_)) {
                    return;
                }
                (OPEN, what)
            }
        };
        self.entries.push(Entry { object, began, ended, what });
    }
}

/// Reads replies up to an error that ends the connection.
fn receive(client: &mut Client, count: usize) -> io::Result<Vec<Reply>> {
    let mut replies = Vec::new();
    while replies.len() < count {
        let reply = client.receive()?;
        let is_last = is_end(&reply);
        replies.push(reply);
        if is_last {
            break;
        }
    }
    Ok(replies)
}

/// Returns true if the outcome of a call that got this error is unknown, and no reply follows.
fn is_end(reply: &Reply) -> bool {
    let text = reply.text();
    reply.is_error() && (text.starts_with("UNBLOCKED") || text.starts_with("NOREPLICAS"))
}

/// Returns true if nothing was done, nor ever will be.
fn is_refusal(reply: &Reply) -> bool {
    let text = reply.text();
    let says = ["READONLY", "LOADING", "MASTERDOWN", "EXECABORT"];
    reply.is_error() && says.iter().any(|says| text.starts_with(says))
}

fn is_primary(role: &Reply) -> bool {
    role.items().first().is_some_and(|role| role.text() == "master")
}

impl Asked {
    /// Returns what the replies say. An error is a reply that no server may give.
    fn outcome(&self, replies: &[Reply]) -> Result<Outcome, String> {
        if replies.last().is_some_and(is_end) {
            return Ok(Outcome::Unknown);
        }
        let executed = match self.form {
            Form::Transaction => replies.last().map(Reply::items).unwrap_or_default(),
            Form::Plain | Form::Between => replies,
        };
        if replies.iter().chain(executed).any(is_refusal) {
            return Ok(Outcome::Refused);
        }
        let wrong = || {
            let shown = |reply: &Reply| reply.to_string().chars().take(80).collect::<String>();
            let replies: Vec<String> = replies.iter().map(shown).collect();
            format!("{:?} {:?} was answered by {replies:?}", self.object, self.what)
        };
        match (&self.what, executed) {
            (What::Read(_), [role, found, more @ ..]) => {
                if !is_primary(role) || !more.iter().all(is_primary) {
                    return Ok(Outcome::Refused);
                }
                self.object
                    .seen(found)
                    .map(Outcome::Done)
                    .map_err(|why| format!("{why:.200}: {}", wrong()))
            }
            (What::Append(value, _), [reply]) => match reply.int().map(usize::try_from) {
                Some(Ok(count)) => Ok(Outcome::Done(What::Append(*value, count))),
                _ => Err(wrong()),
            },
            (What::Write(value), [_, ..]) if executed.iter().all(is_written) => {
                Ok(Outcome::Done(What::Write(*value)))
            }
            _ => Err(wrong()),
        }
    }
}

/// Returns true for the reply of SET, or of HSET.
fn is_written(reply: &Reply) -> bool {
    reply.is_ok() || matches!(reply, Reply::Int(0 | 1))
}
