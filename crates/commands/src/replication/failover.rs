//! FAILOVER: a primary and one of its replicas exchange their roles, without loss of a write.

use std::fmt::Display;

use engine::call::{Call, Run};
use engine::failure::{Done, NOT_INTEGER, SYNTAX};
use engine::replication::{FailoverPlan, FailoverStage, Primary};
use engine::spec::*;

use ::replication::Stage;

pub(crate) const FAILOVER: CommandSpec = CommandSpec {
    name: "failover",
    summary: "Start a coordinated failover between this server and one of its replicas.",
    complexity: "O(1)",
    since: "6.2.0",
    group: Group::Server,
    arity: -1,
    flags: ADMIN | NOSCRIPT | STALE,
    args: &[
        block("target", &[string("host"), integer("port"), token("force", "FORCE").optional()])
            .token("TO")
            .optional(),
        token("abort", "ABORT").optional(),
        integer("milliseconds").token("TIMEOUT").optional(),
    ],
    run: Run::Session(failover),
    ..CommandSpec::EMPTY
};

/// The options of a call.
#[derive(Default)]
struct Options<'a> {
    host: Option<&'a [u8]>,
    port: i64,
    timeout_ms: i64,
    forces: bool,
}

fn failover(call: &mut Call<'_>) -> Done {
    if call.engine.cluster().is_on() {
        return Err("ERR FAILOVER not allowed in cluster mode.".into());
    }
    if call.args.len() == 2 && call.is(1, "abort") {
        return abort(call);
    }
    let options = read(call)?;
    let replication = call.engine.replication();
    let failover = replication.failover();
    if failover.is_on() {
        return Err(IN_PROGRESS.into());
    }
    if replication.is_replica() {
        return Err("ERR FAILOVER is not valid when server is a replica.".into());
    }
    let replicas = replication.replicas().all();
    if replicas.is_empty() {
        return Err("ERR FAILOVER requires connected replicas.".into());
    }
    if options.forces && (options.timeout_ms == 0 || options.host.is_none()) {
        return Err(
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP.".into(),
        );
    }
    let target = match options.host {
        None => None,
        Some(host) => {
            let is_it = |host_of: &str, port: u16| {
                host_of.as_bytes() == host && i64::from(port) == options.port
            };
            let found = replicas.iter().find(|replica| is_it(&replica.host, replica.port));
            let found = found.ok_or("ERR FAILOVER target HOST and PORT is not a replica.")?;
            if found.stage() != Stage::Online {
                return Err("ERR FAILOVER target replica is not online.".into());
            }
            Some(Primary { host: found.host.clone(), port: found.port })
        }
    };
    let until_ms = u64::try_from(options.timeout_ms).ok().filter(|timeout| *timeout > 0);
    let until_ms = until_ms.map(|timeout| call.now_ms().saturating_add(timeout));
    let plan = FailoverPlan { target, until_ms, forces: options.forces };
    let text = plan.target_text();
    if !call.engine.begin_failover(plan) {
        return Err(IN_PROGRESS.into());
    }
    log(call, format_args!("FAILOVER requested to {text}."));
    call.out.ok();
    Ok(())
}

const IN_PROGRESS: &str = "ERR FAILOVER already in progress.";

fn read<'a>(call: &Call<'a>) -> Result<Options<'a>, engine::Failure> {
    let mut options = Options::default();
    let (mut at, len) = (1, call.args.len());
    while at < len {
        if call.is(at, "timeout") && at + 1 < len && options.timeout_ms == 0 {
            options.timeout_ms = call.int(at + 1).map_err(|_| NOT_INTEGER)?;
            if options.timeout_ms <= 0 {
                return Err("ERR FAILOVER timeout must be greater than 0".into());
            }
            at += 2;
        } else if call.is(at, "to") && at + 2 < len && options.host.is_none() {
            options.port = call.int(at + 2).map_err(|_| NOT_INTEGER)?;
            options.host = Some(call.args[at + 1]);
            at += 3;
        } else if call.is(at, "force") && !options.forces {
            options.forces = true;
            at += 1;
        } else {
            return Err(SYNTAX.into());
        }
    }
    Ok(options)
}

fn abort(call: &mut Call<'_>) -> Done {
    loop {
        let stage = call.engine.replication().failover().stage();
        let take_back = || call.engine.host().map_or(Ok(()), |host| host.follow(None));
        let undone = match stage {
            FailoverStage::None | FailoverStage::Undone => {
                return Err("ERR No failover in progress.".into());
            }
            FailoverStage::WaitsForSync => call.engine.end_failover(stage),
            FailoverStage::InProgress => call.engine.undo_failover(take_back)?,
        };
        if let Some(plan) = undone {
            let text = plan.target_text();
            log(call, format_args!("FAILOVER to {text} aborted: Failover manually aborted"));
            call.out.ok();
            return Ok(());
        }
    }
}

fn log(call: &Call<'_>, text: impl Display) {
    if let Some(host) = call.engine.host() {
        host.log(&text.to_string());
    }
}
