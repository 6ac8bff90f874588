//! SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE, and their opposites.
//!
//! Each name is confirmed by a message of its own, which is sent even to a client that wants no
//! replies.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::log::Delivery;
use engine::notify::receivers::Kind;
use engine::session::ReplyMode;
use engine::spec::*;
use resp::Writer;

pub(crate) const SUBSCRIBE: CommandSpec = CommandSpec {
    name: "subscribe",
    summary: "Listen for messages published to the given channels",
    complexity: "O(N) where N is the number of channels to subscribe to.",
    since: "2.0.0",
    group: Group::Pubsub,
    arity: -2,
    flags: PUBSUB | NOSCRIPT | LOADING | STALE,
    traits: FOR_LISTENERS,
    args: &[string("channel").multiple()],
    channels: Some(Channels::All),
    run: Run::Session(subscribe),
    ..CommandSpec::EMPTY
};

fn subscribe(call: &mut Call<'_>) -> Done {
    subscribe_to(call, Kind::Channel)
}

pub(crate) const UNSUBSCRIBE: CommandSpec = CommandSpec {
    name: "unsubscribe",
    summary: "Stop listening for messages posted to the given channels",
    complexity: "O(N) where N is the number of clients already subscribed to a channel.",
    since: "2.0.0",
    group: Group::Pubsub,
    arity: -1,
    flags: PUBSUB | NOSCRIPT | LOADING | STALE,
    traits: FOR_LISTENERS,
    args: &[string("channel").optional().multiple()],
    run: Run::Session(unsubscribe),
    ..CommandSpec::EMPTY
};

fn unsubscribe(call: &mut Call<'_>) -> Done {
    unsubscribe_to(call, Kind::Channel)
}

pub(crate) const PSUBSCRIBE: CommandSpec = CommandSpec {
    name: "psubscribe",
    summary: "Listen for messages published to channels matching the given patterns",
    complexity: "O(N) where N is the number of patterns the client is already subscribed to.",
    since: "2.0.0",
    group: Group::Pubsub,
    arity: -2,
    flags: PUBSUB | NOSCRIPT | LOADING | STALE,
    traits: FOR_LISTENERS,
    args: &[block("pattern", &[pattern("pattern")]).multiple()],
    channels: Some(Channels::Patterns),
    run: Run::Session(psubscribe),
    ..CommandSpec::EMPTY
};

fn psubscribe(call: &mut Call<'_>) -> Done {
    subscribe_to(call, Kind::Pattern)
}

pub(crate) const PUNSUBSCRIBE: CommandSpec = CommandSpec {
    name: "punsubscribe",
    summary: "Stop listening for messages posted to channels matching the given patterns",
    complexity: "O(N+M) where N is the number of patterns the client is already subscribed and M is the number of total patterns subscribed in the system (by any client).",
    since: "2.0.0",
    group: Group::Pubsub,
    arity: -1,
    flags: PUBSUB | NOSCRIPT | LOADING | STALE,
    traits: FOR_LISTENERS,
    args: &[pattern("pattern").optional().multiple()],
    run: Run::Session(punsubscribe),
    ..CommandSpec::EMPTY
};

fn punsubscribe(call: &mut Call<'_>) -> Done {
    unsubscribe_to(call, Kind::Pattern)
}

pub(crate) const SSUBSCRIBE: CommandSpec = CommandSpec {
    name: "ssubscribe",
    summary: "Listen for messages published to the given shard channels",
    complexity: "O(N) where N is the number of shard channels to subscribe to.",
    since: "7.0.0",
    group: Group::Pubsub,
    arity: -2,
    flags: PUBSUB | NOSCRIPT | LOADING | STALE,
    traits: FOR_LISTENERS,
    keys: &[KeySpec::rest(1, 1, KEY_NOT_KEY)],
    args: &[string("shardchannel").multiple()],
    channels: Some(Channels::All),
    run: Run::Session(ssubscribe),
    ..CommandSpec::EMPTY
};

fn ssubscribe(call: &mut Call<'_>) -> Done {
    subscribe_to(call, Kind::Shard)
}

pub(crate) const SUNSUBSCRIBE: CommandSpec = CommandSpec {
    name: "sunsubscribe",
    summary: "Stop listening for messages posted to the given shard channels",
    complexity: "O(N) where N is the number of clients already subscribed to a shard channel.",
    since: "7.0.0",
    group: Group::Pubsub,
    arity: -1,
    flags: PUBSUB | NOSCRIPT | LOADING | STALE,
    traits: FOR_LISTENERS,
    keys: &[KeySpec::rest(1, 1, KEY_NOT_KEY)],
    args: &[string("shardchannel").optional().multiple()],
    run: Run::Session(sunsubscribe),
    ..CommandSpec::EMPTY
};

fn sunsubscribe(call: &mut Call<'_>) -> Done {
    unsubscribe_to(call, Kind::Shard)
}

fn subscribe_to(call: &mut Call<'_>, kind: Kind) -> Done {
    // Inside EXEC only shard channels are refused, for the sake of old clients.
    if !call.session.can_block || (kind == Kind::Shard && !call.may_block) {
        let name = call.command.spec.name.to_uppercase();
        return Err(Failure::text(format!("ERR {name} isn't allowed for a DENY BLOCKING client")));
    }
    for name in &call.args[1..] {
        let session = &mut *call.session;
        call.engine.hub().enter(&session.client, &mut session.subscriptions, kind, name);
        confirm(call, kind, Some(name));
    }
    call.engine.permissions().close_if_denied(call);
    Ok(())
}

fn unsubscribe_to(call: &mut Call<'_>, kind: Kind) -> Done {
    let all;
    let names: Vec<&[u8]> = if call.args.len() > 1 {
        call.args[1..].to_vec()
    } else {
        all = call.session.subscriptions.names(kind);
        all.iter().map(|name| &**name).collect()
    };
    for name in &names {
        let session = &mut *call.session;
        call.engine.hub().leave(&session.client, &mut session.subscriptions, kind, name);
        take_messages(call);
        confirm(call, kind, Some(name));
    }
    if names.is_empty() {
        confirm(call, kind, None);
    }
    Ok(())
}

/// Confirms a change of the client's subscriptions, with their number.
fn confirm(call: &mut Call<'_>, kind: Kind, name: Option<&[u8]>) {
    let own = &call.session.subscriptions;
    let count = match kind {
        Kind::Shard => own.count(Kind::Shard),
        _ => own.count(Kind::Channel) + own.count(Kind::Pattern),
    };
    let write = |out: &mut Writer| {
        out.push(3);
        out.bulk(call.command.spec.name);
        out.bulk_or_null(name);
        out.integer(count as i64);
    };
    if call.session.reply == ReplyMode::On {
        write(call.out);
        return;
    }
    // This is not a reply: it is sent like a message.
    let mut message = Writer::new(call.session.protocol);
    write(&mut message);
    call.deliver(Delivery::Own(message.take()));
}

/// Writes the messages that have arrived before whatever is written next; inside EXEC they wait
/// until its reply is complete.
pub(super) fn take_messages(call: &mut Call<'_>) {
    if call.may_block && call.session.reply == ReplyMode::On {
        let after = call.session.client.take_pushes(call.out.buffer());
        call.reply_after = call.reply_after.max(after);
    }
}
