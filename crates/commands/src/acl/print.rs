//! Prints rules: for GETUSER, for LIST, and for the lines of a file.
//!
//! The commands that a user may execute are stored as a set. It is described by the few categories
//! that come close to it, then by the commands in which it differs from them, as in Redis 7.0.

use engine::session::users::{Account, KeyPattern, Patterns, Rules, Sanitize, Selector};
use engine::spec::ACL_NAMES;
use engine::table::Command;

use super::parse::Parser;

/// Returns the line of a user, as shown by LIST and stored in a file.
pub(super) fn line(parser: &Parser<'_>, user: &Account) -> Vec<u8> {
    let rules = user.rules();
    let mut words = vec![b"user".to_vec(), user.name().to_vec()];
    words.extend(flags(&rules).iter().map(|flag| flag.as_bytes().to_vec()));
    words.extend(rules.passwords.iter().map(|digest| format!("#{digest}").into_bytes()));
    words.push(selector(parser, &rules.root));
    for other in &rules.selectors {
        words.push([b"(", selector(parser, other).as_slice(), b")"].concat());
    }
    words.join(&b' ')
}

/// Returns the flags of a user.
pub(super) fn flags(rules: &Rules) -> Vec<&'static str> {
    let mut flags = vec![if rules.is_enabled { "on" } else { "off" }];
    flags.extend(rules.no_password.then_some("nopass"));
    match rules.sanitize {
        Sanitize::Unsaid => {}
        Sanitize::Yes => flags.push("sanitize-payload"),
        Sanitize::Skip => flags.push("skip-sanitize-payload"),
    }
    flags
}

fn selector(parser: &Parser<'_>, selector: &Selector) -> Vec<u8> {
    let mut words = Vec::new();
    words.extend(Some(keys(&selector.keys)).filter(|keys| !keys.is_empty()));
    if !selector.channels.all {
        words.push(b"resetchannels".to_vec());
    }
    words.extend(Some(channels(&selector.channels)).filter(|channels| !channels.is_empty()));
    words.push(commands(parser, selector));
    words.join(&b' ')
}

/// Returns the patterns of keys, as rules.
pub(super) fn keys(keys: &Patterns<KeyPattern>) -> Vec<u8> {
    if keys.all {
        return b"~*".to_vec();
    }
    let text = |key: &KeyPattern| {
        let sign: &[u8] = match (key.access.reads, key.access.writes) {
            (true, false) => b"%R~",
            (false, true) => b"%W~",
            _ => b"~",
        };
        [sign, &key.pattern].concat()
    };
    keys.some.iter().map(text).collect::<Vec<_>>().join(&b' ')
}

/// Returns the patterns of channels, as rules.
pub(super) fn channels(channels: &Patterns<Box<[u8]>>) -> Vec<u8> {
    if channels.all {
        return b"&*".to_vec();
    }
    let texts = channels.some.iter().map(|name| [b"&", &**name].concat());
    texts.collect::<Vec<_>>().join(&b' ')
}

/// Returns the commands that a selector allows, as rules.
pub(super) fn commands(parser: &Parser<'_>, selector: &Selector) -> Vec<u8> {
    let adds = !selector.commands.is_subtractive();
    let (all, sign) = if adds { ("-@all", "+") } else { ("+@all", "-") };
    let mut words = vec![all.as_bytes().to_vec()];
    // The rules written so far, and those still to be written.
    let (mut said, mut left) = (Selector::default(), selector.clone());
    said.commands.set_all(parser.table.len(), !adds);
    let mut named = 0;
    while let Some((category, name)) = best_category(parser, &left, adds, named) {
        words.push(format!("{sign}@{name}").into_bytes());
        parser.set_category(&mut said, category, adds);
        parser.set_category(&mut left, category, !adds);
        named |= category;
    }
    for command in parser.table.top() {
        single(parser, selector, &mut said, command, &mut words);
        for sub in parser.table.subs_of(command) {
            single(parser, selector, &mut said, sub, &mut words);
        }
    }
    for (name, yes) in selector.commands.elsewhere() {
        words.push(format!("{}{name}", if yes { "+" } else { "-" }).into_bytes());
    }
    words.join(&b' ')
}

/// Returns the category that covers most of the remaining commands, if it covers more right than
/// wrong ones: the one with the fewest wrong commands, then with the most right ones.
fn best_category(
    parser: &Parser<'_>,
    left: &Selector,
    adds: bool,
    named: u32,
) -> Option<(u32, &'static str)> {
    let mut best = None;
    for &(category, name) in ACL_NAMES.iter().filter(|(category, _)| named & category == 0) {
        let members = parser.table.all().iter();
        let members = members.filter(|command| command.spec.categories() & category != 0);
        let (mut same, mut different) = (0, 0);
        for command in members {
            *(if left.commands.has(command.id) == adds { &mut same } else { &mut different }) += 1;
        }
        let is_better = |&(_, _, least, most): &(u32, &str, usize, usize)| {
            different < least || different == least && same > most
        };
        if same > different && best.as_ref().is_none_or(is_better) {
            best = Some((category, name, different, same));
        }
    }
    best.map(|(category, name, ..)| (category, name))
}

/// Writes the rule of one command if the rules so far do not imply it.
fn single(
    parser: &Parser<'_>,
    selector: &Selector,
    said: &mut Selector,
    command: &Command,
    words: &mut Vec<Vec<u8>>,
) {
    let (yes, name) = (selector.commands.has(command.id), command.full_name());
    if yes != said.commands.has(command.id) {
        words.push(format!("{}{name}", if yes { "+" } else { "-" }).into_bytes());
        parser.set(said, command, yes);
    }
    if !yes {
        for first in selector.commands.first_arguments(command.id) {
            words.push([b"+", name.as_bytes(), b"|", first].concat());
        }
    }
}
