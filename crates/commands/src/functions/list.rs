//! FUNCTION LIST and FUNCTION STATS.

use engine::call::{Call, Run};
use engine::execute::Scope;
use engine::failure::{Done, Failure};
use engine::scripts::libraries::LibraryInfo;
use engine::scripts::running::{Program, RunningScript, ScriptKind};
use engine::spec::*;
use keyspace::Txn;
use resp::{Writer, glob};
use script::Function;

use super::interpreter;

pub(super) const LIST: CommandSpec = CommandSpec {
    name: "list",
    summary: "List information about all the functions",
    complexity: "O(N) where N is the number of functions",
    since: "7.0.0",
    group: Group::Scripting,
    arity: -2,
    flags: NOSCRIPT,
    acl: ACL_SCRIPTING,
    tips: &["nondeterministic_output_order"],
    args: &[
        string("library-name-pattern").token("LIBRARYNAME").optional(),
        token("withcode", "WITHCODE").optional(),
    ],
    run: Run::OwnLocks { run: alone, within: list },
    ..CommandSpec::EMPTY
};

pub(super) const STATS: CommandSpec = CommandSpec {
    name: "stats",
    summary: "Return information about the function currently running (name, description, duration)",
    complexity: "O(1)",
    since: "7.0.0",
    group: Group::Scripting,
    arity: 2,
    flags: NOSCRIPT | ALLOW_BUSY,
    acl: ACL_SCRIPTING,
    tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
    run: Run::OwnLocks {
        run: |call| stats(call, None),
        within: |call, txn| stats(call, Some(txn)),
    },
    ..CommandSpec::EMPTY
};

#[derive(Default)]
struct Options<'a> {
    pattern: Option<&'a [u8]>,
    with_code: bool,
}

fn parse<'a>(call: &Call<'a>) -> Result<Options<'a>, Failure> {
    let mut options = Options::default();
    let mut at = 2;
    while at < call.args.len() {
        if call.is(at, "WITHCODE") && !options.with_code {
            options.with_code = true;
        } else if call.is(at, "LIBRARYNAME") && options.pattern.is_none() {
            at += 1;
            let pattern = call.args.get(at).copied();
            options.pattern = Some(pattern.ok_or("ERR library name argument was not given")?);
        } else {
            let mut text = b"ERR Unknown argument ".to_vec();
            text.extend_from_slice(call.args[at]);
            return Err(Failure::text(text));
        }
        at += 1;
    }
    Ok(options)
}

fn alone(call: &mut Call<'_>) -> Done {
    interpreter::with(call.engine, |lua| lua.know(call.engine, None))?;
    call.engine.transact(call, Scope::All, list)
}

fn list(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let options = parse(call)?;
    call.shows_data = true;
    interpreter::with(call.engine, |lua| lua.know(call.engine, Some(txn)))?;
    let start = call.out.deferred();
    let mut shown = 0;
    let listed = call.engine.libraries().with(|known| {
        known.all().filter(|library| matches(&options, library)).try_for_each(|library| {
            shown += 1;
            show(call, txn, library, options.with_code)
        })
    });
    listed.unwrap_or(Ok(()))?;
    call.out.finish_array(start, shown);
    Ok(())
}

/// Returns true if the library's name matches the pattern, regardless of case as in Redis.
fn matches(options: &Options<'_>, library: &LibraryInfo) -> bool {
    options.pattern.is_none_or(|pattern| {
        glob::matches(&pattern.to_ascii_lowercase(), library.name.to_ascii_lowercase().as_bytes())
    })
}

fn show(call: &mut Call<'_>, txn: &Txn<'_>, library: &LibraryInfo, with_code: bool) -> Done {
    let out = &mut *call.out;
    out.map(if with_code { 4 } else { 3 });
    out.bulk("library_name");
    out.bulk(&library.name);
    out.bulk("engine");
    out.bulk("LUA");
    out.bulk("functions");
    out.array(library.functions.len());
    for Function { name, description, flags } in &library.functions {
        out.map(3);
        out.bulk("name");
        out.bulk(name);
        out.bulk("description");
        out.bulk_or_null(description.as_deref());
        out.bulk("flags");
        out.set(flags.names().count());
        flags.names().for_each(|flag| out.simple(flag));
    }
    if with_code {
        let name = library.name.as_bytes();
        let code = txn.library(name).map_err(|error| super::damaged(name, &error))?;
        out.bulk("library_code");
        out.bulk(code.unwrap_or_default());
    }
    Ok(())
}

fn stats(call: &mut Call<'_>, txn: Option<&Txn<'_>>) -> Done {
    // While a script runs long, the reply is made without a lock, from what is known.
    if txn.is_some() || call.engine.running_scripts().is_empty() {
        interpreter::with(call.engine, |lua| lua.know(call.engine, txn))?;
    }
    let running = call.engine.running_scripts();
    let function = running.first(ScriptKind::Function);
    if let Some(script) = running.first(ScriptKind::Script).filter(|_| function.is_none())
        && call.engine.config().busy_reply_all()
    {
        return Err(script.busy());
    }
    let libraries = call.engine.libraries();
    let count = libraries.with(|known| known.len() as u64);
    let count = count.unwrap_or_else(|| call.engine.keyspace().libraries());
    let functions = libraries.functions();
    let out = &mut *call.out;
    out.map(2);
    out.bulk("running_script");
    match function {
        Some(function) => show_running(out, &function, call.engine.clock().unix_ns()),
        None => out.null(),
    }
    out.bulk("engines");
    out.map(1);
    out.bulk("LUA");
    out.map(2);
    out.bulk("libraries_count");
    out.integer(count as i64);
    out.bulk("functions_count");
    out.integer(functions as i64);
    Ok(())
}

/// Shows a long-running function, for FUNCTION STATS.
fn show_running(out: &mut Writer, function: &RunningScript, now_ns: u64) {
    let Program { name, command } = function.program();
    out.map(3);
    out.bulk("name");
    out.bulk(&*name);
    out.bulk("command");
    out.array(command.len());
    command.iter().for_each(|arg| out.bulk(arg));
    out.bulk("duration_ms");
    out.integer((function.runs_for(now_ns) / 1_000_000) as i64);
}
