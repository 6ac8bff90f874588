//! The table of all commands: built once from the groups' lists, searched for every request.
//!
//! Lookup is case-insensitive and does not allocate: an open-addressed table over the folded bytes
//! of the name, at most half full. Every command and subcommand has a dense number, which
//! statistics use as an index.
//!
//! `rename-command` gives commands other names, or none, in requests. The command log and the rules
//! of users always use the original names.

pub mod spec;

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use crate::execute::call::Run;
use crate::session::client::Client;
use crate::table::spec::{CommandSpec, TOUCHES};

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

    /// Returns its original name; for a subcommand, that of its container.
    pub(crate) fn first_word(&self) -> &'static str {
        self.parent.unwrap_or(self.spec).name
    }

    /// Returns true if its reads count as uses of the keys (CLIENT NO-TOUCH).
    pub(crate) fn touches(&self, client: &Client) -> bool {
        !client.no_touch.load(Relaxed) || self.spec.is(TOUCHES)
    }
}

/// The result of looking up a request.
#[derive(Clone, Copy)]
pub enum Lookup<'t> {
    /// A command that can be executed.
    Found(&'t Command),
    /// A container, without or with an unknown subcommand.
    Container(&'t Command),
    /// An unknown command.
    Unknown,
}

/// All commands.
pub struct Table {
    commands: Vec<Command>,
    top: usize,
    /// By original name, those that requests call by it.
    slots: Vec<u16>,
    renamed: Option<Box<Renamed>>,
}

/// The changes of `rename-command`.
struct Renamed {
    /// By new name, in lower case.
    names: HashMap<Vec<u8>, u16>,
    /// By original name, all.
    slots: Vec<u16>,
}

/// Why renaming a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenameError {
    /// There is no command of the old name.
    #[error("No such command in rename-command")]
    Unknown,
    /// There is one of the new name.
    #[error("Target command name already exists")]
    Taken,
}

const VACANT: u16 = u16::MAX;

impl Table {
    /// Returns a table of the given lists of top-level commands.
    pub fn new(groups: &[&[&'static CommandSpec]]) -> Table {
        let tops = groups.iter().flat_map(|group| group.iter().copied());
        let mut commands: Vec<Command> =
            tops.map(|spec| Command { id: 0, spec, parent: None, first_sub: 0 }).collect();
        let top = commands.len();
        assert!(top < usize::from(VACANT), "a slot cannot name so many commands");
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
            check(command.spec);
        }
        let mut table = Table { commands, top, slots: Vec::new(), renamed: None };
        table.slots = table.slots_of(|_| true);
        table
    }

    /// Returns the table of those top-level commands that are `wanted`, by original name.
    fn slots_of(&self, wanted: impl Fn(u16) -> bool) -> Vec<u16> {
        let mut slots = vec![VACANT; (self.top * 2).next_power_of_two().max(2)];
        for at in (0..self.top as u16).filter(|at| wanted(*at)) {
            let slot = self.probe(&slots, self.commands[usize::from(at)].spec.name.as_bytes());
            assert!(slots[slot] == VACANT, "two commands of one name");
            slots[slot] = at;
        }
        slots
    }

    /// Gives a top-level command another name; an empty one hides it from requests.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), RenameError> {
        let command = self.get(from).ok_or(RenameError::Unknown)?.id as u16;
        let all = match self.renamed.take() {
            Some(renamed) => renamed,
            None => Box::new(Renamed { names: HashMap::new(), slots: self.slots.clone() }),
        };
        let renamed = self.renamed.insert(all);
        renamed.names.retain(|_, known| *known != command);
        let others: Vec<u16> = self.slots.iter().copied().filter(|at| *at != command).collect();
        self.slots = self.slots_of(|at| others.contains(&at));
        if to.is_empty() {
            return Ok(());
        }
        if self.get(to).is_some() {
            return Err(RenameError::Taken);
        }
        let names = self.renamed.as_mut().map(|renamed| &mut renamed.names);
        names.and_then(|names| names.insert(to.to_ascii_lowercase(), command));
        Ok(())
    }

    /// Returns true if requests may use names other than the original ones.
    #[inline]
    pub(crate) fn is_renamed(&self) -> bool {
        self.renamed.is_some()
    }

    /// Returns true if requests can name the command.
    pub fn is_callable(&self, command: &Command) -> bool {
        let Some(renamed) = &self.renamed else { return true };
        let name = command.first_word().as_bytes();
        let top = renamed.slots[self.probe(&renamed.slots, name)];
        self.slots.contains(&top) || renamed.names.values().any(|at| *at == top)
    }

    /// Returns the number of commands and subcommands.
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

    /// Returns commands and subcommands, by number.
    pub fn all(&self) -> &[Command] {
        &self.commands
    }

    /// Returns the subcommands of a container.
    pub fn subs(&self, of: &Command) -> &[Command] {
        &self.commands[of.first_sub..of.first_sub + of.spec.subs.len()]
    }

    /// Returns the top-level command that requests call by this name, ignoring case.
    pub fn get(&self, name: &[u8]) -> Option<&Command> {
        match self.slots[self.probe(&self.slots, name)] {
            VACANT => self.renamed.as_ref().and_then(|renamed| {
                let at = renamed.names.get(&name.to_ascii_lowercase())?;
                Some(&self.commands[usize::from(*at)])
            }),
            at => Some(&self.commands[at as usize]),
        }
    }

    /// Returns the top-level command of this original name, ignoring case.
    fn original(&self, name: &[u8]) -> Option<&Command> {
        let slots = self.renamed.as_ref().map_or(&self.slots, |renamed| &renamed.slots);
        match slots[self.probe(slots, name)] {
            VACANT => None,
            at => Some(&self.commands[usize::from(at)]),
        }
    }

    /// Returns the subcommands of a command, none if it is no container.
    pub fn subs_of(&self, of: &Command) -> &[Command] {
        if of.spec.is_container() { self.subs(of) } else { &[] }
    }

    /// Returns the subcommand of this name, ignoring case.
    pub fn sub(&self, of: &Command, name: &[u8]) -> Option<&Command> {
        self.subs(of).iter().find(|c| c.spec.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Returns the command or subcommand of a full name such as `config|get`, as requests call it.
    pub fn by_full_name(&self, name: &[u8]) -> Option<&Command> {
        match name.iter().position(|b| *b == b'|') {
            None => self.get(name),
            Some(bar) => self.sub(self.get(&name[..bar])?, &name[bar + 1..]),
        }
    }

    /// Returns the command or subcommand of a full original name.
    pub fn by_original_name(&self, name: &[u8]) -> Option<&Command> {
        match name.iter().position(|b| *b == b'|') {
            None => self.original(name),
            Some(bar) => self.sub(self.original(&name[..bar])?, &name[bar + 1..]),
        }
    }

    /// Looks up the command of a request.
    pub fn find(&self, args: &[&[u8]]) -> Lookup<'_> {
        self.sub_of(args.first().and_then(|name| self.get(name)), args)
    }

    /// Looks up the command of a record of the command log.
    pub fn find_original(&self, args: &[&[u8]]) -> Lookup<'_> {
        self.sub_of(args.first().and_then(|name| self.original(name)), args)
    }

    #[inline]
    fn sub_of<'t>(&'t self, command: Option<&'t Command>, args: &[&[u8]]) -> Lookup<'t> {
        let Some(command) = command else { return Lookup::Unknown };
        if !command.spec.is_container() || args.len() == 1 {
            return Lookup::Found(command);
        }
        match args.get(1).map(|name| self.sub(command, name)) {
            Some(Some(sub)) => Lookup::Found(sub),
            _ => Lookup::Container(command),
        }
    }

    fn probe(&self, slots: &[u16], name: &[u8]) -> usize {
        let mask = slots.len() - 1;
        let mut slot = fold(name) as usize & mask;
        loop {
            let at = slots[slot];
            if at == VACANT
                || self.commands[at as usize].spec.name.as_bytes().eq_ignore_ascii_case(name)
            {
                return slot;
            }
            slot = (slot + 1) & mask;
        }
    }
}

/// Checks at the start what a spec must not leave out.
fn check(spec: &CommandSpec) {
    let has_function = !matches!(spec.run, Run::Container);
    assert!(has_function || spec.is_container(), "{}: its spec has no function", spec.name);
    let least = spec.arity.unsigned_abs() as usize;
    assert!(spec.value.is_none_or(|at| at < least), "{}: its value may be missing", spec.name);
}

fn fold(name: &[u8]) -> u32 {
    let hash = name.iter().fold(0x811c_9dc5u32, |hash, byte| {
        (hash ^ u32::from(byte | 0x20)).wrapping_mul(0x0100_0193)
    });
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: CommandSpec =
        CommandSpec { name: "a", run: Run::Session(|_| Ok(())), ..CommandSpec::EMPTY };
    const B: CommandSpec = CommandSpec { name: "b", subs: &[&A], ..CommandSpec::EMPTY };

    fn name(found: Option<&Command>) -> Option<String> {
        found.map(Command::full_name)
    }

    #[test]
    fn a_renamed_command_has_its_new_name_alone() {
        let mut table = Table::new(&[&[&A, &B]]);
        assert_eq!(table.rename(b"B", b"Hidden"), Ok(()));
        assert_eq!(table.rename(b"b", b"c"), Err(RenameError::Unknown));
        assert_eq!(name(table.get(b"hIDDEN")), Some("b".into()));
        assert_eq!(name(table.by_full_name(b"hidden|a")), Some("b|a".into()));
        assert_eq!(name(table.get(b"b")), None);
        assert_eq!(name(table.get(b"a")), Some("a".into()));
        assert!(
            matches!(table.find(&[b"HIDDEN", b"A"]), Lookup::Found(sub) if sub.spec.name == "a")
        );
        assert!(matches!(table.find_original(&[b"b", b"a"]), Lookup::Found(_)));
        assert!(matches!(table.find_original(&[b"hidden", b"a"]), Lookup::Unknown));
    }

    #[test]
    fn names_are_exchanged_taken_away_and_refused() {
        let mut table = Table::new(&[&[&A, &B]]);
        assert_eq!(table.rename(b"a", b"B"), Err(RenameError::Taken));
        let mut table = Table::new(&[&[&A, &B]]);
        for (from, to) in [("a", "x"), ("b", "a"), ("x", "b")] {
            assert_eq!(table.rename(from.as_bytes(), to.as_bytes()), Ok(()));
        }
        assert_eq!(
            (name(table.get(b"a")), name(table.get(b"b"))),
            (Some("b".into()), Some("a".into()))
        );
        assert_eq!(table.rename(b"a", b""), Ok(()));
        assert_eq!(name(table.get(b"a")), None);
        let b = *table.by_original_name(b"b").expect("it is there");
        assert!(!table.is_callable(&b) && table.is_callable(table.get(b"b").expect("a")));
        assert_eq!(table.rename(b"", b"y"), Err(RenameError::Unknown));
    }
}
