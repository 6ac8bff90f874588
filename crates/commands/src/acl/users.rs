//! All users together: reading them from a file or a configuration, and closing the clients whom a
//! change affects.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use engine::Engine;
use engine::notify::receivers::Kind;
use engine::session::client::Client;
use engine::session::permissions::check_rules;
use engine::session::users::password::set_password;
use engine::session::users::{Account, DEFAULT, Rules};
use engine::table::{Lookup, Table};

use super::parse::{Parser, RuleError, joined};
use super::print;

/// Valid users, all of a file or all of a configuration.
pub struct UserSet(Vec<(Vec<u8>, Rules)>);

impl UserSet {
    /// Reads an ACL file, which has one line for each user. The error names all mistakes, with line
    /// and word. Without a line of its own the default user may do everything.
    pub(crate) fn of_file(
        table: &Table,
        all_channels: bool,
        name: &str,
        text: &[u8],
    ) -> Result<UserSet, String> {
        let parser = Parser { table, all_channels };
        let mut users = Vec::new();
        let mut wrong = String::new();
        for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let words: Vec<&[u8]> =
                line.trim_ascii().split(|byte| *byte == b' ').filter(|w| !w.is_empty()).collect();
            match words.as_slice() {
                [] => {}
                [b"user", user, rules @ ..] => {
                    let problems = add(&parser, &mut users, user, rules);
                    wrong += &in_line(&problems, name, at + 1, user);
                }
                _ => {
                    wrong += &format!("{name}:{}", at + 1);
                    wrong += " should start with user keyword followed by the username. ";
                }
            }
        }
        if !wrong.is_empty() {
            wrong += "WARNING: ACL errors detected, no change to the previously active ACL rules \
                      was performed";
            return Err(wrong);
        }
        if !users.iter().any(|(name, _)| name == DEFAULT) {
            users.push((DEFAULT.to_vec(), Rules::unlimited(table.len())));
        }
        Ok(UserSet(users))
    }

    /// Reads the `user` lines of a configuration, each a name and rules. The error is the number of
    /// the first wrong line, and what is wrong with it.
    pub(crate) fn of_lines(
        table: &Table,
        all_channels: bool,
        lines: &[Vec<&[u8]>],
    ) -> Result<UserSet, (usize, String)> {
        let parser = Parser { table, all_channels };
        let mut users = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            let [user, rules @ ..] = line.as_slice() else {
                return Err((at, "wrong number of arguments".to_owned()));
            };
            if let Some(wrong) = add(&parser, &mut users, user, rules).first() {
                let (word, why) = wrong.in_declaration(user);
                return Err((at, format!("Error in user declaration '{word}': {why}")));
            }
        }
        Ok(UserSet(users))
    }
}

/// What is wrong with a user.
enum Wrong {
    Name,
    Duplicate,
    /// The first word of a selector that does not end.
    Selector(Vec<u8>),
    Rule(Vec<u8>, RuleError),
}

impl Wrong {
    /// Returns the wrong word in a line of the configuration, and what is wrong with it.
    fn in_declaration(&self, user: &[u8]) -> (String, String) {
        let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
        let name = text(user);
        match self {
            Wrong::Name => (name.clone(), format!("username '{name}' contains invalid characters")),
            Wrong::Duplicate => {
                let why = "found. A user can only be defined once";
                (name.clone(), format!("Duplicate user '{name}' {why}"))
            }
            Wrong::Selector(word) => {
                let (word, why) = (text(word), "Unmatched parenthesis in acl selector starting at");
                (word.clone(), format!("{why} '{word}'"))
            }
            Wrong::Rule(word, error) => {
                let word = text(word);
                (word.clone(), format!("Error in applying operation '{word}': {error}"))
            }
        }
    }
}

/// Describes the mistakes in a line of a file in Redis's words: every unknown command or category,
/// and of other wrong rules only the first, without its word, which may be a password.
fn in_line(problems: &[Wrong], file: &str, line: usize, user: &[u8]) -> String {
    let (mut text, mut is_first) = (String::new(), true);
    let name = String::from_utf8_lossy(user);
    for problem in problems {
        text += &match problem {
            Wrong::Name => {
                format!("'{file}:{line}: username '{name}' contains invalid characters. ")
            }
            Wrong::Duplicate => format!("WARNING: Duplicate user '{name}' found on line {line}. "),
            Wrong::Selector(_) => {
                format!("{file}:{line}: Unmatched parenthesis in selector definition.")
            }
            Wrong::Rule(word, error @ RuleError::Unknown) => {
                let word = String::from_utf8_lossy(word);
                format!("{file}:{line}: Error in applying operation '{word}': {error}. ")
            }
            Wrong::Rule(_, error) if std::mem::take(&mut is_first) => {
                format!("{file}:{line}: {error}. ")
            }
            Wrong::Rule(..) => String::new(),
        };
    }
    text
}

/// Adds a user, and returns the mistakes in its rules.
fn add(
    parser: &Parser<'_>,
    users: &mut Vec<(Vec<u8>, Rules)>,
    name: &[u8],
    rules: &[&[u8]],
) -> Vec<Wrong> {
    if !is_name(name) {
        return vec![Wrong::Name];
    }
    if users.iter().any(|(known, _)| known == name) {
        return vec![Wrong::Duplicate];
    }
    let mut new = parser.new_user();
    let mut wrong = Vec::new();
    match joined(rules) {
        Err(word) => wrong.push(Wrong::Selector(word.to_vec())),
        Ok(words) => {
            for word in &words {
                if let Err(error) = parser.apply(&mut new, word) {
                    wrong.push(Wrong::Rule(word.to_vec(), error));
                }
            }
        }
    }
    users.push((name.to_vec(), new));
    wrong
}

/// Returns true if a user can have this name.
pub(super) fn is_name(name: &[u8]) -> bool {
    !name.iter().any(|byte| *byte == 0 || byte.is_ascii_whitespace() || *byte == 0x0b)
}

/// Returns a parser and printer for the rules of an engine's users.
pub(super) fn rules_parser(engine: &Engine) -> Parser<'_> {
    Parser { table: engine.table(), all_channels: engine.users().all_channels() }
}

/// Reads the text of the ACL file with this name.
pub(super) fn read_users(engine: &Engine, name: &str, text: &[u8]) -> Result<UserSet, String> {
    UserSet::of_file(engine.table(), engine.users().all_channels(), name, text)
}

/// Replaces all users. Closes the clients of the former users, except the default user's. Returns
/// true if the client with the ID `own` is one of them.
pub(super) fn replace_users(engine: &Engine, users: UserSet, own: Option<u64>) -> bool {
    let gone = engine.users().replace(users.0);
    let is_own_gone = kill_clients_of(engine, &gone, own);
    is_own_gone | kill_unentitled(engine, engine.users().default_user(), own)
}

/// Sets the users at the start.
pub fn set_users(engine: &Engine, users: UserSet) {
    let _one_at_a_time = engine.users().change();
    replace_users(engine, users, None);
}

/// Returns a line for each user, as in an ACL file or a configuration.
pub fn user_lines(engine: &Engine) -> Vec<Vec<u8>> {
    let parser = rules_parser(engine);
    engine.users().list().iter().map(|user| print::line(&parser, user)).collect()
}

/// Returns the `user` lines of a configuration. The default user has none if it is as `requirepass`
/// alone would make it.
pub fn user_lines_with(engine: &Engine, requirepass: &[u8]) -> Vec<Vec<u8>> {
    let mut usual = Rules::unlimited(engine.table().len());
    set_password(&mut usual, requirepass);
    let parser = rules_parser(engine);
    let users = engine.users().list();
    let is_usual = |user: &Account| user.name() == DEFAULT && *user.rules() == usual;
    let needed = users.iter().filter(|user| !is_usual(user));
    needed.map(|user| print::line(&parser, user)).collect()
}

/// Closes the clients of deleted users. Returns true if the client with the ID `own` is one of
/// them; its own session closes it.
pub(super) fn kill_clients_of(engine: &Engine, gone: &[Arc<Account>], own: Option<u64>) -> bool {
    let is_gone = |client: &Client| {
        let user = client.user.lock().unwrap_or_else(PoisonError::into_inner);
        user.as_ref().is_some_and(|user| gone.iter().any(|gone| Arc::ptr_eq(user, gone)))
    };
    let clients = if gone.is_empty() { Vec::new() } else { engine.clients().list() };
    kill(clients.into_iter().filter(|client| is_gone(client)), own)
}

/// Closes the clients of a user that are doing what the user may no longer do: subscribing to a
/// channel, monitoring, or tracking keys. Returns the same as [`kill_clients_of`].
pub(super) fn kill_unentitled(engine: &Engine, user: &Arc<Account>, own: Option<u64>) -> bool {
    if user.is_unlimited() {
        return false;
    }
    let rules = user.rules();
    let may = |args: &[&[u8]]| match engine.table().find_original(args) {
        Lookup::Found(command) => check_rules(&rules, command, args).is_ok(),
        Lookup::Container(_) | Lookup::Unknown => false,
    };
    let may_monitor = may(&[b"monitor"]);
    let may_track = may(&[b"client", b"tracking", b"on"]);
    let of_mode = |client: &Arc<Client>| {
        !may_monitor && client.monitor.load(Relaxed) || !may_track && client.tracking.is_on()
    };
    let mut clients = if may_monitor && may_track { Vec::new() } else { engine.clients().list() };
    clients.retain(of_mode);
    clients.extend(unentitled_listeners(engine, &rules));
    let is_of_user = |client: &Arc<Client>| {
        let of = client.user.lock().unwrap_or_else(PoisonError::into_inner);
        of.as_ref().is_some_and(|of| Arc::ptr_eq(of, user))
    };
    kill(clients.into_iter().filter(is_of_user), own)
}

/// Returns the clients that are subscribed to channels which these rules do not allow.
fn unentitled_listeners(engine: &Engine, rules: &Rules) -> Vec<Arc<Client>> {
    if rules.all_selectors().any(|selector| selector.channels.all) {
        return Vec::new();
    }
    let may_listen = |kind: Kind, name: &[u8]| {
        let is_pattern = kind == Kind::Pattern;
        rules.all_selectors().any(|selector| selector.channels.admits_channel(name, is_pattern))
    };
    engine.hub().listeners_of_any(|kind, name| !may_listen(kind, name))
}

fn kill(clients: impl Iterator<Item = Arc<Client>>, own: Option<u64>) -> bool {
    let mut is_own = false;
    for client in clients {
        if Some(client.id) == own {
            is_own = true;
        } else {
            client.kill();
        }
    }
    is_own
}
