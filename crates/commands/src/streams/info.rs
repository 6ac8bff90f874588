//! XINFO.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, NO_SUCH_KEY};
use engine::spec::*;
use keyspace::{StreamId, StreamRef, Txn};

use super::groups::{XINFO_CONSUMERS, XINFO_GROUPS, full};
use super::{reply, stream, unknown};
use crate::help::reply_help;

pub(crate) const XINFO: CommandSpec = CommandSpec {
    name: "xinfo",
    summary: "A container for stream introspection commands",
    complexity: "Depends on subcommand.",
    since: "5.0.0",
    group: Group::Stream,
    arity: -2,
    subs: &[&XINFO_CONSUMERS, &XINFO_GROUPS, &XINFO_HELP, &XINFO_STREAM],
    ..CommandSpec::EMPTY
};

pub(crate) const XINFO_HELP: CommandSpec = CommandSpec {
    name: "help",
    summary: "Show helpful text about the different subcommands",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Stream,
    arity: 2,
    flags: LOADING | STALE,
    acl: ACL_STREAM,
    run: Run::Session(xinfo_help),
    ..CommandSpec::EMPTY
};

fn xinfo_help(call: &mut Call<'_>) -> Done {
    reply_help(
        call,
        &[
            "CONSUMERS <key> <groupname>",
            "    Show consumers of <groupname>.",
            "GROUPS <key>",
            "    Show the stream consumer groups.",
            "STREAM <key> [FULL [COUNT <count>]",
            "    Show information about the stream.",
        ],
    );
    Ok(())
}

pub(crate) const XINFO_STREAM: CommandSpec = CommandSpec {
    name: "stream",
    summary: "Get information about a stream",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Stream,
    arity: -3,
    flags: READONLY,
    acl: ACL_STREAM,
    keys: &[KeySpec::one(2, KEY_RO | KEY_ACCESS)],
    history: &[
        ("6.0.0", "Added the `FULL` modifier."),
        (
            "7.0.0",
            "Added the `max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, `entries-read` and `lag` fields",
        ),
    ],
    args: &[
        key("key", 0),
        block("full", &[integer("count").token("COUNT").optional()]).token("FULL").optional(),
    ],
    run: Run::Keys(xinfo_stream),
    ..CommandSpec::EMPTY
};

/// The number of entries that FULL shows by default.
const SHOWN: u64 = 10;

fn xinfo_stream(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let Some(stream) = stream(call, txn, 0)? else { return Err(NO_SUCH_KEY.into()) };
    let most = match call.args.len() {
        3 => None,
        4 | 6 if call.is(3, "FULL") => Some(shown(call)?),
        _ => return Err(unknown(call)),
    };
    call.out.map(if most.is_some() { 9 } else { 10 });
    head(call, &stream)?;
    match most {
        None => {
            call.out.bulk("groups");
            call.out.integer(stream.group_count() as i64);
            for (name, reversed) in [("first-entry", false), ("last-entry", true)] {
                call.out.bulk(name);
                let mut any = false;
                stream.visit(StreamId::MIN..=StreamId::MAX, reversed, |entry| {
                    reply::entry(call.out, entry);
                    any = true;
                    false
                })?;
                if !any {
                    call.out.null();
                }
            }
        }
        Some(most) => {
            call.out.bulk("entries");
            reply::entries(call.out, &stream, StreamId::MIN, StreamId::MAX, most, false)?;
            call.out.bulk("groups");
            full(call.out, &stream, most)?;
        }
    }
    Ok(())
}

/// Returns the value of COUNT.
fn shown(call: &Call<'_>) -> Result<u64, Failure> {
    match call.args.len() {
        4 => Ok(SHOWN),
        _ if call.is(4, "COUNT") => Ok(u64::try_from(call.int(5)?).unwrap_or(SHOWN)),
        _ => Err(unknown(call)),
    }
}

/// Writes the fields that both forms begin with. Redis's tree of nodes has one node more than keys.
fn head(call: &mut Call<'_>, stream: &StreamRef<'_>) -> Done {
    let (head, nodes) = (stream.head(), stream.nodes());
    let first = stream.first_id()?.unwrap_or(StreamId::MIN);
    let out = &mut *call.out;
    for (name, number) in
        [("length", head.len), ("radix-tree-keys", nodes), ("radix-tree-nodes", nodes + 1)]
    {
        out.bulk(name);
        out.integer(number as i64);
    }
    out.bulk("last-generated-id");
    reply::id(out, head.last);
    out.bulk("max-deleted-entry-id");
    reply::id(out, head.deleted);
    out.bulk("entries-added");
    out.integer(head.added as i64);
    out.bulk("recorded-first-entry-id");
    reply::id(out, first);
    Ok(())
}
