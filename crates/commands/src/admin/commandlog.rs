//! COMMANDLOG of Valkey 8.1: the slow log, and the commands whose requests or replies were large.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::observe::state::SlowLog;
use engine::spec::*;

use super::help;
use super::slowlog::reply_entries;

pub(crate) const COMMANDLOG: CommandSpec = CommandSpec {
    name: "commandlog",
    summary: "A container for command log commands.",
    complexity: "Depends on subcommand.",
    since: "8.1.0",
    group: Group::Server,
    arity: -2,
    subs: &[&COMMANDLOG_GET, &COMMANDLOG_HELP, &COMMANDLOG_LEN, &COMMANDLOG_RESET],
    ..CommandSpec::EMPTY
};

const TYPE: Arg = oneof(
    "type",
    &[
        token("slow", "SLOW"),
        token("large-request", "LARGE-REQUEST"),
        token("large-reply", "LARGE-REPLY"),
    ],
);

const COMMANDLOG_GET: CommandSpec = CommandSpec {
    name: "get",
    summary: "Returns the specified command log's entries.",
    complexity: "O(N) where N is the number of entries returned",
    since: "8.1.0",
    group: Group::Server,
    arity: 4,
    flags: ADMIN | LOADING | STALE,
    tips: &["request_policy:all_nodes", "nondeterministic_output"],
    args: &[integer("count"), TYPE],
    run: Run::Session(commandlog_get),
    ..CommandSpec::EMPTY
};

const COMMANDLOG_HELP: CommandSpec = CommandSpec {
    name: "help",
    summary: "Show helpful text about the different subcommands",
    complexity: "O(1)",
    since: "8.1.0",
    group: Group::Server,
    arity: 2,
    flags: LOADING | STALE,
    run: Run::Session(commandlog_help),
    ..CommandSpec::EMPTY
};

const COMMANDLOG_LEN: CommandSpec = CommandSpec {
    name: "len",
    summary: "Returns the number of entries in the specified type of command log.",
    complexity: "O(1)",
    since: "8.1.0",
    group: Group::Server,
    arity: 3,
    flags: ADMIN | LOADING | STALE,
    tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
    args: &[TYPE],
    run: Run::Session(commandlog_len),
    ..CommandSpec::EMPTY
};

const COMMANDLOG_RESET: CommandSpec = CommandSpec {
    name: "reset",
    summary: "Clears all entries from the specified type of command log.",
    complexity: "O(N) where N is the number of entries in the commandlog",
    since: "8.1.0",
    group: Group::Server,
    arity: 3,
    flags: ADMIN | LOADING | STALE,
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    args: &[TYPE],
    run: Run::Session(commandlog_reset),
    ..CommandSpec::EMPTY
};

/// Returns the log that an argument names.
fn log<'a>(call: &Call<'a>, at: usize) -> Result<&'a SlowLog, Failure> {
    let admin = call.engine.admin();
    match () {
        () if call.is(at, "slow") => Ok(&admin.slow_log),
        () if call.is(at, "large-request") => Ok(&admin.large_requests),
        () if call.is(at, "large-reply") => Ok(&admin.large_replies),
        () => {
            let known = "slow, large-request, large-reply";
            Err(Failure::text(format!("ERR type should be one of the following: {known}")))
        }
    }
}

fn commandlog_get(call: &mut Call<'_>) -> Done {
    let count = call.int(2).ok().filter(|count| *count >= -1);
    let count = count.ok_or("ERR count should be greater than or equal to -1")?;
    let log = log(call, 3)?;
    reply_entries(call, log, count);
    Ok(())
}

fn commandlog_len(call: &mut Call<'_>) -> Done {
    let len = log(call, 2)?.ring().entries.len();
    call.out.integer(len as i64);
    Ok(())
}

fn commandlog_reset(call: &mut Call<'_>) -> Done {
    log(call, 2)?.ring().entries.clear();
    call.out.ok();
    Ok(())
}

fn commandlog_help(call: &mut Call<'_>) -> Done {
    help(
        call,
        &[
            "GET <count> <type>",
            "    Return top <count> entries of the specified <type> from the commandlog (-1 mean all).",
            "    Entries are made of:",
            "    id, timestamp,",
            "        time in microseconds for type of slow,",
            "        or size in bytes for type of large-request,",
            "        or size in bytes for type of large-reply",
            "    arguments array, client IP and port,",
            "    client name",
            "LEN <type>",
            "    Return the length of the specified type of commandlog.",
            "RESET <type>",
            "    Reset the specified type of commandlog.",
        ],
    )
}
