//! ZUNION, ZINTER, ZDIFF and their STORE forms, ZINTERCARD.
//!
//! A set counts as a sorted set whose members all have the score 1. Scores are multiplied by the
//! weight of their key, then summed, or their minimum or maximum is taken. All keys are locked at
//! once, so that the answer shows one moment.

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::spec::*;
use keyspace::Txn;

use super::combine::{Aggregate, Input, intersect, subtract, unite};
use super::gathered::GatheredScores;
use super::store::store;
use super::{reply_header, reply_member};

pub(crate) const ZUNION: CommandSpec = CommandSpec {
    name: "zunion",
    summary: "Add multiple sorted sets",
    complexity: "O(N)+O(M*log(M)) with N being the sum of the sizes of the input sorted sets, and M being the number of elements in the resulting sorted set.",
    since: "6.2.0",
    group: Group::SortedSet,
    arity: -3,
    flags: READONLY,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::new(
        Begin::Index(1),
        Find::KeyNum { at: 0, first: 1, step: 1 },
        KEY_RO | KEY_ACCESS,
    )],
    args: &[
        integer("numkeys"),
        key("key", 0).multiple(),
        integer("weight").token("WEIGHTS").optional().multiple(),
        oneof("aggregate", &[token("sum", "SUM"), token("min", "MIN"), token("max", "MAX")])
            .token("AGGREGATE")
            .optional(),
        token("withscores", "WITHSCORES").optional(),
    ],
    weigh: Some(weights::reads_all),
    run: Run::Keys(zunion),
    ..CommandSpec::EMPTY
};

fn zunion(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    show(call, txn, Operation::Union)
}

pub(crate) const ZUNIONSTORE: CommandSpec = CommandSpec {
    name: "zunionstore",
    summary: "Add multiple sorted sets and store the resulting sorted set in a new key",
    complexity: "O(N)+O(M log(M)) with N being the sum of the sizes of the input sorted sets, and M being the number of elements in the resulting sorted set.",
    since: "2.0.0",
    group: Group::SortedSet,
    arity: -4,
    flags: WRITE | DENYOOM,
    acl: ACL_SORTEDSET,
    keys: &[
        KeySpec::one(1, KEY_OW | KEY_UPDATE),
        KeySpec::new(
            Begin::Index(2),
            Find::KeyNum { at: 0, first: 1, step: 1 },
            KEY_RO | KEY_ACCESS,
        ),
    ],
    args: &[
        key("destination", 0),
        integer("numkeys"),
        key("key", 1).multiple(),
        integer("weight").token("WEIGHTS").optional().multiple(),
        oneof("aggregate", &[token("sum", "SUM"), token("min", "MIN"), token("max", "MAX")])
            .token("AGGREGATE")
            .optional(),
    ],
    weigh: Some(weights::stores_all),
    run: Run::Keys(zunionstore),
    ..CommandSpec::EMPTY
};

fn zunionstore(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    keep(call, txn, Operation::Union)
}

pub(crate) const ZINTER: CommandSpec = CommandSpec {
    name: "zinter",
    summary: "Intersect multiple sorted sets",
    complexity: "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number of input sorted sets and M being the number of elements in the resulting sorted set.",
    weigh: Some(weights::intersects),
    run: Run::Keys(zinter),
    ..ZUNION
};

fn zinter(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    show(call, txn, Operation::Intersection)
}

pub(crate) const ZINTERSTORE: CommandSpec = CommandSpec {
    name: "zinterstore",
    summary: "Intersect multiple sorted sets and store the resulting sorted set in a new key",
    complexity: "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number of input sorted sets and M being the number of elements in the resulting sorted set.",
    weigh: Some(weights::intersects_into),
    run: Run::Keys(zinterstore),
    ..ZUNIONSTORE
};

fn zinterstore(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    keep(call, txn, Operation::Intersection)
}

pub(crate) const ZINTERCARD: CommandSpec = CommandSpec {
    name: "zintercard",
    summary: "Intersect multiple sorted sets and return the cardinality of the result",
    complexity: "O(N*K) worst case with N being the smallest input sorted set, K being the number of input sorted sets.",
    since: "7.0.0",
    group: Group::SortedSet,
    arity: -3,
    flags: READONLY,
    acl: ACL_SORTEDSET,
    keys: &[KeySpec::new(
        Begin::Index(1),
        Find::KeyNum { at: 0, first: 1, step: 1 },
        KEY_RO | KEY_ACCESS,
    )],
    args: &[
        integer("numkeys"),
        key("key", 0).multiple(),
        integer("limit").token("LIMIT").optional(),
    ],
    weigh: Some(weights::intersects),
    run: Run::Keys(zintercard),
    ..CommandSpec::EMPTY
};

fn zintercard(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    let (members, _) = combine(call, txn, Operation::Cardinality)?;
    call.out.integer(members.len() as i64);
    Ok(())
}

pub(crate) const ZDIFF: CommandSpec = CommandSpec {
    name: "zdiff",
    summary: "Subtract multiple sorted sets",
    complexity: "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is the size of the first set, and K is the size of the result set.",
    args: &[
        integer("numkeys"),
        key("key", 0).multiple(),
        token("withscores", "WITHSCORES").optional(),
    ],
    run: Run::Keys(zdiff),
    ..ZUNION
};

fn zdiff(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    show(call, txn, Operation::Difference)
}

pub(crate) const ZDIFFSTORE: CommandSpec = CommandSpec {
    name: "zdiffstore",
    summary: "Subtract multiple sorted sets and store the resulting sorted set in a new key",
    complexity: "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is the size of the first set, and K is the size of the result set.",
    since: "6.2.0",
    args: &[key("destination", 0), integer("numkeys"), key("key", 1).multiple()],
    run: Run::Keys(zdiffstore),
    ..ZUNIONSTORE
};

fn zdiffstore(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    keep(call, txn, Operation::Difference)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
    /// The cardinality of the intersection.
    Cardinality,
}

/// The options of a request.
struct Options {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    /// The maximum number of members to count; 0 for all.
    limit: usize,
}

fn show(call: &mut Call<'_>, txn: &mut Txn<'_>, operation: Operation) -> Done {
    let (members, with_scores) = combine(call, txn, operation)?;
    reply_header(call, members.len(), with_scores);
    for (member, score) in members.in_order() {
        reply_member(call, member, score, with_scores);
    }
    Ok(())
}

fn keep(call: &mut Call<'_>, txn: &mut Txn<'_>, operation: Operation) -> Done {
    let (members, _) = combine(call, txn, operation)?;
    let target = call.key(0);
    store(call, txn, &target, members.iter())?;
    call.out.integer(members.len() as i64);
    Ok(())
}

/// Returns the combined members of the keys, in any order, and whether their scores are wanted.
fn combine(
    call: &Call<'_>,
    txn: &mut Txn<'_>,
    operation: Operation,
) -> Result<(GatheredScores, bool), Failure> {
    let stores = call.command.spec.has(WRITE);
    let at = if stores { 2 } else { 1 };
    let number = call.int(at)?;
    if number < 1 {
        let name = call.command.spec.name;
        let text = format!("ERR at least 1 input key is needed for '{name}' command");
        return Err(Failure::text(text));
    }
    let number = usize::try_from(number).ok().filter(|number| *number < call.args.len() - at);
    let number = number.ok_or(SYNTAX)?;
    let keys = &call.keys[at - 1..];
    if stores {
        // An expired source is deleted first, so that a replay, for which nothing expires, reads
        // the same.
        for key in keys {
            txn.find_mut(call.db(), key)?;
        }
    }
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let entry = txn.find(call.db(), key);
        // A wrong type ends the search: the keys after it are not looked up.
        Input::read(txn, entry.as_ref())?;
        found.push(entry);
    }
    let txn: &Txn<'_> = txn;
    let inputs: Result<Vec<Input<'_>>, Failure> =
        found.iter().map(|entry| Input::read(txn, entry.as_ref())).collect();
    let mut inputs = inputs?;
    let options = parse(call, at + 1 + number, number, operation)?;
    for (input, weight) in inputs.iter_mut().zip(&options.weights) {
        input.weight = *weight;
    }
    let members = match operation {
        Operation::Union => unite(inputs, options.aggregate)?,
        Operation::Difference => subtract(&inputs)?,
        Operation::Intersection | Operation::Cardinality => {
            let most = if options.limit == 0 { usize::MAX } else { options.limit };
            intersect(inputs, options.aggregate, most)?
        }
    };
    Ok((members, options.with_scores))
}

/// Parses the options from this argument on, for this many keys.
fn parse(
    call: &Call<'_>,
    from: usize,
    keys: usize,
    operation: Operation,
) -> Result<Options, Failure> {
    let mut options =
        Options { weights: Vec::new(), aggregate: Aggregate::Sum, with_scores: false, limit: 0 };
    let counts = operation == Operation::Cardinality;
    let weighs = !counts && operation != Operation::Difference;
    let shows = !counts && !call.command.spec.has(WRITE);
    let mut at = from;
    while at < call.args.len() {
        let remaining = call.args.len() - at - 1;
        match () {
            () if weighs && remaining >= keys && call.is(at, "WEIGHTS") => {
                options.weights = weights(&call.args[at + 1..=at + keys])?;
                at += keys;
            }
            () if weighs && remaining > 0 && call.is(at, "AGGREGATE") => {
                options.aggregate = Aggregate::parse(call.args[at + 1]).ok_or(SYNTAX)?;
                at += 1;
            }
            () if shows && call.is(at, "WITHSCORES") => options.with_scores = true,
            () if counts && remaining > 0 && call.is(at, "LIMIT") => {
                let limit = resp::number::parse_i64(call.args[at + 1]).filter(|n| *n >= 0);
                options.limit = limit.ok_or("ERR LIMIT can't be negative")? as usize;
                at += 1;
            }
            () => return Err(SYNTAX.into()),
        }
        at += 1;
    }
    Ok(options)
}

fn weights(words: &[&[u8]]) -> Result<Vec<f64>, Failure> {
    let weight = |word: &&[u8]| {
        resp::number::parse_f64(word).ok_or_else(|| "ERR weight value is not a float".into())
    };
    words.iter().map(weight).collect()
}
