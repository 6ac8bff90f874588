//! EXEC: all queued commands in one transaction of the keyspace.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::Engine;
use engine::call::{Call, Next, Run};
use engine::execute::queue::{put_back, take};
use engine::execute::{Role, Shown, Step, Unit, weight_of};
use engine::failure::{Done, Failure, OOM};
use engine::session::kept_words::LARGE;
use engine::session::permissions::set_user;
use engine::session::users::Account;
use engine::session::{Queue, Session};
use engine::spec::*;
use keyspace::{Db, Key, Losses, Txn};
use resp::Protocol;

pub(crate) const EXEC: CommandSpec = CommandSpec {
    name: "exec",
    summary: "Execute all commands issued after MULTI",
    complexity: "Depends on commands in the transaction",
    since: "1.2.0",
    group: Group::Transactions,
    arity: 1,
    flags: NOSCRIPT | LOADING | STALE | SKIP_SLOWLOG,
    traits: IMMEDIATE | EXECUTES_QUEUE | LOG_FRAME,
    acl: ACL_TRANSACTION,
    run: Run::Session(exec),
    ..CommandSpec::EMPTY
};

fn exec(call: &mut Call<'_>) -> Done {
    if call.may_move() && call.session.multi.as_deref().is_some_and(is_long) {
        return Err(Failure::takes_long(None));
    }
    let Some(queue) = take(call.session) else {
        return Err("ERR EXEC without MULTI".into());
    };
    let db = call.db();
    // CLIENT INFO within the transaction shows it.
    call.session.client.queued.store(queue.requests.len() as i64, Relaxed);
    let done = execute(call, &queue);
    if done.as_ref().is_err_and(Failure::comes_again) {
        // Nothing has been executed.
        call.session.select(db);
        put_back(call.session, queue);
        return done;
    }
    call.session.client.queued.store(-1, Relaxed);
    call.engine.unwatch(call.session);
    done
}

/// The state that SELECT, AUTH and HELLO change, as it was before: these are repeated with the
/// other steps.
struct Before {
    db: Db,
    user: Arc<Account>,
    authenticated: bool,
    protocol: Protocol,
}

impl Before {
    fn of(call: &Call<'_>) -> Before {
        let Session { db, user, authenticated, .. } = &*call.session;
        let (user, protocol) = (Arc::clone(user), call.out.protocol());
        Before { db: *db, user, authenticated: *authenticated, protocol }
    }

    fn restore(&self, call: &mut Call<'_>) {
        call.session.select(self.db);
        if !Arc::ptr_eq(&call.session.user, &self.user) {
            set_user(call.session, Arc::clone(&self.user), self.authenticated);
        }
        if call.out.protocol() != self.protocol {
            call.session.set_protocol(self.protocol);
            call.out.set_protocol(self.protocol);
        }
    }
}

/// Returns true if the transaction takes long whatever its keys contain, even to look them up.
fn is_long(queue: &Queue) -> bool {
    let commands = weights::COMMAND * queue.requests.len() as u64;
    let words = weights::ARGUMENT * queue.requests.words() as u64;
    queue.bytes > LARGE || commands + words > LONG
}

fn execute(call: &mut Call<'_>, queue: &Queue) -> Done {
    let engine = call.engine;
    let arguments = queue.requests.arguments();
    let mut requests = engine.batch_of(call.session.replay);
    let mut rest = arguments.as_slice();
    for count in queue.requests.counts() {
        let (args, others) = rest.split_at(count);
        requests.push(args);
        rest = others;
    }
    let steps: Vec<Step<'_>> =
        (0..requests.len()).filter_map(|at| Step::of(requests.get(at))).collect();
    let watched: Vec<Vec<u8>> = call.session.watches.iter().map(|w| w.key().to_vec()).collect();
    let watched: Vec<Key<'_>> = watched.iter().map(|key| engine.keyspace().key(key)).collect();

    let needs_all = steps.iter().any(Step::needs_all);
    let mut keys: Vec<Key<'_>> = watched;
    keys.extend(steps.iter().flat_map(|s| s.keys.iter()));
    if queue.is_dirty {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    debug_assert_eq!(steps.len(), requests.len(), "queued commands are known");
    let locks = (!needs_all).then_some(keys.as_slice());
    let (mark, effects) = (call.out.mark(), call.effects.mark());
    let (before, mut may_give_up) = (Before::of(call), true);
    for tries in 0.. {
        let done = engine.keyspace().retry_losses(Failure::has_unresolved_losses, |losses| {
            before.restore(call);
            call.out.truncate(mark);
            call.effects.truncate(effects);
            if call.may_move() && steps.iter().all(can_be_repeated) {
                call.out.begin_limit(LARGE);
            }
            let done = attempt(call, &steps, locks, losses, may_give_up);
            call.out.end_limit();
            done
        });
        match done {
            Ok(false) => may_give_up = engine.memory_limits().free_for(queue.bytes, tries),
            Ok(true) => break,
            // The queue is gone: this must not be executed again.
            Err(failure) => {
                before.restore(call);
                return Err(failure.at_last());
            }
        }
    }
    // An EXEC has no pinned string, whose copy could fail here.
    engine.unlocked(call)
}

/// Returns the database that a step selects.
fn selected(engine: &Engine, step: &Step<'_>) -> Option<Db> {
    let number = step.args.get(1).filter(|_| step.command.spec.is(SELECTS))?;
    engine.config().database(resp::number::parse_i64(number)?.try_into().ok()?)
}

/// Returns true if a step can be undone as a whole, and executed again.
fn can_be_repeated(step: &Step<'_>) -> bool {
    let run = step.command.spec.run;
    matches!(run, Run::Keys(_) | Run::KeysOrAll { .. } | Run::Script(..))
        || step.command.spec.is(SELECTS)
}

/// Returns true if a key that the session watches has changed.
fn is_broken(call: &Call<'_>, txn: &Txn<'_>) -> bool {
    call.session.is_touched() || call.session.watches.iter().any(|watch| txn.has_expired(watch))
}

/// Refuses the transaction if one of its steps must be refused in the database selected at that
/// step.
#[cold]
fn refuse_damaged(call: &Call<'_>, steps: &[Step<'_>]) -> Done {
    let mut db = call.session.db;
    for step in steps {
        call.engine.refuse_damaged(db, step.command, step.args, step.keys)?;
        db = selected(call.engine, step).unwrap_or(db);
    }
    Ok(())
}

/// Returns true if the user may still execute a step; its reply is an error otherwise.
fn is_permitted(call: &mut Call<'_>, step: &Step<'_>) -> bool {
    let checked = call.engine.permissions().check_queued(call.session, step.command, step.args);
    if let Err(failure) = &checked {
        call.out.error(failure.as_bytes());
        call.engine.stats().error(failure.code());
    }
    checked.is_ok()
}

/// Returns true if the reply to a step shows something of the data.
fn shows_data(step: &Step<'_>) -> bool {
    step.command.spec.has(READONLY | WRITE) || matches!(step.command.spec.run, Run::Script(..))
}

/// Returns true if a step changes whole databases.
fn changes_databases(step: &Step<'_>) -> bool {
    matches!(step.command.spec.run, Run::All(_)) && step.command.spec.has(WRITE)
}

/// Locks the shards of these keys, or all of them, checks the watches and runs all steps. With
/// `may_give_up`, a step that finds no free memory ends it without effect. Returns true if it was
/// completed.
fn attempt(
    call: &mut Call<'_>,
    steps: &[Step<'_>],
    locks: Option<&[Key<'_>]>,
    losses: Losses,
    may_give_up: bool,
) -> Result<bool, Failure> {
    let keyspace = call.engine.keyspace();
    if keyspace.has_media_errors() {
        refuse_damaged(call, steps)?;
    }
    let mut txn = call.engine.lock_keys(call.session, locks, call.now_ms())?;
    call.engine.check_place_of_steps(call.session, call.command, steps, &txn)?;
    // The effects of one step on the next are not known.
    let weights = || steps.iter().map(|step| weight_of(step, &txn, call.session.db));
    if call.may_move() && weights().fold(0, u64::saturating_add) > LONG {
        return Err(Failure::takes_long(None));
    }
    let keys = locks.unwrap_or_default();
    if is_broken(call, &txn) {
        let log = call.engine.durability();
        call.shows_data = true;
        call.reply_after = log.check_read(keys, log.logged_until(keys))?;
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
        if !is_permitted(&mut inner, step) {
            continue;
        }
        let started_ns = inner.engine.begin_ns(inner.session);
        let failed = step.run(&mut inner, &mut txn).err();
        if inner.long_script.is_some() || failed.is_some_and(|failed| failed.takes_long) {
            return Err(Failure::takes_long(inner.long_script));
        }
        // After a shutdown has ended a script, the commands next to it must not be executed.
        if failed.is_some() && inner.engine.running_scripts().is_ending() {
            return Err("ERR the server is shutting down".into());
        }
        inner.engine.finish(&mut inner, started_ns, failed.is_some());
        inner.waited_ns = heap::waited_ns();
        // If a part of the span table may be lost, no span is known to be free.
        if failed.is_some_and(|failed| failed.out_of_memory) && !keyspace.has_lost_since(losses) {
            if may_give_up {
                return Ok(false);
            }
            inner.engine.full_store().record_refused();
        }
        // A command of the primary does not fail.
        if let Some(failed) = failed
            && inner.session.received.is_some()
        {
            let text = if failed.out_of_memory { OOM } else { "ERR a command of it failed" };
            return Err(text.into());
        }
        next = if inner.next == Next::Reply { next } else { inner.next };
    }
    let script_changes_databases = inner.changed_databases;
    let shows = inner.shows_data || steps.iter().any(shows_data);
    call.shows_data = shows;
    call.next = next;
    let unit = Unit {
        engine: call.engine,
        session: Some(&mut *call.session),
        effects: &mut *call.effects,
        shown: if shows { Shown::Keys(keys) } else { Shown::Nothing },
        role: Role::Whole {
            databases: script_changes_databases || steps.iter().any(changes_databases),
        },
        losses,
    };
    call.reply_after = unit.commit(&mut txn)?;
    Ok(true)
}
