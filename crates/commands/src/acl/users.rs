//! Users as a whole: those of a file or a configuration, and what a change means for the clients
//! that are connected.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use super::check::check_rules;
use super::parse::{Parser, digest, joined};
use super::print;
use crate::client::Client;
use crate::engine::Engine;
use crate::receivers::Kind;
use crate::table::{Lookup, Table};
use crate::users::{Account, DEFAULT, Rules};

/// Users that were read and are in order: all of a file, or all of a configuration.
pub struct UserSet(Vec<(Vec<u8>, Rules)>);

impl UserSet {
    /// Reads an ACL file: a line for each user. All that is wrong is named, with its line and
    /// word. Without a line for it, the default user may do everything.
    pub(crate) fn of_file(
        table: &Table,
        all_channels: bool,
        (name, text): (&str, &[u8]),
    ) -> Result<UserSet, String> {
        let parser = Parser { table, all_channels };
        let mut users = Vec::new();
        let mut wrong = String::new();
        for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let words: Vec<&[u8]> =
                line.trim_ascii().split(|byte| *byte == b' ').filter(|w| !w.is_empty()).collect();
            let place = format!("{name}:{}", at + 1);
            match words.as_slice() {
                [] => {}
                [b"user", user, rules @ ..] => match add(&parser, &mut users, user, rules) {
                    Ok(()) => {}
                    Err(Wrong { why, .. }) => wrong += &format!("{place}: {why}. "),
                },
                _ => {
                    wrong += &place;
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

    /// Reads the `user` lines of a configuration: each is a name and rules. Where one is wrong, its
    /// number and what is wrong with it.
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
            let added = add(&parser, &mut users, user, rules);
            added.map_err(|Wrong { word, why }| {
                let word = String::from_utf8_lossy(&word).into_owned();
                (at, format!("Error in user declaration '{word}': {why}"))
            })?;
        }
        Ok(UserSet(users))
    }
}

/// What is wrong with a user.
struct Wrong {
    word: Vec<u8>,
    why: String,
}

fn add(
    parser: &Parser<'_>,
    users: &mut Vec<(Vec<u8>, Rules)>,
    name: &[u8],
    rules: &[&[u8]],
) -> Result<(), Wrong> {
    let wrong = |word: &[u8], why: String| Wrong { word: word.to_vec(), why };
    let shown = String::from_utf8_lossy(name);
    if !is_name(name) {
        let why = format!("username '{shown}' contains invalid characters");
        return Err(wrong(name, why));
    }
    if users.iter().any(|(known, _)| known == name) {
        let why = format!("Duplicate user '{shown}' found. A user can only be defined once");
        return Err(wrong(name, why));
    }
    let words = joined(rules).map_err(|word| {
        let shown = String::from_utf8_lossy(word);
        wrong(word, format!("Unmatched parenthesis in acl selector starting at '{shown}'"))
    })?;
    let mut new = parser.new_user();
    for word in &words {
        parser.apply(&mut new, word).map_err(|error| {
            let shown = String::from_utf8_lossy(word);
            wrong(word, format!("Error in applying operation '{shown}': {error}"))
        })?;
    }
    users.push((name.to_vec(), new));
    Ok(())
}

/// Returns true if a user can have this name.
pub(super) fn is_name(name: &[u8]) -> bool {
    !name.iter().any(|byte| *byte == 0 || byte.is_ascii_whitespace() || *byte == 0x0b)
}

impl Engine {
    /// Returns what reads and writes rules.
    pub(super) fn rules_parser(&self) -> Parser<'_> {
        Parser { table: self.table(), all_channels: self.users().all_channels() }
    }

    /// Reads an ACL file of this name.
    pub(super) fn read_users(&self, name: &str, text: &[u8]) -> Result<UserSet, String> {
        UserSet::of_file(self.table(), self.users().all_channels(), (name, text))
    }

    /// Replaces all users. Clients of those that were there are closed, but for those of the
    /// default user. Returns true if the client of this number is one of them.
    pub(super) fn replace_users(&self, users: UserSet, own: Option<u64>) -> bool {
        let gone = self.users().replace(users.0);
        let is_own_gone = self.kill_clients_of(&gone, own);
        is_own_gone | self.kill_unentitled(self.users().default_user(), own)
    }

    /// Makes these the users, at the start.
    pub fn set_users(&self, users: UserSet) {
        let _one_at_a_time = self.users().change();
        self.replace_users(users, None);
    }

    /// Returns a line for each user, as an ACL file or a configuration has it.
    pub fn user_lines(&self) -> Vec<Vec<u8>> {
        let parser = self.rules_parser();
        self.users().list().iter().map(|user| print::line(&parser, user)).collect()
    }

    /// Returns the `user` lines of a configuration; none for the default user if it is what it
    /// would be without one, by the password of `requirepass`.
    pub fn user_lines_with(&self, requirepass: &[u8]) -> Vec<Vec<u8>> {
        let mut usual = Rules::unlimited(self.table().len());
        set_password(&mut usual, requirepass);
        let parser = self.rules_parser();
        let users = self.users().list();
        let is_usual = |user: &Account| user.name() == DEFAULT && *user.rules() == usual;
        let needed = users.iter().filter(|user| !is_usual(user));
        needed.map(|user| print::line(&parser, user)).collect()
    }

    /// Makes this the password of the default user (`requirepass`); with an empty one it needs
    /// none.
    pub fn set_default_password(&self, password: &[u8]) {
        let users = self.users();
        let _one_at_a_time = users.change();
        let mut rules = (*users.default_user().rules()).clone();
        set_password(&mut rules, password);
        users.set(DEFAULT, rules);
    }

    /// Returns true if connections need no password (of the default user), were it enabled.
    pub fn needs_no_password(&self) -> bool {
        self.users().default_user().rules().no_password
    }

    /// Sets `acl-pubsub-default`: new users may use all channels.
    pub fn set_new_users_use_all_channels(&self, yes: bool) {
        self.users().set_all_channels(yes);
    }

    /// Sets `acllog-max-len`.
    pub fn set_acl_log_max_len(&self, entries: usize) {
        self.users().log.set_max_len(entries);
    }

    /// Closes the clients of users that are gone. Returns true if the client of the number `own`
    /// is one of them, which is left to its own session.
    pub(super) fn kill_clients_of(&self, gone: &[Arc<Account>], own: Option<u64>) -> bool {
        let is_gone = |client: &Client| {
            let user = client.user.lock().unwrap_or_else(PoisonError::into_inner);
            user.as_ref().is_some_and(|user| gone.iter().any(|gone| Arc::ptr_eq(user, gone)))
        };
        let clients = if gone.is_empty() { Vec::new() } else { self.clients().list() };
        kill(clients.into_iter().filter(|client| is_gone(client)), own)
    }

    /// Closes the clients of a user that are in the middle of what it may do no more: they listen
    /// to a channel, monitor, or track keys. Returns the same as [`Engine::kill_clients_of`].
    pub(super) fn kill_unentitled(&self, user: &Arc<Account>, own: Option<u64>) -> bool {
        if user.is_unlimited() {
            return false;
        }
        let rules = user.rules();
        let may = |args: &[&[u8]]| match self.table().find_original(args) {
            Lookup::Found(command) => check_rules(&rules, command, args).is_ok(),
            Lookup::Container(_) | Lookup::Unknown => false,
        };
        let may_monitor = may(&[b"monitor"]);
        let may_track = may(&[b"client", b"tracking", b"on"]);
        let of_mode = |client: &Arc<Client>| {
            !may_monitor && client.monitor.load(Relaxed) || !may_track && client.tracking.is_on()
        };
        let mut clients = if may_monitor && may_track { Vec::new() } else { self.clients().list() };
        clients.retain(of_mode);
        clients.extend(self.unentitled_listeners(&rules));
        let is_of_user = |client: &Arc<Client>| {
            let of = client.user.lock().unwrap_or_else(PoisonError::into_inner);
            of.as_ref().is_some_and(|of| Arc::ptr_eq(of, user))
        };
        kill(clients.into_iter().filter(is_of_user), own)
    }

    /// Returns the clients that listen to what these rules do not allow.
    fn unentitled_listeners(&self, rules: &Rules) -> Vec<Arc<Client>> {
        if rules.all_selectors().any(|selector| selector.channels.all) {
            return Vec::new();
        }
        let may_listen = |kind: Kind, name: &[u8]| {
            let is_pattern = kind == Kind::Pattern;
            rules.all_selectors().any(|selector| selector.channels.admits_channel(name, is_pattern))
        };
        self.hub().listeners_of_any(|kind, name| !may_listen(kind, name))
    }
}

fn set_password(rules: &mut Rules, password: &[u8]) {
    rules.no_password = password.is_empty();
    rules.passwords = Vec::from_iter((!password.is_empty()).then(|| digest(password)));
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
