//! FCALL and FCALL_RO: calling a function.

use engine::Engine;
use engine::call::{Call, Run, ScriptCommand};
use engine::failure::{Done, Failure};
use engine::scripts::libraries::Lookup;
use engine::scripts::running::ScriptKind;
use engine::spec::*;
use keyspace::Txn;
use script::{Flags, Invocation, Outcome, Reply};

use super::interpreter;
use crate::scripting::{self, Program};

const WRITES: &str =
    "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE";
const READS: &str =
    "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS";
const NOT_FOUND: &str = "ERR Function not found";

const fn keys(flags: u16) -> KeySpec {
    KeySpec::new(Begin::Index(2), Find::KeyNum { at: 0, first: 1, step: 1 }, flags)
}

const FLAGS: u32 = NOSCRIPT | STALE | SKIP_MONITOR | MAY_REPLICATE | NO_MANDATORY_KEYS;

pub(super) const FCALL: CommandSpec = CommandSpec {
    name: "fcall",
    summary: "Invoke a function",
    complexity: "Depends on the function that is executed.",
    since: "7.0.0",
    group: Group::Scripting,
    arity: -3,
    flags: FLAGS,
    acl: ACL_SCRIPTING,
    keys: &[keys(KEY_RW | KEY_ACCESS | KEY_UPDATE).notes(WRITES)],
    args: &[
        string("function"),
        integer("numkeys"),
        key("key", 0).optional().multiple(),
        string("arg").optional().multiple(),
    ],
    run: Run::Script(&FUNCTION),
    ..CommandSpec::EMPTY
};

pub(super) const FCALL_RO: CommandSpec = CommandSpec {
    name: "fcall_ro",
    summary: "Invoke a read-only function",
    flags: FLAGS & !MAY_REPLICATE | READONLY,
    keys: &[keys(KEY_RO | KEY_ACCESS).notes(READS)],
    ..FCALL
};

static FUNCTION: ScriptCommand = ScriptCommand {
    kind: ScriptKind::Function,
    alone,
    within: |call, txn| execute(call, Some(txn)),
    declared,
    text: |_, _| None,
    keep: |_, _| {},
};

/// Returns the flags that the called function declares; `None` also if it is not known yet.
fn declared(engine: &Engine, args: &[&[u8]]) -> Option<Flags> {
    let name = str::from_utf8(args.get(1)?).ok()?;
    match engine.libraries().find(name, true) {
        Lookup::Found(place) => Some(place.function().flags),
        _ => None,
    }
}

fn alone(call: &mut Call<'_>) -> Done {
    let done = execute(call, None);
    super::show_error(call, done)
}

fn execute(call: &mut Call<'_>, txn: Option<&mut Txn<'_>>) -> Done {
    interpreter::with(call.engine, |lua| {
        let found = lua.find(call.engine, call.args[1], txn.as_deref())?.ok_or(NOT_FOUND)?;
        let invocation = invocation(call)?;
        let function = found.place.function();
        let mut program = Program {
            name: &function.name,
            flags: Some(function.flags),
            kind: ScriptKind::Function,
            run: &mut |host| lua.call(&found, invocation, host).unwrap_or_else(not_found),
        };
        match txn {
            None => scripting::alone(call, &mut program),
            Some(txn) => scripting::within(call, txn, &mut program),
        }
    })
}

/// Returns the outcome of a call of a library that registers other functions each time it is
/// loaded.
fn not_found() -> Outcome {
    Outcome { reply: Reply::error(NOT_FOUND), has_failed: true, was_killed: false }
}

/// Divides the arguments after the function into keys and other arguments.
fn invocation<'a>(call: &Call<'a>) -> Result<Invocation<'a>, Failure> {
    let keys = resp::number::parse_i64(call.args[2]).ok_or("ERR Bad number of keys provided")?;
    let others = &call.args[3..];
    if keys > others.len() as i64 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let keys = usize::try_from(keys).map_err(|_| "ERR Number of keys can't be negative")?;
    let (keys, arguments) = others.split_at(keys);
    Ok(Invocation { keys, arguments })
}
