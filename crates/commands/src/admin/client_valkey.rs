//! The subcommands of CLIENT that Valkey 8 added: CAPA and IMPORT-SOURCE.

use std::sync::atomic::Ordering::Relaxed;

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;

use super::on_off;

pub(super) const CLIENT_CAPA: CommandSpec = CommandSpec {
    name: "capa",
    summary: "A client claims its capability.",
    complexity: "O(1)",
    since: "8.0.0",
    group: Group::Connection,
    arity: -3,
    flags: NOSCRIPT | LOADING | STALE | ALLOW_BUSY,
    acl: ACL_CONNECTION,
    args: &[string("capability").multiple()],
    run: Run::Session(client_capa),
    ..CommandSpec::EMPTY
};

pub(super) const CLIENT_IMPORT_SOURCE: CommandSpec = CommandSpec {
    name: "import-source",
    summary: "Mark this client as an import source when server is in import mode.",
    complexity: "O(1)",
    since: "8.1.0",
    group: Group::Connection,
    arity: 3,
    flags: NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    args: &[oneof("enabled", &[token("on", "ON"), token("off", "OFF")])],
    run: Run::Session(client_import_source),
    ..CommandSpec::EMPTY
};

/// Accepts any name, as Valkey does. The one that it knows, `redirect`, lets replicas send clients
/// to their primary. There are no replicas here; only the filter CAPA reads it.
fn client_capa(call: &mut Call<'_>) -> Done {
    if (2..call.args.len()).any(|at| call.is(at, "redirect")) {
        call.session.client.redirects.store(true, Relaxed);
    }
    call.out.ok();
    Ok(())
}

/// There is no import mode, so no client can be its source.
fn client_import_source(call: &mut Call<'_>) -> Done {
    if on_off(call, 2) != Some(false) {
        return Err("ERR Server is not in import mode".into());
    }
    call.out.ok();
    Ok(())
}
