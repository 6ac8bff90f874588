//! EVAL, EVALSHA, and their read-only forms.

use std::sync::Arc;

use engine::Engine;
use engine::call::{Call, Run, ScriptCommand};
use engine::failure::{Done, Failure, NOT_INTEGER};
use engine::scripts::cache::Origin;
use engine::scripts::running::ScriptKind;
use engine::spec::*;
use keyspace::Txn;
use script::{Interpreter, Invocation, Script};

use super::interpreter::{self, ThreadInterpreter};
use super::run::{self, Program};

pub(super) const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

const WRITES: &str =
    "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE";
const READS: &str =
    "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS";

const fn keys(flags: u16) -> KeySpec {
    KeySpec::new(Begin::Index(2), Find::KeyNum { at: 0, first: 1, step: 1 }, flags)
}

const BY_TEXT: &[Arg] = &[
    string("script"),
    integer("numkeys"),
    key("key", 0).optional().multiple(),
    string("arg").optional().multiple(),
];
const BY_SHA: &[Arg] = &[
    string("sha1"),
    integer("numkeys"),
    key("key", 0).optional().multiple(),
    string("arg").optional().multiple(),
];

const FLAGS: u32 = NOSCRIPT | STALE | SKIP_MONITOR | MAY_REPLICATE | NO_MANDATORY_KEYS;

pub(super) const EVAL: CommandSpec = CommandSpec {
    name: "eval",
    summary: "Execute a Lua script server side",
    complexity: "Depends on the script that is executed.",
    since: "2.6.0",
    group: Group::Scripting,
    arity: -3,
    flags: FLAGS,
    traits: COMPILES,
    acl: ACL_SCRIPTING,
    keys: &[keys(KEY_RW | KEY_ACCESS | KEY_UPDATE).notes(WRITES)],
    args: BY_TEXT,
    run: Run::Script(&SCRIPT_BY_TEXT),
    ..CommandSpec::EMPTY
};

pub(super) const EVAL_RO: CommandSpec = CommandSpec {
    name: "eval_ro",
    summary: "Execute a read-only Lua script server side",
    since: "7.0.0",
    flags: FLAGS & !MAY_REPLICATE | READONLY,
    keys: &[keys(KEY_RO | KEY_ACCESS).notes(READS)],
    ..EVAL
};

pub(super) const EVALSHA: CommandSpec = CommandSpec {
    name: "evalsha",
    keys: &[keys(KEY_RW | KEY_ACCESS | KEY_UPDATE)],
    args: BY_SHA,
    run: Run::Script(&SCRIPT_BY_SHA),
    ..EVAL
};

pub(super) const EVALSHA_RO: CommandSpec = CommandSpec {
    name: "evalsha_ro",
    keys: &[keys(KEY_RO | KEY_ACCESS)],
    args: BY_SHA,
    run: Run::Script(&SCRIPT_BY_SHA),
    ..EVAL_RO
};

static SCRIPT_BY_TEXT: ScriptCommand = ScriptCommand {
    kind: ScriptKind::Script,
    alone: eval,
    within: eval_within,
    declared: |_, args| Interpreter::flags_of(args.get(1)?),
    text: |_, _| None,
    keep: keep_script,
};

static SCRIPT_BY_SHA: ScriptCommand = ScriptCommand {
    kind: ScriptKind::Script,
    alone: evalsha,
    within: evalsha_within,
    declared: |engine, args| Interpreter::flags_of(&script_text(engine, args)?),
    text: script_text,
    keep: keep_script,
};

/// Returns the text of the script with the given SHA-1.
fn script_text(engine: &Engine, args: &[&[u8]]) -> Option<Arc<[u8]>> {
    let sha = str::from_utf8(args.get(1)?).ok()?;
    engine.scripts().text(&sha.to_ascii_lowercase())
}

/// Compiles a script for this thread, so that it is found even if the cache drops it.
fn keep_script(engine: &Engine, text: &[u8]) {
    // If this fails, the command that runs the script reports it.
    let _ = interpreter::with(engine, |interpreter| interpreter.keep(text));
}

/// Finds the script of a command.
type FindScript = fn(&mut ThreadInterpreter, &Call<'_>) -> Result<Script, Failure>;

fn eval(call: &mut Call<'_>) -> Done {
    execute(call, by_text, run::alone)
}

fn eval_within(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    execute(call, by_text, |call, program| run::within(call, txn, program))
}

fn evalsha(call: &mut Call<'_>) -> Done {
    check_sha(call)?;
    execute(call, by_sha, run::alone)
}

fn evalsha_within(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    check_sha(call)?;
    execute(call, by_sha, |call, program| run::within(call, txn, program))
}

/// Refuses an argument that cannot be a SHA-1 before the others are checked, as in Redis.
fn check_sha(call: &Call<'_>) -> Done {
    if call.args[1].len() == 40 { Ok(()) } else { Err(NO_SCRIPT.into()) }
}

fn by_text(interpreter: &mut ThreadInterpreter, call: &Call<'_>) -> Result<Script, Failure> {
    interpreter.load(call.engine, call.args[1], Origin::Evaluated)
}

fn by_sha(interpreter: &mut ThreadInterpreter, call: &Call<'_>) -> Result<Script, Failure> {
    interpreter.find(call.engine, call.args[1]).ok_or_else(|| NO_SCRIPT.into())
}

fn execute(
    call: &mut Call<'_>,
    find: FindScript,
    run: impl FnOnce(&mut Call<'_>, &mut Program<'_>) -> Done,
) -> Done {
    let invocation = invocation(call)?;
    interpreter::with(call.engine, |interpreter| {
        let script = find(interpreter, call)?;
        let mut program = Program {
            name: script.sha(),
            flags: script.flags(),
            kind: ScriptKind::Script,
            run: &mut |host| interpreter.run(&script, invocation, host),
        };
        run(call, &mut program)
    })
}

/// Divides the arguments after the script into keys and other arguments.
pub(super) fn invocation<'a>(call: &Call<'a>) -> Result<Invocation<'a>, Failure> {
    let keys = resp::number::parse_i64(call.args[2]).ok_or(NOT_INTEGER)?;
    let keys = usize::try_from(keys).map_err(|_| "ERR Number of keys can't be negative")?;
    let others = &call.args[3..];
    if keys > others.len() {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let (keys, arguments) = others.split_at(keys);
    Ok(Invocation { keys, arguments })
}
