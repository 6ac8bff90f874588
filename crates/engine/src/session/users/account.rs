//! A user as sessions hold it: a name, and its present rules.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, PoisonError, RwLock};

use super::rules::Rules;

/// A user.
pub struct Account {
    name: Box<[u8]>,
    /// Whether it may do everything: the check on the path of a command.
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

    /// Returns a user that is in no registry, and whose rules never change: that of the replay of
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

    /// Returns true if the user was deleted.
    pub(crate) fn is_deleted(&self) -> bool {
        self.is_deleted.load(Acquire)
    }

    /// Returns how often its rules were changed: earlier checks are to be repeated if the number
    /// has changed.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    /// Returns its rules.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set_rules(&self, rules: Rules) {
        let mut current = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        // A reader of the flag sees rules that match it, or stricter ones.
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
