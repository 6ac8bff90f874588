//! ACL: who may do what.
//!
//! [`parse`] reads rules and [`print`] writes them, by the command table; [`users`] replaces users
//! as a whole, and closes clients that lose theirs. Users themselves are in
//! [`engine::session::users`], and [`engine::session::permissions`] checks commands by their rules.
//!
//! Files are the server's: it reads the one of `aclfile` and writes it
//! ([`crate::admin::Host::read_acl_file`]).

mod elsewhere;
mod list;
mod parse;
mod print;
mod set;
mod users;

pub use users::{UserSet, set_users, user_lines, user_lines_with};

use crate::help::reply_help;
use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[&ACL];

pub(crate) const ACL: CommandSpec = CommandSpec {
    name: "acl",
    summary: "A container for Access List Control commands ",
    complexity: "Depends on subcommand.",
    since: "6.0.0",
    group: Group::Server,
    arity: -2,
    subs: &[
        &ACL_CAT,
        &ACL_DELUSER,
        &ACL_DRYRUN,
        &ACL_GENPASS,
        &ACL_GETUSER,
        &ACL_HELP,
        &ACL_LIST,
        &ACL_LOAD,
        &ACL_LOG,
        &ACL_SAVE,
        &ACL_SETUSER,
        &ACL_USERS,
        &ACL_WHOAMI,
    ],
    ..CommandSpec::EMPTY
};

const OF_ADMIN: CommandSpec = CommandSpec {
    since: "6.0.0",
    group: Group::Server,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    ..CommandSpec::EMPTY
};

const OF_ALL: CommandSpec = CommandSpec { flags: NOSCRIPT | LOADING | STALE, ..OF_ADMIN };

const ACL_CAT: CommandSpec = CommandSpec {
    name: "cat",
    summary: "List the ACL categories or the commands inside a category",
    complexity: "O(1) since the categories and commands are a fixed set.",
    arity: -2,
    args: &[string("categoryname").optional()],
    run: Run::Session(list::cat),
    ..OF_ALL
};

const ACL_DELUSER: CommandSpec = CommandSpec {
    name: "deluser",
    summary: "Remove the specified ACL users and the associated rules",
    complexity: "O(1) amortized time considering the typical user.",
    arity: -3,
    args: &[string("username").multiple()],
    run: Run::Session(set::del_user),
    ..OF_ADMIN
};

const ACL_DRYRUN: CommandSpec = CommandSpec {
    name: "dryrun",
    summary: "Returns whether the user can execute the given command without executing the command.",
    complexity: "O(1).",
    since: "7.0.0",
    arity: -4,
    args: &[string("username"), string("command"), string("arg").optional().multiple()],
    run: Run::Session(list::dry_run),
    ..OF_ADMIN
};

const ACL_GENPASS: CommandSpec = CommandSpec {
    name: "genpass",
    summary: "Generate a pseudorandom secure password to use for ACL users",
    complexity: "O(1)",
    arity: -2,
    args: &[integer("bits").optional()],
    run: Run::Session(set::gen_pass),
    ..OF_ALL
};

const ACL_GETUSER: CommandSpec = CommandSpec {
    name: "getuser",
    summary: "Get the rules for a specific ACL user",
    complexity: "O(N). Where N is the number of password, command and pattern rules that the user has.",
    arity: 3,
    history: &[
        ("6.2.0", "Added Pub/Sub channel patterns."),
        (
            "7.0.0",
            "Added selectors and changed the format of key and channel patterns from a list to their rule representation.",
        ),
    ],
    args: &[string("username")],
    run: Run::Session(list::get_user),
    ..OF_ADMIN
};

const ACL_HELP: CommandSpec = CommandSpec {
    name: "help",
    summary: "Show helpful text about the different subcommands",
    complexity: "O(1)",
    arity: 2,
    flags: LOADING | STALE,
    run: Run::Session(help),
    ..OF_ADMIN
};

const ACL_LIST: CommandSpec = CommandSpec {
    name: "list",
    summary: "List the current ACL rules in ACL config file format",
    complexity: "O(N). Where N is the number of configured users.",
    arity: 2,
    run: Run::Session(list::list),
    ..OF_ADMIN
};

const ACL_LOAD: CommandSpec = CommandSpec {
    name: "load",
    summary: "Reload the ACLs from the configured ACL file",
    complexity: "O(N). Where N is the number of configured users.",
    arity: 2,
    traits: TAKES_LONG,
    run: Run::Session(set::load),
    ..OF_ADMIN
};

const ACL_LOG: CommandSpec = CommandSpec {
    name: "log",
    summary: "List latest events denied because of ACLs in place",
    complexity: "O(N) with N being the number of entries shown.",
    arity: -2,
    args: &[oneof("operation", &[integer("count"), token("reset", "RESET")]).optional()],
    run: Run::Session(list::log),
    ..OF_ADMIN
};

const ACL_SAVE: CommandSpec = CommandSpec {
    name: "save",
    summary: "Save the current ACL rules in the configured ACL file",
    complexity: "O(N). Where N is the number of configured users.",
    arity: 2,
    traits: TAKES_LONG,
    run: Run::Session(set::save),
    ..OF_ADMIN
};

const ACL_SETUSER: CommandSpec = CommandSpec {
    name: "setuser",
    summary: "Modify or create the rules for a specific ACL user",
    complexity: "O(N). Where N is the number of rules provided.",
    arity: -3,
    history: &[
        ("6.2.0", "Added Pub/Sub channel patterns."),
        ("7.0.0", "Added selectors and key based permissions."),
    ],
    args: &[string("username"), string("rule").optional().multiple()],
    redact: Some(|words| words[2..].fill(REDACTED)),
    run: Run::Session(set::set_user),
    ..OF_ADMIN
};

const ACL_USERS: CommandSpec = CommandSpec {
    name: "users",
    summary: "List the username of all the configured ACL rules",
    complexity: "O(N). Where N is the number of configured users.",
    arity: 2,
    run: Run::Session(list::users),
    ..OF_ADMIN
};

const ACL_WHOAMI: CommandSpec = CommandSpec {
    name: "whoami",
    summary: "Return the name of the user associated to the current connection",
    complexity: "O(1)",
    arity: 2,
    run: Run::Session(list::who_am_i),
    ..OF_ALL
};

fn help(call: &mut Call<'_>) -> Done {
    reply_help(
        call,
        &[
            "CAT [<category>]",
            "    List all commands that belong to <category>, or all command categories",
            "    when no category is specified.",
            "DELUSER <username> [<username> ...]",
            "    Delete a list of users.",
            "DRYRUN <username> <command> [<arg> ...]",
            "    Returns whether the user can execute the given command without executing the command.",
            "GETUSER <username>",
            "    Get the user's details.",
            "GENPASS [<bits>]",
            "    Generate a secure 256-bit user password. The optional `bits` argument can",
            "    be used to specify a different size.",
            "LIST",
            "    Show users details in config file format.",
            "LOAD",
            "    Reload users from the ACL file.",
            "LOG [<count> | RESET]",
            "    Show the ACL log entries.",
            "SAVE",
            "    Save the current config to the ACL file.",
            "SETUSER <username> <attribute> [<attribute> ...]",
            "    Create or modify a user with the specified attributes.",
            "USERS",
            "    List all the registered usernames.",
            "WHOAMI",
            "    Return the current connection username.",
        ],
    );
    Ok(())
}
