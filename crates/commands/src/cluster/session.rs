//! ASKING, READONLY and READWRITE: what a session may do with slots of others.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;

use super::check_on;

pub(super) const ASKING_ONCE: CommandSpec = CommandSpec {
    name: "asking",
    summary: "Sent by cluster clients after an -ASK redirect",
    complexity: "O(1)",
    since: "3.0.0",
    group: Group::Cluster,
    arity: 1,
    flags: FAST,
    acl: ACL_CONNECTION,
    run: Run::Session(asking),
    ..CommandSpec::EMPTY
};

fn asking(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    call.session.cluster.get_or_insert_default().ask();
    call.out.ok();
    Ok(())
}

pub(super) const READ_ONLY: CommandSpec = CommandSpec {
    name: "readonly",
    summary: "Enables read queries for a connection to a cluster replica node",
    complexity: "O(1)",
    since: "3.0.0",
    group: Group::Cluster,
    arity: 1,
    flags: LOADING | STALE | FAST,
    acl: ACL_CONNECTION,
    run: Run::Session(read_only),
    ..CommandSpec::EMPTY
};

fn read_only(call: &mut Call<'_>) -> Done {
    set_read_only(call, true)
}

pub(super) const READ_WRITE: CommandSpec = CommandSpec {
    name: "readwrite",
    summary: "Disables read queries for a connection to a cluster replica node",
    run: Run::Session(read_write),
    ..READ_ONLY
};

fn read_write(call: &mut Call<'_>) -> Done {
    set_read_only(call, false)
}

fn set_read_only(call: &mut Call<'_>, yes: bool) -> Done {
    check_on(call)?;
    call.session.cluster.get_or_insert_default().is_read_only = yes;
    call.out.ok();
    Ok(())
}
