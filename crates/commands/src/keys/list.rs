//! KEYS: in bounded steps, between which other clients are served.
//!
//! A step locks one shard after the other and visits a bounded number of keys. Between two steps no
//! shard is locked, and the connection lets its thread serve others. KEYS thus promises what SCAN
//! does: a key that exists from the first step to the last is listed; one that is added or deleted
//! meanwhile may be. Inside of a transaction, or if nobody can continue the walk later, all shards
//! are locked, and the reply shows one moment.

use engine::Engine;
use engine::call::{Call, Next, Run};
use engine::execute::Scope;
use engine::failure::{Done, Failure};
use engine::log::Effects;
use engine::session::walk::Walk;
use engine::session::{ReplyMode, Session};
use engine::spec::*;
use keyspace::Txn;
use resp::Writer;
use resp::glob::Pattern;

/// The approximate number of keys that one step visits.
const KEYS_AT_ONCE: usize = 1000;

pub(crate) const KEYS: CommandSpec = CommandSpec {
    name: "keys",
    summary: "Find all keys matching the given pattern",
    complexity: "O(N) with N being the number of keys in the database, under the assumption that the key names in the database and the given pattern have limited length.",
    since: "1.0.0",
    group: Group::Generic,
    arity: 2,
    flags: READONLY,
    acl: ACL_KEYSPACE | ACL_DANGEROUS,
    tips: &["request_policy:all_shards", "nondeterministic_output_order"],
    args: &[pattern("pattern")],
    run: Run::OwnLocks { run: start, within: at_once },
    step: Some(step),
    ..CommandSpec::EMPTY
};

fn start(call: &mut Call<'_>) -> Done {
    let engine = call.engine;
    if !call.session.can_walk || call.session.reply != ReplyMode::On {
        return engine.transact(call, Scope::All, at_once);
    }
    let mut walk = Walk {
        command: call.command.id,
        words: call.args.iter().map(|word| Box::from(*word)).collect(),
        db: call.db(),
        cursor: 0,
        found: 0,
        elements: Writer::new(call.out.protocol()),
        reply_after: 0,
        nanos: 0,
    };
    if step(engine, call.session, &mut walk)? {
        walk.reply(call.out);
        call.reply_after = walk.reply_after;
        return Ok(());
    }
    call.session.walk = Some(Box::new(walk));
    call.next = Next::Walk;
    Ok(())
}

/// Lists the keys within a transaction that has locked all shards.
fn at_once(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (pattern, db) = (call.args[1], call.db());
    let pattern = Pattern::new(pattern);
    let start = call.out.deferred();
    let mut found = 0;
    txn.database(db).for_each(&mut |key, _| {
        if pattern.matches(key) {
            call.out.bulk(key);
            found += 1;
        }
    });
    call.out.finish_array(start, found);
    Ok(())
}

/// Visits some more keys. Returns true if there are no more.
fn step(engine: &Engine, session: &mut Session, walk: &mut Walk) -> Result<bool, Failure> {
    let (keyspace, now_ns) = (engine.keyspace(), engine.clock().unix_ns());
    let Walk { words, elements, db, .. } = walk;
    let args: Vec<&[u8]> = words.iter().map(|word| &**word).collect();
    let pattern = Pattern::new(&words[1]);
    let command = &engine.table().all()[walk.command];
    let mut effects = Effects::default();
    let mut call = Call::new(engine, session, command, elements, now_ns, &mut effects);
    call.args = &args;
    let mut left = KEYS_AT_ONCE;
    while left > 0 {
        let (mark, mut next, mut visited, mut found) = (call.out.mark(), 0, 0, 0);
        let done = keyspace.retry_losses(Failure::has_unresolved_losses, |losses| {
            call.out.truncate(mark);
            call.losses = losses;
            (visited, found) = (0, 0);
            let held = keyspace.time_lock_hold();
            let shard = keyspace.scan_shard(walk.cursor);
            let done = engine.transact_once(&mut call, Scope::Shard(shard), |call, txn| {
                next = txn.database(*db).scan(walk.cursor, left, &mut |key, _| {
                    visited += 1;
                    if pattern.matches(key) {
                        call.out.bulk(key);
                        found += 1;
                    }
                });
                Ok(())
            });
            held.done();
            done.and(engine.unlocked(&mut call))
        });
        done.map_err(Failure::at_last)?;
        walk.reply_after = walk.reply_after.max(call.reply_after);
        walk.found += found;
        walk.cursor = next;
        if next == 0 {
            return Ok(true);
        }
        left = left.saturating_sub(visited);
    }
    Ok(false)
}
