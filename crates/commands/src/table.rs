//! The table of all commands: built once from the groups' lists, looked up for every request.
//!
//! Lookup is case-insensitive and does not allocate: an open-addressed table over the folded
//! bytes of the name, at most half full. Every command and subcommand has a dense number, by which
//! statistics are kept.

use std::sync::atomic::Ordering::Relaxed;

use crate::client::Client;
use crate::spec::{CommandSpec, TOUCHES};

/// A command or subcommand with its number in the table.
#[derive(Clone, Copy)]
pub struct Command {
    /// Dense number, below [`Table::len`].
    pub id: usize,
    /// Its description.
    pub spec: &'static CommandSpec,
    /// The container, for a subcommand.
    pub parent: Option<&'static CommandSpec>,
    first_sub: usize,
}

impl Command {
    /// Returns `get`, or `config|get` for a subcommand.
    pub fn full_name(&self) -> String {
        match self.parent {
            Some(parent) => format!("{}|{}", parent.name, self.spec.name),
            None => self.spec.name.to_owned(),
        }
    }

    /// Returns true if the keys that it reads count as used (CLIENT NO-TOUCH).
    pub(crate) fn touches(&self, client: &Client) -> bool {
        !client.no_touch.load(Relaxed) || self.spec.is(TOUCHES)
    }
}

/// What a request's first words name.
#[derive(Clone, Copy)]
pub enum Lookup<'t> {
    /// A command that can be executed.
    Found(&'t Command),
    /// A container, without or with an unknown subcommand.
    Container(&'t Command),
    /// Nothing known.
    Unknown,
}

/// All commands.
pub struct Table {
    commands: Vec<Command>,
    top: usize,
    slots: Vec<u16>,
}

const VACANT: u16 = u16::MAX;

impl Table {
    /// Returns a table of the given lists of top-level commands.
    pub fn new(groups: &[&[&'static CommandSpec]]) -> Table {
        let tops = groups.iter().flat_map(|group| group.iter().copied());
        let mut commands: Vec<Command> =
            tops.map(|spec| Command { id: 0, spec, parent: None, first_sub: 0 }).collect();
        let top = commands.len();
        for at in 0..top {
            let parent = commands[at].spec;
            commands[at].first_sub = commands.len();
            commands.extend(parent.subs.iter().map(|spec| Command {
                id: 0,
                spec,
                parent: Some(parent),
                first_sub: 0,
            }));
        }
        for (id, command) in commands.iter_mut().enumerate() {
            command.id = id;
        }
        let slots = vec![VACANT; (top * 2).next_power_of_two().max(2)];
        let mut table = Table { commands, top, slots };
        for at in 0..top {
            let slot = table.probe(table.commands[at].spec.name.as_bytes());
            assert!(table.slots[slot] == VACANT, "two commands of one name");
            table.slots[slot] = at as u16;
        }
        table
    }

    /// Returns number of commands and subcommands.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Returns true if the table is empty.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Returns the top-level commands.
    pub fn top(&self) -> &[Command] {
        &self.commands[..self.top]
    }

    /// Commands and subcommands, by number.
    pub fn all(&self) -> &[Command] {
        &self.commands
    }

    /// Returns the subcommands of a container.
    pub fn subs(&self, of: &Command) -> &[Command] {
        &self.commands[of.first_sub..of.first_sub + of.spec.subs.len()]
    }

    /// Returns the top-level command of this name, in any case.
    pub fn get(&self, name: &[u8]) -> Option<&Command> {
        match self.slots[self.probe(name)] {
            VACANT => None,
            at => Some(&self.commands[at as usize]),
        }
    }

    /// Returns the subcommands of a command, none where it is no container.
    pub(crate) fn subs_of(&self, of: &Command) -> &[Command] {
        if of.spec.is_container() { self.subs(of) } else { &[] }
    }

    /// Returns the subcommand of this name, in any case.
    pub fn sub(&self, of: &Command, name: &[u8]) -> Option<&Command> {
        self.subs(of).iter().find(|c| c.spec.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Returns the command or subcommand of a full name such as `config|get`.
    pub fn by_full_name(&self, name: &[u8]) -> Option<&Command> {
        match name.iter().position(|b| *b == b'|') {
            None => self.get(name),
            Some(bar) => self.sub(self.get(&name[..bar])?, &name[bar + 1..]),
        }
    }

    /// Returns what the request names.
    pub fn find(&self, args: &[&[u8]]) -> Lookup<'_> {
        let Some(command) = args.first().and_then(|name| self.get(name)) else {
            return Lookup::Unknown;
        };
        if !command.spec.is_container() || args.len() == 1 {
            return Lookup::Found(command);
        }
        match args.get(1).map(|name| self.sub(command, name)) {
            Some(Some(sub)) => Lookup::Found(sub),
            _ => Lookup::Container(command),
        }
    }

    fn probe(&self, name: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = fold(name) as usize & mask;
        loop {
            let at = self.slots[slot];
            if at == VACANT
                || self.commands[at as usize].spec.name.as_bytes().eq_ignore_ascii_case(name)
            {
                return slot;
            }
            slot = (slot + 1) & mask;
        }
    }
}

fn fold(name: &[u8]) -> u32 {
    let hash = name.iter().fold(0x811c_9dc5u32, |hash, byte| {
        (hash ^ u32::from(byte | 0x20)).wrapping_mul(0x0100_0193)
    });
    hash ^ (hash >> 15)
}
