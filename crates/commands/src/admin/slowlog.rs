//! SLOWLOG.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::observe::state::SlowLog;
use engine::spec::*;

use super::help;

pub(crate) const SLOWLOG: CommandSpec = CommandSpec {
    name: "slowlog",
    summary: "A container for slow log commands",
    complexity: "Depends on subcommand.",
    since: "2.2.12",
    group: Group::Server,
    arity: -2,
    subs: &[&SLOWLOG_GET, &SLOWLOG_HELP, &SLOWLOG_LEN, &SLOWLOG_RESET],
    ..CommandSpec::EMPTY
};

const SLOWLOG_GET: CommandSpec = CommandSpec {
    name: "get",
    summary: "Get the slow log's entries",
    complexity: "O(N) where N is the number of entries returned",
    since: "2.2.12",
    group: Group::Server,
    arity: -2,
    flags: ADMIN | LOADING | STALE,
    tips: &["request_policy:all_nodes", "nondeterministic_output"],
    history: &[("4.0.0", "Added client IP address, port and name to the reply.")],
    args: &[integer("count").optional()],
    run: Run::Session(slowlog_get),
    ..CommandSpec::EMPTY
};

const SLOWLOG_HELP: CommandSpec = CommandSpec {
    name: "help",
    summary: "Show helpful text about the different subcommands",
    complexity: "O(1)",
    since: "6.2.0",
    group: Group::Server,
    arity: 2,
    flags: LOADING | STALE,
    run: Run::Session(slowlog_help),
    ..CommandSpec::EMPTY
};

const SLOWLOG_LEN: CommandSpec = CommandSpec {
    name: "len",
    summary: "Get the slow log's length",
    complexity: "O(1)",
    since: "2.2.12",
    group: Group::Server,
    arity: 2,
    flags: ADMIN | LOADING | STALE,
    tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
    run: Run::Session(slowlog_len),
    ..CommandSpec::EMPTY
};

const SLOWLOG_RESET: CommandSpec = CommandSpec {
    name: "reset",
    summary: "Clear all entries from the slow log",
    complexity: "O(N) where N is the number of entries in the slowlog",
    since: "2.2.12",
    group: Group::Server,
    arity: 2,
    flags: ADMIN | LOADING | STALE,
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    run: Run::Session(slowlog_reset),
    ..CommandSpec::EMPTY
};

fn slowlog_get(call: &mut Call<'_>) -> Done {
    if call.args.len() > 3 {
        let name = call.args[1].escape_ascii();
        let error = "ERR unknown subcommand or wrong number of arguments for";
        return Err(Failure::text(format!("{error} '{name}'. Try SLOWLOG HELP.")));
    }
    let count = if call.args.len() > 2 { call.int(2).ok() } else { Some(10) };
    let count = count.filter(|count| *count >= -1);
    let count = count.ok_or("ERR count should be greater than or equal to -1")?;
    reply_entries(call, &call.engine.admin().slow_log, count);
    Ok(())
}

/// Replies with `count` of the latest entries, or with all if it is negative.
pub(super) fn reply_entries(call: &mut Call<'_>, log: &SlowLog, count: i64) {
    let log = log.ring();
    let count = if count < 0 { log.entries.len() } else { log.entries.len().min(count as usize) };
    call.out.array(count);
    for entry in log.entries.iter().take(count) {
        call.out.array(6);
        call.out.integer(entry.id as i64);
        call.out.integer(entry.unix_s as i64);
        call.out.integer(entry.value as i64);
        call.out.array(entry.words.len());
        entry.words.iter().for_each(|word| call.out.bulk(word));
        call.out.bulk(&entry.addr);
        call.out.bulk(&entry.name);
    }
}

fn slowlog_len(call: &mut Call<'_>) -> Done {
    let len = call.engine.admin().slow_log.ring().entries.len();
    call.out.integer(len as i64);
    Ok(())
}

fn slowlog_reset(call: &mut Call<'_>) -> Done {
    call.engine.admin().slow_log.ring().entries.clear();
    call.out.ok();
    Ok(())
}

fn slowlog_help(call: &mut Call<'_>) -> Done {
    help(
        call,
        &[
            "GET [<count>]",
            "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
            "    Entries are made of:",
            "    id, timestamp, time in microseconds, arguments array, client IP and port,",
            "    client name",
            "LEN",
            "    Return the length of the slowlog.",
            "RESET",
            "    Reset the slowlog.",
        ],
    )
}
