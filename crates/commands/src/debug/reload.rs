//! DEBUG LOADAOF and DEBUG RELOAD: drop the data and load it again as a start would, from the
//! command log or, if the data is in memory only, from the dump.
//!
//! All shards stay locked meanwhile, so that no client sees a part of the data. The log's commands
//! run in that one transaction, which is committed periodically.
//!
//! With a pool there is nothing to drop: the bytes on the medium are what is served, and no reply
//! was sent before they were there. A reload would change nothing, so the reply is OK.

use std::io::BufRead;

use aof::{Entry, Loader};
use engine::Engine;
use engine::call::{Call, Next};
use engine::execute::{Failed, Step};
use engine::failure::{Done, Failure};
use engine::log::{Delivery, Effects};
use engine::scripts::libraries::{Known, Libraries};
use engine::session::Session;
use engine::spec::{LOG_FRAME, SELECTS};
use keyspace::{Db, Txn};
use resp::{Protocol, Writer};

use crate::admin::with_host;
use crate::load::{LoadDumpError, LoadOptions, Target, load_dump_into, refused};
use crate::save::save_locked;

/// Commands between two commits.
const COMMIT_EVERY: u64 = 1024;

/// DEBUG RELOAD, with its options.
pub(super) fn with_options(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let known = ["merge", "noflush", "nosave"];
    if !(2..call.args.len()).all(|at| known.iter().any(|name| call.is(at, name))) {
        return Err("ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.".into());
    }
    let has = |name| (2..call.args.len()).any(|at| call.is(at, name));
    let has_data =
        Db::all().any(|db| txn.database(db).count() > 0) || call.engine.keyspace().libraries() > 0;
    // The data to load is there already, and may be neither dropped nor overwritten.
    if has_data && has("noflush") && !has("merge") {
        return Err("ERR Error trying to load the RDB dump, check server logs.".into());
    }
    if !has("nosave") {
        save(call, txn)?;
    }
    reload(call, txn)
}

/// Writes a dump of the data, which the transaction has locked.
fn save(call: &mut Call<'_>, txn: &Txn<'_>) -> Done {
    let engine = call.engine;
    match engine.host() {
        Some(host) => {
            host.save_locked(&mut |to, options| save_locked(engine, txn, to, options).map(drop))
        }
        None => Ok(()),
    }
}

/// The source of the data.
enum Origin {
    Log(Box<Loader>),
    Dump(Box<dyn BufRead>),
}

/// Loads the data again: from the dump if only the dump has it.
pub(super) fn reload(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    match call.engine.host().map(|host| host.open_dump()) {
        Some(Ok(Some(dump))) => reload_from(call, txn, Origin::Dump(dump)),
        Some(Err(failure)) => Err(failure),
        _ => load_log(call, txn),
    }
}

/// DEBUG LOADAOF.
pub(super) fn load_log(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    match call.engine.host() {
        Some(host) => match host.open_log()? {
            Some(loader) => reload_from(call, txn, Origin::Log(Box::new(loader))),
            None => {
                host.log("DEBUG LOADAOF: the data is in the pool, and is served from there");
                call.out.ok();
                Ok(())
            }
        },
        None => Err("ERR there is no append only file to load".into()),
    }
}

fn reload_from(call: &mut Call<'_>, txn: &mut Txn<'_>, from: Origin) -> Done {
    // Keys that have expired since were there when the log's commands found them.
    txn.set_now(0);
    for db in Db::all() {
        txn.databases().flush(db)?;
    }
    txn.libraries().flush()?;
    let flushed = Libraries::change(call.engine.libraries(), Known::clear);
    call.effects.deliver(Delivery::Libraries(flushed));
    call.engine.tracking_clients().notify_of_flush(call.session, 0);
    let mut session = call.engine.connect_replay();
    let done = match from {
        Origin::Log(mut loader) => load(call, &mut session, &mut loader, txn),
        Origin::Dump(dump) => load_dump(call, &mut session, dump, txn),
    };
    call.engine.disconnect(&mut session);
    if let Err(failure) = done {
        let why = String::from_utf8_lossy(failure.as_bytes()).into_owned();
        with_host(call, |host| host.log(&format!("DEBUG RELOAD or LOADAOF: {why}. Exiting")));
        // As in Redis: only a part of the data is in memory, which nobody may see or add to.
        call.next = Next::Shutdown { save: false, nosave: true, now: true, force: true };
        return Ok(());
    }
    with_host(call, |host| host.log("DB reloaded by DEBUG RELOAD or LOADAOF"));
    call.out.ok();
    Ok(())
}

fn load(
    call: &mut Call<'_>,
    session: &mut Session,
    loader: &mut Loader,
    txn: &mut Txn<'_>,
) -> Done {
    let engine = call.engine;
    let mut out = Writer::new(Protocol::Resp2);
    loop {
        match loader.next().map_err(|error| Failure::text(error.to_string()))? {
            None => break,
            Some(Entry::File(_)) => {}
            Some(Entry::Dump(dump)) => {
                let mut options =
                    LoadOptions { verifies: true, keeps_expired: true, report: &mut |_| {} };
                let mut target = Locked { call, session, txn, out: &mut out, keys: 0 };
                let loaded = load_dump_into(engine, dump, &mut options, &mut target);
                loaded.map_err(|error| Failure::text(error.to_string()))?;
            }
            Some(Entry::Command(command)) => {
                let words: Vec<&[u8]> = command.words().collect();
                execute(engine, session, &words, txn, &mut out)?;
            }
        }
        if loader.loaded().commands.is_multiple_of(COMMIT_EVERY) {
            call.commit_part(txn)?;
        }
    }
    // Clients that are served from here on must not find expired keys.
    txn.set_now(call.now_ms());
    // Blocked clients are not served in the middle of an EXEC, but at the next change.
    if call.is_inner() { call.commit_part(txn) } else { call.commit_databases(txn) }
}

/// Replaces the data with the dump.
fn load_dump(
    call: &mut Call<'_>,
    session: &mut Session,
    dump: Box<dyn BufRead>,
    txn: &mut Txn<'_>,
) -> Done {
    let mut out = Writer::new(Protocol::Resp2);
    let mut options = LoadOptions { verifies: true, keeps_expired: false, report: &mut |_| {} };
    let engine = call.engine;
    let mut target = Locked { call, session, txn, out: &mut out, keys: 0 };
    let loaded = load_dump_into(engine, dump, &mut options, &mut target);
    loaded.map_err(|error| Failure::text(error.to_string()))?;
    txn.set_now(call.now_ms());
    if call.is_inner() { call.commit_part(txn) } else { call.commit_databases(txn) }
}

/// The transaction of the command, which has locked all shards.
struct Locked<'l, 'c, 't> {
    call: &'l mut Call<'c>,
    session: &'l mut Session,
    txn: &'l mut Txn<'t>,
    out: &'l mut Writer,
    keys: u64,
}

impl Target for Locked<'_, '_, '_> {
    fn with(
        &mut self,
        step: &mut dyn FnMut(&mut Txn<'_>) -> Result<(), LoadDumpError>,
    ) -> Result<(), LoadDumpError> {
        step(self.txn)?;
        self.keys += 1;
        if self.keys.is_multiple_of(COMMIT_EVERY) {
            self.call.commit_part(self.txn).map_err(|failure| refused(b"a part", &failure))?;
        }
        Ok(())
    }

    fn function(&mut self, code: &[u8]) -> Result<(), LoadDumpError> {
        let words: [&[u8]; 3] = [b"FUNCTION", b"LOAD", code];
        execute(self.call.engine, self.session, &words, self.txn, self.out)
            .map_err(|failure| refused(b"a library", &failure))
    }
}

/// Executes one command of the log. MULTI and EXEC have no meaning here: the commands between them
/// are in the same transaction.
fn execute(
    engine: &Engine,
    session: &mut Session,
    words: &[&[u8]],
    txn: &mut Txn<'_>,
    out: &mut Writer,
) -> Done {
    let mut request = engine.batch_of(true);
    request.push(words);
    let Some(step) = Step::of(request.get(0)) else {
        let name = words[0].escape_ascii();
        return Err(Failure::text(format!(
            "Unknown command '{name}' reading the append only file"
        )));
    };
    let spec = step.command.spec;
    if spec.is(LOG_FRAME) && !spec.is(SELECTS) {
        return Ok(());
    }
    out.clear();
    let mut effects = Effects::default();
    let mut call = Call::new(engine, session, step.command, out, 0, &mut effects);
    call.may_pin = false;
    match step.run(&mut call, txn) {
        Err(Failed { out_of_memory: true, .. }) => {
            Err("OOM no free memory for the data of the append only file".into())
        }
        _ => {
            Engine::keep_libraries(&mut effects);
            Ok(())
        }
    }
}
