//! Whether a user may execute a command with its arguments.
//!
//! A command is allowed if one selector of the user allows all of it: the command itself, what it
//! does with each of its keys, and its channels. The command table says which keys it has and what
//! it does with them, as for the locks.

use crate::session::Session;
use crate::session::users::{Access, Denied, Reason, Rules, Selector};
use crate::table::Command;
use crate::table::spec::*;

/// Checks a command that is about to be executed in a session.
#[inline]
pub(crate) fn check(session: &Session, command: &Command, args: &[&[u8]]) -> Result<(), Denied> {
    if session.user.is_unlimited() {
        return Ok(());
    }
    check_rules(&session.user.rules(), command, args)
}

/// Checks a command with its arguments. If it is denied, the reported reason is that of the
/// selector that came farthest.
#[cold]
pub fn check_rules(rules: &Rules, command: &Command, args: &[&[u8]]) -> Result<(), Denied> {
    let mut worst = Denied { reason: Reason::Command, at: 0 };
    for selector in rules.all_selectors() {
        match check_selector(selector, command, args) {
            Ok(()) => return Ok(()),
            Err(denied) if (denied.reason, denied.at) > (worst.reason, worst.at) => worst = denied,
            Err(_) => {}
        }
    }
    Err(worst)
}

fn check_selector(selector: &Selector, command: &Command, args: &[&[u8]]) -> Result<(), Denied> {
    let first = args.get(if command.parent.is_some() { 2 } else { 1 }).copied();
    // Commands needed to authenticate are allowed to every user.
    if !command.spec.has(NO_AUTH) && !selector.commands.has_with(command.id, first) {
        return Err(Denied { reason: Reason::Command, at: 0 });
    }
    if !selector.keys.all {
        each_key(command, args, |at, flags| match selector.keys.admits(args[at], access(flags)) {
            true => Ok(()),
            false => Err(Denied { reason: Reason::Key, at }),
        })?;
    }
    if !selector.channels.all && args.len() > 1 {
        let is_pattern = command.spec.channels == Some(Channels::Patterns);
        for at in channels(command, args) {
            if !selector.channels.admits_channel(args[at], is_pattern) {
                return Err(Denied { reason: Reason::Channel, at });
            }
        }
    }
    Ok(())
}

/// Calls `each` with the place of every key and the use of it. If the arguments do not fit the
/// command, it has no keys.
fn each_key(
    command: &Command,
    args: &[&[u8]],
    mut each: impl FnMut(usize, u16) -> Result<(), Denied>,
) -> Result<(), Denied> {
    if let Some(own) = command.spec.own_keys {
        let flags = command.spec.keys.first().map_or(0, |spec| spec.flags);
        return own(args).try_for_each(|at| each(at, flags));
    }
    let mut keys: smallvec::SmallVec<[(usize, u16); 8]> = smallvec::SmallVec::new();
    for spec in command.spec.keys.iter().filter(|spec| spec.flags & KEY_NOT_KEY == 0) {
        let flags = command.spec.key_flags.map_or(spec.flags, |flags| flags(args));
        if !spec.each(args, |at| keys.push((at, flags))) {
            return Ok(());
        }
    }
    keys.into_iter().try_for_each(|(at, flags)| each(at, flags))
}

fn access(flags: u16) -> Access {
    Access {
        reads: flags & KEY_ACCESS != 0,
        writes: flags & (KEY_INSERT | KEY_DELETE | KEY_UPDATE) != 0,
    }
}

/// Returns the positions of the channels that a command sends to or listens to.
fn channels(command: &Command, args: &[&[u8]]) -> std::ops::Range<usize> {
    match command.spec.channels {
        None => 0..0,
        Some(Channels::First) => 1..2,
        Some(Channels::All | Channels::Patterns) => 1..args.len(),
    }
}

/// Returns true if a session may execute a command and read every key: SORT needs that when it
/// looks up keys which it does not name.
pub fn may_read_all_keys(session: &Session, command: &Command, args: &[&[u8]]) -> bool {
    const READS: Access = Access { reads: true, writes: false };
    if session.user.is_unlimited() {
        return true;
    }
    let reads_all = |selector: &Selector| {
        selector.keys.admits_every(READS) && check_selector(selector, command, args).is_ok()
    };
    session.user.rules().all_selectors().any(reads_all)
}
