//! Requests for commands that both servers have, from the command table.

use commands::spec::{CommandSpec, Group};
use commands::{Engine, Run};
use fastrand::Rng;

use crate::request;
use crate::steps::Words;

/// Groups whose commands change the server, the connection, or other clients.
const HARMFUL: &[Group] = &[Group::Server, Group::Connection, Group::Transactions, Group::Pubsub];
/// Commands that block, or that end something.
const WAITING: &[&str] =
    &["migrate", "wait", "function", "script", "xread", "xreadgroup", "select"];
/// Commands that half of all requests use: their arguments decide something.
const OF_INTEREST: &[&str] = &[
    "set",
    "getex",
    "bitfield",
    "sort",
    "sort_ro",
    "georadius",
    "georadiusbymember",
    "migrate",
    "xread",
    "xreadgroup",
    "zunionstore",
    "eval",
    "eval_ro",
    "fcall",
    "copy",
    "rename",
    "lmove",
    "smove",
    "publish",
    "spublish",
    "subscribe",
    "psubscribe",
    "ssubscribe",
    "unsubscribe",
    "mset",
    "del",
    "unlink",
    "getdel",
    "auth",
    "hello",
    "reset",
    "quit",
    "config|get",
    "config|set",
    "client|kill",
    "object|freq",
    "memory|usage",
    "acl|whoami",
    "xgroup|create",
    "blmpop",
    "lmpop",
    "zrangestore",
    "pfcount",
    "pfmerge",
    "bitop",
    "geosearchstore",
    "sintercard",
    "touch",
    "exists",
];

type Spec = (Option<&'static CommandSpec>, &'static CommandSpec);

/// Makes requests for all commands that both servers have.
pub(crate) struct Requests {
    specs: Vec<Spec>,
}

/// Some chosen commands.
pub(crate) struct Chosen<'r> {
    specs: Vec<Spec>,
    all: &'r Requests,
}

/// The name of a command in rules.
pub(crate) fn full_name((container, spec): Spec) -> String {
    match container {
        Some(container) => format!("{}|{}", container.name, spec.name),
        None => spec.name.to_owned(),
    }
}

impl Requests {
    /// `peer` is the list of full names of redis-server's commands.
    pub(crate) fn new(engine: &Engine, peer: &[String]) -> Requests {
        let all = engine.table().all().iter();
        let known = all
            .filter(|command| !matches!(command.spec.run, Run::Container))
            .map(|command| (command.parent, command.spec))
            .filter(|spec| peer.contains(&full_name(*spec)));
        Requests { specs: known.collect() }
    }

    fn any(&self, random: &mut Rng) -> Spec {
        let spec = self.specs[random.usize(..self.specs.len())];
        if random.bool() {
            return spec;
        }
        let name = OF_INTEREST[random.usize(..OF_INTEREST.len())];
        self.specs.iter().copied().find(|spec| full_name(*spec) == name).unwrap_or(spec)
    }

    /// Chooses some commands.
    pub(crate) fn some(&self, random: &mut Rng) -> Chosen<'_> {
        Chosen { specs: (0..4).map(|_| self.any(random)).collect(), all: self }
    }
}

impl Chosen<'_> {
    /// The names of these commands, and of a few others.
    pub(crate) fn name(&self, random: &mut Rng) -> String {
        match random.u8(..6) {
            0 => full_name(self.all.any(random)),
            _ => full_name(self.specs[random.usize(..self.specs.len())]),
        }
    }

    /// A request for one of these commands.
    pub(crate) fn request(&self, random: &mut Rng) -> Words {
        let (container, spec) = self.specs[random.usize(..self.specs.len())];
        let mut request = match container {
            Some(container) => request::sub_request(container, spec, random),
            None => request::request(spec, random),
        };
        request.iter_mut().skip(1).for_each(as_c_reads_it);
        request
    }

    /// Returns true if a request may be executed: it neither waits nor changes the server.
    pub(crate) fn is_harmless(&self, request: &Words) -> bool {
        let name = String::from_utf8_lossy(&request[0]).to_ascii_lowercase();
        let spec = self.specs.iter().find(|(container, spec)| {
            container.map_or(spec.name, |container| container.name) == name
        });
        !WAITING.contains(&&*name)
            && !name.starts_with('b')
            && spec.is_some_and(|(_, spec)| !HARMFUL.contains(&spec.group))
    }
}

/// Makes a word of an argument that C reads in part: redis-server takes what is before a zero for
/// the first argument that a rule allows, and the digits of a wrong number for a number of keys.
fn as_c_reads_it(word: &mut Vec<u8>) {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits > 0 {
        word.truncate(digits);
    } else if let Some(zero) = word.iter().position(|byte| *byte == 0) {
        word[zero] = b'0';
    }
}
