//! Allowed commands: a bit for each number of the table, and what bits cannot express.

use std::collections::BTreeMap;

/// A set of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    bits: Vec<u64>,
    /// Whether all are allowed, with nothing taken away since.
    all: bool,
    /// Whether `+@all` was the last rule about all commands: those of later releases are then
    /// allowed.
    future: bool,
    /// Commands that are allowed with these first arguments only.
    first_arguments: BTreeMap<usize, Vec<Box<[u8]>>>,
    /// The rules about commands of Redis that are not served here, so that they are kept.
    elsewhere: BTreeMap<&'static str, bool>,
}

impl Commands {
    /// Returns all commands.
    pub(crate) fn all(count: usize) -> Commands {
        let mut commands = Commands::default();
        commands.set_all(count, true);
        commands
    }

    /// Returns true if it has all commands.
    pub(crate) fn is_all(&self) -> bool {
        self.all
    }

    /// Returns true if it starts from all commands rather than from none.
    pub fn is_subtractive(&self) -> bool {
        self.future
    }

    /// Returns true if a command is in it, whatever its arguments.
    pub fn has(&self, id: usize) -> bool {
        self.bits.get(id / 64).is_some_and(|word| word >> (id % 64) & 1 == 1)
    }

    /// Returns true if a command is allowed with this first argument.
    pub(crate) fn has_with(&self, id: usize, first: Option<&[u8]>) -> bool {
        let allowed = || self.first_arguments(id).iter();
        self.all
            || self.has(id)
            || first.is_some_and(|first| allowed().any(|arg| arg.eq_ignore_ascii_case(first)))
    }

    /// Returns the first arguments with which alone a command is allowed.
    pub fn first_arguments(&self, id: usize) -> &[Box<[u8]>] {
        self.first_arguments.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Returns the rules about commands that are not served here.
    pub fn elsewhere(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let of_container = |name| container(name).and_then(|name| self.elsewhere.get(name));
        let is_news = move |name, yes| yes != *of_container(name).unwrap_or(&self.future);
        let all = self.elsewhere.iter().map(|(name, yes)| (*name, *yes));
        all.filter(move |(name, yes)| is_news(name, *yes))
    }

    /// Allows all of `count` commands, or none.
    pub fn set_all(&mut self, count: usize, yes: bool) {
        let words = count.div_ceil(64);
        *self = Commands {
            bits: vec![if yes { u64::MAX } else { 0 }; words],
            all: yes,
            future: yes,
            ..Commands::default()
        };
    }

    /// Allows or forbids a command, whatever its arguments.
    pub fn set(&mut self, id: usize, yes: bool) {
        let word = id / 64;
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        if yes {
            self.bits[word] |= 1 << (id % 64);
        } else {
            self.bits[word] &= !(1 << (id % 64));
            self.all = false;
        }
        self.first_arguments.remove(&id);
    }

    /// Allows a command with this first argument.
    pub fn allow_first(&mut self, id: usize, argument: &[u8]) {
        let arguments = self.first_arguments.entry(id).or_default();
        if !arguments.iter().any(|known| known.eq_ignore_ascii_case(argument)) {
            arguments.push(argument.into());
        }
    }

    /// Keeps a rule about a command that is not served here, which includes its subcommands.
    pub fn set_elsewhere(&mut self, name: &'static str, yes: bool) {
        self.elsewhere.retain(|known, _| container(known) != Some(name));
        self.elsewhere.insert(name, yes);
    }
}

/// Returns the name of a subcommand's container.
fn container(name: &str) -> Option<&str> {
    name.split_once('|').map(|(container, _)| container)
}
