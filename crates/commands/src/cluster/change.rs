//! The subcommands of CLUSTER that change the cluster.

use std::collections::BTreeSet;

use cluster::machine::Refusal;
use cluster::machine::command::{Failover, SetSlot};
use cluster::{Effect, Id, Machine, Moment};
use engine::call::Call;
use engine::execute::Scope;
use engine::failure::{Done, Failure, SYNTAX};

use super::keys::{for_each_in_slot, shard_of};
use super::{check_on, has_keys, slot};

/// The distance of the bus's port from that for clients, unless a command names it.
const BUS_PORT_OFFSET: u16 = 10_000;

/// The result of a step of the node.
type Answer = Result<Vec<Effect>, Refusal>;

/// Takes a step of the node, and replies that it was taken or why it is refused.
fn change(
    call: &mut Call<'_>,
    step: impl FnOnce(&mut Machine, &mut Moment<'_>) -> Answer + Send + 'static,
) -> Done {
    let refused =
        call.engine.cluster().ask(move |machine, moment| match step(machine, moment) {
            Ok(effects) => (None, effects),
            Err(refusal) => (Some(refusal), Vec::new()),
        })?;
    if let Some(refusal) = refused {
        return Err(Failure::text(refusal.to_string()));
    }
    call.out.ok();
    Ok(())
}

fn number<T: TryFrom<i64>>(call: &Call<'_>, at: usize) -> Option<T> {
    call.int(at).ok().and_then(|number| T::try_from(number).ok())
}

pub(super) fn meet(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    if call.args.len() > 5 {
        return Err(unknown(call));
    }
    let shown = |at: usize| String::from_utf8_lossy(call.args[at]).into_owned();
    let wrong = |what: &str, at: usize| {
        Failure::text(format!("ERR Invalid {what} port specified: {}", shown(at)))
    };
    let port: u16 = number(call, 3).ok_or_else(|| wrong("TCP base", 3))?;
    let bus: u16 = match call.args.len() {
        5 => number(call, 4).ok_or_else(|| wrong("TCP bus", 4))?,
        _ => port.checked_add(BUS_PORT_OFFSET).ok_or_else(|| wrong("TCP base", 3))?,
    };
    let ip = shown(2);
    change(call, move |machine, moment| machine.command_meet(&ip, port, bus, moment))
}

pub(super) fn forget(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    let id = call.args[2].to_vec();
    change(call, move |machine, moment| machine.command_forget(&id, moment))
}

pub(super) fn replicate(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    let (id, has_keys) = (call.args[2].to_vec(), has_keys(call));
    change(call, move |machine, moment| machine.command_replicate(&id, has_keys, moment))
}

pub(super) fn add_slots(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    let slots = listed(call)?;
    change(call, move |machine, moment| machine.command_add_slots(slots, moment))
}

pub(super) fn delete_slots(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    let slots = listed(call)?;
    change(call, move |machine, moment| machine.command_delete_slots(slots, moment))
}

pub(super) fn add_ranges(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    let slots = ranges(call)?;
    change(call, move |machine, moment| machine.command_add_slots(slots, moment))
}

pub(super) fn delete_ranges(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    let slots = ranges(call)?;
    change(call, move |machine, moment| machine.command_delete_slots(slots, moment))
}

fn listed(call: &Call<'_>) -> Result<Vec<u16>, Failure> {
    (2..call.args.len()).map(|at| slot(call, at)).collect()
}

fn ranges(call: &Call<'_>) -> Result<Vec<u16>, Failure> {
    if !call.args.len().is_multiple_of(2) {
        let name = call.command.full_name();
        return Err(Failure::text(format!("ERR wrong number of arguments for '{name}' command")));
    }
    let mut slots = Vec::new();
    let mut seen = BTreeSet::new();
    for at in (2..call.args.len()).step_by(2) {
        let (first, last) = (slot(call, at)?, slot(call, at + 1)?);
        if first > last {
            return Err(Failure::text(format!(
                "ERR start slot number {first} is greater than end slot number {last}"
            )));
        }
        for slot in first..=last {
            slots.push(slot);
            // A slot that is named twice is refused: the list needs no third.
            if !seen.insert(slot) {
                return Ok(slots);
            }
        }
    }
    Ok(slots)
}

pub(super) fn flush_slots(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    let has_keys = has_keys(call);
    change(call, move |machine, moment| machine.command_flush_slots(has_keys, moment))
}

/// SETSLOT. The slot's shard is locked until the view of the cluster says what has changed: no
/// client adds a key to a slot that is given away.
pub(super) fn set_slot(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    let number = slot(call, 2)?;
    let action = action(call)?;
    let shard = shard_of(call, number);
    if call.is_inner() {
        return Err("ERR CLUSTER SETSLOT is not allowed in a transaction".into());
    }
    call.engine.transact(call, Scope::Shard(shard), |call, txn| {
        let mut has_keys = false;
        if matches!(action, SetSlot::Node(_)) {
            for_each_in_slot(txn, number, &mut |_| has_keys = true);
        }
        change(call, move |machine, moment| {
            machine.command_set_slot(number, action, has_keys, moment)
        })
    })
}

fn action(call: &Call<'_>) -> Result<SetSlot, Failure> {
    let id = |text: &str| {
        let id = Id::parse(call.args[4]);
        let shown = String::from_utf8_lossy(call.args[4]);
        id.ok_or_else(|| Failure::text(format!("ERR {text} {shown}")))
    };
    const UNKNOWN: &str = "I don't know about node";
    match call.args.len() {
        4 if call.is(3, "stable") => Ok(SetSlot::Stable),
        5 if call.is(3, "migrating") => Ok(SetSlot::Migrating(id(UNKNOWN)?)),
        5 if call.is(3, "importing") => Ok(SetSlot::Importing(id(UNKNOWN)?)),
        5 if call.is(3, "node") => Ok(SetSlot::Node(id("Unknown node")?)),
        _ => {
            Err("ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP"
                .into())
        }
    }
}

pub(super) fn bump_epoch(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    let (is_new, epoch) = call.engine.cluster().ask(|machine, moment| {
        let (is_new, effects) = machine.command_bump_epoch(moment);
        ((is_new, machine.topology().me().config_epoch), effects)
    })?;
    let word = if is_new { "BUMPED" } else { "STILL" };
    call.out.simple(format!("{word} {epoch}"));
    Ok(())
}

pub(super) fn set_epoch(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    let given = call.int(2)?;
    let epoch = u64::try_from(given);
    let epoch =
        epoch.map_err(|_| Failure::text(format!("ERR Invalid config epoch specified: {given}")))?;
    change(call, move |machine, moment| machine.command_set_epoch(epoch, moment))
}

pub(super) fn fail_over(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    let how = match call.args.len() {
        2 => Failover::Agreed,
        3 if call.is(2, "force") => Failover::Force,
        3 if call.is(2, "takeover") => Failover::TakeOver,
        _ => return Err(SYNTAX.into()),
    };
    change(call, move |machine, moment| machine.command_failover(how, moment))
}

pub(super) fn reset(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    let is_hard = match call.args.len() {
        2 => false,
        3 if call.is(2, "soft") => false,
        3 if call.is(2, "hard") => true,
        _ => return Err(SYNTAX.into()),
    };
    let has_keys = has_keys(call);
    change(call, move |machine, moment| machine.command_reset(is_hard, has_keys, moment))
}

pub(super) fn save(call: &mut Call<'_>) -> Done {
    check_on(call)?;
    change(call, |_, _| Ok(vec![Effect::Save { is_durable: true }]))
}

fn unknown(call: &Call<'_>) -> Failure {
    let name = String::from_utf8_lossy(call.args[1]).into_owned();
    Failure::text(format!(
        "ERR unknown subcommand or wrong number of arguments for '{name}'. Try CLUSTER HELP."
    ))
}
