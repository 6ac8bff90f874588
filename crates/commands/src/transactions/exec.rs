//! EXEC: all queued commands in one transaction of the keyspace.

use keyspace::{Db, Key, Txn};

use super::{Queue, take};
use crate::call::{Call, Next, Run};
use crate::damage::TRIES;
use crate::engine::Engine;
use crate::failure::{Done, Failure};
use crate::spec::*;
use crate::step::Step;

pub(crate) const EXEC: CommandSpec = CommandSpec {
    name: "exec",
    summary: "Execute all commands issued after MULTI",
    complexity: "Depends on commands in the transaction",
    since: "1.2.0",
    group: Group::Transactions,
    arity: 1,
    flags: NOSCRIPT | LOADING | STALE | SKIP_SLOWLOG,
    acl: ACL_TRANSACTION,
    run: Run::Session(exec),
    ..CommandSpec::EMPTY
};

fn exec(call: &mut Call<'_>) -> Done {
    let Some(queue) = take(call.session) else {
        return Err("ERR EXEC without MULTI".into());
    };
    let done = execute(call, &queue);
    call.engine.unwatch(call.session);
    done
}

fn execute(call: &mut Call<'_>, queue: &Queue) -> Done {
    let engine = call.engine;
    let words: Vec<Vec<&[u8]>> =
        queue.commands.iter().map(|args| args.iter().map(|arg| &**arg).collect()).collect();
    let mut requests = engine.batch();
    words.iter().for_each(|args| requests.push(args));
    let steps: Vec<Step<'_>> =
        (0..requests.len()).filter_map(|at| Step::of(requests.get(at))).collect();
    let watched: Vec<Vec<u8>> = call.session.watches.iter().map(|w| w.key().to_vec()).collect();
    let watched: Vec<Key<'_>> = watched.iter().map(|key| engine.keyspace().key(key)).collect();

    let needs_all = steps.iter().any(Step::needs_all);
    let mut keys: Vec<Key<'_>> = watched;
    keys.extend(steps.iter().flat_map(|s| s.keys.iter()));
    if queue.spoilt {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    let locks = if needs_all { Locks::All } else { Locks::Of(&keys) };
    let (db, mark, effects) = (call.session.db, call.out.mark(), call.effects.mark());
    let (mut may_give_up, mut tries) = (true, 0);
    loop {
        match attempt(call, &steps, &locks, may_give_up) {
            Ok(true) => return Ok(()),
            Ok(false) => {
                may_give_up = tries < TRIES && engine.find_room(queue.bytes, tries);
                tries += 1;
            }
            Err(failure) if failure.is_unsettled() && tries < TRIES => {
                engine.keyspace().settle();
                tries += 1;
            }
            // The queue is gone: nobody is to run this again.
            Err(failure) => return Err(failure.at_last()),
        }
        call.session.select(db);
        call.out.truncate(mark);
        call.effects.truncate(effects);
    }
}

/// The database that a step selects.
fn selected(engine: &Engine, step: &Step<'_>) -> Option<Db> {
    let is_select = step.command.spec.name == "select";
    let number = step.args.get(1).filter(|_| is_select)?;
    engine.config().database(resp::number::parse_i64(number)?.try_into().ok()?)
}

/// Whether a key changed that the session watches.
fn is_broken(call: &Call<'_>, txn: &Txn<'_>) -> bool {
    call.session.is_touched() || call.session.watches.iter().any(|watch| txn.has_expired(watch))
}

/// Refuses the transaction if one of its steps is to be refused in the database that is selected then.
#[cold]
fn refuse_harmed(call: &Call<'_>, steps: &[Step<'_>]) -> Done {
    let mut db = call.session.db;
    for step in steps {
        call.engine.refuse_harmed(db, step.command, step.args, step.keys)?;
        db = selected(call.engine, step).unwrap_or(db);
    }
    Ok(())
}

/// What is locked for all steps and watches.
enum Locks<'a> {
    All,
    Of(&'a [Key<'a>]),
}

/// Checks the watches and runs all steps. With `may_give_up`, a step that finds no room ends it, and nothing has
/// happened; whether it came to an end.
fn attempt(
    call: &mut Call<'_>,
    steps: &[Step<'_>],
    locks: &Locks<'_>,
    may_give_up: bool,
) -> Result<bool, Failure> {
    let keyspace = call.engine.keyspace();
    let losses = keyspace.losses();
    if keyspace.has_alert() {
        refuse_harmed(call, steps)?;
    }
    let (mut txn, keys) = match locks {
        Locks::All => (keyspace.begin_all(call.now_ms()), &[][..]),
        Locks::Of([]) => (keyspace.begin_one(0, call.now_ms()), &[][..]),
        Locks::Of(keys) => {
            let shards: Vec<usize> = keys.iter().map(Key::shard).collect();
            let txn = keyspace.begin(&shards, call.now_ms());
            (call.engine.cover(txn, keys, usize::MAX), *keys)
        }
    };
    if is_broken(call, &txn) {
        call.durable_at = call.engine.check_read(keys, call.engine.logged_until(keys))?;
        call.out.null_array();
        return Ok(true);
    }
    call.session.reads_of_changed.clear();
    call.out.array(steps.len());
    let mut next = Next::Reply;
    let waited_ns = call.waited_ns;
    let mut inner = call.inner();
    inner.waited_ns = waited_ns;
    for step in steps {
        let started_ns = inner.engine.begin_ns(inner.session);
        let failed = step.run(&mut inner, &mut txn).err();
        inner.engine.finish(&mut inner, started_ns, failed.is_some());
        inner.waited_ns = heap::waited_ns();
        // Where a part of the span table may be lost, no span is known to be free.
        if failed.is_some_and(|failed| failed.no_room) && !keyspace.has_lost_since(losses) {
            if may_give_up {
                return Ok(false);
            }
            inner.engine.note_full();
        }
        if inner.next != Next::Reply {
            next = inner.next;
        }
    }
    call.next = next;
    if keyspace.has_lost_since(losses) {
        return Err(Failure::unsettled());
    }
    let wrote = txn.is_dirty() || txn.pending_changes() > 0;
    let seen = call.engine.commit(&mut txn, call.effects, keys)?;
    let reads = || steps.iter().any(|step| step.command.spec.has(READONLY | WRITE));
    call.durable_at = match seen {
        _ if wrote || seen == 0 => seen,
        _ if reads() => call.engine.check_read(keys, seen)?,
        _ => 0,
    };
    call.engine.deliver_all(call.session, call.effects);
    call.engine.tell_trackers(&txn, Some(call.session));
    let whole = |step: &Step<'_>| {
        matches!(step.command.spec.run, Run::All(_)) && step.command.spec.has(WRITE)
    };
    call.engine.serve_waiting(&mut txn, call.session.stripe, steps.iter().any(whole));
    if txn.has_met_expired() {
        call.engine.delete_met(&mut txn);
    }
    Ok(true)
}
