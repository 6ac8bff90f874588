//! Cases: steps of several clients on both servers, and how the two replies are compared.

use std::fmt;
use testkit::Reply;

/// A command.
pub(crate) type Words = Vec<Vec<u8>>;

/// The client of the default user, in RESP3, which prepares other steps.
pub(crate) const ADMIN: usize = 0;
/// The client that is tested.
pub(crate) const CLIENT: usize = 1;
/// The number of clients in a case.
pub(crate) const CLIENTS: usize = 3;

/// How two replies are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alike {
    /// Byte for byte.
    Same,
    /// Regardless of the order of elements.
    Unordered,
    /// Both refuse for the same reason, or neither does; the rest may differ.
    Refusal,
    /// The reply of a blocked client: redis-server's, unless the user may not execute the command
    /// any more, as its last DRYRUN said; then a refusal.
    Served,
    /// Entries of ACL LOG after [`Alike::Served`]: one more here if the client was refused, since
    /// redis-server 7.0 serves it without a check.
    Logged,
    /// Regardless of the order of elements, and of which taken name an error reports.
    Conflict,
    /// Texts of the same length.
    Length,
    /// Entries of ACL LOG, without times and addresses.
    Log,
    /// The rules of a user.
    Rules,
    /// A list of commands, without those that redis-server does not have.
    Known,
    /// Regardless of the folder of the ACL file.
    InFile,
    /// Counters of INFO, a line each.
    Counters,
    /// Nothing is compared.
    Any,
}

/// The action of a client.
#[derive(Clone)]
pub(crate) enum Act {
    /// It sends a command and reads the reply.
    Call(Words),
    /// It sends a command without reading the reply.
    Send(Words),
    /// It reads the reply.
    Receive,
    /// Compares whether it is still connected.
    IsOpen,
    /// Waits until a client is blocked.
    AwaitBlocked,
    /// Waits until a script runs too long.
    AwaitBusy,
    /// Asks each server, and sends a command made from the other's reply.
    Exchange(Words, fn(&Reply) -> Option<Words>),
    /// Gives each server the other's ACL file.
    SwapFiles,
    /// Gives both servers an ACL file of this text.
    WriteFiles(String),
    /// Asks each server for what [`Act::Give`] sends to the other.
    Keep(Words),
    /// Sends to each server a command made from the other's reply to [`Act::Keep`].
    Give(fn(&Reply) -> Option<Words>),
    /// Resets the counts of denials.
    ForgetDenied,
    /// Compares the number of denials since then: by Perdura's counters, and by redis-server's ACL
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

/// The commands for both servers.
#[derive(Clone)]
pub(crate) struct Case {
    /// The version of RESP of the tested clients.
    pub(crate) protocol: u8,
    /// Commands that bring both servers into the same state before the steps.
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

    /// Adds a command of the administrator.
    pub(crate) fn admin(&mut self, line: &str, alike: Alike) {
        self.add(ADMIN, Act::Call(words(line)), alike);
    }

    /// Adds a command of the tested client.
    pub(crate) fn client(&mut self, words: Words, alike: Alike) {
        self.add(CLIENT, Act::Call(words), alike);
    }
}

/// The words of a line.
pub(crate) fn words(line: &str) -> Words {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// Makes a command with further arguments, which may contain spaces.
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
