//! Cases: what several clients do to both servers, step by step, and how the two replies are
//! compared.

use std::fmt;
use testkit::Reply;

/// A command.
pub(crate) type Words = Vec<Vec<u8>>;

/// The client of the default user, in RESP3, which makes what other steps need.
pub(crate) const ADMIN: usize = 0;
/// The client that is tested.
pub(crate) const CLIENT: usize = 1;
/// Clients of a case.
pub(crate) const CLIENTS: usize = 3;

/// When two replies are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alike {
    /// Byte for byte.
    Same,
    /// But for the order of elements.
    Unordered,
    /// Both refuse for the same reason, or neither does: whatever else they say.
    Refusal,
    /// What a blocked client gets: redis-server's reply, unless the user may not execute the
    /// command any more, as its last DRYRUN has said; then a refusal.
    Served,
    /// But for the order of elements, and for which of several names an error names that are taken.
    Conflict,
    /// Texts of the same length.
    Length,
    /// Entries of ACL LOG, without times and addresses.
    Log,
    /// The rules of a user.
    Rules,
    /// A list of commands, but for those that redis-server does not have.
    Known,
    /// But for the folder of the ACL file.
    InFile,
    /// Counters of INFO, a line each.
    Counters,
    /// Nothing is compared.
    Any,
}

/// What a client does.
#[derive(Clone)]
pub(crate) enum Act {
    /// It sends a command and reads the reply.
    Call(Words),
    /// It sends a command that it waits for.
    Send(Words),
    /// It reads the reply.
    Receive,
    /// It is still connected, or not.
    IsOpen,
    /// Waits until a client is blocked.
    AwaitBlocked,
    /// Waits until a script runs too long.
    AwaitBusy,
    /// Asks each server, and sends to each what was made of the other's reply.
    Exchange(Words, fn(&Reply) -> Option<Words>),
    /// Gives each server the other's ACL file.
    SwapFiles,
    /// Gives both servers an ACL file of this text.
    WriteFiles(String),
    /// Asks each server for what [`Act::Give`] sends to the other.
    Keep(Words),
    /// Sends to each server what was made of the other's reply to [`Act::Keep`].
    Give(fn(&Reply) -> Option<Words>),
    /// Forgets what was denied.
    ForgetDenied,
    /// How often something was denied since then: by Perdura's counters, and by redis-server's ACL
    /// LOG.
    CountDenied,
}

/// A step of a case.
#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) client: usize,
    pub(crate) act: Act,
    pub(crate) alike: Alike,
}

impl Step {
    pub(crate) fn is_call(&self) -> bool {
        matches!(self.act, Act::Call(_))
    }
}

/// What is run on both servers.
#[derive(Clone)]
pub(crate) struct Case {
    /// The version of RESP of the tested clients.
    pub(crate) protocol: u8,
    /// What makes both servers equal, before the steps.
    pub(crate) setup: Vec<Words>,
    pub(crate) steps: Vec<Step>,
}

impl Case {
    pub(crate) fn new(protocol: u8, setup: &[&str]) -> Case {
        Case { protocol, setup: setup.iter().map(|line| words(line)).collect(), steps: Vec::new() }
    }

    pub(crate) fn add(&mut self, client: usize, act: Act, alike: Alike) {
        self.steps.push(Step { client, act, alike });
    }

    /// A command of the administrator.
    pub(crate) fn admin(&mut self, line: &str, alike: Alike) {
        self.add(ADMIN, Act::Call(words(line)), alike);
    }

    /// A command of the tested client.
    pub(crate) fn client(&mut self, words: Words, alike: Alike) {
        self.add(CLIENT, Act::Call(words), alike);
    }
}

/// The words of a line.
pub(crate) fn words(line: &str) -> Words {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// A command of which one argument may hold spaces.
pub(crate) fn with(line: &str, rest: &[&[u8]]) -> Words {
    words(line).into_iter().chain(rest.iter().map(|word| word.to_vec())).collect()
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ["admin", "client", "other"][self.client];
        match &self.act {
            Act::Call(words) => write!(f, "{name}: {}", shown(words)),
            Act::Send(words) => write!(f, "{name}, without waiting: {}", shown(words)),
            Act::Receive => write!(f, "{name}: the reply to that"),
            Act::IsOpen => write!(f, "{name}: is connected"),
            Act::AwaitBlocked => f.write_str("a client is blocked"),
            Act::AwaitBusy => f.write_str("a script runs too long"),
            Act::Exchange(words, _) => {
                write!(f, "{name}: to each server what the other replied to {}", shown(words))
            }
            Act::SwapFiles => f.write_str("each server has the other's ACL file"),
            Act::WriteFiles(text) => write!(f, "both have the ACL file {text:?}"),
            Act::Keep(words) => write!(f, "{name}: {}, which is kept", shown(words)),
            Act::Give(_) => write!(f, "{name}: to each server what the other said then"),
            Act::ForgetDenied => f.write_str("what was denied is forgotten"),
            Act::CountDenied => f.write_str("how often something was denied"),
        }
    }
}

/// A command as one line.
pub(crate) fn shown(words: &Words) -> String {
    let shown = |word: &Vec<u8>| match word.len() {
        0..=4000 => format!("\"{}\"", word.escape_ascii()),
        length => format!("<{length} bytes>"),
    };
    words.iter().map(shown).collect::<Vec<_>>().join(" ")
}
