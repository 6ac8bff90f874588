//! ZRANDMEMBER: picks members by random ranks, each as likely as any other.

use std::collections::HashSet;

use engine::call::{Call, Run};
use engine::failure::{Done, Failure, SYNTAX};
use engine::spec::*;
use fastrand::Rng;
use keyspace::{SortedSetRef, Txn};

use super::{Scored, reply_header, reply_member, sorted_set};
use crate::collections::random::{MOST_PICKS, SHARE, count};

pub(crate) const ZRANDMEMBER: CommandSpec = CommandSpec {
    name: "zrandmember",
    summary: "Get one or multiple random elements from a sorted set",
    complexity: "O(N) where N is the number of elements returned",
    since: "6.2.0",
    group: Group::SortedSet,
    arity: -2,
    flags: READONLY,
    acl: ACL_SORTEDSET,
    tips: &["nondeterministic_output"],
    keys: &[KeySpec::one(1, KEY_RO | KEY_ACCESS)],
    args: &[
        key("key", 0),
        block("options", &[integer("count"), token("withscores", "WITHSCORES").optional()])
            .optional(),
    ],
    weigh: Some(weights::reads_count),
    run: Run::Keys(zrandmember),
    ..CommandSpec::EMPTY
};

fn zrandmember(call: &mut Call<'_>, txn: &mut Txn<'_>) -> Done {
    if call.args.len() == 2 {
        let picked = match sorted_set(call, txn)? {
            Some(sorted_set) => repeat(&sorted_set, 1, &mut call.session.random)?,
            None => Scored::new(),
        };
        call.out.bulk_or_null(picked.first().map(|(member, _)| member.as_slice()));
        return Ok(());
    }
    let (count, with_scores) = parse(call)?;
    let (picked, draws) = match sorted_set(call, txn)? {
        Some(sorted_set) if draws_of_all(&sorted_set, count) => {
            (all(&sorted_set)?, count.unsigned_abs())
        }
        Some(sorted_set) => (pick(&sorted_set, count, &mut call.session.random)?, 0),
        None => (Scored::new(), 0),
    };
    if draws > 0 && !picked.is_empty() {
        // Each pick is made when it is written: a reply may hold millions.
        reply_header(call, draws as usize, with_scores);
        for _ in 0..draws {
            let (member, score) = &picked[call.session.random.usize(..picked.len())];
            reply_member(call, member, *score, with_scores);
        }
        return Ok(());
    }
    reply_header(call, picked.len(), with_scores);
    for (member, score) in &picked {
        reply_member(call, member, *score, with_scores);
    }
    Ok(())
}

/// Returns true if more picks with repetition are wanted than there are members, or if reading all
/// members is as quick as reading one.
fn draws_of_all(sorted_set: &SortedSetRef<'_>, count: i64) -> bool {
    let wanted = count.unsigned_abs();
    count < 0 && wanted <= MOST_PICKS && (sorted_set.is_listpack() || wanted >= sorted_set.len())
}

fn parse(call: &Call<'_>) -> Result<(i64, bool), Failure> {
    let number = count(call, 2)?;
    match call.args.len() {
        3 => Ok((number, false)),
        4 if call.is(3, "WITHSCORES") => {
            if !(i64::MIN / 2..=i64::MAX / 2).contains(&number) {
                return Err("ERR value is out of range".into());
            }
            Ok((number, true))
        }
        _ => Err(SYNTAX.into()),
    }
}

/// Picks this many different members or, if the number is negative, that many with repetition.
fn pick(sorted_set: &SortedSetRef<'_>, count: i64, random: &mut Rng) -> Result<Scored, Failure> {
    let (wanted, len) = (count.unsigned_abs(), sorted_set.len());
    if count < 0 {
        return repeat(sorted_set, wanted, random);
    }
    if wanted >= len {
        return all(sorted_set);
    }
    if sorted_set.is_listpack() || wanted.saturating_mul(SHARE) > len {
        let (mut all, wanted) = (all(sorted_set)?, wanted as usize);
        for at in 0..wanted.min(all.len()) {
            let other = random.usize(at..all.len());
            all.swap(at, other);
        }
        all.truncate(wanted);
        return Ok(all);
    }
    let mut ranks = HashSet::new();
    while (ranks.len() as u64) < wanted {
        ranks.insert(random.u64(..len));
    }
    ranks.into_iter().map(|rank| at(sorted_set, rank)).collect()
}

fn repeat(sorted_set: &SortedSetRef<'_>, wanted: u64, random: &mut Rng) -> Result<Scored, Failure> {
    if wanted > MOST_PICKS {
        return Err("ERR value is out of range".into());
    }
    if sorted_set.is_listpack() && wanted > 1 {
        let all = all(sorted_set)?;
        return Ok((0..wanted).filter_map(|_| random.choice(&all).cloned()).collect());
    }
    (0..wanted).map(|_| at(sorted_set, random.u64(..sorted_set.len().max(1)))).collect()
}

fn at(sorted_set: &SortedSetRef<'_>, rank: u64) -> Result<(Vec<u8>, f64), Failure> {
    let mut found = (Vec::new(), 0.0);
    sorted_set.visit(rank, false, |member, score| {
        found = (member.to_vec(), score);
        false
    })?;
    Ok(found)
}

fn all(sorted_set: &SortedSetRef<'_>) -> Result<Scored, Failure> {
    let mut all = Scored::new();
    sorted_set.visit(0, false, |member, score| {
        all.push((member.to_vec(), score));
        true
    })?;
    Ok(all)
}
