//! Parses rules, word by word, as ACL SETUSER and the lines of an ACL file contain them.

use std::borrow::Cow;

use engine::session::users::password::digest;
use engine::session::users::{Access, Patterns, Rules, Sanitize, Selector};
use engine::spec::category;
use engine::table::{Command, Table};

use super::elsewhere;

/// Hexadecimal digits of a SHA-256.
const DIGITS: usize = 64;

/// Why a word is not a rule; the texts are Redis's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RuleError {
    #[error("Unknown command or category name in ACL")]
    Unknown,
    #[error("Syntax error")]
    Syntax,
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns"
    )]
    KeyAfterAll,
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels"
    )]
    ChannelAfterAll,
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
    )]
    Hash,
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstArgumentOfSubcommand,
}

/// Interprets the words of rules.
#[derive(Clone, Copy)]
pub(super) struct Parser<'t> {
    pub(super) table: &'t Table,
    /// True if new users and selectors may use all channels.
    pub(super) all_channels: bool,
}

impl Parser<'_> {
    /// Returns the rules of a new user.
    pub(super) fn new_user(&self) -> Rules {
        Rules::new(self.all_channels)
    }

    /// Changes a user by one word.
    pub(super) fn apply(&self, rules: &mut Rules, word: &[u8]) -> Result<(), RuleError> {
        let is = |text: &str| word.eq_ignore_ascii_case(text.as_bytes());
        match word.first() {
            // Redis ignores an empty word.
            None => {}
            _ if is("on") => rules.is_enabled = true,
            _ if is("off") => rules.is_enabled = false,
            _ if is("nopass") => {
                rules.no_password = true;
                rules.passwords.clear();
            }
            _ if is("resetpass") => {
                rules.no_password = false;
                rules.passwords.clear();
            }
            _ if is("skip-sanitize-payload") => rules.sanitize = Sanitize::Skip,
            _ if is("sanitize-payload") => rules.sanitize = Sanitize::Yes,
            _ if is("clearselectors") => rules.selectors.clear(),
            _ if is("reset") => {
                *rules = Rules { sanitize: Sanitize::Yes, ..self.new_user() };
            }
            Some(b'>') => add_password(rules, digest(&word[1..])),
            Some(b'#') => add_password(rules, hash(&word[1..])?),
            Some(b'<') => remove_password(rules, &digest(&word[1..]))?,
            Some(b'!') => remove_password(rules, &hash(&word[1..])?)?,
            Some(b'(') if word.ends_with(b")") => {
                let selector = self.selector(&word[1..word.len() - 1])?;
                rules.selectors.push(selector);
            }
            _ => self.select(&mut rules.root, word)?,
        }
        Ok(())
    }

    /// Parses the words of a selector.
    fn selector(&self, words: &[u8]) -> Result<Selector, RuleError> {
        let mut selector = Selector::new(self.all_channels);
        for word in words.split(|byte| *byte == b' ').filter(|word| !word.is_empty()) {
            // In a file, the parenthesis would end the selector.
            if word.ends_with(b")") {
                return Err(RuleError::Syntax);
            }
            self.select(&mut selector, word)?;
        }
        Ok(selector)
    }

    /// Changes a selector by one word.
    fn select(&self, selector: &mut Selector, word: &[u8]) -> Result<(), RuleError> {
        let is = |text: &str| word.eq_ignore_ascii_case(text.as_bytes());
        let all = self.table.len();
        match word.first() {
            _ if is("allkeys") || is("~*") => selector.keys = Patterns::every(true),
            _ if is("resetkeys") => selector.keys = Patterns::every(false),
            _ if is("allchannels") || is("&*") => selector.channels = Patterns::every(true),
            _ if is("resetchannels") => selector.channels = Patterns::every(false),
            _ if is("allcommands") || is("+@all") => selector.commands.set_all(all, true),
            _ if is("nocommands") || is("-@all") => selector.commands.set_all(all, false),
            // Redis checks the pattern only if one can be added.
            Some(b'~' | b'%') if selector.keys.all => return Err(RuleError::KeyAfterAll),
            Some(b'~' | b'%') => {
                let (access, pattern) = key_pattern(word)?;
                check_pattern(pattern)?;
                selector.keys.add(pattern, access);
            }
            Some(b'&') if selector.channels.all => return Err(RuleError::ChannelAfterAll),
            Some(b'&') => {
                check_pattern(word)?;
                selector.channels.add_channel(&word[1..]);
            }
            Some(sign @ (b'+' | b'-')) => self.command(selector, &word[1..], *sign == b'+')?,
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    /// Allows or forbids a command, a subcommand, a category, or a command with a first argument.
    fn command(&self, selector: &mut Selector, name: &[u8], yes: bool) -> Result<(), RuleError> {
        if let Some(name) = name.strip_prefix(b"@") {
            let category = category(name).ok_or(RuleError::Unknown)?;
            self.set_category(selector, category, yes);
            return Ok(());
        }
        if let Some(command) = self.table.by_original_name(name) {
            self.set(selector, command, yes);
            return Ok(());
        }
        if let Some(name) = elsewhere::name(name) {
            selector.commands.set_elsewhere(name, yes);
            return Ok(());
        }
        let bar = name.iter().rposition(|byte| *byte == b'|').filter(|_| yes);
        let (name, first) = name.split_at(bar.ok_or(RuleError::Unknown)?);
        let command = self.table.by_original_name(name).ok_or(RuleError::Unknown)?;
        match (command.parent, &first[1..]) {
            (Some(_), _) => Err(RuleError::FirstArgumentOfSubcommand),
            (None, b"") => Err(RuleError::Syntax),
            (None, _) if command.spec.is_container() => Err(RuleError::Unknown),
            (None, first) => {
                check_pattern(first)?;
                selector.commands.allow_first(command.id, first);
                Ok(())
            }
        }
    }

    /// Allows or forbids a command with its subcommands.
    pub(super) fn set(&self, selector: &mut Selector, command: &Command, yes: bool) {
        selector.commands.set(command.id, yes);
        for sub in self.table.subs_of(command) {
            selector.commands.set(sub.id, yes);
        }
    }

    /// Allows or forbids the commands of a category. A container takes all of its subcommands
    /// along.
    pub(super) fn set_category(&self, selector: &mut Selector, category: u32, yes: bool) {
        for command in self.table.all() {
            if command.spec.categories() & category != 0 {
                self.set(selector, command, yes);
            }
        }
    }
}

fn add_password(rules: &mut Rules, digest: String) {
    if !rules.passwords.contains(&digest) {
        rules.passwords.push(digest);
    }
    rules.no_password = false;
}

fn remove_password(rules: &mut Rules, digest: &str) -> Result<(), RuleError> {
    let at = rules.passwords.iter().position(|known| known == digest);
    rules.passwords.remove(at.ok_or(RuleError::NoSuchPassword)?);
    Ok(())
}

fn hash(text: &[u8]) -> Result<String, RuleError> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    match str::from_utf8(text) {
        Ok(hash) if text.len() == DIGITS && text.iter().all(is_digit) => Ok(hash.to_owned()),
        _ => Err(RuleError::Hash),
    }
}

/// Returns what `~pattern` and `%RW~pattern` allow. As in Redis, a `%R` without a pattern has an
/// empty one.
fn key_pattern(word: &[u8]) -> Result<(Access, &[u8]), RuleError> {
    if let Some(pattern) = word.strip_prefix(b"~") {
        return Ok((Access::BOTH, pattern));
    }
    let mut access = Access::default();
    let mut pattern = &word[word.len()..];
    for (at, byte) in word.iter().enumerate().skip(1) {
        match byte.to_ascii_uppercase() {
            b'R' if !access.reads => access.reads = true,
            b'W' if !access.writes => access.writes = true,
            b'~' if access != Access::default() => {
                pattern = &word[at + 1..];
                break;
            }
            _ => return Err(RuleError::Syntax),
        }
    }
    if access == Access::default() { Err(RuleError::Syntax) } else { Ok((access, pattern)) }
}

/// Refuses patterns that a line of a file cannot express.
fn check_pattern(pattern: &[u8]) -> Result<(), RuleError> {
    match pattern.iter().any(|byte| *byte == 0 || byte.is_ascii_whitespace() || *byte == 0x0b) {
        true => Err(RuleError::Syntax),
        false => Ok(()),
    }
}

/// Joins the words of each selector into one, whatever spaces it contains. Fails with the first
/// word of a selector that does not end.
pub(super) fn joined<'a>(words: &[&'a [u8]]) -> Result<Vec<Cow<'a, [u8]>>, &'a [u8]> {
    let mut all: Vec<Cow<'a, [u8]>> = Vec::new();
    let mut open: Option<(&'a [u8], Vec<u8>)> = None;
    for word in words {
        match &mut open {
            Some((_, selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(word);
            }
            None if word.starts_with(b"(") && !word.ends_with(b")") => {
                open = Some((word, word.to_vec()));
            }
            None => all.push(Cow::Borrowed(word)),
        }
        if word.ends_with(b")")
            && let Some((_, selector)) = open.take()
        {
            all.push(Cow::Owned(selector));
        }
    }
    open.map_or(Ok(all), |(begin, _)| Err(begin))
}
