//! AUTH: the password of the one user there is, `default`.
//!
//! A wrong password takes as long as a right one, whatever its length.

use std::sync::PoisonError;

use crate::call::{Call, Run};
use crate::engine::Engine;
use crate::failure::{Done, SYNTAX, WRONG_PASS};
use crate::session::Session;
use crate::spec::*;

pub(crate) const AUTH: CommandSpec = CommandSpec {
    name: "auth",
    summary: "Authenticate to the server",
    complexity: "O(N) where N is the number of passwords defined for the user",
    since: "1.0.0",
    group: Group::Connection,
    arity: -2,
    flags: NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY,
    acl: ACL_CONNECTION,
    history: &[("6.0.0", "Added ACL style (username and password).")],
    args: &[string("username").since("6.0.0").optional(), string("password")],
    run: Run::Session(auth),
    ..CommandSpec::EMPTY
};

fn auth(call: &mut Call<'_>) -> Done {
    let (user, password) = match call.args {
        [_, password] => {
            if call.engine.config().requirepass().is_empty() {
                return Err("ERR AUTH <password> called without any password configured for the \
                            default user. Are you sure your configuration is correct?"
                    .into());
            }
            (&b"default"[..], *password)
        }
        [_, user, password] => (*user, *password),
        _ => return Err(SYNTAX.into()),
    };
    log_in(call.engine, call.session, user, password)?;
    call.out.ok();
    Ok(())
}

/// Authenticates the session, or leaves it as it is.
pub(super) fn log_in(engine: &Engine, session: &mut Session, user: &[u8], password: &[u8]) -> Done {
    let expected = engine.config().requirepass();
    if user != b"default" || !(expected.is_empty() || equal(&expected, password)) {
        return Err(WRONG_PASS.into());
    }
    session.authenticated = true;
    *session.client.user.lock().unwrap_or_else(PoisonError::into_inner) = user.to_vec();
    Ok(())
}

/// Compares without giving away by its time where the texts differ.
fn equal(expected: &[u8], given: &[u8]) -> bool {
    let difference = given
        .iter()
        .enumerate()
        .fold(0, |difference, (at, byte)| difference | (byte ^ expected[at % expected.len()]));
    expected.len() == given.len() && difference == 0
}
