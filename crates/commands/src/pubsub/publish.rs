//! PUBLISH and SPUBLISH.

use cluster::message::Published;
use engine::call::{Call, Run};
use engine::failure::Done;
use engine::log::Delivery;
use engine::notify::receivers::Kind;
use engine::spec::*;

use super::subscribe::take_messages;

const TOO_MANY: &str = "ERR too many messages are published in one script or transaction";

pub(crate) const PUBLISH: CommandSpec = CommandSpec {
    name: "publish",
    summary: "Post a message to a channel",
    complexity: "O(N+M) where N is the number of clients subscribed to the receiving channel and M is the total number of subscribed patterns (by any client).",
    since: "2.0.0",
    group: Group::Pubsub,
    arity: 3,
    flags: PUBSUB | LOADING | STALE | FAST | MAY_REPLICATE,
    args: &[string("channel"), string("message")],
    channels: Some(Channels::First),
    run: Run::Session(publish),
    ..CommandSpec::EMPTY
};

fn publish(call: &mut Call<'_>) -> Done {
    send(call, Kind::Channel)
}

pub(crate) const SPUBLISH: CommandSpec = CommandSpec {
    name: "spublish",
    summary: "Post a message to a shard channel",
    complexity: "O(N) where N is the number of clients subscribed to the receiving shard channel.",
    since: "7.0.0",
    group: Group::Pubsub,
    arity: 3,
    flags: PUBSUB | LOADING | STALE | FAST | MAY_REPLICATE,
    keys: &[KeySpec::one(1, KEY_NOT_KEY)],
    args: &[string("shardchannel"), string("message")],
    channels: Some(Channels::First),
    run: Run::Session(spublish),
    ..CommandSpec::EMPTY
};

fn spublish(call: &mut Call<'_>) -> Done {
    send(call, Kind::Shard)
}

fn send(call: &mut Call<'_>, kind: Kind) -> Done {
    match call.engine.cluster().is_on() {
        true => publish_to_nodes(call, kind)?,
        false => propagate(call)?,
    }
    let (hub, channel, text) = (call.engine.hub(), call.args[1], call.args[2]);
    let count = match kind {
        _ if call.is_inner() => {
            let receivers = hub.receivers(kind, channel);
            let count = receivers.count();
            if count > 0 {
                if !call.effects.count_message(text.len(), count) {
                    return Err(TOO_MANY.into());
                }
                call.deliver(Delivery::Message { receivers, text: text.into() });
            }
            count
        }
        Kind::Shard => hub.publish_shard(channel, text, call.engine.durability().sent_after(0)),
        Kind::Channel | Kind::Pattern => {
            hub.publish(channel, text, call.engine.durability().sent_after(0))
        }
    };
    take_messages(call);
    call.out.integer(count as i64);
    Ok(())
}

/// Passes the message on to the other nodes of the cluster; to those of its shard, if its channel
/// is sharded.
fn publish_to_nodes(call: &mut Call<'_>, kind: Kind) -> Done {
    let (channel, text) = (call.args[1], call.args[2]);
    if call.is_inner() && !call.effects.count_message(channel.len() + text.len(), 0) {
        return Err(TOO_MANY.into());
    }
    call.deliver(Delivery::ToNodes(Published {
        is_sharded: kind == Kind::Shard,
        channel: channel.to_vec(),
        message: text.to_vec(),
    }));
    Ok(())
}

/// Passes the message on to replicas.
fn propagate(call: &mut Call<'_>) -> Done {
    if !call.engine.replication().takes_effects() {
        return Ok(());
    }
    let name = call.command.spec.name.to_uppercase();
    let mut command = Vec::new();
    aof::encode(&mut command, &[name.as_bytes(), call.args[1], call.args[2]]);
    if call.is_inner() && !call.effects.count_message(command.len(), 0) {
        return Err(TOO_MANY.into());
    }
    call.deliver(Delivery::Streamed(command));
    Ok(())
}
