//! CLIENT TRACKING.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::session::Session;
use engine::session::client::TrackingOptions;
use engine::spec::*;

pub(crate) const CLIENT_TRACKING: CommandSpec = CommandSpec {
    name: "tracking",
    summary: "Enable or disable server assisted client side caching support",
    complexity: "O(1). Some options may introduce additional complexity.",
    since: "6.0.0",
    group: Group::Connection,
    arity: -3,
    flags: NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    args: &[
        oneof("status", &[token("on", "ON"), token("off", "OFF")]),
        integer("client-id").token("REDIRECT").optional(),
        string("prefix").token("PREFIX").optional().multiple().multiple_token(),
        token("bcast", "BCAST").optional(),
        token("optin", "OPTIN").optional(),
        token("optout", "OPTOUT").optional(),
        token("noloop", "NOLOOP").optional(),
    ],
    run: Run::Session(client_tracking),
    ..CommandSpec::EMPTY
};

fn client_tracking(call: &mut Call<'_>) -> Done {
    let (options, mut prefixes) = parse(call)?;
    if call.is(2, "on") {
        check(call.session, options, &prefixes)?;
        if options.broadcast && prefixes.is_empty() {
            prefixes.push(b"");
        }
        call.engine.tracking_clients().begin(call.session, options, &prefixes);
        call.engine.permissions().close_if_denied(call);
    } else if call.is(2, "off") {
        call.engine.tracking_clients().end(call.session);
    } else {
        return Err(SYNTAX.into());
    }
    call.out.ok();
    Ok(())
}

fn parse<'a>(call: &Call<'a>) -> Result<(TrackingOptions, Vec<&'a [u8]>), Failure> {
    let (mut options, mut prefixes) = (TrackingOptions::default(), Vec::new());
    let mut at = 3;
    while at < call.args.len() {
        let has_more = at + 1 < call.args.len();
        match () {
            () if call.is(at, "redirect") && has_more => {
                at += 1;
                if options.redirect != 0 {
                    return Err("ERR A client can only redirect to a single other client".into());
                }
                let id = call.int(at)? as u64;
                if call.engine.clients().get(id).is_none() {
                    return Err("ERR The client ID you want redirect to does not exist".into());
                }
                options.redirect = id;
            }
            () if call.is(at, "prefix") && has_more => {
                at += 1;
                prefixes.push(call.args[at]);
            }
            () if call.is(at, "bcast") => options.broadcast = true,
            () if call.is(at, "optin") => options.opt_in = true,
            () if call.is(at, "optout") => options.opt_out = true,
            () if call.is(at, "noloop") => options.no_loop = true,
            () => return Err(SYNTAX.into()),
        }
        at += 1;
    }
    Ok((options, prefixes))
}

/// Checks that the options fit each other, and the client's current mode.
fn check(session: &Session, options: TrackingOptions, prefixes: &[&[u8]]) -> Done {
    if !options.broadcast && !prefixes.is_empty() {
        return Err("ERR PREFIX option requires BCAST mode to be enabled".into());
    }
    let before = session.client.tracking.options();
    if session.client.tracking.is_on() && before.broadcast != options.broadcast {
        return Err("ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.".into());
    }
    if options.broadcast && (options.opt_in || options.opt_out) {
        return Err("ERR OPTIN and OPTOUT are not compatible with BCAST".into());
    }
    if options.opt_in && options.opt_out {
        return Err("ERR You can't specify both OPTIN mode and OPTOUT mode".into());
    }
    if options.opt_in && before.opt_out || options.opt_out && before.opt_in {
        return Err("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.".into());
    }
    if options.broadcast { check_overlap(session, prefixes) } else { Ok(()) }
}

/// Refuses prefixes that overlap: a key must not begin with two of them.
fn check_overlap(session: &Session, prefixes: &[&[u8]]) -> Done {
    let overlap = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
    for (at, prefix) in prefixes.iter().enumerate() {
        let before = session.prefixes.iter().map(|other| (&**other, "an existing prefix"));
        let after = prefixes[at + 1..].iter().map(|other| (*other, "another provided prefix"));
        if let Some((other, which)) = before.chain(after).find(|(other, _)| overlap(other, prefix))
        {
            let mut text = b"ERR Prefix '".to_vec();
            text.extend_from_slice(prefix);
            text.extend_from_slice(format!("' overlaps with {which} '").as_bytes());
            text.extend_from_slice(other);
            text.extend_from_slice(b"'. Prefixes for a single client must not overlap.");
            return Err(Failure::text(text));
        }
    }
    Ok(())
}
