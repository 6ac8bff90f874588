//! Settings of the configuration that concern users.

use super::session::Permissions;
use crate::session::users::DEFAULT;
use crate::session::users::password::set_password;

impl Permissions<'_> {
    /// Makes this the password of the default user (`requirepass`); with an empty one it needs no
    /// password.
    pub fn set_default_password(&self, password: &[u8]) {
        let users = self.engine.users();
        let _one_at_a_time = users.change();
        let mut rules = (*users.default_user().rules()).clone();
        set_password(&mut rules, password);
        users.set(DEFAULT, rules);
    }

    /// Returns true if the default user, if enabled, needs no password.
    pub fn needs_no_password(&self) -> bool {
        self.engine.users().default_user().rules().no_password
    }

    /// Sets `acl-pubsub-default`: whether new users may use all channels.
    pub fn set_new_users_use_all_channels(&self, yes: bool) {
        self.engine.users().set_all_channels(yes);
    }

    /// Sets `acllog-max-len`.
    pub fn set_acl_log_max_len(&self, entries: usize) {
        self.engine.users().log.set_max_len(entries);
    }
}
