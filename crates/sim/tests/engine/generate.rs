//! Generates requests from the command table: the documented arguments of a command are its
//! grammar, so that a command is tried as soon as it is in the table.
//!
//! Most requests succeed and change something: keys are few, so that commands meet the same ones;
//! numbers are small; expiry times are around the clock's next ticks. Only the kinds and names of a
//! command's arguments tell what they mean.

use super::scripts;
use commands::CommandSpec;
use commands::spec::{Arg, ArgKind, Find, Group, WRITE};
use fastrand::Rng;

/// Databases in use.
pub(crate) const DATABASES: usize = 3;

/// The sizes of values: mostly integers and short strings; some values have their own blocks, some
/// are written before their shard is locked, some take several spans.
const LENGTHS: [usize; 12] = [1, 3, 8, 20, 44, 60, 120, 300, 1200, 3000, 5000, 12_000];
const LARGE: [usize; 3] = [33_000, 40_000, 70_000];

/// Names of arguments of streams' commands that are IDs.
const ID: &[&str] = &["id", "start", "end", "last-id", "max_deleted_entry_id"];

/// The parameters from which requests are drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taste {
    /// Keys of each kind.
    pub(crate) keys: usize,
    /// Maximum number of repetitions of the last repeatable argument.
    pub(crate) repeats: usize,
    /// How many small members, fields or elements a command sometimes gets: an index that gets this
    /// many at once is filled in its own order. 0: never.
    pub(crate) many: usize,
    /// Whether most keys exist from the beginning.
    pub(crate) filled_at_first: bool,
    /// One value in this many is large.
    pub(crate) large_one_in: usize,
    /// The thread that owns these keys: nobody else uses them. `None`: all threads share all keys.
    pub(crate) owner: Option<u8>,
}

/// Returns every command of the table that may write: the words of its name, and its description.
pub(crate) fn writers(table: &commands::Table) -> Vec<(Vec<&'static str>, &'static CommandSpec)> {
    let words = |command: &commands::Command| match command.parent {
        Some(parent) => vec![parent.name, command.spec.name],
        None => vec![command.spec.name],
    };
    let all = table.all().iter().filter(|command| command.spec.has(WRITE));
    all.filter(|command| !command.spec.is_container())
        .map(|command| (words(command), command.spec))
        .collect()
}

/// Draws a request for a command.
pub(crate) fn request(
    words: &[&'static str],
    spec: &CommandSpec,
    now: u64,
    taste: &Taste,
    rng: &mut Rng,
) -> Vec<Vec<u8>> {
    let mut request = Request {
        words: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
        spec,
        now,
        taste,
        is_one_of_many: false,
        rng,
    };
    for arg in spec.args {
        request.add(arg);
    }
    let mut words = request.words;
    count_keys(spec, &mut words);
    count_fields(spec, &mut words);
    words
}

struct Request<'a> {
    words: Vec<Vec<u8>>,
    spec: &'a CommandSpec,
    now: u64,
    taste: &'a Taste,
    /// The following arguments are repeated very often.
    is_one_of_many: bool,
    rng: &'a mut Rng,
}

impl Request<'_> {
    fn add(&mut self, arg: &Arg) {
        if arg.is_optional && !self.is_wanted(arg) && self.rng.usize(..3) > 0 {
            return;
        }
        let times = self.times(arg);
        for n in 0..times {
            if !arg.token.is_empty() && (n == 0 || arg.is_multiple_token) {
                self.words.push(arg.token.as_bytes().to_vec());
            }
            match arg.kind {
                ArgKind::PureToken => {}
                ArgKind::OneOf(of) => {
                    let mut chosen = of[self.rng.usize(..of.len())];
                    chosen.is_optional = false;
                    self.add(&chosen);
                }
                // As many IDs as keys.
                ArgKind::Block(of) if arg.name == "streams" => {
                    for n in 0..2 * self.rng.usize(1..3) {
                        let word = self.word(&of[n % 2]);
                        self.words.insert(self.words.len() - n / 2, word);
                    }
                }
                ArgKind::Block(of) => of.iter().for_each(|inner| self.add(inner)),
                _ if self.is_one_of_many => self.words.push(number(self.rng.u16(..))),
                _ => {
                    let word = self.word(arg);
                    self.words.push(word);
                }
            }
        }
    }

    /// Returns how many times an argument is given.
    fn times(&mut self, arg: &Arg) -> usize {
        if !arg.is_multiple {
            return 1;
        }
        let is_collection =
            matches!(self.spec.group, Group::Hash | Group::List | Group::Set | Group::SortedSet);
        let has_keys = matches!(arg.kind, ArgKind::Key(_));
        if self.taste.many == 0 || !is_collection || has_keys || self.rng.usize(..3) > 0 {
            return self.rng.usize(1..=self.taste.repeats);
        }
        self.is_one_of_many = true;
        self.taste.many + self.rng.usize(..self.taste.many / 4)
    }

    /// Returns true if a command would fail, or change nothing, without this argument.
    fn is_wanted(&self, arg: &Arg) -> bool {
        self.spec.name == "sort" && ["ALPHA", "STORE"].contains(&arg.token)
            || self.spec.group == Group::Scripting
    }

    fn word(&mut self, arg: &Arg) -> Vec<u8> {
        let name = arg.name;
        match arg.kind {
            ArgKind::Key(_) => self.key(),
            ArgKind::Pattern => b"*".to_vec(),
            ArgKind::KeyPattern(_) => self.one_of(&["s*", "{tag}s*", "h*->1", "#"]),
            _ if self.spec.group == Group::Stream && ID.contains(&name) => self.id(),
            _ if name.starts_with("group") => self.one_of(&["g", "g", "other group"]),
            _ if name.starts_with("consumer") => self.one_of(&["alice", "bob", "carol"]),
            _ if name == "min-idle-time" => number(self.rng.u64(..3)),
            ArgKind::Double => number(self.rng.i64(-50..50) as f64 / 4.0),
            ArgKind::UnixTime if name.contains("milliseconds") => number(self.time()),
            ArgKind::UnixTime => number(self.time() / 1000),
            ArgKind::Integer if name.contains("milliseconds") => {
                number(self.time().saturating_sub(self.now))
            }
            ArgKind::Integer if name.contains("seconds") => number(self.rng.u64(1..4)),
            ArgKind::Integer if name == "value" && self.spec.name == "setbit" => {
                number(self.rng.u64(..2))
            }
            ArgKind::Integer if name.contains("db") || name.contains("index") => {
                number(self.rng.usize(..DATABASES))
            }
            ArgKind::Integer if self.rng.bool() => number(self.rng.i64(0..300)),
            ArgKind::Integer => number(self.rng.i64(-3..10)),
            _ if name == "library-name" => scripts::library(self.taste, self.rng).into_bytes(),
            _ if name == "function-code" => {
                let (library, text) = (scripts::library(self.taste, self.rng), self.text());
                scripts::code(&library, &text)
            }
            _ if self.spec.group == Group::Scripting && name == "serialized-value" => {
                let text = self.text();
                scripts::dump(self.taste, &text, self.rng)
            }
            _ if name == "encoding" => self.one_of(&["u1", "i8", "u13", "i64"]),
            _ if self.spec.group == Group::SortedSet && ["min", "max"].contains(&name) => {
                self.end_of_range()
            }
            // Few, so that written fields are hit again.
            _ if name == "field" && self.rng.usize(..4) > 0 => number(self.rng.u8(..8)),
            _ if name == "operation" => self.one_of(&["AND", "OR", "XOR", "NOT"]),
            _ => self.value(),
        }
    }

    /// Returns the ID of an entry that may exist; for XADD, one that may come.
    fn id(&mut self) -> Vec<u8> {
        match self.spec.name {
            "xadd" => format!("{}-*", self.now - 1),
            "xreadgroup" if self.rng.usize(..4) > 0 => ">".into(),
            "create" | "setid" if self.rng.bool() => "0".into(),
            _ => format!("{}-{}", self.now - 1, self.rng.u8(..40)),
        }
        .into_bytes()
    }

    fn one_of(&mut self, words: &[&str]) -> Vec<u8> {
        words[self.rng.usize(..words.len())].as_bytes().to_vec()
    }

    /// Returns an end of a range of scores, ranks or names: the command's name tells which it
    /// takes.
    fn end_of_range(&mut self) -> Vec<u8> {
        if self.spec.name.ends_with("lex") {
            return self.one_of(&["-", "+", "[1", "(5", "[a"]);
        }
        number(self.rng.i64(-13..13))
    }

    /// Returns a point in time: near, so that some keys expire, or far.
    fn time(&mut self) -> u64 {
        let far = [500, 1500, 2500, 1_000_000][self.rng.usize(..4)];
        self.now + self.rng.u64(..far) + 1
    }

    fn key(&mut self) -> Vec<u8> {
        let kind = match self.spec.group {
            _ if self.spec.name == "sort" => ["l", "t", "z"][self.rng.usize(..3)],
            Group::Generic => ["s", "h", "l", "z", "t", "x"][self.rng.usize(..6)],
            Group::Hash => "h",
            Group::List => "l",
            Group::Set => "t",
            Group::SortedSet | Group::Geo => "z",
            Group::Stream => "x",
            _ => "s",
        };
        // Until a group has commands, its keys would never exist.
        let kind = if self.rng.bool() { "s" } else { kind };
        let n = self.rng.usize(..self.taste.keys);
        let tag = if n.is_multiple_of(4) { "{tag}" } else { "" };
        match self.taste.owner {
            Some(thread) => format!("{tag}{}{kind}{n}", char::from(b'a' + thread)).into_bytes(),
            None => format!("{tag}{kind}{n}").into_bytes(),
        }
    }

    /// Returns letters, as many as a value has.
    fn text(&mut self) -> String {
        let len = self.value().len();
        (0..len).map(|_| self.rng.lowercase()).collect()
    }

    fn value(&mut self) -> Vec<u8> {
        if self.rng.usize(..3) == 0 {
            return number(self.rng.i64(-1000..1000));
        }
        let lengths: &[usize] =
            if self.rng.usize(..self.taste.large_one_in) == 0 { &LARGE } else { &LENGTHS };
        let len = lengths[self.rng.usize(..lengths.len())];
        let mut bytes = vec![0; len];
        Rng::with_seed(self.rng.u64(..)).fill(&mut bytes);
        bytes
    }
}

fn number(value: impl std::fmt::Display) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Corrects the word that counts the fields after FIELDS, which come last.
fn count_fields(spec: &CommandSpec, words: &mut [Vec<u8>]) {
    let Some(arg) = spec.args.last().filter(|arg| arg.token == "FIELDS") else { return };
    let Some(at) = words.iter().position(|word| word == b"FIELDS") else { return };
    let ArgKind::Block(of) = arg.kind else { return };
    let each = if matches!(of[1].kind, ArgKind::Block(_)) { 2 } else { 1 };
    words[at + 1] = number((words.len() - at - 2) / each);
}

/// Corrects the word that counts a request's keys.
fn count_keys(spec: &CommandSpec, words: &mut [Vec<u8>]) {
    for keys in spec.keys {
        if let (commands::spec::Begin::Index(begin), Find::KeyNum { at, first, step }) =
            (keys.begin, keys.find)
        {
            let named = |word: &Vec<u8>| {
                word.len() < 12 && word.is_ascii() && matches!(word[0], b'a'..=b'z' | b'{')
            };
            let rest = words.iter().skip(begin + first).step_by(step.max(1));
            let count = rest.take_while(|word| named(word)).count().max(1);
            if let Some(word) = words.get_mut(begin + at) {
                *word = number(count);
            }
        }
    }
}
