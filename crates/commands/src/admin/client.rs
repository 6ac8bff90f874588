//! CLIENT.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::session::ReplyMode;
use engine::session::describe::describe;
use engine::spec::*;

use super::client_caching::CLIENT_CACHING;
use super::client_filter::{FILTERS, Filter};
use super::client_tracking::CLIENT_TRACKING;
use super::client_tracking_info::{CLIENT_GETREDIR, CLIENT_TRACKINGINFO};
use super::{client_7_2, client_acknowledge, client_valkey, help, kill, on_off};

pub(crate) const CLIENT: CommandSpec = CommandSpec {
    name: "client",
    summary: "A container for client connection commands",
    complexity: "Depends on subcommand.",
    since: "2.4.0",
    group: Group::Connection,
    arity: -2,
    traits: KEEPS_CACHING,
    subs: &[
        &client_acknowledge::CLIENT_ACKNOWLEDGE,
        &CLIENT_CACHING,
        &client_valkey::CLIENT_CAPA,
        &CLIENT_GETNAME,
        &CLIENT_GETREDIR,
        &CLIENT_HELP,
        &CLIENT_ID,
        &client_valkey::CLIENT_IMPORT_SOURCE,
        &CLIENT_INFO,
        &kill::CLIENT_KILL,
        &CLIENT_LIST,
        &CLIENT_NO_EVICT,
        &client_7_2::CLIENT_NO_TOUCH,
        &CLIENT_PAUSE,
        &CLIENT_REPLY,
        &client_7_2::CLIENT_SETINFO,
        &CLIENT_SETNAME,
        &CLIENT_TRACKING,
        &CLIENT_TRACKINGINFO,
        &CLIENT_UNBLOCK,
        &CLIENT_UNPAUSE,
    ],
    ..CommandSpec::EMPTY
};

const CLIENT_GETNAME: CommandSpec = CommandSpec {
    name: "getname",
    summary: "Get the current connection name",
    complexity: "O(1)",
    since: "2.6.9",
    group: Group::Connection,
    arity: 2,
    flags: NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    run: Run::Session(client_getname),
    ..CommandSpec::EMPTY
};

const CLIENT_HELP: CommandSpec = CommandSpec {
    name: "help",
    summary: "Show helpful text about the different subcommands",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Connection,
    arity: 2,
    flags: LOADING | STALE,
    acl: ACL_CONNECTION,
    run: Run::Session(client_help),
    ..CommandSpec::EMPTY
};

const CLIENT_ID: CommandSpec = CommandSpec {
    name: "id",
    summary: "Returns the client ID for the current connection",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Connection,
    arity: 2,
    flags: NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    run: Run::Session(client_id),
    ..CommandSpec::EMPTY
};

const CLIENT_INFO: CommandSpec = CommandSpec {
    name: "info",
    summary: "Returns information about the current client connection.",
    complexity: "O(1)",
    since: "6.2.0",
    group: Group::Connection,
    arity: 2,
    flags: NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    tips: &["nondeterministic_output"],
    run: Run::Session(client_info),
    ..CommandSpec::EMPTY
};

const CLIENT_LIST: CommandSpec = CommandSpec {
    name: "list",
    summary: "Get the list of client connections",
    complexity: "O(N) where N is the number of client connections",
    since: "2.4.0",
    group: Group::Connection,
    arity: -2,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    tips: &["nondeterministic_output"],
    history: &[
        ("2.8.12", "Added unique client `id` field."),
        ("5.0.0", "Added optional `TYPE` filter."),
        ("6.0.0", "Added `user` field."),
        (
            "6.2.0",
            "Added `argv-mem`, `tot-mem`, `laddr` and `redir` fields and the optional `ID` filter.",
        ),
        ("7.0.0", "Added `resp`, `multi-mem`, `rbs` and `rbp` fields."),
        ("7.0.3", "Added `ssub` field."),
    ],
    args: &[
        oneof(
            "normal_master_replica_pubsub",
            &[
                token("normal", "NORMAL"),
                token("master", "MASTER"),
                token("replica", "REPLICA"),
                token("pubsub", "PUBSUB"),
            ],
        )
        .token("TYPE")
        .since("5.0.0")
        .optional(),
        block("id", &[integer("client-id").multiple()]).token("ID").since("6.2.0").optional(),
        oneof("filter", FILTERS).since("8.1.0").optional().multiple(),
    ],
    run: Run::Session(client_list),
    ..CommandSpec::EMPTY
};

const CLIENT_NO_EVICT: CommandSpec = CommandSpec {
    name: "no-evict",
    summary: "Set client eviction mode for the current connection",
    complexity: "O(1)",
    since: "7.0.0",
    group: Group::Connection,
    arity: 3,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    args: &[oneof("enabled", &[token("on", "ON"), token("off", "OFF")])],
    run: Run::Session(client_no_evict),
    ..CommandSpec::EMPTY
};

const CLIENT_PAUSE: CommandSpec = CommandSpec {
    name: "pause",
    summary: "Stop processing commands from clients for some time",
    complexity: "O(1)",
    since: "2.9.50",
    group: Group::Connection,
    arity: -3,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    history: &[("6.2.0", "`CLIENT PAUSE WRITE` mode added along with the `mode` option.")],
    args: &[
        integer("timeout"),
        oneof("mode", &[token("write", "WRITE"), token("all", "ALL")]).since("6.2.0").optional(),
    ],
    run: Run::Session(client_pause),
    ..CommandSpec::EMPTY
};

const CLIENT_REPLY: CommandSpec = CommandSpec {
    name: "reply",
    summary: "Instruct the server whether to reply to commands",
    complexity: "O(1)",
    since: "3.2.0",
    group: Group::Connection,
    arity: 3,
    flags: NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    args: &[oneof("on_off_skip", &[token("on", "ON"), token("off", "OFF"), token("skip", "SKIP")])],
    run: Run::Session(client_reply),
    ..CommandSpec::EMPTY
};

const CLIENT_SETNAME: CommandSpec = CommandSpec {
    name: "setname",
    summary: "Set the current connection name",
    complexity: "O(1)",
    since: "2.6.9",
    group: Group::Connection,
    arity: 3,
    flags: NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    args: &[string("connection-name")],
    run: Run::Session(client_setname),
    ..CommandSpec::EMPTY
};

const CLIENT_UNBLOCK: CommandSpec = CommandSpec {
    name: "unblock",
    summary: "Unblock a client blocked in a blocking command from a different connection",
    complexity: "O(log N) where N is the number of client connections",
    since: "5.0.0",
    group: Group::Connection,
    arity: -3,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    args: &[
        integer("client-id"),
        oneof("timeout_error", &[token("timeout", "TIMEOUT"), token("error", "ERROR")]).optional(),
    ],
    run: Run::Session(client_unblock),
    ..CommandSpec::EMPTY
};

const CLIENT_UNPAUSE: CommandSpec = CommandSpec {
    name: "unpause",
    summary: "Resume processing of clients that were paused",
    complexity: "O(N) Where N is the number of paused clients",
    since: "6.2.0",
    group: Group::Connection,
    arity: 2,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    acl: ACL_CONNECTION,
    run: Run::Session(client_unpause),
    ..CommandSpec::EMPTY
};

fn client_id(call: &mut Call<'_>) -> Done {
    call.out.integer(call.session.id() as i64);
    Ok(())
}

fn client_getname(call: &mut Call<'_>) -> Done {
    let name = call.session.client.name.lock().unwrap_or_else(PoisonError::into_inner);
    call.out.bulk_or_null(Some(&name[..]).filter(|name| !name.is_empty()));
    Ok(())
}

fn client_setname(call: &mut Call<'_>) -> Done {
    let name = call.args[2];
    if !name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Err(
            "ERR Client names cannot contain spaces, newlines or special characters.".into()
        );
    }
    *call.session.client.name.lock().unwrap_or_else(PoisonError::into_inner) = name.to_vec();
    call.out.ok();
    Ok(())
}

fn client_info(call: &mut Call<'_>) -> Done {
    call.show_arguments();
    let line = describe(call.engine, &call.session.client, call.now_ms());
    call.session.client.argv_mem.store(0, Relaxed);
    call.out.verbatim(*b"txt", line + "\n");
    Ok(())
}

fn client_list(call: &mut Call<'_>) -> Done {
    let mut clients = match call.args.len() {
        2 => call.engine.clients().list(),
        3 => return Err(SYNTAX.into()),
        _ if call.is(2, "id") && call.args[4..].iter().all(|word| !is_filter(word)) => {
            let ids: Vec<i64> = (3..call.args.len())
                .map(|at| call.int(at).map_err(|_| Failure::from("ERR Invalid client ID")))
                .collect::<Result<_, _>>()?;
            let positive = ids.into_iter().filter_map(|id| u64::try_from(id).ok());
            positive.filter_map(|id| call.engine.clients().get(id)).collect()
        }
        _ => Filter::read(call, false)?.find(call.engine),
    };
    // Redis regards a killed client as gone at once.
    clients.retain(|client| !client.killed.load(Relaxed));
    let now = call.now_ms();
    call.show_arguments();
    let lines: String =
        clients.iter().map(|client| describe(call.engine, client, now) + "\n").collect();
    call.session.client.argv_mem.store(0, Relaxed);
    call.out.verbatim(*b"txt", lines);
    Ok(())
}

/// Returns true if a word is the name of a filter. Numbers without one belong to Redis's option ID,
/// which takes any IDs and lists the clients in that order.
fn is_filter(word: &[u8]) -> bool {
    FILTERS.iter().any(|filter| word.eq_ignore_ascii_case(filter.token.as_bytes()))
}

fn client_pause(call: &mut Call<'_>) -> Done {
    let all = match call.args.len() {
        3 => true,
        4 if call.is(3, "all") => true,
        4 if call.is(3, "write") => false,
        4 => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
        _ => return Err(too_many_arguments(call)),
    };
    let not_integer = "ERR timeout is not an integer or out of range";
    let timeout = call.int(2).map_err(|_| Failure::from(not_integer))?;
    if timeout < 0 {
        return Err("ERR timeout is negative".into());
    }
    let until = call.now_ms().checked_add(timeout as u64);
    let until = until.filter(|ms| i64::try_from(*ms).is_ok());
    let until = until.ok_or("ERR timeout is out of range")?;
    call.engine.admin().pause(until, all);
    call.out.ok();
    Ok(())
}

fn client_unpause(call: &mut Call<'_>) -> Done {
    call.engine.admin().unpause();
    call.engine.clients().list().iter().for_each(|client| client.wake());
    call.out.ok();
    Ok(())
}

fn client_reply(call: &mut Call<'_>) -> Done {
    let mode = match () {
        () if call.is(2, "on") => ReplyMode::On,
        () if call.is(2, "off") => ReplyMode::Off,
        () if call.is(2, "skip") => ReplyMode::SkipNext,
        () => return Err(SYNTAX.into()),
    };
    let session = &mut *call.session;
    // SKIP changes nothing while replies are off.
    if !(mode == ReplyMode::SkipNext && session.reply == ReplyMode::Off) {
        session.reply = mode;
    }
    if mode == ReplyMode::On {
        call.out.ok();
    }
    Ok(())
}

fn client_no_evict(call: &mut Call<'_>) -> Done {
    let on = on_off(call, 2).ok_or(SYNTAX)?;
    call.session.client.no_evict.store(on, Relaxed);
    call.out.ok();
    Ok(())
}

/// Returns the error for more arguments than a subcommand takes.
fn too_many_arguments(call: &Call<'_>) -> Failure {
    let name = call.args[1].escape_ascii();
    let error = "ERR unknown subcommand or wrong number of arguments for";
    Failure::text(format!("{error} '{name}'. Try CLIENT HELP."))
}

fn client_unblock(call: &mut Call<'_>) -> Done {
    if call.args.len() > 4 {
        return Err(too_many_arguments(call));
    }
    if call.args.len() == 4 && !call.is(3, "timeout") && !call.is(3, "error") {
        return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into());
    }
    let id = u64::try_from(call.int(2)?).unwrap_or(0);
    let unblocked = call.engine.unblock(id, call.is(3, "error"));
    call.out.integer(unblocked.into());
    Ok(())
}

fn client_help(call: &mut Call<'_>) -> Done {
    help(call, HELP)
}

const HELP: &[&str] = &[
    "CACHING (YES|NO)",
    "    Enable/disable tracking of the keys for next command in OPTIN/OPTOUT modes.",
    "GETREDIR",
    "    Return the client ID we are redirecting to when tracking is enabled.",
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections. Options are:",
    "    * ADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made from the specified address",
    "    * LADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made to specified local address",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Kill connections by type.",
    "    * USER <username>",
    "      Kill connections authenticated by <username>.",
    "    * SKIPME (YES|NO)",
    "      Skip killing current connection (default: yes).",
    "LIST [options ...]",
    "    Return information about client connections. Options:",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Return clients of specified type.",
    "UNPAUSE",
    "    Stop the current client pause, resuming traffic.",
    "PAUSE <timeout> [WRITE|ALL]",
    "    Suspend all, or just write, clients for <timeout> milliseconds.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETINFO <option> <value>",
    "    Set client meta attr. Options are:",
    "    * LIB-NAME: the client lib name.",
    "    * LIB-VER: the client lib version.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    Unblock the specified blocked client.",
    "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
    "         [OPTIN] [OPTOUT] [NOLOOP]",
    "    Control server assisted client side caching.",
    "TRACKINGINFO",
    "    Report tracking status for the current connection.",
    "NO-EVICT (ON|OFF)",
    "    Protect current client connection from eviction.",
    "NO-TOUCH (ON|OFF)",
    "    Will not touch LRU/LFU stats when this mode is on.",
    "ACKNOWLEDGE (<replicas> [DURABLE]|DEFAULT)",
    "    Let the replies to this connection wait until so many replicas have what they show.",
];
