//! SCRIPT: the cache of scripts.

use engine::call::{Call, Run};
use engine::failure::{Done, SYNTAX};
use engine::scripts::cache::Origin;
use engine::scripts::running::ScriptKind;
use engine::spec::*;

use super::eval::NO_SCRIPT;
use super::interpreter::{self, free_flushed_scripts};
use crate::help::reply_help;

const NO_DEBUGGER: &str = "ERR the Lua debugger is not supported: run the script in a development instance of Redis with redis-cli --ldb";

pub(super) const CONTAINER: CommandSpec = CommandSpec {
    name: "script",
    summary: "A container for Lua scripts management commands",
    complexity: "Depends on subcommand.",
    since: "2.6.0",
    group: Group::Scripting,
    arity: -2,
    subs: &[&DEBUG, &EXISTS, &FLUSH, &HELP, &KILL, &LOAD, &SHOW],
    ..CommandSpec::EMPTY
};

const DEBUG: CommandSpec = CommandSpec {
    name: "debug",
    summary: "Set the debug mode for executed scripts.",
    complexity: "O(1)",
    since: "3.2.0",
    group: Group::Scripting,
    arity: 3,
    flags: NOSCRIPT,
    acl: ACL_SCRIPTING,
    args: &[oneof("mode", &[token("yes", "YES"), token("sync", "SYNC"), token("no", "NO")])],
    run: Run::Session(debug),
    ..CommandSpec::EMPTY
};

const EXISTS: CommandSpec = CommandSpec {
    name: "exists",
    summary: "Check existence of scripts in the script cache.",
    complexity: "O(N) with N being the number of scripts to check (so checking a single script is an O(1) operation).",
    since: "2.6.0",
    group: Group::Scripting,
    arity: -3,
    flags: NOSCRIPT,
    acl: ACL_SCRIPTING,
    tips: &["request_policy:all_shards", "response_policy:agg_logical_and"],
    args: &[string("sha1").multiple()],
    run: Run::Session(exists),
    ..CommandSpec::EMPTY
};

const FLUSH: CommandSpec = CommandSpec {
    name: "flush",
    summary: "Remove all the scripts from the script cache.",
    complexity: "O(N) with N being the number of scripts in cache",
    since: "2.6.0",
    group: Group::Scripting,
    arity: -2,
    flags: NOSCRIPT,
    acl: ACL_SCRIPTING,
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    history: &[("6.2.0", "Added the `ASYNC` and `SYNC` flushing mode modifiers.")],
    args: &[oneof("async", &[token("async", "ASYNC"), token("sync", "SYNC")])
        .optional()
        .since("6.2.0")],
    run: Run::Session(flush),
    ..CommandSpec::EMPTY
};

const HELP: CommandSpec = CommandSpec {
    name: "help",
    summary: "Show helpful text about the different subcommands",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Scripting,
    arity: 2,
    flags: LOADING | STALE,
    acl: ACL_SCRIPTING,
    run: Run::Session(help),
    ..CommandSpec::EMPTY
};

const KILL: CommandSpec = CommandSpec {
    name: "kill",
    summary: "Kill the script currently in execution.",
    complexity: "O(1)",
    since: "2.6.0",
    group: Group::Scripting,
    arity: 2,
    flags: NOSCRIPT | ALLOW_BUSY,
    acl: ACL_SCRIPTING,
    tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
    run: Run::Session(kill),
    ..CommandSpec::EMPTY
};

const LOAD: CommandSpec = CommandSpec {
    name: "load",
    summary: "Load the specified Lua script into the script cache.",
    complexity: "O(N) with N being the length in bytes of the script body.",
    since: "2.6.0",
    group: Group::Scripting,
    arity: 3,
    flags: NOSCRIPT | STALE,
    traits: COMPILES,
    acl: ACL_SCRIPTING,
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    args: &[string("script")],
    run: Run::Session(load),
    ..CommandSpec::EMPTY
};

const SHOW: CommandSpec = CommandSpec {
    name: "show",
    summary: "Show server-side Lua script in the script cache.",
    complexity: "O(1).",
    since: "8.0.0",
    group: Group::Scripting,
    arity: 3,
    flags: NOSCRIPT | STALE,
    acl: ACL_SCRIPTING,
    args: &[string("sha1")],
    run: Run::Session(show),
    ..CommandSpec::EMPTY
};

fn debug(call: &mut Call<'_>) -> Done {
    match () {
        () if call.is(2, "NO") => {
            call.out.ok();
            Ok(())
        }
        () if call.is(2, "YES") || call.is(2, "SYNC") => Err(NO_DEBUGGER.into()),
        () => Err("ERR Use SCRIPT DEBUG YES/SYNC/NO".into()),
    }
}

fn exists(call: &mut Call<'_>) -> Done {
    let shas = &call.args[2..];
    call.out.array(shas.len());
    for sha in shas {
        let sha = String::from_utf8_lossy(sha).to_ascii_lowercase();
        call.out.integer(call.engine.scripts().contains(&sha).into());
    }
    Ok(())
}

fn show(call: &mut Call<'_>) -> Done {
    let sha = String::from_utf8_lossy(call.args[2]).to_ascii_lowercase();
    let text = call.engine.scripts().text(&sha).ok_or(NO_SCRIPT)?;
    call.out.bulk(&*text);
    Ok(())
}

fn flush(call: &mut Call<'_>) -> Done {
    match call.args.len() {
        2 => {}
        3 if call.is(2, "SYNC") || call.is(2, "ASYNC") => {}
        _ => return Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into()),
    }
    call.engine.scripts().flush();
    free_flushed_scripts(call.engine);
    call.out.ok();
    Ok(())
}

fn help(call: &mut Call<'_>) -> Done {
    reply_help(
        call,
        &[
            "DEBUG (YES|SYNC|NO)",
            "    Set the debug mode for subsequent scripts executed.",
            "EXISTS <sha1> [<sha1> ...]",
            "    Return information about the existence of the scripts in the script cache.",
            "FLUSH [ASYNC|SYNC]",
            "    Flush the Lua scripts cache. Very dangerous on replicas.",
            "    When called without the optional mode argument, the behavior is determined by the",
            "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
            "    * ASYNC: Asynchronously flush the scripts cache.",
            "    * SYNC: Synchronously flush the scripts cache.",
            "KILL",
            "    Kill the currently executing Lua script.",
            "LOAD <script>",
            "    Load a script into the scripts cache without executing it.",
        ],
    );
    Ok(())
}

fn kill(call: &mut Call<'_>) -> Done {
    let rolls_back = call.engine.config().script_kill_rollback();
    call.engine.running_scripts().kill(ScriptKind::Script, rolls_back)?;
    call.out.ok();
    Ok(())
}

fn load(call: &mut Call<'_>) -> Done {
    let text = call.args.get(2).copied().ok_or(SYNTAX)?;
    let script = interpreter::with(call.engine, |lua| lua.load(call.engine, text, Origin::Loaded))?;
    call.out.bulk(script.sha());
    Ok(())
}
