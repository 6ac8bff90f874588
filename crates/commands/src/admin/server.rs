//! Commands on the server as a whole: SHUTDOWN, ROLE, LASTSAVE, SAVE, BGSAVE, BGREWRITEAOF, LOLWUT.

use std::sync::atomic::Ordering::Relaxed;

use engine::call::{Call, Next, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::spec::*;
use keyspace::{Key, Txn, Type};
use resp::Writer;

use crate::blocking::{BlockedOperation, Serving};

pub(crate) const SHUTDOWN: CommandSpec = CommandSpec {
    name: "shutdown",
    summary: "Synchronously save the dataset to disk and then shut down the server",
    complexity: "O(N) when saving, where N is the total number of keys in all databases when saving data, otherwise O(1)",
    since: "1.0.0",
    group: Group::Server,
    arity: -1,
    flags: ADMIN | NOSCRIPT | LOADING | STALE | NO_MULTI | ALLOW_BUSY,
    history: &[("7.0.0", "Added the `NOW`, `FORCE` and `ABORT` modifiers.")],
    args: &[
        oneof("nosave_save", &[token("nosave", "NOSAVE"), token("save", "SAVE")]).optional(),
        token("now", "NOW").since("7.0.0").optional(),
        token("force", "FORCE").since("7.0.0").optional(),
        token("abort", "ABORT").since("7.0.0").optional(),
    ],
    run: Run::Session(shutdown),
    ..CommandSpec::EMPTY
};

pub(crate) const LOLWUT: CommandSpec = CommandSpec {
    name: "lolwut",
    summary: "Display some computer art and the Redis version",
    since: "5.0.0",
    group: Group::Server,
    arity: -1,
    flags: READONLY | FAST,
    args: &[integer("version").token("VERSION").optional()],
    run: Run::Session(lolwut),
    ..CommandSpec::EMPTY
};

pub(crate) const SAVE: CommandSpec = CommandSpec {
    name: "save",
    summary: "Synchronously save the dataset to disk",
    complexity: "O(N) where N is the total number of keys in all databases",
    since: "1.0.0",
    group: Group::Server,
    arity: 1,
    flags: ADMIN | NOSCRIPT | NO_ASYNC_LOADING | NO_MULTI,
    traits: TAKES_LONG | OWN_THREAD,
    run: Run::Session(save),
    ..CommandSpec::EMPTY
};

pub(crate) const BGSAVE: CommandSpec = CommandSpec {
    name: "bgsave",
    summary: "Asynchronously save the dataset to disk",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Server,
    arity: -1,
    flags: ADMIN | NOSCRIPT | NO_ASYNC_LOADING,
    traits: TAKES_LONG | OWN_THREAD,
    history: &[("3.2.2", "Added the `SCHEDULE` option.")],
    args: &[token("schedule", "SCHEDULE").since("3.2.2").optional()],
    run: Run::Session(bgsave),
    ..CommandSpec::EMPTY
};

pub(crate) const BGREWRITEAOF: CommandSpec = CommandSpec {
    name: "bgrewriteaof",
    summary: "Asynchronously rewrite the append-only file",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Server,
    arity: 1,
    flags: ADMIN | NOSCRIPT | NO_ASYNC_LOADING,
    traits: TAKES_LONG | OWN_THREAD,
    run: Run::Session(bgrewriteaof),
    ..CommandSpec::EMPTY
};

pub(crate) const LASTSAVE: CommandSpec = CommandSpec {
    name: "lastsave",
    summary: "Get the UNIX time stamp of the last successful save to disk",
    complexity: "O(1)",
    since: "1.0.0",
    group: Group::Server,
    arity: 1,
    flags: LOADING | STALE | FAST,
    acl: ACL_ADMIN | ACL_DANGEROUS,
    tips: &["nondeterministic_output"],
    run: Run::Session(lastsave),
    ..CommandSpec::EMPTY
};

fn shutdown(call: &mut Call<'_>) -> Done {
    let (mut save, mut nosave, mut now, mut force, mut abort) = (false, false, false, false, false);
    for at in 1..call.args.len() {
        match () {
            () if call.is(at, "save") => save = true,
            () if call.is(at, "nosave") => nosave = true,
            () if call.is(at, "now") => now = true,
            () if call.is(at, "force") => force = true,
            () if call.is(at, "abort") => abort = true,
            () => return Err(SYNTAX.into()),
        }
    }
    if (abort && call.args.len() > 2) || (save && nosave) {
        return Err(SYNTAX.into());
    }
    if abort {
        if !call.engine.host().is_some_and(|host| host.abort_shutdown()) {
            return Err("ERR No shutdown in progress.".into());
        }
        call.out.ok();
        return Ok(());
    }
    if let Some(host) = call.engine.host() {
        let has_replicas = call.engine.replication().replicas().count() > 0;
        if has_replicas && !now && call.session.can_block {
            call.block(Type::String, &[], Box::new(Ending), None);
            host.begin_shutdown(call.session.id(), save, nosave, force);
            return Ok(());
        }
        host.prepare_shutdown(save, nosave, force)?;
    }
    call.next = Next::Shutdown { save, nosave, now, force };
    Ok(())
}

/// A client that waits until the server has ended.
struct Ending;

impl BlockedOperation for Ending {
    fn serve(&self, _: &mut Serving<'_>, _: &mut Txn<'_>, _: &Key<'_>) -> Result<bool, Failure> {
        Ok(false)
    }

    fn time_out(&self, out: &mut Writer) {
        out.error("ERR Errors trying to SHUTDOWN. Check logs.");
    }
}

fn lastsave(call: &mut Call<'_>) -> Done {
    let seconds = call.engine.admin().last_save_s.load(Relaxed);
    call.out.integer(seconds as i64);
    Ok(())
}

/// Without a server there is nowhere to write a dump.
const NO_DUMPS: &str = "ERR there is no server that writes dumps";

fn save(call: &mut Call<'_>) -> Done {
    let host = call.engine.host().ok_or(NO_DUMPS)?;
    if !call.is_inner() {
        call.engine.wait_for_scripts()?;
    }
    host.save()?;
    call.out.ok();
    Ok(())
}

fn bgsave(call: &mut Call<'_>) -> Done {
    let schedule = call.args.len() == 2 && call.is(1, "schedule");
    if call.args.len() > 1 && !schedule {
        return Err(SYNTAX.into());
    }
    let host = call.engine.host().ok_or(NO_DUMPS)?;
    let text = host.save_in_background(schedule)?;
    // Within EXEC all shards may be locked, and the snapshot waits for them.
    if !call.is_inner() {
        host.wait_for_snapshot();
    }
    call.out.simple(text);
    Ok(())
}

fn bgrewriteaof(call: &mut Call<'_>) -> Done {
    let Some(host) = call.engine.host() else {
        return Err("ERR there is no append only file".into());
    };
    // Within EXEC all shards may be locked, and the save waits for them.
    if !call.is_inner() {
        host.wait_for_save_of_flush();
    }
    let text = host.rewrite_log(call.is_inner())?;
    call.out.simple(text);
    Ok(())
}

fn lolwut(call: &mut Call<'_>) -> Done {
    if call.is(1, "version") && call.args.len() > 2 {
        call.int(2)?;
    }
    let version = call.engine.config().redis_version();
    call.out.verbatim(*b"txt", format!("Redis ver. {version}\n"));
    Ok(())
}
