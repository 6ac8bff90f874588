//! PSYNC and SYNC: a client becomes a replica.
//!
//! A replica that was here before asks to continue (PSYNC with the ID of a history and the number
//! of the first byte that it lacks). If that is not possible it gets a dump, and after it the
//! stream from the moment at which the dump was fixed on. A client that said `REPLCONF rdb-only 1`
//! gets the dump and nothing after it: `redis-cli --rdb` and `perdura backup` ask for that.
//!
//! The reply to PSYNC that promises a dump is sent with it, since it names the offset at which the
//! dump was fixed; the connection does that ([`Next::SendDump`], [`Next::Replicate`]).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ::replication::{Id, Replica, Stage};
use engine::call::{Call, Next, Run};
use engine::failure::{Done, NOT_INTEGER};
use engine::session::describe::describe as describe_client;
use engine::spec::*;

pub(crate) const SYNC: CommandSpec = CommandSpec {
    name: "sync",
    summary: "Internal command used for replication",
    since: "1.0.0",
    group: Group::Server,
    arity: 1,
    flags: ADMIN | NOSCRIPT | NO_ASYNC_LOADING | NO_MULTI,
    run: Run::Session(sync),
    ..CommandSpec::EMPTY
};

pub(crate) const PSYNC: CommandSpec = CommandSpec {
    name: "psync",
    summary: "Internal command used for replication",
    since: "2.8.0",
    group: Group::Server,
    arity: -3,
    flags: ADMIN | NOSCRIPT | NO_ASYNC_LOADING | NO_MULTI,
    args: &[string("replicationid"), integer("offset")],
    run: Run::Session(psync),
    ..CommandSpec::EMPTY
};

const FAILING_OVER: &str = "NOMASTERLINK Can't SYNC while failing over";
const NO_LINK: &str = "NOMASTERLINK Can't SYNC while not connected with my master";
const BEHIND: &str = "NOMASTERLINK Can't SYNC while my master still has to send what you have";
const NO_CONNECTION: &str = "ERR only a connection can be a replica";

fn sync(call: &mut Call<'_>) -> Done {
    check(call)?;
    let wants = call.session.replica.get_or_insert_default();
    if wants.wants_dump_only {
        call.next = Next::SendDump;
    } else if wants.entry.is_none() {
        wants.is_old = true;
        enter(call, Stage::WaitsForDump);
    }
    Ok(())
}

fn psync(call: &mut Call<'_>) -> Done {
    if call.args.len() > 3 && call.is(3, "failover") {
        be_promoted(call)?;
    }
    check(call)?;
    let addr = call.session.client.peer.addr.clone();
    let Ok(number) = call.int(2) else {
        log(call, &format!("Replica {addr} asks for synchronization but with a wrong offset"));
        return Err(NOT_INTEGER.into());
    };
    if call.session.replica.as_ref().is_some_and(|replica| replica.entry.is_some()) {
        return Ok(());
    }
    // What is asked for is the number of the first byte that is missing, counted from 1.
    let has = u64::try_from(number).ok().and_then(|number| number.checked_sub(1));
    let history = Id::parse(call.args[1]).zip(has);
    let stream = Arc::clone(call.engine.replication().stream());
    if let Some((id, offset)) = history
        && call.engine.replication().is_replica()
        && stream.will_reach(id, offset)
    {
        log(call, &format!("Replica {addr} has the stream up to {offset} and is to ask again"));
        return Err(BEHIND.into());
    }
    let resumed = history.and_then(|(id, offset)| stream.resume(id, offset));
    if resumed.is_none() && call.args[1] != b"?" {
        call.engine.replication().replicas().begun.refused.fetch_add(1, Relaxed);
    }
    let Some((id, cursor)) = resumed else {
        match history {
            Some((id, offset)) => log(
                call,
                &format!(
                    "Partial resynchronization not accepted: replica {addr} asks for history {id} after byte {offset}, and here is {}",
                    describe(&stream.position())
                ),
            ),
            None => log(call, &format!("Full resync requested by replica {addr}")),
        }
        enter(call, Stage::WaitsForDump);
        return Ok(());
    };
    let offset = has.unwrap_or(0);
    let bytes = stream.end().saturating_sub(offset);
    log(
        call,
        &format!(
            "Partial resynchronization request from {addr} accepted. Sending {bytes} bytes of backlog starting from offset {number}."
        ),
    );
    let replica = call.session.replica.get_or_insert_default();
    replica.cursor = Some(cursor);
    match replica.knows_new_id {
        true => call.out.simple(format!("CONTINUE {id}")),
        false => call.out.simple("CONTINUE"),
    }
    enter(call, Stage::Online);
    Ok(())
}

/// Writes a line to the server's log.
fn log(call: &Call<'_>, line: &str) {
    if let Some(host) = call.engine.host() {
        host.log(line);
    }
}

fn describe(here: &::replication::Position) -> String {
    format!("history {} with the bytes {} to {}", here.id, here.end - here.kept, here.end)
}

/// How long the link may take to execute what has arrived before the request of the primary,
const MOST_BEHIND: u32 = 100;
/// ... in steps of this.
const STEP: Duration = Duration::from_millis(1);

/// Makes this replica the primary, because its primary asks for that (FAILOVER).
fn be_promoted(call: &mut Call<'_>) -> Done {
    let (engine, id) = (call.engine, String::from_utf8_lossy(call.args[1]));
    let Some(host) = engine.host() else { return Err(NO_CONNECTION.into()) };
    host.log(&format!("Failover request received for replid {id}."));
    if !engine.replication().is_replica() {
        return Err("ERR PSYNC FAILOVER can't be sent to a master.".into());
    }
    let stream = engine.replication().stream();
    let is_ours = || stream.is_on() && Id::parse(call.args[1]) == Some(stream.position().id);
    if !is_ours() {
        return Err("ERR PSYNC FAILOVER replid must match my replid.".into());
    }
    // The last of the stream may just arrive on the other connection.
    let number = call.int(2).ok().and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
    for _ in 0..MOST_BEHIND {
        if stream.end() >= number.saturating_sub(1) || !is_ours() {
            break;
        }
        host.sleep(STEP);
    }
    host.follow(None)?;
    let line = describe_client(engine, &call.session.client, call.now_ms());
    host.log(&format!("MASTER MODE enabled (failover request from '{line}')"));
    Ok(())
}

fn check(call: &Call<'_>) -> Done {
    let replication = call.engine.replication();
    if replication.failover().is_on() {
        return Err(FAILING_OVER.into());
    }
    if replication.is_replica() && !replication.is_linked() {
        return Err(NO_LINK.into());
    }
    if !call.session.can_block {
        return Err(NO_CONNECTION.into());
    }
    Ok(())
}

/// Makes the client a replica.
fn enter(call: &mut Call<'_>, stage: Stage) {
    let (replication, now) = (call.engine.replication(), call.now_ms());
    replication.switch_on();
    let begun = &replication.replicas().begun;
    match stage {
        Stage::Online => begun.partial.fetch_add(1, Relaxed),
        Stage::WaitsForDump | Stage::ReceivesDump => begun.full.fetch_add(1, Relaxed),
    };
    let client = &call.session.client;
    let host = client.peer.addr.rsplit_once(':').map_or("", |(host, _)| host);
    let replica = call.session.replica.get_or_insert_default();
    let host = replica.host.clone().unwrap_or_else(|| host.to_owned());
    let entry = Replica::new(client.id, host, replica.port, now);
    entry.set_stage(stage, now);
    replica.entry = Some(replication.replicas().enter(entry));
    client.is_replica.store(true, Relaxed);
    call.next = Next::Replicate;
}
