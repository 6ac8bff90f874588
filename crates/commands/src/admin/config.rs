//! CONFIG. The directives themselves are the server's; without a server there are none.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::spec::*;

use super::help;

pub(crate) const CONFIG: CommandSpec = CommandSpec {
    name: "config",
    summary: "A container for server configuration commands",
    complexity: "Depends on subcommand.",
    since: "2.0.0",
    group: Group::Server,
    arity: -2,
    subs: &[&CONFIG_GET, &CONFIG_HELP, &CONFIG_RESETSTAT, &CONFIG_REWRITE, &CONFIG_SET],
    ..CommandSpec::EMPTY
};

const CONFIG_GET: CommandSpec = CommandSpec {
    name: "get",
    summary: "Get the values of configuration parameters",
    complexity: "O(N) when N is the number of configuration parameters provided",
    since: "2.0.0",
    group: Group::Server,
    arity: -3,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    history: &[("7.0.0", "Added the ability to pass multiple pattern parameters in one call")],
    args: &[block("parameter", &[string("parameter")]).multiple()],
    run: Run::Session(config_get),
    ..CommandSpec::EMPTY
};

const CONFIG_HELP: CommandSpec = CommandSpec {
    name: "help",
    summary: "Show helpful text about the different subcommands",
    complexity: "O(1)",
    since: "5.0.0",
    group: Group::Server,
    arity: 2,
    flags: LOADING | STALE,
    run: Run::Session(config_help),
    ..CommandSpec::EMPTY
};

const CONFIG_RESETSTAT: CommandSpec = CommandSpec {
    name: "resetstat",
    summary: "Reset the stats returned by INFO",
    complexity: "O(1)",
    since: "2.0.0",
    group: Group::Server,
    arity: 2,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    run: Run::Session(config_resetstat),
    ..CommandSpec::EMPTY
};

const CONFIG_REWRITE: CommandSpec = CommandSpec {
    name: "rewrite",
    summary: "Rewrite the configuration file with the in memory configuration",
    complexity: "O(1)",
    since: "2.8.0",
    group: Group::Server,
    arity: 2,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    traits: TAKES_LONG,
    run: Run::Session(config_rewrite),
    ..CommandSpec::EMPTY
};

const CONFIG_SET: CommandSpec = CommandSpec {
    name: "set",
    summary: "Set configuration parameters to the given values",
    complexity: "O(N) when N is the number of configuration parameters provided",
    since: "2.0.0",
    group: Group::Server,
    arity: -4,
    flags: ADMIN | NOSCRIPT | LOADING | STALE,
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    history: &[("7.0.0", "Added the ability to set multiple parameters in one call.")],
    args: &[block("parameter_value", &[string("parameter"), string("value")]).multiple()],
    redact: Some(redact),
    run: Run::Session(config_set),
    ..CommandSpec::EMPTY
};

/// Directives whose values are not shown, neither in the slow log nor to clients in MONITOR. The
/// server's table marks each of them as secret.
pub const SECRET_DIRECTIVES: [&str; 5] =
    ["requirepass", "masterauth", "masteruser", "tls-key-file-pass", "tls-client-key-file-pass"];

/// Hides the values of secret directives.
fn redact(words: &mut [&[u8]]) {
    for pair in words[2..].chunks_exact_mut(2) {
        if SECRET_DIRECTIVES.iter().any(|name| pair[0].eq_ignore_ascii_case(name.as_bytes())) {
            pair[1] = REDACTED;
        }
    }
}

fn config_get(call: &mut Call<'_>) -> Done {
    let found = call.engine.host().map(|host| host.config_matching(&call.args[2..]));
    let found = found.unwrap_or_default();
    call.out.map(found.len());
    for (name, value) in found {
        call.out.bulk(name);
        call.out.bulk(value);
    }
    Ok(())
}

fn config_set(call: &mut Call<'_>) -> Done {
    let words = &call.args[2..];
    if !words.len().is_multiple_of(2) {
        return Err(SYNTAX.into());
    }
    let pairs: Vec<(&[u8], &[u8])> = words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let Some(host) = call.engine.host() else {
        let name = String::from_utf8_lossy(pairs[0].0);
        return Err(Failure::text(format!(
            "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
        )));
    };
    host.config_set(&pairs, call.session.client.peer.local)?;
    call.out.ok();
    Ok(())
}

fn config_rewrite(call: &mut Call<'_>) -> Done {
    let Some(host) = call.engine.host() else {
        return Err("ERR The server is running without a config file".into());
    };
    host.config_rewrite(false)?;
    call.out.ok();
    Ok(())
}

fn config_resetstat(call: &mut Call<'_>) -> Done {
    let engine = call.engine;
    engine.stats().reset();
    engine.users().reset_denied();
    engine.admin().histograms.reset();
    engine.keyspace().reset_stats();
    engine.keyspace().heap().reset_read_cache_stats();
    if let Some(host) = engine.host() {
        host.reset_stats();
    }
    call.out.ok();
    Ok(())
}

fn config_help(call: &mut Call<'_>) -> Done {
    help(
        call,
        &[
            "GET <pattern>",
            "    Return parameters matching the glob-like <pattern> and their values.",
            "SET <directive> <value>",
            "    Set the configuration <directive> to <value>.",
            "RESETSTAT",
            "    Reset statistics reported by the INFO command.",
            "REWRITE",
            "    Rewrite the configuration file.",
        ],
    )
}
