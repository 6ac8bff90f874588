//! A user as sessions hold it: a name, and the rules of now.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, PoisonError, RwLock};

use super::rules::Rules;

/// A user.
pub struct Account {
    name: Box<[u8]>,
    /// It may do everything: what the path of a command looks at.
    is_unlimited: AtomicBool,
    is_deleted: AtomicBool,
    /// How often its rules were changed.
    changes: AtomicU64,
    rules: RwLock<Arc<Rules>>,
}

impl Account {
    pub(super) fn new(name: &[u8], rules: Rules) -> Account {
        Account {
            name: name.into(),
            is_unlimited: AtomicBool::new(rules.is_unlimited()),
            is_deleted: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            rules: RwLock::new(Arc::new(rules)),
        }
    }

    /// Returns a user that is in no registry, and whose rules nobody changes: that of the replay of
    /// the command log.
    pub(crate) fn internal() -> Account {
        Account::new(super::DEFAULT, Rules::unlimited(0))
    }

    /// Returns its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns true if it may do everything.
    #[inline]
    pub fn is_unlimited(&self) -> bool {
        self.is_unlimited.load(Acquire)
    }

    /// Returns true if there is no such user any more.
    pub(crate) fn is_deleted(&self) -> bool {
        self.is_deleted.load(Acquire)
    }

    /// Returns how often its rules were changed: what was checked before is to be checked again
    /// when that is another number.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    /// Returns what it may do.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set_rules(&self, rules: Rules) {
        let mut current = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        // Whoever sees the flag sees rules that it fits, or stricter ones.
        self.is_unlimited.store(false, Release);
        let is_unlimited = rules.is_unlimited() && !self.is_deleted();
        *current = Arc::new(rules);
        self.is_unlimited.store(is_unlimited, Release);
        self.changes.fetch_add(1, Release);
    }

    pub(super) fn delete(&self) {
        self.is_deleted.store(true, Release);
        self.set_rules(Rules::default());
    }
}
