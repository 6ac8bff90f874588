//! XGROUP.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::{StreamGroup, StreamHead, Txn};

use super::no_group_of;
use crate::help::reply_help;
use crate::streams::{id, stream_mut, unknown};

pub(crate) const XGROUP: CommandSpec = CommandSpec {
    name: "xgroup",
    summary: "A container for consumer groups commands",
    complexity: "Depends on subcommand.",
    since: "5.0.0",
    group: Group::Stream,
    arity: -2,
    subs: &[
        &XGROUP_CREATE,
        &XGROUP_CREATECONSUMER,
        &XGROUP_DELCONSUMER,
        &XGROUP_DESTROY,
        &XGROUP_HELP,
        &XGROUP_SETID,
    ],
    ..CommandSpec::EMPTY
};

pub(crate) const XGROUP_HELP: CommandSpec = CommandSpec {
    name: "help",
    summary: "Show helpful text about the different subcommands",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Stream,
    arity: 2,
    flags: LOADING | STALE,
    acl: ACL_STREAM,
    run: Run::Session(xgroup_help),
    ..CommandSpec::EMPTY
};

fn xgroup_help(call: &mut Call<'_>) -> Done {
    reply_help(
        call,
        &[
            "CREATE <key> <groupname> <id|$> [option]",
            "    Create a new consumer group. Options are:",
            "    * MKSTREAM",
            "      Create the empty stream if it does not exist.",
            "    * ENTRIESREAD entries_read",
            "      Set the group's entries_read counter (internal use).",
            "CREATECONSUMER <key> <groupname> <consumer>",
            "    Create a new consumer in the specified group.",
            "DELCONSUMER <key> <groupname> <consumer>",
            "    Remove the specified consumer.",
            "DESTROY <key> <groupname>",
            "    Remove the specified group.",
            "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
            "    Set the current group ID and entries_read counter.",
        ],
    );
    Ok(())
}

/// The options after the ID.
#[derive(Default)]
struct Options {
    make: bool,
    read: Option<u64>,
}

impl Options {
    fn parse(call: &Call<'_>, is_create: bool) -> Result<Options, Failure> {
        let (mut options, mut at) = (Options::default(), 5);
        while at < call.args.len() {
            if is_create && call.is(at, "MKSTREAM") {
                options.make = true;
            } else if call.is(at, "ENTRIESREAD") && at + 1 < call.args.len() {
                at += 1;
                options.read = match call.int(at)? {
                    -1 => None,
                    read => {
                        let read = u64::try_from(read);
                        Some(read.map_err(|_| "ERR value for ENTRIESREAD must be positive or -1")?)
                    }
                };
            } else {
                return Err(unknown(call));
            }
            at += 1;
        }
        Ok(options)
    }
}

/// Returns the stream's metadata and the group, if they exist.
fn find(
    call: &Call<'_>,
    txn: &mut Txn<'_>,
) -> Result<Option<(StreamHead, Option<StreamGroup>)>, Failure> {
    match stream_mut(call, txn)? {
        Some(stream) => Ok(Some((stream.head(), stream.group(call.args[3])?))),
        None => Ok(None),
    }
}

const NO_KEY: &str = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.";

fn find_group(call: &Call<'_>, txn: &mut Txn<'_>) -> Result<(StreamHead, StreamGroup), Failure> {
    let (head, group) = find(call, txn)?.ok_or(NO_KEY)?;
    let group = group.ok_or_else(|| no_group_of(call.args[2], call.args[3]))?;
    Ok((head, group))
}

pub(crate) const XGROUP_CREATE: CommandSpec = CommandSpec {
    name: "create",
    summary: "Create a consumer group.",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Stream,
    arity: -5,
    flags: WRITE | DENYOOM,
    acl: ACL_STREAM,
    keys: &[KeySpec::one(2, KEY_RW | KEY_INSERT)],
    history: &[("7.0.0", "Added the `entries_read` named argument.")],
    args: &[
        key("key", 0),
        string("groupname"),
        oneof("id", &[string("id"), token("new_id", "$")]),
        token("mkstream", "MKSTREAM").optional(),
        integer("entries_read").token("ENTRIESREAD").optional(),
    ],
    run: Run::Keys(xgroup_create),
    ..CommandSpec::EMPTY
};

fn xgroup_create(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let options = Options::parse(call, true)?;
    let found = find(call, txn)?;
    if found.is_none() && !options.make {
        return Err(NO_KEY.into());
    }
    if call.args.len() > 8 {
        return Err(unknown(call));
    }
    let head = found.map_or(StreamHead::default(), |(head, _)| head);
    let last = match call.args[4] {
        b"$" => head.last,
        word => id::strict(word, 0)?,
    };
    if let Some((_, Some(_))) = found {
        return Err("BUSYGROUP Consumer Group name already exists".into());
    }
    let name = call.args[3];
    txn.streams()
        .edit(call.db(), &call.key(0), |edit| edit.create_group(name, last, options.read))?;
    call.wrote();
    call.notify(EventClass::Stream, "xgroup-create", &call.key(0));
    call.out.ok();
    Ok(())
}

pub(crate) const XGROUP_SETID: CommandSpec = CommandSpec {
    name: "setid",
    summary: "Set a consumer group to an arbitrary last delivered ID value.",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Stream,
    arity: -5,
    flags: WRITE,
    acl: ACL_STREAM,
    keys: &[KeySpec::one(2, KEY_RW | KEY_UPDATE)],
    history: &[("7.0.0", "Added the optional `entries_read` argument.")],
    args: &[
        key("key", 0),
        string("groupname"),
        oneof("id", &[string("id"), token("new_id", "$")]),
        integer("entries_read").token("ENTRIESREAD").optional(),
    ],
    run: Run::Keys(xgroup_setid),
    ..CommandSpec::EMPTY
};

fn xgroup_setid(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let options = Options::parse(call, false)?;
    let (head, mut group) = find_group(call, txn)?;
    if !matches!(call.args.len(), 5 | 7) {
        return Err(unknown(call));
    }
    group.last = match call.args[4] {
        b"$" => head.last,
        word => id::any(word, 0)?,
    };
    group.read = options.read;
    txn.streams().edit(call.db(), &call.key(0), |edit| {
        edit.save_group(&mut group);
        Ok(())
    })?;
    call.wrote();
    call.notify(EventClass::Stream, "xgroup-setid", &call.key(0));
    call.out.ok();
    Ok(())
}

pub(crate) const XGROUP_DESTROY: CommandSpec = CommandSpec {
    name: "destroy",
    summary: "Destroy a consumer group.",
    complexity: "O(N) where N is the number of entries in the group's pending entries list (PEL).",
    since: "5.0.0",
    group: Group::Stream,
    arity: 4,
    flags: WRITE,
    acl: ACL_STREAM,
    keys: &[KeySpec::one(2, KEY_RW | KEY_DELETE)],
    args: &[key("key", 0), string("groupname")],
    run: Run::Keys(xgroup_destroy),
    ..CommandSpec::EMPTY
};

fn xgroup_destroy(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (_, group) = find(call, txn)?.ok_or(NO_KEY)?;
    if group.is_some() {
        let name = call.args[3];
        txn.streams().edit(call.db(), &call.key(0), |edit| edit.drop_group(name))?;
        call.wrote();
        call.notify(EventClass::Stream, "xgroup-destroy", &call.key(0));
    }
    call.out.integer(i64::from(group.is_some()));
    Ok(())
}

pub(crate) const XGROUP_CREATECONSUMER: CommandSpec = CommandSpec {
    name: "createconsumer",
    summary: "Create a consumer in a consumer group.",
    complexity: "O(1)",
    since: "6.2.0",
    group: Group::Stream,
    arity: 5,
    flags: WRITE | DENYOOM,
    acl: ACL_STREAM,
    keys: &[KeySpec::one(2, KEY_RW | KEY_INSERT)],
    args: &[key("key", 0), string("groupname"), string("consumername")],
    run: Run::Keys(xgroup_createconsumer),
    ..CommandSpec::EMPTY
};

fn xgroup_createconsumer(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (_, group) = find_group(call, txn)?;
    let (name, now) = (call.args[4], super::seen_ms(call));
    let made = txn
        .streams()
        .edit(call.db(), &call.key(0), |edit| edit.create_consumer(&group, name, now, None))?;
    if made.is_some() {
        call.wrote();
        call.notify(EventClass::Stream, "xgroup-createconsumer", &call.key(0));
    }
    call.out.integer(i64::from(made.is_some()));
    Ok(())
}

pub(crate) const XGROUP_DELCONSUMER: CommandSpec = CommandSpec {
    name: "delconsumer",
    summary: "Delete a consumer from a consumer group.",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Stream,
    arity: 5,
    flags: WRITE,
    acl: ACL_STREAM,
    keys: &[KeySpec::one(2, KEY_RW | KEY_DELETE)],
    args: &[key("key", 0), string("groupname"), string("consumername")],
    run: Run::Keys(xgroup_delconsumer),
    ..CommandSpec::EMPTY
};

fn xgroup_delconsumer(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (_, group) = find_group(call, txn)?;
    let name = call.args[4];
    let pending =
        txn.streams().edit(call.db(), &call.key(0), |edit| edit.drop_consumer(&group, name))?;
    if pending.is_some() {
        call.wrote();
        call.notify(EventClass::Stream, "xgroup-delconsumer", &call.key(0));
    }
    call.out.integer(pending.unwrap_or(0) as i64);
    Ok(())
}
