//! CLIENT CACHING: whether the keys that the next command reads are tracked.

use engine::call::{Call, Run};
use engine::failure::{Done, SYNTAX};
use engine::spec::*;

pub(crate) const CLIENT_CACHING: CommandSpec = CommandSpec {
    name: "caching",
    summary: "Instruct the server about tracking or not keys in the next request",
    complexity: "O(1)",
    since: "6.0.0",
    group: Group::Connection,
    arity: 3,
    flags: NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    args: &[oneof("mode", &[token("yes", "YES"), token("no", "NO")])],
    run: Run::Session(client_caching),
    ..CommandSpec::EMPTY
};

fn client_caching(call: &mut Call<'_>) -> Done {
    let tracking = &call.session.client.tracking;
    if !tracking.is_on() {
        return Err("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled".into());
    }
    let options = tracking.options();
    match () {
        () if call.is(2, "yes") && !options.opt_in => {
            return Err(
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."
                    .into(),
            );
        }
        () if call.is(2, "no") && !options.opt_out => {
            return Err(
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."
                    .into(),
            );
        }
        () if call.is(2, "yes") || call.is(2, "no") => {}
        () => return Err(SYNTAX.into()),
    }
    call.session.caching = true;
    call.out.ok();
    Ok(())
}
