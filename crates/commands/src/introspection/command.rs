//! COMMAND and the descriptions of its subcommands, which are implemented in the other files of
//! this folder.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;

use super::docs::command_docs;
use super::getkeys::{command_getkeys, command_getkeysandflags};
use super::info::{command, command_info};
use super::list::{command_count, command_list};
use crate::help::reply_help;

pub(crate) const COMMAND: CommandSpec = CommandSpec {
    name: "command",
    summary: "Get array of Redis command details",
    complexity: "O(N) where N is the total number of Redis commands",
    since: "2.8.13",
    group: Group::Server,
    arity: -1,
    flags: LOADING | STALE,
    acl: ACL_CONNECTION,
    tips: &["nondeterministic_output_order"],
    subs: &[
        &COMMAND_COUNT,
        &COMMAND_DOCS,
        &COMMAND_GETKEYS,
        &COMMAND_GETKEYSANDFLAGS,
        &COMMAND_HELP,
        &COMMAND_INFO,
        &COMMAND_LIST,
    ],
    run: Run::Session(command),
    ..CommandSpec::EMPTY
};

pub(crate) const COMMAND_COUNT: CommandSpec = CommandSpec {
    name: "count",
    summary: "Get total number of Redis commands",
    complexity: "O(1)",
    since: "2.8.13",
    group: Group::Server,
    arity: 2,
    flags: LOADING | STALE,
    acl: ACL_CONNECTION,
    run: Run::Session(command_count),
    ..CommandSpec::EMPTY
};

pub(crate) const COMMAND_DOCS: CommandSpec = CommandSpec {
    name: "docs",
    summary: "Get array of specific Redis command documentation",
    complexity: "O(N) where N is the number of commands to look up",
    since: "7.0.0",
    group: Group::Server,
    arity: -2,
    flags: LOADING | STALE,
    acl: ACL_CONNECTION,
    tips: &["nondeterministic_output_order"],
    args: &[string("command-name").optional().multiple()],
    run: Run::Session(command_docs),
    ..CommandSpec::EMPTY
};

pub(crate) const COMMAND_GETKEYS: CommandSpec = CommandSpec {
    name: "getkeys",
    summary: "Extract keys given a full Redis command",
    complexity: "O(N) where N is the number of arguments to the command",
    since: "2.8.13",
    group: Group::Server,
    arity: -4,
    flags: LOADING | STALE,
    acl: ACL_CONNECTION,
    run: Run::Session(command_getkeys),
    ..CommandSpec::EMPTY
};

pub(crate) const COMMAND_GETKEYSANDFLAGS: CommandSpec = CommandSpec {
    name: "getkeysandflags",
    summary: "Extract keys and access flags given a full Redis command",
    complexity: "O(N) where N is the number of arguments to the command",
    since: "7.0.0",
    group: Group::Server,
    arity: -4,
    flags: LOADING | STALE,
    acl: ACL_CONNECTION,
    run: Run::Session(command_getkeysandflags),
    ..CommandSpec::EMPTY
};

pub(crate) const COMMAND_HELP: CommandSpec = CommandSpec {
    name: "help",
    summary: "Show helpful text about the different subcommands",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Server,
    arity: 2,
    flags: LOADING | STALE,
    acl: ACL_CONNECTION,
    run: Run::Session(command_help),
    ..CommandSpec::EMPTY
};

pub(crate) const COMMAND_INFO: CommandSpec = CommandSpec {
    name: "info",
    summary: "Get array of specific Redis command details, or all when no argument is given.",
    complexity: "O(N) where N is the number of commands to look up",
    since: "2.8.13",
    group: Group::Server,
    arity: -2,
    flags: LOADING | STALE,
    acl: ACL_CONNECTION,
    tips: &["nondeterministic_output_order"],
    history: &[("7.0.0", "Allowed to be called with no argument to get info on all commands.")],
    args: &[string("command-name").optional().multiple()],
    run: Run::Session(command_info),
    ..CommandSpec::EMPTY
};

pub(crate) const COMMAND_LIST: CommandSpec = CommandSpec {
    name: "list",
    summary: "Get an array of Redis command names",
    complexity: "O(N) where N is the total number of Redis commands",
    since: "7.0.0",
    group: Group::Server,
    arity: -2,
    flags: LOADING | STALE,
    acl: ACL_CONNECTION,
    tips: &["nondeterministic_output_order"],
    args: &[oneof(
        "filterby",
        &[
            string("module-name").token("MODULE"),
            string("category").token("ACLCAT"),
            pattern("pattern").token("PATTERN"),
        ],
    )
    .token("FILTERBY")
    .optional()],
    run: Run::Session(command_list),
    ..CommandSpec::EMPTY
};

fn command_help(call: &mut Call<'_>) -> Done {
    reply_help(
        call,
        &[
            "(no subcommand)",
            "    Return details about all Redis commands.",
            "COUNT",
            "    Return the total number of commands in this Redis server.",
            "LIST",
            "    Return a list of all commands in this Redis server.",
            "INFO [<command-name> ...]",
            "    Return details about multiple Redis commands.",
            "    If no command names are given, documentation details for all",
            "    commands are returned.",
            "DOCS [<command-name> ...]",
            "    Return documentation details about multiple Redis commands.",
            "    If no command names are given, documentation details for all",
            "    commands are returned.",
            "GETKEYS <full-command>",
            "    Return the keys from a full Redis command.",
            "GETKEYSANDFLAGS <full-command>",
            "    Return the keys and the access flags from a full Redis command.",
        ],
    );
    Ok(())
}
