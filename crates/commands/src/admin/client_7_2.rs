//! The subcommands of CLIENT that Redis 7.2 added: SETINFO and NO-TOUCH.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::spec::*;

use super::on_off;

pub(super) const CLIENT_NO_TOUCH: CommandSpec = CommandSpec {
    name: "no-touch",
    summary: "Controls whether commands sent by the client affect the LRU/LFU of accessed keys.",
    complexity: "O(1)",
    since: "7.2.0",
    group: Group::Connection,
    arity: 3,
    flags: NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    args: &[oneof("enabled", &[token("on", "ON"), token("off", "OFF")])],
    run: Run::Session(client_no_touch),
    ..CommandSpec::EMPTY
};

pub(super) const CLIENT_SETINFO: CommandSpec = CommandSpec {
    name: "setinfo",
    summary: "Sets information specific to the client or connection.",
    complexity: "O(1)",
    since: "7.2.0",
    group: Group::Connection,
    arity: 4,
    flags: NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    args: &[oneof(
        "attr",
        &[string("libname").token("LIB-NAME"), string("libver").token("LIB-VER")],
    )],
    run: Run::Session(client_setinfo),
    ..CommandSpec::EMPTY
};

fn client_no_touch(call: &mut Call<'_>) -> Done {
    let on = on_off(call, 2).ok_or(SYNTAX)?;
    call.session.client.no_touch.store(on, Relaxed);
    call.out.ok();
    Ok(())
}

fn client_setinfo(call: &mut Call<'_>) -> Done {
    let client = &call.session.client;
    let place = match () {
        () if call.is(2, "lib-name") => &client.lib_name,
        () if call.is(2, "lib-ver") => &client.lib_version,
        () => {
            return Err(Failure::text([b"ERR Unrecognized option '", call.args[2], b"'"].concat()));
        }
    };
    if !call.args[3].iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        let suffix = b" cannot contain spaces, newlines or special characters.";
        return Err(Failure::text([b"ERR ", call.args[2], suffix].concat()));
    }
    *place.lock().unwrap_or_else(PoisonError::into_inner) = call.args[3].to_vec();
    call.out.ok();
    Ok(())
}
