//! MODULE: visual clients ask for the list before they offer a module's features. No modules can be
//! loaded, so there is no LOAD, LOADEX or UNLOAD.

use engine::call::{Call, Run};
use engine::failure::Done;
use engine::spec::*;

use super::help;

pub(crate) const MODULE: CommandSpec = CommandSpec {
    name: "module",
    summary: "A container for module commands",
    complexity: "Depends on subcommand.",
    since: "4.0.0",
    group: Group::Server,
    arity: -2,
    subs: &[&MODULE_HELP, &MODULE_LIST],
    ..CommandSpec::EMPTY
};

const MODULE_HELP: CommandSpec = CommandSpec {
    name: "help",
    summary: "Show helpful text about the different subcommands",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Server,
    arity: 2,
    flags: LOADING | STALE,
    run: Run::Session(module_help),
    ..CommandSpec::EMPTY
};

const MODULE_LIST: CommandSpec = CommandSpec {
    name: "list",
    summary: "List all modules loaded by the server",
    complexity: "O(N) where N is the number of loaded modules.",
    since: "4.0.0",
    group: Group::Server,
    arity: 2,
    flags: ADMIN | NOSCRIPT,
    tips: &["nondeterministic_output_order"],
    run: Run::Session(module_list),
    ..CommandSpec::EMPTY
};

fn module_list(call: &mut Call<'_>) -> Done {
    call.out.array(0);
    Ok(())
}

fn module_help(call: &mut Call<'_>) -> Done {
    help(call, &["LIST", "    Return a list of loaded modules."])
}
