//! Users, their permissions, and the user of each session.
//!
//! **Who owns what.** The engine owns the registry ([`Users`]), which maps names to accounts. A
//! session holds the account that it is authenticated as. An account stays the same object while
//! its rules change, so that a change takes effect for the next commands of its sessions. Rules
//! themselves are immutable values ([`Rules`]), and are replaced as a whole.
//!
//! **The cost of a check.** For a user without limits, as `default` is unless configured otherwise,
//! a command costs one look at a flag of the account. Only if the flag says that there are limits,
//! the rules are read and the command is checked (`permissions::check`).
//!
//! A deleted user leaves an account that may do nothing. Its sessions count as not authenticated
//! until they are closed.
//!
//! The rules' text is read and written by the module `acl`, which knows the command table. Here
//! commands are numbers.

mod account;
mod commands;
mod log;
pub mod password;
mod patterns;
mod rules;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

pub use account::Account;
pub use log::{Context, DeniedLog, Entry};
pub use patterns::{Access, KeyPattern, Patterns};
pub use rules::{Rules, Sanitize, Selector};

/// The name of the user that connections have from their start.
pub const DEFAULT: &[u8] = b"default";

/// Why a command or an authentication is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The command.
    Command,
    /// A key among its arguments.
    Key,
    /// A name or a password.
    Auth,
    /// A channel among its arguments.
    Channel,
}

impl Reason {
    /// Returns the name that ACL LOG prints.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Auth => "auth",
            Reason::Channel => "channel",
        }
    }
}

/// The denial of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied {
    /// Why.
    pub reason: Reason,
    /// The position of the denied argument; 0 if it is the command itself.
    pub at: usize,
}

type Accounts = BTreeMap<Box<[u8]>, Arc<Account>>;

/// All users of an engine.
pub struct Users {
    accounts: RwLock<Accounts>,
    default: Arc<Account>,
    /// Held by a thread that changes users, from its reads to its writes.
    changing: Mutex<()>,
    /// Whether `acl-pubsub-default` is `allchannels`.
    all_channels: AtomicBool,
    /// The denials.
    pub log: DeniedLog,
    /// The number of denials, by [`Reason`].
    denied: [AtomicU64; 4],
}

impl Users {
    /// Returns only the default user, for a table of this many commands.
    pub(crate) fn new(commands: usize) -> Users {
        let default = Arc::new(Account::new(DEFAULT, Rules::unlimited(commands)));
        let accounts = BTreeMap::from([(Box::from(DEFAULT), Arc::clone(&default))]);
        Users {
            accounts: RwLock::new(accounts),
            default,
            changing: Mutex::new(()),
            all_channels: AtomicBool::new(false),
            log: DeniedLog::default(),
            denied: Default::default(),
        }
    }

    /// Returns the user that connections have from their start.
    pub fn default_user(&self) -> &Arc<Account> {
        &self.default
    }

    /// Returns the user of this name.
    pub fn get(&self, name: &[u8]) -> Option<Arc<Account>> {
        self.accounts.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Returns all users, by name.
    pub fn list(&self) -> Vec<Arc<Account>> {
        self.accounts.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Keeps other threads from changing users until the guard is dropped.
    pub fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a user these rules, and creates it if there is none of this name.
    pub fn set(&self, name: &[u8], rules: Rules) {
        match self.get(name) {
            Some(account) => account.set_rules(rules),
            None => {
                let account = Arc::new(Account::new(name, rules));
                let mut all = self.accounts.write().unwrap_or_else(PoisonError::into_inner);
                all.insert(name.into(), account);
            }
        }
    }

    /// Removes a user, which may do nothing from then on. The default user stays.
    pub fn remove(&self, name: &[u8]) -> Option<Arc<Account>> {
        if name == DEFAULT {
            return None;
        }
        let removed = self.accounts.write().unwrap_or_else(PoisonError::into_inner).remove(name)?;
        removed.delete();
        Some(removed)
    }

    /// Replaces all users. The default user keeps its account, and its rules unless `users` has
    /// others for it; every other account is a new one. Returns the removed ones.
    pub fn replace(&self, users: Vec<(Vec<u8>, Rules)>) -> Vec<Arc<Account>> {
        let mut new = BTreeMap::from([(Box::from(DEFAULT), Arc::clone(&self.default))]);
        for (name, rules) in users {
            if name == DEFAULT {
                self.default.set_rules(rules);
            } else {
                new.insert(name.as_slice().into(), Arc::new(Account::new(&name, rules)));
            }
        }
        let mut all = self.accounts.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *all, new);
        drop(all);
        let gone: Vec<_> = old.into_values().filter(|user| user.name() != DEFAULT).collect();
        gone.iter().for_each(|user| user.delete());
        gone
    }

    /// Returns true if new users may use all channels.
    pub fn all_channels(&self) -> bool {
        self.all_channels.load(Relaxed)
    }

    /// Sets `acl-pubsub-default`.
    pub(crate) fn set_all_channels(&self, yes: bool) {
        self.all_channels.store(yes, Relaxed);
    }

    /// Counts a denial.
    pub(crate) fn count_denied(&self, reason: Reason) {
        self.denied[reason as usize].fetch_add(1, Relaxed);
    }

    /// Returns the number of denials for this reason.
    pub fn denied(&self, reason: Reason) -> u64 {
        self.denied[reason as usize].load(Relaxed)
    }

    /// Zeroes the counts.
    pub fn reset_denied(&self) {
        self.denied.iter().for_each(|count| count.store(0, Relaxed));
    }
}
