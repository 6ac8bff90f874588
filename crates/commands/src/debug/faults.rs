//! The subcommands of DEBUG that let a node of a cluster fail: its messages and its links.

use cluster::machine::{Dropped, Faults};
use cluster::{Id, Machine};
use engine::call::Call;
use engine::failure::{Done, Failure, SYNTAX};

/// Changes what the node does wrong.
fn change(call: &mut Call<'_>, change: impl FnOnce(&mut Faults) + Send + 'static) -> Done {
    call.engine.cluster().ask(move |machine: &mut Machine, _| {
        let mut faults = machine.faults();
        change(&mut faults);
        machine.set_faults(faults);
        ((), Vec::new())
    })?;
    call.out.ok();
    Ok(())
}

/// DROP-CLUSTER-PACKET-FILTER: a type, -1 for none, -2 for all.
pub(super) fn drop_messages(call: &mut Call<'_>) -> Done {
    let dropped = match call.int(2)? {
        -2 => Dropped::All,
        kind => u16::try_from(kind).map_or(Dropped::None, Dropped::Kind),
    };
    change(call, move |faults| faults.drops = dropped)
}

/// CLOSE-CLUSTER-LINK-ON-PACKET-DROP.
pub(super) fn close_on_drop(call: &mut Call<'_>) -> Done {
    let closes = super::flag(call);
    change(call, move |faults| faults.closes_link = closes)
}

/// DISABLE-CLUSTER-RECONNECTION.
pub(super) fn make_no_links(call: &mut Call<'_>) -> Done {
    let makes_no_links = super::flag(call);
    change(call, move |faults| faults.makes_no_links = makes_no_links)
}

/// CLUSTERLINK KILL TO|FROM|ALL and a node.
pub(super) fn kill_links(call: &mut Call<'_>) -> Done {
    let (to, from) = match call.args[3].to_ascii_lowercase().as_slice() {
        b"to" => (true, false),
        b"from" => (false, true),
        b"all" => (true, true),
        _ => return Err(SYNTAX.into()),
    };
    let unknown =
        || Failure::text(format!("ERR Unknown node {}", String::from_utf8_lossy(call.args[4])));
    let node = Id::parse(call.args[4]).ok_or_else(unknown)?;
    let is_known = call.engine.cluster().ask(move |machine, moment| {
        let is_known = machine.topology().node(node).is_some();
        (is_known, machine.kill_links(node, to, from, moment))
    })?;
    if !is_known {
        return Err(unknown());
    }
    call.out.ok();
    Ok(())
}
