//! FUNCTION LOAD.
//!
//! The library is compiled before anything is locked: its code may run for half a second. Within
//! EXEC the shards are locked already.

use engine::call::{Call, Run};
use engine::execute::Scope;
use engine::failure::{Done, Failure};
use engine::log::Delivery;
use engine::scripts::libraries::{Known, Libraries};
use engine::spec::*;
use keyspace::Txn;
use script::Interpreter;

use super::interpreter::{self, Loaded, ThreadLibraries};

pub(super) const LOAD: CommandSpec = CommandSpec {
    name: "load",
    summary: "Create a function with the given arguments (name, code, description)",
    complexity: "O(1) (considering compilation time is redundant)",
    since: "7.0.0",
    group: Group::Scripting,
    arity: -3,
    flags: WRITE | DENYOOM | NOSCRIPT,
    traits: COMPILES,
    acl: ACL_SCRIPTING,
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    args: &[token("replace", "REPLACE").optional(), string("function-code")],
    run: Run::OwnLocks { run: alone, within },
    ..CommandSpec::EMPTY
};

fn alone(call: &mut Call<'_>) -> Done {
    let (code, replaces) = parse(call)?;
    let done = interpreter::with(call.engine, |lua| {
        let loaded = compile(call, lua, None, code, replaces)?;
        call.engine
            .transact(call, Scope::All, |call, txn| store(call, lua, txn, code, replaces, loaded))
    });
    super::show_error(call, done)
}

fn within(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (code, replaces) = parse(call)?;
    interpreter::with(call.engine, |lua| {
        let loaded = compile(call, lua, Some(txn), code, replaces)?;
        store(call, lua, txn, code, replaces, loaded)
    })
}

/// Returns the code, and whether to replace a library of the same name.
fn parse<'a>(call: &Call<'a>) -> Result<(&'a [u8], bool), Failure> {
    let last = call.args.len() - 1;
    for at in 2..last {
        if !call.is(at, "REPLACE") {
            let mut text = b"ERR Unknown option given: ".to_vec();
            text.extend_from_slice(call.args[at]);
            return Err(Failure::text(text));
        }
    }
    Ok((call.args[last], last > 2))
}

/// Refuses a library whose name is taken, unless it replaces that one.
fn check_name(call: &Call<'_>, name: &str, replaces: bool) -> Done {
    let is_taken = call.engine.libraries().with(|known| known.has(name)) == Some(true);
    match is_taken && !replaces {
        true => Err(Failure::text(format!("ERR Library '{name}' already exists"))),
        false => Ok(()),
    }
}

fn compile(
    call: &Call<'_>,
    lua: &mut ThreadLibraries,
    txn: Option<&Txn<'_>>,
    code: &[u8],
    replaces: bool,
) -> Result<Loaded, Failure> {
    let name = Interpreter::library_name(code);
    let name = name.map_err(|error| Failure::text(error.to_string()))?;
    lua.know(call.engine, txn)?;
    check_name(call, &name, replaces)?;
    lua.load(call.engine, code, !call.session.replay)
}

fn store(
    call: &mut Call<'_>,
    lua: &mut ThreadLibraries,
    txn: &mut Txn<'_>,
    code: &[u8],
    replaces: bool,
    loaded: Loaded,
) -> Done {
    lua.know(call.engine, Some(txn))?;
    let info = &loaded.info;
    check_name(call, &info.name, replaces)?;
    let conflict = call.engine.libraries().with(|known| known.conflict(info, |_| true));
    if let Some(function) = conflict.flatten() {
        return Err(Failure::text(format!("ERR Function {function} already exists")));
    }
    txn.libraries().put(info.name.as_bytes(), code)?;
    let new = info.clone();
    changed(call, |known| known.insert(new));
    call.out.bulk(&info.name);
    lua.keep(loaded);
    Ok(())
}

/// Records that the libraries in the heap have changed, and logs the command as it was given.
pub(super) fn changed(call: &mut Call<'_>, change: impl FnOnce(&mut Known)) {
    let change = Libraries::change(call.engine.libraries(), change);
    call.effects.deliver(Delivery::Libraries(change));
    call.wrote();
}
