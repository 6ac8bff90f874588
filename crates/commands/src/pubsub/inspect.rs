//! PUBSUB: shows channels and the numbers of their subscribers.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure};
use engine::notify::receivers::Kind;
use engine::spec::*;

use crate::help::reply_help;

pub(crate) const CONTAINER: CommandSpec = CommandSpec {
    name: "pubsub",
    summary: "A container for Pub/Sub commands",
    complexity: "Depends on subcommand.",
    since: "2.8.0",
    group: Group::Pubsub,
    arity: -2,
    subs: &[
        &PUBSUB_CHANNELS,
        &PUBSUB_HELP,
        &PUBSUB_NUMPAT,
        &PUBSUB_NUMSUB,
        &PUBSUB_SHARDCHANNELS,
        &PUBSUB_SHARDNUMSUB,
    ],
    ..CommandSpec::EMPTY
};

const PUBSUB_CHANNELS: CommandSpec = CommandSpec {
    name: "channels",
    summary: "List active channels",
    complexity: "O(N) where N is the number of active channels, and assuming constant time pattern matching (relatively short channels and patterns)",
    since: "2.8.0",
    group: Group::Pubsub,
    arity: -2,
    flags: PUBSUB | LOADING | STALE,
    args: &[pattern("pattern").optional()],
    run: Run::Session(pubsub_channels),
    ..CommandSpec::EMPTY
};

const PUBSUB_HELP: CommandSpec = CommandSpec {
    name: "help",
    summary: "Show helpful text about the different subcommands",
    complexity: "O(1)",
    since: "6.2.0",
    group: Group::Pubsub,
    arity: 2,
    flags: LOADING | STALE,
    run: Run::Session(pubsub_help),
    ..CommandSpec::EMPTY
};

const PUBSUB_NUMPAT: CommandSpec = CommandSpec {
    name: "numpat",
    summary: "Get the count of unique patterns pattern subscriptions",
    complexity: "O(1)",
    since: "2.8.0",
    group: Group::Pubsub,
    arity: 2,
    flags: PUBSUB | LOADING | STALE,
    run: Run::Session(pubsub_numpat),
    ..CommandSpec::EMPTY
};

const PUBSUB_NUMSUB: CommandSpec = CommandSpec {
    name: "numsub",
    summary: "Get the count of subscribers for channels",
    complexity: "O(N) for the NUMSUB subcommand, where N is the number of requested channels",
    since: "2.8.0",
    group: Group::Pubsub,
    arity: -2,
    flags: PUBSUB | LOADING | STALE,
    args: &[string("channel").optional().multiple()],
    run: Run::Session(pubsub_numsub),
    ..CommandSpec::EMPTY
};

const PUBSUB_SHARDCHANNELS: CommandSpec = CommandSpec {
    name: "shardchannels",
    summary: "List active shard channels",
    complexity: "O(N) where N is the number of active shard channels, and assuming constant time pattern matching (relatively short shard channels).",
    since: "7.0.0",
    group: Group::Pubsub,
    arity: -2,
    flags: PUBSUB | LOADING | STALE,
    args: &[pattern("pattern").optional()],
    run: Run::Session(pubsub_shardchannels),
    ..CommandSpec::EMPTY
};

const PUBSUB_SHARDNUMSUB: CommandSpec = CommandSpec {
    name: "shardnumsub",
    summary: "Get the count of subscribers for shard channels",
    complexity: "O(N) for the SHARDNUMSUB subcommand, where N is the number of requested shard channels",
    since: "7.0.0",
    group: Group::Pubsub,
    arity: -2,
    flags: PUBSUB | LOADING | STALE,
    args: &[string("shardchannel").optional().multiple()],
    run: Run::Session(pubsub_shardnumsub),
    ..CommandSpec::EMPTY
};

fn pubsub_channels(call: &mut Call<'_>) -> Done {
    channels(call, Kind::Channel)
}

fn pubsub_shardchannels(call: &mut Call<'_>) -> Done {
    channels(call, Kind::Shard)
}

fn channels(call: &mut Call<'_>, kind: Kind) -> Done {
    if call.args.len() > 3 {
        let (name, word) = ("PUBSUB", String::from_utf8_lossy(call.args[1]));
        return Err(Failure::text(format!(
            "ERR unknown subcommand or wrong number of arguments for '{word}'. Try {name} HELP."
        )));
    }
    let names = call.engine.hub().names(kind, call.args.get(2).copied());
    call.out.array(names.len());
    names.iter().for_each(|name| call.out.bulk(name));
    Ok(())
}

fn pubsub_numsub(call: &mut Call<'_>) -> Done {
    listeners(call, Kind::Channel)
}

fn pubsub_shardnumsub(call: &mut Call<'_>) -> Done {
    listeners(call, Kind::Shard)
}

fn listeners(call: &mut Call<'_>, kind: Kind) -> Done {
    let names = &call.args[2..];
    call.out.array(2 * names.len());
    for name in names {
        call.out.bulk(name);
        call.out.integer(call.engine.hub().listeners(kind, name) as i64);
    }
    Ok(())
}

fn pubsub_numpat(call: &mut Call<'_>) -> Done {
    call.out.integer(call.engine.hub().count(Kind::Pattern) as i64);
    Ok(())
}

fn pubsub_help(call: &mut Call<'_>) -> Done {
    reply_help(call, HELP);
    Ok(())
}

const HELP: &[&str] = &[
    "CHANNELS [<pattern>]",
    "    Return the currently active channels matching a <pattern> (default: '*').",
    "NUMPAT",
    "    Return number of subscriptions to patterns.",
    "NUMSUB [<channel> ...]",
    "    Return the number of subscribers for the specified channels, excluding",
    "    pattern subscriptions(default: no channels).",
    "SHARDCHANNELS [<pattern>]",
    "    Return the currently active shard level channels matching a <pattern> (default: '*').",
    "SHARDNUMSUB [<shardchannel> ...]",
    "    Return the number of subscribers for the specified shard level channel(s)",
];
