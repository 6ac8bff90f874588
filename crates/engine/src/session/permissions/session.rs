//! The user of a session, and the log of its denials.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError};

use super::check;
use crate::engine::Engine;
use crate::execute::call::Call;
use crate::failure::{self, Done, Failure, WRONG_PASS};
use crate::session::Session;
use crate::session::client::{Client, Waiter};
use crate::session::describe::describe;
use crate::session::users::password::digest;
use crate::session::users::{Account, Context, Denied, Entry, Reason, Rules};
use crate::table::Command;

/// Bytes of a key or a name that the log keeps.
const MAX_SHOWN: usize = 1024;

/// The users of sessions and their permissions.
#[derive(Clone, Copy)]
pub struct Permissions<'e> {
    pub(super) engine: &'e Engine,
}

impl Engine {
    /// Returns the permissions of its sessions' users.
    #[inline]
    pub fn permissions(&self) -> Permissions<'_> {
        Permissions { engine: self }
    }
}

impl Permissions<'_> {
    /// Gives the session the state of a new one: the default user, authenticated if that needs no
    /// password.
    pub fn authenticate_default(&self, session: &mut Session) {
        let user = self.engine.users().default_user();
        let is_open = user.rules().is_open();
        set_user(session, Arc::clone(user), is_open);
    }

    /// Authenticates the session by a name and a password, or leaves it as it is. `command` is the
    /// command that asked for it.
    pub fn authenticate(
        &self,
        session: &mut Session,
        name: &[u8],
        password: &[u8],
        command: &[u8],
    ) -> Done {
        // A password is hashed even if there is no such user.
        let digest = digest(password);
        match self.user_who(name, |rules| rules.admits(&digest)) {
            Some(user) => {
                set_user(session, user, true);
                Ok(())
            }
            None => {
                let context = context(session);
                self.log_denied(&session.client, name, Reason::Auth, context, command);
                Err(WRONG_PASS.into())
            }
        }
    }

    /// Makes the user named by a verified certificate the session's user, if there is such a user
    /// and it is enabled.
    pub fn authenticate_by_certificate(&self, session: &mut Session, name: &[u8]) {
        match self.user_who(name, |rules| rules.is_enabled) {
            Some(user) => set_user(session, user, true),
            None => {
                let context = Context::Toplevel;
                self.log_denied(&session.client, name, Reason::Auth, context, b"tls-cert");
            }
        }
    }

    /// Returns the user of a name if `may` accepts its rules and no other thread has deleted it
    /// meanwhile.
    pub fn user_who(&self, name: &[u8], may: impl FnOnce(&Rules) -> bool) -> Option<Arc<Account>> {
        self.engine.users().get(name).filter(|user| may(&user.rules()) && !user.is_deleted())
    }

    /// Returns true if the session has to authenticate before it may execute anything.
    #[inline]
    pub fn must_authenticate(&self, session: &Session) -> bool {
        !session.authenticated && !self.engine.users().default_user().rules().is_open()
    }

    /// Takes the session's user away.
    pub fn log_out(&self, session: &mut Session) {
        set_user(session, Arc::clone(self.engine.users().default_user()), false);
    }

    /// Refuses a command that the session's user may not execute.
    #[inline]
    pub(crate) fn check(&self, session: &Session, command: &Command, args: &[&[u8]]) -> Done {
        session.checked.set(session.user.changes());
        if session.user.is_unlimited() { Ok(()) } else { self.check_limits(session, command, args) }
    }

    #[cold]
    fn check_limits(&self, session: &Session, command: &Command, args: &[&[u8]]) -> Done {
        if session.user.is_deleted() && !command.spec.has(crate::table::spec::NO_AUTH) {
            return Err(failure::NO_AUTH.into());
        }
        check::check(session, command, args).map_err(|denied| {
            self.record_denied(session, command, args, denied, context(session));
            refusal(command, denied.reason)
        })
    }

    /// Refuses the operation of a blocked client if its user may no longer execute it.
    pub(crate) fn check_blocked(&self, waiter: &Waiter) -> Done {
        let user = waiter.client.user.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(user) = user.filter(|user| !user.is_unlimited()) else { return Ok(()) };
        let command = &self.engine.table().all()[waiter.command.id];
        let args: Vec<&[u8]> = waiter.command.args.iter().map(|arg| &**arg).collect();
        check::check_rules(&user.rules(), command, &args).map_err(|denied| {
            let object = object(command, &args, denied);
            let (client, context) = (&waiter.client, Context::Toplevel);
            self.log_denied(client, user.name(), denied.reason, context, &object);
            refusal(command, denied.reason)
        })
    }

    /// Closes the client if its user may no longer execute this command, which has just begun
    /// something that outlasts it: the thread that took the permission away may have looked before.
    pub fn close_if_denied(&self, call: &Call<'_>) {
        if !self.may_execute(call.session, call.command, call.args) {
            call.session.client.kill();
        }
    }

    /// Returns how many commands from the front the session's user may execute.
    pub(crate) fn permitted<'a>(
        &self,
        session: &Session,
        commands: impl Iterator<Item = (&'a Command, &'a [&'a [u8]])>,
    ) -> usize {
        let rules = session.user.rules();
        let may = |(command, args): &(&Command, &[&[u8]])| {
            check::check_rules(&rules, command, args).is_ok()
        };
        commands.take_while(may).count()
    }

    /// Returns true if the session's user may execute a command; nothing is logged.
    pub fn may_execute(&self, session: &Session, command: &Command, args: &[&[u8]]) -> bool {
        check::check(session, command, args).is_ok()
    }

    /// Refuses a queued command that the session's user may no longer execute.
    #[inline]
    pub fn check_queued(&self, session: &Session, command: &Command, args: &[&[u8]]) -> Done {
        self.check_within(session, command, args, Context::Multi).map_err(|reason| {
            let reason = match reason {
                Reason::Command => "no permission to execute the command or subcommand",
                Reason::Key => "no permission to touch the specified keys",
                Reason::Auth | Reason::Channel => {
                    "no permission to access one of the channels used as arguments"
                }
            };
            Failure::text(format!(
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: {reason}"
            ))
        })
    }

    /// Refuses a command of a script that the session's user may not execute.
    #[inline]
    pub fn check_called(&self, session: &Session, command: &Command, args: &[&[u8]]) -> Done {
        self.check_within(session, command, args, Context::Lua).map_err(|reason| {
            Failure::from(match reason {
                Reason::Command => {
                    "ERR The user executing the script can't run this command or subcommand"
                }
                Reason::Key => {
                    "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"
                }
                Reason::Auth | Reason::Channel => {
                    "ERR The user executing the script can't publish to the channel mentioned in the command"
                }
            })
        })
    }

    #[inline]
    fn check_within(
        &self,
        session: &Session,
        command: &Command,
        args: &[&[u8]],
        context: Context,
    ) -> Result<(), Reason> {
        check::check(session, command, args).map_err(|denied| {
            self.record_denied(session, command, args, denied, context);
            denied.reason
        })
    }

    #[cold]
    fn record_denied(
        &self,
        session: &Session,
        command: &Command,
        args: &[&[u8]],
        denied: Denied,
        context: Context,
    ) {
        let object = object(command, args, denied);
        self.log_denied(&session.client, session.user.name(), denied.reason, context, &object);
    }

    fn log_denied(
        &self,
        client: &Client,
        username: &[u8],
        reason: Reason,
        context: Context,
        object: &[u8],
    ) {
        let at_ms = self.engine.clock().unix_ms();
        let cut = |text: &[u8]| text[..text.len().min(MAX_SHOWN)].to_vec();
        self.engine.users().count_denied(reason);
        self.engine.users().log.enter(Entry {
            count: 1,
            reason,
            context,
            object: cut(object),
            username: cut(username),
            at_ms,
            client: describe(self.engine, client, at_ms),
        });
    }
}

const NO_KEY: &str =
    "NOPERM this user has no permissions to access one of the keys used as arguments";
const NO_CHANNEL: &str =
    "NOPERM this user has no permissions to access one of the channels used as arguments";

fn refusal(command: &Command, reason: Reason) -> Failure {
    match reason {
        Reason::Command => Failure::text(format!(
            "NOPERM this user has no permissions to run the '{}' command",
            command.full_name()
        )),
        Reason::Key => NO_KEY.into(),
        Reason::Auth | Reason::Channel => NO_CHANNEL.into(),
    }
}

/// Returns the denied object: the command's name, or the key or channel.
fn object<'a>(command: &Command, args: &[&'a [u8]], denied: Denied) -> Cow<'a, [u8]> {
    match denied.reason {
        Reason::Command => command.full_name().into_bytes().into(),
        _ => args[denied.at].into(),
    }
}

fn context(session: &Session) -> Context {
    if session.in_multi() { Context::Multi } else { Context::Toplevel }
}

/// Gives a session this user.
pub fn set_user(session: &mut Session, user: Arc<Account>, authenticated: bool) {
    session.authenticated = authenticated;
    *session.client.user.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&user));
    session.user = user;
}
