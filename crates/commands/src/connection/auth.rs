//! AUTH: the name and the password of a user, or the password of the user `default`.

use engine::call::{Call, Run};
use engine::failure::{Done, SYNTAX};
use engine::spec::*;

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
    redact: Some(|words| words[1..].fill(REDACTED)),
    run: Run::Session(auth),
    ..CommandSpec::EMPTY
};

fn auth(call: &mut Call<'_>) -> Done {
    let (user, password) = match call.args {
        [_, password] => {
            if call.engine.permissions().needs_no_password() {
                return Err("ERR AUTH <password> called without any password configured for the \
                            default user. Are you sure your configuration is correct?"
                    .into());
            }
            (&b"default"[..], *password)
        }
        [_, user, password] => (*user, *password),
        _ => return Err(SYNTAX.into()),
    };
    call.engine.permissions().authenticate(call.session, user, password, call.args[0])?;
    call.out.ok();
    Ok(())
}
