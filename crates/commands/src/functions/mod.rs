//! Function libraries: FUNCTION and FCALL.
//!
//! - [`load`], [`delete`], [`list`], [`dump`]: the subcommands of FUNCTION.
//! - [`call`]: FCALL and FCALL_RO.
//! - [`interpreter`]: the thread's Lua interpreter for libraries. Redis has one in addition to that
//!   of scripts, too.
//! - [`host`]: what a library may do while it is loaded.
//!
//! The code of libraries is in the heap; each change is a transaction over all shards.
//! `engine::scripts::libraries` keeps what is derived from the code, above all the names of the
//! functions.

mod call;
mod delete;
mod dump;
mod host;
mod interpreter;
mod list;
mod load;

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::scripts::running::ScriptKind;
use engine::spec::*;

use crate::help::reply_help;

/// Its commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[&FUNCTION, &call::FCALL, &call::FCALL_RO];

const FUNCTION: CommandSpec = CommandSpec {
    name: "function",
    summary: "A container for function commands",
    complexity: "Depends on subcommand.",
    since: "7.0.0",
    group: Group::Scripting,
    arity: -2,
    subs: &[
        &delete::DELETE,
        &dump::DUMP,
        &delete::FLUSH,
        &HELP,
        &KILL,
        &list::LIST,
        &load::LOAD,
        &dump::RESTORE,
        &list::STATS,
    ],
    ..CommandSpec::EMPTY
};

const HELP: CommandSpec = CommandSpec {
    name: "help",
    summary: "Show helpful text about the different subcommands",
    complexity: "O(1)",
    since: "7.0.0",
    group: Group::Scripting,
    arity: 2,
    flags: LOADING | STALE,
    acl: ACL_SCRIPTING,
    run: Run::Session(help),
    ..CommandSpec::EMPTY
};

const KILL: CommandSpec = CommandSpec {
    name: "kill",
    summary: "Kill the function currently in execution.",
    complexity: "O(1)",
    since: "7.0.0",
    group: Group::Scripting,
    arity: 2,
    flags: NOSCRIPT | ALLOW_BUSY,
    acl: ACL_SCRIPTING,
    tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
    run: Run::Session(kill),
    ..CommandSpec::EMPTY
};

fn kill(call: &mut Call<'_>) -> Done {
    let rolls_back = call.engine.config().script_kill_rollback();
    call.engine.running_scripts().kill(ScriptKind::Function, rolls_back)?;
    call.out.ok();
    Ok(())
}

/// Makes an error that was found before anything was locked wait for the log: it shows which
/// libraries exist.
fn show_error(call: &mut Call<'_>, done: Done) -> Done {
    if done.as_ref().is_err_and(|failure| !failure.comes_again()) {
        let seen =
            call.engine.durability().check_read(&[], call.engine.durability().logged_until(&[]))?;
        call.reply_after = call.reply_after.max(seen);
    }
    done
}

/// Returns the error for too many arguments of a subcommand.
fn wrong_arguments(call: &Call<'_>) -> Failure {
    let mut text = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
    text.extend_from_slice(call.args[1]);
    text.extend_from_slice(b"'. Try FUNCTION HELP.");
    Failure::text(text)
}

/// Returns the error for a library whose code is damaged.
fn damaged(name: &[u8], error: &keyspace::Error) -> Failure {
    let name = name.escape_ascii();
    let place = match error {
        keyspace::Error::Damaged(at) => format!("pool offset {at:#x}"),
        other => other.to_string(),
    };
    Failure::text(format!(
        "MEDIAERR the function library '{name}' is damaged ({place}): FUNCTION LOAD REPLACE it, or FUNCTION DELETE it"
    ))
}

fn help(call: &mut Call<'_>) -> Done {
    reply_help(
        call,
        &[
            "LOAD [REPLACE] <FUNCTION CODE>",
            "    Create a new library with the given library name and code.",
            "DELETE <LIBRARY NAME>",
            "    Delete the given library.",
            "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
            "    Return general information on all the libraries:",
            "    * Library name",
            "    * The engine used to run the Library",
            "    * Library description",
            "    * Functions list",
            "    * Library code (if WITHCODE is given)",
            "    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
            "STATS",
            "    Return information about the current function running:",
            "    * Function name",
            "    * Command used to run the function",
            "    * Duration in MS that the function is running",
            "    If no function is running, return nil",
            "    In addition, returns a list of available engines.",
            "KILL",
            "    Kill the current running function.",
            "FLUSH [ASYNC|SYNC]",
            "    Delete all the libraries.",
            "    When called without the optional mode argument, the behavior is determined by the",
            "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
            "    * ASYNC: Asynchronously flush the libraries.",
            "    * SYNC: Synchronously flush the libraries.",
            "DUMP",
            "    Return a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE command",
            "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
            "    Restore the libraries represented by the given payload, it is possible to give a restore policy to",
            "    control how to handle existing libraries (default APPEND):",
            "    * FLUSH: delete all existing libraries.",
            "    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
            "    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old",
            "      libraries with the new libraries (notice that even on this option there is a chance of failure",
            "      in case of functions name collision with another library).",
        ],
    );
    Ok(())
}
