//! What clients did and saw, object by object, and whether it is linearizable.
//!
//! The objects are registers (a key; a field of a hash; two keys that transactions set to the same
//! value) and lists that grow. A register goes on from round to round with the value that was found
//! in the quiet between; a round begins new lists, and finds those of the round before unchanged.

use std::collections::BTreeMap;
use testkit::linear::{Access, Call, ListCall, check_list, check_register};
use testkit::{Reply, load::Words};

/// How many registers and lists there are.
const REGISTERS: usize = 15;
const LISTS: usize = 3;

/// An object that clients write and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    /// A string.
    Key(usize),
    /// A field of a hash.
    Field(usize),
    /// Two strings that are always alike.
    Twins(usize),
    /// A list of a round.
    List(usize, u64),
}

/// What a call did.
#[derive(Clone, Debug)]
pub(super) enum What {
    Write(u64),
    Read(Option<u64>),
    /// An element that was appended, and the length that was replied; 0 if nothing was.
    Append(u64, usize),
    Elements(Vec<u64>),
}

/// One call of a client.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) object: Object,
    pub(super) began: u64,
    /// [`Call::OPEN`] if its outcome is unknown.
    pub(super) ended: u64,
    pub(super) what: What,
}

/// Returns the objects of a round.
pub(super) fn objects(round: u64) -> Vec<Object> {
    let register = |number: usize| match number % 3 {
        0 => Object::Key(number),
        1 => Object::Field(number),
        _ => Object::Twins(number),
    };
    let lists = (0..LISTS).map(|number| Object::List(number, round));
    (0..REGISTERS).map(register).chain(lists).collect()
}

impl Object {
    pub(super) fn is_list(self) -> bool {
        matches!(self, Object::List(..))
    }

    /// Returns the commands that write a value: they are in a transaction if there are several.
    pub(super) fn write(self, value: u64) -> Vec<Words> {
        let text = written(value);
        match self {
            Object::Key(n) => vec![words(&["SET", &format!("key:{n}"), &text])],
            Object::Field(n) => vec![words(&["HSET", "hash", &n.to_string(), &text])],
            Object::Twins(n) => {
                ["one", "other"].map(|twin| words(&["SET", &format!("{twin}:{n}"), &text])).to_vec()
            }
            Object::List(..) => vec![words(&["RPUSH", &self.list(), &value.to_string()])],
        }
    }

    /// Returns the command that reads it.
    pub(super) fn read(self) -> Words {
        match self {
            Object::Key(n) => words(&["GET", &format!("key:{n}")]),
            Object::Field(n) => words(&["HGET", "hash", &n.to_string()]),
            Object::Twins(n) => words(&["MGET", &format!("one:{n}"), &format!("other:{n}")]),
            Object::List(..) => words(&["LRANGE", &self.list(), "0", "-1"]),
        }
    }

    /// Returns the key of a list.
    pub(super) fn list(self) -> String {
        match self {
            Object::List(n, round) => format!("list:{n}:{round}"),
            _ => String::new(),
        }
    }

    /// Returns what a reply to the read says, or how it is wrong.
    pub(super) fn seen(self, reply: &Reply) -> Result<What, String> {
        match self {
            Object::Key(_) | Object::Field(_) => value(reply).map(What::Read),
            Object::Twins(_) => {
                let both: Vec<_> = reply.items().iter().map(value).collect::<Result<_, _>>()?;
                match both[..] {
                    [one, other] if one == other => Ok(What::Read(one)),
                    _ => Err(format!("a transaction was torn: {both:?} in {self:?}")),
                }
            }
            Object::List(..) => {
                let number = |item: &Reply| item.int().and_then(|n| u64::try_from(n).ok());
                let all: Option<Vec<u64>> = reply.items().iter().map(number).collect();
                all.map(What::Elements).ok_or_else(|| format!("{self:?} holds {reply}"))
            }
        }
    }
}

fn words(words: &[&str]) -> Words {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// Returns the text of a value: its number, and a filling whose length follows from it.
fn written(value: u64) -> String {
    let length = match value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48 {
        n if n % 64 == 0 => n,
        n if n % 8 == 0 => n % 4000,
        n => n % 60,
    };
    format!("{value}:{}", "x".repeat(length as usize))
}

fn value(reply: &Reply) -> Result<Option<u64>, String> {
    if matches!(reply, Reply::Nil) {
        return Ok(None);
    }
    let text = reply.text();
    let number = text.split(':').next().and_then(|number| number.parse().ok());
    match number {
        Some(number) if written(number) == text => Ok(Some(number)),
        _ => Err(format!("a value that nobody wrote: {reply:.80}")),
    }
}

/// All calls of a round, and what was there before.
#[derive(Default)]
pub(super) struct Ledger {
    calls: BTreeMap<Object, Vec<Entry>>,
    /// The value of each register at the end of the round before.
    before: BTreeMap<Object, u64>,
    /// The lists of that round.
    lists: BTreeMap<Object, Vec<u64>>,
}

impl Ledger {
    pub(super) fn add(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            self.calls.entry(entry.object).or_default().push(entry);
        }
    }

    /// Returns the lists of the round before.
    pub(super) fn lists(&self) -> Vec<Object> {
        self.lists.keys().copied().collect()
    }

    /// Returns an error if a list of the round before is another.
    pub(super) fn compare(&self, list: Object, found: &What) -> Result<(), String> {
        match (self.lists.get(&list), found) {
            (Some(expected), What::Elements(found)) if expected == found => Ok(()),
            (expected, _) => Err(format!(
                "{list:?} of the round before has changed from {expected:?} to {found:?}"
            )),
        }
    }

    /// Checks all calls; the last one of each object is a read in the quiet at the end. Then a new
    /// round may begin.
    pub(super) fn close(&mut self) -> Result<(), String> {
        self.lists.clear();
        for (object, entries) in std::mem::take(&mut self.calls) {
            let last = entries.last().map(|entry| entry.what.clone());
            let result = match object.is_list() {
                true => check_list(&entries.into_iter().map(of_list).collect::<Vec<_>>()),
                false => {
                    let value = self.before.get(&object).copied().map(Access::Write);
                    let first = value.map(|what| Call { began: 0, ended: 0, what });
                    let calls = entries.into_iter().map(of_register);
                    check_register(&first.into_iter().chain(calls).collect::<Vec<_>>())
                }
            };
            result.map_err(|why| format!("{object:?}: {why}"))?;
            match last {
                Some(What::Read(Some(value))) => drop(self.before.insert(object, value)),
                Some(What::Elements(values)) => drop(self.lists.insert(object, values)),
                _ => {}
            }
        }
        Ok(())
    }
}

fn of_register(Entry { began, ended, what, .. }: Entry) -> Call<Access> {
    let what = match what {
        What::Write(value) | What::Append(value, _) => Access::Write(value),
        What::Read(value) => Access::Read(value),
        What::Elements(_) => Access::Read(None),
    };
    Call { began, ended, what }
}

fn of_list(Entry { began, ended, what, .. }: Entry) -> Call<ListCall> {
    let what = match what {
        What::Append(value, count) => ListCall::Append(value, count),
        What::Write(value) => ListCall::Append(value, 0),
        What::Elements(values) => ListCall::Read(values),
        What::Read(_) => ListCall::Read(Vec::new()),
    };
    Call { began, ended, what }
}
