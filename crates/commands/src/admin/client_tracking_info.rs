//! CLIENT TRACKINGINFO and CLIENT GETREDIR.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;

pub(crate) const CLIENT_GETREDIR: CommandSpec = CommandSpec {
    name: "getredir",
    summary: "Get tracking notifications redirection client ID if any",
    complexity: "O(1)",
    since: "6.0.0",
    group: Group::Connection,
    arity: 2,
    flags: NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    run: Run::Session(client_getredir),
    ..CommandSpec::EMPTY
};

pub(crate) const CLIENT_TRACKINGINFO: CommandSpec = CommandSpec {
    name: "trackinginfo",
    summary: "Return information about server assisted client side caching for the current connection",
    complexity: "O(1)",
    since: "6.2.0",
    group: Group::Connection,
    arity: 2,
    flags: NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    run: Run::Session(client_trackinginfo),
    ..CommandSpec::EMPTY
};

/// Returns the ID of the client that receives the invalidations instead: 0 for none, -1 if tracking
/// is off.
fn redirect(call: &Call<'_>) -> i64 {
    call.session.client.tracking.redirect().map_or(-1, |id| id as i64)
}

fn client_getredir(call: &mut Call<'_>) -> Done {
    let redirect = redirect(call);
    call.out.integer(redirect);
    Ok(())
}

fn client_trackinginfo(call: &mut Call<'_>) -> Done {
    let flags = flags(call);
    call.out.map(3);
    call.out.bulk("flags");
    call.out.set(flags.len());
    flags.iter().for_each(|flag| call.out.bulk(flag));
    call.out.bulk("redirect");
    let redirect = redirect(call);
    call.out.integer(redirect);
    call.out.bulk("prefixes");
    call.out.array(call.session.prefixes.len());
    call.session.prefixes.iter().for_each(|prefix| call.out.bulk(prefix));
    Ok(())
}

fn flags(call: &Call<'_>) -> Vec<&'static str> {
    let tracking = &call.session.client.tracking;
    let (options, caching) = (tracking.options(), call.session.caching);
    let all = [
        (if tracking.is_on() { "on" } else { "off" }, true),
        ("bcast", options.broadcast),
        ("optin", options.opt_in),
        ("caching-yes", options.opt_in && caching),
        ("optout", options.opt_out),
        ("caching-no", options.opt_out && caching),
        ("noloop", options.no_loop),
        ("broken_redirect", tracking.is_broken()),
    ];
    all.into_iter().filter(|(_, is)| *is).map(|(flag, _)| flag).collect()
}
