//! ZADD, ZINCRBY.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, NOT_FLOAT, SYNTAX};
use engine::notify::events::EventClass;
use engine::spec::*;
use keyspace::Txn;

pub(crate) const ZADD: CommandSpec = CommandSpec {
    name: "zadd",
    summary: "Add one or more members to a sorted set, or update its score if it already exists",
    complexity: "O(log(N)) for each item added, where N is the number of elements in the sorted set.",
    since: "1.2.0",
    group: Group::SortedSet,
    arity: -4,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RW | KEY_UPDATE)],
    history: &[
        ("2.4.0", "Accepts multiple elements."),
        ("3.0.2", "Added the `XX`, `NX`, `CH` and `INCR` options."),
        ("6.2.0", "Added the `GT` and `LT` options."),
    ],
    args: &[
        key("key", 0),
        oneof("condition", &[token("nx", "NX"), token("xx", "XX")]).since("3.0.2").optional(),
        oneof("comparison", &[token("gt", "GT"), token("lt", "LT")]).since("6.2.0").optional(),
        token("change", "CH").since("3.0.2").optional(),
        token("increment", "INCR").since("3.0.2").optional(),
        block("score_member", &[double("score"), string("member")]).multiple(),
    ],
    members: Some(Members::from(3, 2)),
    run: Run::Keys(zadd),
    ..CommandSpec::EMPTY
};

/// The conditions for changing a score, and the form of the reply.
#[derive(Clone, Copy, Default)]
pub(crate) struct ZAddOptions {
    pub(crate) only_new: bool,
    pub(crate) only_old: bool,
    only_greater: bool,
    only_less: bool,
    /// Counts changed members too, not only new ones.
    pub(crate) count_changes: bool,
    increment: bool,
}

/// The outcome for the members of a request.
#[derive(Default)]
struct Tally {
    added: usize,
    changed: usize,
    /// The last member's score, if it was added or its score compared.
    score: Option<f64>,
    is_nan: bool,
}

fn zadd(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (options, first) = parse(call)?;
    let pairs = pairs(call, first)?;
    add(call, txn, options, &pairs)
}

pub(crate) const ZINCRBY: CommandSpec = CommandSpec {
    name: "zincrby",
    summary: "Increment the score of a member in a sorted set",
    complexity: "O(log(N)) where N is the number of elements in the sorted set.",
    since: "1.2.0",
    group: Group::SortedSet,
    arity: 4,
    flags: WRITE | DENYOOM | FAST,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::one(1, KEY_RW | KEY_ACCESS | KEY_UPDATE)],
    args: &[key("key", 0), integer("increment"), string("member")],
    members: Some(Members::one(3)),
    run: Run::Keys(zincrby),
    ..CommandSpec::EMPTY
};

fn zincrby(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    // Redis parses options here too, and then lacks a score.
    if parse(call)?.1 > 2 {
        return Err(SYNTAX.into());
    }
    let pairs = pairs(call, 2)?;
    add(call, txn, ZAddOptions { increment: true, ..ZAddOptions::default() }, &pairs)
}

/// Returns the scores and members from this argument on.
fn pairs<'a>(call: &Call<'a>, first: usize) -> Result<Vec<(f64, &'a [u8])>, Failure> {
    let pair =
        |pair: &[&'a [u8]]| Ok((resp::number::parse_f64(pair[0]).ok_or(NOT_FLOAT)?, pair[1]));
    call.args[first..].chunks_exact(2).map(pair).collect()
}

/// Parses the options; returns the position of the first score, too.
fn parse(call: &Call<'_>) -> Result<(ZAddOptions, usize), Failure> {
    let (mut options, mut at) = (ZAddOptions::default(), 2);
    while at < call.args.len() {
        match () {
            () if call.is(at, "NX") => options.only_new = true,
            () if call.is(at, "XX") => options.only_old = true,
            () if call.is(at, "GT") => options.only_greater = true,
            () if call.is(at, "LT") => options.only_less = true,
            () if call.is(at, "CH") => options.count_changes = true,
            () if call.is(at, "INCR") => options.increment = true,
            () => break,
        }
        at += 1;
    }
    let words = call.args.len() - at;
    if words == 0 || words % 2 == 1 {
        return Err(SYNTAX.into());
    }
    let ZAddOptions { only_new, only_old, only_greater, only_less, .. } = options;
    if only_new && only_old {
        return Err("ERR XX and NX options at the same time are not compatible".into());
    }
    if u8::from(only_new) + u8::from(only_greater) + u8::from(only_less) > 1 {
        return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
    }
    if options.increment && words > 2 {
        return Err("ERR INCR option supports a single increment-element pair".into());
    }
    Ok((options, at))
}

/// Adds members or changes their scores; replies, and logs the request as it was given.
pub(crate) fn add(
    call: &mut Call<'_>,
    txn: &mut Txn<'_>,
    options: ZAddOptions,
    pairs: &[(f64, &[u8])],
) -> Done {
    let limits = call.engine.config().sorted_set_limits();
    let (db, key, mut tally) = (call.db(), call.key(0), Tally::default());
    let mut edit = txn.sorted_sets().edit(db, &key, limits)?;
    for (score, member) in pairs {
        edit.change(txn, member, |old| tally.decide(options, old, *score))?;
        if tally.is_nan {
            return Err("ERR resulting score is not a number (NaN)".into());
        }
    }
    edit.finish(txn, db, &key)?;
    if tally.added + tally.changed > 0 {
        call.wrote();
        let name = if options.increment { "zincr" } else { "zadd" };
        call.notify(EventClass::SortedSet, name, &key);
    }
    match tally.score {
        Some(score) if options.increment => call.out.double(score),
        None if options.increment => call.out.null(),
        _ => {
            let changed = if options.count_changes { tally.changed } else { 0 };
            call.out.integer((tally.added + changed) as i64);
        }
    }
    Ok(())
}

impl Tally {
    /// Returns the new score of a member, if it gets one.
    fn decide(&mut self, options: ZAddOptions, old: Option<f64>, given: f64) -> Option<f64> {
        self.score = None;
        let Some(old) = old else {
            if options.only_old {
                return None;
            }
            self.added += 1;
            self.score = Some(given);
            return self.score;
        };
        if options.only_new {
            return None;
        }
        let score = if options.increment { old + given } else { given };
        self.is_nan = score.is_nan();
        let is_refused = options.only_less && score >= old || options.only_greater && score <= old;
        if self.is_nan || is_refused {
            return None;
        }
        self.changed += usize::from(score != old);
        self.score = Some(score);
        self.score
    }
}
